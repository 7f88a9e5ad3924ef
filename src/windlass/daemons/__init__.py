"""Daemons with a handle: start one, give it events, look at it, stop it, and go on with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.daemons.control import DaemonSnapshot as DaemonSnapshot
    from windlass.daemons.control import daemon_snapshot as daemon_snapshot
    from windlass.daemons.control import daemon_stop as daemon_stop
    from windlass.daemons.control import daemon_trigger as daemon_trigger
    from windlass.daemons.handle import DaemonHandle as DaemonHandle
    from windlass.daemons.start import daemon_resume as daemon_resume
    from windlass.daemons.start import daemon_spawn as daemon_spawn
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "DaemonHandle": "daemons.handle",
            "DaemonSnapshot": "daemons.control",
            "daemon_resume": "daemons.start",
            "daemon_snapshot": "daemons.control",
            "daemon_spawn": "daemons.start",
            "daemon_stop": "daemons.control",
            "daemon_trigger": "daemons.control",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "DaemonHandle",
    "DaemonSnapshot",
    "daemon_resume",
    "daemon_snapshot",
    "daemon_spawn",
    "daemon_stop",
    "daemon_trigger",
]

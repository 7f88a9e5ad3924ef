"""Observers of a run: OpenTelemetry, callbacks, tool sinks, transcript files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.observe.trace_events import TraceEvent as TraceEvent
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "TraceEvent": "observe.trace_events",
        },
    )

# Written by scripts/make_stub.py.
__all__ = ["TraceEvent"]

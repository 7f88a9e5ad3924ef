"""Runs in the background: submission, handles, and the engines that drive them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.fleet.handle import RunHandle as RunHandle
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "RunHandle": "fleet.handle",
        },
    )

# Written by scripts/make_stub.py.
__all__ = ["RunHandle"]

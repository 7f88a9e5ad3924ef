"""Mutants that nobody could notice, each with the reason. A name that is gone makes the run fail."""

from __future__ import annotations

_SHORTCUT = "options that have a quicker way to the same plan; without it only time is lost"

EQUIVALENT: dict[str, str] = {
    "model@assemble:_FEW": _SHORTCUT,
    "tools@assemble:_FEW": _SHORTCUT,
    "max_iterations@assemble:_FEW": _SHORTCUT,
    "name@assemble:_FEW": _SHORTCUT,
}

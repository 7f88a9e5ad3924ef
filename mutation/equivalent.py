"""Mutants that nobody could notice, each with the reason. A name that is gone makes the run fail."""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}

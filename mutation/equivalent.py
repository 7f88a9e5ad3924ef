"""Mutants that nobody could notice, each with the reason."""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}

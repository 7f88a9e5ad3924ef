"""Mutants that nobody could notice, each with the reason. A name that is gone makes the run fail."""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {
    "budget.per": "a run refuses it when its options are checked; a Runtime, which takes it, has no"
    " options that are checked here (tests/stories/test_budget_period.py)",
}

"""Profiles: a word for how long and how stubbornly a loop works. What is said explicitly wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: Models behind a network are asked up to two times more by every profile, as without one.
PROFILES: Final[Mapping[str, Mapping[str, int]]] = {
    "tool_using": {"max_iterations": 50, "max_nudges": 8, "tool_retries": 0, "schema_retries": 0},
    "researcher": {"max_iterations": 30, "max_nudges": 4, "tool_retries": 0, "schema_retries": 0},
    "verifier": {"max_iterations": 5, "max_nudges": 0, "tool_retries": 0, "schema_retries": 3},
    "completer": {"max_iterations": 1, "max_nudges": 0, "tool_retries": 0, "schema_retries": 0},
}
BARE: Final = "_bare"  # where the options stand as they were given, for whoever changes them


def with_profile(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options, and below them those of the profile that they name."""
    name = options.get("profile")
    if name is None:
        return options
    usual = dict(PROFILES[name])
    budget = options.get("budget")
    if budget is not None and budget.iterations is not None:
        del usual["max_iterations"]  # the same limit by another name
    return {**usual, **options, BARE: options}

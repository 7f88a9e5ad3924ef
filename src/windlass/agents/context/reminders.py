"""The options of reminders, and the policy that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from windlass.agents.context.about import About
from windlass.loop.policy import Policy


class ReminderOptions(TypedDict, total=False):
    """What the model is reminded of."""


CHECKS: dict[str, Callable[[str, Any], Any]] = {}


def policies(about: About) -> list[Policy[Any]]:
    """The policies that these options ask for."""
    return []

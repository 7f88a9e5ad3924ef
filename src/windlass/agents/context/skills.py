"""The options of skills, and the policy that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from windlass.agents.context.about import About
from windlass.loop.policy import Policy


class SkillOptions(TypedDict, total=False):
    """Which skills there are, and how they are chosen."""


CHECKS: dict[str, Callable[[str, Any], Any]] = {}


def policies(about: About) -> list[Policy[Any]]:
    """The policies that these options ask for."""
    return []

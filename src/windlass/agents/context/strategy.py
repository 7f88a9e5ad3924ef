"""The context strategy of an agent, and the policy that it asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from windlass.agents.context.about import About
from windlass.loop.policy import Policy


class StrategyOptions(TypedDict, total=False):
    """How a conversation is kept short, in the manner of a runner."""


CHECKS: dict[str, Callable[[str, Any], Any]] = {}


def policies(about: About) -> list[Policy[Any]]:
    """The policies that these options ask for."""
    return []

"""The options of projection, callbacks and decorators, and the policies that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from windlass.agents.context.about import About
from windlass.loop.policy import Policy


class ShapingOptions(TypedDict, total=False):
    """How messages are shown."""


CHECKS: dict[str, Callable[[str, Any], Any]] = {}


def policies(about: About) -> list[Policy[Any]]:
    """The policies that these options ask for."""
    return []

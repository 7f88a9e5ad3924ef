"""The options of the surface (narrowing, prompts), and the policies that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from windlass.agents.context.about import About
from windlass.loop.policy import Policy


class SurfaceOptions(TypedDict, total=False):
    """Which tools and which prompts the model is shown."""


CHECKS: dict[str, Callable[[str, Any], Any]] = {}


def policies(about: About) -> list[Policy[Any]]:
    """The policies that these options ask for."""
    return []

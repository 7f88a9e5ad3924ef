"""The option of agents that gives them tools to control workers."""

from __future__ import annotations

from typing import Annotated

from windlass.options.checks import boolean
from windlass.options.group import Option, OptionGroup


class WorkerOptions(OptionGroup, frozen=True, kw_only=True):
    """Tools that control workers."""

    subagents: Annotated[bool, Option(boolean, aliases=("subagent_tools",))] = False
    """Give the model tools that pause, resume and stop the workers of its session."""

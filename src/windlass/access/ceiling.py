"""The ceiling of an agent: which tools, and how far their effects may reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from windlass.globs import match_name
from windlass.options.checks import one_of, optional, texts
from windlass.options.group import Option, OptionStruct

#: From harmless to far-reaching. A tool without a level counts as the last.
LEVELS: Final = ("none", "read_only", "workspace_write", "process_exec", "network")


class Ceiling(OptionStruct, frozen=True, kw_only=True):
    """The most that an agent may do; no permission and no person can allow more.

    `policy={"tools": ["read_*"], "side_effect_level": "read_only"}`
    """

    tools: Annotated[tuple[str, ...] | None, Option(optional(texts))] = None
    """Globs over the names of tools that may be called; None: all."""
    side_effect_level: Annotated[str | None, Option(optional(one_of(*LEVELS)))] = None
    """The highest level of side effects that a tool may have."""

    def refusal(self, tool: str, annotations: Mapping[str, Any]) -> str | None:
        """Return why the tool is above the ceiling, or None."""
        if self.tools is not None and not match_name(self.tools, tool):
            return f"{tool} is not among the tools of this agent's policy"
        if self.side_effect_level is None:
            return None
        level = annotations.get("side_effect_level")
        if level not in LEVELS:
            level = LEVELS[-1]
        if LEVELS.index(level) <= LEVELS.index(self.side_effect_level):
            return None
        return f"{tool} may reach {level}, and this agent's policy ends at {self.side_effect_level}"

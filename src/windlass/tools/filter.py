"""The choice of an agent's tools: the allowed ones, without the denied and those that no agent may use.

A contradiction is no error: what is denied stays denied, and the caller is warned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final

from windlass.errors import nearest
from windlass.options.checks import optional, texts
from windlass.options.group import AGENTS, Door, Option, OptionGroup
from windlass.tools.tool import Tool

AGENT_FRAMEWORK_DISALLOWED: Final[list[str]] = []
"""Names of tools that no agent may use, whoever brings them."""


class ToolFilterOptions(OptionGroup, frozen=True, kw_only=True):
    """Allowed and disallowed tools."""

    doors: ClassVar[frozenset[Door]] = AGENTS

    allowed_tools: Annotated[
        tuple[str, ...] | None, Option(optional(texts), accepts="Sequence[str] | None")
    ] = None
    """Names of the tools that the agent may use; None: all."""
    disallowed_tools: Annotated[
        tuple[str, ...] | None, Option(optional(texts), accepts="Sequence[str] | None")
    ] = None
    """Names of tools that the agent may not use, also if a policy adds them."""


def filter_tools(options: ToolFilterOptions, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Choose the tools that `allowed_tools` and `disallowed_tools` leave.

    Tools that a policy brings into a run are not of this list: only the denied ones are kept out.
    """
    left = frozenset(filter_names(options, [tool.name for tool in tools]))
    return tuple([tool for tool in tools if tool.name in left])


def filter_names(options: ToolFilterOptions, names: Sequence[str]) -> list[str]:
    """Choose the names that are allowed, not denied, and not denied to every agent."""
    allowed, denied = options.allowed_tools, collect_denied(options)
    return [name for name in names if (allowed is None or name in allowed) and name not in denied]


def collect_denied(options: ToolFilterOptions) -> frozenset[str]:
    """Return the names of tools that a run may not have, whoever brings them."""
    return frozenset([*(options.disallowed_tools or ()), *AGENT_FRAMEWORK_DISALLOWED])


def find_filter_problems(
    options: ToolFilterOptions, names: Sequence[str], *, has_preset: bool, more_may_come: bool
) -> tuple[str, ...]:
    """List unknown names and contradictions in `allowed_tools` and `disallowed_tools`.

    `more_may_come`: there are policies that bring tools, so that a denied name may be one of theirs.
    """
    allowed, denied = options.allowed_tools or (), options.disallowed_tools or ()
    problems: list[str] = []
    if has_preset and options.allowed_tools is not None:
        problems.append(
            "tool_preset and allowed_tools are both set: final access is the intersection"
        )
    problems += _find_unknown("allowed_tools", allowed, names)
    if not more_may_come:
        problems += _find_unknown("disallowed_tools", denied, names)
    both = [name for name in dict.fromkeys(allowed) if name in denied]
    if both:
        listed = ", ".join(map(repr, both))
        problems.append(
            f"{listed} in both allowed_tools and disallowed_tools: what is denied stays denied"
        )
    if names and not filter_names(options, names):
        problems.append("allowed_tools and disallowed_tools leave none of the tools")
    return tuple(problems)


def _find_unknown(option: str, asked: Sequence[str], known: Sequence[str]) -> list[str]:
    return [
        f"{option} names {name!r}, which no tool is{nearest(name, known)}"
        for name in dict.fromkeys(asked)
        if name not in known
    ]

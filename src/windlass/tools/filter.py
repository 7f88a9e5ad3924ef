"""The choice of an agent's tools: first the allowed ones, then all but the denied.

A contradiction is no error: what is denied stays denied, and the caller is warned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from windlass.errors import nearest
from windlass.options.checks import optional, texts
from windlass.options.group import AGENTS, Door, Option, OptionGroup
from windlass.tools.tool import Tool


class ToolFilterOptions(OptionGroup, frozen=True, kw_only=True):
    """Allowed and disallowed tools."""

    doors: ClassVar[frozenset[Door]] = AGENTS

    allowed_tools: Annotated[
        tuple[str, ...] | None, Option(optional(texts), accepts="Sequence[str] | None")
    ] = None
    """Names of the tools that it may use; None: all of them."""
    disallowed_tools: Annotated[
        tuple[str, ...] | None, Option(optional(texts), accepts="Sequence[str] | None")
    ] = None
    """Names of tools that it may not use, whoever brings them."""


def filter_tools(options: ToolFilterOptions, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Choose the tools that `allowed_tools` and `disallowed_tools` leave.

    Tools that a policy brings into a run are not of this list: only the denied ones are kept out.
    """
    allowed, denied = options.allowed_tools, options.disallowed_tools or ()
    return tuple(
        [
            tool
            for tool in tools
            if (allowed is None or tool.name in allowed) and tool.name not in denied
        ]
    )


def find_filter_problems(
    options: ToolFilterOptions, tools: tuple[Tool, ...], *, more_may_come: bool
) -> tuple[str, ...]:
    """List unknown names and contradictions in `allowed_tools` and `disallowed_tools`.

    `more_may_come`: there are policies that bring tools, so that a denied name may be one of theirs.
    """
    allowed, denied = options.allowed_tools or (), options.disallowed_tools or ()
    problems = _unknown("allowed_tools", allowed, tools)
    if not more_may_come:
        problems += _unknown("disallowed_tools", denied, tools)
    both = [name for name in dict.fromkeys(allowed) if name in denied]
    if both:
        names = ", ".join(map(repr, both))
        problems.append(
            f"{names} in both allowed_tools and disallowed_tools: what is denied stays denied"
        )
    if tools and not filter_tools(options, tools):
        problems.append("allowed_tools and disallowed_tools leave none of the tools")
    return tuple(problems)


def _unknown(option: str, names: Sequence[str], tools: Sequence[Tool]) -> list[str]:
    known = [tool.name for tool in tools]
    return [
        f"{option} names {name!r}, which no tool is{nearest(name, known)}"
        for name in dict.fromkeys(names)
        if name not in known
    ]

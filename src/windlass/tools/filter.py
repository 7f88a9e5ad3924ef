"""The choice of an agent's tools: first the allowed ones, then all but the denied.

A contradiction is no error: what is denied stays denied, and the caller is warned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from windlass.errors import nearest
from windlass.options.checks import optional, texts
from windlass.options.group import AGENTS, Door, Option, OptionGroup
from windlass.tools.tool import Tool


class ToolFilterOptions(OptionGroup, frozen=True, kw_only=True):
    """Which of its tools an agent may use."""

    doors: ClassVar[frozenset[Door]] = AGENTS

    allowed_tools: Annotated[
        tuple[str, ...] | None, Option(optional(texts), accepts="Sequence[str] | None")
    ] = None
    """Names of the tools that it may use; None: all of them."""
    disallowed_tools: Annotated[
        tuple[str, ...] | None, Option(optional(texts), accepts="Sequence[str] | None")
    ] = None
    """Names of tools that it may not use, whoever brings them."""


class Choice(msgspec.Struct, frozen=True):
    """The tools that are left, those that may not be added later, and warnings."""

    tools: tuple[Tool, ...]
    denied: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def filter_tools(
    options: ToolFilterOptions, tools: tuple[Tool, ...], *, more_may_come: bool
) -> Choice:
    """Choose the tools that `allowed_tools` and `disallowed_tools` leave.

    Tools that a policy brings into a run are not of this list: only the denied ones are kept out.
    `more_may_come`: there are such policies, so that a denied name may be one of theirs.
    """
    allowed = options.allowed_tools
    denied = options.disallowed_tools or ()
    if allowed is None and not denied:
        return Choice(tools)
    warnings = _unknown("allowed_tools", allowed or (), tools)
    if not more_may_come:
        warnings += _unknown("disallowed_tools", denied, tools)
    both = [name for name in dict.fromkeys(allowed or ()) if name in denied]
    if both:
        names = ", ".join(map(repr, both))
        warnings.append(
            f"{names} in both allowed_tools and disallowed_tools: what is denied stays denied"
        )
    left = tuple(
        tool
        for tool in tools
        if (allowed is None or tool.name in allowed) and tool.name not in denied
    )
    if tools and not left:
        warnings.append("allowed_tools and disallowed_tools leave none of the tools")
    return Choice(left, frozenset(denied), tuple(warnings))


def _unknown(option: str, names: Sequence[str], tools: Sequence[Tool]) -> list[str]:
    known = [tool.name for tool in tools]
    return [
        f"{option} names {name!r}, which no tool is{nearest(name, known)}"
        for name in dict.fromkeys(names)
        if name not in known
    ]

"""Which of its tools an agent may use: first the allowed ones, then all but the denied.

A contradiction is no error: what is denied stays denied, and whoever asked for it is warned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from windlass.errors import nearest
from windlass.tools.tool import Tool

FILTERS: Final = frozenset({"allowed_tools", "disallowed_tools"})


class Choice(NamedTuple):
    """The tools that are left, those that nobody may add later, and what is odd about it."""

    tools: tuple[Tool, ...]
    denied: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def filter_tools(options: Mapping[str, Any], tools: tuple[Tool, ...]) -> Choice:
    """What `allowed_tools` and `disallowed_tools` leave of the tools.

    Tools that a policy brings into a run are not of this list: only the denied ones are kept out.
    """
    allowed: tuple[str, ...] | None = options.get("allowed_tools")
    denied: tuple[str, ...] = options.get("disallowed_tools") or ()
    if allowed is None and not denied:
        return Choice(tools)
    warnings = _unknown("allowed_tools", allowed or (), tools)
    if not options.get("policies"):  # which may bring a tool of that name
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

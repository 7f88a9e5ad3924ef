"""The options of tools: which there are, how they are called, how long they may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from windlass.loop.plan import MAX_CALLS_PER_REPLY
from windlass.options.checks import anything, boolean, number, one_of, optional
from windlass.options.group import CALLS, Flag, Option, OptionGroup
from windlass.tools.function import as_tools

if TYPE_CHECKING:
    from collections.abc import Iterable as Iterable
    from collections.abc import Sequence as Sequence

    from windlass.tools.source import ToolLike as ToolLike
    from windlass.tools.tool import Tool as Tool

TOOL_TIMEOUT = 120.0


def list_given_tools(tools: object) -> list[object]:
    """Return the tools that were given, in a list that others can join; names stay names."""
    if tools is None:
        return []
    if isinstance(tools, (list, tuple)):
        return list(cast("Sequence[object]", tools))
    return list(as_tools(tools))


class ToolOptions(OptionGroup, frozen=True, kw_only=True):
    """Tools: which there are, and how they are called."""

    tools: Annotated[
        Any,
        Option(
            anything,
            doors=CALLS,
            accepts="Sequence[ToolLike] | Iterable[Tool] | None",
            flags=(
                Flag(
                    names=("--tools", "-t"),
                    metavar="MODULE:FUNCTION",
                    repeats=True,
                    note="Modules of this folder count, too. May be repeated.",
                ),
            ),
        ),
    ] = None
    """The tools that the model may call. Functions, `Tool`s, registries, `"module:function"`."""
    tool_format: Annotated[
        Literal["native", "text"] | None, Option(optional(one_of("native", "text")))
    ] = None
    """Whether calls are native or written as text; None: native if the model can."""
    tool_timeout: Annotated[float | None, Option(optional(number(0)))] = TOOL_TIMEOUT
    """Seconds of a tool call, unless the tool has its own limit; None: no limit."""
    tool_arg_validation: Annotated[
        Literal["strict", "lenient", "none"], Option(one_of("strict", "lenient", "none"))
    ] = "strict"
    """How arguments are checked before a call."""
    max_concurrent_tools: Annotated[int | None, Option(number(1, whole=True))] = None
    """Calls that run at the same time: 16 for an agent, 1 for `agent_loop`."""
    max_calls_per_reply: Annotated[int, Option(number(1, whole=True))] = MAX_CALLS_PER_REPLY
    """Calls of one reply that may run; the others are refused."""
    eager_tools: Annotated[bool, Option(boolean)] = True
    """Whether calls that only read start while the reply is still streaming."""

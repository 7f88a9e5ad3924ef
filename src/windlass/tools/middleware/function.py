"""A tool behind a function of yours: it may run the call, inspect it, or answer itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, NamedTuple

from windlass.errors import ConfigError, TestBroken, safe_repr
from windlass.json_types import JsonObject, as_given
from windlass.messages import ToolResult
from windlass.tools.middleware.base import ToolWrapper
from windlass.tools.middleware.call_info import asked_call
from windlass.tools.tool import Parked, Tool, ToolContext


class _AtWork(NamedTuple):
    """The call that a function is asked about."""

    tool: Tool
    arguments: JsonObject
    ctx: ToolContext[Any]


_at_work: ContextVar[_AtWork | None] = ContextVar("windlass_tool_call", default=None)


class Behind(ToolWrapper):
    """A tool behind `function(call)`. What the function raises is the call's error result."""

    __slots__ = ("function",)

    def __init__(self, inner: Tool, function: Callable[[Any], Any]) -> None:
        super().__init__(inner)
        self.function = function

    async def call(self, arguments: JsonObject, ctx: ToolContext[Any]) -> ToolResult | Parked:
        """Return the function's answer; cancellation passes."""
        before = _at_work.set(_AtWork(self.inner, arguments, ctx))
        try:
            answer = self.function(asked_call(self.inner, arguments, ctx))
            if isawaitable(answer):
                answer = await answer
            return self._finish(answer)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._fail(error, ctx)
        except (KeyboardInterrupt, GeneratorExit, TestBroken):
            raise
        except BaseException as error:
            return self._fail(error, ctx)
        finally:
            _at_work.reset(before)


async def run_next(
    call: Mapping[str, Any], wrap: Callable[[Tool], Tool] | None = None
) -> ToolResult | Parked:
    """Run the call that a function was asked about: `next` in a tool caller.

    What was decided is what runs: a call with another name or other arguments is refused.
    """
    work = _at_work.get()
    if work is None:
        raise ConfigError("a tool caller runs inside a run: hand it over as tool_caller=…")
    if not isinstance(as_given(call), Mapping):
        raise ConfigError(f"a tool caller is asked with a call, not {safe_repr(call)}")
    if call.get("name") != work.tool.name or call.get("arguments") != work.arguments:
        raise ConfigError(
            "a tool caller runs a call as it was decided; a policy's before_tool may change it"
        )
    tool = work.tool if wrap is None else wrap(work.tool)
    return await tool.call(work.arguments, work.ctx)

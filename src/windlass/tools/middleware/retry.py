"""Retries of a failed tool, where nothing can happen twice.

Failed is what came to its end and said so: the handler raised, or answered with an error. A call
that was stopped at its time limit did not come to its end. Nobody knows what it has done, so it is
tried again only if it just reads, or runs under a key; and never while its thread may be at work.
What the model must mend (arguments, a `Retry`) and what somebody refused is not tried again at all.
"""

from __future__ import annotations

import asyncio
from typing import Any

from windlass import seams
from windlass.json_types import JsonObject
from windlass.messages import ToolResult
from windlass.tools.middleware.base import ToolWrapper
from windlass.tools.result import timed_out
from windlass.tools.tool import Parked, Tool, ToolContext

_DOUBLINGS = 4  # the fifth pause and all after it are as long as sixteen of the first


class Retrying(ToolWrapper):
    """A tool with `retries` more attempts, after pauses of `backoff` seconds that double."""

    __slots__ = ("backoff", "limit", "retries")

    def __init__(self, inner: Tool, retries: int, backoff: float, limit: float | None) -> None:
        super().__init__(inner)
        self.retries, self.backoff = retries, backoff
        self.limit = inner.timeout if inner.timeout is not None else limit  # of one attempt
        if self.limit is not None:
            pauses = sum(self._pause(attempt) for attempt in range(1, retries + 1))
            self.timeout = self.limit * (retries + 1) + pauses + 1

    async def call(self, arguments: JsonObject, ctx: ToolContext[Any]) -> ToolResult | Parked:
        """Return the result of the last attempt. Attempts before a crash count too."""
        while True:
            result = await self._attempt(arguments, ctx)
            attempt = ctx.attempt
            if attempt > self.retries or isinstance(result, Parked) or not self._may_repeat(result):
                return result
            if not ctx.scope.again(ctx.call_id, self, attempt + 1):
                return result
            await seams.sleep(self._pause(attempt))
            ctx = _next(ctx)

    async def _attempt(self, arguments: JsonObject, ctx: ToolContext[Any]) -> ToolResult | Parked:
        clock = asyncio.timeout(self.limit)
        try:
            async with clock:
                return await self.inner.call(arguments, ctx)
        except TimeoutError:
            if not clock.expired():
                raise
            assert self.limit is not None
            return timed_out(self.name, self.effect, self.limit)

    def _may_repeat(self, result: ToolResult) -> bool:
        if not result.is_error or self.annotations.get("idempotent") is False:
            return False
        if result.outcome == "timeout":
            return self.is_async and self.effect in ("read_only", "keyed")
        return result.outcome == "error"

    def _pause(self, attempt: int) -> float:
        return self.backoff * 2 ** min(attempt - 1, _DOUBLINGS)


def _next(ctx: ToolContext[Any]) -> ToolContext[Any]:
    return ToolContext(
        ctx.deps,
        ctx.caller,
        ctx.session_id,
        ctx.run_id,
        ctx.call_id,
        ctx.tool_name,
        ctx.scope,
        ctx.attempt + 1,
        ctx.decided,
    )

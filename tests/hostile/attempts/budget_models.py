"""Models that count for themselves what they were made to spend, whatever the books say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import windlass as w
from windlass.models.estimates import estimate_reply, estimate_request
from windlass.testing import call

USD = 0.001  # a token of the plain model
TIGHT, LOOSE = 0.4, 100.0  # dollars: 400 tokens, and no end of them


class World:
    """What was really spent in one attempt."""

    def __init__(self) -> None:
        self.tokens, self.usd, self.asked = 0, 0.0, 0

    def spend(self, tokens: int, usd: float) -> None:
        self.tokens += tokens
        self.usd += tokens * usd

    def model(self, **how: Any) -> Spender:
        """Build a model with spending that counts here."""
        return Spender(self, **how)


class Spender(w.Model):
    """Writes as much as it may, up to `wants` tokens; its prompt costs what the estimate says.

    `says` gives the blocks of the reply; `cuts` breaks each reply off after some words, `hangs`
    waits for ever after them. `lies` is the usage it reports in place of the true one.
    """

    provider = "spender"

    def __init__(
        self,
        world: World,
        *,
        name: str = "plain",
        usd: float = USD,
        wants: int = 120,
        says: Callable[[w.Request, int], Any] | None = None,
        cuts: BaseException | None = None,
        hangs: bool = False,
        lies: Any = None,
        heeds: bool = True,
        remote: bool = False,
    ) -> None:
        self.world, self.name, self.usd, self.wants = world, name, usd, wants
        self.says, self.cuts, self.hangs, self.lies = says, cuts, hangs, lies
        self.heeds, self.remote, self.asked = heeds, remote, 0
        self.shown = asyncio.Event()

    def price(self, usage: w.Usage) -> float:
        if usage.cost_usd is not None:
            return usage.cost_usd
        return usage.total_tokens * self.usd

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.asked += 1
        self.world.asked += 1
        inputs = estimate_request(request)
        await asyncio.sleep(0)
        if self.cuts is not None or self.hangs:
            words = "some words of a reply that breaks off "
            part = estimate_reply(w.Message("assistant", words))
            self.world.spend(inputs + part, self.usd)
            emit(w.TextDelta(words))
            self.shown.set()
            if self.cuts is not None:
                raise self.cuts
            await asyncio.Event().wait()
        most = request.settings.max_tokens
        outputs = self.wants if most is None or not self.heeds else min(self.wants, most)
        self.world.spend(inputs + outputs, self.usd)
        said = self.says(request, self.asked) if self.says is not None else "word"
        content = (said,) if isinstance(said, w.ToolCall) else said
        usage = w.Usage(inputs, outputs) if self.lies is None else self.lies
        reason = "tool_use" if isinstance(said, w.ToolCall) else "end_turn"
        if self.lies is w.Usage:
            # what nobody counts is estimated from the words: they must be as many as it says
            content = "word " * (outputs * 4 // 5)
            usage = w.Usage()
        return w.Response(w.Message("assistant", content), usage, reason)


def calling(name: str = "look", times: int = 1000, **arguments: Any) -> Any:
    """Build replies that call a tool so many times, and then end."""

    def says(request: w.Request, number: int) -> Any:
        done = sum(1 for message in request.messages if message.role == "assistant")
        if done >= times or not request.tools:
            return "done"
        made = call(name, **arguments)
        return w.ToolCall(f"call_{number}_{done}", made.name, made.arguments)

    return says


@w.tool(side_effect_level="none")
async def look() -> str:
    """Look."""
    return "seen"


@w.tool(side_effect_level="none")
async def long_look() -> str:
    """Look at a lot."""
    return "seen it " * 40

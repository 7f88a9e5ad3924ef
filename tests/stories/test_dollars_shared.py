"""Runs that share dollars: whoever comes second waits for the first to settle, and is not refused."""

from __future__ import annotations

import asyncio
from typing import Any

import windlass as w


class Priced(w.Model):
    """A tenth of a cent for every token, whoever writes it; it answers when it is told to."""

    provider, name = "priced", "priced"

    def __init__(self) -> None:
        self.asked = 0
        self.settle = asyncio.Event()

    def price(self, usage: w.Usage) -> float:
        return (usage.input_tokens + usage.output_tokens) / 1000

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.asked += 1
        await self.settle.wait()
        return w.Response(w.Message("assistant", "ok"), w.Usage(10, 10))


async def test_a_question_that_does_not_fit_beside_its_sibling_waits_for_it():
    """The first holds most of the budget back and spends little of it: there is room afterwards."""
    model = Priced()
    async with w.Runtime(store="memory:", budget=w.Budget(usd=1.0), environ={}):
        agent = w.Agent(model, max_tokens=900)
        long = (
            "x" * 600
        )  # 150 tokens: with the 0.9 that are held back the question alone is too dear
        runs = [asyncio.create_task(agent.run(prompt)) for prompt in ("go", long)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert model.asked == 1
        assert not runs[1].done()
        model.settle.set()
        outs = await asyncio.gather(*runs)
    assert [out.status for out in outs] == ["done", "done"]


async def test_once_it_is_spent_the_one_who_waited_is_refused():
    model = Priced()
    async with w.Runtime(store="memory:", budget=w.Budget(usd=0.02), environ={}):
        agent = w.Agent(model, max_tokens=900)
        runs = [asyncio.create_task(agent.run("go")) for _ in range(2)]
        for _ in range(10):
            await asyncio.sleep(0)
        model.settle.set()
        outs = await asyncio.gather(*runs)
    assert [out.status for out in outs] == ["done", "budget_exhausted"]
    assert model.asked == 1

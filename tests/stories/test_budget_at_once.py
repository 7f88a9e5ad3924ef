"""Calls at the same time under one limit: what is held back for one is not there for another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from tests.stories.test_budget import priced
from windlass.engine.environment import current_environment
from windlass.events import BudgetExhausted, Replied
from windlass.loop.spend import spending_of
from windlass.testing import call, run_virtual, scripted

HIDDEN = {"input_tokens": 1000, "output_tokens": 20}  # of a prompt of a few characters


class Slow(w.Model):
    """A dollar for a thousand tokens; it writes as much as it may, for a second."""

    provider, name = "slow", "slow"

    def __init__(self, words: int = 1000) -> None:
        self.words = words
        self.asked: list[int | None] = []
        self.most = self.now = 0  # at the same time

    def price(self, usage: w.Usage) -> float:
        return (usage.input_tokens + usage.output_tokens) / 1000

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        limit = request.settings.max_tokens
        self.asked.append(limit)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(1)
        self.now -= 1
        said = self.words if limit is None else min(limit, self.words)
        reason: Any = "max_tokens" if said < self.words else "end_turn"
        return w.Response(w.Message("assistant", "x" * 8), w.Usage(1, said), reason)


# --------------------------------------------------------------------------- with_budget


def test_fifty_calls_of_a_dollar_do_not_pass_a_layer_of_one():
    async def story() -> None:
        layer, model = w.with_budget(usd=1), Slow(words=999)
        outs = await asyncio.gather(
            *[w.llm_call("hi", model=model, llm_caller=layer) for _ in range(50)],
            return_exceptions=True,
        )
        refused = [out for out in outs if isinstance(out, w.BudgetExceeded)]
        assert len(refused) == 49 and len(model.asked) == 1
        assert layer.used_usd <= 1.0 and layer.made == 1

    run_virtual(story())


def test_calls_that_fit_together_are_made_together():
    async def story() -> None:
        layer, model = w.with_budget(usd=1), Slow(words=20)
        await w.llm_call("hi", model=model, llm_caller=layer, max_tokens=20)
        await asyncio.gather(
            *[w.llm_call("hi", model=model, llm_caller=layer, max_tokens=20) for _ in range(20)]
        )
        assert layer.made == 21 and model.most > 10
        assert layer.used_usd <= 1.0

    run_virtual(story())


def test_a_layer_s_calls_are_counted_at_once():
    async def story() -> None:
        layer, model = w.with_budget(calls=3), Slow()
        outs = await asyncio.gather(
            *[w.llm_call("hi", model=model, llm_caller=layer) for _ in range(9)],
            return_exceptions=True,
        )
        assert sum(isinstance(out, w.BudgetExceeded) for out in outs) == 6
        assert len(model.asked) == 3

    run_virtual(story())


def test_a_reply_that_a_layer_cut_short_ends_the_run():
    async def story() -> None:
        out = await w.agent_loop("hi", model=Slow(), llm_caller=w.with_budget(usd=0.5))
        assert (out.status, out.stop_reason, out.final_text) == (
            "budget_exhausted",
            "usd",
            "x" * 8,
        )
        whole = await w.agent_loop("hi", model=Slow(), llm_caller=w.with_budget(usd=5))
        assert whole.status == "done"

    run_virtual(story())


# --------------------------------------------------------------------------- children


@pytest.mark.parametrize("max_tokens", [None, 50])
def test_parallel_children_do_not_err_all_at_once(max_tokens: int | None):
    """Their prompts are dearer than anybody can see; after the first, that is known."""

    async def story() -> None:
        more: Any = {} if max_tokens is None else {"max_tokens": max_tokens}
        model = scripted(then="dug", usage=HIDDEN, delay=1)
        child = w.Agent(model, name="child", **more)
        calls = [call("child", task=str(number)) for number in range(8)]
        boss = scripted(calls, "done", usage={"input_tokens": 1, "output_tokens": 1})
        out = await w.agent_loop(
            "go", model=boss, tools=[child.as_tool()], token_budget=1500, max_concurrent_tools=8
        )
        assert out.status == "budget_exhausted"
        assert out.usage.total_tokens <= 1500 + 1020
        assert len(model.requests) <= 2
        await kept(out)

    run_virtual(story())


def test_children_that_fit_run_side_by_side():
    async def story() -> None:
        model = Slow(words=20)
        child = w.Agent(model, name="child", max_tokens=50)
        calls = [call("child", task=str(number)) for number in range(8)]
        boss = scripted(calls, "done", usage={"input_tokens": 1, "output_tokens": 1})
        out = await w.agent_loop(
            "go", model=boss, tools=[child.as_tool()], token_budget=2000, max_concurrent_tools=8
        )
        assert (out.status, len(model.asked), model.most) == ("done", 8, 7)

    run_virtual(story())


class Second(Slow):
    """When it is asked, it looks at what is stored of the run that spends from the same limit."""

    name = "second"

    def __init__(self, other: str) -> None:
        super().__init__(words=20)
        self.other = other
        self.held: list[int] = []

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        store = current_environment().store
        [child] = [info.id for info in await store.sessions() if info.title == self.other]
        self.held.append(spending_of(await store.read(child)).tree_usage.total_tokens)
        return await super().respond(request, emit)


@pytest.mark.parametrize("fails", [False, True])
def test_what_one_gives_back_is_on_record_before_another_spends_it(fails: bool):
    """Else it would be spent twice over a death: by the other, and by the reserve on record."""

    class First(Slow):
        async def respond(self, request: w.Request, emit: Any) -> w.Response:
            if fails and len(self.asked) == 0:
                self.asked.append(None)
                raise w.Overloaded("not now")
            return await super().respond(request, emit)

    async def story() -> None:
        retry = w.with_retry(max_attempts=2, backoff_ms=60_000)
        first = w.Agent(First(words=20), name="first", llm_caller=retry)
        looks = Second("one")
        second = w.Agent(looks, name="second")
        calls = [call("first", task="one"), call("second", task="two")]
        boss = scripted(calls, "done", usage=w.Usage(1, 1))
        tools = [first.as_tool(), second.as_tool()]
        async with w.Runtime(store="memory:", environ={}):
            out = await w.Agent(boss, tools=tools, budget=w.Budget(tokens=500)).run("go")
        assert [record.outcome for record in out.tool_calls] == ["ok", "ok"]
        assert looks.held == [0 if fails else 21]

    run_virtual(story())


# --------------------------------------------------------------------------- before the call


async def test_a_question_of_too_many_tokens_is_not_asked():
    model = scripted("never")
    out = await w.agent_loop("x" * 4000, model=model, token_budget=500)
    assert (out.status, out.stop_reason, len(model.requests)) == ("budget_exhausted", "tokens", 0)
    [reached] = [e for e in out.entries if type(e) is BudgetExhausted]
    assert reached.used > 500
    fits = await w.agent_loop("x" * 4000, model=scripted("asked"), token_budget=1500)
    assert fits.status == "done"
    await kept(out)


@pytest.mark.parametrize(("budget", "asked"), [(15, 0), (18, 1)])
async def test_a_reply_for_which_there_is_no_useful_room_is_not_asked_for(budget: int, asked: int):
    """The question is a token or two; a reply has at least sixteen."""
    model = scripted("ok", usage={"input_tokens": 1, "output_tokens": 1})
    out = await w.Agent(model, budget=w.Budget(tokens=budget)).run("go")
    assert len(model.requests) == asked
    money = priced("ok", usage={"input_tokens": 1, "output_tokens": 1})
    out = await w.Agent(money, budget=w.Budget(usd=budget / 1000)).run("go")
    assert len(money.requests) == asked
    assert out.status == ("done" if asked else "budget_exhausted")


async def test_who_asks_for_less_gets_it():
    model = scripted("ok", usage={"input_tokens": 1, "output_tokens": 1})
    out = await w.Agent(model, budget=w.Budget(tokens=8), max_tokens=4).run("go")
    assert out.status == "done"


# --------------------------------------------------------------------------- cut short


def test_a_reply_that_the_budget_cut_short_is_no_answer():
    async def story() -> None:
        out = await w.Agent(Slow(), budget=w.Budget(tokens=500)).run("go")
        assert (out.status, out.stop_reason, out.final_text) == (
            "budget_exhausted",
            "tokens",
            "x" * 8,
        )
        assert out.usage.total_tokens <= 500
        [reply] = [e for e in out.entries if type(e) is Replied]
        assert reply.shortened == "tokens"
        await kept(out)

    run_virtual(story())


def test_a_reply_that_the_asker_cut_short_is_one():
    async def story() -> None:
        out = await w.Agent(Slow(), max_tokens=100, budget=w.Budget(tokens=500)).run("go")
        assert out.status == "done"

    run_virtual(story())


def test_the_budget_above_cuts_a_child_short():
    async def story() -> None:
        child = w.Agent(Slow(), name="child")
        boss = scripted(call("child", task="dig"), "done", usage=w.Usage(1, 1))
        out = await w.Agent(boss, tools=[child.as_tool()], budget=w.Budget(tokens=500)).run("go")
        assert "budget_exhausted" in out.tool_calls[0].result
        assert out.usage.total_tokens <= 500 and out.status == "budget_exhausted"

    run_virtual(story())


def test_a_runtime_s_budget_cuts_a_run_short():
    async def story() -> None:
        async with w.Runtime(store="memory:", budget=w.Budget(usd=0.5), environ={}):
            out = await w.Agent(Slow()).run("go")
            assert (out.status, out.stop_reason) == ("budget_exhausted", "usd")
            assert out.cost_usd <= 0.5

    run_virtual(story())


def test_generate_says_so_too():
    async def story() -> None:
        async with w.Runtime(store="memory:", resources=[], environ={}) as scope:
            with pytest.raises(w.BudgetExceeded) as caught:
                await scope.models.generate("go", model=Slow(), max_tokens=500)
            assert [step.content for step in caught.value.trace] == ["x" * 8]
            fine = await scope.models.generate("go", model=Slow(words=20), max_tokens=500)
            assert fine.finish_reason == "stop"

    run_virtual(story())

"""Prices and limits in dollars: who has no price is refused, and every request is held back at its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from windlass.callers import compose, default_llm_caller
from windlass.engine.environment import current_environment
from windlass.errors import BadRequest, Overloaded, ServerError, StreamBroken
from windlass.loop.spend import spending_of
from windlass.store import open_store
from windlass.testing import call, scripted


class Unpriced(w.Model):
    """A model of one's own that does not say what it costs."""

    provider, name = "own", "unpriced"

    def __init__(self) -> None:
        self.asked = 0

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.asked += 1
        return w.Response(w.Message("assistant", "ok"), w.Usage(10, 2))


class Metered(w.Model):
    """So many dollars for a million tokens; it writes as much as it may, or fails."""

    provider = "own"

    def __init__(
        self, name: str, usd: float, fails: BaseException | None = None, says: str = "word "
    ) -> None:
        self.name, self.usd, self.fails, self.says = name, usd, fails, says
        self.limits: list[int | None] = []

    def price(self, usage: w.Usage) -> float:
        return usage.total_tokens * self.usd / 1_000_000

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.limits.append(request.settings.max_tokens)
        await asyncio.sleep(0)
        if self.fails is not None:
            if self.says:
                emit(w.TextDelta(self.says * 100))
            raise self.fails
        most = request.settings.max_tokens or 100_000
        return w.Response(w.Message("assistant", self.says), w.Usage(1, most), "end_turn")


@w.tool
async def look() -> str:
    """Look."""
    return "seen"


# --------------------------------------------------------------------------- no price


async def ask_agent(model: w.Model, usd: float | None) -> Any:
    budget = None if usd is None else w.Budget(usd=usd)
    return await w.Agent(model, budget=budget).run("hi")


async def ask_loop(model: w.Model, usd: float | None) -> Any:
    options = {} if usd is None else {"budget": {"usd": usd}}
    return await w.agent_loop("hi", model=model, **options)


async def ask_turn(model: w.Model, usd: float | None) -> Any:
    options = {} if usd is None else {"budget": w.Budget(usd=usd)}
    return await w.agent_turn("hi", model=model, **options)


async def ask_generate(model: w.Model, usd: float | None) -> Any:
    runtime = current_environment()
    return await runtime.models.generate("hi", model=model, max_cost_usd=usd)


async def ask_generate_stream(model: w.Model, usd: float | None) -> Any:
    runtime = current_environment()
    return [c async for c in runtime.models.generate_stream("hi", model=model, max_cost_usd=usd)]


async def ask_once(model: w.Model, usd: float | None) -> Any:
    w.llm_budget(usd)
    return await w.llm_call("hi", model=model)


async def ask_stream(model: w.Model, usd: float | None) -> Any:
    w.llm_budget(usd)
    return [chunk async for chunk in w.llm_stream("hi", model=model)]


async def ask_completion(model: w.Model, usd: float | None) -> Any:
    w.llm_budget(usd)
    return await w.llm_completion("let x = ", model=model)


async def ask_within_layer(model: w.Model, usd: float | None) -> Any:
    caller = None if usd is None else w.with_budget(usd=usd)
    return await w.llm_call("hi", model=model, llm_caller=caller)


async def ask_as_fallback(model: w.Model, usd: float | None) -> Any:
    caller = w.with_fallback([model])
    budget = None if usd is None else w.Budget(usd=usd)
    first = scripted(then=Overloaded("no"))
    return await w.Agent(first, budget=budget, llm_caller=caller).run("hi")


async def ask_as_escalation(model: w.Model, usd: float | None) -> Any:
    caller = w.with_escalation(model, predicate=lambda call: True)
    budget = None if usd is None else w.Budget(usd=usd)
    return await w.Agent(scripted(then="cheap"), budget=budget, llm_caller=caller).run("hi")


async def ask_as_shadow(model: w.Model, usd: float | None) -> Any:
    budget = None if usd is None else w.Budget(usd=usd)
    caller = w.with_shadow(model)
    return await w.Agent(scripted(then="first"), budget=budget, llm_caller=caller).run("hi")


async def ask_in_a_runtime(model: w.Model, usd: float | None) -> Any:
    w.llm_budget(usd)
    return await w.Agent(model).run("hi")


DOORS = [
    ask_agent,
    ask_loop,
    ask_turn,
    ask_generate,
    ask_generate_stream,
    ask_once,
    ask_stream,
    ask_completion,
    ask_within_layer,
    ask_as_fallback,
    ask_as_escalation,
    ask_as_shadow,
    ask_in_a_runtime,
]


@pytest.mark.parametrize("door", DOORS)
async def test_a_dollar_limit_on_a_model_without_a_price_is_refused_before_the_call(door: Any):
    async with w.Runtime(store="memory:", environ={}):
        model = Unpriced()
        with pytest.raises(w.ConfigError, match="no price.*llm.prices.*own:unpriced"):
            await door(model, 1.0)
        assert model.asked == 0
        await door(model, None)
        assert model.asked >= 1


@pytest.mark.parametrize("door", DOORS)
async def test_a_model_that_says_it_is_free_has_a_price(door: Any):
    class Free(Unpriced):
        def price(self, usage: w.Usage) -> float:
            return 0.0

    async with w.Runtime(store="memory:", environ={}):
        model = Free()
        await door(model, 1.0)
        assert model.asked >= 1


async def test_a_name_without_a_price_is_refused_and_one_of_the_rate_card_is_not(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    config = tmp_path / "windlass.toml"
    config.write_text('[llm.prices."openai:mine-*"]\ninput = 1.0\noutput = 2.0\n')
    async with w.Runtime(store="memory:", config=config):
        with pytest.raises(w.ConfigError, match="no price"):
            await w.Agent("openai:nobody-knows-it", budget=w.Budget(usd=1)).run("hi")
        known = w.Agent("openai:mine-1", budget=w.Budget(usd=0))
        out = await known.run("hi")  # not asked for want of money, and not for want of a price
    assert out.status == "budget_exhausted"


async def test_a_token_limit_needs_no_price():
    out = await w.Agent(Unpriced(), budget=w.Budget(tokens=100_000)).run("hi")
    assert out.status == "done"


async def test_a_judge_without_a_price_is_refused_under_a_dollar_limit():
    judge = Unpriced()
    options: dict[str, Any] = {"done_judge": {"model": judge}, "loop_until_done": True}
    with pytest.raises(w.ConfigError, match="no price"):
        await w.agent_loop("hi", model=scripted(then="##DONE##"), budget={"usd": 1}, **options)
    assert judge.asked == 0


async def test_a_child_without_a_price_is_not_asked_under_its_parent_s_dollar_limit():
    child = Unpriced()
    tool = w.Agent(child, name="child").as_tool("child", "Does it.")
    options: dict[str, Any] = {"tools": [tool]}
    parent = w.Agent(scripted(call("child", task="go"), "ok"), budget=w.Budget(usd=1), **options)
    out = await parent.run("hi")
    assert child.asked == 0
    assert "no price" in str(out.messages)
    out = await w.Agent(scripted(call("child", task="go"), "ok"), **options).run("hi")
    assert (out.status, child.asked) == ("done", 1)


async def test_whoever_resumes_a_run_under_a_dollar_limit_needs_a_price_too():
    host = w.Tool("ask_host", "Ask the host.", {})
    first = w.Agent(scripted(call("ask_host")), tools=[host], budget=w.Budget(usd=1))
    out = await first.run("hi", session_id="s")
    results = {pending.id: "yes" for pending in out.pending}
    other = Unpriced()
    with pytest.raises(w.ConfigError, match="no price"):
        await w.Agent(other, tools=[host]).resume("s", results=results)
    assert other.asked == 0
    priced = w.Agent(scripted("done"), tools=[host])
    assert (await priced.resume("s", results=results)).status == "done"


# --------------------------------------------------------------------------- at its own price


@pytest.mark.parametrize(
    ("layer", "fails"),
    [
        (lambda dear: w.with_fallback([dear]), ServerError("down")),
        (lambda dear: w.with_escalation(dear, predicate=lambda call: True), None),
        (lambda dear: w.with_escalation(dear, on_reply=lambda reply: True), None),
    ],
)
async def test_a_dear_model_behind_a_cheap_one_is_held_back_at_its_own_price(
    layer: Any, fails: Any
):
    cheap, dear = Metered("cheap", 0.01, fails, says=""), Metered("dear", 600.0)
    agent = w.Agent(cheap, budget=w.Budget(usd=0.01), llm_caller=layer(dear), max_tokens=100)
    out = await agent.run("hi")
    assert out.cost_usd <= 0.01 + 1e-5
    assert dear.limits == [most for most in dear.limits if most is not None and most < 20]
    rich = Metered("dear", 600.0)
    agent = w.Agent(cheap, budget=w.Budget(usd=1.0), llm_caller=layer(rich), max_tokens=100)
    assert (await agent.run("hi")).status == "done"
    assert rich.limits == [100]


async def test_a_cheap_model_behind_a_dear_one_gets_its_own_limit():
    dear, cheap = Metered("dear", 600.0, ServerError("down"), says=""), Metered("cheap", 0.01)
    agent = w.Agent(
        dear, budget=w.Budget(usd=0.05), llm_caller=w.with_fallback([cheap]), max_tokens=5000
    )
    out = await agent.run("hi")
    assert out.status == "done"
    assert dear.limits[0] is not None and dear.limits[0] < 100
    assert cheap.limits == [5000]


async def test_a_shadow_for_which_there_is_no_room_is_not_asked():
    main, dear = Metered("main", 1.0), Metered("dear", 600.0)
    small = w.Budget(usd=0.00015)
    agent = w.Agent(main, budget=small, llm_caller=w.with_shadow(dear), max_tokens=100)
    out = await agent.run("hi")
    assert (out.status, dear.limits) == ("done", [])
    assert out.cost_usd <= 0.00015
    agent = w.Agent(main, budget=w.Budget(usd=1.0), llm_caller=w.with_shadow(dear), max_tokens=100)
    out = await agent.run("hi")
    assert dear.limits == [100]


async def test_a_router_of_ones_own_is_held_back_at_the_price_of_whom_it_asks():
    cheap, dear = Metered("cheap", 0.01), Metered("dear", 600.0)
    plain = default_llm_caller()

    async def route(call: Any) -> Any:
        return await plain({**call, "opts": {**call["opts"], "model": dear}})

    agent = w.Agent(cheap, budget=w.Budget(usd=0.01), llm_caller=route, max_tokens=100)
    out = await agent.run("hi")
    assert out.cost_usd <= 0.0105
    agent = w.Agent(cheap, budget=w.Budget(usd=1.0), llm_caller=route, max_tokens=100)
    assert (await agent.run("hi")).status == "done"
    assert dear.limits[-1] == 100


async def test_a_caller_that_asks_twice_pays_twice():
    model = Metered("m", 1.0)
    plain = default_llm_caller()

    async def twice(call: Any) -> Any:
        await plain(call)
        return await plain(call)

    async with w.Runtime(store="memory:", environ={}) as runtime:
        out = await w.Agent(model, llm_caller=twice, max_tokens=100).run("hi")
        rows = await runtime.store.calls()
    assert [row.purpose for row in rows] == ["failed_attempt", None]
    assert sum(row.cost_usd for row in rows) == pytest.approx(202e-6) == runtime.ledger.usd
    assert out.status == "done"


async def test_each_try_of_a_broken_stream_is_booked():
    broken = Metered("m", 10.0, StreamBroken("cut"))
    caller = compose([w.with_retry(max_attempts=3, backoff="none")])(default_llm_caller())
    async with w.Runtime(store="memory:", environ={}) as runtime:
        out = await w.Agent(broken, llm_caller=caller).run("hi")
        rows = await runtime.store.calls()
        books = runtime.ledger
    assert out.status == "provider_error"
    assert len(broken.limits) == 3
    assert [row.outcome for row in rows] == ["network"] * 3 or len(rows) == 3
    assert all(row.output_tokens >= 100 and row.estimated for row in rows)
    assert books.usd == pytest.approx(sum(row.cost_usd for row in rows)) and books.usd > 0


async def test_tries_of_a_broken_stream_end_with_the_budget():
    broken = Metered("m", 1000.0, StreamBroken("cut"))
    caller = compose([w.with_retry(max_attempts=50, backoff="none")])(default_llm_caller())
    agent = w.Agent(broken, llm_caller=caller, budget=w.Budget(usd=0.5), max_tokens=130)
    out = await agent.run("hi")
    assert out.status == "budget_exhausted"
    assert 2 <= len(broken.limits) <= 5


async def test_calls_that_fail_before_a_fallback_have_a_row():
    first, second = Metered("a", 1.0, Overloaded("no"), says=""), Metered("b", 1.0)
    async with w.Runtime(store="memory:", environ={}) as runtime:
        out = await w.Agent(first, llm_caller=w.with_fallback([second]), max_tokens=9).run("hi")
        rows = await runtime.store.calls()
    assert out.status == "done"
    assert [(row.model, row.outcome) for row in rows] == [("a", "overloaded"), ("b", "ok")]


async def test_a_cheap_reply_is_paid_for_when_the_better_model_fails():
    cheap, dear = Metered("cheap", 1.0), Metered("dear", 1.0, BadRequest("down"), says="")
    async with w.Runtime(store="memory:", environ={}) as runtime:
        caller = w.with_escalation(dear, on_reply=lambda reply: True)
        with pytest.raises(BadRequest):
            await w.llm_call("hi", model=cheap, llm_caller=caller, max_tokens=99)
        rows = await runtime.store.calls()
    assert [(row.model, row.outcome) for row in rows] == [("cheap", "ok"), ("dear", "bad_request")]
    assert runtime.ledger.usd == pytest.approx(100e-6)


# --------------------------------------------------------------------------- calls that end early


@pytest.mark.parametrize(("remote", "paid"), [(True, True), (False, False)])
async def test_a_cancelled_call_has_a_row_and_one_behind_a_network_costs_its_prompt(
    remote: bool, paid: bool
):
    class Slow(Metered):
        async def respond(self, request: w.Request, emit: Any) -> w.Response:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    asked = asyncio.Event()
    model = Slow("slow", 1.0)
    model.remote = remote
    async with w.Runtime(store="memory:", environ={}) as runtime:
        task = asyncio.ensure_future(w.Agent(model).run("a prompt of some words"))
        await asked.wait()
        task.cancel()
        await asyncio.wait([task])
        rows = await runtime.store.calls()
    assert [row.outcome for row in rows] == ["cancelled"]
    assert (rows[0].input_tokens > 0, rows[0].estimated) == (paid, paid)
    assert runtime.ledger.tokens == rows[0].input_tokens


async def test_a_call_that_dies_behind_a_fallback_counts_what_the_fallback_held():
    """The reserve of the model that is asked now is on record, in place of the first one's."""
    asked = asyncio.Event()

    class Hanging(Metered):
        async def respond(self, request: w.Request, emit: Any) -> w.Response:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    cheap, dear = Metered("cheap", 0.01, Overloaded("no"), says=""), Hanging("dear", 600.0)
    store = open_store("memory:")
    async with w.Runtime(store=store, environ={}):
        maker = w.Agent(
            cheap, budget=w.Budget(usd=5), llm_caller=w.with_fallback([dear]), max_tokens=1000
        )
        task = asyncio.ensure_future(maker.run("hi", session_id="s"))
        await asked.wait()
        spending = spending_of(await store.read("s"))
        task.cancel()
        await asyncio.wait([task])
    assert [one.model for one in spending.in_flight] == ["dear"]
    assert spending.tree_usd == pytest.approx(0.6, rel=0.01)
    assert spending_of(await store.read("s")).in_flight == []

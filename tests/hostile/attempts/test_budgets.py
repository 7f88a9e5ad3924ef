"""Attempts to spend more than a budget allows; each has a control with a large budget, which must succeed.

`tight` and `loose` differ in nothing but the number. The models count for themselves what was spent,
so that books which are wrong do not hide it, and the books must agree with them.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

import windlass as w
from windlass.callers import compose, default_llm_caller
from windlass.engine.environment import current_environment
from windlass.errors import Overloaded, RateLimited, StreamBroken
from windlass.testing import call, scripted

from .budget_models import (
    LOOSE,
    TIGHT,
    USD,
    Spender,
    World,
    calling,
    long_look,
    look,
)

Attempt: TypeAlias = Callable[[World, float], Awaitable[Any]]
ATTEMPTS: dict[str, Attempt] = {}
QUICK = {"backoff": "none"}


def attempt(function: Attempt) -> Attempt:
    ATTEMPTS[function.__name__] = function
    return function


def plain(world: World, **how: Any) -> Spender:
    return world.model(says=calling("look", 12), **how)


async def agent(model: w.Model, usd: float, prompt: Any = "go", **options: Any) -> Any:
    options = {"tools": [look], "max_turns": 40, "max_tokens": 100, **options}
    return await w.Agent(model, budget=w.Budget(usd=usd), **options).run(prompt)


async def many(make: Callable[[], Awaitable[Any]], times: int = 60) -> str:
    """The same again and again, until it is refused."""
    for _ in range(times):
        try:
            await make()
        except w.BudgetExceeded:
            return "budget_exhausted"
        except w.ModelError:
            pass  # a reply that breaks off
    return "done"


async def until_shown(model: Spender, task: asyncio.Task[Any]) -> None:
    """Wait until the model has shown some words, or nobody asks it."""
    shown = asyncio.ensure_future(model.shown.wait())
    await asyncio.wait({shown, task}, return_when=asyncio.FIRST_COMPLETED)
    shown.cancel()


# --------------------------------------------------------------------------- limits of replies


@attempt
async def many_turns(world: World, usd: float) -> Any:
    return await agent(plain(world), usd)


@attempt
async def a_long_reply(world: World, usd: float) -> Any:
    return await agent(world.model(wants=5000), usd, max_tokens=5000)


@attempt
async def no_limit_on_the_reply(world: World, usd: float) -> Any:
    return await w.Agent(world.model(wants=9000), budget=w.Budget(usd=usd)).run("go")


@attempt
async def llm_options_raise_the_reply(world: World, usd: float) -> Any:
    options = {"max_tokens": 3000}
    return await w.agent_loop(
        "go", model=world.model(wants=3000), budget={"usd": usd}, llm_options=options
    )


@attempt
async def next_options_raise_the_reply(world: World, usd: float) -> Any:
    def more(_turn: Any) -> Any:
        return {"next_options": {"llm_options": {"max_tokens": 4000}}}

    model = plain(world, wants=4000)
    return await w.agent_loop(
        "go",
        model=model,
        tools=[look],
        budget={"usd": usd},
        max_tokens=50,
        post_turn_callback=more,
    )


@attempt
async def a_closing_answer(world: World, usd: float) -> Any:
    return await agent(plain(world), usd, closing_answer=True)


@attempt
async def a_caller_raises_the_reply(world: World, usd: float) -> Any:
    ask = default_llm_caller()

    async def raises(made: Any) -> Any:
        return await ask({**made, "opts": {**made["opts"], "max_tokens": 5000}})

    return await agent(world.model(wants=5000), usd, llm_caller=raises)


# --------------------------------------------------------------------------- prompts


@attempt
async def long_results(world: World, usd: float) -> Any:
    model = world.model(says=calling("long_look", 6))
    return await agent(model, usd, tools=[long_look])


@attempt
async def a_long_system_prompt(world: World, usd: float) -> Any:
    return await agent(world.model(), usd, system="Be kind. " * 300)


@attempt
async def chinese(world: World, usd: float) -> Any:
    return await agent(world.model(wants=1), usd, "敏捷的棕色狐狸跳过了懒狗。" * 40)


@attempt
async def emoji(world: World, usd: float) -> Any:
    return await agent(world.model(wants=1), usd, "🎉🔥🚀" * 60)


@attempt
async def base64_text(world: World, usd: float) -> Any:
    text = base64.b64encode(bytes(range(256)) * 4).decode()
    return await agent(world.model(wants=1), usd, text)


@attempt
async def a_picture(world: World, usd: float) -> Any:
    prompt = [w.Text("What is it?"), w.Image(url="https://example.com/a.png")]
    return await agent(world.model(wants=1), usd, prompt)


@attempt
async def tools_with_long_schemas(world: World, usd: float) -> Any:
    tools = [
        w.Tool(
            f"tool_{n}",
            "Does it. " * 8,
            {
                "type": "object",
                "properties": {
                    f"field_{k}": {"type": "string", "description": "a field " * 4}
                    for k in range(6)
                },
            },
        )
        for n in range(4)
    ]
    return await agent(world.model(wants=1), usd, tools=tools)


# --------------------------------------------------------------------------- usage and prices


@attempt
async def no_usage(world: World, usd: float) -> Any:
    return await many(lambda: agent_on_runtime(world.model(lies=w.Usage), usd))


@attempt
async def a_dear_kind_of_token(world: World, usd: float) -> Any:
    return await agent(plain(world, usd=0.01, name="dear", wants=30), usd)


async def agent_on_runtime(model: w.Model, usd: float) -> Any:
    w.llm_budget(usd)
    out = await w.Agent(model, max_tokens=100).run("go")
    if out.status == "budget_exhausted":
        raise w.BudgetExceeded("no more")
    return out


@attempt
async def many_runs(world: World, usd: float) -> Any:
    return await many(lambda: agent_on_runtime(world.model(), usd))


@attempt
async def many_calls(world: World, usd: float) -> Any:
    w.llm_budget(usd)
    return await many(lambda: w.llm_call("go", model=world.model(), max_tokens=100))


@attempt
async def many_calls_at_once(world: World, usd: float) -> Any:
    w.llm_budget(usd)
    model = world.model()
    calls = [w.llm_call("go", model=model, max_tokens=100) for _ in range(20)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    return "done" if all(isinstance(one, w.LLMResult) for one in done) else "budget_exhausted"


@attempt
async def many_streams(world: World, usd: float) -> Any:
    w.llm_budget(usd)

    async def read() -> None:
        async for _ in w.llm_stream("go", model=world.model(), max_tokens=100):
            pass

    return await many(read)


@attempt
async def completions(world: World, usd: float) -> Any:
    w.llm_budget(usd)
    return await many(lambda: w.llm_completion("let x = ", model=world.model(), max_tokens=100))


@attempt
async def schema_retries(world: World, usd: float) -> Any:
    w.llm_budget(usd)
    model = world.model(says=lambda request, number: '{"n": 1}' if number > 8 else "no")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    try:
        await w.llm_call("go", model=model, schema=schema, schema_retries=9, max_tokens=100)
    except w.BudgetExceeded:
        return "budget_exhausted"
    return "done"


# --------------------------------------------------------------------------- requests that fail


@attempt
async def a_stream_that_is_cut_and_tried_again(world: World, usd: float) -> Any:
    model = world.model(cuts=StreamBroken("cut"))
    caller = compose([w.with_retry(max_attempts=40, **QUICK)])(default_llm_caller())
    out = await agent(model, usd, llm_caller=caller)
    return "done" if out.status == "provider_error" else out


@attempt
async def calls_that_are_cut(world: World, usd: float) -> Any:
    w.llm_budget(usd)
    model = world.model(cuts=StreamBroken("cut"))
    return await many(lambda: w.llm_call("go", model=model, max_tokens=100))


@attempt
async def readers_who_leave(world: World, usd: float) -> Any:
    w.llm_budget(usd)
    model = world.model(hangs=True)

    async def leave() -> None:
        stream = w.llm_stream("go", model=model, max_tokens=100)
        await anext(stream)
        await stream.aclose()

    return await many(leave)


@attempt
async def readers_of_agents_who_leave(world: World, usd: float) -> Any:
    w.llm_budget(usd)
    maker = w.Agent(world.model(hangs=True), max_tokens=100)

    async def leave() -> None:
        async with maker.stream("go") as run:
            async for event in run:
                if isinstance(event, w.TextDelta):
                    return
            if (await run.result()).status == "budget_exhausted":
                raise w.BudgetExceeded("no more")

    return await many(leave)


@attempt
async def runs_that_are_aborted(world: World, usd: float) -> Any:
    w.llm_budget(usd)

    async def aborted() -> None:
        abort = w.Abort()
        model = world.model(hangs=True)
        task = asyncio.ensure_future(w.Agent(model, max_tokens=100).run("go", abort=abort))
        await until_shown(model, task)
        abort.abort()
        if (await task).status == "budget_exhausted":
            raise w.BudgetExceeded("no more")

    return await many(aborted)


@attempt
async def tasks_that_are_cancelled(world: World, usd: float) -> Any:
    w.llm_budget(usd)

    async def cancelled() -> None:
        model = world.model(hangs=True)
        task = asyncio.ensure_future(w.llm_call("go", model=model, max_tokens=100))
        await until_shown(model, task)
        if task.done():
            await task
        task.cancel()
        await asyncio.wait([task])

    return await many(cancelled)


# --------------------------------------------------------------------------- other models


@attempt
async def a_dear_fallback(world: World, usd: float) -> Any:
    first, dear = scripted(then=Overloaded("no")), world.model(name="dear", usd=USD * 5, wants=5000)
    return await agent(first, usd, llm_caller=w.with_fallback([dear]), max_tokens=5000)


@attempt
async def fallbacks_that_are_cut(world: World, usd: float) -> Any:
    first = scripted(then=Overloaded("no"))
    others = [world.model(name=f"m{n}", cuts=StreamBroken("cut")) for n in range(40)]
    out = await agent(first, usd, llm_caller=w.with_fallback(others))
    return "done" if out.status == "provider_error" else out


@attempt
async def a_dear_escalation(world: World, usd: float) -> Any:
    dear = world.model(name="dear", usd=USD * 5, wants=5000)
    caller = w.with_escalation(dear, predicate=lambda made: True)
    return await agent(world.model(), usd, llm_caller=caller, max_tokens=5000)


@attempt
async def an_escalation_after_a_reply(world: World, usd: float) -> Any:
    dear = world.model(name="dear", usd=USD * 3, wants=5000)
    caller = w.with_escalation(dear, on_reply=lambda reply: True)
    return await agent(world.model(wants=300), usd, llm_caller=caller, max_tokens=5000)


@attempt
async def a_dear_shadow(world: World, usd: float) -> Any:
    dear = world.model(name="dear", usd=USD * 20)
    return await agent(plain(world), usd, llm_caller=w.with_shadow(dear))


@attempt
async def a_shadow_that_hangs(world: World, usd: float) -> Any:
    dear = world.model(name="dear", usd=USD * 5, hangs=True)
    return await agent(plain(world), usd, llm_caller=w.with_shadow(dear, wait=0))


@attempt
async def a_router_to_a_dear_model(world: World, usd: float) -> Any:
    ask, dear = default_llm_caller(), world.model(name="dear", usd=USD * 10, wants=5000)

    async def route(made: Any) -> Any:
        return await ask({**made, "opts": {**made["opts"], "model": dear}})

    return await agent(world.model(), usd, llm_caller=route, max_tokens=5000)


@attempt
async def a_caller_that_asks_many_times(world: World, usd: float) -> Any:
    ask = default_llm_caller()

    async def ensemble(made: Any) -> Any:
        answers = [await ask(made) for _ in range(8)]
        return next((one for one in answers if not one["ok"]), answers[-1])

    return await agent(world.model(), usd, llm_caller=ensemble)


@attempt
async def retries_around_a_fallback_around_a_shadow(world: World, usd: float) -> Any:
    cut = world.model(cuts=StreamBroken("cut"))
    other = world.model(name="other", cuts=RateLimited("slow"))
    shadow = world.model(name="shadow")
    layers = [
        w.with_retry(max_attempts=15, **QUICK),
        w.with_fallback([other]),
        w.with_shadow(shadow),
    ]
    out = await agent(cut, usd, llm_caller=compose(layers)(default_llm_caller()))
    return "done" if out.status == "provider_error" else out


@attempt
async def a_cache_that_never_hits(world: World, usd: float) -> Any:
    return await agent(plain(world), usd, llm_caller=w.with_cache())


# --------------------------------------------------------------------------- layers


@attempt
async def a_layer_of_many_runs(world: World, usd: float) -> Any:
    layer = w.with_budget(usd=usd)

    async def run() -> None:
        out = await w.Agent(world.model(), llm_caller=layer, max_tokens=100).run("go")
        if out.status == "budget_exhausted":
            raise w.BudgetExceeded("no more")

    return await many(run)


@attempt
async def a_layer_of_calls_at_once(world: World, usd: float) -> Any:
    layer, model = w.with_budget(usd=usd), world.model()
    calls = [w.llm_call("go", model=model, llm_caller=layer, max_tokens=100) for _ in range(20)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    return "done" if all(isinstance(one, w.LLMResult) for one in done) else "budget_exhausted"


@attempt
async def a_layer_around_a_dear_fallback(world: World, usd: float) -> Any:
    dear = world.model(name="dear", usd=USD * 5, wants=5000)
    layers = [w.with_budget(usd=usd), w.with_fallback([dear])]
    caller = compose(layers)(default_llm_caller())
    first = scripted(then=Overloaded("no"))
    return await w.Agent(first, llm_caller=caller, max_tokens=5000).run("go")


@attempt
async def a_layer_around_cut_streams(world: World, usd: float) -> Any:
    layer, model = w.with_budget(usd=usd), world.model(cuts=StreamBroken("cut"))
    return await many(lambda: w.llm_call("go", model=model, llm_caller=layer, max_tokens=100))


# --------------------------------------------------------------------------- trees


def parent_of(children: list[Any], usd: float, **options: Any) -> Any:
    tools = [
        child.as_tool(f"child_{number}", "Does it.", **options)
        for number, child in enumerate(children)
    ]
    calls = [call(f"child_{number}", task="go") for number in range(len(children))]
    return w.Agent(scripted(calls, "done"), tools=tools, budget=w.Budget(usd=usd))


@attempt
async def a_child_with_a_larger_budget(world: World, usd: float) -> Any:
    child = w.Agent(
        plain(world),
        name="c",
        tools=[look],
        budget=w.Budget(usd=1000),
        max_tokens=100,
        max_turns=40,
    )
    await parent_of([child], usd).run("go")
    return "done"


@attempt
async def children_at_once(world: World, usd: float) -> Any:
    model = plain(world)
    children = [
        w.Agent(model, name=f"c{n}", tools=[look], max_tokens=100, max_turns=20) for n in range(5)
    ]
    await parent_of(children, usd).run("go")
    return "done"


@attempt
async def a_child_of_a_child(world: World, usd: float) -> Any:
    leaf = w.Agent(plain(world), name="leaf", tools=[look], max_tokens=100, max_turns=40)
    middle = w.Agent(
        scripted(call("leaf", task="go"), "done"),
        name="middle",
        tools=[leaf.as_tool("leaf", "Does it.")],
    )
    await parent_of([middle], usd).run("go")
    return "done"


@attempt
async def a_tool_that_asks_a_model_itself(world: World, usd: float) -> Any:
    w.llm_budget(usd)

    @w.tool
    async def think() -> str:
        """Think."""
        await w.llm_call("go", model=world.model(), max_tokens=100)
        return "thought"

    out = await w.Agent(scripted(*[call("think")] * 8, "done"), tools=[think], max_turns=20).run(
        "go"
    )
    return out


# --------------------------------------------------------------------------- judges, summaries


@attempt
async def a_dear_judge(world: World, usd: float) -> Any:
    judge = world.model(
        name="judge", usd=USD * 3, says=lambda r, n: '{"verdict": "done"}', wants=60
    )
    return await w.agent_loop(
        "go",
        model=world.model(says=lambda r, n: "##DONE##"),
        budget={"usd": usd},
        max_tokens=100,
        done_judge={"model": judge},
        loop_until_done=True,
        max_verify_attempts=5,
    )


@attempt
async def summaries(world: World, usd: float) -> Any:
    def says(request: w.Request, number: int) -> Any:
        return (
            w.ToolCall(f"c{number}", "long_look", {}) if request.tools and number < 12 else "done"
        )

    model = world.model(says=says, wants=40)
    return await w.agent_loop(
        "go",
        model=model,
        tools=[long_look],
        budget={"usd": usd},
        max_tokens=50,
        compaction=True,
        compact_threshold=200,
    )


@attempt
async def generate(world: World, usd: float) -> Any:
    runtime = current_environment()
    model = plain(world)
    try:
        await runtime.models.generate(
            "go",
            model=model,
            tools=[look],
            max_cost_usd=usd,
            max_output_tokens=100,
            max_tool_iterations=40,
        )
    except w.BudgetExceeded:
        return "budget_exhausted"
    return "done"


@attempt
async def generate_stream(world: World, usd: float) -> Any:
    runtime = current_environment()
    try:
        async for _ in runtime.models.generate_stream(
            "go",
            model=plain(world),
            tools=[look],
            max_cost_usd=usd,
            max_output_tokens=100,
            max_tool_iterations=40,
        ):
            pass
    except w.BudgetExceeded:
        return "budget_exhausted"
    return "done"


@attempt
async def eager_tools(world: World, usd: float) -> Any:
    return await agent(plain(world), usd, eager_tools=True)


@attempt
async def resumes(world: World, usd: float) -> Any:
    host = w.Tool("ask_host", "Ask the host.", {})
    model = world.model(says=calling("ask_host", 12))
    maker = w.Agent(model, tools=[host], budget=w.Budget(usd=usd), max_tokens=100, max_turns=40)
    out = await maker.run("go", session_id="s")
    while out.status == "suspended":
        results = {pending.id: "yes" for pending in out.pending}
        out = await maker.resume("s", results=results)
    return out


# --------------------------------------------------------------------------- all of them


def ended_well(out: Any) -> bool:
    return (out if isinstance(out, str) else out.status) == "done"


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_no_attempt_spends_more_than_the_limit(name: str):
    world = World()
    async with w.Runtime(store="memory:", environ={}) as runtime:
        await ATTEMPTS[name](world, TIGHT)
        books = runtime.ledger.usd
        rows = await runtime.store.calls()
    assert world.usd <= TIGHT + 1e-9
    assert books == pytest.approx(world.usd) == sum(row.cost_usd for row in rows)


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_the_same_succeeds_where_there_is_money(name: str):
    world = World()
    async with w.Runtime(store="memory:", environ={}) as runtime:
        out = await ATTEMPTS[name](world, LOOSE)
        books = runtime.ledger.usd
    assert ended_well(out), out
    assert world.usd > TIGHT, "the limit was never in the way"
    assert books == pytest.approx(world.usd)


# --------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    "limit",
    [float("nan"), float("inf"), -1, -0.01, True, "1", 2**70, [1], {"usd": 1}],
)
async def test_what_is_no_limit_is_refused_and_one_is_taken(limit: Any):
    with pytest.raises(w.ConfigError):
        w.Budget(usd=limit)
    with pytest.raises(w.ConfigError):
        w.llm_budget(limit)
    with pytest.raises(w.ConfigError):
        w.with_budget(usd=limit)
    with pytest.raises(w.ConfigError):
        await current_environment().models.generate("go", model=scripted("x"), max_cost_usd=limit)
    assert (await w.Agent(scripted("ok"), budget=w.Budget(usd=1)).run("go")).status == "done"


@pytest.mark.parametrize(
    "price", [float("nan"), float("inf"), -1.0, "1", None, ZeroDivisionError("no")]
)
async def test_a_price_that_is_none_refuses_the_call(price: Any):
    class Odd(Spender):
        def price(self, usage: w.Usage) -> float:
            if isinstance(price, Exception):
                raise price
            return price

    world = World()
    out = await w.Agent(Odd(world), budget=w.Budget(usd=1)).run("go")
    assert (out.status, world.asked) == ("failed", 0)
    assert (await w.Agent(world.model(), budget=w.Budget(usd=1)).run("go")).status == "done"


@pytest.mark.parametrize(
    ("usage", "least"),
    [
        (w.Usage(-5, -5), 1),
        (w.Usage(0, 0), 1),
        (w.Usage(10**30, 1), 2**50),
        (w.Usage(10, 5, cache_read_tokens=999), 15),
        (w.Usage(10, 5, reasoning_tokens=999), 15),
        (w.Usage(cost_usd=float("nan")), 1),
        (w.Usage(cost_usd=-3.0), 1),
        (w.Usage("10", "5"), 1),  # pyright: ignore[reportArgumentType]
    ],
)
async def test_odd_usage_counts_something(usage: w.Usage, least: int):
    world = World()
    async with w.Runtime(store="memory:", environ={}) as runtime:
        await w.Agent(world.model(lies=usage)).run("go")
        assert runtime.ledger.tokens >= least
        assert runtime.ledger.usd >= 0
        before = runtime.ledger.tokens
        await w.Agent(world.model()).run("go")
        assert runtime.ledger.tokens > before


async def test_a_model_that_heeds_no_limit_crosses_it_by_one_reply():
    world = World()
    out = await agent(plain(world, wants=700, heeds=False), TIGHT)
    assert out.status == "budget_exhausted"
    assert world.asked == 1
    control = World()
    assert (await agent(plain(control, wants=700, heeds=False), LOOSE)).status == "done"


async def test_a_lower_limit_in_the_middle_of_a_run_holds_at_once():
    world, lowered = World(), World()

    def lower(_turn: Any) -> None:
        w.llm_budget(lowered.usd + 0.0001 + world.usd)

    out = await w.agent_loop(
        "go", model=plain(world), tools=[look], max_tokens=100, post_turn_callback=lower
    )
    assert (out.status, world.asked) == ("budget_exhausted", 1)
    w.llm_budget(None)
    out = await w.agent_loop("go", model=plain(world), tools=[look], max_tokens=100)
    assert out.status == "done"

"""What model calls cost: estimated, summed up, limited, and a row on the books for each."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import windlass as w
from tests.stories.helpers import add
from windlass.errors import TestBroken
from windlass.events import Replied, ReplyFailed, RunStarted
from windlass.runtime.runtime import Runtime
from windlass.testing import scripted


class Priced(w.Model):
    """A dollar for every thousand tokens; ten of each in a call."""

    provider, name = "priced", "priced-1"

    def __init__(self, *, gate: asyncio.Event | None = None) -> None:
        self.asked, self.gate = 0, gate
        self.limits: list[int | None] = []

    def price(self, usage: w.Usage) -> float:
        return (usage.input_tokens + usage.output_tokens) / 1000

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.asked += 1
        self.limits.append(request.settings.max_tokens)
        await (self.gate.wait() if self.gate is not None else asyncio.sleep(0))
        most = request.settings.max_tokens or 10
        return w.Response(w.Message("assistant", "ok"), w.Usage(10, min(10, most)))


# --------------------------------------------------------------------------- llm_cost


def test_a_price_is_told_before_anything_is_asked():
    assert w.llm_cost("claude-sonnet-4-20250514", 1000, 500) == pytest.approx(0.0105)
    assert w.llm_cost("anthropic:claude-sonnet-4-20250514", 1000, 500) == pytest.approx(0.0105)
    assert w.llm_cost("gpt-4o", 1_000_000, 0, provider="openai") == pytest.approx(2.5)
    cached = w.llm_cost("claude-sonnet-4-20250514", 1000, 0, cache_read_tokens=1000)
    assert 0 < cached < w.llm_cost("claude-sonnet-4-20250514", 1000)
    assert w.llm_cost(Priced(), 10, 10) == pytest.approx(0.02)


async def test_a_model_may_be_paid_by_the_time_it_computes(tmp_path):
    card = tmp_path / "windlass.toml"
    card.write_text('[llm.prices."ollama:llama3.2"]\ngpu_second = 0.01\n')
    async with w.Runtime(store="memory:", config=card, environ={}):
        assert w.llm_cost("ollama:llama3.2", 1000, 10, gpu_ms=2000.0) == pytest.approx(0.02)
    assert w.llm_cost("ollama:llama3.2", 1000, 10, gpu_ms=2000.0) == 0.0


def test_an_unknown_model_costs_nothing_on_paper():
    assert w.llm_cost("nobody-knows-it", 1000, 500) == 0.0
    assert w.llm_cost("nowhere:such", 1000, 500) == 0.0


@pytest.mark.parametrize("bad", [-1, 1.5, "7", True, None])
def test_a_count_that_is_none_is_refused(bad: Any):
    with pytest.raises(w.ConfigError, match="input_tokens"):
        w.llm_cost("gpt-4o", bad, 1)
    with pytest.raises(w.ConfigError, match="output_tokens"):
        w.llm_cost("gpt-4o", 1, bad)


def test_more_cached_than_sent_is_refused():
    with pytest.raises(w.ConfigError, match="part of input_tokens"):
        w.llm_cost("gpt-4o", 10, 0, cache_read_tokens=6, cache_write_tokens=5)


# --------------------------------------------------------------------------- the session's cost


async def test_every_door_adds_to_what_was_spent():
    model = Priced()
    assert dict(w.llm_session_cost()) == {
        "total_cost": 0.0,
        "input_tokens": 0,
        "output_tokens": 0,
        "call_count": 0,
    }
    await w.llm_call("hi", model=model)
    async for _ in w.llm_stream("hi", model=model):
        pass
    await w.agent_loop("hi", model=model)
    await w.Agent(model).run("hi")
    await w.llm_completion("hi", model=model)
    cost = w.llm_session_cost()
    assert cost.total_cost == pytest.approx(0.1) and cost["call_count"] == 5
    assert (cost.input_tokens, cost.output_tokens) == (50, 50)
    with pytest.raises(KeyError):
        cost["calls"]


async def test_another_runtime_has_books_of_its_own():
    await w.llm_call("hi", model=Priced())
    async with w.Runtime(store="memory:", environ={}):
        assert w.llm_session_cost().call_count == 0
        await w.llm_call("hi", model=Priced())
        assert w.llm_session_cost().call_count == 1
    assert w.llm_session_cost().call_count == 1


async def test_a_resumed_run_does_not_pay_twice():
    model = Priced()
    out = await w.Agent(model).run("hi", session_id="s")
    await w.Agent(model).resume("s")
    assert out.status == "done" and w.llm_session_cost().call_count == 1


# --------------------------------------------------------------------------- budgets


async def test_a_budget_is_there_until_it_is_taken_away():
    assert w.llm_budget_remaining() is None
    w.llm_budget(1.00)
    assert w.llm_budget_remaining() == 1.0
    await w.llm_call("hi", model=Priced())
    assert w.llm_budget_remaining() == pytest.approx(0.98)
    w.llm_budget(None)
    assert w.llm_budget_remaining() is None
    for bad in (-1, "1", True):
        with pytest.raises(w.ConfigError):
            w.llm_budget(bad)  # pyright: ignore[reportArgumentType]


async def test_a_call_that_would_cross_it_is_not_made():
    model = Priced()
    w.llm_budget(0.001)
    with pytest.raises(w.BudgetExceeded, match=r"limit of \$0\.001"):
        await w.llm_call("a question of a few tokens", model=model)
    assert model.asked == 0 and w.llm_session_cost().call_count == 0
    assert w.llm_budget_remaining() == 0.001


async def test_a_call_after_it_was_crossed_is_not_made(own_world: Runtime):
    model = Priced()
    await w.llm_call("hi", model=model)
    w.llm_budget(0.02)  # what was spent before counts
    with pytest.raises(w.BudgetExceeded):
        await w.llm_call("hi", model=model)
    out = await w.agent_loop("hi", model=model)
    assert (out.status, out.stop_reason) == ("budget_exhausted", "usd")
    assert model.asked == 1 and w.llm_budget_remaining() == 0.0
    assert len(await own_world.store.calls()) == 1


async def test_a_reply_is_limited_to_what_is_left():
    model = Priced()
    w.llm_budget(0.022)
    await w.llm_call("hi", model=model)
    [most] = model.limits
    assert most is not None and 16 <= most <= 21


async def test_a_budget_set_while_a_run_is_under_way_holds_for_it():
    @w.tool
    def limit() -> str:
        """Set the budget."""
        w.llm_budget(0.0)
        return "set"

    model = scripted(w.ToolCall("c1", "limit", {}), "never")
    out = await w.agent_loop("go", model=model, tools=[limit])
    assert out.status == "budget_exhausted" and len(model.requests) == 1


async def test_fifty_at_once_do_not_spend_more_than_there_is():
    model = Priced()
    w.llm_budget(0.1)
    prompt = "x" * 36  # ten tokens by the estimate, and ten in truth
    calls = [w.llm_call(prompt, model=model, max_tokens=10) for _ in range(50)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    made = [one for one in done if isinstance(one, w.LLMResult)]
    assert all(isinstance(one, (w.LLMResult, w.BudgetExceeded)) for one in done)
    assert len(made) == 5 == model.asked
    assert w.llm_session_cost().total_cost <= 0.1 + 1e-9


async def test_whoever_is_cancelled_gives_back_what_was_held():
    gate = asyncio.Event()
    held = Priced(gate=gate)
    w.llm_budget(0.1)
    first = asyncio.create_task(w.llm_call("hi", model=held, max_tokens=90))
    for _ in range(20):
        await asyncio.sleep(0)
    second = asyncio.create_task(w.llm_call("x" * 60, model=Priced(), max_tokens=10))
    for _ in range(20):
        await asyncio.sleep(0)
    assert held.asked == 1 and not second.done()
    first.cancel()
    await asyncio.wait([first])
    assert (await second).text == "ok"
    assert w.llm_session_cost().call_count == 2  # a call that is cancelled is one


async def test_a_higher_budget_lets_in_who_waits():
    gate = asyncio.Event()
    w.llm_budget(0.1)
    first = asyncio.create_task(w.llm_call("hi", model=Priced(gate=gate), max_tokens=90))
    for _ in range(20):
        await asyncio.sleep(0)
    second = asyncio.create_task(w.llm_call("x" * 60, model=Priced(), max_tokens=10))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not second.done()
    w.llm_budget(1.0)
    assert (await second).text == "ok" and not first.done()
    gate.set()
    await first


async def test_two_event_loops_share_a_budget(own_world: Runtime):
    """Whoever waits on one loop hears that a call on another has settled."""
    gate = asyncio.Event()
    w.llm_budget(0.1)
    here = asyncio.create_task(w.llm_call("hi", model=Priced(gate=gate), max_tokens=90))
    for _ in range(20):
        await asyncio.sleep(0)
    texts: list[str] = []

    def there() -> None:
        texts.append(asyncio.run(w.llm_call("x" * 60, model=Priced(), max_tokens=10)).text)

    thread = threading.Thread(target=there)
    thread.start()
    while own_world.ledger._waiting is None:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.001)
    gate.set()
    await here
    await asyncio.to_thread(thread.join, 10)
    assert texts == ["ok"]


async def test_a_request_that_is_never_sent_gives_back_what_was_held(own_world: Runtime):
    class Breaker(w.Policy[None]):
        async def before_model(self, run: w.Run, request: w.Request) -> w.Request:
            asks = w.Message("assistant", (w.ToolCall("c", "add", {}),))  # and nobody answers
            return w.Request((*request.messages, asks, w.Message("user", "go on")), request.frame)

    w.llm_budget(1.0)
    with pytest.raises(TestBroken):
        await w.agent_loop("go", model=Priced(), policies=[Breaker()])
    assert own_world.ledger._held_usd == 0 == own_world.ledger._held_tokens
    assert (await w.llm_call("hi", model=Priced())).text == "ok"


async def test_a_failed_call_costs_nothing_and_is_counted(own_world: Runtime):
    w.llm_budget(1.0)
    with pytest.raises(w.AuthFailed):
        await w.llm_call("hi", model=scripted(w.AuthFailed("no")))
    assert w.llm_budget_remaining() == 1.0
    cost = w.llm_session_cost()
    assert (cost.call_count, cost.total_cost) == (1, 0.0)
    [call] = await own_world.store.calls()
    assert (call.outcome, call.door) == ("auth", "llm_call")


# --------------------------------------------------------------------------- the books


ANN = w.Caller("ann", tenant="acme")
FOR_ANN: dict[str, Any] = {"caller": ANN, "request_id": "q-1", "conversation_id": "talk-1"}


async def test_a_single_call_is_on_the_books(own_world: Runtime):
    await w.llm_call("hi", model=Priced(), **FOR_ANN)
    [call] = await own_world.store.calls()
    assert (call.tenant, call.caller, call.request, call.conversation, call.door) == (
        "acme",
        "acme/ann",
        "q-1",
        "talk-1",
        "llm_call",
    )
    assert (call.provider, call.model, call.outcome) == ("priced", "priced-1", "ok")
    assert (call.input_tokens, call.output_tokens, call.session) == (10, 10, None)
    assert call.cost_usd == pytest.approx(0.02) and call.latency_ms > 0 and call.attempts == 1


async def test_streams_and_completions_too(own_world: Runtime):
    async for _ in w.llm_stream("hi", model=Priced(), **FOR_ANN):
        pass
    await w.llm_completion("hi", model=Priced(), **FOR_ANN)
    calls = await own_world.store.calls(tenant="acme")
    assert [call.door for call in calls] == ["llm_stream", "llm_completion"]


async def test_a_run_and_its_sub_agents_are_on_the_books_of_who_asked(own_world: Runtime):
    child = w.Agent(scripted("five"), name="child")
    asked = w.ToolCall("c1", "child", {"task": "add"})
    agent = w.Agent(scripted(asked, "done"), tools=[child.as_tool()])
    out = await agent.run("go", session_id="s", **FOR_ANN)
    assert out.status == "done"
    calls = await own_world.store.calls(tenant="acme")
    assert [call.tool_calls for call in calls] == [1, 0, 0]
    assert {call.session for call in calls} == {"s", "s.c1"}
    assert {(c.request, c.conversation, c.caller) for c in calls} == {("q-1", "talk-1", "acme/ann")}
    opened = [e for e in await own_world.store.read("s.c1") if isinstance(e, RunStarted)]
    assert opened[0].tenant == "acme" and opened[0].request_id == "q-1"


async def test_the_loop_takes_the_same_names(own_world: Runtime):
    await w.agent_loop("go", model=scripted("ok"), session_id="s", **FOR_ANN)
    [call] = await own_world.store.calls(request="q-1")
    assert (call.session, call.door, call.conversation) == ("s", "agent_loop", "talk-1")


@pytest.mark.parametrize("name", ["request_id", "conversation_id"])
async def test_ids_are_texts(name: str):
    for bad in (7, "", "\ud800"):
        with pytest.raises(w.ConfigError, match=name):
            await w.llm_call("hi", model=Priced(), **{name: bad})
        with pytest.raises(w.ConfigError, match=name):
            await w.agent_loop("hi", model=Priced(), **{name: bad})
        with pytest.raises(w.ConfigError, match=name):
            await w.Agent(Priced()).run("hi", **{name: bad})
    with pytest.raises(w.ConfigError, match="caller is a Caller"):
        await w.llm_call("hi", model=Priced(), caller="ann")  # pyright: ignore[reportArgumentType]


async def test_each_try_at_a_schema_is_a_call(own_world: Runtime):
    model = scripted("no json", '{"n": 1}')
    await w.llm_call("hi", model=model, schema={"n": "integer"}, schema_retries=1)
    assert [c.purpose for c in await own_world.store.calls()] == [None, "schema_retry"]


async def test_attempts_are_counted(own_world: Runtime):
    busy = w.Overloaded("later")
    caller = w.with_retry(max_attempts=3, backoff="none")
    await w.llm_call("hi", model=scripted(busy, "ok"), llm_caller=caller)
    out = await w.agent_loop(
        "hi", model=scripted(*[w.Overloaded("x") for _ in range(3)]), llm_caller=caller
    )
    assert out.status == "provider_error"
    calls = await own_world.store.calls()
    assert [(c.attempts, c.outcome) for c in calls] == [(2, "ok"), (3, "overloaded")]
    assert calls[1].latency_ms > 0
    [failed] = [e for e in out.entries if isinstance(e, ReplyFailed)]
    assert failed.attempts == 3 and failed.duration_ms == calls[1].latency_ms


async def test_what_was_paid_on_the_way_has_rows_of_its_own(own_world: Runtime):
    caller = w.compose([w.with_shadow(Priced(), wait=5)])(w.default_llm_caller())
    await w.llm_call("hi", model=Priced(), llm_caller=caller)
    await w.agent_loop("hi", model=Priced(), llm_caller=caller)
    calls = await own_world.store.calls()
    assert sorted(str(call.purpose) for call in calls) == ["None", "None", "shadow", "shadow"]
    assert w.llm_session_cost().total_cost == pytest.approx(0.08)
    assert sum(call.cost_usd for call in calls) == pytest.approx(0.08)


async def test_a_store_that_cannot_write_does_not_cost_the_answer(tmp_path, caplog):
    place = tmp_path / "no" / "sessions.db"
    place.parent.mkdir(mode=0o700)
    async with w.Runtime(store=f"sqlite:///{place}", environ={}) as runtime:
        await runtime.store.aclose()
        reply = await w.llm_call("hi", model=Priced())
        assert reply.text == "ok" and "in memory only" in caplog.text
        assert len(await runtime.memory.calls()) == 1


async def test_a_secret_is_not_written_to_the_books(tmp_path):
    place = f"sqlite:///{tmp_path}/s.db"
    async with w.Runtime(store=place, environ={}, secrets=("hunter2hunter2",)) as runtime:
        await w.llm_call("hi", model=Priced(), request_id="x-hunter2hunter2")
        await w.agent_loop("hi", model=Priced(), request_id="x-hunter2hunter2")
        calls = await runtime.store.calls()
    assert len(calls) == 2 and not any("hunter2" in str(call) for call in calls)


async def test_a_note_cannot_forge_a_call():
    class Forger(w.Policy[None]):
        async def after_reply(self, run: w.Run, turn: w.Turn) -> None:
            run.note(ReplyFailed("x", "x", "p", "m"))

    out = await w.agent_loop("go", model=scripted("ok"), policies=[Forger()])
    assert out.status == "failed" and "run.ask" in str(out.error)


# --------------------------------------------------------------------------- everything adds up


STEPS = st.lists(
    st.sampled_from(
        ["call", "stream", "loop", "child", "retry", "shadow", "fails", "cancelled", "schema"]
    ),
    min_size=1,
    max_size=7,
)


async def _step(kind: str, number: int) -> None:
    name: dict[str, Any] = {"session_id": f"s{number}"} if number % 2 else {}
    model, retry = Priced(), w.with_retry(max_attempts=2, backoff="none")
    match kind:
        case "call":
            await w.llm_call("hi", model=model)
        case "stream":
            async for _ in w.llm_stream("hi", model=model):
                break
        case "loop":
            asks = scripted(w.ToolCall("c", "add", {"a": 1, "b": 2}), "ok")
            await w.agent_loop("hi", model=asks, tools=[add], **name)
        case "child":
            child = w.Agent(model, name="child")
            asks = scripted(w.ToolCall("c", "child", {"task": "x"}), "ok")
            await w.Agent(asks, tools=[child.as_tool()]).run("hi", **name)
        case "retry":
            asks = scripted(w.Overloaded("x"), "ok")
            await w.agent_loop("hi", model=asks, llm_caller=retry, **name)
        case "shadow":
            shadow = w.with_shadow(model, wait=5)
            await w.agent_loop("hi", model=Priced(), llm_caller=shadow, **name)
        case "fails":
            with pytest.raises(w.BadRequest):
                await w.llm_call("hi", model=scripted(w.BadRequest("x")))
        case "cancelled":
            task = asyncio.create_task(w.agent_loop("hi", model=model, **name))
            for _ in range(number):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        case _:
            answers = scripted("no", '{"n": 1}')
            await w.llm_call("hi", model=answers, schema={"n": "integer"}, schema_retries=1)


@given(steps=STEPS)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_rows_journals_and_the_sum_agree(steps: list[str], tmp_path_factory: Any):
    async def story(place: str) -> None:
        async with w.Runtime(store=place, environ={}) as runtime:
            await asyncio.gather(*[_step(kind, number) for number, kind in enumerate(steps)])
            cost, calls = w.llm_session_cost(), await runtime.store.calls()
            assert cost.call_count == len(calls)
            assert cost.input_tokens == sum(call.input_tokens for call in calls)
            assert cost.output_tokens == sum(call.output_tokens for call in calls)
            assert cost.total_cost == pytest.approx(sum(call.cost_usd for call in calls))
            assert runtime.ledger._held_usd == runtime.ledger._held_tokens == 0
            for info in await runtime.store.sessions():
                entries = await runtime.store.read(info.id)
                made = [e for e in entries if isinstance(e, (Replied, ReplyFailed))]
                booked = await runtime.store.calls(session=info.id)
                assert sorted((c.input_tokens, c.attempts, c.cost_usd) for c in booked) == sorted(
                    (e.usage.input_tokens, e.attempts, e.cost_usd) for e in made
                )
                await runtime.store.delete(info.id)
            assert await runtime.store.calls() == calls

    asyncio.run(story("memory:"))
    if len(steps) < 3:
        asyncio.run(story(f"sqlite:///{tmp_path_factory.mktemp('cost')}/sessions.db"))

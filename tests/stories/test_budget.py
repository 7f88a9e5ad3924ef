"""What a run may spend: turns, tokens, dollars, seconds; alone, beside others, and under a parent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, kept, note
from windlass.events import BudgetExhausted, ReplyFailed
from windlass.testing import call, run_virtual, scripted
from windlass.testing.script import ScriptedModel


def priced(*replies: Any, usd_per_token: float = 0.001, **options: Any) -> ScriptedModel:
    """A scripted model that costs something."""

    class Priced(ScriptedModel):
        def price(self, usage: w.Usage) -> float:
            return usage.total_tokens * usd_per_token

    plain = scripted(*replies, **options)
    plain.__class__ = Priced
    return plain


def noting(count: int) -> list[Any]:
    return [call("note", text=str(number)) for number in range(count)]


# --------------------------------------------------------------------------- turns


async def test_a_loop_may_take_fifty_turns():
    model = scripted(then=call("add", a=1, b=1))
    out = await w.agent_loop("go", model=model, tools=[add])
    assert (out.status, out.stop_reason, out.llm.iterations) == (
        "budget_exhausted",
        "max_iterations",
        50,
    )
    await kept(out, model)


async def test_an_agent_may_take_ten_turns():
    out = await w.Agent(scripted(then=call("add", a=1, b=1)), tools=[add]).run("go")
    assert (out.status, out.turns, out.budget_exceeded) == ("budget_exhausted", 10, False)


@pytest.mark.parametrize("limit", [1, 2])
async def test_the_turn_limit_is_what_was_asked_for(limit: int):
    loop = scripted(then=call("add", a=1, b=1))
    await w.agent_loop("go", model=loop, tools=[add], max_iterations=limit)
    agent = scripted(then=call("add", a=1, b=1))
    await w.Agent(agent, tools=[add], max_turns=limit).run("go")
    shared = scripted(then=call("add", a=1, b=1))
    await w.Agent(shared, tools=[add], budget=w.Budget(iterations=limit)).run("go")
    assert len(loop.requests) == len(agent.requests) == len(shared.requests) == limit


async def test_the_tools_of_the_last_turn_still_run():
    out = await w.agent_loop("go", model=scripted(*noting(1)), tools=[note], max_iterations=1)
    assert (out.status, out.tools.successful) == ("budget_exhausted", ["note"])


async def test_a_reached_limit_is_an_event():
    seen: list[w.Event] = []
    await w.agent_loop(
        "go", model=scripted(*noting(2)), tools=[note], max_iterations=2, on_event=seen.append
    )
    assert [e for e in seen if isinstance(e, BudgetExhausted)] == [
        BudgetExhausted("iterations", 2, 2)
    ]


async def test_a_failed_model_call_is_no_turn():
    model = scripted(then=w.Overloaded("busy"))
    out = await w.agent_loop("go", model=model)
    assert (out.status, out.llm.iterations) == ("provider_error", 0)
    assert any(isinstance(e, ReplyFailed) for e in out.entries)
    await kept(out, model)


# --------------------------------------------------------------------------- tokens


async def test_agent_loop_runs_the_tools_of_the_turn_that_crossed_the_budget():
    model = scripted(["x", *noting(2)], usage={"input_tokens": 60, "output_tokens": 60})
    out = await w.agent_loop(
        "go", model=model, tools=[note], await_resumption=False, token_budget=100
    )
    assert (out.status, out.stop_reason) == ("budget_exhausted", "tokens")
    assert [record.outcome for record in out.tool_calls] == ["ok", "ok"]
    await kept(out, model)


async def test_an_agent_does_not_run_them():
    model = scripted(["x", *noting(2)], usage={"input_tokens": 60, "output_tokens": 60})
    out = await w.Agent(model, tools=[note], max_token_budget=100).run("go")
    assert (out.status, out.budget_exceeded) == ("budget_exhausted", True)
    assert [record.outcome for record in out.tool_calls] == ["not_run", "not_run"]
    await kept(out, model)


async def test_a_loop_that_spent_exactly_its_tokens_stops():
    model = scripted(*noting(3), usage={"input_tokens": 400, "output_tokens": 100})
    out = await w.agent_loop("go", model=model, tools=[note], token_budget=1000)
    assert (out.status, out.llm.iterations) == ("budget_exhausted", 2)


async def test_an_agent_that_spent_exactly_its_tokens_keeps_its_answer():
    model = scripted("42", usage={"input_tokens": 60, "output_tokens": 40})
    out = await w.Agent(model, budget=w.Budget(tokens=100)).run("go")
    assert (out.status, out.output) == ("done", "42")


async def test_no_call_starts_once_the_tokens_are_spent():
    model = scripted(*noting(2), usage={"input_tokens": 60, "output_tokens": 40})
    out = await w.Agent(model, tools=[note], budget=w.Budget(tokens=100)).run("go")
    assert (out.status, out.stop_reason, len(model.requests)) == ("budget_exhausted", "tokens", 1)
    assert out.tool_calls[0].outcome == "ok"
    await kept(out, model)


async def test_a_reply_may_be_no_longer_than_what_is_left():
    model = scripted(
        call("note", text="x"), "done", usage={"input_tokens": 50, "output_tokens": 10}
    )
    out = await w.agent_loop(
        "go", model=model, tools=[note], await_resumption=False, token_budget=200, max_tokens=500
    )
    first, second = (request.settings.max_tokens for request in model.requests)
    assert first is not None and second is not None
    assert second < first < 200
    await kept(out, model)


async def test_a_reply_limit_that_fits_is_left_alone():
    model = scripted("done")
    await w.agent_loop("go", model=model, token_budget=1000, max_tokens=100)
    assert model.requests[0].settings.max_tokens == 100


async def test_token_budget_given_twice_is_an_error():
    with pytest.raises(w.ConfigError, match="token_budget"):
        await w.agent_loop("go", model=scripted(), token_budget=5, budget={"tokens": 5})


# --------------------------------------------------------------------------- dollars


async def test_a_question_that_alone_costs_too_much_is_not_asked():
    model = priced("never")
    out = await w.agent_loop("x" * 4000, model=model, budget=w.Budget(usd=0.5))
    assert (out.status, out.stop_reason) == ("budget_exhausted", "usd")
    assert not model.requests
    assert out.cost_usd == 0
    await kept(out)


async def test_dollars_are_counted_from_real_usage():
    model = priced(*noting(5), usage={"input_tokens": 100, "output_tokens": 100})
    out = await w.agent_loop(
        "go", model=model, tools=[note], await_resumption=False, budget=w.Budget(usd=0.3)
    )
    assert (out.status, out.stop_reason, len(model.requests)) == ("budget_exhausted", "usd", 2)
    assert out.cost_usd == pytest.approx(0.4)
    await kept(out, model)


async def test_a_budget_as_a_dict_is_the_same():
    model = priced(*noting(5), usage={"input_tokens": 100, "output_tokens": 100})
    out = await w.agent_loop("go", model=model, tools=[note], budget={"usd": 0.3})
    assert out.stop_reason == "usd"


# --------------------------------------------------------------------------- seconds


def test_seconds_end_a_run_in_the_middle_of_a_model_call():
    async def story() -> None:
        model = scripted("late", delay=60)
        out = await w.agent_loop("go", model=model, budget=w.Budget(seconds=5))
        assert (out.status, out.stop_reason) == ("budget_exhausted", "seconds")
        await kept(out)

    run_virtual(story())


def test_seconds_end_a_run_in_the_middle_of_a_tool():
    @w.tool
    async def slow() -> str:
        await asyncio.sleep(60)
        return "never"

    async def story() -> None:
        model = scripted(call("slow"))
        out = await w.Agent(model, tools=[slow], budget=w.Budget(seconds=5)).run("go")
        assert (out.status, out.budget_exceeded) == ("budget_exhausted", True)
        assert out.tool_calls[0].outcome == "interrupted"
        await kept(out, model)

    run_virtual(story())


def test_seconds_count_on_when_a_parked_run_goes_on():
    @w.tool
    async def slow() -> str:
        await asyncio.sleep(4)
        return "done"

    ask_host = w.Tool("ask_host", "Ask.", {})

    async def story() -> None:
        model = scripted(call("slow"), call("ask_host"), call("slow"), "never")
        agent = w.Agent(model, tools=[slow, ask_host], budget=w.Budget(seconds=6))
        out = await agent.run("go", session_id="s")
        assert out.status == "suspended"
        await asyncio.sleep(1000)  # nobody works while it is parked
        out = await agent.resume("s", results={out.pending[0].id: "yes"})
        assert (out.status, out.stop_reason) == ("budget_exhausted", "seconds")
        assert [record.outcome for record in out.tool_calls] == ["ok", "ok", "interrupted"]
        await kept(out)

    run_virtual(story())


# --------------------------------------------------------------------------- a closing answer


async def test_a_closing_answer_has_the_last_word_without_tools():
    model = scripted(*noting(2), "What I have so far: 2 notes.")
    out = await w.agent_loop("go", model=model, tools=[note], max_iterations=2, closing_answer=True)
    assert (out.status, out.llm.iterations) == ("budget_exhausted", 2)
    assert out.final_text == "What I have so far: 2 notes."
    assert model.requests[-1].tools == ()
    assert out.usage.total_tokens == 45
    await kept(out, model)


async def test_without_the_option_there_is_none():
    model = scripted(*noting(2))
    out = await w.agent_loop("go", model=model, tools=[note], max_iterations=2)
    assert (out.final_text, len(model.requests)) == ("", 2)


async def test_no_closing_answer_where_the_run_was_done():
    model = scripted(call("note", text="x"), "Done.")
    out = await w.agent_loop("go", model=model, tools=[note], closing_answer=True)
    assert (out.final_text, len(model.requests)) == ("Done.", 2)


async def test_part_of_the_tokens_is_kept_back_for_the_closing_answer():
    model = scripted(*noting(2), "So far.", usage={"input_tokens": 4800, "output_tokens": 0})
    out = await w.agent_loop(
        "go", model=model, tools=[note], token_budget=10_000, closing_answer=True
    )
    assert (out.stop_reason, out.final_text) == ("tokens", "So far.")
    assert (model.requests[-1].settings.max_tokens or 0) <= 400
    await kept(out, model)


def test_a_closing_answer_does_not_outlive_the_time_limit():
    async def story() -> None:
        model = scripted(call("note", text="x"), "late", "too late", delay=4)
        out = await w.agent_loop(
            "go", model=model, tools=[note], budget={"seconds": 6}, closing_answer=True
        )
        assert (out.status, out.stop_reason) == ("budget_exhausted", "seconds")
        assert len(model.requests) == 2

    run_virtual(story())


# --------------------------------------------------------------------------- siblings and children


async def test_two_runs_share_what_the_runtime_may_spend():
    model = scripted(then="x", usage={"input_tokens": 50, "output_tokens": 50}, delay=0.001)
    async with w.Runtime(store="memory:", budget=w.Budget(tokens=250), environ={}) as runtime:
        agent = w.Agent(model)
        outs = await asyncio.gather(agent.run("go"), agent.run("go"))
        assert [out.status for out in outs] == ["done", "done"]
        third, fourth = await agent.run("go"), await agent.run("go")
        assert (third.status, fourth.status) == ("done", "budget_exhausted")
        assert len(model.requests) == 3
        assert runtime.ledger is not None and runtime.ledger.tokens == 300


async def test_a_sibling_waits_for_the_other_to_settle():
    """Both calls would not fit at once; neither is refused while the other might spend less."""
    at_once = most = 0

    def reply(request: w.Request) -> Any:
        async def answer() -> str:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.001)
            at_once -= 1
            return "ok"

        return answer()

    model = scripted(then=reply, usage={"input_tokens": 5, "output_tokens": 5})
    async with w.Runtime(store="memory:", budget=w.Budget(tokens=1000), environ={}):
        agent = w.Agent(model, max_tokens=900)
        outs = await asyncio.gather(*(agent.run("go") for _ in range(4)))
    assert [out.status for out in outs] == ["done"] * 4
    assert most == 1


async def test_a_lone_run_may_spend_what_is_left():
    model = scripted("ok")
    async with w.Runtime(store="memory:", budget=w.Budget(tokens=100), environ={}):
        out = await w.Agent(model, max_tokens=5000).run("go")
    assert out.status == "done"
    assert 0 < (model.requests[0].settings.max_tokens or 0) < 100


async def test_a_child_spends_from_its_parents_purse():
    child = w.Agent(
        scripted(then=call("add", a=1, b=1), usage={"input_tokens": 30, "output_tokens": 0}),
        tools=[add],
        name="child",
        max_turns=50,
    )
    model = scripted(call("child", task="dig"), "never", usage={"input_tokens": 10})
    out = await w.agent_loop(
        "go", model=model, tools=[child.as_tool()], await_resumption=False, token_budget=100
    )
    assert (out.status, out.stop_reason) == ("budget_exhausted", "tokens")
    assert len(model.requests) == 1
    assert "budget_exhausted" in out.tool_calls[0].result
    await kept(out, model)


async def test_a_child_has_a_session_of_its_own_under_its_parents():
    child = w.Agent(scripted("4"), name="adder")
    out = await w.Agent(
        scripted(call("adder", task="2+2"), "It is 4."), tools=[child.as_tool()]
    ).run("go")
    assert (out.output, out.tool_calls[0].result) == ("It is 4.", "4")
    infos = {info.id: info for info in await w.agent_session_list()}
    [child_id] = [name for name in infos if name != out.session_id]
    assert infos[child_id].parent_id == out.session_id


async def test_a_resumed_run_is_not_charged_to_the_runtime_twice():
    host = w.Tool("ask_host", "Ask the host.", {})
    async with w.Runtime(store="memory:", budget=w.Budget(tokens=1000), environ={}) as runtime:
        agent = w.Agent(scripted(call("ask_host"), "ok"), tools=[host])
        out = await agent.run("go", session_id="s")
        await agent.resume("s", results={out.pending[0].id: "yes"})
        assert runtime.ledger is not None and runtime.ledger.tokens == 30


async def test_a_resumed_run_remembers_what_it_spent():
    host = w.Tool("ask_host", "Ask the host.", {})
    model = scripted(call("ask_host"), "ok", usage={"input_tokens": 600, "output_tokens": 0})
    agent = w.Agent(model, tools=[host], budget=w.Budget(tokens=600))
    out = await agent.run("go", session_id="s")
    assert out.status == "suspended"
    out = await agent.resume("s", results={out.pending[0].id: "yes"})
    assert (out.status, out.stop_reason, len(model.requests)) == ("budget_exhausted", "tokens", 1)
    assert out.usage.total_tokens == 600
    await kept(out, model)


async def test_a_spent_budget_can_be_raised_as_an_error():
    out = await w.agent_loop("go", model=scripted(*noting(1)), tools=[note], max_iterations=1)
    with pytest.raises(w.BudgetExceeded) as caught:
        out.raise_for_status()
    assert caught.value.session_id == out.session_id
    assert caught.value.trace["status"] == "budget_exhausted"


async def test_nudges_and_results_are_estimated_too():
    """What a run is about to send counts before it is sent."""
    model = priced(call("note", text="y" * 4000), "never", usd_per_token=0.001)
    out = await w.agent_loop("go", model=model, tools=[note], budget=w.Budget(usd=1.0))
    assert (out.status, len(model.requests)) == ("budget_exhausted", 1)
    assert out.tool_calls[0].outcome == "ok"

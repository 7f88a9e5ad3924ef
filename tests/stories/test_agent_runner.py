"""The compact agent: which tools it may use, who it is to them, budgets, loops, and its stream."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    broken,
    kept,
    note,
)
from windlass.events import Framed, Reshaped
from windlass.testing import call, run_virtual, scripted


def offered(model: Any, turn: int = 0) -> list[str]:
    """The tools that the model was shown."""
    return [tool.name for tool in model.requests[turn].tools]


@w.tool
async def who(ctx: w.ToolContext[Any]) -> str:
    """Who asks?"""
    return f"{ctx.agent.name}, {ctx.agent.role}, {ctx.agent.model}"


class Brings(w.Policy[None]):
    """Adds a tool to every run."""

    def __init__(self, *tools: w.Tool) -> None:
        self.tools = tools

    async def start(self, run: w.Run) -> list[w.Tool]:
        return list(self.tools)


# --------------------------------------------------------------------------- which tools


async def test_an_agent_uses_the_tools_it_is_allowed():
    model = scripted("x")
    await w.Agent(model, tools=[add, note, broken], allowed_tools=["note", "add"]).run("go")
    assert offered(model) == ["add", "note"]


async def test_a_denied_tool_is_not_there():
    model = scripted(call("note", text="x"), "ok")
    out = await w.Agent(model, tools=[add, note], disallowed_tools=["note"]).run("go")
    assert offered(model) == ["add"]
    assert [record.outcome for record in out.tool_calls] == ["unknown_tool"]
    await kept(out, model)


async def test_what_is_allowed_and_denied_stays_denied_and_somebody_is_told():
    model, told = scripted(call("add", a=1, b=2), "3"), list[str]()
    agent = w.Agent(
        model, tools=[add, note], allowed_tools=["add", "note"], disallowed_tools=["note"]
    )
    await agent.run("go", on_warning=told.append)
    assert offered(model) == ["add"]
    [words] = told
    assert "'note'" in words and "both" in words


async def test_a_name_that_no_tool_has_is_said_with_the_nearest(caplog: pytest.LogCaptureFixture):
    model, told = scripted(call("add", a=1, b=2), "3"), list[str]()
    agent = w.Agent(
        model, tools=[add, note], allowed_tools=["add", "nope"], disallowed_tools=["notes"]
    )
    await agent.run("go", on_warning=told.append)
    assert offered(model) == ["add"]
    assert told == [
        "allowed_tools names 'nope', which no tool is; did you mean 'note'?",
        "disallowed_tools names 'notes', which no tool is; did you mean 'note'?",
    ]
    assert not caplog.text


async def test_where_nobody_is_to_be_warned_the_log_has_it_once(caplog: pytest.LogCaptureFixture):
    agent = w.Agent(scripted(then="x"), tools=[add], disallowed_tools=["ad"])
    await agent.run("go")
    await agent.run("go")
    assert caplog.text.count("did you mean 'add'?") == 1


async def test_filters_that_leave_nothing_are_odd():
    model, told = scripted("x"), list[str]()
    await w.Agent(model, tools=[add], allowed_tools=[]).run("go", on_warning=told.append)
    assert (offered(model), len(told)) == ([], 1)
    assert "none of the tools" in told[0]


async def test_tools_that_a_policy_brings_are_held_to_the_denied_ones_alone():
    model = scripted("x")
    agent = w.Agent(
        model,
        tools=[add],
        policies=[Brings(note, broken)],
        allowed_tools=["add"],
        disallowed_tools=["broken"],
    )
    told: list[str] = []
    await agent.run("go", on_warning=told.append)
    assert offered(model) == ["add", "note"]
    assert not any("broken" in words for words in told)


async def test_filters_may_be_changed_for_one_run():
    model = scripted("x", "y")
    agent = w.Agent(model, tools=[add, note], allowed_tools=["add"])
    await agent.run("go", allowed_tools=["note"])
    await agent.run("go")
    assert (offered(model), offered(model, 1)) == (["note"], ["add"])


async def test_a_choice_of_a_tool_that_is_filtered_out_is_refused():
    with pytest.raises(w.ConfigError, match="tool_choice names 'note'"):
        agent = w.Agent(
            scripted(), tools=[add, note], disallowed_tools=["note"], tool_choice={"name": "note"}
        )
        await agent.run("go")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("allowed_tools", "add"),
        ("disallowed_tools", [1]),
        ("role", 3),
        ("output", 3),
        ("deps_type", "Db"),
        ("tool_preset", "read"),
    ],
)
def test_a_wrong_or_unknown_option_is_refused(option: str, value: Any):
    with pytest.raises(w.ConfigError, match=option):
        w.Agent(scripted(), **{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [("task_id", 7), ("trace_agent", ""), ("on_warning", 3), ("on_trace", "print")],
)
async def test_a_wrong_option_of_a_run_is_refused(option: str, value: Any):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=option):
        await w.Agent(model).run("go", **{option: value})
    assert not model.requests


# --------------------------------------------------------------------------- who it is


async def test_a_tool_knows_which_agent_calls_it():
    model = scripted(call("who"), "ok", name="tiny")
    agent = w.Agent(model, name="clerk", role="You file papers.", tools=[who])
    out = await agent.run("go")
    assert out.tool_calls[0].output == "clerk, You file papers., tiny"
    out = await w.Agent(scripted(call("who"), "ok", name="tiny"), tools=[who]).run("go")
    assert out.tool_calls[0].output == "runner, assistant, tiny"


async def test_a_system_prompt_may_say_who_it_is():
    model = scripted("x", name="tiny")
    agent = w.Agent(
        model, name="clerk", system=lambda ctx: f"{ctx.agent.name} on {ctx.agent.model}"
    )
    await agent.run("go")
    assert model.requests[0].system == "clerk on tiny"


async def test_a_run_that_goes_on_keeps_the_system_prompt_it_began_with():
    written: list[str] = []

    def system() -> str:
        written.append(f"version {len(written) + 1}")
        return written[-1]

    ask = w.Tool(name="ask", description="Ask somebody.")
    model = scripted(call("ask"), "done")
    agent = w.Agent(model, system=system, tools=[ask], loop_until_done=False)
    out = await agent.run("go", session_id="s")
    assert out.status == "suspended"
    out = await agent.resume("s", results={out.pending[0].id: "yes"})
    assert [request.system for request in model.requests] == ["version 1", "version 1"]
    assert written == ["version 1"]
    assert [e.system for e in out.entries if isinstance(e, Framed)] == ["version 1"]
    await kept(out, model)


async def test_an_agent_as_a_tool_has_its_system_prompt_written_too():
    child = scripted("Vienna.")
    expert = w.Agent(child, name="expert", system=lambda ctx: f"You serve {ctx.deps}.")
    chief = w.Agent(scripted(call("expert", task="?"), "ok"), tools=[expert.as_tool()])
    await chief.run("go", deps="Ann")
    assert child.requests[0].system == "You serve Ann."


# --------------------------------------------------------------------------- deps


class Db:
    """Something tools need."""


async def test_deps_are_what_the_agent_says_it_needs():
    agent = w.Agent(scripted(then="x"), deps_type=Db)
    assert (await agent.run("go", deps=Db())).output == "x"
    with pytest.raises(w.ConfigError, match="deps of type Db, not None"):
        await agent.run("go")
    with pytest.raises(w.ConfigError, match="deps of type Db, not 'db'"):
        agent.stream("go", deps="db")
    either = w.Agent(scripted(then="x"), deps_type=Db | None)
    assert (await either.run("go")).output == "x"
    many = w.Agent(scripted(then="x"), deps_type=dict[str, Db])
    assert (await many.run("go", deps={"a": Db()})).output == "x"


async def test_an_agent_as_a_tool_needs_its_deps_from_its_chief():
    child = scripted("Vienna.")
    expert = w.Agent(child, name="expert", deps_type=Db).as_tool()
    out = await w.Agent(scripted(call("expert", task="?"), "ok"), tools=[expert]).run(
        "go", deps="db"
    )
    assert "deps of type Db, not 'db'" in out.tool_calls[0].result and not child.requests
    out = await w.Agent(scripted(call("expert", task="?"), "ok"), tools=[expert]).run(
        "go", deps=Db()
    )
    assert out.tool_calls[0].result == "Vienna."


# --------------------------------------------------------------------------- the brake


@pytest.mark.parametrize("own", [False, True])
def test_an_agents_brake_works_and_that_of_a_run_comes_first(own: bool):
    seen: list[bool] = []

    @w.tool
    async def slow(ctx: w.ToolContext[None]) -> str:
        """Takes its time."""
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(ctx.cancelled)
        return "late"

    async def story() -> None:
        of_agent, of_run = w.Abort(), w.Abort()
        model = scripted(call("slow"), "ok")
        agent = w.Agent(model, tools=[slow], abort=of_agent)
        task = asyncio.ensure_future(agent.run("go", abort=of_run) if own else agent.run("go"))
        await asyncio.sleep(1)
        if own:
            of_agent.abort("not this one")
            await asyncio.sleep(1)
            assert not seen
            of_run.abort("this one")
        else:
            of_agent.abort("this one")
        out = await task
        assert (out.status, out.stop_reason, seen) == ("cancelled", "this one", [True])
        await kept(out, model)

    run_virtual(story())


async def test_a_brake_that_was_pulled_before_keeps_a_run_from_asking():
    brake, model = w.Abort(), scripted("never")
    brake.abort("no")
    out = await w.Agent(model, abort=brake).run("go")
    assert (out.status, out.turns, model.requests) == ("cancelled", 0, [])


# --------------------------------------------------------------------------- limits


async def test_a_token_budget_is_looked_at_before_the_turns_tools_run():
    model = scripted(["Let me.", call("note", text="x")], "never", usage=w.Usage(900, 600))
    out = await w.Agent(model, tools=[note], max_token_budget=1400).run("go")
    assert (out.status, out.budget_exceeded, out.output) == ("budget_exhausted", True, "Let me.")
    assert [(r.tool_name, r.outcome) for r in out.tool_calls] == [("note", "not_run")]
    with pytest.raises(w.TokenBudgetExceededError) as caught:
        out.raise_for_status()
    assert (caught.value.tokens_used, caught.value.budget) == (1500, 1400)
    await kept(out, model)


async def test_a_run_that_has_ended_still_knows_what_it_spent():
    model = scripted("Too long.", usage=w.Usage(900, 600))
    agent = w.Agent(model, max_token_budget=1400)
    await agent.run("go", session_id="s")
    with pytest.raises(w.TokenBudgetExceededError, match="used 1500 tokens of a budget of 1400"):
        (await agent.resume("s")).raise_for_status()


async def test_a_budget_that_is_just_spent_is_not_exceeded():
    out = await w.Agent(scripted("fits", usage=w.Usage(10, 15)), max_token_budget=25).run("go")
    assert (out.status, out.budget_exceeded, out.output) == ("done", False, "fits")


async def test_the_output_of_a_run_out_of_turns_is_what_was_said_last():
    model = scripted(["First.", call("add", a=1, b=1)], ["Second.", call("add", a=1, b=2)])
    out = await w.Agent(model, tools=[add], max_turns=2).run("go")
    assert (out.status, out.stop_reason) == ("budget_exhausted", "max_iterations")
    assert (out.output, out.turns, out.budget_exceeded) == ("Second.", 2, False)
    await kept(out, model)


async def test_the_budget_speaks_before_the_loop_does():
    same = [call("note", text="x")]
    model = scripted(same, same)
    out = await w.Agent(
        model,
        tools=[note],
        max_token_budget=29,
        loop_detection={"max_repetitions": 2, "on_loop_detected": "terminate"},
    ).run("go")
    assert (out.stop_reason, out.loop_detected) == ("tokens", False)
    await kept(out, model)


# --------------------------------------------------------------------------- loops


async def test_a_loop_is_ended_before_the_repeated_call_runs():
    model, told = scripted(then=["Again.", call("note", text="x")]), list[str]()
    agent = w.Agent(
        model, tools=[note], loop_detection={"max_repetitions": 2, "on_loop_detected": "terminate"}
    )
    out = await agent.run("go", on_warning=told.append)
    assert (out.status, out.loop_detected, out.output) == ("stuck", True, "Again.")
    assert [record.outcome for record in out.tool_calls] == ["ok", "not_run"]
    assert told == ["the same calls 2 turns in a row: note"]
    await kept(out, model)


async def test_without_detection_no_loop_is_detected():
    out = await w.Agent(scripted("x")).run("go")
    assert out.loop_detected is False


async def test_repeated_calls_in_a_row_warn_as_well():
    model, told = scripted(*[call("add", a=1, b=1)] * 3, "2"), list[str]()
    agent = w.Agent(model, tools=[add], stall_diagnostics={"threshold": 3})
    await agent.run("go", on_warning=told.append)
    assert told == ["add was called 3 times in a row with the same arguments"]


# --------------------------------------------------------------------------- warnings


async def test_a_model_that_takes_no_notice_of_its_tools_is_suspected():
    told: list[str] = []
    agent = w.Agent(scripted("hm", call("add", a=1, b=1), "2"), name="clerk", tools=[add, note])
    await agent.run("go", on_warning=told.append)
    [words] = told
    assert "'clerk' has 2 tools" in words
    await agent.run("go", on_warning=told.append)
    assert len(told) == 1  # it called one in its first turn
    await w.Agent(scripted("x")).run("go", on_warning=told.append)
    await w.Agent(scripted("x"), tools=[add], tool_choice="none").run("go", on_warning=told.append)
    assert len(told) == 1


async def test_warnings_may_be_told_to_a_coroutine():
    told: list[str] = []

    async def warn(words: str) -> None:
        await asyncio.sleep(0)
        told.append(words)

    agent = w.Agent(scripted("x"), tools=[add], allowed_tools=["ad", "ada"])
    await agent.run("go", on_warning=warn)
    assert [words[:20] for words in told] == [
        "allowed_tools names ",
        "allowed_tools names ",
        "allowed_tools and di",
    ]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_no_callback_can_hurt_a_run(asynchronous: bool, caplog: pytest.LogCaptureFixture):
    async def fail_later(*_: Any) -> None:
        raise ValueError("my fault")

    def fail(*_: Any) -> None:
        raise ValueError("my fault")

    bad = fail_later if asynchronous else fail
    model = scripted("hm")
    agent = w.Agent(model, tools=[add], allowed_tools=["add", "ad", "ada"])
    out = await agent.run("go", on_warning=bad, on_trace=bad, on_message=bad)
    assert (out.status, out.output) == ("done", "hm")
    assert caplog.text.count("my fault") >= 5
    await kept(out, model)


# --------------------------------------------------------------------------- messages


class Forgets(w.Policy[None]):
    """Compaction: after the first turn the view is one sentence."""

    async def before_turn(self, run: w.Run) -> None:
        if run.iteration == 1:
            run.reshape(
                (0, len(run.messages)), [w.Message("user", "In short: go on.")], "compaction"
            )


async def test_new_messages_are_right_after_a_compaction_too():
    model, told = scripted(call("add", a=1, b=2), "3", "yes"), list[w.Message]()
    agent = w.Agent(model, tools=[add], policies=[Forgets()])
    out = await agent.run("1+2?", session_id="s", on_message=told.append)
    assert any(isinstance(entry, Reshaped) for entry in out.entries)
    assert [m.role for m in out.messages] == ["assistant", "tool", "assistant"]
    assert list(out.messages) == told
    assert [m.text for m in out.all_messages] == ["In short: go on.", "3"]
    out = await agent.run("sure?", session_id="s")
    assert [m.text for m in out.messages] == ["yes"]
    await kept(out)


async def test_what_a_run_is_told_meanwhile_is_among_its_messages_after_the_results():
    class Mutters(w.Policy[None]):
        async def after_reply(self, run: w.Run, turn: w.Turn) -> None:
            if turn.calls:
                run.say("Be quick.", "hint")

    model, told = scripted(call("add", a=1, b=2), "3"), list[w.Message]()
    out = await w.Agent(model, tools=[add], policies=[Mutters()]).run("go", on_message=told.append)
    assert [m.role for m in out.messages] == ["assistant", "tool", "user", "assistant"]
    assert list(out.messages) == told
    await kept(out, model)


async def test_a_dropped_reply_is_no_message():
    class Picky(w.Policy[None]):
        async def after_reply(self, run: w.Run, turn: w.Turn) -> w.KeepGoing | None:
            if run.iteration == 1:
                run.say("Once more.", "picky")
                return w.KeepGoing("once more", drop=True)
            return None

    model = scripted("first", "second")
    out = await w.Agent(model, policies=[Picky()]).run("go")
    assert [m.text for m in out.messages] == ["Once more.", "second"]
    await kept(out, model)

"""Tools that end a run by working, tools that must have worked, and what a turn should look like."""

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
    said,
)
from tests.stories.judge_helpers import (
    DONE,
    MORE,
    from_every_place,
    is_judged,
    look,
    of,
)
from windlass import errors
from windlass.events import JudgeDecision
from windlass.testing import call, scripted

# --------------------------------------------------------------------------- stop_after_…


async def test_a_tool_that_works_ends_the_run():
    model = scripted([call("note", text="x"), call("add", a=1, b=1)])
    out = await w.agent_loop(
        "go", model=model, tools=[note, add], stop_after_successful_tools=["note", "add"]
    )
    assert (out.status, out.stop_reason, out.llm.iterations) == ("done", "natural", 1)
    assert out.tools.successful == ["note", "add"], "the whole turn ran"
    await kept(out, model)


async def test_a_tool_that_fails_does_not():
    model = scripted(call("broken"), call("add", a=1, b=1), "end")
    out = await w.agent_loop(
        "go", model=model, tools=[broken, add], stop_after_successful_tools=["broken"]
    )
    assert (out.llm.iterations, out.final_text) == (3, "end")


async def test_a_gate_may_object_and_the_run_goes_on():
    model = scripted(call("note", text="x"), MORE, call("note", text="y"), DONE)
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[note],
        stop_after_successful_tools=["note"],
        verify_completion_judge=True,
        loop_until_done=True,
    )
    assert (out.status, out.llm.iterations) == ("done", 2)
    assert said(model.requests[2])[-1] == "write the tests"


# --------------------------------------------------------------------------- require_…


async def test_a_required_tool_that_has_not_worked_is_asked_for():
    model = scripted("done", call("note", text="x"), "really")
    out = await w.agent_loop("go", model=model, tools=[note], require_successful_tools=["note"])
    assert (out.status, out.llm.iterations) == ("done", 3)
    assert "note" in said(model.requests[1])[-1]
    assert model.requests[1].messages[-1].kind == "required_tools"
    with pytest.raises(AttributeError):
        _ = out.missing_required_tools
    await kept(out, model)


async def test_a_run_without_its_required_tools_has_failed():
    model = scripted(then="done")
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[note, add, broken],
        require_successful_tools=["note", ["add", "broken"]],
        max_iterations=2,
    )
    assert (out.status, out.stop_reason) == ("failed", "missing_required_tools")
    assert out.missing_required_tools == ["note", "add or broken"]
    await kept(out, model)


async def test_of_a_group_one_is_enough():
    model = scripted([call("broken"), call("add", a=1, b=1)], "ok")
    out = await w.agent_loop(
        "go", model=model, tools=[add, broken], require_successful_tools=[["broken", "add"]]
    )
    assert out.status == "done"


async def test_a_tool_that_only_failed_has_not_worked():
    model = scripted(call("broken"), then="ok")
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[broken],
        require_successful_tools=["broken"],
        max_iterations=3,
    )
    assert (out.status, out.missing_required_tools) == ("failed", ["broken"])


async def test_with_everything_there_a_text_reply_ends_a_loop_that_waits_for_a_sentinel():
    model = scripted(call("note", text="x"), "That is it.")
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[note],
        loop_until_done=True,
        done_sentinel="FIN",
        require_successful_tools=["note"],
        done_judge=True,
    )
    assert (out.status, out.stop_reason) == ("done", "required_tools_satisfied")
    assert out.done_judge["invocations"] == 0, "the done judge is for sentinels and natural ends"


async def test_gates_come_first_and_required_tools_after_them():
    model = scripted("a", MORE, "b", DONE, call("note", text="x"), "c", DONE)
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[note],
        require_successful_tools=["note"],
        done_judge=True,
        loop_until_done=True,
    )
    assert [d.verdict for d in of(out, JudgeDecision)] == ["continue", "done", "done"]
    kinds = [m.kind for m in out.all_messages if m.kind]
    assert kinds == ["done_judge", "required_tools"] and out.status == "done"
    await kept(out, model)


@pytest.mark.parametrize("how", ["provider_error", "cancelled"])
async def test_an_end_that_is_worse_stays_as_it_is(how: str):
    abort = w.Abort()

    def stop(request: w.Request) -> Any:
        abort.abort()
        return "x"

    reply = errors.BadRequest("busy") if how == "provider_error" else stop
    out = await w.agent_loop(
        "go", model=scripted(reply), tools=[note], require_successful_tools=["note"], abort=abort
    )
    assert out.status == how


async def test_a_stop_by_the_callback_is_no_excuse():
    out = await w.agent_loop(
        "go",
        model=scripted("x"),
        tools=[note],
        require_successful_tools=["note"],
        post_turn_callback=lambda turn: True,
    )
    assert (out.status, out.stop_reason) == ("failed", "missing_required_tools")


@pytest.mark.parametrize("value", ["note", [3], [[]], [["note", 4]], 7, [""]])
@pytest.mark.parametrize("option", ["require_successful_tools", "stop_after_successful_tools"])
async def test_what_is_no_list_of_names(option: str, value: Any):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=option):
        await w.agent_loop("go", model=model, tools=[note], **{option: value})
    assert not model.requests


# --------------------------------------------------------------------------- turn_policy


async def test_words_alone_do_not_end_a_run_that_has_to_act():
    model = scripted("I would note it.", call("note", text="x"), "Noted.")
    out = await w.agent_loop(
        "go", model=model, tools=[note], turn_policy={"require_action_or_yield": True}
    )
    assert (out.status, out.llm.iterations, out.final_text) == ("done", 3, "Noted.")
    assert model.requests[1].messages[-1].kind == "nudge"
    assert "Words alone do not count" in said(model.requests[1])[-1]
    assert "final answer" not in said(model.requests[1])[-1]
    await kept(out, model)


async def test_an_action_that_failed_is_an_action():
    model = scripted(call("broken"), "It is out of order.")
    policy = w.TurnPolicy(require_action_or_yield=True)
    out = await w.agent_loop("go", model=model, tools=[broken], turn_policy=policy)
    assert (out.status, out.llm.iterations) == ("done", 2)


async def test_who_only_talks_is_stuck():
    model = scripted(then="I would.")
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[note],
        turn_policy={"require_action_or_yield": True},
        max_nudges=2,
    )
    assert (out.status, out.stop_reason, out.llm.iterations) == ("stuck", "max_nudges", 3)


async def test_the_sentinel_is_a_way_to_yield():
    model = scripted("FIN")
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[note],
        done_sentinel="FIN",
        turn_policy={"require_action_or_yield": True},
    )
    assert (out.status, out.stop_reason) == ("done", "sentinel")


async def test_without_tools_there_is_nothing_to_act_with():
    policy = {"require_action_or_yield": True}
    out = await w.agent_loop("go", model=scripted("hello"), turn_policy=policy)
    assert (out.status, out.llm.iterations) == ("done", 1)


async def test_nudges_need_not_offer_the_sentinel():
    for allow, offered in ((True, True), (False, False)):
        model = scripted("hm", "##DONE##")
        await w.agent_loop(
            "go", model=model, loop_until_done=True, turn_policy={"allow_done_sentinel": allow}
        )
        assert ("##DONE##" in said(model.requests[1])[-1]) is offered


async def test_who_writes_too_much_is_told_to_be_brief():
    model = scripted("word " * 20, "##DONE##")
    await w.agent_loop("go", model=model, loop_until_done=True, turn_policy={"max_prose_chars": 30})
    assert "under 30 characters" in said(model.requests[1])[-1]
    model = scripted(
        ["word " * 20, call("note", text="x")], ["short", call("note", text="y")], "ok"
    )
    await w.agent_loop("go", model=model, tools=[note], turn_policy={"max_prose_chars": 30})
    assert model.requests[1].messages[-1].kind == "brief"
    assert [m.kind for m in model.requests[2].messages].count("brief") == 1


@pytest.mark.parametrize(
    "value", [True, {"max_prose_chars": 0}, {"require_action": True}, {"allow_done_sentinel": "no"}]
)
async def test_what_is_no_turn_policy(value: Any):
    with pytest.raises(w.ConfigError, match="turn_policy"):
        await w.agent_loop("go", model=scripted("never"), turn_policy=value)


# --------------------------------------------------------------------------- one turn, many rules


async def test_the_sentinel_wins_on_the_turn_that_would_be_stuck():
    model = scripted("hm", "##DONE##")
    out = await w.agent_loop("go", model=model, loop_until_done=True, max_nudges=1)
    assert out.status == "done"
    model = scripted("hm", "hm")
    out = await w.agent_loop("go", model=model, loop_until_done=True, max_nudges=1)
    assert (out.status, out.llm.iterations) == ("stuck", 2)


async def test_a_veto_of_talk_counts_as_talk_and_is_not_nudged_too():
    model = scripted("##DONE##", MORE, "##DONE##", MORE)
    out = await w.agent_loop("go", model=model, loop_until_done=True, max_nudges=1, done_judge=True)
    assert (out.status, out.stop_reason, out.llm.iterations) == ("stuck", "max_nudges", 2)
    assert [m.kind for m in out.all_messages if m.kind] == ["done_judge", "done_judge"]
    await kept(out, model)


async def test_a_follow_up_is_no_talk():
    posted = asyncio.Event()

    async def first(request: w.Request) -> str:
        await posted.wait()
        return "one"

    agent = w.Agent(scripted(first, "two"), tools=[note], loop_until_done=True, max_nudges=0)
    async with agent.stream("go") as run:
        await run.follow_up("and then?")
        posted.set()
        out = await run.result()
    assert (out.status, out.output) == ("done", "two")


async def test_a_stop_by_the_callback_skips_the_gates():
    model = scripted("x")
    out = await w.agent_loop(
        "go", model=model, done_judge=True, post_turn_callback=lambda turn: {"stop": True}
    )
    assert (out.status, out.stop_reason) == ("done", "post_turn_stop")
    assert out.done_judge["invocations"] == 0


async def test_a_budget_overrules_everybody():
    model = scripted(then="##DONE##", usage={"input_tokens": 90, "output_tokens": 20})
    out = await w.agent_loop(
        "go",
        model=model,
        loop_until_done=True,
        token_budget=100,
        verify_completion=lambda: "never",
        loop_control=lambda state: {"action": "extend", "by": 9},
    )
    assert out.status == "budget_exhausted"


# --------------------------------------------------------------------------- after a crash


def by_content(request: w.Request) -> Any:
    if is_judged(request):
        return DONE if "end" in request.messages[0].text else MORE
    turn = sum(message.role == "assistant" for message in request.messages)
    script: list[Any] = ["talk " * 9, "more talk", "x", "end", "end"]
    said = script[min(turn, 4)]
    return [said, w.ToolCall(f"c{turn}", "look", {"text": "x"})] if turn == 3 else said


@pytest.mark.parametrize("by_entry", [False, True])
async def test_completion_goes_on_from_every_place(by_entry: bool):
    def make() -> Any:
        model = scripted(then=by_content)
        agent = w.Agent(
            model,
            tools=[look],
            require_successful_tools=["look"],
            turn_policy={"require_action_or_yield": True, "max_prose_chars": 20},
            done_judge=True,
            max_nudges=3,
        )
        return agent, model

    out = await from_every_place(make, by_entry=by_entry)
    assert out.status == "done"


@pytest.mark.parametrize("by_entry", [False, True])
async def test_a_stuck_run_is_stuck_from_every_place(by_entry: bool):
    def make() -> Any:
        model = scripted(then="hm")
        return w.Agent(model, loop_until_done=True, max_nudges=2), model

    assert (await from_every_place(make, by_entry=by_entry)).status == "stuck"

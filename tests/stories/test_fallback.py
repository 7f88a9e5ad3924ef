"""A model with native tools that does not always use them: calls written as text, empty replies."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    note,
    results,
    said,
)
from tests.stories.judge_helpers import from_every_place, look, of
from windlass.events import NativeToolFallback, NativeToolRejected
from windlass.messages import Message, Text, Thinking
from windlass.models.base import Response
from windlass.testing import call, scripted
from windlass.usage import Usage

WRITTEN = 'I will.\n<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
NOTED = '<tool_call>{"name": "note", "arguments": {"text": "x"}}</tool_call>'
EMPTY = Response(Message("assistant", ()), Usage(7, 0), "end_turn", "scripted")
ALLOW = {"native_tool_fallback": "allow"}


def drift(out: Any) -> tuple[int, int, int]:
    trace = out.trace
    return (
        trace["native_text_tool_fallbacks"],
        trace["native_text_tool_fallback_rejections"],
        trace["empty_completion_retries"],
    )


# --------------------------------------------------------------------------- calls written as text


async def test_a_written_call_runs_like_any_other():
    model = scripted(WRITTEN, "3")
    out = await w.agent_loop("1 + 2?", model=model, tools=[add], **ALLOW)
    assert (out.status, out.final_text, results(out)["add"]) == ("done", "3", ("ok", "3"))
    assert drift(out) == (1, 0, 0)
    assert [e.calls for e in of(out, NativeToolFallback)] == [1]
    assert out.tools.mode == "native"
    await kept(out, model)


async def test_the_model_sees_its_call_as_a_native_one():
    model = scripted(WRITTEN, "3")
    await w.agent_loop("go", model=model, tools=[add], **ALLOW)
    said_, answered = model.requests[1].messages[1:3]
    assert (said_.text, said_.tool_calls[0].name, answered.role) == ("I will.", "add", "tool")


async def test_the_transcript_says_so():
    model = scripted(WRITTEN, "3")
    out = await w.agent_loop("go", model=model, tools=[add], **ALLOW)
    assert "native_tool_fallback" in [e["kind"] for e in out.transcript["events"]]


async def test_the_mock_provider_drifts_like_a_real_one():
    w.llm_mock({"text": WRITTEN})
    w.llm_mock({"text": "3"})
    try:
        out = await w.agent_loop("go", provider="mock", model="m", tools=[add])
    finally:
        w.llm_mock_clear()
    assert (out.final_text, drift(out)) == ("3", (1, 0, 0))


async def test_a_model_of_this_process_is_read_like_any_other():
    out = await w.agent_loop("go", model=scripted(WRITTEN, "3"), tools=[add])
    assert (out.final_text, drift(out)) == ("3", (1, 0, 0))


async def test_whoever_watches_does_not_see_the_call_as_text():
    seen: list[str] = []

    def watch(event: Any) -> None:
        if isinstance(event, w.TextDelta):
            seen.append(event.text)

    model = scripted(WRITTEN, "It is < 4.", stream=True)
    await w.agent_loop("go", model=model, tools=[add], on_event=watch, **ALLOW)
    assert "".join(seen) == "I will.\nIt is < 4."


async def test_once_is_forgiven_and_then_refused():
    model = scripted(NOTED, NOTED, call("note", text="y"), "ok")
    out = await w.agent_loop("go", model=model, tools=[note], native_tool_fallback="allow_once")
    assert [r.outcome for r in out.tool_calls] == ["ok", "not_run", "ok"]
    assert drift(out) == (2, 1, 0) and out.status == "done"
    assert model.requests[2].messages[-1].kind == "native_tool_fallback"
    assert "provider's own tool calls" in said(model.requests[2])[-1]
    await kept(out, model)


async def test_a_refused_call_never_runs():
    model = scripted(NOTED, call("note", text="y"), "ok")
    out = await w.agent_loop("go", model=model, tools=[note], native_tool_fallback="reject")
    assert [r.outcome for r in out.tool_calls] == ["not_run", "ok"]
    assert (drift(out), len(of(out, NativeToolRejected))) == ((1, 1, 0), 1)
    await kept(out, model)


async def test_on_the_only_turn_left_a_refusal_is_the_end():
    model = scripted(NOTED)
    out = await w.agent_loop(
        "go", model=model, tools=[note], native_tool_fallback="reject", max_iterations=1
    )
    assert (out.status, out.stop_reason) == ("failed", "native_tool_fallback_rejected")
    await kept(out, model)


async def test_a_budget_that_ends_later_is_only_a_budget():
    model = scripted(NOTED, then=call("note", text="y"))
    out = await w.agent_loop(
        "go", model=model, tools=[note], native_tool_fallback="reject", max_iterations=2
    )
    assert (out.status, out.stop_reason) == ("budget_exhausted", "max_iterations")


async def test_a_budget_that_can_grow_grows_first():
    model = scripted(NOTED, "ok")
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[note],
        native_tool_fallback="reject",
        iteration_budget={"mode": "adaptive", "initial": 1, "max": 4},
        loop_control=lambda state: {"action": "extend"},
    )
    assert (out.status, out.final_text) == ("done", "ok")


async def test_loop_control_knows_of_calls_that_were_taken():
    seen: list[Any] = []
    model = scripted(NOTED, NOTED, "ok")
    await w.agent_loop(
        "go",
        model=model,
        tools=[note],
        native_tool_fallback="allow_once",
        loop_control=seen.append,
    )
    assert [s.turn.native_fallback_used for s in seen] == [True, False]
    assert [s.turn.tool_call_count for s in seen] == [1, 0]


async def test_a_call_that_cannot_be_read_is_answered_in_words():
    model = scripted('<tool_call>{"name": "add", "arg', "sorry")
    out = await w.agent_loop("go", model=model, tools=[add], **ALLOW)
    assert (out.status, out.final_text) == ("done", "sorry")
    await kept(out, model)


async def test_beside_native_calls_a_written_one_is_prose():
    model = scripted([NOTED, call("add", a=1, b=1)], "ok")
    out = await w.agent_loop("go", model=model, tools=[add, note], **ALLOW)
    assert out.tools.calls == ["add"] and drift(out) == (0, 0, 0)


async def test_without_tools_it_is_just_text():
    out = await w.agent_loop("go", model=scripted(WRITTEN), **ALLOW)
    assert "<tool_call>" in out.final_text and drift(out) == (0, 0, 0)


async def test_a_judge_that_drifts_is_understood_and_not_counted():
    said_so = '<tool_call>{"name": "give_verdict", "arguments": {"verdict": "%s"}}</tool_call>'
    model = scripted("a", said_so % "continue", NOTED, "b", said_so % "done")
    out = await w.agent_loop(
        "go", model=model, tools=[note], native_tool_fallback="allow_once", done_judge=True
    )
    assert (out.status, out.done_judge["invocations"]) == ("done", 2)
    assert [r.outcome for r in out.tool_calls] == ["ok"] and drift(out) == (1, 0, 0)
    await kept(out, model)


@pytest.mark.parametrize("value", ["alow", "never", True, None])
async def test_what_is_no_mode(value: Any):
    with pytest.raises(w.ConfigError, match="native_tool_fallback"):
        await w.agent_loop("go", model=scripted(), tools=[add], native_tool_fallback=value)


# --------------------------------------------------------------------------- empty replies


async def test_an_empty_reply_is_asked_for_again_and_paid_for():
    model = scripted(EMPTY, "ok")
    out = await w.agent_loop("go", model=model, tools=[add], **ALLOW)
    assert (out.status, out.final_text, out.llm.iterations) == ("done", "ok", 1)
    assert drift(out) == (0, 0, 1)
    assert out.usage.input_tokens == 17
    rows = await out._run.store.calls(session=out.session_id)
    assert {row.purpose for row in rows} == {"empty_completion", None}
    await kept(out, model)


async def test_a_model_that_stays_silent_is_not_asked_for_ever():
    model = scripted(then=EMPTY)
    out = await w.agent_loop("go", model=model, tools=[add], max_iterations=2, **ALLOW)
    assert (len(model.requests), drift(out)) == (2, (0, 0, 1))
    assert (out.status, out.final_text) == ("done", "")
    await kept(out, model)


@pytest.mark.parametrize(
    "reply",
    [
        Response(Message("assistant", ()), Usage(7, 0), "max_tokens", "scripted"),
        Response(Message("assistant", ()), Usage(7, 0), "refusal", "scripted"),
        Response(Message("assistant", (Thinking("hm"),)), Usage(7, 3), "end_turn", "scripted"),
        Response(Message("assistant", (Text(" "),)), Usage(7, 3), "end_turn", "scripted"),
    ],
    ids=["cut off", "refused", "thought", "blank"],
)
async def test_a_reply_with_a_reason_for_its_silence_is_taken(reply: Any):
    out = await w.agent_loop("go", model=scripted(reply, then="ok"), tools=[add], **ALLOW)
    assert drift(out) == (0, 0, 0)


# --------------------------------------------------------------------------- after a crash


def by_content(request: w.Request) -> Any:
    turn = sum(message.role == "assistant" for message in request.messages)
    if turn > 3:
        return "the end"
    if turn == 2:
        return [w.ToolCall("c2", "look", {"text": "x"})]
    return f'<tool_call>{{"name": "look", "arguments": {{"text": "{turn}"}}}}</tool_call>'


@pytest.mark.parametrize("by_entry", [False, True])
@pytest.mark.parametrize("mode", ["allow", "allow_once", "reject"])
async def test_a_run_that_drifts_goes_on_from_every_place(mode: str, by_entry: bool):
    def make() -> Any:
        model = scripted(then=by_content)
        return w.Agent(model, tools=[look], native_tool_fallback=mode), model

    out = await from_every_place(make, by_entry=by_entry)
    assert out.status == "done"

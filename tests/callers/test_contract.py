"""A function as a caller: what it is asked, what it may answer, what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from windlass.callers import Call
from windlass.events import StreamRestarted, ToolResulted
from windlass.testing import call, run_virtual, scripted


@w.tool(side_effect_level="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_call_says_what_is_asked_and_in_which_turn():
    seen: list[Call] = []
    ask = w.default_llm_caller()

    async def watch(asked: Call) -> Any:
        seen.append(asked)
        return await ask(asked)

    model = scripted(call("add", a=1, b=2), "3")
    out = await w.agent_loop(
        "go",
        "Be brief.",
        model=model,
        tools=[add],
        temperature=0.5,
        session_id="s1",
        llm_caller=watch,
    )
    assert (out.status, out.final_text) == ("done", "3")
    assert [one.turn for one in seen] == [
        {"iteration": 1, "session_id": "s1", "attempt": 1},
        {"iteration": 2, "session_id": "s1", "attempt": 1},
    ]
    assert {"prompt", "system", "opts", "turn"} == set(seen[0])
    assert (seen[0].prompt, seen[0]["system"], seen[0].opts.temperature) == ("go", "Be brief.", 0.5)
    assert seen[0].opts["model"] is model and len(seen[1].opts.messages) == 3
    with pytest.raises(AttributeError, match="prompt"):
        _ = seen[0].promt


async def test_what_a_function_changes_is_what_is_asked():
    ask = w.default_llm_caller()

    async def change(asked: Call) -> Any:
        opts = {**asked["opts"], "temperature": 0.1, "max_tokens": 7}
        return await ask({**asked, "system": "Other.", "prompt": "other", "opts": opts})

    model = scripted("x")
    await w.agent_loop("go", "Be brief.", model=model, llm_caller=change)
    request = model.requests[0]
    assert (request.system, request.messages[-1].text) == ("Other.", "other")
    assert (request.settings.temperature, request.settings.max_tokens) == (0.1, 7)


async def test_an_unchanged_call_is_the_loop_s_own_request():
    """Wires keep what they encoded of a frame and of messages; a caller in between loses nothing."""
    ask = w.default_llm_caller()

    async def pass_on(asked: Call) -> Any:
        return await ask(dict(asked))

    model = scripted(call("add", a=1, b=2), "3")
    await w.agent_loop("go", model=model, tools=[add], llm_caller=pass_on)
    first, second = model.requests
    assert first.frame is second.frame
    assert first.messages.strand is second.messages.strand


async def test_another_model_may_be_asked_by_name_or_as_it_is():
    ask = w.default_llm_caller()
    w.llm_mock(text="from the mock")

    async def elsewhere(asked: Call) -> Any:
        return await ask({**asked, "opts": {"model": "mock:any", "messages": asked.opts.messages}})

    assert (
        await w.agent_loop("go", model=scripted(), llm_caller=elsewhere)
    ).final_text == "from the mock"
    second = scripted("from the second")

    async def to_second(asked: Call) -> Any:
        asked.opts["model"] = second
        return await ask(asked)

    assert (
        await w.agent_loop("go", model=scripted(), llm_caller=to_second)
    ).final_text == "from the second"


@pytest.mark.parametrize(
    "value",
    [
        "hi",
        w.Message("assistant", "hi"),
        w.Response(w.Message("assistant", "hi")),
        {"text": "hi", "input_tokens": 3, "output_tokens": 1},
        {"text": "hi", "usage": {"input_tokens": 3}},
    ],
    ids=["text", "message", "response", "dict", "usage"],
)
async def test_a_plain_function_may_answer_by_itself(value: Any):
    out = await w.agent_loop("go", llm_caller=lambda asked: {"ok": True, "value": value})
    assert (out.status, out.final_text) == ("done", "hi")
    if isinstance(value, dict):
        assert out.llm.input_tokens == 3


async def test_a_function_may_ask_llm_call_and_call_tools():
    replies: list[Any] = [
        {"text": "Let me see.", "tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]},
        await w.llm_call("x", model=scripted("3")),
    ]
    out = await w.agent_loop(
        "go", tools=[add], llm_caller=lambda asked: {"ok": True, "value": replies.pop(0)}
    )
    assert (out.status, out.final_text, out.tools.successful) == ("done", "3", ["add"])


async def test_its_status_becomes_the_loop_s():
    def gives_up(asked: Call) -> Any:
        return {
            "ok": False,
            "status": "gave_up",
            "error": {"message": "no more", "category": "mood"},
        }

    out = await w.agent_loop("go", model=scripted(), llm_caller=gives_up)
    assert (out.status, out.stop_reason) == ("gave_up", "mood")
    assert out.error is not None and out.error["message"] == "no more"
    agent = await w.Agent(scripted(), llm_caller=gives_up).run("go")
    assert agent.status == "gave_up"
    with pytest.raises(w.ModelError, match="no more") as caught:
        await w.llm_call("go", model=scripted(), llm_caller=gives_up)
    assert caught.value.status == "gave_up"


async def test_an_error_that_is_handed_on_is_the_one_that_came():
    ask = w.default_llm_caller()
    answers: list[Any] = []

    async def hand_on(asked: Call) -> Any:
        answers.append(await ask(asked))
        return answers[-1]

    out = await w.agent_loop("go", model=scripted(w.AuthFailed("no key")), llm_caller=hand_on)
    assert (out.status, out.stop_reason, out.error["kind"]) == (
        "provider_error",
        "auth",
        "AuthFailed",
    )
    assert answers[0]["ok"] is False and answers[0]["status"] == "provider_error"
    assert (answers[0]["error"]["category"], answers[0]["error"]["transient"]) == ("auth", False)

    async def rename(asked: Call) -> Any:
        return {**await ask(asked), "status": "locked_out"}

    out = await w.agent_loop("go", model=scripted(w.AuthFailed("no key")), llm_caller=rename)
    assert (out.status, out.error["message"]) == ("locked_out", "no key")


def test_what_may_pass_is_tried_again_and_the_attempt_is_told():
    attempts: list[int] = []

    def busy_twice(asked: Call) -> Any:
        attempts.append(asked.turn.attempt)
        if len(attempts) < 3:
            return {"ok": False, "status": "provider_error", "error": {"category": "overloaded"}}
        return {"ok": True, "value": "at last"}

    async def main() -> Any:
        caller = w.with_retry(max_attempts=3)(busy_twice)
        return await w.agent_loop("go", model=scripted(), llm_caller=caller)

    assert run_virtual(main()).final_text == "at last"
    assert attempts == [1, 2, 3]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        {},
        {"value": "x"},
        {"ok": "yes", "value": "x"},
        {"ok": True},
        {"ok": False},
        {"ok": False, "status": "suspended"},
        {"ok": False, "status": ""},
        {"ok": True, "value": 3},
    ],
)
async def test_what_is_no_answer_is_a_mistake_that_is_named(answer: Any):
    out = await w.agent_loop("go", model=scripted(), llm_caller=lambda asked: answer)
    assert (out.status, out.stop_reason) == ("failed", "ConfigError")
    assert "llm_caller" in out.error["message"]


@pytest.mark.parametrize("value", [3, "with_retry", w.Model, scripted("x"), [w.with_retry()]])
@pytest.mark.parametrize("door", [w.agent_loop, w.llm_call, w.Agent])
async def test_what_is_no_caller_is_refused(door: Any, value: Any):
    with pytest.raises(w.ConfigError, match="llm_caller"):
        if door is w.Agent:
            w.Agent(scripted(), llm_caller=value)
        else:
            await door("go", model=scripted(), llm_caller=value)


async def test_a_bad_key_in_opts_names_the_nearest():
    ask = w.default_llm_caller()

    async def misspelt(asked: Call) -> Any:
        asked.opts["temprature"] = 0
        return await ask(asked)

    out = await w.agent_loop("go", model=scripted("x"), llm_caller=misspelt)
    assert out.status == "failed" and "'temperature'" in out.error["message"]


async def test_a_reply_asked_for_by_a_function_streams():
    ask = w.default_llm_caller()

    async def pass_on(asked: Call) -> Any:
        return await ask(asked)

    model = scripted("one two three", stream=True)
    chunks = [str(c) async for c in w.llm_stream("go", model=model, llm_caller=pass_on)]
    assert [c for c in chunks if c] == ["one", " two", " three"]


async def test_text_tools_work_through_a_caller():
    model = scripted('<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>', "3")
    out = await w.agent_loop(
        "go", model=model, tools=[add], tool_format="text", llm_caller=w.with_retry()
    )
    assert (out.status, out.tools.successful) == ("done", ["add"])


async def test_a_function_that_asks_again_takes_back_what_was_shown():
    ask = w.default_llm_caller()

    async def twice(asked: Call) -> Any:
        await ask(asked)
        return await ask(asked)

    events: list[Any] = []
    model = scripted("first", "second", stream=True)
    out = await w.agent_loop("go", model=model, llm_caller=twice, on_event=events.append)
    shown = [
        e.text if isinstance(e, w.TextDelta) else "-"
        for e in events
        if type(e) in (w.TextDelta, StreamRestarted)
    ]
    assert (out.final_text, shown) == ("second", ["first", "-", "second"])


async def test_a_function_that_answers_otherwise_takes_back_what_was_shown():
    ask = w.default_llm_caller()

    async def otherwise(asked: Call) -> Any:
        await ask(asked)
        return {"ok": True, "value": "mine"}

    agent = w.Agent(scripted("theirs", stream=True), llm_caller=otherwise)
    async with agent.stream("go") as run:
        events = [event async for event in run]
    shown = [
        e.text if isinstance(e, w.TextDelta) else "-"
        for e in events
        if type(e) in (w.TextDelta, StreamRestarted)
    ]
    assert shown == ["theirs", "-", "mine"]


async def test_what_a_function_asks_for_twice_is_not_run_early():
    """A read of a reply that was thrown away leaves nothing behind."""
    ask, ran = w.default_llm_caller(), list[int]()

    @w.tool(side_effect_level="read_only")
    async def look(n: int) -> int:
        """Look."""
        ran.append(n)
        return n

    async def twice(asked: Call) -> Any:
        await ask(asked)
        return await ask(asked)

    model = scripted(call("look", n=1), call("look", n=2), "done", "done", stream=True)
    out = await w.agent_loop("go", model=model, tools=[look], llm_caller=twice)
    assert out.status == "done" and ran[-1] == 2
    results = [e.result.text for e in out.entries if isinstance(e, ToolResulted)]
    assert results == ["2"]

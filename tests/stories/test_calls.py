"""One model call, without a loop; and the mock provider that answers it."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, nothing_left
from windlass.testing import call, scripted


async def test_a_call_has_one_shape_whoever_answers():
    usage = {"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 2}
    model = scripted([w.Thinking("hm"), "hello", call("add", a=1, b=2)], usage=usage)
    reply = await w.llm_call("go", "Be brief.", model=model, tools=[add])
    assert (str(reply), reply.text, reply.visible_text) == ("hello", "hello", "hello")
    assert (reply.input_tokens, reply.output_tokens, reply.cache_read_tokens) == (7, 3, 2)
    assert (reply.model, reply.provider, reply.stop_reason) == ("scripted", "scripted", "tool_use")
    assert reply.thinking == reply.private_reasoning == "hm"
    [asked] = reply.tool_calls
    assert (asked.name, asked.input) == ("add", {"a": 1, "b": 2})
    assert len(reply.blocks) == 3
    assert [m["role"] for m in reply.transcript["messages"]] == ["user", "assistant"]
    assert model.requests[0].system == "Be brief."


async def test_a_tool_it_asks_for_is_shown_and_not_run():
    ran: list[int] = []

    @w.tool
    async def act() -> None:
        ran.append(1)

    await w.llm_call("go", model=scripted(call("act")), tools=[act])
    assert not ran


@pytest.mark.parametrize(
    ("choice", "tools", "words"),
    [
        ({"name": "ad"}, [add], "'ad', which no tool is; did you mean 'add'"),
        ("required", [], "needs tools"),
    ],
)
async def test_a_choice_of_no_tool_is_refused_before_any_call(choice: Any, tools: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.llm_call("go", model=model, tools=tools, tool_choice=choice)
    assert not model.requests


async def test_errors_are_raised():
    with pytest.raises(w.AuthFailed, match="no key"):
        await w.llm_call("go", model=scripted(w.AuthFailed("no key")))


async def test_messages_stand_for_the_prompt_and_are_looked_at():
    model = scripted("x")
    await w.llm_call(messages=[w.Message("user", "hi")], model=model)
    assert model.requests[0].messages[0].text == "hi"
    with pytest.raises(w.BadRequest, match="no result"):
        open_call = w.Message("assistant", (w.ToolCall("a", "add", {}),))
        await w.llm_call(messages=[w.Message("user", "hi"), open_call], model=scripted("x"))
    with pytest.raises(w.ConfigError, match="prompt"):
        await w.llm_call(model=scripted("x"))


async def test_an_unknown_option_names_the_nearest():
    model = scripted("x")
    with pytest.raises(w.ConfigError, match="'temperature'"):
        await w.llm_call("go", model=model, temprature=1)
    with pytest.raises(w.ConfigError, match="loop_until_done"):
        await w.llm_call("go", model=model, loop_until_done=True)
    assert not model.requests


async def test_a_stream_is_the_reply_in_pieces():
    model = scripted(["one two", call("add", a=1, b=2)], stream=True)
    chunks = [chunk async for chunk in w.llm_stream("go", model=model, tools=[add])]
    assert "".join(map(str, chunks)) == "one two"
    assert [chunk.tool_call.name for chunk in chunks if chunk.tool_call] == ["add"]
    assert [chunk.finish_reason for chunk in chunks][-1] == "tool_use"


async def test_a_stream_of_a_model_that_does_not_stream_is_one_piece():
    chunks = [chunk async for chunk in w.llm_stream("go", model=scripted("all"))]
    assert [chunk.text for chunk in chunks] == ["all", ""]
    assert chunks[-1].finish_reason == "end_turn"


async def test_calls_of_a_model_that_does_not_stream_are_in_the_stream_too():
    model = scripted(["look", call("add", a=1, b=2)])
    chunks = [chunk async for chunk in w.llm_stream("go", model=model, tools=[add])]
    assert [chunk.tool_call.name for chunk in chunks if chunk.tool_call] == ["add"]


async def test_a_stream_raises_what_the_call_raised():
    with pytest.raises(w.Overloaded):
        async for _ in w.llm_stream("go", model=scripted(then=w.Overloaded("busy"))):
            pass


async def test_a_stream_that_is_left_leaves_nothing_behind():
    stream = w.llm_stream("go", model=scripted("a b c d", stream=True, pace=5))
    async for _ in stream:
        break
    await stream.aclose()
    await nothing_left()


# --------------------------------------------------------------------------- the mock provider


async def said(prompt: str) -> str:
    return (await w.llm_call(prompt, provider="mock")).text


async def test_plain_entries_are_used_up_first_and_then_patterns():
    w.llm_mock(text="matched", match="*go*")
    w.llm_mock(text="first")
    w.llm_mock({"text": "second"})
    assert [await said("go") for _ in range(4)] == ["first", "second", "matched", "matched"]


async def test_a_pattern_may_be_used_once():
    w.llm_mock(text="once", match="*go*", consume_match=True)
    w.llm_mock(text="always", match="*go*")
    assert [await said("go") for _ in range(3)] == ["once", "always", "always"]


async def test_a_pattern_is_anchored_and_sees_every_message_with_its_role():
    w.llm_mock(text="exact", match="go\nuser")
    w.llm_mock(text="begins", match="say*")
    w.llm_mock(text="ends", match="*please\nuser")
    assert await said("go") == "exact"
    assert await said("say it") == "begins"
    assert await said("come, please") == "ends"
    assert "Mock reply" in await said("go now")


async def test_an_empty_queue_echoes():
    assert "what did I say" in await said("what did I say")


async def test_missing_ids_and_usage_are_filled_in():
    w.llm_mock(tool_calls=[{"name": "a"}, {"name": "b", "arguments": {"x": 1}}])
    w.llm_mock(text="x", usage={"input_tokens": 3, "output_tokens": 4}, stop_reason="max_tokens")
    first = await w.llm_call("hello", provider="mock")
    assert [call.id for call in first.tool_calls] == ["mock_call_1", "mock_call_2"]
    assert first.output_tokens == 30
    second = await w.llm_call("hello", provider="mock")
    assert (second.input_tokens, second.output_tokens, second.stop_reason) == (3, 4, "max_tokens")


async def test_errors_are_served_and_the_call_is_recorded_all_the_same():
    w.llm_mock(error={"category": "rate_limit", "message": "slow down"}, match="*go*")
    with pytest.raises(w.RateLimited, match="slow down"):
        await said("go")
    seen, *again = w.llm_mock_calls()
    assert len(again) == 2 and seen.messages == [{"role": "user", "content": "go"}]
    assert (seen.system, seen.tools) == (None, None)


async def test_calls_are_recorded_with_system_tools_and_options():
    await w.llm_call("go", "Be brief.", provider="mock", tools=[add], temperature=0.5)
    [seen] = w.llm_mock_calls()
    assert seen.system == "Be brief."
    assert seen.tools is not None and seen.tools[0]["name"] == "add"
    assert seen.options["temperature"] == 0.5
    w.llm_mock_clear()
    assert w.llm_mock_calls() == []


async def test_the_queue_belongs_to_the_current_runtime():
    w.llm_mock(text="outside")
    async with w.Runtime(store="memory:", environ={}):
        w.llm_mock(text="inside")
        assert await said("go") == "inside"
        assert len(w.llm_mock_calls()) == 1
    assert await said("go") == "outside"


async def test_the_mock_drives_a_loop():
    w.llm_mock(tool_calls=[{"name": "add", "arguments": {"a": 1, "b": 2}}])
    w.llm_mock(text="It is 3.")
    out = await w.agent_loop("1+2?", provider="mock", model="mock", tools=[add])
    assert (out.final_text, out.tool_calls[0].result) == ("It is 3.", "3")
    assert len(w.llm_mock_calls()) == 2

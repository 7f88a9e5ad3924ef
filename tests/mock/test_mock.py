"""The mock provider: what is served, in which order, and what is kept of the calls."""

from __future__ import annotations

import contextvars

import pytest

from windlass import errors
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import Message, Text, Thinking, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings, silent
from windlass.models.mock import (
    MockModel,
    MockQueue,
    active_queue,
    conversation_text,
    current_queue,
    llm_mock,
    llm_mock_calls,
    llm_mock_clear,
    matches,
)


@pytest.fixture(autouse=True)
def fresh_queue():
    token = current_queue.set(MockQueue())
    yield
    current_queue.reset(token)


def asking(*said: str | Message, **frame) -> Request:
    messages = [Message("user", item) if isinstance(item, str) else item for item in said]
    return Request(messages, Frame(**frame))


async def say(*said: str | Message) -> str:
    return (await MockModel().respond(asking(*said), silent)).message.text


async def test_replies_are_served_in_the_order_queued():
    llm_mock({"text": "one"})
    llm_mock(text="two")
    assert [await say("a"), await say("b")] == ["one", "two"]


async def test_every_plain_entry_goes_before_any_pattern():
    llm_mock(text="pattern", match="*hello*")
    llm_mock(text="first")
    llm_mock(text="second")
    assert [await say("hello") for _ in range(4)] == ["first", "second", "pattern", "pattern"]


async def test_patterns_are_tried_in_the_order_declared_and_stay():
    llm_mock(text="a", match="*x*")
    llm_mock(text="b", match="*y*")
    assert [await say("x y"), await say("y"), await say("x")] == ["a", "b", "a"]


async def test_a_consumed_pattern_is_served_once():
    llm_mock(text="step 1", match="*planner*", consume_match=True)
    llm_mock(text="step 2", match="*planner*", consume_match=True)
    assert [await say("planner") for _ in range(2)] == ["step 1", "step 2"]
    assert "planner" in await say("planner"), "then there is only the echo"


async def test_an_empty_queue_echoes_the_prompt():
    assert "what is this?" in await say("what is this?")
    assert await say("same") == await say("same")


def test_pattern_text_has_each_content_before_its_role():
    text = conversation_text([Message("user", "hi"), Message("assistant", "yes")])
    assert text == "hi\nuser\nyes\nassistant"


def test_pattern_text_has_the_strings_of_calls_and_results():
    text = conversation_text(
        [
            Message("assistant", (ToolCall("c1", "find", {"q": ["deep"], "n": 3}),)),
            Message("tool", (ToolResult("c1", "found it"),)),
        ]
    )
    assert set(text.split("\n")) == {"c1", "find", "deep", "assistant", "found it", "tool"}


@pytest.mark.parametrize(
    ("glob", "text", "fits"),
    [
        ("hi\nuser", "hi\nuser", True),
        ("hi", "hi\nuser", False),  # without a star it is the whole text or nothing
        ("hi*", "hi\nuser", True),
        ("hi*", "oh hi\nuser", False),  # anchored at the front
        ("*hi", "hi\nuser", False),  # and at the back
        ("*user", "hi\nuser", True),
        ("*a*b*", "xaxbx", True),
        ("*b*a*", "xaxbx", False),
        ("ab*ba", "aba", False),  # the two ends may not share a letter
        ("a*a", "aa", True),
        ("*", "", True),
        ("", "", True),
        ("**", "anything", True),
        ("*.?[a]*", "x.?[a]x", True),  # nothing but the star is special
        ("*.*", "abc", False),
    ],
)
def test_globs(glob, text, fits):
    assert matches(glob, text) is fits


def test_a_glob_of_many_stars_is_no_trap():
    assert not matches("*a" * 40 + "b", "a" * 20_000)


async def test_missing_ids_are_numbered_and_never_repeat():
    llm_mock(tool_calls=[{"name": "a"}, {"name": "b", "id": "mine"}, {"name": "c"}], match="*")
    model = MockModel()
    first = (await model.respond(asking("go"), silent)).message
    second = (await model.respond(asking("go"), silent)).message
    assert [call.id for call in first.tool_calls] == ["mock_call_1", "mine", "mock_call_2"]
    assert [call.id for call in second.tool_calls] == ["mock_call_3", "mine", "mock_call_4"]


async def test_ids_go_on_after_those_the_conversation_holds():
    llm_mock(tool_calls=[{"name": "a", "arguments": {}}])
    old = Message("assistant", (ToolCall("mock_call_7", "a", {}),))
    reply = await MockModel().respond(asking("go", old), silent)
    assert reply.message.tool_calls[0].id == "mock_call_8"


async def test_text_thinking_and_calls_make_one_reply():
    llm_mock(text="Look.", thinking="hm", tool_calls=[{"name": "read", "arguments": {"p": "x"}}])
    reply = await MockModel().respond(asking("go"), silent)
    assert reply.message.content == (
        Thinking("hm"),
        Text("Look."),
        ToolCall("mock_call_1", "read", {"p": "x"}),
    )
    assert reply.stop_reason == "tool_use"


async def test_usage_defaults_to_the_text_length_and_thirty():
    llm_mock(text="ok")
    reply = await MockModel().respond(asking("hi"), silent)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (len("hi\nuser"), 30)


async def test_usage_given_in_part_keeps_the_other_default():
    llm_mock(
        text="ok", usage={"output_tokens": 5, "cache_read_tokens": 2}, stop_reason="max_tokens"
    )
    reply = await MockModel().respond(asking("hi"), silent)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 5)
    assert reply.usage.cache_read_tokens == 2
    assert reply.stop_reason == "max_tokens"


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("rate_limit", errors.RateLimited),
        ("overloaded", errors.Overloaded),
        ("server_error", errors.ServerError),
        ("timeout", errors.Timeout),
        ("network", errors.ConnectionFailed),
        ("auth", errors.AuthFailed),
        ("bad_request", errors.BadRequest),
        ("context_overflow", errors.ContextOverflow),
        ("quota", errors.QuotaExceeded),
        ("refused", errors.Refused),
        ("bad_reply", errors.BadReply),
        ("weather", errors.ModelError),
    ],
)
async def test_an_error_entry_raises_its_type_and_the_call_is_recorded(category, kind):
    llm_mock(error={"category": category, "message": "not today"})
    with pytest.raises(errors.ModelError, match="not today") as caught:
        await say("hi")
    assert type(caught.value) is kind
    assert caught.value.category == category
    assert caught.value.provider == "mock"
    assert len(llm_mock_calls()) == 1
    assert "hi" in await say("hi"), "the entry was used up"


async def test_an_error_may_say_when_to_come_back():
    llm_mock(error={"category": "rate_limit", "retry_after": 2.5})
    with pytest.raises(errors.RateLimited) as caught:
        await say("hi")
    assert caught.value.retry_after == 2.5


async def test_recorded_calls_are_plain_data_by_attribute_and_by_key():
    tool = ToolSpec("add", "Add.", {"type": "object"})
    llm_mock(text="ok")
    request = Request(
        [Message("user", "hi"), Message("assistant", (ToolCall("c", "add", {"a": 1}),))],
        Frame("be kind", (tool,), Settings(temperature=0.5)),
        tail=(Message("user", "soon"),),
    )
    await MockModel("small").respond(request, silent)
    (call,) = llm_mock_calls()
    assert call.messages == call["messages"]
    assert call.messages[0] == {"role": "user", "content": "hi"}
    assert call.messages[1]["content"] == [
        {"type": "tool_call", "id": "c", "name": "add", "arguments": {"a": 1}}
    ]
    assert call.messages[-1]["content"] == "soon"
    assert call.system == "be kind"
    assert call.tools == [{"name": "add", "description": "Add.", "parameters": {"type": "object"}}]
    assert call.options == {"provider": "mock", "model": "small", "temperature": 0.5}
    assert dict(call).keys() == {"messages", "system", "tools", "options"}


async def test_what_a_call_lacks_is_none():
    await say("hi")
    (call,) = llm_mock_calls()
    assert (call.system, call["tools"]) == (None, None)


async def test_a_recorded_call_does_not_grow_with_its_conversation():
    messages = [Message("user", "hi")]
    await MockModel().respond(Request(messages), silent)
    messages.append(Message("user", "later"))
    assert len(llm_mock_calls()[0].messages) == 1


async def test_clear_forgets_replies_calls_and_numbers():
    llm_mock(tool_calls=[{"name": "a"}])
    await say("hi")
    llm_mock(text="left over")
    llm_mock_clear()
    assert llm_mock_calls() == []
    llm_mock(tool_calls=[{"name": "a"}])
    reply = await MockModel().respond(asking("go"), silent)
    assert reply.message.tool_calls[0].id == "mock_call_1"


async def test_streaming_shows_words_and_finished_calls():
    llm_mock(text="  Let me\nlook. ", thinking="so so", tool_calls=[{"name": "a"}])
    seen = []
    reply = await MockModel().respond(asking("go"), seen.append)
    assert [type(event) for event in seen] == (
        [ThinkingDelta] * 2 + [TextDelta] * 4 + [ToolCallReady]
    )
    assert "".join(event.text for event in seen if type(event) is TextDelta) == "  Let me\nlook. "
    assert seen[-1].call == reply.message.tool_calls[0]


async def test_without_streaming_nothing_is_shown():
    llm_mock(text="one two")
    seen = []
    await MockModel().respond(asking("go", settings=Settings(stream=False)), seen.append)
    assert seen == []


def test_the_queue_is_the_contexts_own_else_the_processs():
    own = active_queue()
    assert contextvars.Context().run(active_queue) is not own
    assert contextvars.Context().run(active_queue) is contextvars.Context().run(active_queue)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"txt": "x"}, "did you mean 'text'"),
        ({"tool_calls": [{"nme": "x"}]}, "did you mean 'name'"),
        ({"tool_calls": [{"arguments": {}}]}, "needs a name"),
        ({"tool_calls": [{"name": "x", "arguments": "{}"}]}, "arguments"),
        ({"tool_calls": {"name": "x"}}, "is a list"),
        ({"tool_calls": ["x"]}, "is a dict"),
        ({"usage": {"output_token": 3}}, "did you mean 'output_tokens'"),
        ({"usage": {"output_tokens": "many"}}, "output_tokens"),
        ({"error": {"categry": "auth"}}, "did you mean 'category'"),
        ({"error": "auth"}, "is a dict"),
        ({"stop_reason": "end_trun"}, "did you mean 'end_turn'"),
        ({"text": 3}, "text"),
        ({"match": ["*"]}, "match"),
        ({"consume_match": "yes"}, "consume_match"),
    ],
)
def test_a_bad_entry_is_refused_when_it_is_queued(keys, says):
    with pytest.raises(errors.ConfigError, match=says):
        llm_mock(**keys)
    with pytest.raises(errors.ConfigError, match=says):
        llm_mock(keys)
    assert active_queue().entries == []


def test_an_entry_is_a_dict_or_keywords():
    with pytest.raises(errors.ConfigError, match="not str"):
        llm_mock("hello")  # type: ignore[arg-type]

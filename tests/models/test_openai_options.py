"""What OpenAI's two wires are asked beyond words: forms of answers, roles, limits, caches, thinking."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.errors import ConfigError
from windlass.messages import Message, Origin, Text, Thinking, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings, Strand, silent
from windlass.models.registry.capabilities import Capabilities
from windlass.models.registry.registry import (
    provider_capabilities_clear,
    provider_capabilities_install,
)
from windlass.models.wires.base import HttpModel
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses
from windlass.models.wires.schema import can_be_strict

OPEN = {"type": "object", "properties": {"a": {"type": "number"}}}
CLOSED = {**OPEN, "required": ["a"], "additionalProperties": False}
ASK = Message("user", "q")


def body(model: HttpModel, *messages: Message, tail: tuple[Message, ...] = (), **frame: Any) -> Any:
    settings = Settings(**frame.pop("settings", {}))
    request = Request(messages or (ASK,), Frame(settings=settings, **frame), tail)
    return json.loads(b"".join(model.encode(request)))


def chat(name: str = "gpt-4o", provider: str = "openai", **caps: Any) -> OpenAIChat:
    model = OpenAIChat(name, provider=provider, api_key="k")
    if caps:
        model.caps = Capabilities(known=True, **caps)
    return model


def responses(name: str = "gpt-5.4", **caps: Any) -> OpenAIResponses:
    model = OpenAIResponses(name, api_key="k")
    if caps:
        model.caps = Capabilities(known=True, **caps)
    return model


# --------------------------------------------------------------------------- forms of answers


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        (OPEN, False),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({**CLOSED, "properties": {"a": OPEN}}, False),
        ({**CLOSED, "properties": {"a": CLOSED}}, True),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": OPEN}}}, False),
        ({**CLOSED, "properties": {"a": {"type": "array"}}}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [CLOSED, {"type": "null"}]}}}, True),
        ({**CLOSED, "properties": {"a": {"anyOf": [OPEN]}}}, False),
        ({**CLOSED, "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": CLOSED}}, True),
        ({**CLOSED, "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": OPEN}}, False),
        ({**CLOSED, "properties": {"a": {}}}, False),
        ({**CLOSED, "properties": {"a": {"type": "string", "minLength": 1}}}, False),
        ({**CLOSED, "properties": {"a": {"type": ["object", "null"]}}}, False),
        ({**CLOSED, "properties": {"a": {"type": "string", "default": "x"}}}, False),
        ({**CLOSED, "allOf": [CLOSED]}, False),
        ({"type": "array", "items": CLOSED}, False),
        ({"anyOf": [CLOSED]}, False),
        ({**CLOSED, "required": [1], "properties": {"a": True}}, False),
    ],
)
def test_which_schemas_a_model_can_be_held_to(schema: Any, strict: bool) -> None:
    assert can_be_strict(schema) is strict


def test_a_schema_without_end_is_none() -> None:
    deep: dict[str, Any] = CLOSED
    for _ in range(2000):
        deep = {**CLOSED, "properties": {"a": deep}}
    assert can_be_strict(deep) is False


@pytest.mark.parametrize(("schema", "strict"), [(CLOSED, True), (OPEN, False)])
def test_an_answer_after_a_schema(schema: Any, strict: bool) -> None:
    titled = {**schema, "title": "City info"}
    inner = {"name": "City_info-x" + "_", "schema": titled, "strict": strict}
    sent = body(chat(), settings={"schema": titled})["response_format"]
    inner["name"] = sent["json_schema"]["name"]
    assert inner["name"].startswith("City_info")
    assert sent == {"type": "json_schema", "json_schema": inner}
    assert body(responses(), settings={"schema": titled})["text"] == {
        "format": {"type": "json_schema", **inner}
    }
    plain = body(chat(), settings={"schema": schema})["response_format"]
    assert plain["json_schema"]["name"] == "answer"


def test_an_answer_in_json() -> None:
    sent = body(chat(), settings={"response_format": "json"})
    assert sent["response_format"] == {"type": "json_object"}
    sent = body(responses(), settings={"response_format": "json"})
    assert sent["text"] == {"format": {"type": "json_object"}}
    assert "response_format" not in body(chat()) and "text" not in body(responses())


def test_a_tool_is_strict_where_its_schema_the_model_and_its_owner_are() -> None:
    tools = (
        ToolSpec("a", "", CLOSED, strict=True),
        ToolSpec("b", "", OPEN, strict=True),
        ToolSpec("c", "", CLOSED),
    )
    sent = body(chat(strict_tools=True), tools=tools)["tools"]
    assert [tool["function"].get("strict") for tool in sent] == [True, None, None]
    sent = body(responses(strict_tools=True), tools=tools)["tools"]
    assert [tool["strict"] for tool in sent] == [True, False, False]
    sent = body(chat(strict_tools=False), tools=tools)["tools"]
    assert [tool["function"].get("strict") for tool in sent] == [None, None, None]


# --------------------------------------------------------------------------- rows


def test_roles_limits_and_sampling_are_the_rows() -> None:
    asked = {"max_tokens": 9, "temperature": 0.5, "top_k": 3, "presence_penalty": 0.1}
    odd = chat(system_role="developer", completion_limit="max_completion_tokens", sampling=False)
    sent = body(odd, ASK, Message("system", "later"), system="s", settings=asked)
    assert [message["role"] for message in sent["messages"]] == ["developer", "user", "developer"]
    assert sent["max_completion_tokens"] == 9
    assert not {"max_tokens", "temperature", "top_k", "presence_penalty"} & sent.keys()
    usual = body(chat(provider="together", system_role="user"), system="s", settings=asked)
    assert usual["messages"][0] == {"role": "user", "content": "s"}
    assert (usual["max_tokens"], usual["temperature"], usual["top_k"]) == (9, 0.5, 3)
    told = body(responses(system_role="developer"), ASK, Message("system", "later"))
    assert told["input"][1]["role"] == "developer"


@pytest.mark.parametrize(
    ("lowering", "asked", "sent"),
    [
        ("effort", True, {"reasoning_effort": "medium"}),
        ("effort", False, {"reasoning_effort": "low"}),
        ("effort", {"mode": "effort", "effort": "high"}, {"reasoning_effort": "high"}),
        ("openrouter", {"mode": "disabled"}, {"reasoning": {"enabled": False}}),
        ("openrouter", {"mode": "enabled", "budget_tokens": 7}, {"reasoning": {"max_tokens": 7}}),
        ("openrouter", {"mode": "effort", "effort": "low"}, {"reasoning": {"effort": "low"}}),
        ("enabled", {"mode": "disabled"}, {"reasoning": {"enabled": False}}),
        ("enabled", True, {"reasoning": {"enabled": True}}),
        ("type", {"mode": "disabled"}, {"thinking": {"type": "disabled"}}),
        ("type", {"type": "auto"}, {"thinking": {"type": "auto"}}),
        ("template", False, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("template", True, {"chat_template_kwargs": {"enable_thinking": True}}),
        ("think", {"effort": "none"}, {"reasoning_effort": "none"}),
        ("prompt_mode", True, {"prompt_mode": "reasoning"}),
        ("prompt_mode", False, {"prompt_mode": None}),
        ("no_think", True, {}),
        ("", True, {}),
    ],
)
def test_thinking_as_the_row_writes_it(lowering: Any, asked: Any, sent: Any) -> None:
    model = chat(thinking=True, lowering=lowering, efforts=("low", "high"))
    got = body(model, settings={"thinking": asked})
    assert {k: v for k, v in got.items() if k not in body(model)} == sent


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    model = chat(thinking=False, lowering="effort")
    assert body(model, settings={"thinking": True}) == body(model)


def test_no_think_stands_behind_everything_the_user_said() -> None:
    model = chat("qwen3-8b", "local", thinking=True, lowering="no_think")
    off = {"thinking": {"mode": "disabled"}}
    turns = [Message("user", "one"), Message("assistant", "1"), Message("user", "two")]
    sent = body(model, *turns, settings=off)["messages"]
    assert [message["content"] for message in sent] == ["one /no_think", "1", "two /no_think"]
    assert body(model, *turns[:1], settings=off)["messages"] == sent[:1]  # the prefix stays
    assert "/no_think" not in str(body(model, *turns, settings={"thinking": True}))


def test_the_users_own_fields_join_what_was_written() -> None:
    model = chat("x/y", "openrouter")
    extra = {"reasoning": {"exclude": True}, "provider": {"order": ["a"]}}
    sent = body(model, settings={"thinking": {"effort": "low"}, "extra": extra})
    assert sent["reasoning"] == {"effort": "low", "exclude": True}
    assert sent["provider"] == {"order": ["a"]}
    tool = ToolSpec("a", "", OPEN)
    own = {"tools": [{"type": "web_search"}], "tool_choice": {"type": "allowed_tools"}}
    for one in (chat(), responses()):
        sent = body(one, tools=(tool,), settings={"tool_choice": "a", "extra": own})
        assert [tool["type"] for tool in sent["tools"]] == ["function", "web_search"]
        assert sent["tool_choice"] == {"type": "allowed_tools"}
    text = {"text": {"verbosity": "low"}}
    sent = body(responses(), settings={"response_format": "json", "extra": text})
    assert sent["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}


def test_a_row_that_has_changed_writes_its_own_messages() -> None:
    strand = Strand([Message("user", "q"), Message("system", "note")])
    request = Request(strand.snapshot())
    before = OpenAIChat("m-row", api_key="k")
    assert b'"developer"' not in b"".join(before.encode(request))
    row = '[[provider.openai]]\nmodel_match = "m-row"\nsystem_role = "developer"\n'
    provider_capabilities_install(row)
    try:
        after = OpenAIChat("m-row", api_key="k")
    finally:
        provider_capabilities_clear()
    assert b'"developer"' in b"".join(after.encode(request))
    assert b'"developer"' not in b"".join(before.encode(request))


def test_the_other_wire_is_found_from_an_address_given_whole() -> None:
    model = OpenAIChat("m", api_key="k", base_url="http://h/x/chat/completions?v=1")
    assert model.over_responses.url == "http://h/x/responses?v=1"
    assert model.over_responses._api_key() == "k"


# --------------------------------------------------------------------------- caches


def test_cache_points_for_who_charges_for_misses() -> None:
    model = chat("anthropic/claude-sonnet-4-5", "openrouter")
    sent = body(model, system="s")
    point = {"type": "ephemeral"}
    assert sent["cache_control"] == point
    assert sent["messages"][0]["content"] == [{"type": "text", "text": "s", "cache_control": point}]
    for other, settings in (
        (model, {"cache": False}),
        (chat("openai/gpt-4o", "openrouter"), {}),
        (chat(prompt_caching=True), {}),  # OpenAI's own caches need no points, and take none
    ):
        assert "cache_control" not in str(body(other, system="s", settings=settings))


@pytest.mark.parametrize(
    "model",
    [
        chat(),
        chat("anthropic/claude-sonnet-4-5", "openrouter"),
        chat("mistral-large-latest", "mistral"),
        responses(),
    ],
    ids=lambda model: f"{model.wire}-{model.provider}",
)
def test_the_prefix_stays(model: HttpModel) -> None:
    tools = tuple(ToolSpec(f"t{n}", "Tool.", OPEN) for n in range(8))
    frame = Frame("Be brief.", tools, Settings(thinking=True, temperature=0.5))
    strand = Strand([Message("user", "start " * 40)])
    before, kept, sent = b"", 0, 0
    for turn in range(100):
        now = b"".join(model.encode(Request(strand.snapshot(), frame)))
        same = next((n for n, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), None)
        kept += len(before) if same is None else same
        sent += len(before)
        before = now
        call = ToolCall(f"call_{turn:04}", "t1", {"a": turn})
        thought = Thinking(
            "hm", {"type": "reasoning", "encrypted_content": "e", "summary": []}, model._origin
        )
        strand.items.append(Message("assistant", (thought, Text("so"), call)))
        strand.items.append(Message("tool", (ToolResult(call.id, "r" * 50, name="t1"),)))
    assert kept / sent >= 0.99


# --------------------------------------------------------------------------- Mistral


def mistral(name: str = "mistral-large-latest") -> OpenAIChat:
    return chat(name, "mistral")


def test_mistral_wants_an_assistants_word_between_a_result_and_a_user() -> None:
    asked = Message("assistant", (ToolCall("abcdefghi", "add", {}),))
    result = Message("tool", (ToolResult("abcdefghi", "3"),))
    more = Message("user", "and now?")
    both = Message("tool", (ToolResult("abcdefghi", "3"), Text("and now?")))
    thought = Message("assistant", (Thinking("hm"),))  # of which nothing is sent
    roles = ["user", "assistant", "tool", "assistant", "user"]
    for messages, tail in (
        ((ASK, asked, result, more), ()),
        ((ASK, asked, result), (more,)),
        ((ASK, asked, both), ()),
        ((ASK, asked, result, thought, more), ()),
        ((ASK, asked, result, thought), (more,)),
    ):
        sent = body(mistral(), *messages, tail=tail)["messages"]
        assert [message["role"] for message in sent] == roles
    assert [m["role"] for m in body(chat(), ASK, asked, result, more)["messages"]] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]


def test_mistral_goes_on_with_a_marked_message() -> None:
    begun = Message("assistant", "It is {")
    assert body(mistral(), ASK, begun)["messages"][-1] == {
        "role": "assistant",
        "content": "It is {",
        "prefix": True,
    }
    assert "prefix" not in str(body(mistral(), begun, ASK))
    assert "prefix" not in str(body(chat(), ASK, begun))


def test_mistrals_thoughts_go_back_as_parts_and_to_nobody_else() -> None:
    model = mistral("magistral-medium-latest")
    decoder = model.decoder(Request([ASK]), silent)
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "so"},
    ]
    choice = {"message": {"role": "assistant", "content": parts}, "finish_reason": "stop"}
    decoder.feed(json.dumps({"choices": [choice], "p": "abc"}).encode())
    said = decoder.finish().message
    assert said.content == (
        Thinking("hm", {"field": "content"}, Origin("mistral", model.name)),
        Text("so"),
    )
    assert body(model, ASK, said, ASK)["messages"][1] == {"role": "assistant", "content": parts}
    assert body(mistral(), ASK, said, ASK)["messages"][1]["content"] == "so"


def test_mistrals_calls_without_a_type_and_ids_of_nine_characters() -> None:
    decoder = mistral().decoder(Request([ASK]), silent)
    call = {"id": "rHU0eZiMa", "index": 0, "function": {"name": "add", "arguments": '{"a": 1}'}}
    chunk = {"choices": [{"delta": {"content": "", "tool_calls": [call]}, "finish_reason": None}]}
    last = {
        "choices": [{"delta": {"content": ""}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
        "p": "abcdef",
    }
    for one in (chunk, last):
        decoder.feed(b"data: " + json.dumps(one).encode() + b"\n\n")
    decoder.feed(b"data: [DONE]\n\n")
    reply = decoder.finish()
    assert reply.message.tool_calls == (ToolCall("rHU0eZiMa", "add", {"a": 1}),)
    assert (reply.stop_reason, reply.usage.input_tokens) == ("tool_use", 5)
    sent = body(mistral(), ASK, reply.message, Message("tool", (ToolResult("rHU0eZiMa", "1"),)))
    assert sent["messages"][2]["tool_call_id"] == "rHU0eZiMa"


def test_what_another_servers_model_may_not_be_told() -> None:
    groq = chat("openai/gpt-oss-20b", "groq")
    said = (Thinking("hm", {"field": "reasoning"}, groq._origin), ToolCall("c", "t", {}))
    sent = body(groq, ASK, Message("assistant", said))["messages"][1]
    assert sent.keys() == {"role", "content", "tool_calls"}  # it refuses fields it does not know
    deepseek = chat("deepseek-v4-pro", "deepseek")
    said = (Thinking("hm", {"field": "reasoning_content"}, deepseek._origin), said[1])
    assert body(deepseek, ASK, Message("assistant", said))["messages"][1]["reasoning_content"]
    deepseek.caps = Capabilities(known=True, echoes=False)
    assert "reasoning_content" not in body(deepseek, ASK, Message("assistant", said))["messages"][1]


def test_api_version_is_azures() -> None:
    with pytest.raises(ConfigError, match="api_version= is Azure's; openai has none"):
        OpenAIChat("m", api_key="k", api_version="2024-10-21").check()

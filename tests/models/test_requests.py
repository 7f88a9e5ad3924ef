"""What goes out: the same bytes for the same request, each message encoded once, every rule kept."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import ConfigError
from windlass.messages import (
    Document,
    Image,
    Message,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from windlass.models.base import Frame, Request, Settings, Strand
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.base import HttpModel
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.models.wires.json_values import safe_name
from windlass.models.wires.ollama.model import OllamaChat
from windlass.models.wires.openai.chat import OpenAIChat

CLAUDE = AnthropicMessages("claude-sonnet-4-5", api_key="k")
GPT = OpenAIChat("gpt-4o", api_key="k")
QWEN = OllamaChat("qwen3", api_key="k")
NOVA = BedrockConverse("amazon.nova-pro-v1:0", api_key="k", region="eu-west-1")
WIRES = [CLAUDE, GPT, QWEN, NOVA]
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})


def body(model: HttpModel, *messages: Message, tail: tuple[Message, ...] = (), **frame: Any) -> Any:
    settings = Settings(**frame.pop("settings", {}))
    request = Request(messages, Frame(settings=settings, **frame), tail)
    return json.loads(b"".join(model.encode(request)))


def rounds(count: int) -> list[Message]:
    out = [Message("user", "start")]
    for n in range(count):
        out.append(Message("assistant", (Text("t"), ToolCall(f"c{n}", "add", {"a": n}))))
        out.append(Message("tool", (ToolResult(f"c{n}", str(n), name="add"),)))
    return out


# --------------------------------------------------------------------------- once, and the same


@pytest.mark.parametrize("model", WIRES, ids=lambda model: model.wire)
def test_each_message_is_encoded_once_however_long_the_run(
    model: HttpModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Message] = []
    plain = type(model)._message
    heads: list[Frame] = []
    head = type(model)._head
    monkeypatch.setattr(
        type(model),
        "_message",
        lambda self, message: (encoded.append(message), plain(self, message))[1],
    )
    monkeypatch.setattr(
        type(model), "_head", lambda self, frame: (heads.append(frame), head(self, frame))[1]
    )
    frame = Frame("be brief", (ADD,))
    strand = Strand()
    turns = rounds(200)
    for message in turns:
        strand.items.append(message)
        if message.role != "assistant":
            model.encode(Request(strand.snapshot(), frame))
    assert len(encoded) == len(turns) and len(heads) == 1


@pytest.mark.parametrize("model", WIRES, ids=lambda model: model.wire)
def test_the_same_request_is_the_same_bytes(model: HttpModel) -> None:
    messages = rounds(5)
    # where to cache is marked anew in every request: see the tests of the wires
    plain = Settings(max_tokens=9, stop=("x",), cache=False, extra={"user": "u"})
    frame = Frame("s", (ADD,), plain)
    strand = Strand(list(messages[:3]))
    early = strand.snapshot()
    before = b"".join(model.encode(Request(early, frame)))
    strand.items.extend(messages[3:])
    grown = b"".join(model.encode(Request(strand.snapshot(), frame)))
    assert b"".join(model.encode(Request(early, frame))) == before
    # rebuilt from a journal: other objects, same bytes
    copies = msgspec.json.decode(msgspec.json.encode(messages), type=list[Message])
    again = msgspec.json.decode(msgspec.json.encode(frame), type=Frame)
    fresh = type(model)(model.name, api_key="k")
    assert b"".join(fresh.encode(Request(copies, again))) == grown
    assert grown.startswith(
        before[:-2]
    )  # what was sent before is the beginning of what is sent now


@pytest.mark.parametrize("model", WIRES, ids=lambda model: model.wire)
def test_the_tail_is_of_this_call_alone(model: HttpModel) -> None:
    strand = Strand(rounds(1))
    tail = (Message("user", "the time is 12"),)
    frame = Frame(settings=Settings(cache=False))
    with_tail = b"".join(model.encode(Request(strand.snapshot(), frame, tail)))
    without = b"".join(model.encode(Request(strand.snapshot(), frame)))
    assert b"the time is 12" in with_tail and b"the time is 12" not in without
    # on some wires the tail goes on with the last turn, on others it is one of its own
    assert with_tail.startswith(without.removesuffix(b"]}").removesuffix(b"]}"))
    assert json.loads(with_tail)["messages"] != json.loads(without)["messages"]


@pytest.mark.parametrize("model", WIRES, ids=lambda model: model.wire)
def test_text_that_is_no_unicode_and_numbers_too_large(model: HttpModel) -> None:
    odd = Message("user", "a\ud800b")
    asked = Message(
        "assistant", (ToolCall("c", "add", {"n": 2**70, "x": float("nan"), "\udfff": 1}),)
    )
    sent = body(model, odd, asked)
    assert sent["messages"][0]["role"] == "user"
    assert str(2**70) in json.dumps(sent)


@pytest.mark.parametrize("model", WIRES, ids=lambda model: model.wire)
def test_a_model_and_its_messages_never_show_the_key(model: HttpModel) -> None:
    secret = "sk-very-secret-0123456789"
    held = type(model)("m", api_key=secret, headers={"Authorization": "Bearer other-secret"})
    assert secret not in repr(held) and secret not in str(vars(held))
    assert secret in held.secrets and "Bearer other-secret" in held.secrets


# --------------------------------------------------------------------------- names and ids


@given(st.lists(st.text(max_size=80), unique=True, min_size=1, max_size=30))
def test_safe_names_are_taken_by_everyone_and_never_meet(names: list[str]) -> None:
    safe = [safe_name(name) for name in names]
    assert all(0 < len(name) <= 64 and set(name) <= SAFE for name in safe)
    assert len(set(safe)) == len(names)
    again = [safe_name(name) for name in [*names, *safe]]
    assert again[: len(names)] == safe


SAFE = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def test_a_name_made_to_meet_another_is_told_apart() -> None:
    made = safe_name("db.query")
    assert safe_name(made) != made and safe_name("add-x1") == "add-x1"
    assert safe_name("mcp__a.b__c") != safe_name("mcp__a__b__c") == "mcp__a__b__c"


def test_calls_and_results_keep_the_same_id() -> None:
    long = "tool:insert.level/" + "x" * 80
    turn = (
        Message("assistant", (ToolCall(long, "a.b", {}),)),
        Message("tool", (ToolResult(long, "r"),)),
    )
    sent = body(CLAUDE, *turn)["messages"][-2:]
    assert sent[0]["content"][0]["id"] == sent[1]["content"][0]["tool_use_id"]
    assert sent[0]["content"][0]["name"] == safe_name("a.b")
    for provider, name, longest in (
        ("openai", "m", 40),
        ("mistral", "m", 9),
        ("openrouter", "openai/m", 40),
        ("openrouter", "google/m", 200),
        ("groq", "m", 200),
    ):
        model = OpenAIChat(name, provider=provider, api_key="k")
        sent = body(model, *turn)["messages"]
        id = sent[0]["tool_calls"][0]["id"]
        assert id == sent[1]["tool_call_id"] and len(id) <= longest
        assert (id == long) is (longest == 200)


@pytest.mark.parametrize("model", WIRES, ids=lambda model: model.wire)
def test_a_tool_choice_that_is_none(model: HttpModel) -> None:
    with pytest.raises(ConfigError, match="tool_choice"):
        body(model, tools=(ADD,), settings={"tool_choice": "subtract"})


# --------------------------------------------------------------------------- OpenAI


def test_openai_one_message_for_each_result() -> None:
    asked = Message("assistant", (ToolCall("a", "add", {"x": 1}), ToolCall("b", "add", {})))
    results = Message(
        "tool", (ToolResult("a", "1"), ToolResult("b", "no", is_error=True), Text("hm"))
    )
    assert body(GPT, Message("user", "q"), asked, results, system="s")["messages"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"x":1}'},
                },
                {"id": "b", "type": "function", "function": {"name": "add", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "Error: no"},
        {"role": "user", "content": "hm"},
    ]


def test_openai_pictures() -> None:
    data = base64.b64encode(b"hello").decode()
    parts = (
        Text("see"),
        Image(data),
        Document(data, title="a.pdf"),
        Document(data, "text/csv", title="t"),
    )
    sent = body(GPT, Message("user", parts))["messages"][0]["content"]
    assert sent == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"},
        },
        {"type": "text", "text": "t:\nhello"},
    ]
    answer = Message(
        "tool",
        (
            ToolResult(
                "a",
                (Text("two"), Image(url="https://x")),
            ),
            ToolResult("b", "c"),
        ),
    )
    tool, other, user = body(GPT, answer)["messages"]
    assert tool["content"] == "two" and other["role"] == "tool"
    assert user == {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "https://x"}}],
    }


def test_openai_settings() -> None:
    assert body(GPT) == {
        "model": "gpt-4o",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [],
    }
    given: dict[str, Any] = {
        "max_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ("x",),
        "seed": 1,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.25,
        "tool_choice": {"name": "add"},
        "parallel_tool_calls": False,
    }
    full = body(
        GPT, tools=(ADD,), settings={**given, "top_k": 3, "stream": False, "extra": {"user": "u"}}
    )
    assert full.pop("tool_choice") == {"type": "function", "function": {"name": "add"}}
    assert all(full[k] == given[k] for k in ("max_tokens", "temperature", "top_p", "seed"))
    assert (full["frequency_penalty"], full["presence_penalty"], full["stop"]) == (0.5, 0.25, ["x"])
    assert full["parallel_tool_calls"] is False and full["user"] == "u" and full["stream"] is False
    assert not {"top_k", "stream_options"} & full.keys()
    reasoning = body(OpenAIChat("o3", api_key="k"), settings=given)
    assert reasoning["max_completion_tokens"] == 5
    assert not {"max_tokens", "temperature", "top_p", "frequency_penalty"} & reasoning.keys()


@pytest.mark.parametrize(
    ("provider", "name", "asked", "sent"),
    [
        ("openai", "o3", True, {"reasoning_effort": "medium"}),
        ("openai", "o3", {"budget_tokens": 1000}, {"reasoning_effort": "low"}),
        ("openai", "gpt-4o", True, {}),
        ("openrouter", "x/y", True, {"reasoning": {"enabled": True}}),
        ("openrouter", "x/y", {"budget_tokens": 9}, {"reasoning": {"max_tokens": 9}}),
        ("openrouter", "x/y", False, {"reasoning": {"enabled": False}}),
        ("together", "x/y", False, {"reasoning": {"enabled": False}}),
        ("deepseek", "deepseek-v4-pro", True, {"thinking": {"type": "enabled"}}),
        ("ollama", "qwen3", False, {"reasoning_effort": "none"}),
        ("local", "own", False, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("groq", "openai/gpt-oss-20b", {"effort": "high"}, {"reasoning_effort": "high"}),
        ("mistral", "m", True, {}),
    ],
)
def test_each_server_is_asked_to_think_in_its_own_words(
    provider: str, name: str, asked: Any, sent: dict[str, Any]
) -> None:
    model = OpenAIChat(name, provider=provider, api_key="k")
    got = body(model, settings={"thinking": asked})
    without = body(model)
    assert {k: v for k, v in got.items() if k not in without} == sent


def test_mistral_refuses_what_it_does_not_know() -> None:
    model = OpenAIChat("mistral-large-latest", provider="mistral", api_key="k")
    sent = body(model, tools=(ADD,), settings={"seed": 3, "top_k": 2, "tool_choice": "required"})
    assert sent["random_seed"] == 3 and sent["tool_choice"] == "any"
    assert not {"seed", "top_k", "stream_options"} & sent.keys()


@pytest.mark.parametrize(
    ("model", "base", "url"),
    [
        (CLAUDE, None, "https://api.anthropic.com/v1/messages"),
        (CLAUDE, "http://h:1", "http://h:1/v1/messages"),
        (CLAUDE, "http://h:1/v1/", "http://h:1/v1/messages"),
        (CLAUDE, "http://h/anthropic", "http://h/anthropic/v1/messages"),
        (GPT, None, "https://api.openai.com/v1/chat/completions"),
        (GPT, "http://h:1", "http://h:1/v1/chat/completions"),
        (GPT, "http://h/openai/v1", "http://h/openai/v1/chat/completions"),
        (
            GPT,
            "http://h/d/chat/completions?api-version=1",
            "http://h/d/chat/completions?api-version=1",
        ),
    ],
)
def test_addresses(model: HttpModel, base: str | None, url: str) -> None:
    assert type(model)("m", api_key="k", base_url=base).url == url


@pytest.mark.parametrize("model", WIRES, ids=lambda model: model.wire)
def test_every_snapshot_of_a_long_run_reads_the_same_as_a_plain_list(model: HttpModel) -> None:
    messages = rounds(150)
    strand = Strand()
    early = [(strand.snapshot(), 0)]
    for count, message in enumerate(messages, 1):
        strand.items.append(message)
        view = strand.snapshot()
        body = model.encode(Request(view))
        assert len(body) < 80  # turn 1,000 is put together as quickly as turn 10
        if count % 7 == 0:
            early.append((view, count))
            assert b"".join(body) == b"".join(model.encode(Request(messages[:count])))
    for view, count in early:  # also those from before the last messages were joined
        again = b"".join(model.encode(Request(view)))
        assert again == b"".join(model.encode(Request(messages[:count])))


def test_leading_system_words_are_encoded_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Message] = []
    plain = AnthropicMessages._message
    monkeypatch.setattr(
        AnthropicMessages, "_message", lambda self, m: (encoded.append(m), plain(self, m))[1]
    )
    strand = Strand([Message("system", "one")])
    for message in rounds(100):
        strand.items.append(message)
        sent = json.loads(b"".join(CLAUDE.encode(Request(strand.snapshot()))))
        assert sent["system"][0]["text"] == "one"
        assert len(sent["messages"]) == len(strand.items) - 1
    assert len(encoded) == len(strand.items) - 1


def test_a_message_taken_out_again_leaves_nothing_behind() -> None:
    strand = Strand(rounds(1))
    strand.items.append(Message("assistant", "dropped"))
    CLAUDE.encode(Request(strand.snapshot()))
    assert strand.drop_last().text == "dropped"
    strand.items.append(Message("user", "instead"))
    sent = b"".join(CLAUDE.encode(Request(strand.snapshot())))
    assert b"instead" in sent and b"dropped" not in sent

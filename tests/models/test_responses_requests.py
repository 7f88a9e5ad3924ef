"""What goes out over the Responses wire: items in their order, nothing kept over there."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from windlass.errors import ConfigError
from windlass.messages import (
    Document,
    Image,
    Message,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from windlass.models.base import Frame, Request, Settings, Strand
from windlass.models.registry import prices
from windlass.models.registry.providers import resolve
from windlass.models.registry.registry import capabilities_of
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses

THINKS = OpenAIResponses("gpt-5.4", api_key="k")
TALKS = OpenAIResponses("gpt-4o", api_key="k")
HERE = Origin("openai", "gpt-5.4")
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})
SEALED = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}


def body(model: OpenAIResponses, *messages: Message, **frame: Any) -> Any:
    settings = Settings(**frame.pop("settings", {}))
    request = Request(messages or [Message("user", "hi")], Frame(settings=settings, **frame))
    return json.loads(b"".join(model.encode(request)))


def items(*messages: Message, model: OpenAIResponses = THINKS) -> list[Any]:
    return body(model, *messages)["input"]


def said(text: str, **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text}
    return {"type": "message", "role": "assistant", "content": [part], **more}


# --------------------------------------------------------------------------- items


def test_a_round_with_reasoning_calls_and_results() -> None:
    turn = (Thinking("", SEALED, HERE), Text("Let me."), ToolCall("c1", "add", {"a": 1}))
    sent = items(
        Message("user", "Add."),
        Message("assistant", (*turn, ToolCall("c2", "add", {}))),
        Message("tool", (ToolResult("c1", "2"), ToolResult("c2", "no", is_error=True))),
        Message("system", "Be quick."),
    )
    assert sent == [
        {"role": "user", "content": "Add."},
        SEALED,
        said("Let me."),
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "2"},
        {"type": "function_call_output", "call_id": "c2", "output": "Error: no"},
        {"role": "system", "content": "Be quick."},
    ]


def test_what_only_one_model_understands_goes_back_to_it_alone() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}}
    message = Message(
        "assistant",
        (
            Thinking("hm", SEALED, HERE),
            Opaque(HERE, search),
            ToolCall("c1", "add", {}, None, {"namespace": "math"}, HERE),
        ),
    )
    native = items(message)
    assert native[:2] == [SEALED, search] and native[2]["namespace"] == "math"
    (call,) = items(message, model=OpenAIResponses("gpt-5.5", api_key="k"))
    assert call == {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
    elsewhere = OpenAIResponses("gpt-5.4", provider="openrouter", api_key="k")
    assert items(message, model=elsewhere) == [call]


def test_a_thought_that_is_only_an_id_is_not_sent() -> None:
    """Nothing is stored over there, so an id alone would be refused as unknown."""
    bare = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}]}
    told = {**bare, "content": [{"type": "reasoning_text", "text": "all of it"}]}
    message = Message("assistant", (Thinking("x", bare, HERE), Text("So.")))
    assert items(message) == [said("So.")]
    assert items(Message("assistant", (Thinking("x", told, HERE), Text("So."))))[0] == told
    # what another wire of the same provider kept there means nothing here
    chat = Thinking("x", {"field": "reasoning_content"}, HERE)
    assert items(Message("assistant", (chat, Text("So.")))) == [said("So.")]


def test_a_thought_that_came_to_nothing_is_not_sent() -> None:
    """The limit may fall while the model still thinks; such an item is refused on its own."""
    two = (Thinking("", SEALED, HERE), Thinking("", {**SEALED, "id": "rs_2"}, HERE))
    assert items(Message("user", "x"), Message("assistant", two)) == [
        {"role": "user", "content": "x"}
    ]
    sent = items(Message("assistant", (*two, Text("So."), two[0])))
    assert [item["type"] for item in sent] == ["reasoning", "reasoning", "message"]


def test_a_phase_stands_on_its_own_message_again() -> None:
    aside = Opaque(HERE, {"type": "message", "phase": "commentary"})
    final = Opaque(HERE, {"type": "message", "phase": "final_answer"})
    message = Message("assistant", (aside, Text("Looking."), final, Text("It "), Text("is.")))
    looking, answer = items(message)
    assert looking == said("Looking.", phase="commentary")
    assert answer["phase"] == "final_answer"
    assert [part["text"] for part in answer["content"]] == ["It ", "is."]
    assert items(Message("assistant", (aside,))) == []
    other = OpenAIResponses("gpt-5.5", api_key="k")
    (plain,) = items(message, model=other)
    assert "phase" not in plain and len(plain["content"]) == 3


def test_pictures_and_documents() -> None:
    pdf = Document("UERG", title="a.pdf")
    text = Document(base64.b64encode(b"words").decode(), media_type="text/plain", title="notes")
    user = Message(
        "user",
        (
            Text("see"),
            Image("QUJD"),
            Image(url="https://h/p.png"),
            pdf,
            text,
            Document(url="https://h/d.pdf"),
        ),
    )
    assert items(user)[0]["content"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto"},
        {"type": "input_image", "image_url": "https://h/p.png", "detail": "auto"},
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,UERG",
        },
        {"type": "input_text", "text": "notes:\nwords"},
        {"type": "input_file", "file_url": "https://h/d.pdf"},
    ]
    result = ToolResult("c", (Text("here"), Image("QUJD")))
    assert [part["type"] for part in items(Message("tool", (result,)))[0]["output"]] == [
        "input_text",
        "input_image",
    ]
    failed = ToolResult("c", (Text("broken"), Image("QUJD")), is_error=True)
    assert items(Message("tool", (failed,)))[0]["output"] == "Error: broken"


def test_ids_and_names_the_provider_would_refuse() -> None:
    long = "tool:insert.level/" + "x" * 80
    call, output = items(
        Message("assistant", (ToolCall(long, "a.b", {}),)),
        Message("tool", (ToolResult(long, "r"),)),
    )
    assert call["call_id"] == output["call_id"] and len(call["call_id"]) <= 64
    assert "." not in call["name"]


def test_history_of_another_provider_keeps_its_meaning() -> None:
    claude = Origin("anthropic", "claude-sonnet-4-5")
    turn = (
        Thinking("hm", {"signature": "s"}, claude),
        Opaque(claude, {"type": "server_tool_use"}),
        Text("ok"),
        ToolCall("toolu_1", "add", {"a": 1}, None, {"x": 1}, claude),
    )
    history = (
        Message("user", "q"),
        Message("assistant", turn),
        Message("tool", (ToolResult("toolu_1", "2"),)),
    )
    assert [item.get("type", "message") for item in items(*history)] == [
        "message",
        "message",
        "function_call",
        "function_call_output",
    ]
    # and the other way: what this wire made is left out by the others
    ours = (
        Thinking("", SEALED, HERE),
        Opaque(HERE, {"type": "message", "phase": "commentary"}),
        Text("ok"),
        ToolCall("c1", "add", {"a": 1}, None, {"namespace": "n"}, HERE),
    )
    for model in (AnthropicMessages("claude-x", api_key="k"), OpenAIChat("gpt-5.4", api_key="k")):
        request = Request([Message("user", "q"), Message("assistant", ours)])
        sent = b"".join(model.encode(request))
        assert not any(word in sent for word in (b"gAAA", b"namespace", b"phase", b"rs_1"))
        assert b'"ok"' in sent and b"c1" in sent


# --------------------------------------------------------------------------- settings


def test_nothing_is_kept_over_there_and_reasoning_comes_back_sealed() -> None:
    sent = body(THINKS, system="Be brief.", tools=(ADD,))
    assert sent["store"] is False and sent["stream"] is True
    assert sent["include"] == ["reasoning.encrypted_content"]
    assert sent["instructions"] == "Be brief."
    assert sent["tools"] == [
        {
            "type": "function",
            "name": "add",
            "description": "Add.",
            "parameters": ADD.parameters,
            "strict": False,
        }
    ]
    # a model that does not reason refuses to be asked for it
    assert "include" not in body(TALKS)
    local = OpenAIResponses("qwen", provider="local", api_key="k")
    assert "include" not in body(local) and body(local)["store"] is False


EVERYTHING: dict[str, Any] = {
    "max_tokens": 100,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 3,
    "stop": ("x",),
    "seed": 1,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "parallel_tool_calls": False,
    "stream": False,
    "extra": {"service_tier": "flex", "input": "never"},
}


def test_settings() -> None:
    sent = body(TALKS, settings=EVERYTHING, tools=(ADD,))
    assert (sent["max_output_tokens"], sent["temperature"], sent["top_p"]) == (100, 0.5, 0.9)
    assert sent["parallel_tool_calls"] is False and sent["stream"] is False
    assert sent["service_tier"] == "flex" and isinstance(sent["input"], list)
    for word in ("top_k", "stop", "seed", "frequency_penalty", "presence_penalty", "max_tokens"):
        assert word not in sent  # this wire has no place for them
    sent = body(THINKS, settings=EVERYTHING)
    assert not {"temperature", "top_p", "parallel_tool_calls", "tools"} & sent.keys()
    assert body(THINKS, settings={"max_tokens": 3})["max_output_tokens"] == 16
    local = OpenAIResponses("qwen", provider="local", api_key="k")
    assert body(local, settings={"max_tokens": 3})["max_output_tokens"] == 3


@pytest.mark.parametrize(
    ("thinking", "sent"),
    [
        (True, {"effort": "medium"}),
        (False, {"effort": "none"}),
        ({"effort": "xhigh"}, {"effort": "xhigh"}),
        ({"budget_tokens": 1000}, {"effort": "low"}),
        ({"effort": "low", "summary": "auto"}, {"effort": "low", "summary": "auto"}),
        ({"summary": "detailed"}, {"effort": "medium", "summary": "detailed"}),
    ],
)
def test_thinking(thinking: Any, sent: Any) -> None:
    assert body(THINKS, settings={"thinking": thinking}).get("reasoning") == sent
    assert "reasoning" not in body(TALKS, settings={"thinking": thinking})


def test_a_routers_reasoning_is_asked_for_in_its_own_words() -> None:
    router = OpenAIResponses("openai/gpt-5.4", provider="openrouter", api_key="k")
    sent = body(router, settings={"thinking": {"budget_tokens": 2000}})
    assert sent["reasoning"] == {"max_tokens": 2000}
    assert sent["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", "required"),
        ({"name": "add"}, {"type": "function", "name": "add"}),
        ("add", {"type": "function", "name": "add"}),
    ],
)
def test_tool_choice(choice: Any, sent: Any) -> None:
    assert body(TALKS, tools=(ADD,), settings={"tool_choice": choice})["tool_choice"] == sent
    assert "tool_choice" not in body(TALKS, settings={"tool_choice": choice})


def test_a_tool_choice_that_is_none() -> None:
    with pytest.raises(ConfigError, match="tool_choice is"):
        body(TALKS, tools=(ADD,), settings={"tool_choice": "sometimes"})


def test_tools_the_provider_runs_join_ours() -> None:
    extra = {"tools": [{"type": "web_search"}], "include": ["web_search_call.action.sources"]}
    sent = body(THINKS, tools=(ADD,), settings={"extra": extra})
    assert [tool["type"] for tool in sent["tools"]] == ["function", "web_search"]
    assert sent["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    assert body(THINKS, settings={"extra": extra})["tools"] == [{"type": "web_search"}]


# --------------------------------------------------------------------------- once, and the same


def rounds(count: int) -> list[Message]:
    out = [Message("user", "start")]
    for n in range(count):
        turn = (Thinking("", SEALED, HERE), Text("t"), ToolCall(f"c{n}", "add", {"a": n}))
        out.append(Message("assistant", turn))
        out.append(Message("tool", (ToolResult(f"c{n}", str(n), name="add"),)))
    return out


def test_each_message_is_encoded_once_however_long_the_run(monkeypatch: Any) -> None:
    encoded: list[Message] = []
    heads: list[Frame] = []
    plain, head = OpenAIResponses._message, OpenAIResponses._head
    monkeypatch.setattr(
        OpenAIResponses, "_message", lambda self, m: (encoded.append(m), plain(self, m))[1]
    )
    monkeypatch.setattr(
        OpenAIResponses, "_head", lambda self, f: (heads.append(f), head(self, f))[1]
    )
    frame, strand = Frame("be brief", (ADD,)), Strand()
    before = b""
    for message in rounds(1000):
        strand.items.append(message)
        if message.role == "assistant":
            continue
        pieces = THINKS.encode(Request(strand.snapshot(), frame))
        assert len(pieces) < 120
        sent = b"".join(pieces)
        assert sent.startswith(before)  # what a provider cached of the last request still fits
        before = sent[:-2]
    assert len(encoded) == len(strand.items) and len(heads) == 1
    again = OpenAIResponses("gpt-5.4", api_key="other")
    assert b"".join(again.encode(Request(rounds(1000), Frame("be brief", (ADD,))))) == sent


def test_the_tail_is_of_this_call_alone() -> None:
    strand = Strand(rounds(1))
    with_tail = THINKS.encode(Request(strand.snapshot(), tail=(Message("user", "now is 12"),)))
    without = json.loads(b"".join(THINKS.encode(Request(strand.snapshot()))))
    assert json.loads(b"".join(with_tail))["input"][:-1] == without["input"]


# --------------------------------------------------------------------------- which model, and where


@pytest.mark.parametrize(
    ("base", "url"),
    [
        (None, "https://api.openai.com/v1/responses"),
        ("http://h:1", "http://h:1/v1/responses"),
        ("http://h/openai/v1/", "http://h/openai/v1/responses"),
        (
            "http://h/openai/v1/responses?api-version=1",
            "http://h/openai/v1/responses?api-version=1",
        ),
    ],
)
def test_addresses(base: str | None, url: str) -> None:
    assert OpenAIResponses("m", api_key="k", base_url=base).url == url


def test_how_a_name_finds_this_wire() -> None:
    import windlass as w

    assert w.models.openai_responses is OpenAIResponses
    env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://h/v1"}
    chosen = resolve("openai-responses:gpt-4o", environ=env)
    assert isinstance(chosen, OpenAIResponses) and chosen.url == "http://h/v1/responses"
    # the models are OpenAI's, so prices and windows are too
    assert (chosen.provider, chosen.name) == ("openai", "gpt-4o") and chosen.context_window
    assert isinstance(resolve(provider="openai-responses", environ=env), OpenAIResponses)
    assert isinstance(resolve("openai:gpt-5.4", environ=env), OpenAIChat)
    # some models are served over this wire alone
    only = resolve("openai:gpt-5.5-pro", environ=env)
    assert isinstance(only, OpenAIResponses) and only.provider == "openai"
    assert isinstance(resolve("gpt-5.3-codex", environ=env), OpenAIResponses)
    # a router serves them all as it serves the others
    assert isinstance(resolve("openrouter:openai/gpt-5.5-pro", api_key="k"), OpenAIChat)


def test_rows_that_ask_for_this_wire_are_openais() -> None:
    asked = {
        name: provider
        for provider, name in prices.names()
        if capabilities_of(provider, name).wire == "openai_responses"
    }
    assert {"gpt-5.5-pro", "o3-pro", "gpt-5.3-codex"} <= asked.keys()
    assert set(asked.values()) == {"openai"}


def test_a_provider_nobody_knows() -> None:
    with pytest.raises(ConfigError, match="pass base_url="):
        OpenAIResponses("m", provider="nobody")
    own = OpenAIResponses("m", provider="nobody", base_url="http://h")
    assert (own.provider, own.url) == ("nobody", "http://h/v1/responses")

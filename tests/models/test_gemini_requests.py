"""What goes out over Gemini's wire: the same bytes, each message once, every rule kept."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from windlass.errors import BadReply, BadRequest, ConfigError, ModelError, RateLimited
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
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.gemini.vertex import VertexGenerate
from windlass.testing.providers import FAULTS, FakeGemini, FakeVertex

FLASH = GeminiGenerate("gemini-2.5-flash", api_key="k")
THREE = GeminiGenerate("gemini-3-flash-preview", api_key="k")
VERTEX = VertexGenerate("gemini-3-flash-preview", token="t", project="p")
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})


def body(model: GeminiGenerate, *messages: Message, **frame: Any) -> Any:
    settings = Settings(**frame.pop("settings", {}))
    request = Request(messages, Frame(settings=settings, **frame))
    return json.loads(b"".join(model.encode(request)))


def contents(model: GeminiGenerate, *messages: Message) -> Any:
    return body(model, *messages)["contents"]


def rounds(count: int) -> list[Message]:
    out = [Message("user", "start")]
    for n in range(count):
        out.append(Message("assistant", (Text("t"), ToolCall(f"c{n}", "add", {"a": n}))))
        out.append(Message("tool", (ToolResult(f"c{n}", str(n), name="add"),)))
    return out


# --------------------------------------------------------------------------- once, and the same


@pytest.mark.parametrize("model", [FLASH, VERTEX], ids=["gemini", "vertex"])
def test_each_message_is_encoded_once_however_long_the_run(
    model: GeminiGenerate, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Message] = []
    heads: list[Frame] = []
    plain, head = type(model)._message, type(model)._head
    monkeypatch.setattr(
        type(model), "_message", lambda self, m: (encoded.append(m), plain(self, m))[1]
    )
    monkeypatch.setattr(type(model), "_head", lambda self, f: (heads.append(f), head(self, f))[1])
    frame = Frame("be brief", (ADD,))
    strand = Strand()
    turns = rounds(500)
    before = b""
    for message in turns:
        strand.items.append(message)
        if message.role == "assistant":
            continue
        pieces = model.encode(Request(strand.snapshot(), frame))
        assert len(pieces) < 90  # turn 1,000 is put together as quickly as turn 10
        sent = b"".join(pieces)
        assert sent.startswith(before[:-2])
        before = sent
    assert len(encoded) == len(turns) and len(heads) == 1


def test_the_same_request_is_the_same_bytes() -> None:
    messages = rounds(5)
    frame = Frame("s", (ADD,), Settings(max_tokens=9, stop=("x",), extra={"labels": {"a": "b"}}))
    sent = b"".join(THREE.encode(Request(messages, frame)))
    copies = msgspec.json.decode(msgspec.json.encode(messages), type=list[Message])
    again = msgspec.json.decode(msgspec.json.encode(frame), type=Frame)
    fresh = GeminiGenerate(THREE.name, api_key="k")
    assert b"".join(fresh.encode(Request(copies, again))) == sent
    tail = (Message("user", "the time is 12"),)
    with_tail = json.loads(b"".join(THREE.encode(Request(messages, frame, tail))))
    assert with_tail["contents"][:-1] == json.loads(sent)["contents"]


def test_streamed_and_plain_are_the_same_body_at_another_address() -> None:
    asked = Message("user", "q")
    assert body(FLASH, asked) == body(FLASH, asked, settings={"stream": False})
    base = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash"
    assert FLASH.asks(stream=True) == f"{base}:streamGenerateContent?alt=sse"
    assert FLASH.asks(stream=False) == f"{base}:generateContent"


@pytest.mark.parametrize(
    ("name", "base", "url"),
    [
        ("m", "http://h:1", "http://h:1/v1beta/models/m:generateContent"),
        ("models/m", "http://h:1/v1/", "http://h:1/v1/models/m:generateContent"),
        ("tunedModels/m", "http://h:1", "http://h:1/v1beta/tunedModels/m:generateContent"),
        ("m", "http://h/gate/gemini?key=x", "http://h/gate/gemini/models/m:generateContent?key=x"),
        ("m x?", "http://h", "http://h/v1beta/models/m%20x%3F:generateContent"),
    ],
)
def test_addresses(name: str, base: str, url: str) -> None:
    model = GeminiGenerate(name, api_key="k", base_url=base)
    assert model.asks(stream=False) == url
    assert model.asks(stream=True).endswith("alt=sse")
    assert not model.name.startswith("models/")


# --------------------------------------------------------------------------- messages


def test_roles_and_parts() -> None:
    sent = body(
        FLASH,
        Message("system", "First."),
        Message("user", "q"),
        Message("assistant", (Text(""), Text("a"))),
        Message("assistant", ()),
        Message("system", "later words"),
        system="Be brief.",
    )
    assert sent["systemInstruction"] == {"parts": [{"text": "Be brief.\n\nFirst."}]}
    assert sent["contents"] == [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"text": "a"}]},
        {"role": "user", "parts": [{"text": "later words"}]},
    ]


@pytest.mark.parametrize(
    ("content", "is_error", "response"),
    [
        ("sunny", False, {"output": "sunny"}),
        ("", False, {"output": ""}),
        ('{"sky": [1, {"a": null}]}', False, {"sky": [1, {"a": None}]}),
        ("{broken", False, {"output": "{broken"}),
        ("[1, 2]", False, {"output": "[1, 2]"}),
        ("42", False, {"output": "42"}),
        ('{"error": "of mine"}', False, {"output": {"error": "of mine"}}),
        ('{"output": 1, "x": 2}', False, {"output": {"output": 1, "x": 2}}),
        ("no such order", True, {"error": "no such order"}),
        ('{"a": 1}', True, {"error": '{"a": 1}'}),
        ((Text("a"), Text("b")), False, {"output": "ab"}),
    ],
)
def test_a_result_is_an_object(content: Any, is_error: bool, response: Any) -> None:
    result = ToolResult("c1", content, is_error, "add")
    (said,) = contents(FLASH, Message("tool", (result,)))
    function = {"name": "add", "response": response, "id": "c1"}
    assert said == {"role": "user", "parts": [{"functionResponse": function}]}


def test_all_results_of_a_turn_stand_in_one_content_before_other_words() -> None:
    message = Message(
        "tool", (Text("by the way"), ToolResult("a", "1", name="f"), ToolResult("b", "2", name="f"))
    )
    (said,) = contents(FLASH, message)
    assert [next(iter(part)) for part in said["parts"]] == [
        "functionResponse",
        "functionResponse",
        "text",
    ]
    assert [part["functionResponse"]["id"] for part in said["parts"][:2]] == ["a", "b"]


def test_a_conversation_begins_with_a_user_be_it_one_who_says_nothing() -> None:
    nothing = {"role": "user", "parts": [{"text": ""}]}
    assert contents(FLASH, Message("user", "")) == [nothing]
    hello = {"role": "model", "parts": [{"text": "Hello."}]}
    asked = {"role": "user", "parts": [{"text": "q"}]}
    began = (Message("assistant", "Hello."), Message("user", "q"))
    assert contents(FLASH, *began) == [nothing, hello, asked]
    assert contents(FLASH, Message("system", "s"), *began) == [nothing, hello, asked]
    assert contents(FLASH, Message("system", "s")) == [nothing]
    assert contents(FLASH) == [nothing]
    strand = Strand(list(began))
    first = b"".join(FLASH.encode(Request(strand.snapshot())))
    strand.items.append(Message("assistant", "a"))
    assert b"".join(FLASH.encode(Request(strand.snapshot()))).startswith(first[:-2])


def test_vertex_is_sent_no_ids() -> None:
    sent = contents(VERTEX, *rounds(2))
    assert '"id"' not in json.dumps(sent)
    assert '"id"' in json.dumps(contents(THREE, *rounds(2)))


def test_pictures_in_a_result_go_where_the_model_takes_them() -> None:
    picture, page = Image("aGk=", "image/png"), Document(url="gs://b/x.pdf", title="Rules")
    message = Message("tool", (ToolResult("a", (Text("see"), picture, page), name="f"),))
    shown = [
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"text": "Rules:"},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/x.pdf"}},
    ]
    (said,) = contents(THREE, message)
    assert said["parts"] == [
        {
            "functionResponse": {
                "name": "f",
                "response": {"output": "see"},
                "id": "a",
                "parts": shown,
            }
        }
    ]
    (said,) = contents(FLASH, message)
    assert said["parts"][1:] == shown and "parts" not in said["parts"][0]["functionResponse"]


def test_pictures_and_documents() -> None:
    text = base64.b64encode(b"words").decode()
    (said,) = contents(
        FLASH,
        Message(
            "user",
            (
                Image(url="https://x/y.png", media_type="image/webp"),
                Image(url="data:image/gif;base64,R0lG"),
                Document(text, "text/plain"),
            ),
        ),
    )
    assert said["parts"] == [
        {"fileData": {"mimeType": "image/webp", "fileUri": "https://x/y.png"}},
        {"inlineData": {"mimeType": "image/gif", "data": "R0lG"}},
        {"inlineData": {"mimeType": "text/plain", "data": text}},
    ]


def test_a_history_begun_elsewhere_loses_only_what_is_bound_to_its_maker() -> None:
    claude = Origin("anthropic", "claude-x")
    turn = Message(
        "assistant",
        (
            Thinking("hm", {"signature": "s"}, claude),
            Opaque(claude, {"type": "redacted_thinking"}),
            Text("I look."),
            ToolCall("toolu_1", "add", {"a": 1}, opaque={"caller": 1}, origin=claude),
            ToolCall("toolu_2", "add", {"a": 2}),
        ),
    )
    _, said = contents(FLASH, turn)
    assert said["parts"] == [
        {"text": "I look."},
        {"functionCall": {"name": "add", "args": {"a": 1}, "id": "toolu_1"}},
        {"functionCall": {"name": "add", "args": {"a": 2}, "id": "toolu_2"}},
    ]
    # from Gemini 3 on, a call must be signed; one made elsewhere is marked as such, once
    for model in (THREE, VERTEX, GeminiGenerate("gemini-9-nobody-knows", api_key="k")):
        _, said = contents(model, turn)
        assert said["parts"][1]["thoughtSignature"] == "skip_thought_signature_validator"
        assert "thoughtSignature" not in said["parts"][2]


def test_a_call_of_its_own_keeps_its_signature_and_gets_no_other() -> None:
    own = Origin("gemini", THREE.name)
    calls = (
        ToolCall("a", "add", {}, opaque={"thoughtSignature": "Zz=="}, origin=own),
        ToolCall("b", "add", {}),
    )
    _, said = contents(THREE, Message("assistant", calls))
    assert [part.get("thoughtSignature") for part in said["parts"]] == ["Zz==", None]
    _, said = contents(VERTEX, Message("assistant", calls))  # the same model at another door
    assert said["parts"][0]["thoughtSignature"] == "skip_thought_signature_validator"


def test_text_that_is_no_unicode_and_numbers_too_large() -> None:
    asked = Message("assistant", (ToolCall("c", "add", {"n": 2**70, "\udfff": 1}),))
    result = Message("tool", (ToolResult("c", '{"n": 1180591620717411303424}', name="add"),))
    sent = json.dumps(body(FLASH, Message("user", "a\ud800b"), asked, result))
    assert sent.count(str(2**70)) == 2


# --------------------------------------------------------------------------- the frame


def test_settings() -> None:
    sent = body(
        FLASH,
        Message("user", "q"),
        tools=(ADD, ToolSpec("7.up", "", {})),
        settings={
            "max_tokens": 9,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 3,
            "stop": ("x",),
            "seed": 7,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.2,
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "extra": {
                "tools": [{"googleSearch": {}}],
                "safetySettings": [],
                "generationConfig": {"responseMimeType": "application/json"},
                "contents": "never",
            },
        },
    )
    assert sent["generationConfig"] == {
        "maxOutputTokens": 9,
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 3,
        "stopSequences": ["x"],
        "seed": 7,
        "frequencyPenalty": 0.1,
        "presencePenalty": 0.2,
        "responseMimeType": "application/json",
    }
    functions, search = sent["tools"]
    assert search == {"googleSearch": {}} and sent["safetySettings"] == []
    declared = functions["functionDeclarations"]
    assert declared[0] == {
        "name": "add",
        "description": "Add.",
        "parametersJsonSchema": ADD.parameters,
    }
    assert declared[1]["parametersJsonSchema"] == {"type": "object", "properties": {}}
    assert declared[1]["name"][0].isalpha()
    assert sent["contents"] == [{"role": "user", "parts": [{"text": "q"}]}]
    assert body(FLASH, Message("user", "q"))["generationConfig"] == {}


def test_a_model_that_sets_its_own_temperature_is_not_told_one() -> None:
    model = GeminiGenerate("gemini-3.8-flash", api_key="k")
    sent = body(model, Message("user", "q"), settings={"temperature": 0.1, "top_p": 1, "top_k": 1})
    assert sent["generationConfig"] == {}


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("any", {"mode": "ANY"}),
        ("add", {"mode": "ANY", "allowedFunctionNames": ["add"]}),
        ({"name": "add"}, {"mode": "ANY", "allowedFunctionNames": ["add"]}),
    ],
)
def test_tool_choice(choice: Any, config: Any) -> None:
    sent = body(FLASH, Message("user", "q"), tools=(ADD,), settings={"tool_choice": choice})
    assert sent["toolConfig"] == {"functionCallingConfig": config}
    without = body(FLASH, Message("user", "q"), tools=(ADD,))
    assert "toolConfig" not in without
    with pytest.raises(ConfigError, match="tool_choice"):
        body(FLASH, Message("user", "q"), tools=(ADD,), settings={"tool_choice": "ad"})


SHOW = {"includeThoughts": True}


@pytest.mark.parametrize(
    ("name", "asked", "config"),
    [
        ("gemini-2.5-flash", True, {**SHOW, "thinkingBudget": -1}),
        ("gemini-2.5-flash", False, {"thinkingBudget": 0}),
        ("gemini-2.5-flash", {"mode": "disabled"}, {"thinkingBudget": 0}),
        ("gemini-2.5-flash", {"budget_tokens": 99_999}, {**SHOW, "thinkingBudget": 24_576}),
        ("gemini-2.5-flash", {"effort": "low"}, {**SHOW, "thinkingBudget": 2048}),
        ("gemini-2.5-flash", {"effort": "max"}, {**SHOW, "thinkingBudget": 24_576}),
        ("gemini-2.5-flash-lite", {"budget_tokens": 100}, {**SHOW, "thinkingBudget": 512}),
        ("gemini-2.5-pro", False, {"thinkingBudget": 128}),
        ("gemini-2.5-pro", {"budget_tokens": -1}, {**SHOW, "thinkingBudget": -1}),
        ("gemini-3-flash-preview", True, SHOW),
        ("gemini-3-flash-preview", False, {"thinkingLevel": "MINIMAL"}),
        ("gemini-3-flash-preview", {"effort": "medium"}, {**SHOW, "thinkingLevel": "MEDIUM"}),
        ("gemini-3-flash-preview", {"budget_tokens": 4000}, {**SHOW, "thinkingLevel": "MEDIUM"}),
        ("gemini-3-flash-preview", {"budget_tokens": 10**6}, {**SHOW, "thinkingLevel": "HIGH"}),
        ("gemini-3-pro-preview", {"effort": "medium"}, {**SHOW, "thinkingLevel": "HIGH"}),
        ("gemini-3-pro-preview", False, {"thinkingLevel": "LOW"}),
        ("gemini-3.8-flash", {"effort": "minimal"}, {**SHOW, "thinkingLevel": "LOW"}),
        ("gemini-2.0-flash", True, None),
        ("nobody-knows", True, SHOW),
        ("nobody-knows", False, {"thinkingLevel": "MINIMAL"}),
        ("nobody-knows", {"effort": "xhigh"}, {**SHOW, "thinkingLevel": "HIGH"}),
        ("nobody-knows", {"budget_tokens": 7}, {**SHOW, "thinkingLevel": "MINIMAL"}),
        ("nobody-knows", {"effort": "none"}, {"thinkingLevel": "MINIMAL"}),
        ("nobody-knows", {"thinkingBudget": 5}, {"thinkingBudget": 5}),
    ],
)
def test_each_model_is_asked_to_think_in_its_own_words(name: str, asked: Any, config: Any) -> None:
    model = GeminiGenerate(name, api_key="k")
    sent = body(model, Message("user", "q"), settings={"thinking": asked})
    assert sent["generationConfig"].get("thinkingConfig") == config


def test_an_answer_of_a_given_form() -> None:
    form = {"type": "object", "properties": {"a": {"const": 1}}}
    config = body(FLASH, Message("user", "q"), settings={"schema": form})["generationConfig"]
    assert config == {
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object", "properties": {"a": {"enum": [1]}}},
    }
    config = body(FLASH, Message("user", "q"), settings={"response_format": "json"})
    assert config["generationConfig"] == {"responseMimeType": "application/json"}


def test_what_changes_with_every_turn_stands_last() -> None:
    for model in (FLASH, VERTEX):
        frame = {"system": "s", "tools": (ADD,), "settings": {"max_tokens": 5, "extra": {"z": 1}}}
        assert list(body(model, *rounds(1), **frame))[-1] == "contents"


# --------------------------------------------------------------------------- counting


@pytest.mark.parametrize("door", ["gemini", "vertex"])
async def test_tokens_are_counted_by_google_as_they_would_be_asked(door: str) -> None:
    frame = Frame("Be brief.", (ADD,), Settings(max_tokens=9, extra={"safetySettings": []}))
    request = Request(rounds(2), frame, (Message("user", "now"),))
    async with (FakeGemini if door == "gemini" else FakeVertex)("x", api_key="k") as server:
        model = (
            GeminiGenerate("gemini-3-flash-preview", api_key="k", base_url=server.url)
            if door == "gemini"
            else VertexGenerate("gemini-3-flash-preview", token=lambda: "k", base_url=server.url)
        )
        assert await model.count_tokens(request) == 1 + len(server.requests[0].body) // 4
        small = Request([Message("user", "q")])
        assert (await model.count_tokens(small) or 0) < (await model.count_tokens(request) or 0)
        unknown = Frame(settings=Settings(extra={"generationConfig": {"odd": 1}}))
        with pytest.raises(BadRequest, match="odd"):
            await model.count_tokens(Request([Message("user", "q")], unknown))
    asked = server.requests[0]
    assert asked.path.endswith("/models/gemini-3-flash-preview:countTokens")
    whole = json.loads(b"".join(model.encode(request)))
    if door == "gemini":
        name = {"model": "models/gemini-3-flash-preview"}
        assert asked.json == {"generateContentRequest": {**name, **whole}}
    else:
        whole.pop("safetySettings")
        assert asked.json == whole


async def test_a_door_that_nobody_says_counts_is_not_asked() -> None:
    model = GeminiGenerate("m", api_key="k", base_url="http://127.0.0.1:9")
    model.caps = msgspec.structs.replace(model.caps, counts_tokens=False)
    assert await model.count_tokens(Request([Message("user", "q")])) is None


@pytest.mark.parametrize(
    ("fault", "error"), [("429", RateLimited), ("html_200", BadReply), ("cut_json", BadReply)]
)
async def test_a_count_that_fails_is_a_typed_error(fault: str, error: type[ModelError]) -> None:
    async with FakeGemini("x", faults=FAULTS[fault]) as server:
        model = GeminiGenerate("m", api_key="k", base_url=server.url)
        with pytest.raises(error) as caught:
            await model.count_tokens(Request([Message("user", "q")]))
    assert (caught.value.provider, caught.value.model) == ("gemini", "m")


def test_vertex_serves_the_same_models_at_the_same_price() -> None:
    assert VERTEX.info is THREE.info and VERTEX.info is not None
    assert prices.lookup("vertex", "gemini-2.5-pro") == prices.lookup("gemini", "gemini-2.5-pro")

"""What goes out over Anthropic's wire: every rule kept, and each model asked as its row says."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
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
    ToolResult,
    ToolSpec,
)
from windlass.models.base import Frame, Request, Settings
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wires.anthropic.model import AnthropicMessages

CLAUDE = AnthropicMessages("claude-sonnet-4-5", api_key="k")
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})


def body(model: AnthropicMessages, *messages: Message, **frame: Any) -> Any:
    """The request's body, without marks of the cache: these have tests of their own."""
    settings = Settings(**{"cache": False, **frame.pop("settings", {})})
    request = Request(messages, Frame(settings=settings, **frame))
    return json.loads(b"".join(model.encode(request)))


def test_results_come_before_words_in_one_message() -> None:
    results = Message(
        "tool", (Text("by the way"), ToolResult("a", "1"), ToolResult("b", "", is_error=True))
    )
    assert body(CLAUDE, results)["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "tool_result", "tool_use_id": "b", "is_error": True},
                {"type": "text", "text": "by the way"},
            ],
        }
    ]


def test_drops_what_it_would_refuse() -> None:
    foreign = Thinking("hm", {"signature": "s"}, Origin("anthropic", "claude-other"))
    empty = Message(
        "assistant", (Text("  "), foreign, Opaque(Origin("openai", "x"), {"type": "y"}))
    )
    assert body(CLAUDE, Message("user", "a"), empty, Message("user", "b"))["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": [{"type": "text", "text": "b"}]},
    ]
    assert body(CLAUDE, empty, Message("user", "b"))["messages"][0]["content"][0]["text"] == "b"
    assert body(CLAUDE, empty)["messages"] == []


def test_system_words_stand_at_the_top() -> None:
    sent = body(
        CLAUDE,
        Message("system", "one"),
        Message("system", "two"),
        Message("user", "a"),
        system="zero",
    )
    assert sent["system"] == "zero\n\none\n\ntwo" and len(sent["messages"]) == 1
    later = body(CLAUDE, Message("user", "a"), Message("system", "note"))
    assert later["messages"][1] == {"role": "user", "content": [{"type": "text", "text": "note"}]}
    assert "system" not in later


DATA = base64.b64encode(b"hello").decode()
FILES = [
    (Image(DATA, "image/jpeg"), {"type": "base64", "media_type": "image/jpeg", "data": DATA}),
    (Image(url="https://x/y.png"), {"type": "url", "url": "https://x/y.png"}),
    (
        Image(url="data:image/gif;base64,R0"),
        {"type": "base64", "media_type": "image/gif", "data": "R0"},
    ),
    (Document(DATA), {"type": "base64", "media_type": "application/pdf", "data": DATA}),
    (Document(DATA, "text/plain"), {"type": "text", "media_type": "text/plain", "data": "hello"}),
    (
        Document(DATA, "application/json"),
        {"type": "text", "media_type": "text/plain", "data": "hello"},
    ),
    (
        Document(url="data:text/csv,a%2Cb"),
        {"type": "text", "media_type": "text/plain", "data": "a,b"},
    ),
    (Document(url="https://x/z.pdf"), {"type": "url", "url": "https://x/z.pdf"}),
    (Image(DATA, "image/tiff"), None),
    (Document(DATA, "application/zip"), None),
    (Document("", "text/plain"), None),  # an empty one is refused
]


@pytest.mark.parametrize(("file", "source"), FILES)
def test_files_in_prompts_and_in_results(file: Image | Document, source: Any) -> None:
    [sent] = body(CLAUDE, Message("user", (file,)))["messages"][0]["content"]
    kind = "image" if isinstance(file, Image) else "document"
    if source is None:
        assert sent["type"] == "text" and file.media_type in sent["text"]
    else:
        assert sent == {"type": kind, "source": source}
    result = ToolResult("a", (Text("see"), Text(""), file))
    [block] = body(CLAUDE, Message("tool", (result,)))["messages"][0]["content"]
    assert block["content"] == [{"type": "text", "text": "see"}, sent]
    if isinstance(file, Document):
        titled = msgspec.structs.replace(file, title="T")
        [sent] = body(CLAUDE, Message("user", (titled,)))["messages"][0]["content"]
        assert sent.get("title") == "T" or sent["text"].startswith("T: ")


def test_an_error_is_told_in_words() -> None:
    failed = ToolResult("a", (Text("see"), Image(DATA)), is_error=True)
    (block,) = body(CLAUDE, Message("tool", (failed,)))["messages"][0]["content"]
    assert block["content"] == "see" and block["is_error"] is True


def test_settings_have_their_place() -> None:
    plain = body(CLAUDE, settings={})
    assert plain == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 16384,
        "stream": True,
        "messages": [],
    }
    full = body(
        CLAUDE,
        tools=(ADD, ToolSpec("now", "", {})),
        settings={
            "max_tokens": 5,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 3,
            "stop": ("x",),
            "seed": 1,
            "frequency_penalty": 1.0,
            "presence_penalty": 1.0,
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "stream": False,
            "extra": {"service_tier": "auto"},
        },
    )
    assert full["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert (full["temperature"], full["top_p"], full["top_k"]) == (0.5, 0.9, 3)
    assert (
        full["stop_sequences"] == ["x"]
        and full["stream"] is False
        and full["service_tier"] == "auto"
    )
    assert not {"seed", "frequency_penalty", "presence_penalty", "stop"} & full.keys()
    assert full["tools"][0]["input_schema"] == ADD.parameters
    assert full["tools"][1]["input_schema"] == {"type": "object", "properties": {}}
    small = AnthropicMessages("claude-3-5-haiku-latest", api_key="k")
    assert body(small)["max_tokens"] == 8192


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ({"name": "add"}, {"type": "tool", "name": "add"}),
        ("add", {"type": "tool", "name": "add"}),
    ],
)
def test_tool_choice(choice: Any, sent: Any) -> None:
    assert body(CLAUDE, tools=(ADD,), settings={"tool_choice": choice})["tool_choice"] == sent
    assert "tool_choice" not in body(CLAUDE, settings={"tool_choice": choice})


def row(**facts: Any) -> AnthropicMessages:
    """A model of which these facts are known."""
    model = AnthropicMessages("claude-made-up", api_key="k")
    model.caps = Capabilities(known=True, thinking=True, lowering="claude", **facts)
    return model


BUDGET = {"thinking_modes": ("enabled", "disabled"), "thinking_budget": (1024, 32_000)}
ADAPTIVE = {"thinking_modes": ("adaptive", "effort", "disabled"), "efforts": ("low", "high")}
BOTH = {"thinking_modes": ("adaptive", "enabled", "disabled"), "efforts": ("low", "medium", "max")}
ALWAYS = {**ADAPTIVE, "thinking_modes": ("adaptive", "effort"), "always_thinks": True}


def enabled(tokens: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": tokens}


@pytest.mark.parametrize(
    ("facts", "asked", "thinking", "effort"),
    [
        (BUDGET, None, None, None),
        (BUDGET, True, enabled(8192), None),
        (BUDGET, False, {"type": "disabled"}, None),
        (BUDGET, {"mode": "disabled"}, {"type": "disabled"}, None),
        (BUDGET, {"budget_tokens": 2000}, enabled(2000), None),
        (BUDGET, {"budget_tokens": 5}, enabled(1024), None),  # less is refused
        (BUDGET, {"mode": "adaptive"}, enabled(8192), None),
        (BUDGET, {"mode": "effort", "effort": "low"}, enabled(2048), None),
        (BUDGET, {"mode": "effort", "effort": "none"}, {"type": "disabled"}, None),
        (ADAPTIVE, True, {"type": "adaptive"}, None),
        (ADAPTIVE, {"budget_tokens": 2000}, {"type": "adaptive"}, None),
        (ADAPTIVE, {"mode": "effort", "effort": "high"}, {"type": "adaptive"}, "high"),
        (ADAPTIVE, {"mode": "effort", "effort": "xhigh"}, {"type": "adaptive"}, "high"),
        (ADAPTIVE, {"mode": "effort", "effort": "medium"}, {"type": "adaptive"}, "low"),
        (ADAPTIVE, False, {"type": "disabled"}, None),
        (BOTH, True, {"type": "adaptive"}, None),
        (BOTH, {"budget_tokens": 1500}, enabled(1500), None),
        (BOTH, {"mode": "enabled", "effort": "medium"}, enabled(8192), "medium"),
        (ALWAYS, True, {"type": "adaptive"}, None),
        (ALWAYS, False, None, None),
        (ALWAYS, {"type": "between_tools"}, {"type": "between_tools"}, None),
        ({"thinking_modes": ("effort",), "efforts": ("low",)}, {"effort": "low"}, None, "low"),
    ],
)
def test_thinking_as_the_row_says(
    facts: dict[str, Any], asked: Any, thinking: Any, effort: str | None
) -> None:
    sent = body(row(**facts), settings={"thinking": asked})
    assert sent.get("thinking") == thinking
    assert sent.get("output_config") == ({"effort": effort} if effort else None)
    if thinking is not None and "budget_tokens" in thinking:
        assert sent["max_tokens"] > thinking["budget_tokens"]


def test_a_budget_leaves_room_for_the_answer() -> None:
    model = row(**BUDGET)
    settings = {"thinking": {"budget_tokens": 9000}, "max_tokens": 4000}
    assert body(model, settings=settings)["thinking"] == enabled(3999)
    level = {"thinking": {"mode": "effort", "effort": "high"}, "max_tokens": 4000}
    assert body(model, settings=level)["thinking"] == enabled(2000)
    short = {"thinking": True, "max_tokens": 1000}  # a budget of a run that is nearly spent
    assert body(model, settings=short)["thinking"] == {"type": "disabled"}
    own = {**settings, "thinking": enabled(9000)}  # who writes it himself is not corrected
    assert body(model, settings=own)["thinking"] == enabled(9000)


def test_a_model_that_nobody_knows_thinks_the_old_way_and_others_not_at_all() -> None:
    elsewhere = AnthropicMessages("glm-9", provider="elsewhere", base_url="http://h")
    assert body(elsewhere, settings={"thinking": True})["thinking"]["type"] == "enabled"
    old = AnthropicMessages("claude-3-5-haiku-latest", api_key="k")
    assert "thinking" not in body(old, settings={"thinking": True})


@pytest.mark.parametrize("choice", ["required", {"name": "add"}, "add"])
def test_a_forced_call_is_worth_more_than_a_thought_on_a_budget(choice: Any) -> None:
    settings = {"thinking": True, "tool_choice": choice, "temperature": 0.2}
    sent = body(row(**BUDGET), tools=(ADD,), settings=settings)
    assert sent["thinking"] == {"type": "disabled"} and sent["temperature"] == 0.2
    assert sent["tool_choice"]["type"] in ("any", "tool")
    # one that thinks as it sees fit takes both, as a recorded exchange shows
    sent = body(row(**ADAPTIVE), tools=(ADD,), settings=settings)
    assert sent["thinking"] == {"type": "adaptive"} and sent["tool_choice"]["type"] != "auto"
    assert "temperature" not in sent
    sent = body(row(**BUDGET), settings=settings)  # without tools nothing is forced
    assert sent["thinking"]["type"] == "enabled" and "tool_choice" not in sent


def test_a_model_that_cannot_be_made_to_call_says_so() -> None:
    model = row(**ALWAYS, forces_calls=False)
    with pytest.raises(ConfigError, match="claude-made-up cannot be made to call a tool"):
        body(model, tools=(ADD,), settings={"tool_choice": "required"})
    assert "tool_choice" not in body(model, settings={"tool_choice": "required"})


def test_sampling_is_left_out_where_it_is_refused() -> None:
    settings = {"temperature": 0.5, "top_p": 0.5, "top_k": 4}
    sent = body(row(sampling=False), settings=settings)
    assert not {"temperature", "top_p", "top_k"} & sent.keys()
    assert body(row(), settings=settings)["top_k"] == 4


# --------------------------------------------------------------------------- beta features


async def beta(model: AnthropicMessages, **settings: Any) -> str | None:
    _, headers = await model._address_request(Settings(**settings), [])
    return headers.get("anthropic-beta")


BETWEEN = "interleaved-thinking-2025-05-14"


async def test_thinking_between_calls_goes_with_thinking_where_the_row_says_so() -> None:
    model = row(**ADAPTIVE, interleaved_beta="between-2030")
    assert await beta(model) is None
    assert await beta(model, thinking=True) == "between-2030"
    assert await beta(model, thinking=False) is None
    assert await beta(model, thinking=True, interleaved_thinking=False) is None
    assert await beta(row(**BUDGET), thinking=True) is None
    assert await beta(row(**BUDGET), thinking=True, interleaved_thinking=True) is None
    unknown = AnthropicMessages("glm-9", provider="elsewhere", base_url="http://h")
    assert await beta(unknown, thinking=True) is None
    assert await beta(unknown, thinking=True, interleaved_thinking=True) == BETWEEN
    forced = row(**BUDGET, interleaved_beta="b")  # then there is no thinking
    assert await beta(forced, thinking=True, tool_choice="required") is None


@pytest.mark.parametrize("name", ["claude-opus-4-6", "claude-opus-4-7"])
async def test_one_switch_for_opus(name: str) -> None:
    assert await beta(AnthropicMessages(name, api_key="k"), thinking=True) == BETWEEN


async def test_features_are_named_once_and_beside_those_of_a_header() -> None:
    model = AnthropicMessages("claude-x", api_key="k", headers={"Anthropic-Beta": "a, b"})
    assert await beta(model, beta=("b", "c"), interleaved_thinking=True) == f"a,b,c,{BETWEEN}"
    assert await beta(model, beta=(BETWEEN,), interleaved_thinking=True) == f"a,b,{BETWEEN}"
    assert await beta(model) == "a, b"  # and the next request knows nothing of it


# --------------------------------------------------------------------------- schemas

POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer", "minimum": 0, "description": "across"},
        "when": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 9}, "minItems": 1},
        "kind": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/K"}]},
    },
    "required": ["x"],
    "$defs": {"K": {"type": "object", "properties": {"k": {"enum": [1, 2]}}}},
}


def test_a_schema_is_asked_for_in_the_providers_own_way() -> None:
    settings = {"schema": POINT, "thinking": {"mode": "effort", "effort": "low"}}
    config = body(row(**ADAPTIVE), settings=settings)["output_config"]
    assert config["effort"] == "low" and config["format"]["type"] == "json_schema"
    assert config["format"]["schema"] == {
        "type": "object",
        "properties": {
            "x": {"type": "integer", "description": "across (minimum: 0)"},
            "when": {"type": "string", "format": "date-time"},
            "tags": {
                "type": "array",
                "items": {"type": "string", "description": "(maxLength: 9)"},
                "minItems": 1,
            },
            "kind": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/K"}]},
        },
        "required": ["x"],
        "additionalProperties": False,
        "$defs": {
            "K": {
                "type": "object",
                "properties": {"k": {"enum": [1, 2]}},
                "additionalProperties": False,
            }
        },
    }
    own = {**settings, "extra": {"output_config": {"task": 1}}}
    assert body(row(**ADAPTIVE), settings=own)["output_config"] == {**config, "task": 1}


def test_an_object_of_any_keys_cannot_be_closed() -> None:
    loose = {
        "type": "object",
        "properties": {"sums": {"type": "object", "additionalProperties": {"type": "integer"}}},
    }
    with pytest.raises(
        ConfigError, match=r"the schema\.sums has keys that the schema does not name"
    ):
        body(CLAUDE, settings={"schema": loose})


def test_there_is_no_json_mode() -> None:
    with pytest.raises(ConfigError, match="anthropic has no JSON mode: give a schema"):
        body(CLAUDE, settings={"response_format": "json"})


def test_a_strict_tool_where_the_model_can_be_held_to_it() -> None:
    strict = msgspec.structs.replace(ADD, strict=True)
    (sent,) = body(row(strict_tools=True), tools=(strict,))["tools"]
    assert sent["strict"] is True and sent["input_schema"]["additionalProperties"] is False
    (sent,) = body(row(strict_tools=False), tools=(strict,))["tools"]
    assert "strict" not in sent and sent["input_schema"] == ADD.parameters
    loose = ToolSpec("any", "", {"type": "object", "additionalProperties": True}, strict=True)
    (sent,) = body(row(strict_tools=True), tools=(loose,))["tools"]
    assert "strict" not in sent and sent["input_schema"] == loose.parameters
    (sent,) = body(row(strict_tools=True), tools=(ADD,))["tools"]
    assert "strict" not in sent

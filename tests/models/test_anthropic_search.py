"""Anthropic's own search among tools: how it is asked for, what comes back, and who sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.errors import BadRequest, ConfigError
from windlass.messages import Message, Opaque, Origin, Text, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Response, Settings, silent
from windlass.models.history import audit
from windlass.models.tool_search import search_errors, searches
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.json_values import safe_name
from windlass.testing.providers import FakeAnthropic, Reply, conversation

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
NOW = ToolSpec("now", "The time.", {})
WEATHER = ToolSpec("weather.at", "The weather.", SCHEMA, defer_loading=True, namespace="w")
TOOLS = (NOW, WEATHER)
WIRE_NAME = safe_name(WEATHER.name)
HERE = Origin("anthropic", "claude-sonnet-4-5")


def encoded(model: AnthropicMessages, tools: tuple[ToolSpec, ...], **settings: Any) -> Any:
    frame = Frame(tools=tools, settings=Settings(cache=False, **settings))
    return json.loads(b"".join(model.encode(Request([Message("user", "q")], frame))))


MODEL = AnthropicMessages("claude-sonnet-4-5", api_key="k")


@pytest.mark.parametrize("variant", ["bm25", "regex"])
def test_the_search_comes_first_and_tools_are_kept_back(variant: str) -> None:
    kind = f"tool_search_tool_{variant}"
    search, now, weather = encoded(MODEL, TOOLS, tool_search=variant)["tools"]
    assert search == {"type": f"{kind}_20251119", "name": kind}
    assert "defer_loading" not in now and weather["defer_loading"] is True
    assert "namespace" not in weather
    plain = encoded(MODEL, TOOLS)["tools"]  # without a search nothing would find them
    assert len(plain) == 2 and not any("defer_loading" in tool for tool in plain)


@pytest.mark.parametrize("variant", ["hosted", "client", "semantic"])
def test_other_searches_are_other_providers(variant: str) -> None:
    with pytest.raises(ConfigError, match="'bm25' or 'regex', not"):
        encoded(MODEL, TOOLS, tool_search=variant)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_search_is_part_of_the_reply_and_goes_back_as_it_came(stream: bool) -> None:
    script = conversation(
        Reply("I look.", tool_calls=[(WIRE_NAME, {"city": "Ulm"}), ("now", {})]),
        Reply(tool_calls=[(WIRE_NAME, {"city": "Bonn"})]),
        "Fine.",
    )
    said: list[Any] = []
    frame = Frame(tools=TOOLS, settings=Settings(tool_search="bm25", stream=stream))
    async with FakeAnthropic(script, api_key="k") as server:
        model = AnthropicMessages("claude-sonnet-4-5", api_key="k", base_url=server.url)
        messages, replies = [Message("user", "q")], list[Response]()
        for _ in range(3):
            replies.append(await model.respond(Request(messages, frame), said.append))
            messages.append(replies[-1].message)
            if calls := replies[-1].message.tool_calls:
                results = tuple([ToolResult(call.id, "1", name=call.name) for call in calls])
                messages.append(Message("tool", results))
                assert not audit(messages)
    assert not server.refused, server.refused[0].message
    first, second, last = replies
    assert [call.name for call in first.message.tool_calls] == ["weather.at", "now"]
    assert (first.stop_reason, last.message.text) == ("tool_use", "Fine.")
    [(id, query, strategy, names)] = searches(first.message, [tool.name for tool in TOOLS])
    assert id.startswith("srvtoolu_") and strategy == "bm25" and names == ("weather.at",)
    assert query and searches(first.message)[0].tool_names == (WIRE_NAME,)
    assert not searches(second.message)  # it knows the tool by now
    _, turn, *_ = server.requests[1].json["messages"]
    assert [block["type"] for block in turn["content"]] == [
        "text",
        "server_tool_use",
        "tool_search_tool_result",
        "tool_use",
        "tool_use",
    ]
    assert turn["content"][1]["input"] == {"query": query}


def native(*blocks: dict[str, Any]) -> Message:
    return Message("assistant", (Text("a"), *(Opaque(HERE, block) for block in blocks)))


def use(id: str, name: str = "tool_search_tool_regex", **given: Any) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": id, "name": name, "input": given}


def found(id: str, *names: str) -> dict[str, Any]:
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    content = {"type": "tool_search_tool_search_result", "tool_references": references}
    return {"type": "tool_search_tool_result", "tool_use_id": id, "content": content}


def test_searches_in_their_order() -> None:
    message = native(
        use("1", pattern="get_.*"),
        use("2", query="time"),
        use("3", "web_search", query="x"),
        found("2"),
        found("1", "get_a", "get_b"),
    )
    assert searches(message) == [
        ("1", "get_.*", "regex", ("get_a", "get_b")),
        ("2", "time", "regex", ()),
    ]


def test_a_search_that_the_turns_pause_cut_in_two() -> None:
    assert searches(native(use("1", query="a"))) == [("1", "a", "regex", ())]
    assert searches(native(found("1", "b"))) == [("1", None, "hosted", ("b",))]


def test_a_search_that_failed_says_why() -> None:
    content = {"type": "tool_search_tool_result_error", "error_code": "too_many_requests"}
    failed = {"type": "tool_search_tool_result", "tool_use_id": "1", "content": content}
    message = native(use("1", query="a"), failed)
    assert searches(message) == [("1", "a", "regex", ())]
    assert search_errors(message) == {"1": "too_many_requests"}
    assert search_errors(native(found("1"))) == {}


@pytest.mark.parametrize(
    "block", [{}, {"type": "server_tool_use"}, {"type": "tool_search_tool_result", "content": 3}]
)
def test_blocks_that_are_none(block: dict[str, Any]) -> None:
    assert all(not search.tool_names for search in searches(native(block)))
    assert search_errors(native(block)) == {}


async def test_the_fake_refuses_what_anthropic_refuses() -> None:
    found_elsewhere = native(use("1", query="a"), found("1", "unknown"))
    broken = [
        (
            (WEATHER,),
            {"extra": {"tools": [{"name": "a", "input_schema": SCHEMA, "defer_loading": True}]}},
            (),
            "defer_loading=false",
        ),
        (
            TOOLS,
            {
                "extra": {
                    "tools": [
                        {"name": "a", "input_schema": SCHEMA},
                        {
                            "name": "b",
                            "input_schema": SCHEMA,
                            "defer_loading": True,
                            "cache_control": {"type": "ephemeral"},
                        },
                    ]
                }
            },
            (),
            "cannot have both",
        ),
        (
            TOOLS,
            {"tool_search": "bm25"},
            (found_elsewhere, Message("user", "go")),
            "Tool reference 'unknown' not found",
        ),
        (
            TOOLS,
            {"tool_search": "bm25"},
            (native(found("9")), Message("user", "go")),
            "no server_tool_use",
        ),
    ]
    async with FakeAnthropic("x") as server:
        model = AnthropicMessages("claude-sonnet-4-5", api_key="k", base_url=server.url)
        for tools, settings, more, words in broken:
            frame = Frame(tools=tools, settings=Settings(**settings))
            with pytest.raises(BadRequest, match=words):
                await model.respond(Request([Message("user", "q"), *more], frame), silent)

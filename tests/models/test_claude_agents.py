"""Claude models behind the public doors: what an agent's options become on the wire."""

from __future__ import annotations

from os.path import commonprefix
from typing import Any

import pytest

import windlass as w
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.testing.providers import (
    FakeAnthropic,
    FakeBedrock,
    Reply,
    conversation,
)

BETWEEN = "interleaved-thinking-2025-05-14"
BEDROCK = "us.anthropic.claude-opus-4-6-v1:0"


@w.tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return f"{a + b} " * 40


def turns(count: int) -> Any:
    calls = [Reply("So.", tool_calls=[("add", {"a": n, "b": n})]) for n in range(count)]
    return conversation(*calls, "done")


@pytest.mark.parametrize("name", ["claude-opus-4-6", "claude-opus-4-7"])
async def test_thinking_is_the_one_switch_for_opus(name: str) -> None:
    async with FakeAnthropic(turns(1), api_key="k") as server:
        model = AnthropicMessages(name, api_key="k", base_url=server.url)
        out = await w.agent_loop(
            "q", model=model, tools=[add], thinking=True, anthropic_beta_features=["context-1m"]
        )
    assert out.status == "done" and not server.refused
    for asked in server.requests:
        assert asked.json["thinking"] == {"type": "adaptive"}
        assert asked.headers["anthropic-beta"] == f"context-1m,{BETWEEN}"


async def test_the_same_switch_on_bedrock() -> None:
    async with FakeBedrock(turns(1), api_key="k") as server:
        model = BedrockConverse(BEDROCK, api_key="k", base_url=server.url)
        out = await w.agent_loop("q", model=model, tools=[add], thinking=True)
    assert out.status == "done" and not server.refused
    assert server.requests[0].json["additionalModelRequestFields"] == {
        "thinking": {"type": "adaptive"},
        "anthropic_beta": [BETWEEN],
    }


@pytest.mark.parametrize("wire", ["anthropic", "bedrock"])
async def test_a_long_run_is_cached_all_the_way(wire: str) -> None:
    made = FakeAnthropic if wire == "anthropic" else FakeBedrock
    async with made(turns(100), api_key="k") as server:
        model = (
            AnthropicMessages("claude-opus-4-6", api_key="k", base_url=server.url)
            if wire == "anthropic"
            else BedrockConverse(BEDROCK, api_key="k", base_url=server.url)
        )
        out = await w.agent_loop(
            "Add them all. " * 200, "You add. " * 200, model=model, tools=[add], max_iterations=101
        )
    assert out.status == "done" and not server.refused and len(server.requests) == 101
    bodies = [asked.body for asked in server.requests]
    for before, now in zip(bodies, bodies[1:], strict=False):
        assert len(commonprefix([before, now])) >= 0.99 * len(before)
    marks = b"cachePoint" if wire == "bedrock" else b"cache_control"
    assert all(2 <= body.count(marks) <= 4 for body in bodies)


async def test_caching_can_be_left_out() -> None:
    async with FakeAnthropic("x", api_key="k") as server:
        model = AnthropicMessages("claude-opus-4-6", api_key="k", base_url=server.url)
        await w.llm_call("q", "s", model=model, cache=False)
    assert b"cache_control" not in server.requests[0].body


@pytest.mark.parametrize("variant", ["bm25", "regex"])
async def test_a_search_of_the_providers_own_is_on_the_record(variant: str) -> None:
    @w.tool(defer_loading=True)
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"fine in {city}"

    script = conversation(Reply(tool_calls=[("weather", {"city": "Ulm"})]), "Fine.")
    async with FakeAnthropic(script, api_key="k") as server:
        model = AnthropicMessages("claude-sonnet-4-5", api_key="k", base_url=server.url)
        seen: list[Any] = []
        out = await w.agent_loop(
            "q",
            model=model,
            tools=[add, weather],
            await_resumption=False,
            tool_search=variant,
            on_event=seen.append,
        )
    assert (out.status, out.final_text) == ("done", "Fine.")
    assert not server.refused, server.refused[0].message
    first = server.requests[0].json["tools"]
    assert first[0]["name"] == f"tool_search_tool_{variant}"
    assert {tool["name"]: tool.get("defer_loading") for tool in first[1:]} == {
        "add": None,
        "weather": True,
    }
    [asked] = [e for e in seen if isinstance(e, w.events.ToolSearchQueried)]
    [found] = [e for e in seen if isinstance(e, w.events.ToolSearchResulted)]
    assert (asked.mode, asked.strategy, found.tool_names) == ("native", variant, ("weather",))
    assert asked.search_id == found.search_id


@pytest.mark.parametrize("wire", ["anthropic", "bedrock"])
async def test_a_turn_begun_without_a_thought_goes_on_without_one(wire: str) -> None:
    """As after a fallback to another model and back: with a budget the turn would be refused."""
    made = FakeAnthropic if wire == "anthropic" else FakeBedrock
    script = conversation(Reply(thinking="Hm.", tool_calls=[("add", {"a": 1, "b": 1})]), "2", "so")
    names = {"anthropic": ["claude-sonnet-4-5", "claude-sonnet-4-0"]}.get(
        wire, [f"anthropic.claude-{name}-v1:0" for name in ("sonnet-4-5", "sonnet-4-0")]
    )
    frame = w.Frame(tools=(add.spec,), settings=w.Settings(thinking=True))
    async with made(script, api_key="k") as server:
        kind: Any = AnthropicMessages if wire == "anthropic" else BedrockConverse
        first, other = (kind(name, api_key="k", base_url=server.url) for name in names)
        messages = [w.Message("user", "q")]
        reply = await first.respond(w.Request(messages, frame), lambda _event: None)
        [call] = reply.message.tool_calls
        messages += [reply.message, w.Message("tool", (w.ToolResult(call.id, "2"),))]
        await first.respond(w.Request(messages, frame), lambda _event: None)
        await other.respond(w.Request(messages, frame), lambda _event: None)
        messages += [w.Message("assistant", "2"), w.Message("user", "and?")]
        await other.respond(w.Request(messages, frame), lambda _event: None)
    assert not server.refused, server.refused[0].message
    bodies = [asked.json for asked in server.requests]
    thinking = [
        body.get("additionalModelRequestFields", body)["thinking"]["type"] for body in bodies
    ]
    assert thinking == ["enabled", "enabled", "disabled", "enabled"]

"""Tokens as the provider counts them, over Anthropic's wire and Bedrock's."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from windlass.errors import AuthFailed, BadReply, ConfigError, RateLimited
from windlass.messages import Message, Text, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.base import HttpModel
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.testing.providers import (
    Body,
    FakeAnthropic,
    FakeBedrock,
    FakeServer,
    Faults,
    Reply,
    Status,
)
from windlass.usage import Usage

ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})
REPLY = Reply("x", usage=Usage(321, 1))
MESSAGES = [
    Message("user", "q"),
    Message("assistant", (Text("t"), ToolCall("c", "add", {"a": 1}))),
    Message("tool", (ToolResult("c", "1", name="add"),)),
]
WIRES = ["anthropic", "bedrock"]


def server_of(wire: str, faults: Faults = None) -> FakeServer:
    made = FakeAnthropic if wire == "anthropic" else FakeBedrock
    return made(REPLY, faults=faults, api_key="k")


def model_of(wire: str, server: FakeServer, key: str | None = "k") -> HttpModel:
    if wire == "anthropic":
        return AnthropicMessages("claude-sonnet-4-5", api_key=key, base_url=server.url)
    name = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    return BedrockConverse(name, api_key=key, base_url=server.url)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("tail", [(), (Message("user", "now"),)])
async def test_the_provider_is_asked_with_what_it_would_be_sent(wire: str, tail: Any) -> None:
    settings = Settings(
        max_tokens=9999,
        temperature=0.5,
        top_k=3,
        stop=("x",),
        thinking={"budget_tokens": 1500},
        extra={"service_tier": "auto"} if wire == "anthropic" else {"serviceTier": {"type": "x"}},
    )
    frame = Frame("Be brief.", (ADD,), settings)
    async with server_of(wire) as server:
        model = model_of(wire, server)
        assert await model.count_tokens(Request(MESSAGES, frame, tail)) == 321
        assert await model.count_tokens(Request(MESSAGES[:1])) == 321
        await model.respond(Request(MESSAGES, frame, tail), lambda _event: None)
    assert not server.refused, server.refused[0].message
    counted, bare, asked = (one.json for one in server.requests)
    if wire == "bedrock":
        assert server.requests[0].path.endswith(
            "/model/anthropic.claude-sonnet-4-5-20250929-v1:0/count-tokens"
        )
        counted, bare = counted["input"]["converse"], bare["input"]["converse"]
    else:
        assert server.requests[0].path == "/v1/messages/count_tokens"
    for key, value in counted.items():  # the very same, without what has no part in it
        assert asked[key] == value
    assert {"messages", "system"} <= counted.keys() and "messages" in bare
    assert not {"max_tokens", "stream", "temperature", "inferenceConfig"} & counted.keys()


@pytest.mark.parametrize("wire", WIRES)
async def test_failures_are_the_same_as_of_a_question(wire: str) -> None:
    request = Request(MESSAGES[:1])
    async with server_of(wire, [Status(429, retry_after=7), Body("html"), None]) as server:
        with pytest.raises(RateLimited) as limited:
            await model_of(wire, server).count_tokens(request)
        assert limited.value.retry_after == 7 or wire == "bedrock"
        with pytest.raises(BadReply):
            await model_of(wire, server).count_tokens(request)
        with pytest.raises(AuthFailed):
            await model_of(wire, server, "wrong").count_tokens(request)
        assert await model_of(wire, server).count_tokens(request) == 321


async def test_no_key_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="needs an API key"):
        await AnthropicMessages("claude-sonnet-4-5").count_tokens(Request(MESSAGES))


async def test_who_cannot_count_says_none() -> None:
    request = Request(MESSAGES[:1])
    nova = BedrockConverse("amazon.nova-pro-v1:0", api_key="k", region="r")
    assert await nova.count_tokens(request) is None
    profile = "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-v1:0"
    assert await BedrockConverse(profile, api_key="k", region="r").count_tokens(request) is None
    elsewhere = AnthropicMessages("glm", provider="elsewhere", base_url="http://127.0.0.1:1")
    assert await elsewhere.count_tokens(request) is None
    words = "The provided model doesn't support counting tokens."
    async with FakeBedrock(REPLY, faults=Status(400, message=words)) as server:
        model = model_of("bedrock", server)
        assert await model.count_tokens(request) is None
        with pytest.raises(w.BadRequest):
            await model.respond(request, lambda _event: None)


async def test_the_vendors_clients_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    anthropic: Any = pytest.importorskip("anthropic")
    async with server_of("anthropic") as server:
        async with anthropic.AsyncAnthropic(api_key="k", base_url=server.url) as client:
            told = await client.messages.count_tokens(
                model="claude-sonnet-4-5",
                messages=[{"role": "user", "content": "q"}],
                cache_control={"type": "ephemeral"},
            )
        assert told.input_tokens == 321 and not server.refused

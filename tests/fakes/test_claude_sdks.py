"""The vendors' own clients on the fakes: search, pauses, schemas, cache marks, counting."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from typing import Any

import anthropic
import pytest

from windlass.testing.providers import (
    FakeAnthropic,
    FakeBedrock,
    Reply,
    conversation,
)
from windlass.usage import Usage

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
USER = {"role": "user", "content": "How is it?"}
MARK = {"type": "ephemeral"}


@pytest.fixture(params=["plain", "stream"])
def mode(request):
    return request.param


async def ask(server: Any, mode: str, messages: list[Any], **more: Any) -> Any:
    options = dict(model="claude-x", max_tokens=4096, messages=messages, **more)
    client: Any = anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0)
    async with client:
        if mode == "plain":
            return await client.messages.create(**options)
        async with client.messages.stream(**options) as stream:
            return await stream.get_final_message()


def back(message: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [block.to_dict() for block in message.content]}


async def test_anthropic_searches_among_deferred_tools(mode):
    tools = [
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
        {"name": "weather", "input_schema": SCHEMA, "defer_loading": True},
    ]
    script = conversation(Reply("I look.", tool_calls=[("weather", {"city": "Ulm"})]), "Fine.")
    async with FakeAnthropic(script, api_key="k") as server:
        first = await ask(server, mode, [USER], tools=tools)
        assert [block.type for block in first.content] == [
            "text",
            "server_tool_use",
            "tool_search_tool_result",
            "tool_use",
        ]
        assert first.content[2].content.tool_references[0].tool_name == "weather"
        result = {"type": "tool_result", "tool_use_id": first.content[3].id, "content": "1"}
        turns = [USER, back(first), {"role": "user", "content": [result]}]
        assert (await ask(server, mode, turns, tools=tools)).content[0].text == "Fine."
    assert not server.refused


async def test_anthropic_pauses_and_goes_on(mode):
    script = conversation(Reply("Looking.", stop_reason="pause_turn"), "Found.")
    tools = [{"type": "web_search_20250305", "name": "web_search"}]
    async with FakeAnthropic(script, api_key="k") as server:
        first = await ask(server, mode, [USER], tools=tools)
        assert first.stop_reason == "pause_turn"
        second = await ask(server, mode, [USER, back(first)], tools=tools)
    assert [block.type for block in second.content] == ["web_search_tool_result", "text"]
    assert not server.refused


async def test_anthropic_takes_marks_and_schemas_and_refuses_wrong_ones(mode):
    form = {"type": "json_schema", "schema": {**SCHEMA, "additionalProperties": False}}
    long = {**SCHEMA["properties"], "n": {"type": "integer", "minimum": 1}}
    refused = [
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"output_config": {"effort": "extreme"}},
        {"output_config": {"format": {"type": "json_schema", "schema": {"properties": long}}}},
        {"system": [{"type": "text", "text": "s", "cache_control": MARK}] * 5},
        {"tools": [{"name": "a", "input_schema": SCHEMA, "strict": True}]},
    ]
    async with FakeAnthropic("x", api_key="k") as server:
        marked = [{"type": "text", "text": "s", "cache_control": MARK}]
        config = {"effort": "low", "format": form}
        await ask(server, mode, [USER], system=marked, cache_control=MARK, output_config=config)
        assert not server.refused
        for more in refused:
            with pytest.raises(anthropic.BadRequestError):
                await ask(server, mode, [USER], **more)
    assert len(server.refused) == len(refused)


async def test_anthropic_forces_a_call_on_a_model_that_thinks_as_it_sees_fit(mode):
    tools = [{"name": "a", "input_schema": SCHEMA}]
    forced = {"tools": tools, "tool_choice": {"type": "any"}}
    budget = {"type": "enabled", "budget_tokens": 1024}
    async with FakeAnthropic(Reply(tool_calls=[("a", {})]), api_key="k") as server:
        await ask(server, mode, [USER], thinking={"type": "adaptive"}, **forced)
        with pytest.raises(anthropic.BadRequestError, match="tool_choice forces"):
            await ask(server, mode, [USER], thinking=budget, **forced)


async def test_bedrock_counts_caches_and_writes_by_a_schema(monkeypatch: pytest.MonkeyPatch):
    session = pytest.importorskip("botocore.session")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    point = {"cachePoint": {"type": "default"}}
    request: dict[str, Any] = {
        "messages": [{"role": "user", "content": [{"text": "q"}, point]}],
        "system": [{"text": "s"}, point],
        "toolConfig": {
            "tools": [
                {"toolSpec": {"name": "a", "inputSchema": {"json": SCHEMA}, "strict": True}},
                point,
            ]
        },
        "additionalModelRequestFields": {"anthropic_beta": ["b"]},
    }
    told = {"jsonSchema": {"schema": json.dumps(SCHEMA), "name": "answer"}}
    output = {"textFormat": {"type": "json_schema", "structure": told}, "effort": "low"}
    usage = Usage(50, 2, cache_read_tokens=30, cache_write_tokens=10)

    def exchange(url: str) -> Any:
        client = session.get_session().create_client(
            "bedrock-runtime", region_name="us-east-1", endpoint_url=url
        )
        with closing(client):
            counted = client.count_tokens(modelId="m", input={"converse": request})
            whole = client.converse(modelId="m", **request, outputConfig=output)
        return counted, whole

    async with FakeBedrock(Reply("x", usage=usage), api_key="k") as server:
        counted, whole = await asyncio.to_thread(exchange, server.url)
    assert not server.refused, server.refused[0].message
    assert counted["inputTokens"] == 50
    assert (whole["usage"]["cacheReadInputTokens"], whole["usage"]["inputTokens"]) == (30, 10)

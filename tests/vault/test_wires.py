"""The vault over the wires: providers that search by themselves, that ask us, and that do neither."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

import windlass as w
from tests.vault.tools import tools
from windlass.engine import environment as runtimes
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses
from windlass.runtime.runtime import Runtime
from windlass.testing.providers import (
    FakeAnthropic,
    FakeOpenAI,
    FakeResponses,
    Reply,
    conversation,
)
from windlass.tools.search.options import SEARCH_NAME

LOADED = ("read_file", "apply_patch")
REFUND = ("stripe_create_refund", {"charge": "ch_1", "amount": 5, "reason": "duplicate"})
QUESTION = "The customer wants his money back."


@pytest.fixture(autouse=True)
def own_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fresh = Runtime(store="memory:", environ={})
    monkeypatch.setattr(runtimes, "_default", fresh)
    yield
    asyncio.run(fresh.aclose())


def events(out: Any) -> list[tuple[str, str, Any]]:
    found = [e for e in out.transcript["events"] if e["kind"].startswith("tool_search")]
    return [(e["kind"], e["metadata"]["mode"], e.get("tool_names", e.get("query"))) for e in found]


def outcomes(out: w.LoopResult) -> list[tuple[str, str]]:
    return [(record.name, record.outcome) for record in out.tool_calls]


@pytest.mark.parametrize("stream", [True, False])
async def test_claude_searches_by_itself(stream: bool) -> None:
    script = conversation(Reply(tool_calls=[REFUND]), "Done.")
    async with FakeAnthropic(script, api_key="k") as server:
        model = AnthropicMessages("claude-opus-4-7", api_key="k", base_url=server.url)
        out = await w.agent_loop(
            QUESTION, model=model, tools=tools(loaded=LOADED), tool_search=True, stream=stream
        )
    assert not server.refused, server.refused[0].message
    assert out.status == "done" and outcomes(out) == [("stripe_create_refund", "ok")]
    sent = server.requests[0].json["tools"]
    assert sent[0]["type"].startswith("tool_search_tool_bm25")
    assert sum(bool(tool.get("defer_loading")) for tool in sent) == 38
    (query, mode, _), (result, _, names) = events(out)
    assert (query, mode, result) == ("tool_search_query", "native", "tool_search_result")
    assert names == ["stripe_create_refund"]


async def test_claude_in_a_single_call() -> None:
    async with FakeAnthropic(conversation(Reply(tool_calls=[REFUND])), api_key="k") as server:
        model = AnthropicMessages("claude-opus-4-7", api_key="k", base_url=server.url)
        reply = await w.llm_call(
            QUESTION, model=model, tools=tools(loaded=LOADED), tool_search="regex"
        )
    assert len(server.requests) == 1 and not server.refused
    assert server.requests[0].json["tools"][0]["type"].startswith("tool_search_tool_regex")
    assert [call.name for call in reply.tool_calls] == ["stripe_create_refund"]
    assert [kind for kind, _, _ in events(reply)] == ["tool_search_query", "tool_search_result"]


async def test_an_old_claude_is_served_by_us() -> None:
    script = conversation(
        Reply(tool_calls=[(SEARCH_NAME, {"query": "refund a charge"})]),
        Reply(tool_calls=[REFUND]),
        "Done.",
    )
    async with FakeAnthropic(script, api_key="k") as server:
        model = AnthropicMessages("claude-3-5-haiku-latest", api_key="k", base_url=server.url)
        out = await w.agent_loop(
            QUESTION,
            model=model,
            tools=tools(loaded=LOADED),
            await_resumption=False,
            tool_search=True,
        )
    assert not server.refused, server.refused[0].message
    assert outcomes(out) == [(SEARCH_NAME, "ok"), ("stripe_create_refund", "ok")]
    sent = [[tool["name"] for tool in asked.json["tools"]] for asked in server.requests]
    assert sent == [
        [*LOADED, SEARCH_NAME],
        [*LOADED, SEARCH_NAME, "stripe_create_refund"],
        [*LOADED, SEARCH_NAME, "stripe_create_refund"],
    ]
    assert "defer_loading" not in json.dumps(server.requests[1].json)
    assert [mode for _, mode, _ in events(out)] == ["client", "client"]


@pytest.mark.parametrize("make", [OpenAIChat, OpenAIResponses])
async def test_gpt_searches_by_itself_over_responses(make: Any) -> None:
    script = conversation(Reply(tool_calls=[REFUND]), "Done.")
    async with FakeResponses(script, api_key="k") as server:
        model = make("gpt-5.4", api_key="k", base_url=server.url)
        out = await w.agent_loop(
            QUESTION, model=model, tools=tools(loaded=LOADED), tool_search=True
        )
    assert not server.refused, server.refused[0].message
    assert out.status == "done" and outcomes(out) == [("stripe_create_refund", "ok")]
    assert {asked.path for asked in server.requests} == {"/v1/responses"}
    first = server.requests[0].json["tools"]
    assert first[0] == {"type": "tool_search", "execution": "server"}
    assert events(out)[1] == ("tool_search_result", "native", ["stripe_create_refund"])


@pytest.mark.parametrize("stream", [True, False])
async def test_gpt_may_ask_us_in_its_own_words(stream: bool) -> None:
    script = conversation(
        Reply(tool_calls=[("tool_search", {"query": "refund a charge"})]),
        Reply(tool_calls=[REFUND]),
        "Done.",
    )
    async with FakeResponses(script, api_key="k") as server:
        model = OpenAIResponses("m-1", api_key="k", base_url=server.url)
        model.caps = Capabilities(known=True, defer_loading=True, tool_search=("client",))
        out = await w.agent_loop(
            QUESTION,
            model=model,
            tools=tools(loaded=LOADED),
            await_resumption=False,
            tool_search=True,
            stream=stream,
        )
    assert not server.refused, server.refused[0].message
    assert out.status == "done"
    assert outcomes(out) == [(SEARCH_NAME, "ok"), ("stripe_create_refund", "ok")]
    meta, *others = server.requests[0].json["tools"]
    assert (meta["type"], meta["execution"]) == ("tool_search", "client")
    assert [tool["name"] for tool in others] == list(LOADED)
    answer = server.requests[1].json["input"][-1]
    assert answer["type"] == "tool_search_output"
    assert [tool["name"] for tool in answer["tools"]] == ["stripe_create_refund"]
    assert server.requests[2].json["tools"] == server.requests[0].json["tools"]
    assert events(out)[1] == ("tool_search_result", "native", ["stripe_create_refund"])


async def test_a_model_without_a_search_over_chat() -> None:
    script = conversation(
        Reply(tool_calls=[(SEARCH_NAME, {"query": "refund a charge"})]),
        Reply(tool_calls=[REFUND]),
        "Done.",
    )
    async with FakeOpenAI(script, api_key="k") as server:
        model = OpenAIChat("gpt-4o", api_key="k", base_url=server.url)
        out = await w.agent_loop(
            QUESTION,
            model=model,
            tools=tools(loaded=LOADED),
            await_resumption=False,
            tool_search=True,
        )
    assert not server.refused, server.refused[0].message
    assert outcomes(out) == [(SEARCH_NAME, "ok"), ("stripe_create_refund", "ok")]
    assert len(server.requests[0].json["tools"]) == 3


async def test_a_proxy_that_is_believed_gets_the_search() -> None:
    model = OpenAIChat("my-custom/gpt-forward", provider="openrouter", api_key="k")
    sent: list[Any] = []

    async def respond(request: w.Request, emit: Any) -> w.Response:
        sent.append(json.loads(b"".join(model.encode(request))))
        return w.Response(w.Message("assistant", "ok"))

    model.respond = respond  # type: ignore[method-assign]
    await w.llm_call(
        QUESTION,
        model=model,
        tools=tools(loaded=LOADED),
        tool_search={"mode": "native"},
        openrouter={"force_native_tool_search": True},
    )
    search, *others = sent[0]["tools"]
    assert search["type"] == "tool_search" and len(others) == 40
    assert "force_native_tool_search" not in json.dumps(sent[0])

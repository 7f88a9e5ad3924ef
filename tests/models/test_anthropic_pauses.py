"""A turn that pauses for a tool of the provider's own goes on by itself."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from windlass.messages import Message
from windlass.models.base import Request, Response, silent
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wrappers.pauses import PauseContinuation
from windlass.testing.providers import FakeAnthropic, Reply, conversation
from windlass.usage import Usage

PAUSE = Reply("Looking.", stop_reason="pause_turn", usage=Usage(10, 1))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_paused_turn_goes_on(stream: bool) -> None:
    script = conversation(PAUSE, PAUSE, Reply("Found.", usage=Usage(30, 3)))
    async with FakeAnthropic(script, api_key="k") as server:
        model = AnthropicMessages("claude-sonnet-4-5", api_key="k", base_url=server.url)
        out = await w.agent_loop("q", model=model, stream=stream)
    assert (out.status, out.final_text) == ("done", "Found.")
    assert not server.refused, server.refused[0].message
    assert (out.usage.input_tokens, out.usage.output_tokens) == (50, 5)
    asked, first, second = server.requests[2].json["messages"]
    assert (asked["role"], first["role"], second["role"]) == ("user", "assistant", "assistant")
    assert first["content"][-1]["type"] == "server_tool_use"
    [result, *_] = second["content"]  # nobody spoke in between
    assert result["type"] == "web_search_tool_result"
    assert result["tool_use_id"] == first["content"][-1]["id"]


async def test_a_turn_that_never_ends_is_ended() -> None:
    async with FakeAnthropic(PAUSE) as server:
        model = AnthropicMessages("claude-sonnet-4-5", api_key="k", base_url=server.url)
        out = await w.agent_loop("q", model=model, max_iterations=4)
    assert (out.status, len(server.requests)) == ("budget_exhausted", 4)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_single_call_goes_on_too(stream: bool) -> None:
    script = conversation(PAUSE, Reply("Found.", usage=Usage(30, 3)))
    async with FakeAnthropic(script, api_key="k") as server:
        model = AnthropicMessages("claude-sonnet-4-5", api_key="k", base_url=server.url)
        out = await w.llm_call("q", model=model, stream=stream)
        said = [chunk.text async for chunk in w.llm_stream("q", model=model, stream=stream)]
    assert (out.text, out.stop_reason) == ("Looking.Found.", "end_turn")
    assert (out.usage.input_tokens, out.usage.output_tokens) == (40, 4)
    assert "".join(said) == "Looking.Found." and len(server.requests) == 4
    assert not server.refused, server.refused[0].message
    [_, turn] = server.requests[1].json["messages"]
    assert [block["type"] for block in turn["content"]] == ["text", "server_tool_use"]


async def test_a_single_call_that_never_ends_is_given_as_it_is() -> None:
    def script(body: Any, _headers: Any) -> Reply:
        assert len(body["messages"]) <= 2  # what was said so far is one turn
        return PAUSE

    async with FakeAnthropic(script) as server:
        model = AnthropicMessages("claude-sonnet-4-5", api_key="k", base_url=server.url)
        out = await w.llm_call("q", model=model)
    assert (out.stop_reason, len(server.requests)) == ("pause_turn", 9)
    assert not server.refused and out.usage.output_tokens == 9


async def test_a_pause_in_words_alone_is_a_reply() -> None:
    reply = Response(Message("assistant", "hm"), stop_reason="pause_turn")
    asked: list[Request] = []

    class Pausing(w.Model):
        provider, name = "fake", "fake"

        async def respond(self, request: Request, emit: Any) -> Response:
            asked.append(request)
            return reply

    whole = PauseContinuation(Pausing())
    assert await whole.respond(Request([Message("user", "q")]), silent) is reply
    assert len(asked) == 1

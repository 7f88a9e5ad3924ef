"""A turn that pauses for a tool of the provider's own goes on by itself."""

from __future__ import annotations

import pytest

import windlass as w
from windlass.models.wires.anthropic import AnthropicMessages
from windlass.testing.fakes import FakeAnthropic, Reply, conversation
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

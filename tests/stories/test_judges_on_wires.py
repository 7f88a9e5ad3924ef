"""Judges over every wire: each is asked in its provider's best way, and its fake refuses the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, kept
from tests.stories.judge_helpers import asides, of
from tests.stories.wire_fakes import servers
from windlass.events import JudgeDecision, StepJudgeDecision
from windlass.testing.providers import Reply

WIRES = list(servers(None))


pytestmark = pytest.mark.usefixtures("reachable")


def script(body: dict[str, Any], _headers: Any) -> Reply:
    """A worker that adds and then answers; judges that let it."""
    asked = json.dumps(body)
    if "The conversation:" in asked:
        step = "before any of its tool calls run" in asked
        answer = {"verdict": "pass" if step else "done", "reasoning": "fine"}
        answer |= {"critique": "", "confidence": 1} if step else {"next_step": ""}
        forced = "give_verdict" in asked
        return Reply(tool_calls=[("give_verdict", answer)]) if forced else Reply(json.dumps(answer))
    if "42" in asked:
        return Reply("It is 42.")
    return Reply(tool_calls=[("add", {"a": 19, "b": 23})])


@pytest.mark.parametrize("wire", WIRES)
async def test_judges_are_asked_and_understood(wire: str):
    server, made = servers(script)[wire]
    async with server:
        model = made(server.url)
        out = await w.agent_loop(
            "19 + 23?",
            model=model,
            tools=[add],
            step_judge={},
            verify_completion_judge=True,
            done_judge={"model": made(server.url)},
        )
        await model.aclose()
    assert (out.status, out.final_text) == ("done", "It is 42."), out.error
    assert [d.verdict for d in of(out, StepJudgeDecision)] == ["pass", "pass"]
    assert [d.verdict for d in of(out, JudgeDecision)] == ["done", "done"]
    assert all(reply.usage.total_tokens for reply in asides(out, "done_judge"))
    await kept(out)


@pytest.mark.parametrize("wire", WIRES)
async def test_calls_written_as_text_are_read_over_every_wire(wire: str):
    def drifting(body: dict[str, Any], _headers: Any) -> Reply:
        if "42" in json.dumps(body):
            return Reply("It is 42.")
        asked = {"name": "add", "arguments": {"a": 19, "b": 23}}
        return Reply(f"<tool_call>{json.dumps(asked)}</tool_call>")

    server, made = servers(drifting)[wire]
    async with server:
        model = made(server.url)
        out = await w.agent_loop("19 + 23?", model=model, tools=[add])
        await model.aclose()
    assert (out.status, out.final_text) == ("done", "It is 42."), out.error
    assert out.trace["native_text_tool_fallbacks"] == 1
    await kept(out)


@pytest.mark.parametrize("wire", WIRES)
async def test_an_empty_reply_is_asked_for_again_over_every_wire(wire: str):
    replies = iter([Reply(""), Reply("Here I am.")])
    server, made = servers(lambda body, headers: next(replies))[wire]
    async with server:
        model = made(server.url)
        out = await w.agent_loop("Hello?", model=model, tools=[add])
        await model.aclose()
    assert (out.status, out.final_text) == ("done", "Here I am."), out.error
    assert out.trace["empty_completion_retries"] == 1
    await kept(out)

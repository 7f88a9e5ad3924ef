"""Executions over the wires of four providers, whose fakes refuse what the providers would."""

from __future__ import annotations

import json
from typing import Any

import pytest

import windlass as w
from tests.stories.attempts.invoices import ANN, define, reflecting
from tests.stories.wire_fakes import servers
from windlass.testing.providers import Reply
from windlass.testing.providers.reply import turns

WIRES = ["anthropic", "openai", "responses", "gemini"]
GOOD = ("give_invoice", {"customer": "Ann", "total": 12.5})
FREE = ("give_invoice", {"customer": "Ann", "total": 0})
LOOK = ("look_up", {"name": "Ann"})
LOOK_TWICE = ("look_up", {"name": "Bob"})
UNKNOWN = ("no_such_tool", {"x": 1})
SUBMIT = ("submit", {})

PLAIN = [[LOOK], [LOOK, UNKNOWN, LOOK_TWICE], [LOOK, FREE, LOOK_TWICE], [GOOD]]
REFLECTED = [[FREE], [FREE, SUBMIT], [LOOK], [GOOD], [SUBMIT]]


def replies(script: list[Any]) -> Any:
    def answer(body: dict[str, Any], _headers: Any) -> Reply:
        return Reply(tool_calls=script[turns(body)])

    return answer


@pytest.mark.parametrize("make", [define, reflecting])
@pytest.mark.parametrize("wire", WIRES)
async def test_execution_over_a_wire(wire: str, make: Any, reachable: None):
    script = PLAIN if make is define else REFLECTED
    server, build = servers(replies(script))[wire]
    told: list[tuple[str, str]] = []
    async with server:
        model = build(server.url)
        outcome = await w.execute_agent(
            make(model),
            "Ann, 12.50",
            on_tool_result=lambda _, name, text: told.append((name, text)),
        )
        await model.aclose()
    assert isinstance(outcome, w.Success), outcome
    assert outcome.output == ANN
    first, second = outcome.metadata.attempts
    assert (first.errors, second.errors) == (("total must be positive",), ())
    assert outcome.metadata.tokens is not None and outcome.metadata.tokens.input_tokens > 0
    last = json.dumps(server.requests[-1].json)
    assert "total must be positive" in last
    if make is define:
        assert "Error: Unknown tool no_such_tool" in last
    else:
        assert ("give_invoice", "Ann owes 12.50") in told


@pytest.mark.parametrize("wire", WIRES)
async def test_reply_without_a_call_over_a_wire(wire: str, reachable: None):
    server, build = servers(lambda body, headers: Reply("Ann owes 12.50."))[wire]
    async with server:
        model = build(server.url)
        outcome = await w.execute_agent(define(model), "Ann, 12.50")
        await model.aclose()
    assert isinstance(outcome, w.Failure)
    assert outcome.code is w.AgentErrorCode.INVALID_RESPONSE

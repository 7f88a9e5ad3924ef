"""Every kind of fault, on every wire, streamed and plain, against a model alone."""

from __future__ import annotations

import asyncio

import pytest

from windlass import seams
from windlass.errors import ModelError
from windlass.messages import Message, ToolSpec
from windlass.models.base import Frame, Request, Settings
from windlass.testing.providers import FAULTS

from .table import BARE, CASES, CUT, EXPECTED, RETRY_AFTER, expected, hangs, is_error
from .wires import CALLS, TEXT, WIRES, fake_of, model_of, possible

AT_MOST = 20.0  # seconds; nothing here takes one


def ask(stream: bool) -> Request:
    tools = tuple(
        ToolSpec(name, "d", {"type": "object", "properties": {}}) for name in ("lookup", "now")
    )
    frame = Frame("Be brief.", tools, Settings(max_tokens=500, stream=stream))
    return Request([Message("user", "Where is my order?")], frame)


async def respond(model, stream):
    """The reply or the error, and what was emitted meanwhile; bounded, whatever happens."""
    seen = []
    async with asyncio.timeout(AT_MOST):
        try:
            return await model.respond(ask(stream), seen.append), seen
        except ModelError as error:
            return error, seen


def test_the_table_has_every_kind():
    assert set(EXPECTED) == set(FAULTS)


@pytest.mark.parametrize(("name", "wire", "stream"), CASES)
async def test_a_fault_is_a_right_answer_or_its_own_error(name, wire, stream):
    outcome = expected(name, wire, stream)
    async with fake_of(wire, faults=FAULTS[name]) as server:
        model = model_of(wire, server, hurried=hangs(name), stream=stream)
        reply, _ = await respond(model, stream)
    assert not server.refused
    if is_error(outcome):
        assert type(reply) is outcome, repr(reply)
        assert (reply.provider, reply.model) == (model.provider, model.name)
        if hangs(name):
            assert ("was silent for" if stream else "was not finished after") in str(reply)
    else:
        assert not isinstance(reply, ModelError), repr(reply)
        check(reply, outcome)
        if name == "no_usage":
            assert reply.usage.estimated
        assert reply.usage.output_tokens > 0
    # only a connection that closed without a byte may be used again by itself
    assert len(server.requests) == (2 if name == "drop" else 1)


def check(reply, outcome):
    calls = reply.message.tool_calls
    assert reply.message.text == TEXT
    assert all(call.id for call in calls)
    if outcome == CUT:
        *whole, last = calls
        assert [(call.name, call.arguments) for call in whole] == CALLS[:-1]
        # what is left of the arguments is kept as text, so nobody takes it for a whole call
        assert last.raw is not None
        assert reply.stop_reason == "max_tokens"
        return
    wanted = [(name, {}) for name, _ in CALLS] if outcome == BARE else CALLS
    assert [(call.name, call.arguments) for call in calls] == wanted
    assert reply.stop_reason == "tool_use"


def told(reply):
    """The reply without the ids of its calls, which are made up where a server gives none."""
    calls = [(call.name, call.arguments) for call in reply.message.tool_calls]
    return reply.message.text, calls, reply.usage, reply.stop_reason


@pytest.mark.parametrize("name", RETRY_AFTER)
@pytest.mark.parametrize("wire", WIRES)
async def test_each_dialect_says_when_to_come_back(name, wire, monkeypatch):
    if not possible(name, wire, stream=True):
        return
    monkeypatch.setattr(seams, "now", lambda: 1_790_000_000.0)
    async with fake_of(wire, faults=FAULTS[name]) as server:
        error, _ = await respond(model_of(wire, server), True)
    assert error.retry_after == pytest.approx(RETRY_AFTER[name])


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_connection_that_closes_without_a_byte_is_tried_once_more(wire, stream):
    faults = [None, FAULTS["drop"], None, FAULTS["drop_after_reply"], None]
    async with fake_of(wire, faults=faults) as server:
        model = model_of(wire, server)
        replies = [await respond(model, stream) for _ in range(4)]
    assert [type(reply).__name__ for reply, _ in replies] == ["Response"] * 4
    assert all(told(reply) == told(replies[0][0]) for reply, _ in replies)
    assert server.requests[0].connection == server.requests[1].connection


@pytest.mark.parametrize("wire", WIRES)
async def test_a_broken_stream_hands_out_no_half_built_call(wire):
    for name in ("truncated", "no_end", "error_after_200", "cut_json"):
        async with fake_of(wire, faults=FAULTS[name]) as server:
            error, seen = await respond(model_of(wire, server), True)
        assert isinstance(error, ModelError)
        ready = [event.call for event in seen if type(event).__name__ == "ToolCallReady"]
        assert all((call.name, call.arguments) in CALLS for call in ready), name

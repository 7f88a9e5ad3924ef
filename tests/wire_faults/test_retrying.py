"""Trying again: only what can get better, as late as the provider says, and to the same answer."""

from __future__ import annotations

import asyncio

import pytest

from windlass import seams
from windlass.errors import ModelError
from windlass.events import StreamRestarted, TextDelta
from windlass.messages import Message
from windlass.models.base import Frame, Request, Settings
from windlass.models.wrappers.retry import Retrying
from windlass.testing.providers import FAULTS

from .table import CASES, RETRY_AFTER, expected, hangs, is_error, is_final
from .wires import CALLS, TEXT, WIRES, Moody, fake_of, model_of

ERRORS = [case for case in CASES if is_error(expected(*case))]


@pytest.fixture
def waits(monkeypatch):
    """How long was slept, without sleeping."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(seams, "sleep", sleep)
    monkeypatch.setattr(seams, "now", lambda: 1_790_000_000.0)
    return slept


async def respond(model, stream):
    seen = []
    request = Request(
        [Message("user", "hi")], Frame(settings=Settings(max_tokens=50, stream=stream))
    )
    async with asyncio.timeout(20):
        return await model.respond(request, seen.append), seen


@pytest.mark.parametrize(("name", "wire", "stream"), ERRORS)
async def test_one_failure_is_mended_if_it_can_be(name, wire, stream, waits):
    error = expected(name, wire, stream)
    # the transport by itself tries a connection that closed without a byte once more
    sent = 2 if name == "drop" else 1
    async with fake_of(wire, faults=[FAULTS[name]] * sent) as server:
        model = Moody(wire, server, stream, lambda _: hangs(name) and not server.requests)
        if is_final(error):
            with pytest.raises(ModelError) as caught:
                await respond(Retrying(model), stream)
            assert (type(caught.value), len(server.requests), waits) == (error, sent, [])
            return
        reply, seen = await respond(Retrying(model), stream)
    assert reply.message.text == TEXT
    assert [(call.name, call.arguments) for call in reply.message.tool_calls] == CALLS
    assert len(server.requests) == sent + 1
    [wait] = waits
    if name in RETRY_AFTER:
        assert wait == pytest.approx(RETRY_AFTER[name])
    else:
        assert 1.0 <= wait <= 2.0
    assert server.requests[0].body == server.requests[-1].body
    assert told_since_restart(seen) == TEXT


def told_since_restart(seen) -> str:
    """What a listener has on the screen that clears it when the stream starts again."""
    told = ""
    for event in seen:
        if isinstance(event, TextDelta):
            told += event.text
        elif isinstance(event, StreamRestarted):
            told = ""
    return told


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", ["500", "529", "truncated", "cut_json", "stall_mid_body"])
async def test_what_stays_broken_is_given_up(name, wire, waits):
    async with fake_of(wire, faults=FAULTS[name]) as server:
        model = model_of(wire, server, hurried=hangs(name))
        with pytest.raises(expected(name, wire, True)):
            await respond(Retrying(model, attempts=4), True)
    assert len(server.requests) == 4
    assert len(waits) == 3
    assert waits[0] <= waits[2]

"""What a provider does not count is estimated, on every wire; what has come of a cut reply is booked."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import windlass as w
from windlass import seams
from windlass.models import estimates
from windlass.models.base import Frame, Request, Settings
from windlass.testing.providers import (
    Hangup,
    Reply,
    Silence,
    Twist,
)

from .wires import WIRES, fake_of, model_of, possible

PROMPT = "Please say how the weather in Zürich is today, and say it at some length. " * 8
WORDS = "It rains in Zürich, and it will rain tomorrow, as it did the day before. " * 12
CUT = [(wire, fault) for wire in WIRES for fault in (Hangup("mid_body"), Silence("mid_body"))]
MISSING = [
    (wire, stream)
    for wire in WIRES
    for stream in (True, False)
    if possible("no_usage", wire, stream=stream)
]


@pytest.fixture(autouse=True)
def afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "_uncounted", set[Any]())
    monkeypatch.setattr(seams, "sleep", lambda _seconds: asyncio.sleep(0))


def asked(stream: bool) -> Request:
    return Request((w.Message("user", PROMPT),), Frame(settings=Settings(stream=stream)))


@pytest.mark.parametrize(("wire", "stream"), MISSING)
async def test_missing_usage_is_estimated_and_said_once(wire: str, stream: bool, caplog: Any):
    async with fake_of(wire, Reply(WORDS), faults=Twist("no_usage")) as server:
        model = model_of(wire, server)
        with caplog.at_level(logging.WARNING, "windlass"):
            replies = [await model.respond(asked(stream), lambda _: None) for _ in range(3)]
    for reply in replies:
        usage = reply.usage
        assert usage.estimated
        assert len(PROMPT) / 8 < usage.input_tokens < len(PROMPT)
        assert len(WORDS) / 8 < usage.output_tokens < len(WORDS)
    said = [one for one in caplog.records if "does not count its tokens" in one.getMessage()]
    assert len(said) == 1


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("counted", "estimated"),
    [
        (w.Usage(150, 200), False),
        (w.Usage(0, 200), True),
        (w.Usage(150, 0), True),
        (w.Usage(0, 0), True),
        (w.Usage(1, 1), True),
        (w.Usage(2**40, 200), False),
    ],
)
async def test_a_usage_that_cannot_be_true_is_none(
    wire: str, stream: bool, counted: w.Usage, estimated: bool
):
    async with fake_of(wire, Reply(WORDS, usage=counted)) as server:
        reply = await model_of(wire, server).respond(asked(stream), lambda _: None)
    usage = reply.usage
    assert usage.estimated is estimated
    assert usage.input_tokens >= len(PROMPT) / 8
    assert usage.output_tokens >= len(WORDS) / 8
    if not estimated:
        assert (usage.input_tokens, usage.output_tokens) == (
            counted.input_tokens,
            counted.output_tokens,
        )


@pytest.mark.parametrize(("wire", "fault"), CUT)
async def test_what_came_of_a_cut_reply_is_booked_for_each_try(wire: str, fault: Any):
    async with w.Runtime(store="memory:", environ={}) as runtime:
        async with fake_of(wire, Reply(WORDS), faults=fault) as server:
            model = model_of(wire, server, hurried=isinstance(fault, Silence))
            with pytest.raises(w.ModelError):
                await w.llm_call(PROMPT, model=model, llm_caller=w.with_retry(max_attempts=2))
            tries = len(server.requests)
        rows = await runtime.store.calls()
    assert tries == len(rows) == 2
    for row in rows:
        assert row.outcome != "ok" and row.estimated
        assert row.input_tokens >= len(PROMPT) / 8
        assert 0 < row.output_tokens < len(WORDS)
    spent = sum(row.input_tokens + row.output_tokens for row in rows)
    assert runtime.ledger.tokens == spent


@pytest.mark.parametrize("wire", WIRES)
async def test_a_reader_who_leaves_pays_for_what_was_received(wire: str):
    async with w.Runtime(store="memory:", environ={}) as runtime:
        async with fake_of(wire, Reply(WORDS), faults=Silence("mid_body")) as server:
            stream = w.llm_stream(PROMPT, model=model_of(wire, server))
            first = await anext(stream)
            await stream.aclose()
        rows = await runtime.store.calls()
    assert first.text
    assert [row.outcome for row in rows] == ["cancelled"]
    assert rows[0].input_tokens >= len(PROMPT) / 8 and rows[0].output_tokens > 0
    assert runtime.ledger.tokens == rows[0].input_tokens + rows[0].output_tokens


@pytest.mark.parametrize("wire", WIRES)
async def test_a_run_that_is_cancelled_pays_for_what_was_received(wire: str):
    async with w.Runtime(store="memory:", environ={}) as runtime:
        async with fake_of(wire, Reply(WORDS), faults=Silence("mid_body")) as server:
            agent = w.Agent(model_of(wire, server), max_turns=2)
            async with agent.stream(PROMPT) as run:
                async for event in run:
                    if isinstance(event, w.TextDelta):
                        break
        rows = await runtime.store.calls()
    assert [row.outcome for row in rows] == ["cancelled"]
    assert rows[0].input_tokens >= len(PROMPT) / 8 and rows[0].output_tokens > 0
    assert runtime.ledger.tokens == rows[0].input_tokens + rows[0].output_tokens


async def test_input_that_anthropic_counts_at_the_start_is_kept():
    usage = w.Usage(321, 400)
    fault = Hangup("mid_body")
    async with w.Runtime(store="memory:", environ={}) as runtime:
        async with fake_of("anthropic", Reply(WORDS, usage=usage), faults=fault) as server:
            with pytest.raises(w.ModelError):
                await w.llm_call(
                    PROMPT,
                    model=model_of("anthropic", server),
                    llm_caller=w.with_retry(max_attempts=1),
                )
        rows = await runtime.store.calls()
    assert [row.input_tokens for row in rows] == [321]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_request_that_is_refused_costs_nothing(wire: str):
    from windlass.testing.providers import FAULTS

    async with w.Runtime(store="memory:", environ={}) as runtime:
        async with fake_of(wire, Reply(WORDS), faults=FAULTS["500"]) as server:
            with pytest.raises(w.ModelError):
                await w.llm_call(
                    PROMPT, model=model_of(wire, server), llm_caller=w.with_retry(max_attempts=2)
                )
        rows = await runtime.store.calls()
    assert [(row.input_tokens, row.attempts) for row in rows] == [(0, 2)]
    assert runtime.ledger.tokens == 0


@pytest.mark.parametrize("wire", WIRES)
async def test_forty_calls_without_usage_do_not_pass_a_token_limit(wire: str):
    async with w.Runtime(store="memory:", environ={}, budget=w.Budget(tokens=3000)):
        async with fake_of(wire, Reply(WORDS), faults=Twist("no_usage")) as server:
            model, made = model_of(wire, server), 0
            with pytest.raises(w.BudgetExceeded):
                for _ in range(40):
                    await w.llm_call(PROMPT, model=model, max_tokens=500)
                    made += 1
    assert 1 <= made <= 8

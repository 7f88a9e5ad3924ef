"""Agents through every kind of fault: no hang, no tool run twice, and a named end."""

from __future__ import annotations

import asyncio

import pytest

import windlass as w
from windlass import seams
from windlass.testing.providers import FAULTS, Reply, conversation
from windlass.testing.providers.reply import turns

from .table import BARE, CASES, CUT, expected, hangs, is_error, is_final
from .wires import Moody, fake_of

TURNS = [
    Reply("Erst nachsehen – 🌦", tool_calls=[("look", {"order": "№ 7"}), ("pay", {"cents": 100})]),
    Reply(tool_calls=[("pay", {"cents": 250})]),
    Reply("Fertig: Zürich."),
]
ALL = [("look", "№ 7"), ("pay", 100), ("pay", 250)]
BEFORE = [[], ALL[:2], ALL]  # effects of the turns before turn 0, 1 and 2


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(seams, "sleep", lambda _seconds: asyncio.sleep(0))


class Shop:
    """Two tools whose effects are written down and never put right."""

    def __init__(self) -> None:
        self.effects: list[tuple[str, object]] = []

    def tools(self):
        @w.tool
        async def look(order: str) -> str:
            """Look an order up."""
            self.effects.append(("look", order))
            return "found"

        @w.tool
        async def pay(cents: int) -> str:
            """Pay an amount out."""
            self.effects.append(("pay", cents))
            return "paid"

        return [look, pay]


async def run(wire, stream, faults, stalls):
    """The outcome of an agent's run against these faults, and what it did."""
    shop = Shop()
    async with fake_of(wire, conversation(*TURNS), faults=faults) as server:
        model = Moody(wire, server, stream, lambda request: stalls(request, server))
        agent = w.Agent(model, tools=shop.tools(), stream=stream, max_turns=6)
        async with asyncio.timeout(30):
            out = await agent.run("Please.")
    assert not server.refused, server.refused[0].message
    assert len(set(shop.effects)) == len(shop.effects), "a tool ran twice"
    return out, shop.effects


async def run_with_one(name, wire, stream, turn):
    """The fault comes when turn number `turn` is asked for the first time."""
    # a connection that closes without a byte is tried again below the model
    left = 2 if name == "drop" else 1

    def fault(_index, asked):
        nonlocal left
        if turns(asked.json) != turn:
            return None
        left -= 1
        return FAULTS[name] if left >= 0 else None

    def stalls(_request, server):
        return hangs(name) and len(server.requests) == turn

    return await run(wire, stream, fault, stalls)


@pytest.mark.parametrize(("name", "wire", "stream"), CASES)
async def test_one_fault_at_each_turn(name, wire, stream):
    outcome = expected(name, wire, stream)
    for turn in range(3):
        out, effects = await run_with_one(name, wire, stream, turn)
        if is_final(outcome):
            assert out.status == "provider_error"
            assert out.error["kind"] == outcome.__name__
            assert effects == BEFORE[turn]
            continue
        assert out.status == "done", (turn, out.status, out.error)
        assert out.final_text == TURNS[-1].text
        assert effects == left_after(outcome, turn), turn


def left_after(outcome, turn):
    """What is done when the calls of that turn lose their arguments, or the last of them."""
    if outcome == BARE:
        return [[ALL[2]], ALL[:2], ALL][turn]
    if outcome == CUT:
        return [[ALL[0], ALL[2]], ALL[:2], ALL][turn]
    return ALL


@pytest.mark.parametrize(("name", "wire", "stream"), CASES)
async def test_the_same_fault_at_every_request(name, wire, stream):
    outcome = expected(name, wire, stream)
    out, effects = await run(wire, stream, FAULTS[name], lambda *_: hangs(name))
    if is_error(outcome):
        assert out.status == "provider_error"
        assert out.error["kind"] == outcome.__name__
        assert effects == []
    else:
        assert out.status == "done"
        assert effects == {BARE: [], CUT: ALL[:1]}.get(outcome, ALL)


STREAMED = [(name, wire) for name, wire, stream in CASES if stream]


@pytest.mark.parametrize(("name", "wire"), STREAMED)
async def test_reads_that_start_early_survive_a_fault(name, wire):
    """A read that began while a stream broke is used or thrown away; effects never begin early."""
    looked, paid = [], []

    @w.tool(side_effect_level="read_only")
    async def look(order: str) -> str:
        """Look an order up."""
        looked.append(order)
        return "found"

    @w.tool
    async def pay(cents: int) -> str:
        """Pay an amount out."""
        paid.append(cents)
        return "paid"

    left = 2 if name == "drop" else 1

    def fault(index, _asked):
        return FAULTS[name] if index < left else None

    async with fake_of(wire, conversation(*TURNS), faults=fault) as server:
        model = Moody(wire, server, True, lambda _: hangs(name) and not server.requests)
        agent = w.Agent(model, tools=[look, pay], eager_tools=True)
        async with asyncio.timeout(30):
            out = await agent.run("Please.")
    assert not server.refused
    outcome = expected(name, wire, True)
    if is_final(outcome):
        assert (out.status, paid) == ("provider_error", [])
        return
    assert out.status == "done"
    assert paid == [cents for tool, cents in left_after(outcome, 0) if tool == "pay"]
    assert len(looked) <= 2

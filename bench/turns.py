"""What a turn costs, whatever the length of the run; and what it costs to begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import windlass as w
from bench import bare, ours
from bench.proof import prove
from bench.proof_of_calls import counted
from bench.sampling import REPS, TARGET, Pair, Work, paired, rounds
from bench.table import Row, micro
from bench.work import Script
from windlass.engine.environment import current_store

LENGTHS = {
    10: 9.0,
    100: 6.0,
    500: 6.0,
}  # turns in a run, and how many times the bare loop is allowed
GROWTH = 1.2
BEGINNING = 45.0
PEERS = {10: "x60 to x484", 100: "x58 to x1,130", 500: "x48 to x4,586"}

entries_proved = [0]


async def rows(reps: int = REPS, target: float = TARGET) -> list[Row]:
    """Every row about turns."""
    found: list[Row] = []
    for door in ("Agent.run", "agent_loop"):
        found += await _lengths(door, reps, target)
    found.append(await _beginning(reps, target))
    found.append(await _wide(reps, target))
    found.append(await _blocking(reps, target))
    found.append(await _redacted(reps, target))
    return found


async def _lengths(door: str, reps: int, target: float) -> list[Row]:
    """All lengths in the same rounds, so that they can be compared with each other too."""
    works: dict[str, Work] = {}
    for turns in LENGTHS:
        works[f"bare {turns}"] = by_hand(lambda n=turns: Script(n))
        works[f"ours {turns}"] = recorded(lambda n=turns: Script(n), door=door)
    taken = await rounds(works, reps, target=target)
    found: list[Row] = []
    for turns, allowed in LENGTHS.items():
        pair = paired(taken[f"ours {turns}"], taken[f"bare {turns}"])
        name = f"`{door}`, {turns} turns: a turn"
        found.append(_row(name, pair, allowed, turns, PEERS.get(turns, "")))
    short, long = sorted(LENGTHS)[-2:]
    grown = paired(
        [seconds / long for seconds in taken[f"ours {long}"]],
        [seconds / short for seconds in taken[f"ours {short}"]],
    )
    name = f"`{door}`: a turn of {long} over a turn of {short}"
    spread = (grown.low, grown.high)
    peers = "x0.9 to x4.0"
    row = Row(name, grown.ratio, GROWTH, micro(grown.ours), "", spread, peers=peers)
    return [*found, row]


async def _beginning(reps: int, target: float) -> Row:
    async def by_hand_from_nothing() -> None:
        await bare.run(bare.build("add"), Script(1))

    async def from_nothing() -> Any:
        return await ours.run(ours.build("add"), Script(1))

    works = {
        "bare": Work(by_hand_from_nothing, None, 32),
        "ours": Work(from_nothing, _proof(Script(1)), 32),
    }
    taken = await rounds(works, reps, target=target)
    pair = paired(taken["ours"], taken["bare"])
    name = "create an agent with one tool and run one turn"
    return _row(name, pair, BEGINNING, 1, "x168 to x5,696")


async def _wide(reps: int, target: float) -> Row:
    script = lambda: Script(2, width=16)  # noqa: E731
    works = {"bare": by_hand(script), "ours": recorded(script)}
    taken = await rounds(works, reps, target=target)
    pair = paired(taken["ours"], taken["bare"])
    return _row("16 instant tools in one turn: a call", pair, None, 16, "x23 to x88")


async def _blocking(reps: int, target: float) -> Row:
    script = lambda: Script(100, tool="add_sync")  # noqa: E731
    works = {"bare": by_hand(script, "add_sync"), "ours": recorded(script, "add_sync")}
    taken = await rounds(works, reps, target=target)
    pair = paired(taken["ours"], taken["bare"])
    name = "a blocking tool (Windlass runs it in a thread), 100 turns: a turn"
    return _row(name, pair, None, 100, "x60 to x991, wall")


async def _redacted(reps: int, target: float) -> Row:
    """Every entry passes the redactor once it knows a secret."""
    script = lambda: Script(100)  # noqa: E731
    works = {"bare": by_hand(script), "ours": recorded(script)}
    async with w.Runtime(store="memory:", secrets=("a secret that is never said",)):
        taken = await rounds(works, reps, target=target)
    pair = paired(taken["ours"], taken["bare"])
    return _row(
        "with a known secret (a key in the environment), 100 turns: a turn", pair, None, 100
    )


# --------------------------------------------------------------------------- both sides


def by_hand(script: Callable[[], Script], tool: str = "add") -> Work:
    """The bare loop on this script."""
    functions = bare.build(tool)
    return counted(lambda: bare.run(functions, script()), script().calls)


def recorded(script: Callable[[], Script], tool: str = "add", door: str = "Agent.run") -> Work:
    """Windlass on this script, looked at afterwards."""
    agent = ours.build(tool)

    async def once() -> Any:
        if door == "agent_loop":
            return await ours.loop((tool,), script())
        return await ours.run(agent, script())

    return Work(once, _proof(script()))


def _proof(script: Script) -> Callable[[list[Any]], Any]:
    async def after(results: list[Any]) -> None:
        entries_proved[0] += await prove(current_store(), results, script)

    return after


def _row(name: str, pair: Pair, allowed: float | None, per: int, peers: str = "") -> Row:
    ours_, bare_ = micro(pair.ours / per), micro(pair.bare / per)
    return Row(name, pair.ratio, allowed, ours_, bare_, (pair.low, pair.high), peers=peers)

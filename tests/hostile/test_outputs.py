"""Whatever a tool returns or raises: the run goes on, the session stays readable, memory is bounded."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.hostile.helpers import (
    Tally,
    id_of,
    readable,
    watchdog,
)
from tests.hostile.output_pools import BAD, GOOD, RAISED, Node, Record
from tests.sizes import pick_size
from windlass.messages import Outcome
from windlass.store.base import Store
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore
from windlass.testing import call, scripted

PLACES = ["memory", "sqlite"]
OUTCOMES = set(Outcome.__args__)


def store_at(place: str, folder: Path) -> Store:
    return MemoryStore() if place == "memory" else SqliteStore(folder / "s.db")


def giving(makers: dict[str, Callable[[], Any]], *, sync: bool = False) -> w.Tool:
    def give(which: str) -> Any:
        """Give something."""
        return makers[which]()

    async def give_later(which: str) -> Any:
        """Give something."""
        return makers[which]()

    return w.tool(name="give")(give if sync else give_later)


async def one(store: Store, tool: w.Tool, which: str, session_id: str) -> tuple[str, str]:
    """A run whose tool gives this, and the next turn on the same session."""
    session_id = id_of(session_id)
    model = scripted(call("give", which=which), "seen", "next")
    agent = w.Agent(model, tools=[tool], store=store)
    with watchdog(which):  # makes the value too
        out = await agent.run("go", session_id=session_id)
    assert out.status == "done", f"{which}: {out.status} {out.error}"
    assert len(model.requests) == 2
    (record,) = out.tool_calls
    record.result.encode()
    assert record.outcome in OUTCOMES, record.outcome
    shown = model.requests[1].messages[-1].content[0]
    assert len(shown.text.encode()) <= 65536
    again = await agent.run("and now?", session_id=session_id)
    assert again.final_text == "next"
    await readable(store, session_id)
    return record.outcome, record.result


@pytest.mark.parametrize(
    ("place", "sync"), [("memory", True), ("sqlite", False)], ids=["memory-sync", "sqlite-async"]
)
async def test_hostile_outputs(place: str, sync: bool, tmp_path: Path) -> None:
    met = Tally(f"outputs of {'sync' if sync else 'async'} tools, {place}")
    store = store_at(place, tmp_path)
    tool = giving(GOOD | BAD, sync=sync)
    for which in GOOD:
        outcome, _ = await one(store, tool, which, f"good {which}")
        assert outcome == "ok", which
        met.valid(outcome)
    for which in BAD:
        outcome, _ = await one(store, tool, which, f"bad {which}")
        met.invalid(outcome)
    await store.sessions()
    await store.aclose()
    met.report(len(GOOD) + len(BAD))


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("place", PLACES)
async def test_hostile_errors(place: str, sync: bool, tmp_path: Path) -> None:
    met = Tally(f"errors of {'sync' if sync else 'async'} tools, {place}")

    def thrower(make: Callable[[], BaseException]) -> Callable[[], Any]:
        def throw() -> Any:
            raise make()

        return throw

    makers = {which: thrower(make) for which, make in RAISED.items()} | {"fine": lambda: "fine"}
    store, tool = store_at(place, tmp_path), giving(makers, sync=sync)
    for which in RAISED:
        outcome, words = await one(store, tool, which, which)
        assert outcome in ("error", "retry"), (which, outcome)
        assert len(words.encode()) <= 8192 and words
        met.invalid(outcome)
    outcome, _ = await one(store, tool, "fine", "fine")
    met.valid(outcome)
    await store.aclose()
    met.report(len(RAISED) + 1)


@pytest.mark.parametrize("place", PLACES)
async def test_all_at_once(place: str, tmp_path: Path) -> None:
    """One reply asks for every hostile output side by side; each call has its own result."""
    small = {n: m for n, m in BAD.items() if "bomb" not in n and "megabytes" not in n}
    store, tool = store_at(place, tmp_path), giving(small)
    model = scripted([call("give", which=which) for which in small], "seen")
    with watchdog("all", cpu=20):
        out = await w.Agent(model, tools=[tool], store=store).run("go", session_id="s")
    assert out.status == "done", out.error
    assert [record.arguments["which"] for record in out.tool_calls]
    assert len(model.requests[1].messages[-1].content) == len(small)
    await readable(store, "s")
    await store.aclose()


def generated(rng: random.Random, depth: int = 0) -> tuple[Any, bool]:
    """A value of any shape, and whether JSON could hold all of it."""
    leaves: list[tuple[Any, bool]] = [
        (1, True),
        ("a", True),
        (None, True),
        (1.5, True),
        (True, True),
        ("ß", True),
        (-5, True),
        ("\ud800", False),
        (float("nan"), False),
        (object(), False),
        (b"\xff", False),
        (10**500, False),
        (..., False),
        (Node(1, 2), True),
        (Record(1), True),
        ({1, 2}, True),
    ]
    if depth > 4 or rng.random() < 0.3:
        return rng.choice(leaves)
    items = [generated(rng, depth + 1) for _ in range(rng.randrange(4))]
    fine = all(right for _, right in items)
    values = [value for value, _ in items]
    match rng.randrange(6):
        case 0:
            return values, fine
        case 1:
            return tuple(values), fine
        case 2:
            return {f"k{n}": value for n, value in enumerate(values)}, fine
        case 3:
            keys: list[Any] = [1, (1,), None, "\ud800", 1.5, b"x", frozenset()]
            return dict(zip(rng.sample(keys, len(values)), values, strict=True)), not values
        case 4:
            return Node(values, rng.choice(values) if values else None), fine
        case _:
            shared = [values] * rng.randrange(5)
            if rng.random() < 0.3:
                values.append(shared)
                return shared, False
            return shared, fine


async def generated_outputs(place: str, folder: Path, count: int, seed: int) -> None:
    met = Tally(f"generated outputs, {place}")
    rng, store = random.Random(seed), store_at(place, folder)
    made = [generated(rng) for _ in range(count * 2)]
    wrong = [value for value, fine in made if not fine][: count // 2 + 20]
    values = [(v, False) for v in wrong] + [(v, True) for v, fine in made if fine][
        : count // 2 - 20
    ]
    tool = giving({str(n): lambda value=value: value for n, (value, _) in enumerate(values)})
    batches = [range(start, min(start + 40, len(values))) for start in range(0, len(values), 40)]
    calls = [[call("give", which=str(n)) for n in batch] for batch in batches]
    model = scripted(*calls, "seen")
    with watchdog("generated", cpu=20):
        out = await w.Agent(model, tools=[tool], store=store, max_turns=1000, compaction=False).run(
            "go", session_id="s"
        )
    assert out.status == "done", out.error
    assert len(out.tool_calls) == len(values)
    for record in out.tool_calls:
        record.result.encode()
        fine = values[int(record.arguments["which"])][1]
        (met.valid if fine else met.invalid)(record.outcome)
        assert record.outcome == "ok" or not fine
    await readable(store, "s")
    await store.aclose()
    met.report(len(values))


@pytest.mark.parametrize("place", PLACES)
async def test_generated_outputs(place: str, tmp_path: Path) -> None:
    await generated_outputs(place, tmp_path, 600, seed=1)


@pytest.mark.deep
@pytest.mark.parametrize("place", PLACES)
async def test_many_generated_outputs(place: str, tmp_path: Path) -> None:
    for seed in range(2, pick_size(5, 12, proof="HOSTILE")):
        (tmp_path / str(seed)).mkdir()
        await generated_outputs(place, tmp_path / str(seed), 2000, seed)


MEMORY = """
import asyncio, gc, sys
import windlass as w
from pathlib import Path
from tests.hostile.output_pools import BAD, GOOD
from tests.hostile.test_outputs import giving, one, store_at
from windlass import seams

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024

def current():
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again at what is held now
    return peak()

async def main():
    worst = 0.0
    makers = GOOD | BAD
    for place in ("memory", "sqlite"):
        store = store_at(place, Path(sys.argv[1]))
        tool = giving(makers)
        await one(store, tool, "text", "warm")
        for which in sys.argv[2:]:
            value = makers[which]()          # what the tool itself holds is not ours
            held = giving({which: lambda: value})
            before = current()
            await one(store, held, which, which)
            grown = peak() - before
            worst = max(worst, grown)
            print(place, which, f"{grown:.0f} MiB", flush=True)
            del value, held
            gc.collect()
        await store.aclose()
    print("WORST", worst)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux for the peak")
def test_memory_stays_bounded(tmp_path: Path) -> None:
    """The peak may grow by a few copies of what was returned, never by what it would be written out."""
    which = [
        "ten megabytes",
        "bomb",
        "wide bomb",
        "dataclass bomb",
        "mapping bomb",
        "text bomb",
        "key bomb",
        "brackets",
        "endless",
        "wide",
        "lister",
    ]
    root = Path(__file__).resolve().parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path), *which],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    print(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    worst = float(ended.stdout.rpartition("WORST ")[2])
    assert worst < 250, f"the peak grew by {worst:.0f} MiB"

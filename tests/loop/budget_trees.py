"""Trees of runs under a budget, made from a seed: what they spend, and what the record says of it.

A world plays one seed: an agent with children in parallel, judges, retries, parks, broken replies,
processes that end in the middle and others that go on. It keeps what the models were really asked
for. `problems(seed)` compares that with journals, books, results and the limit; the overshoot that
is allowed is the one that `docs/guides/budgets.md` names. `python -m tests.loop.budget_trees 500` plays
many and writes a table.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from typing import Any

import msgspec

import windlass as w
from windlass.errors import NoSuchSession
from windlass.events import JournalEntry, Replied, ReplyFailed, SessionOpened, TextDelta
from windlass.models.estimates import estimate_request
from windlass.store.memory import MemoryStore
from windlass.testing import run_virtual

PRICES = {"boss": 0.003, "child": 0.001, "judge": 0.0005, "backup": 0.002}  # dollars for a token
ROOT = "root"


class Asked(msgspec.Struct):
    """One call of a model as it really was."""

    reserved: int  # tokens
    took: int
    price: float
    began: float
    ended: float = 0.0
    lost: bool = False  # its process ended before the reply came

    @property
    def excess(self) -> float:
        """Tokens beyond what was held back."""
        return max(0, self.took - self.reserved)


class World:
    """One seed: its dice, its disk, and all that its models were asked."""

    def __init__(self, seed: int) -> None:
        self.seed, self.dice = seed, random.Random(seed)
        dice = self.dice
        self.exact = dice.random() < 0.5  # estimates are right, and replies keep to their limit
        self.in_dollars = dice.random() < 0.5
        self.asked: list[Asked] = []
        self.deaths = dice.choice([0, 1, 2, 3, 4])
        self.parks = self.died = self.broken = self.cut = 0
        self.image: list[tuple[str, str | None, list[JournalEntry]]] | None = None
        self.store = MemoryStore()
        self.died_here = asyncio.Event()
        tokens = dice.choice([700, 1_500, 4_000, 20_000])
        self.limit = tokens * 0.001 if self.in_dollars else tokens

    # ------------------------------------------------------------------ deaths

    def may_die(self) -> bool:
        return self.deaths > 0 and self.image is None and self.dice.random() < 0.08

    def die(self) -> None:
        """End the process: the next one finds only what is stored now."""
        self.deaths -= 1
        self.died += 1
        self.image = []
        for name, journal in self.store._sessions.items():
            opened = journal.entries[0]
            assert isinstance(opened, SessionOpened)
            self.image.append((name, opened.parent_id, journal.entries[1 : journal.size]))
        for one in self.asked:
            if not one.ended:
                one.lost, one.ended = True, asyncio.get_running_loop().time()
        self.died_here.set()

    async def be_born(self) -> None:
        """Start the next process with what the last one stored."""
        assert self.image is not None
        self.store = MemoryStore()
        for name, parent_id, entries in self.image:
            journal = await self.store.open(name, parent_id=parent_id)
            for entry in entries:
                journal.append(entry)
            await journal.close()
        self.image, self.died_here = None, asyncio.Event()

    async def end_here(self) -> None:
        """Wait for ever: nothing happens in a process that has ended."""
        await asyncio.Event().wait()


class Wild(w.Model):
    """It says what the dice say, and takes what it takes."""

    def __init__(self, world: World, name: str, *, fails: float = 0.0) -> None:
        self.world, self.name, self.fails = world, name, fails
        self.provider = "wild"

    def price(self, usage: w.Usage) -> float:
        return (usage.input_tokens + usage.output_tokens) * PRICES[self.name]

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        world, dice = self.world, self.world.dice
        if world.image is not None:
            await world.end_here()
        inputs, most = estimate_request(request), request.settings.max_tokens or 16_384
        reserved = inputs + most
        wanted = dice.choice([5, 20, 100, 600])
        broken, cut = dice.random() < self.fails, dice.random() < self.fails / 2
        if not world.exact:
            inputs = int(inputs * dice.choice([0.5, 1, 1, 3])) + dice.choice([0, 0, 400])
            most = max(most, wanted) if dice.random() < 0.2 else most
        outputs = min(wanted, most)
        one = Asked(
            reserved, inputs + outputs, PRICES[self.name], asyncio.get_running_loop().time()
        )
        if not broken:
            world.asked.append(one)
        try:
            await asyncio.sleep(dice.choice([0.1, 1, 3]))
        except asyncio.CancelledError:
            if not one.lost:  # a model of this process that is stopped costs nothing
                one.took, one.ended = 0, asyncio.get_running_loop().time()
            raise
        if world.image is not None:
            await world.end_here()
        if broken:
            world.broken += 1
            raise dice.choice([w.Overloaded, w.StreamBroken])("not now")
        if cut:
            one.took = 0  # nobody knows: what was received of it is booked
            one.ended = asyncio.get_running_loop().time()
            world.cut += 1
            emit(TextDelta("x" * 4 * min(outputs, 50)))
            raise w.StreamBroken("in the middle")
        if world.may_die():
            world.die()
            await world.end_here()
        one.ended = asyncio.get_running_loop().time()
        reason: Any = "max_tokens" if outputs < wanted else "end_turn"
        message = self.say(request, outputs < wanted)
        if message.tool_calls and reason == "end_turn":
            reason = "tool_use"
        return w.Response(message, w.Usage(inputs, outputs), reason)

    def say(self, request: w.Request, cut: bool) -> w.Message:
        dice = self.world.dice
        names = [tool.name for tool in request.tools]
        if cut or not names or dice.random() < 0.15:
            return w.Message("assistant", "done")
        calls: list[w.ToolCall] = []
        for _ in range(dice.choice([1, 2, 4, 6])):
            name = dice.choice([*names, *["child"] * (5 * ("child" in names))])
            arguments = {"task": "dig"} if name == "child" else {}
            calls.append(w.ToolCall("", name, arguments))
        return w.Message("assistant", tuple(calls))


class Judging(w.Policy[None]):
    """It asks a model of its own, before some turns and after others."""

    def __init__(self, world: World) -> None:
        self.world, self.model = world, Wild(world, "judge")
        self.models = (self.model,)

    async def before_model(self, run: w.Run, request: w.Request) -> w.Request:
        if self.world.dice.random() < 0.3:
            await self._ask(run, "summary")
        return request

    async def after_turn(self, run: w.Run, turn: w.Turn) -> None:
        if self.world.dice.random() < 0.3:
            await self._ask(run, "judge")

    async def _ask(self, run: w.Run, purpose: str) -> None:
        settings = w.Settings(max_tokens=60)
        request = w.Request((w.Message("user", "well?"),), w.Frame(None, (), settings))
        try:
            await run.ask(request, purpose, self.model)
        except w.BudgetExceeded:
            pass  # the run itself finds out


def tree(world: World) -> w.Agent[Any, str]:
    """Build the agents of this seed; each process builds them from the same dice."""
    dice = random.Random(world.seed)

    @w.tool(keyed=True)
    async def work() -> str:
        """Work for a while."""
        if world.image is not None or world.may_die():
            if world.image is None:
                world.die()
            await world.end_here()
        await asyncio.sleep(0.5)
        return "worked"

    ask_host = w.Tool("ask_host", "Ask the host.", {})
    small: dict[str, Any] = {"max_tokens": 100} if dice.random() < 0.6 else {}
    backup = Wild(world, "backup")
    layers: list[Any] = [
        None,
        w.with_fallback(backup),
        w.with_shadow(backup, sample=0.5),
        w.with_escalation(backup, on_reply=lambda reply: world.dice.random() < 0.3),
    ]
    if (around := dice.choice(layers)) is not None:
        small["llm_caller"] = around
    child = w.Agent(
        Wild(world, "child", fails=0.1),
        name="child",
        tools=[work, ask_host],
        max_turns=6,
        policies=[Judging(world)],
        **{"llm_caller": w.with_retry(max_attempts=2, backoff_ms=10), **small},
    )
    budget = w.Budget(usd=world.limit) if world.in_dollars else w.Budget(tokens=int(world.limit))
    return w.Agent(
        Wild(world, "boss", fails=0.05),
        tools=[child.as_tool("child"), work, ask_host],
        max_turns=8,
        budget=budget,
        policies=[Judging(world)],
        max_concurrent_tools=6,
        **small,
    )


async def play(world: World) -> w.AgentResult[str]:
    """Run, die, resume, park and answer, until there is an end."""
    out: w.AgentResult[str] | None = None
    started = False
    for _ in range(40):
        async with w.Runtime(store=world.store, environ={}):
            agent = tree(world)
            running = asyncio.ensure_future(
                agent.resume(ROOT) if started else agent.run("go", session_id=ROOT)
            )
            started = True
            death = asyncio.ensure_future(world.died_here.wait())
            await asyncio.wait({running, death}, return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
            if world.image is not None:
                running.cancel()
                await asyncio.wait({running})
                await world.be_born()
                started = any(name == ROOT for name in world.store._sessions)
                continue
            out = running.result()
            if out.status != "suspended":
                return out
            world.parks += 1
            await answer(world.store)
    assert out is not None
    return out


async def answer(store: MemoryStore) -> None:
    """Give every call that waits for the host its result."""
    for info in await store.sessions():
        if info.status != "suspended":
            continue
        entries = await store.read(info.id)
        results = {e.call_id for e in entries if type(e).__name__ == "ToolResulted"}
        for entry in entries:
            if type(entry) is not Replied or entry.purpose is not None:
                continue
            for call in entry.message.tool_calls:
                if call.name == "ask_host" and call.id not in results:
                    await store.post(info.id, "result", {call.id: "yes"})


# --------------------------------------------------------------------------- what must hold


def overshoot(world: World) -> float:
    """Return the worst overshoot of simultaneous calls beyond their reserves."""
    worst = 0.0
    for one in world.asked:
        beside = [o for o in world.asked if o.began <= one.began and one.began <= (o.ended or 1e18)]
        worst = max(worst, sum(_cost(world, o, o.excess) for o in beside))
    return worst


def _cost(world: World, one: Asked, tokens: float) -> float:
    return tokens * one.price if world.in_dollars else tokens


async def found(seed: int) -> tuple[World, str, list[str]]:
    """Play the seed; return how it ended, and what was wrong."""
    world = World(seed)
    out = await play(world)
    wrong: list[str] = []
    journals = [await world.store.read(info.id) for info in await world.store.sessions()]
    paid = [e for entries in journals for e in entries if isinstance(e, (Replied, ReplyFailed))]
    books = await world.store.calls()
    tokens = {
        "journals": sum(e.usage.total_tokens for e in paid),
        "books": sum(row.usage.total_tokens for row in books),
        "result": out.usage.total_tokens,
        "ledger": out._run.ledger.tokens,
    }
    dollars = {
        "journals": sum(e.cost_usd for e in paid),
        "books": sum(row.cost_usd for row in books),
        "result": out.cost_usd,
        "ledger": out._run.ledger.usd,
    }
    if len(set(tokens.values())) != 1:
        wrong.append(f"tokens differ: {tokens}")
    if len({round(usd, 9) for usd in dollars.values()}) != 1:
        wrong.append(f"dollars differ: {dollars}")
    booked = dollars["journals"] if world.in_dollars else tokens["journals"]
    over = overshoot(world)
    if booked > world.limit + over + 1e-9:
        wrong.append(f"{booked:g} are booked of {world.limit:g}, the overshoot is {over:g}")
    true = sum(_cost(world, one, one.took) for one in world.asked)
    unseen = sum(_cost(world, one, one.excess) for one in world.asked if one.lost)
    if true > booked + unseen + 1e-9:
        wrong.append(f"{true:g} were spent and {booked:g} are booked")
    if world.exact and (booked > world.limit + 1e-9 or true > world.limit + 1e-9):
        wrong.append(f"{true:g} of {world.limit:g}, with right estimates")
    return world, f"{out.status} {out.stop_reason}", wrong


def play_seed(seed: int) -> tuple[World, str, list[str]]:
    """Play the seed in virtual time."""
    try:
        return run_virtual(found(seed), seed=seed)
    except NoSuchSession as error:  # it died before anything was stored
        return World(seed), f"nothing: {error}", []


def main(count: int) -> int:
    """Play so many seeds and print a table."""
    began = time.perf_counter()
    ends: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    broken: list[str] = []
    for seed in range(count):
        world, end, wrong = play_seed(seed)
        ends[end.split(":")[0]] += 1
        sums["calls"] += len(world.asked)
        sums["deaths"] += world.died
        sums["parks"] += world.parks
        sums["broken replies"] += world.broken
        sums["replies cut in the middle"] += world.cut
        sums["lost replies"] += sum(one.lost for one in world.asked)
        sums["seeds with right estimates"] += world.exact
        broken += [f"seed {seed}: {problem}" for problem in wrong]
    print(f"# Budgets: {count} trees of runs\n")
    print("Written by `make prove-budgets`: `tests/loop/budget_trees.py` says what is played.\n")
    for name, number in sums.items():
        print(f"- {name}: {number}")
    print(f"- seeds in which a sum or a limit was wrong: {len(broken)}\n")
    print("| end | seeds |\n|---|---|")
    for end, number in sorted(ends.items()):
        print(f"| {end} | {number} |")
    for problem in broken:
        print(problem, file=sys.stderr)
    print(f"{time.perf_counter() - began:.1f} s", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))

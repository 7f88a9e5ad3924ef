"""Trees of agents, four levels and up to five children each, made from a seed, under one budget.

A seed says how wide the tree is, how each agent hands its work on (`agents=`, `fan_out`,
`sub_agent_run`), how long every call takes, and where the process ends. `play_seed(seed)` compares the
sums of results, books, journals, trace and `windlass cost` with each other and with every limit.
`python -m tests.loop.agent_trees 500` plays many and writes a table.
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
from tests.loop.budget_trees import ROOT, World
from windlass.cli.cost import Group
from windlass.cli.live.picture import read_picture
from windlass.errors import NoSuchSession
from windlass.events import Replied, ReplyFailed, RunStarted
from windlass.models.estimates import estimate_request
from windlass.testing import run_virtual

LEVELS, WIDEST = 4, 5
PRICE = 0.001  # dollars for a token
LEAD = "lead"  # the agents of a level are named lead1, lead2, lead3


class Forest(World):
    """One seed: its tree, its dice, and the money that its models were really asked for."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        dice = random.Random(f"tree {seed}")
        self.whole = seed % 20 == 0  # every agent has all its children
        self.width = WIDEST if self.whole else dice.randint(1, WIDEST)
        self.at_once, self.at_a_time = dice.randint(1, 6), dice.randint(1, 8)
        tokens = 10**9 if self.whole else dice.choice([1_000, 3_000, 10_000, 100_000])
        self.limit = tokens * PRICE
        # a level may have a budget of its own, for each of its agents
        own = dice.choice([None, None, 400, 3_000])
        self.own_level, self.own_limit = dice.randint(1, LEVELS - 1), None
        if own is not None and not self.whole:
            self.own_limit = own * PRICE
        self.deaths = 0 if self.whole else dice.choice([0, 0, 1, 2, 3])
        self.pace = 1.0
        self.spent = 0.0  # by calls whose reply came


class Member(w.Model):
    """An agent's model: it hands work on in its first reply, and answers in the next."""

    provider = "tree"

    def __init__(self, world: Forest, level: int) -> None:
        self.world, self.level, self.name = world, level, f"level{level}"

    def price(self, usage: w.Usage) -> float:
        return (usage.input_tokens + usage.output_tokens) * PRICE

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        world, dice = self.world, self.world.dice
        if world.image is not None:
            await world.end_here()
        inputs = estimate_request(request)
        most, wanted = request.settings.max_tokens or 1_000, dice.choice([10, 50, 200])
        await asyncio.sleep(dice.choice([0.1, 1, 3]) * world.pace)
        if world.image is not None or world.may_die():
            if world.image is None:
                world.die()
            await world.end_here()
        outputs = min(wanted, most)
        world.spent += (inputs + outputs) * PRICE
        calls = self._choose(request) if outputs == wanted else ()
        message = w.Message("assistant", calls or "done")
        reason: Any = "tool_use" if calls else "end_turn" if outputs == wanted else "max_tokens"
        return w.Response(message, w.Usage(inputs, outputs), reason)

    def _choose(self, request: w.Request) -> tuple[w.ToolCall, ...]:
        world, dice = self.world, self.world.dice
        if self.level >= LEVELS or request.messages[-1].role != "user":
            return ()
        least = 0 if dice.random() < 0.2 else 1
        count = world.width if world.whole else dice.randint(least, world.width)
        if count and dice.random() < 0.4:  # one call of a tool that hands on all the tasks
            tool = dice.choice(["spread", "ask_each"])
            return (w.ToolCall("", tool, {"count": count}),)
        return tuple([w.ToolCall("", f"{LEAD}{self.level + 1}", {"task": "go"})] * count)


def build_level(world: Forest, level: int) -> w.Agent[Any, str]:
    """Build the agent of a level with the agents below it."""
    more: dict[str, Any] = {"budget": w.Budget(usd=world.limit)} if level == 1 else {}
    if level == world.own_level + 1 and world.own_limit is not None:
        more["budget"] = w.Budget(usd=world.own_limit)
    if level < LEVELS:
        below = build_level(world, level + 1)
        more["agents"] = [below]
        more["tools"] = _build_tools(world, below, level + 1)
    return w.Agent(
        Member(world, level),
        name=f"{LEAD}{level}",
        max_turns=4,
        max_tokens=200,
        max_concurrent_tools=world.at_once,
        **more,
    )


def _build_tools(world: Forest, below: w.Agent[Any, str], level: int) -> list[w.Tool]:
    @w.tool(keyed=True)
    async def spread(ctx: w.ToolContext[None], count: int) -> str:
        """Hand on so many tasks at once."""
        out = await w.fan_out(below, ["go"] * count, limit=world.at_a_time, parent=ctx)
        return f"{len(out.outputs)} done"

    @w.tool(keyed=True)
    async def ask_each(ctx: w.ToolContext[None], count: int) -> str:
        """Ask one after the other."""
        model = Member(world, LEVELS)
        asked = [
            await w.sub_agent_run("go", parent=ctx, model=model, allowed_tools=[], max_turns=2)
            for _ in range(count)
        ]
        return f"{sum(one.ok for one in asked)} done"

    return [spread, ask_each]


async def play(world: Forest) -> w.AgentResult[str]:
    """Run the tree; where the process ends, another one goes on with what is stored."""
    for _ in range(20):
        async with w.Runtime(store=world.store, environ={}):
            root = build_level(world, 1)
            begun = ROOT in world.store._sessions
            going = root.resume(ROOT) if begun else root.run("go", session_id=ROOT)
            running = asyncio.ensure_future(going)
            death = asyncio.ensure_future(world.died_here.wait())
            await asyncio.wait({running, death}, return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
            if world.image is None:
                return running.result()
            running.cancel()
            await asyncio.wait({running})
            await world.be_born()
    raise AssertionError("it does not end")


class Sums(msgspec.Struct, frozen=True):
    """Tokens and dollars as one place has them."""

    tokens: int
    usd: float


async def collect_sums(world: Forest, out: w.AgentResult[str]) -> dict[str, Sums]:
    """Read what the tree has cost from every place that says so."""
    store = world.store
    journals = [await store.read(info.id) for info in await store.sessions()]
    paid = [e for entries in journals for e in entries if isinstance(e, (Replied, ReplyFailed))]
    books = await store.calls()
    totals = (await read_picture(store, ROOT)).totals
    cost = Group("total", books)
    children = out.children
    return {
        "result": Sums(out.usage.total_tokens, out.cost_usd),
        "children": Sums(
            out.own_usage.total_tokens + sum(one.usage.total_tokens for one in children),
            out.own_cost_usd + sum(one.cost_usd for one in children),
        ),
        "journals": Sums(sum(e.usage.total_tokens for e in paid), sum(e.cost_usd for e in paid)),
        "books": Sums(sum(c.usage.total_tokens for c in books), sum(c.cost_usd for c in books)),
        "trace": Sums(totals.usage.total_tokens, totals.cost_usd),
        "windlass cost": Sums(cost.input + cost.output, cost.usd),
        "ledger": Sums(out._run.ledger.tokens, out._run.ledger.usd),
    }


async def find_problems(world: Forest, out: w.AgentResult[str]) -> list[str]:
    """Compare the sums with each other and with the limits."""
    sums = await collect_sums(world, out)
    wrong: list[str] = []
    if len({one.tokens for one in sums.values()}) != 1:
        wrong.append(f"tokens differ: { {name: one.tokens for name, one in sums.items()} }")
    if len({round(one.usd, 9) for one in sums.values()}) != 1:
        wrong.append(f"dollars differ: { {name: one.usd for name, one in sums.items()} }")
    booked = sums["journals"].usd
    if max(booked, world.spent) > world.limit + 1e-9:
        wrong.append(f"{booked:g} are booked and {world.spent:g} spent of {world.limit:g}")
    if world.spent > booked + 1e-9:
        wrong.append(f"{world.spent:g} were spent and {booked:g} are booked")
    if world.own_limit is not None:
        wrong += await _find_overspent(world)
    return wrong


async def _find_overspent(world: Forest) -> list[str]:
    """Find the agents with a budget of their own that spent more than that."""
    books = await world.store.calls()
    wrong: list[str] = []
    assert world.own_limit is not None
    for info in await world.store.sessions():
        started = [e for e in await world.store.read(info.id) if type(e) is RunStarted]
        if not started or started[0].name != f"{LEAD}{world.own_level + 1}":
            continue
        inside = [
            call.cost_usd
            for call in books
            if call.session == info.id or (call.session or "").startswith(f"{info.id}.")
        ]
        if sum(inside) > world.own_limit + 1e-9:
            wrong.append(f"{info.id} spent {sum(inside):g} of its own {world.own_limit:g}")
    return wrong


async def _play_and_look(seed: int) -> tuple[Forest, str, list[str]]:
    world = Forest(seed)
    out = await play(world)
    return world, f"{out.status} {out.stop_reason}", await find_problems(world, out)


def play_seed(seed: int) -> tuple[Forest, str, list[str]]:
    """Play the seed in virtual time: the tree, how it ended, and what was wrong."""
    try:
        return run_virtual(_play_and_look(seed), seed=seed)
    except NoSuchSession as error:  # it died before anything was stored
        return Forest(seed), f"nothing: {error}", []


def main(count: int) -> int:
    """Play so many seeds and print a table."""
    began = time.perf_counter()
    ends: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    broken: list[str] = []
    for seed in range(count):
        world, end, wrong = play_seed(seed)
        ends[end.split(":")[0]] += 1
        sums["runs"] += len(world.store._sessions)
        sums["processes that ended in the middle"] += world.died
        sums["whole trees, every agent with all its children"] += world.whole
        sums["trees with a second budget below the first"] += world.own_limit is not None
        broken += [f"seed {seed}: {problem}" for problem in wrong]
    print(f"# Trees of agents: {count} seeds\n")
    print("Written by `make prove-trees`: `tests/loop/agent_trees.py` says what is played.\n")
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

"""Runs over resources, to be killed: a model that is a pure function of the request."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import windlass as w
from windlass.agents.agent import Agent  # loaded once, in the process that all others fork from
from windlass.errors import NoSuchSession
from windlass.events import ToolResulted
from windlass.resources import audit
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.testing.kill import Scene
from windlass.testing.postgres import Server

assert sqlite_store.SqliteStore
SESSION = "s"
ANN = w.Caller("ann", (), "acme")
READS = ("get", "search")


class Counter_(w.Resource):
    id: str
    n: int = 0
    path = "counter"
    mcp_tools = ["add", "fetch"]

    def allow_delete(self, caller: w.Caller) -> bool | str:
        return "counters stay"

    def add(self, tx: w.ResourceTx, amount: int) -> Counter_:
        """Add to it."""
        self.n += amount
        tx.create(Entry, counter=self.id, amount=amount)
        return tx.save(self)

    async def fetch(self, ctx: w.ToolContext[None], amount: int) -> Counter_:
        """Add what was fetched from far away."""
        await asyncio.sleep(0)

        def body(tx: Any) -> Counter_:
            now = tx.get(Counter_, self.id)
            tx.create(Entry, counter=self.id, amount=amount)
            return tx.update(Counter_, self.id, {"n": now.n + amount})

        return await ctx.commit(body)


class Entry(w.Resource):
    id: int
    counter: str
    amount: int
    verbs = ("search",)


STEPS: list[tuple[str, dict[str, Any]]] = [
    ("create_counter", {"id": "a"}),
    ("add_counter", {"id": "a", "amount": 1}),
    ("update_counter", {"id": "a", "values": {"n": 10}}),
    ("fetch_counter", {"id": "a", "amount": 2}),
    ("delete_counter", {"id": "a"}),
    ("get_counter", {"id": "a"}),
    ("create_counter", {"id": "a"}),  # a conflict
]


class Pure(w.Model):
    """Takes the steps in their order, so many in one reply."""

    provider, name = "pure", "pure"

    def __init__(self, width: int, rounds: int) -> None:
        self.width, self.rounds = width, rounds

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        turn = sum(message.role == "assistant" for message in request.messages)
        calls: list[w.ToolCall] = []
        for number in range(turn * self.width, (turn + 1) * self.width):
            if number < len(STEPS) * self.rounds:
                name, arguments = STEPS[number % len(STEPS)]
                if name == "create_counter" and number >= len(STEPS):
                    arguments = {"id": f"a{number}"}
                calls.append(w.ToolCall(f"c{number}", name, arguments))
        if not calls:
            return w.Response(w.Message("assistant", "all done"), w.Usage(10, 5))
        return w.Response(w.Message("assistant", tuple(calls)), w.Usage(10, 5), "tool_use")


def place_of(scene: Scene) -> str:
    """Return a file in the scene's folder, or a schema at the given server."""
    server = scene.params.get("postgres")
    if server is None:
        return f"sqlite:///{scene.folder / 'runs.db'}"
    name = "r" + hashlib.sha256(str(scene.folder).encode()).hexdigest()[:20]
    return Server(Path(server)).schema(name)


async def scenario(scene: Scene) -> str:
    """Run to the end, from wherever an earlier process left it."""
    async with w.Runtime(store=place_of(scene), environ={}, resources=[Counter_, Entry]) as scope:
        agent = Agent(
            Pure(scene.params["width"], scene.params["rounds"]),
            tools=scope.tools(ANN),
            max_turns=1000,
            max_concurrent_tools=scene.params["width"],
        )
        try:
            out = await agent.resume(SESSION)
        except NoSuchSession:
            out = await agent.run("go", session_id=SESSION, caller=ANN)
    assert out.status == "done", (out.status, out.stop_reason, out.error)
    return out.final_text


async def check(scene: Scene) -> dict[str, Any]:
    """Check that effects, audit rows and journal results are the same multiset."""
    problems: list[str] = []
    store = open_store(place_of(scene))
    await store.verify(SESSION)
    entries = await store.read(SESSION)
    rows = await audit.query(store, session=SESSION)
    kept = await store.consult(_select("SELECT id, n, _version FROM counter ORDER BY id"))
    entries_kept = await store.consult(_select("SELECT amount FROM entry ORDER BY id"))
    await store.aclose()
    audit.verify(rows)
    results = [e for e in entries if type(e) is ToolResulted]
    counts = Counter(e.call_id for e in results)
    problems += [f"{call} has {n} results" for call, n in counts.items() if n != 1]
    done = Counter(
        (e.call_id, e.tool, e.outcome)
        for e in results
        if e.outcome in ("ok", "denied") and e.tool.split("_")[0] not in READS
    )
    audited = Counter((str(r.call), r.tool, r.outcome) for r in rows if r.verb not in READS)
    if done != audited:
        problems.append(f"on record {done - audited}, audited {audited - done}")
    # a read that another writer's run has closed meanwhile did happen: it may be on the log alone
    closed = {e.call_id for e in results if e.outcome == "not_run"}
    if {r.call for r in rows if r.verb in READS} - closed != {
        e.call_id for e in results if e.tool.split("_")[0] in READS and e.outcome == "ok"
    }:
        problems.append("a read is not audited")
    adds = [e for e in results if e.tool in ("add_counter", "fetch_counter") and e.outcome == "ok"]
    if len(entries_kept) != len(adds):
        problems.append(f"{len(entries_kept)} entries for {len(adds)} calls")
    changed = Counter(
        change["id"]
        for r in rows
        for change in json.loads(r.changes)
        if change["resource"] == "counter"
    )
    if changed != Counter({id: version for id, _, version in kept}):
        problems.append(f"audited {changed}, and the rows say {kept}")
    state = [kept, entries_kept] if scene.params["width"] == 1 else None
    return {"state": state, "problems": tuple(problems)}


def _select(sql: str) -> Any:
    return lambda tx: [tuple(row) for row in tx.execute(sql).fetchall()]

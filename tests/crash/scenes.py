"""Runs to be killed: an agent with tools of every kind, a model that is a pure function of the request.

The keyed tool calls a service that honours idempotency keys (one charge per key, every attempt in its
book); the transactional one inserts rows that nothing keeps from being inserted twice; the plain one
writes to the effect log, which never de-duplicates.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from pathlib import Path

import windlass as w
from windlass.agents.agent import Agent  # loaded once, in the process that all others fork from
from windlass.errors import NoSuchSession, WindlassError
from windlass.events import JournalEntry, Replied, RunEnded, RunStarted, ToolResulted
from windlass.loop.requests import requests_of
from windlass.models.history import audit
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.store.view import messages_of
from windlass.testing import EffectLog
from windlass.testing.kill import Scene, Seen
from windlass.testing.postgres import Server

assert sqlite_store.SqliteStore
SESSION = "s"
WIRE = AnthropicMessages("claude-test", api_key="not-a-key")


def schema_of(scene: Scene) -> str:
    return "k" + hashlib.sha256(str(scene.folder).encode()).hexdigest()[:20]


def store_of(scene: Scene) -> str:
    """Return a file in the scene's folder, or a schema at the given server."""
    server = scene.params.get("postgres")
    if server is None:
        return f"sqlite:///{scene.folder / 'runs.db'}"
    return Server(Path(server)).schema(schema_of(scene))


def digest(request: w.Request) -> str:
    return hashlib.sha256(b"".join(WIRE.encode(request))).hexdigest()[:16]


class Pure(w.Model):
    """Answers by how many turns it has had; notes the bytes of every request it gets."""

    provider, name = "pure", "pure"

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.sent = EffectLog(scene.folder / "sent.jsonl")

    async def respond(self, request, emit):
        self.sent.write(digest(request))
        turn = sum(message.role == "assistant" for message in request.messages)
        usage = w.Usage(10, 5)
        if turn >= self.scene.params["turns"]:
            return w.Response(w.Message("assistant", "all done"), usage)
        names = self.scene.params["tools"]
        width = self.scene.params.get("width", 1)
        calls = []
        for place in range(width):
            number = turn * width + place
            name = names[number % len(names)]
            calls.append(w.ToolCall(f"c{number}", name, {"n": number}))
        return w.Response(w.Message("assistant", tuple(calls)), usage, "tool_use")


def tools_of(scene: Scene) -> list[w.Tool]:
    book = EffectLog(scene.folder / "charges.jsonl")

    @w.tool(keyed=True)
    async def charge(ctx: w.ToolContext[None], n: int) -> str:
        """Charge a card."""
        book.write(f"{ctx.idempotency_key}", n=n)
        return f"charged {n}"

    @w.tool(transactional=True)
    async def reserve(ctx: w.ToolContext[None], n: int) -> str:
        """Reserve a seat."""

        def body(tx):
            tx.execute("create table if not exists seats (n integer)")
            tx.execute("insert into seats values (?)", (n,))
            return f"reserved {n}"

        return await ctx.commit(body)

    @w.tool
    async def mail(n: int) -> str:
        """Send a letter."""
        scene.effects.write(f"mail:{n}")
        return f"sent {n}"

    @w.tool
    def fax(n: int) -> str:
        """Send a fax, from a thread."""
        scene.effects.write(f"fax:{n}")
        return f"faxed {n}"

    @w.tool(side_effect_level="read_only")
    async def look(n: int) -> str:
        """Look something up."""
        return f"seen {n}"

    ask = w.Tool(name="ask", description="Ask a person.", parameters={"n": {"type": "integer"}})
    known = {tool.name: tool for tool in (charge, reserve, mail, fax, look, ask)}
    return [known[name] for name in dict.fromkeys(scene.params["tools"])]


async def scenario(scene: Scene) -> str:
    """Run the agent to its end, from wherever an earlier process left it."""
    agent = Agent(
        Pure(scene),
        tools=tools_of(scene),
        max_turns=1000,
        max_concurrent_tools=scene.params.get("concurrency", 1),
    )
    async with w.Runtime(store=store_of(scene)):
        try:
            out = await agent.resume(SESSION)
        except NoSuchSession:
            out = await agent.run("go", session_id=SESSION)
        while out.status == "suspended":
            answers = {call.id: f"answer {call.arguments['n']}" for call in out.pending}
            out = await agent.resume(SESSION, results=answers)
    assert out.status == "done", (out.status, out.stop_reason, out.error)
    return out.final_text


async def check(scene: Scene) -> dict:
    """Check for a journal that verifies, one effect per call, and the same requests."""
    problems: list[str] = []
    store = open_store(store_of(scene))
    await store.verify(SESSION)
    entries = await store.read(SESSION)
    paid = Counter((c.run, c.input_tokens, c.tool_calls) for c in await store.calls())
    await store.aclose()
    problems += audit([*messages_of(entries), w.Message("user", "next")])
    results = Counter(e.call_id for e in entries if type(e) is ToolResulted)
    problems += [f"{call} has {count} results" for call, count in results.items() if count != 1]
    replies = [e for e in entries if type(e) is Replied]
    if len(replies) != scene.params["turns"] + 1:
        problems.append(f"{len(replies)} replies")
    run_id = next(e.run_id for e in entries if type(e) is RunStarted)
    if paid != Counter((run_id, e.usage.input_tokens, len(e.message.tool_calls)) for e in replies):
        problems.append(f"the books say {sorted(paid)}, which is not what the journal says")
    if sum(e.status == "done" for e in entries if type(e) is RunEnded) != 1:
        problems.append("not ended once")
    problems += _charges(scene.folder, _done(entries, "charge"))
    problems += _seats(scene, _done(entries, "reserve"))
    unknown = [e for e in entries if type(e) is ToolResulted and e.outcome == "interrupted"]
    if any(e.tool not in ("mail", "fax") for e in unknown):
        problems.append("a call that can be repeated was given up")
    sent = set(EffectLog(scene.folder / "sent.jsonl").counts())
    rebuilt = [digest(request) for request in requests_of(entries)]
    if not set(rebuilt) <= sent:
        problems.append("a rebuilt request was never sent")
    if not unknown and sent != set(rebuilt):
        problems.append("a request was sent that the journal cannot rebuild")
    seen = Seen(
        state=rebuilt if not scene.params.get("unknowns") else None,
        unknown=tuple(f"{e.tool}:{e.call_id[1:]}" for e in unknown),
        problems=tuple(problems),
    )
    return {"state": seen.state, "unknown": seen.unknown, "problems": seen.problems}


def _done(entries: list[JournalEntry], tool: str) -> set[int]:
    """Return the calls of the tool that the journal records as made."""
    results = [e for e in entries if type(e) is ToolResulted]
    return {int(e.call_id[1:]) for e in results if e.tool == tool and e.outcome == "ok"}


def _charges(folder: Path, done: set[int]) -> list[str]:
    keys: dict[int, set[str]] = {}
    for line in EffectLog(folder / "charges.jsonl").read():
        keys.setdefault(line["n"], set()).add(line["key"])
    problems = [f"charge {n} was made under {len(k)} keys" for n, k in keys.items() if len(k) != 1]
    if keys.keys() != done:
        problems.append(f"charged {sorted(keys)}, and on record are {sorted(done)}")
    return problems


def _seats(scene: Scene, done: set[int]) -> list[str]:
    rows = _reserved(scene)
    problems = [f"seat {n} was reserved {count} times" for n, count in rows if count != 1]
    if {n for n, _ in rows} != done:
        problems.append(f"reserved {sorted(rows)}, and on record are {sorted(done)}")
    return problems


def _reserved(scene: Scene) -> list[tuple[int, int]]:
    """Count each reserved seat; none, where no table was created."""
    asked = "select n, count(*) from seats group by n"
    if server := scene.params.get("postgres"):
        try:
            found = Server(Path(server)).sql(f"set search_path = {schema_of(scene)}; {asked}")
        except WindlassError:
            return []
        return [(int(n), int(count)) for n, count in (r.split("|") for r in found.splitlines())]
    connection = sqlite3.connect(scene.folder / "runs.db")
    try:
        return connection.execute(asked).fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()

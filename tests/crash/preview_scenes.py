"""A preview, an approval, the run by that plan, and an undo of it all: to be killed anywhere.

The plain tool and its undo write to the effect log, which never de-duplicates; the keyed one has a
book of its own; rows are in the store.
"""

from __future__ import annotations

import json
from typing import Any

import windlass as w
from windlass.agents.agent import Agent
from windlass.errors import NoSuchSession
from windlass.events import EffectPlanned, PlanUsed, ToolDecided, ToolResulted, UndoBegun, UndoEnded
from windlass.models.history import audit as audited
from windlass.resources import audit
from windlass.sessions.effect_plans import approve_plan, plan_of
from windlass.sessions.undo import undo
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.store.view import messages_of
from windlass.testing import EffectLog
from windlass.testing.kill import Scene, Seen

assert sqlite_store.SqliteStore
PREVIEW, REAL, TASK = "p", "r", "t0"
ANN = w.Caller("ann", (), "acme")


class Jar(w.Resource):
    id: str
    n: int = 0
    path = "jar"


class Boss(w.Model):
    """Hands the work to the clerk."""

    provider, name = "boss", "boss"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        if any(message.role == "assistant" for message in request.messages):
            return w.Response(w.Message("assistant", "all done"), w.Usage(10, 5))
        calls = (w.ToolCall(TASK, "clerk", {"task": "go"}),)
        return w.Response(w.Message("assistant", calls), w.Usage(10, 5), "tool_use")


class Pure(w.Model):
    """Makes a jar, charges and mails in one turn, fills the jar that was made, looks, and ends."""

    provider, name = "pure", "pure"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        turn = sum(message.role == "assistant" for message in request.messages)
        made = next(
            (
                r
                for m in request.messages
                for r in m.content
                if getattr(r, "id", "") == "c0" and isinstance(r, w.ToolResult)
            ),
            None,
        )
        calls: list[w.ToolCall] = []
        if turn == 0:
            calls = [w.ToolCall("c0", "create_jar", {"n": 1})]
        elif turn == 1:
            calls = [
                w.ToolCall("k1", "charge", {"n": 1}),
                w.ToolCall("m1", "mail", {"n": 1}),
                w.ToolCall("m2", "mail", {"n": 1}),
            ]
        elif turn == 2 and made is not None:
            id = json.loads(made.text)["id"]
            calls = [
                w.ToolCall("u2", "update_jar", {"id": id, "values": {"n": 7}}),
                w.ToolCall("g2", "get_jar", {"id": id}),
            ]
        if not calls:
            return w.Response(w.Message("assistant", "all done"), w.Usage(10, 5))
        return w.Response(w.Message("assistant", tuple(calls)), w.Usage(10, 5), "tool_use")


def tools_of(scene: Scene) -> list[Any]:
    book = EffectLog(scene.folder / "charges.jsonl")

    async def unmail(args: Any, result: Any, ctx: w.ToolContext[None]) -> None:
        scene.effects.write(f"unmail:{ctx.call_id}")

    async def uncharge(args: Any, result: Any, ctx: w.ToolContext[None]) -> None:
        book.write(ctx.idempotency_key)

    @w.tool(keyed=True, undo=uncharge)
    async def charge(ctx: w.ToolContext[None], n: int) -> str:
        """Charge a card."""
        book.write(ctx.idempotency_key)
        return f"charged {n}"

    @w.tool(undo=unmail)
    async def mail(ctx: w.ToolContext[None], n: int) -> str:
        """Send a letter."""
        scene.effects.write(f"mail:{ctx.session_id}:{ctx.call_id}")
        return f"sent {n}"

    return [charge, mail]


async def scenario(scene: Scene) -> str:
    """Preview, approve, run and undo, each from wherever an earlier process left it."""
    place = f"sqlite:///{scene.folder / 'runs.db'}"
    async with w.Runtime(store=place, environ={}, resources=[Jar]) as scope:
        tools = [*tools_of(scene), *scope.tools()]
        agent = Agent(Pure(), tools=tools, max_concurrent_tools=scene.params["width"], caller=ANN)
        if scene.params["delegated"]:
            agent = Agent(Boss(), tools=[agent.as_tool("clerk")], caller=ANN)
        out = await _gone_on(agent, PREVIEW, dry_run="plan")
        assert out.status == "done", (out.status, out.error)
        if (await plan_of(PREVIEW)).approved_by is None:
            await approve_plan(PREVIEW, name="eve")
        out = await _gone_on(agent, REAL, plan=PREVIEW)
        assert out.status == "done", (out.status, out.stop_reason, out.error)
        await undo(worked(scene), tools=tools, name="eve")
    return out.final_text


def worked(scene: Scene) -> str:
    """Return the session that did the work."""
    return f"{REAL}.{TASK}" if scene.params["delegated"] else REAL


async def _gone_on(agent: Agent[Any, Any], session_id: str, **options: Any) -> Any:
    try:
        return await agent.resume(session_id)
    except NoSuchSession:
        return await agent.run("go", session_id=session_id, **options)


async def check(scene: Scene) -> Seen:
    """Check that the plan was done once without questions, and undone once."""
    store = open_store(f"sqlite:///{scene.folder / 'runs.db'}")
    session = worked(scene)
    preview, real = await store.read(PREVIEW), await store.read(session)
    for session_id in (PREVIEW, REAL, session):
        await store.verify(session_id)
    rows = await audit.query(store)
    audit.verify(rows)
    rows = [row for row in rows if row.verb != "get"]
    left = await store.consult(lambda tx: tx.execute("SELECT count(*) FROM jar").fetchone()[0])
    await store.aclose()
    problems = audited([*messages_of(real), w.Message("user", "next")])
    planned = [e.call_id for e in preview if type(e) is EffectPlanned]
    if planned != ["c0", "k1", "m1", "m2", "u2"]:
        problems.append(f"planned: {planned}")
    if sum(type(e) is PlanUsed for e in preview) != 1:
        problems.append("the plan was not used once")
    decisions = [e for e in real if type(e) is ToolDecided]
    by_plan = sorted(e.call_id for e in decisions if e.action == "allow" and e.rule[-4:] == "plan")
    if by_plan != ["c0", "k1", "m1", "m2", "u2"] or any(e.action == "ask" for e in decisions):
        problems.append(f"by the plan ran {by_plan}")
    if [(r.verb, r.call) for r in rows] != [
        ("create", "c0"),
        ("update", "u2"),
        ("undo", "u2"),
        ("undo", "c0"),
    ] or left:
        problems.append(f"rows: {[(r.verb, r.call) for r in rows]}, {left} left")
    charges = set(EffectLog(scene.folder / "charges.jsonl").counts())
    if charges != {f"{session}:k1", f"{session}:k1:undo"}:
        problems.append(f"charged as {charges}")
    results = {e.call_id: e.outcome for e in real if type(e) is ToolResulted}
    lost = {call for call in ("m1", "m2") if results.get(call) == "interrupted"}
    begun = {e.call_id for e in real if type(e) is UndoBegun}
    ended = [e.call_id for e in real if type(e) is UndoEnded]
    if len(ended) != len(set(ended)):
        problems.append("something was undone twice")
    unknown = [f"mail:{session}:{call}" for call in lost]
    unknown += [f"unmail:{call}" for call in ("m1", "m2") if call in lost | (begun - set(ended))]
    outcomes = {call: outcome for call, outcome in results.items() if call[0] != "m"}
    return Seen(state=sorted(outcomes.items()), unknown=tuple(unknown), problems=tuple(problems))

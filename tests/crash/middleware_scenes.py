"""A run with everything around its tool calls, to be killed: consent that asks, a limit, retries, a
caller, receipts, a callback that changes options, a sidecar.

The keyed tool fails at its first attempt; the plain one writes to the effect log, which never
de-duplicates, and fails at its first attempt before it does so.
"""

from __future__ import annotations

import json
from typing import Any

import windlass as w
from tests.crash.pure_model import (
    Noting,
    calling,
    digest,
    finish,
    record,
    said,
    sent,
)
from windlass.agents.agent import Agent
from windlass.events import ToolDecided, ToolResulted
from windlass.loop.requests import requests_of
from windlass.models.history import audit
from windlass.store.view import messages_of
from windlass.testing import EffectLog
from windlass.testing.kill import Scene, Seen

TURNS, MOST = 4, 9


class Pure(Noting):
    """Charges, mails and reports in every turn; answers by how many turns it has had."""

    async def answer(self, request: w.Request) -> w.Response:
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn >= TURNS:
            return said("all done")
        calls = [w.ToolCall(f"{name[0]}{turn}", name, {"n": turn}) for name in ("charge", "mail")]
        report = w.ToolCall(f"p{turn}", "agent_progress", {"message": f"turn {turn}"})
        return calling(*calls, report)


def agent_of(scene: Scene) -> Agent[Any, Any]:
    """Build the agent; what it must not do twice is in the effect log."""
    book = EffectLog(scene.folder / "charges.jsonl")

    @w.tool(keyed=True)
    async def charge(ctx: w.ToolContext[None], n: int) -> str:
        """Charge a card."""
        if ctx.attempt == 1:
            raise OSError("try later")
        book.write(ctx.idempotency_key, n=n)
        return f"charged {n}"

    @w.tool
    async def mail(ctx: w.ToolContext[None], n: int) -> str:
        """Send a letter."""
        if ctx.attempt == 1:
            raise OSError("try later")
        scene.effects.write(f"mail:{n}")
        return f"sent {n}"

    async def caller(asked: Any, next: Any) -> Any:
        return await next(asked)

    def after(turn: Any) -> Any:
        if turn.iteration == 0:
            return {"message": "Go on.", "next_options": {"temperature": 0.5}}
        return {"llm_options": {"seed": 2}} if turn.iteration == 2 else None

    return Agent(
        Pure(scene),
        tools=[charge, mail],
        tool_retries=2,
        tool_backoff_ms=0,
        tool_caller=caller,
        consent=lambda asked: "ask" if asked.arguments.get("n") == 1 else True,
        rate_limit={"max_calls": MOST},
        progress_tool=True,
        audit_sink=lambda record: None,
        post_turn_callback=after,
        llm_transcript_dir=str(scene.folder / "side"),
        max_turns=100,
        max_concurrent_tools=scene.params.get("concurrency", 1),
    )


async def scenario(scene: Scene) -> str:
    """Run the agent to its end, from wherever an earlier process left it."""
    agent = agent_of(scene)
    return await finish(agent, scene, "go")


async def check(scene: Scene) -> Seen:
    """Check for one result per call, no letter twice, the limit, and rebuilt requests."""
    entries = await record(scene)
    problems = audit([*messages_of(entries), w.Message("user", "next")])
    results = {e.call_id: e for e in entries if type(e) is ToolResulted}
    if sum(type(e) is ToolResulted for e in entries) != len(results):
        problems.append("a call has two results")
    allowed = {e.call_id for e in entries if type(e) is ToolDecided and e.action == "allow"}
    if len(allowed) != MOST:
        problems.append(f"{len(allowed)} calls were let through")
    rebuilt = [request for request in requests_of(entries)]
    if not {digest(request) for request in rebuilt} <= sent(scene):
        problems.append("a rebuilt request was never sent")
    settings = [(r.settings.temperature, r.settings.seed) for r in rebuilt]
    if settings != [(None, None), (0.5, None), (0.5, None), (0.5, 2), (0.5, 2)]:
        problems.append(f"other settings were sent: {settings}")
    for line in (scene.folder / "side" / "llm_transcript.jsonl").read_text().splitlines():
        json.loads(line)
    unknown = tuple(
        f"mail:{call_id[1:]}" for call_id, e in results.items() if e.outcome == "interrupted"
    )
    outcomes = {call_id: e.outcome for call_id, e in results.items() if not call_id.startswith("m")}
    return Seen(state=sorted(outcomes.items()), unknown=unknown, problems=tuple(problems))

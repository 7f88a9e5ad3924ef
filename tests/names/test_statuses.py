"""Every status and stop reason of the heart is reached by some run, and every transcript kind shown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.names import core
from windlass.engine.transcript import transcript_of
from windlass.testing import call, run_virtual, scripted

ask = w.Tool("ask", "Ask.", {})


@w.tool
async def look() -> str:
    """Look."""
    return "seen"


@w.tool
async def stubborn() -> str:
    """Will not let go."""
    for _ in range(2):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            continue
    return "gone"


class Breaks(w.Policy[None]):
    async def after_turn(self, run: w.Run, turn: w.Turn) -> None:
        raise RuntimeError("no")


RUNS: dict[str, dict[str, Any]] = {
    "done": {"model": lambda: scripted("x")},
    "stuck": {
        "model": lambda: scripted(then="x"),
        "loop_until_done": True,
        "max_nudges": 1,
        "done_sentinel": "FIN",
    },
    "budget_exhausted": {"model": lambda: scripted(call("look")), "max_iterations": 1},
    "provider_error": {"model": lambda: scripted(then=w.Overloaded("busy"))},
    "cancelled": {"model": lambda: scripted("x", delay=60), "abort": 1},
    "cancelling": {"model": lambda: scripted(call("stubborn")), "abort": 1},
    "suspended": {"model": lambda: scripted(call("ask"))},
    "failed": {"model": lambda: scripted("x"), "policies": [Breaks()]},
    "idle": {"model": lambda: scripted("x"), "daemon": True},
    "watchdog": {"model": lambda: scripted("x"), "daemon": True, "idle_watchdog_attempts": 0},
}


@pytest.mark.parametrize("status", core.STATUSES)
def test_a_status_is_reached(status: str):
    async def story() -> None:
        options = dict(RUNS[status])
        options["model"] = options["model"]()
        if options.pop("abort", None):
            options["abort"] = brake = w.Abort()
            asyncio.get_running_loop().call_later(1, brake.abort)
        out = await w.agent_loop("go", tools=[look, ask, stubborn], **options)
        assert out.status == status
        await asyncio.sleep(60)

    run_virtual(story())


@pytest.mark.parametrize(
    ("reason", "options"),
    [
        ("sentinel", {"model": lambda: scripted("##DONE##"), "loop_until_done": True}),
        ("natural", {"model": lambda: scripted("x")}),
        ("max_nudges", {"model": lambda: scripted(then="x"), "loop_until_done": True}),
    ],
)
async def test_a_stop_reason_is_reached(reason: str, options: dict[str, Any]):
    assert reason in core.STOP_REASONS
    out = await w.agent_loop("go", **{**options, "model": options["model"]()})
    assert out.stop_reason == reason


async def test_every_transcript_kind_is_shown():
    class Plans(w.Policy[None]):
        async def after_turn(self, run: w.Run, turn: w.Turn) -> None:
            for kind in ("plan", "transcript_archive"):
                run.note(kind, "words")

    summary = w.Thinking("in short", opaque={"summary": []})
    thinking = [w.Thinking("hm"), summary, call("look"), call("ask")]
    model = scripted(thinking, "ok", then="x")
    agent = w.Agent(model, tools=[look, ask], policies=[Plans()])
    out = await agent.run("go", session_id="s")
    await agent.resume("s", results={out.pending[0].id: "yes"})
    await w.agent_session_reset("s")
    await agent.with_(model=scripted(call("ask"))).run("again", session_id="s")
    await agent.run("never mind", session_id="s", on_pending="discard")
    fork = await w.agent_session_fork("s", "f")
    seen = {e["kind"] for e in transcript_of((await w.agent_session_read("s")).entries)["events"]}
    seen |= {e["kind"] for e in fork.transcript["events"]}
    assert set(core.TRANSCRIPT_KINDS) <= seen, set(core.TRANSCRIPT_KINDS) - seen

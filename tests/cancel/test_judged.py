"""Cancel a judged run anywhere: judges, checks and functions that take their time."""

from __future__ import annotations

import asyncio
from typing import Any

import windlass as w
from tests.cancel.abort_points import EVERY
from tests.cancel.test_cancel import SESSION, check, look, send
from windlass.testing import call, cancel_sweep, scripted
from windlass.testing.cancel import Trial

PASS, DONE, MORE = (call("give_verdict", verdict=word) for word in ("pass", "done", "continue"))


async def slow_check() -> str | None:
    """Agrees, in its own time."""
    await asyncio.sleep(0.005)


async def slow_control(state: w.LoopState) -> Any:
    """Extends, in its own time."""
    await asyncio.sleep(0.003)
    return {"action": "extend"} if state.budget.remaining == 0 else None


def agent() -> w.Agent[Any, Any]:
    again = call("send", n=1)
    replies = [again, PASS, again, "draft", PASS, DONE, MORE, call("look", n=1), "end", PASS]
    return w.Agent(
        scripted(*replies, DONE, DONE, delay=0.01),
        tools=[look, send],
        step_judge={},
        verify_completion=[slow_check],
        verify_completion_judge=True,
        done_judge=True,
        stall_diagnostics={"threshold": 2},
        loop_detection=True,
        iteration_budget={"mode": "adaptive", "initial": 2, "max": 9},
        loop_control=slow_control,
        require_successful_tools=["send"],
        native_tool_fallback="reject",
        loop_until_done=True,
    )


async def run(trial: Trial) -> Any:
    abort = trial.notes.setdefault("abort", w.Abort())
    async with w.Runtime() as runtime:
        trial.notes["runtime"] = runtime
        return await agent().run("go", session_id=SESSION, abort=abort)


async def test_left_alone_it_comes_to_its_end():
    out = await agent().run("go")
    assert (out.status, out.output, out.done_judge["invocations"]) == ("done", "end", 2)
    assert out.suspected_loop and len(out.checks) == 2


def test_a_judged_run_interrupted_at_every_step():
    report = cancel_sweep(
        run,
        modes=("cancel", "abort", "timeout", "sigint"),
        abort=lambda trial: trial.notes.setdefault("abort", w.Abort()).abort(),
        check=check,
        every=EVERY,
    )
    report.assert_ok()

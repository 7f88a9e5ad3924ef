"""Cancel a run anywhere while its guardrails are at work: no task of theirs is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.cancel.abort_points import EVERY
from tests.cancel.test_cancel import SESSION, check, look
from windlass.testing import call, cancel_sweep, scripted
from windlass.testing.cancel import Trial


async def slow(text: str) -> str | None:
    """Pass, after a while, and take a moment to end when it is cancelled."""
    try:
        await asyncio.sleep(0.02)
    finally:
        await asyncio.sleep(0.01)


async def trip(text: str) -> str | None:
    """Stop what says so."""
    await asyncio.sleep(0.005)
    return "forbidden" if "forbidden" in text else None


def build_agent(answer: str = "end") -> w.Agent[Any, Any]:
    return w.Agent(
        scripted(call("look", n=1), answer, delay=0.01),
        tools=[look],
        input_guardrails=[slow, trip],
        output_guardrails=[trip, slow],
    )


@pytest.mark.parametrize(
    ("prompt", "answer"), [("go", "end"), ("forbidden", ""), ("go", "forbidden")]
)
async def test_guardrail_that_trips_leaves_no_task_of_the_others(prompt: str, answer: str):
    before = asyncio.all_tasks()
    out = await build_agent(answer or "end").run(prompt)
    assert out.status == ("done" if answer == "end" else "blocked")
    assert asyncio.all_tasks() == before


def test_interrupted_at_every_step():
    async def run(trial: Trial) -> Any:
        abort = trial.notes.setdefault("abort", w.Abort())
        async with w.Runtime() as runtime:
            trial.notes["runtime"] = runtime
            return await build_agent().run("go", session_id=SESSION, abort=abort)

    report = cancel_sweep(
        run,
        modes=("cancel", "abort", "timeout", "sigint"),
        abort=lambda trial: trial.notes.setdefault("abort", w.Abort()).abort(),
        check=check,
        every=EVERY,
    )
    report.assert_ok()

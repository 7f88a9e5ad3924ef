"""Cancel it anywhere: every call has its result, nothing is left behind, and it returns at once."""

from __future__ import annotations

import asyncio

import pytest

import windlass as w
from tests.cancel.abort_points import EVERY
from windlass.events import RunEnded, RunStarted, ToolDecided, ToolIntended, ToolResulted
from windlass.models.history import audit
from windlass.store.view import messages_of
from windlass.testing import call, cancel_sweep, scripted
from windlass.testing.cancel import Trial

SESSION = "s"
TURNS = 3


@w.tool(side_effect_level="read_only")
async def look(n: int) -> int:
    """Look."""
    await asyncio.sleep(0.01 * n)
    return n


@w.tool
async def send(n: int) -> int:
    """Send."""
    await asyncio.sleep(0.02)
    return n


@w.tool(keyed=True)
async def charge(ctx: w.ToolContext[None], n: int) -> int:
    """Charge."""
    await asyncio.sleep(0)
    return n


@w.tool(transactional=True)
async def book(ctx: w.ToolContext[None], n: int) -> int:
    """Book."""

    def body(tx):
        tx.execute("create table if not exists seats (n)")
        tx.execute("insert into seats values (?)", (n,))
        return n

    return await ctx.commit(body)


class Judge(w.Policy[None]):
    """Takes its time, with a model call of its own, at every moment that may wait."""

    async def after_turn(self, run, turn):
        await asyncio.sleep(0.005)

    async def before_tool(self, run, call):
        await asyncio.sleep(0.001)

    async def before_finish(self, run, turn, finish):
        await run.ask(w.Request((w.Message("user", "done?"),)), "judge")

    async def end(self, run, outcome):
        await asyncio.sleep(0.01)
        return outcome


def replies(shape: str):
    for turn in range(1, TURNS):
        if shape == "serial":
            yield call("send", n=turn)
            yield [call("charge", n=turn), call("book", n=turn)]
        elif shape == "eager":
            yield ["Looking.", call("look", n=turn), call("look", n=5), call("send", n=turn)]
        else:
            yield [call("look", n=turn), call("send", n=turn), call("charge", n=turn)]
    yield "That is all."
    yield "yes"  # for the judge


def agent_of(shape: str) -> w.Agent:
    model = scripted(*replies(shape), delay=0.01, stream=True)
    return w.Agent(
        model,
        tools=[look, send, charge, book],
        max_turns=50,
        max_concurrent_tools=1 if shape == "serial" else 4,
        policies=[Judge()] if shape == "judged" else [],
    )


SHAPES = ["serial", "parallel", "eager", "judged"]


def run_of(shape: str):
    async def run(trial: Trial):
        abort = trial.notes.setdefault("abort", w.Abort())
        async with w.Runtime() as runtime:
            trial.notes["runtime"] = runtime
            return await agent_of(shape).run("go", session_id=SESSION, abort=abort)

    return run


def stream_of(shape: str):
    def stream(trial: Trial):
        trial.notes["runtime"] = runtime = w.Runtime()
        return agent_of(shape).stream("go", session_id=SESSION, store=runtime.memory)

    return stream


async def check(trial: Trial) -> list[str]:
    runtime = trial.notes.get("runtime")
    if runtime is None:
        return []  # it was stopped before it began
    infos = await runtime.memory.sessions()
    if not infos:
        return []
    entries = await runtime.memory.read(SESSION)
    problems = audit([*messages_of(entries), w.Message("user", "next")])
    started = [e for e in entries if type(e) is RunStarted]
    ended = [e for e in entries if type(e) is RunEnded]
    if started and len(ended) != 1:
        problems.append(f"{len(ended)} ends")
    if ended and ended[0].status not in ("cancelled", "done"):
        problems.append(f"ended as {ended[0].status}: {ended[0].error}")
    decided = {e.call_id for e in entries if type(e) is ToolDecided}
    for entry in entries:
        if type(entry) is ToolIntended and entry.call_id not in decided:
            problems.append(f"{entry.call_id} started without a decision")
    results = [e.call_id for e in entries if type(e) is ToolResulted]
    if len(results) != len(set(results)):
        problems.append("a call has two results")
    await runtime.memory.verify(SESSION)
    journal = await runtime.memory.open(SESSION)  # nobody holds it any more
    await journal.close()
    return problems


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_interrupted_at_every_step(shape):
    report = cancel_sweep(
        run_of(shape),
        modes=("cancel", "abort", "timeout", "sigint"),
        abort=lambda trial: trial.notes.setdefault("abort", w.Abort()).abort(),
        check=check,
        every=EVERY,
    )
    print(f"\n{shape}: {report}")
    report.assert_ok()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_stream_left_at_every_step(shape):
    report = cancel_sweep(
        run_of(shape), modes=("aclose",), stream=stream_of(shape), check=check, every=EVERY
    )
    print(f"\n{shape}: {report}")
    report.assert_ok()

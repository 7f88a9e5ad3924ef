"""A worker that is told to end at each point of a run: it hands over, and nothing is cancelled or repeated."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import windlass as w
from windlass import seams
from windlass.events import RunEnded
from windlass.runtime.runtime import Runtime
from windlass.testing import call, scripted

GRACE = 20.0


class Shop:
    """An agent with tools of three kinds, and what they did."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.done: list[str] = []
        self.begun: list[str] = []
        self.at_work = 0
        self.overlap = False

    async def work(self, name: str) -> None:
        """Take some time, alone."""
        self.begun.append(name)
        self.at_work += 1
        self.overlap = self.overlap or self.at_work > 1
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_work -= 1

    def build_agent(self) -> w.Agent[None, str]:
        """Build the agent, as each process does."""

        @w.tool(transactional=True, timeout=600)
        async def pay(ctx: w.ToolContext[None]) -> str:
            """Pay."""
            await self.work("pay")

            def body(tx: Any) -> str:
                tx.execute("CREATE TABLE IF NOT EXISTS paid (n)")
                tx.execute("INSERT INTO paid VALUES (1)")
                return "paid"

            return await ctx.commit(body)

        @w.tool(keyed=True, timeout=600)
        async def charge(ctx: w.ToolContext[None]) -> str:
            """Charge."""
            await self.work("charge")
            self.done.append(f"charge {ctx.idempotency_key}")
            return "charged"

        @w.tool(timeout=600)
        async def mail() -> str:
            """Mail."""
            await self.work("mail")
            self.done.append("mail")
            return "sent"

        def answer(request: w.Request) -> Any:
            made = sum(message.role == "assistant" for message in request.messages)
            return [call("pay"), call("charge"), call("mail"), "Done."][made]

        return w.Agent(scripted(then=answer), name="shop", tools=[pay, charge, mail])


async def _wait_for_end(handle: w.RunHandle) -> Any:
    """Wait for the result without a look at the store each half second of 15 minutes."""
    while True:
        with contextlib.suppress(TimeoutError):
            return await handle.result(timeout=0)
        await asyncio.sleep(10)


async def play(shop: Shop, place: str, at: int | None) -> tuple[Any, list[str], bool]:
    """Run it with a worker that is told to end at a point; another one goes on."""
    points: list[str] = []
    told = asyncio.Event()
    loop = asyncio.get_running_loop()

    def reached(name: str) -> None:
        points.append(name)
        if at is not None and len(points) == at + 1:
            loop.call_soon_threadsafe(told.set)

    async with Runtime(store=place, environ={}) as runtime:
        handle = await runtime.submit("shop", "go")
        worker = runtime.build_worker(shop.build_agent())
        parked = True
        with seams.watch_points(reached):
            serving = asyncio.create_task(worker.serve())
            ended = asyncio.create_task(_wait_for_end(handle))
            waiting = asyncio.create_task(told.wait())
            await asyncio.wait({ended, waiting}, return_when=asyncio.FIRST_COMPLETED)
            parked = await worker.stop(GRACE)
            if not parked:
                worker.leave()  # a process would be gone now
                await worker.driver.wait_until_idle()
            await serving
        count = len(points)
        again = asyncio.create_task(runtime.serve(shop.build_agent()))
        out = await ended
        waiting.cancel()
        again.cancel()
        with pytest.raises(asyncio.CancelledError):
            await again
        paid = await runtime.store.commit(
            lambda tx: tx.execute("SELECT count(*) FROM paid").fetchone()[0]
        )
        return (out, paid), points[:count], parked


@pytest.mark.virtual_time
@pytest.mark.parametrize("seconds", [1.0, 300.0])
async def test_worker_that_is_told_to_end_at_each_point_hands_its_run_over(seconds: float) -> None:
    """Tools of 1 s end within the grace; those of 5 minutes are left behind."""
    (out, paid), points, _ = await play(Shop(seconds), "memory:", None)
    assert (out.status, paid) == ("done", 1)
    assert {
        "model.before_request",
        "tool.after_intent",
        "tool.before_call",
        "tool.before_commit",
    } < set(points)
    late = 0
    for at in range(len(points)):
        shop = Shop(seconds)
        (out, paid), _, parked = await play(shop, "memory:", at)
        late += not parked
        assert (out.status, out.output, paid) == ("done", "Done.", 1), (at, points[at])
        assert not shop.overlap, (at, points[at])
        ends = [entry.status for entry in out.entries if type(entry) is RunEnded]
        assert "cancelled" not in ends, (at, points[at])
        assert (
            len(set(shop.done)) == len([one for one in out.tool_calls if one.outcome == "ok"]) - 1
        )
        assert shop.begun.count("mail") <= 1  # a plain call is never repeated
    assert bool(late) == (seconds > GRACE)

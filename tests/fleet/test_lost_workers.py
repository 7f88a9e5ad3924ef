"""A session is taken over from a worker that is lost, and from nobody else."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

import windlass as w
from windlass import seams
from windlass.errors import StaleWriter
from windlass.events import ToolResulted
from windlass.fleet.driver import Driver
from windlass.fleet.limits import NO_LIMITS
from windlass.fleet.workers import LEASE_SECONDS, WorkerRow, beat, new_worker
from windlass.runtime.runtime import Runtime
from windlass.store.wishes import Wish, read_wish
from windlass.testing import call, scripted

pytestmark = pytest.mark.virtual_time


class Scene:
    """A Runtime with an agent whose tool waits, and drivers that stand for two processes."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.store = runtime, runtime.store
        self.begun, self.release = asyncio.Event(), asyncio.Event()
        self.worked: list[int] = []
        tools = [self._build_tool()]
        replies = [call("work"), "done", "done"]
        self.agent = w.Agent(scripted(*replies), name="writer", tools=tools)
        self.first: WorkerRow = new_worker("local", ("writer@1",), 1, LEASE_SECONDS)
        # The store says that this process writes: only the first worker is one of it.
        assert (self.first.host, self.first.pid) == (socket.gethostname(), os.getpid())

    def _build_tool(self) -> w.Tool:
        @w.tool(keyed=True)
        async def work() -> str:
            """Work until told."""
            self.worked.append(len(self.worked))
            self.begun.set()
            if len(self.worked) == 1:
                await self.release.wait()
            return f"worked {len(self.worked)}"

        return work

    def drive(self, worker: str, session: str) -> asyncio.Task[None]:
        """Drive the session as this worker."""
        driver = Driver(self.runtime, self.store, {"writer@1": self.agent}, worker, NO_LIMITS)
        return asyncio.create_task(driver.drive(session))

    async def beat(self) -> None:
        """Put on record that the first worker is there."""
        await self.store.commit(lambda tx: beat(tx, self.first))

    async def read(self, session: str) -> Wish:
        """Read the wish of a session."""
        wish = await self.store.consult(lambda tx: read_wish(tx, session))
        assert wish is not None
        return wish


async def test_session_is_left_to_a_worker_that_lives_and_taken_from_one_that_is_lost():
    async with Runtime(store="memory:", environ={}) as runtime:
        scene = Scene(runtime)
        handle = await runtime.submit("writer", "go")
        await scene.beat()
        frozen = scene.drive(scene.first.id, handle.session_id)
        await scene.begun.wait()
        # It lives: others look, and look again.
        for _ in range(8):
            await scene.drive("elsewhere/2/other", handle.session_id)
            assert (await scene.read(handle.session_id)).is_wanted
            await seams.sleep(1.5)
        assert len(scene.worked) == 1
        # Now nothing was heard of it for longer than its lease.
        await seams.sleep(LEASE_SECONDS)
        await scene.drive("elsewhere/2/other", handle.session_id)
        out = await handle.result(timeout=5)
        assert out.status == "done"
        assert not (await scene.read(handle.session_id)).is_wanted
        # The first one wakes: what it has is refused, and it ends quietly.
        scene.release.set()
        await frozen
        entries = await scene.store.read(handle.session_id)
        assert [e.result.text for e in entries if type(e) is ToolResulted] == ["worked 2"]


async def test_session_is_taken_from_a_lost_worker_that_had_only_opened_it():
    async with Runtime(store="memory:", environ={}) as runtime:
        scene = Scene(runtime)
        handle = await runtime.submit("writer", "go")
        await scene.beat()
        scene.release.set()
        frozen = await runtime.store.open(handle.session_id)  # and no run is on record yet
        await scene.drive("elsewhere/2/other", handle.session_id)
        assert (await scene.read(handle.session_id)).is_wanted and not scene.worked
        await seams.sleep(LEASE_SECONDS + 1)
        await scene.drive("elsewhere/2/other", handle.session_id)
        assert scene.worked == [0]
        assert (await handle.result()).status == "done"
        with pytest.raises(StaleWriter):
            frozen.flush()


async def test_session_that_somebody_runs_by_hand_is_never_taken():
    async with Runtime(store="memory:", environ={}) as runtime:
        scene = Scene(runtime)
        by_hand = asyncio.create_task(scene.agent.run("by hand", session_id="mine"))
        await scene.begun.wait()
        handle = await runtime.submit("writer", "later", session_id="mine")
        for _ in range(8):  # more looks than tries: it is held, and no try has failed
            await seams.sleep(LEASE_SECONDS / 10)
            await scene.drive("elsewhere/2/other", "mine")
            assert (await scene.read("mine")).is_wanted
        scene.release.set()
        assert (await by_hand).status == "done"
        await seams.sleep(2)
        await scene.drive("elsewhere/2/other", "mine")
        assert (await handle.result(timeout=5)).status == "done"
        assert len(scene.worked) == 1


async def test_later_process_with_the_id_of_a_lost_worker_is_not_taken_for_it():
    """The row of a worker stays for a day; a number of a process is used again sooner."""
    async with Runtime(store="memory:", environ={}) as runtime:
        scene = Scene(runtime)
        await scene.beat()
        await seams.sleep(10 * LEASE_SECONDS)
        by_hand = asyncio.create_task(scene.agent.run("by hand", session_id="mine"))
        await scene.begun.wait()
        await runtime.submit("writer", "later", session_id="mine")
        await scene.drive("elsewhere/2/other", "mine")
        await seams.sleep(2)
        await scene.drive("elsewhere/2/other", "mine")
        scene.release.set()
        out = await by_hand
        assert (out.status, len(scene.worked)) == ("done", 1)

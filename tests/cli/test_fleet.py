"""`windlass worker` and `windlass fleet`: real processes that are killed, told to end, and take over."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import windlass as w
from windlass.store.wishes import read_wish
from windlass.testing import scripted

SHOP = """
    import os, pathlib
    from windlass.testing import call, scripted

    @w.tool
    async def work(n: int) -> str:
        "Work."
        folder = pathlib.Path.cwd()
        (folder / f"began-{n}-{os.getpid()}").touch()
        while not (folder / f"go-{n}").exists():
            await asyncio.sleep(0.01)
        return "ok"

    @w.tool(side_effect_level="read_only")
    def die() -> str:
        "End the process."
        os.kill(os.getpid(), 9)

    slow = w.Agent(scripted(call("work", n=1), call("work", n=2), "done"), name="slow", tools=[work])
    quick = w.Agent(scripted("quick"), name="quick")
    often = w.Agent(scripted(then="often"), name="often")
    deadly = w.Agent(
        scripted(call("die"), "never"), name="deadly", tools=[die], max_resume_attempts=1)
    both = [slow, quick]
"""


@pytest.fixture
def place(project: Path, module) -> str:
    module("shop", SHOP)
    return f"sqlite:///{project}/fleet.db"


def start(place: str, *targets: str) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "windlass", "worker", *targets, "--store", place]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def wait_until(look: Callable[[], Awaitable[object] | object], most: float = 30.0) -> None:
    """Ask again and again for what another process does."""
    until = time.monotonic() + most
    while True:
        found = look()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return
        assert time.monotonic() < until
        await asyncio.sleep(0.02)


async def test_worker_that_is_killed_is_replaced_and_one_that_is_told_hands_over(
    project: Path, place: str
) -> None:
    async with w.Runtime(store=place, environ={}) as runtime:
        handle = await runtime.submit("slow", "go")
        first = start(place, "shop:slow")
        second: subprocess.Popen[bytes] | None = None
        try:
            await wait_until((project / f"began-1-{first.pid}").exists)
            second = start(place, "shop:both")  # stands by
            first.kill()
            first.wait()
            (project / "go-1").touch()
            # The plain tool may have run: it is not run again, and the model goes on.
            (project / "go-2").touch()
            out = await handle.result(timeout=30)
            assert out.status == "done"
            quick = await runtime.submit("quick", "go")
            assert (await quick.result(timeout=30)).output == "quick"
            second.send_signal(signal.SIGTERM)
            assert second.wait(timeout=20) == 0
        finally:
            for one in (first, second):
                if one is not None:
                    one.kill()
                    one.communicate()


async def test_worker_that_is_told_to_end_parks_its_runs_for_the_next(
    project: Path, place: str
) -> None:
    async with w.Runtime(store=place, environ={}) as runtime:
        handle = await runtime.submit("slow", "go")
        first = start(place, "shop:slow")
        try:
            await wait_until((project / f"began-1-{first.pid}").exists)
            first.send_signal(signal.SIGTERM)
            await wait_until(lambda: runtime.store.inbox(handle.session_id))
            (project / "go-1").touch()
            assert first.wait(timeout=20) == 0
        finally:
            first.kill()
            first.communicate()
        wish = await runtime.store.consult(lambda tx: read_wish(tx, handle.session_id))
        assert wish is not None and wish.is_wanted
        assert (await runtime.store.info(handle.session_id)).status == "suspended"
        (project / "go-2").touch()
        again = w.Agent(scripted("finished here"), name="slow", tools=[_work_tool()], max_turns=5)
        serving = asyncio.create_task(runtime.serve(again))
        out = await handle.result(timeout=30)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert (out.status, out.output) == ("done", "finished here")
        assert [one.outcome for one in out.tool_calls] == ["ok"]


def _work_tool():
    @w.tool
    async def work(n: int) -> str:
        """Work."""
        return "ok"

    return work


async def _has_ended(worker: subprocess.Popen[bytes], handle: w.RunHandle) -> bool:
    return worker.poll() is not None or await handle.status() == "failed"


async def test_run_that_kills_its_worker_each_time_ends_as_poison(
    project: Path, place: str
) -> None:
    async with w.Runtime(store=place, environ={}) as runtime:
        handle = await runtime.submit("deadly", "go")
        for _ in range(8):
            if await handle.status() == "failed":
                break
            worker = start(place, "shop:deadly")
            try:
                await wait_until(lambda worker=worker: _has_ended(worker, handle))
            finally:
                worker.kill()
                worker.communicate()
        out = await handle.result(timeout=5)
        assert (out.status, out.stop_reason) == ("failed", "poison")


async def test_fleet_shows_workers_queues_and_what_is_stuck(windlass, place: str) -> None:
    async with w.Runtime(store=place, environ={}) as runtime:
        await runtime.submit("nobody@3", "go")
        done = await (await runtime.submit(w.Agent(scripted("x"), name="known"), "go")).result(
            timeout=30
        )
        assert done.status == "done"
        shown = await asyncio.to_thread(windlass, "fleet", "--store", place)
        assert f"/{os.getpid()} " in shown.stdout and "known@1" in shown.stdout
        assert "queue nobody@3: 1 waiting" in shown.stdout
        assert "no worker serves nobody@3" in shown.stdout
        data = json.loads(
            (await asyncio.to_thread(windlass, "fleet", "--store", place, "--json")).stdout
        )
        assert data["queues"][0]["queue"] == "nobody@3" and data["queues"][0]["waiting"] == 1
        assert data["stuck"][0]["agent"] == "nobody@3"


def test_worker_refuses_what_is_no_agent(windlass, module) -> None:
    module("shop", "agent = w.Agent(name='a')\nnameless = w.Agent()\nnumber = 5\nnone = []\n")
    assert "an Agent, a workflow or a list" in windlass("worker", "shop:number", code=2).stderr
    assert "needs a name" in windlass("worker", "shop:nameless", code=2).stderr
    assert "two agents are named" in windlass("worker", "shop:agent", "shop:agent", code=2).stderr
    assert "needs an agent" in windlass("worker", "shop:none", code=2).stderr
    assert "no module 'nowhere'" in windlass("worker", "nowhere:agent", code=2).stderr
    assert "nothing is kept" in windlass("fleet").stderr


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("{", "--limits is JSON"),
        ('{"budget": {}}', "did you mean 'budgets'"),
        ('{"tenants": {"*": 0}}', "number of runs from 1"),
        ('{"budgets": {"acme": {"usd": "x"}}}', "a number of at least 0"),
    ],
)
def test_wrong_limits_of_a_worker_are_refused(place: str, limits: str, said: str) -> None:
    line = [sys.executable, "-m", "windlass", "worker", "shop:quick", "--store", place]
    done = subprocess.run([*line, "--limits", limits], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and said in done.stderr


async def test_limits_of_a_worker_hold(place: str) -> None:
    limits = '{"rates": {"acme": {"requests_per_minute": 1}}}'
    async with w.Runtime(store=place, environ={}) as runtime:
        acme = w.Caller("ann", tenant="acme")
        handles = [await runtime.submit("often", "go", caller=acme) for _ in range(2)]
        other = await runtime.submit("often", "go")
        process = start(place, "shop:often", "--limits", limits)
        try:
            assert (await other.result(timeout=30)).status == "done"

            async def has_postponed_one() -> bool:
                wishes = [
                    await runtime.store.consult(lambda tx, one=one: read_wish(tx, one.session_id))
                    for one in handles
                ]
                due = [wish.due for wish in wishes if wish is not None and wish.due is not None]
                return len(due) == 1 and due[0] > time.time() + 10

            await wait_until(has_postponed_one)
            assert len(await runtime.store.calls(tenant="acme")) == 1
        finally:
            process.kill()
            process.communicate()

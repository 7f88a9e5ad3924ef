"""Limits of a fleet: runs at once by queue, tenant and model, and budgets and rates of tenants."""

import asyncio
from contextlib import asynccontextmanager
from itertools import cycle

import pytest

import windlass as w
from tests.stories.test_budget import priced
from windlass import seams
from windlass.errors import ConfigError
from windlass.runtime.runtime import Runtime
from windlass.store.wishes import due_wishes, read_wish
from windlass.testing import call, scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server

pytestmark = pytest.mark.virtual_time
POSTGRES = pytest.param(
    "postgres",
    marks=[pytest.mark.deep, pytest.mark.skipif(find_binaries() is None, reason=MISSING)],
)
ACME, OTHER = w.Caller("ann", tenant="acme"), w.Caller("bob", tenant="other")


@pytest.fixture(params=["sqlite", POSTGRES])
def place(request, tmp_path):
    """Return the address of a store that several Runtimes share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/fleet.db"
    return shared_server().schema()


@pytest.fixture
async def runtime(place):
    """Return a Runtime on that store."""
    async with Runtime(store=place, environ={}) as found:
        yield found


@asynccontextmanager
async def serving(runtime, *agents, **options):
    """Serve while the block lasts."""
    task = asyncio.create_task(runtime.serve(*agents, **options))
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@asynccontextmanager
async def open_workers(place, count, agents, limits):
    """Open so many Runtimes on one store, each with a worker whose driver the test calls."""
    runtimes = [Runtime(store=place, environ={}) for _ in range(count)]
    workers = [one.build_worker(*agents, limits=limits) for one in runtimes]
    for one in workers:
        one.driver.open()
    try:
        yield runtimes, workers
    finally:
        for worker, runtime in zip(workers, runtimes, strict=True):
            await worker.driver.aclose()
            await runtime.aclose()


async def drive_all(workers, sessions, seconds=600):
    """Let the workers drive the sessions by turns and all at once, until none wants to run."""
    store = workers[0]._store
    until = seams.now() + seconds
    while seams.now() < until:
        now = seams.now()
        due = await store.consult(
            lambda tx, now=now: [one.session for one in due_wishes(tx, now, 999)]
        )
        turns = zip([one for one in sessions if one in due], cycle(workers), strict=False)
        await asyncio.gather(*(worker.driver.drive(session) for session, worker in turns))
        coming = await store.consult(
            lambda tx: [wish.due for one in sessions if (wish := read_wish(tx, one)).is_wanted]
        )
        if not coming:
            return
        await asyncio.sleep(max(0.05, min(coming) - seams.now()))
    raise AssertionError("some sessions still want to run")


async def submit(runtime, count, caller=ACME, name="payer"):
    """Submit runs by the name of their agent; return the sessions."""
    handles = [await runtime.submit(name, "go", caller=caller) for _ in range(count)]
    return [handle.session_id for handle in handles]


async def read_ends(runtime, sessions):
    """Return how the runs ended."""
    found = [(await runtime.handle(one)) for one in sessions]
    return [(out.status, out.stop_reason) for one in found for out in [await one.result(timeout=5)]]


def build_payer(tokens=100, name="payer", **options):
    """Build an agent whose call costs a tenth of a cent a token."""
    model = priced(*["ok"] * 200, usage={"input_tokens": tokens, "output_tokens": 0})
    return w.Agent(model, name=name, max_tokens=16, **options)


async def read_held(runtime):
    """Return the rows of allotments that somebody holds."""
    rows = await runtime.store.consult(
        lambda tx: tx.keep(
            "SELECT tenant, kind, tokens, usd FROM windlass_allotments WHERE holder <> ''"
        ).fetchall()
    )
    return [tuple(row) for row in rows]


# --------------------------------------------------------------------------- runs at once


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"queues": {"one": 4}, "tenants": {"acme": 2}, "models": {"*": 3}}, 2),
        ({"queues": {"one": 2}}, 2),
        ({"queues": {"*": 1}}, 1),
        ({"queues": {"another": 1}}, 6),
        ({"tenants": {"acme": 2}}, 2),
        ({"tenants": {"*": 3}}, 3),
        ({"tenants": {"other": 1}}, 6),
        ({"models": {"scripted:scripted": 2}}, 2),
        ({"models": {"*": 1}}, 1),
        ({"models": {"openai:gpt-5": 1}}, 6),
    ],
)
async def test_limits_of_runs_at_once_hold_over_two_workers(tmp_path, limits, expected):
    await _run_at_once(f"sqlite:///{tmp_path}/fleet.db", limits, expected)


@pytest.mark.deep
@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
async def test_limits_of_runs_at_once_hold_on_postgres():
    limits = {"queues": {"one": 4}, "tenants": {"acme": 2}, "models": {"*": 3}}
    await _run_at_once(shared_server().schema(), limits, 2)


async def _run_at_once(place, limits, expected):
    running, most = set(), [0]

    @w.tool
    async def work(n: int) -> str:
        """Work."""
        running.add(n)
        most[0] = max(most[0], len(running))
        await asyncio.sleep(0.3)
        running.discard(n)
        return "ok"

    agents = [
        w.Agent(scripted(call("work", n=n), "done"), name=f"a{n}", tools=[work]) for n in range(6)
    ]
    async with open_workers(place, 2, agents, limits) as (runtimes, workers):
        sessions = []
        for n in range(6):
            handle = await runtimes[0].submit(f"a{n}", "go", queue="one", caller=ACME)
            sessions.append(handle.session_id)
        await drive_all(workers, sessions)
        assert await read_ends(runtimes[1], sessions) == [("done", "natural")] * 6
    assert most == [expected]


# --------------------------------------------------------------------------- budgets


async def test_budget_of_a_tenant_holds_over_two_workers(place):
    limits = {"budgets": {"acme": {"usd": 1.0, "per": "day"}}}
    async with open_workers(place, 2, [build_payer()], limits) as (runtimes, workers):
        sessions = await submit(runtimes[0], 20)
        others = await submit(runtimes[0], 3, OTHER)
        await drive_all(workers, sessions + others)
        ends = await read_ends(runtimes[1], sessions)
        spent = (await runtimes[0].store.spent(0.0, "acme"))[1]
        assert 0.8 <= spent <= 1.0 + 2 * 0.1 + 1e-9
        assert set(ends) == {("done", "natural"), ("budget_exhausted", "usd")}
        assert ends.count(("done", "natural")) == round(spent / 0.1)
        assert await read_ends(runtimes[0], others) == [("done", "natural")] * 3
        assert await read_held(runtimes[1]) == []
        # Once it is spent, nothing more is.
        late = await submit(runtimes[1], 2)
        await drive_all(workers, late)
        assert await read_ends(runtimes[0], late) == [("budget_exhausted", "usd")] * 2
        assert (await runtimes[0].store.spent(0.0, "acme"))[1] == pytest.approx(spent)


async def test_budget_of_every_other_tenant_is_each_ones_own(place):
    limits = {"budgets": {"*": {"tokens": 350, "per": "ever"}, "acme": w.Budget(tokens=10_000)}}
    async with open_workers(place, 2, [build_payer()], limits) as (runtimes, workers):
        mine = await submit(runtimes[0], 6)
        groups = [
            await submit(runtimes[0], 6, caller)
            for caller in (OTHER, w.Caller("cy", tenant="third"), None)
        ]
        await drive_all(workers, mine + sum(groups, []))
        assert await read_ends(runtimes[0], mine) == [("done", "natural")] * 6
        for group in groups:
            ends = await read_ends(runtimes[0], group)
            assert 2 <= ends.count(("done", "natural")) <= 5
            assert ends.count(("budget_exhausted", "tokens")) == 6 - ends.count(("done", "natural"))


async def test_budget_is_spent_again_in_the_next_period(place):
    limits = {"budgets": {"acme": {"usd": 0.15, "per": "day"}}}
    async with open_workers(place, 1, [build_payer()], limits) as (runtimes, workers):
        for _ in range(2):
            sessions = await submit(runtimes[0], 3)
            await drive_all(workers, sessions)
            ends = [status for status, _ in await read_ends(runtimes[0], sessions)]
            assert "done" in ends and "budget_exhausted" in ends
            await asyncio.sleep(86_400)


async def test_worker_spends_an_allotment_without_asking_for_each_call(place):
    limits = {"budgets": {"acme": {"usd": 1000.0}}}
    asked = []
    async with open_workers(place, 1, [build_payer()], limits) as (runtimes, workers):
        store = runtimes[0].store
        before = store.spent

        async def count(*given):
            asked.append(given)
            return await before(*given)

        store.spent = count
        sessions = await submit(runtimes[0], 30)
        await drive_all(workers, sessions)
        assert await read_ends(runtimes[0], sessions) == [("done", "natural")] * 30
    assert 1 <= len(asked) <= 3


async def test_allotment_of_a_worker_that_died_comes_back_after_its_lease(place):
    begun = asyncio.Event()

    @w.tool
    async def hang() -> str:
        """Hang."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    model = priced(call("hang"), usage={"input_tokens": 100, "output_tokens": 0})
    hangs = w.Agent(model, name="hangs", max_tokens=16, tools=[hang])
    limits = {"budgets": {"acme": {"usd": 1.6}}}
    async with open_workers(place, 2, [hangs, build_payer()], limits) as (runtimes, workers):
        [session] = await submit(runtimes[0], 1, name="hangs")
        dead = asyncio.create_task(workers[0].driver.drive(session))
        await begun.wait()
        [(_, _, _, held)] = await read_held(runtimes[1])
        assert held > 0.1
        workers[0].driver._ledgers._beating.cancel()  # as if the process was gone
        await asyncio.sleep(31)
        # What was under way in its session is on no books: the allotment stands for it.
        sessions = await submit(runtimes[1], 1)
        await drive_all(workers[1:], sessions)
        assert [row[3] for row in await read_held(runtimes[1])] == [held]
        await runtimes[1].store.commit(
            lambda tx: tx.keep("UPDATE windlass_wishes SET since = NULL, due = NULL")
        )
        sessions += await submit(runtimes[1], 20)
        await drive_all(workers[1:], sessions)
        ends = await read_ends(runtimes[1], sessions)
        assert ends.count(("done", "natural")) >= 14
        assert (await runtimes[1].store.spent(0.0, "acme"))[1] <= 1.6 + 0.1
        assert await read_held(runtimes[1]) == []
        dead.cancel()
        await asyncio.wait({dead})


# --------------------------------------------------------------------------- rates


async def test_rate_of_a_tenant_holds_over_two_workers(place):
    made = []
    agent = build_payer()
    respond = type(agent._options["model"]).respond

    async def note(self, request, emit):
        made.append(seams.now())
        return await respond(self, request, emit)

    agent._options["model"].respond = note.__get__(agent._options["model"])
    limits = {"rates": {"acme": {"requests_per_minute": 10}}}
    async with open_workers(place, 2, [agent], limits) as (runtimes, workers):
        sessions = await submit(runtimes[0], 25)
        others = await submit(runtimes[0], 2, OTHER)
        began = seams.now()
        await drive_all(workers, sessions + others)
        assert await read_ends(runtimes[0], sessions + others) == [("done", "natural")] * 27
    assert len(made) == 27
    assert 100 <= made[-1] - began <= 240
    for at in made[2:]:
        assert sum(1 for one in made[2:] if at <= one < at + 60) <= 10


async def test_run_that_a_rate_keeps_waiting_frees_its_slot(runtime):
    """In the middle of a run: it is parked, and others have the only slot meanwhile."""

    @w.tool
    def look() -> str:
        """Look."""
        return "seen"

    slow = w.Agent(scripted(*[call("look")] * 3, "slow"), name="slow", tools=[look])
    quick = w.Agent(scripted("quick"), name="quick")
    first = await runtime.submit("slow", "go", caller=ACME)
    limits = {"rates": {"acme": {"requests_per_minute": 2}}}
    began = seams.now()
    async with serving(runtime, slow, quick, slots=1, limits=limits):
        await asyncio.sleep(5)
        assert await first.status() in ("queued", "parked")
        second = await runtime.submit("quick", "go", caller=OTHER)
        assert (await second.result(timeout=20)).output == "quick"
        assert seams.now() - began < 30
        out = await first.result(timeout=200)
    assert (out.output, out.turns, len(out.tool_calls)) == ("slow", 4, 3)
    assert 60 <= seams.now() - began
    assert not any("suspended" in message.text for message in out.all_messages)


async def test_tokens_a_minute_hold(place):
    limits = {"rates": {"*": {"tokens_per_minute": 450}}}
    model = scripted(*["ok"] * 8, usage=w.Usage(5, 95))
    agent = w.Agent(model, name="payer", max_tokens=100)
    async with open_workers(place, 2, [agent], limits) as (runtimes, workers):
        sessions = await submit(runtimes[0], 8)
        began = seams.now()
        await drive_all(workers, sessions)
        calls = await runtimes[0].store.calls(tenant="acme")
    assert len(calls) == 8
    assert seams.now() - began >= 60
    for one in calls:
        window = [c for c in calls if one.at <= c.at < one.at + 60]
        assert sum(c.input_tokens + c.output_tokens for c in window) <= 450


# --------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("limits", "match"),
    [
        ({"budget": {"acme": {"usd": 1}}}, "budgets"),
        ({"budgets": {"acme": 5}}, "dict with usd, tokens, per"),
        ({"budgets": {"acme": {"dollars": 5}}}, "has no 'dollars'"),
        ({"budgets": {"acme": {"token": 5}}}, "tokens"),
        ({"budgets": {"acme": {"usd": -1}}}, "at least 0"),
        ({"budgets": {"acme": {"usd": 1, "per": "week"}}}, "per day, month, ever"),
        ({"budgets": {"acme": {}}}, "needs usd or tokens"),
        ({"budgets": {"acme": w.Budget(usd=1, seconds=5)}}, "of a run"),
        ({"budgets": {1: {"usd": 1}}}, "dict of names"),
        ({"rates": {"acme": {"requests": 5}}}, "requests_per_minute"),
        ({"rates": {"acme": {"requests_per_minute": 0}}}, "whole number from 1"),
        ({"rates": {"acme": {"tokens_per_minute": 1.5}}}, "whole number from 1"),
        ({"rates": {"acme": {}}}, "needs requests_per_minute"),
        ({"rates": [1]}, "dict of names"),
        ({"queues": {"a": True}}, "number of runs"),
    ],
)
async def test_wrong_limits_are_refused_before_anything_is_served(limits, match):
    runtime = Runtime(store="memory:", environ={})
    with pytest.raises(ConfigError, match=match):
        await runtime.serve(build_payer(), limits=limits)


async def test_runtime_takes_budgets_from_one_worker(runtime):
    limits = {"budgets": {"acme": {"usd": 1.0}}}
    async with serving(runtime, build_payer(), limits=limits):
        await asyncio.sleep(0.1)
        with pytest.raises(ConfigError, match="one worker"):
            await runtime.serve(build_payer(), limits=limits)
    async with serving(runtime, build_payer(), limits=limits):  # but one after the other
        await asyncio.sleep(0.1)

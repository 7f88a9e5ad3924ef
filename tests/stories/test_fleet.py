"""Submitted runs: a handle waits, watches, steers and cancels; the local engine drives."""

import asyncio
from datetime import datetime

import pytest

import windlass as w
from windlass import seams
from windlass.errors import ConfigError, KeyReused, NoSuchSession
from windlass.events import Said, ToolResulted
from windlass.fleet.workers import list_workers
from windlass.runtime.runtime import Runtime
from windlass.store.wishes import raise_wish, read_wish
from windlass.testing import call, scripted

pytestmark = pytest.mark.virtual_time


def build_agent(*replies, name="writer", **options):
    return w.Agent(scripted(*replies), name=name, **options)


async def read(runtime, session_id):
    return await runtime.store.consult(lambda tx: read_wish(tx, session_id))


async def test_submitted_run_is_driven_and_its_result_is_that_of_run(own_world):
    handle = await own_world.submit(build_agent("done"), "go")
    out = await handle.result(timeout=30)
    assert (out.status, out.output, out.session_id) == ("done", "done", handle.session_id)
    assert await handle.status() == "done"
    entries = [entry async for entry in handle.events()]
    assert type(entries[0]).__name__ == "RunStarted" and entries[-1].status == "done"
    assert not (await read(own_world, handle.session_id)).is_wanted


async def test_submitted_run_keeps_its_output_type(own_world):
    agent = build_agent('{"total": 7}', output={"type": "object"})
    out = await (await own_world.submit(agent, "go")).result(timeout=30)
    assert out.output == {"total": 7}


async def test_submitted_run_with_tools_is_watched_from_another_handle(own_world):
    @w.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    agent = build_agent(call("add", a=2, b=3), "5", tools=[add])
    handle = await own_world.submit(agent, "What is 2 + 3?")
    other = await own_world.handle(handle.session_id)
    seen = [entry async for entry in other.events()]
    assert [e.result.text for e in seen if type(e) is ToolResulted] == ["5"]
    # Without the agent the text is the answer.
    out = await other.result(timeout=30)
    assert (out.output, out.turns, len(out.tool_calls)) == ("5", 2, 1)


async def test_key_gives_the_same_run_and_refuses_another_prompt(own_world):
    agent = build_agent("one", "two")
    first = await own_world.submit(agent, "go", key="order-7")
    again = await own_world.submit(agent, "go", key="order-7")
    assert again.session_id == first.session_id
    with pytest.raises(KeyReused, match="order-7.*another prompt"):
        await own_world.submit(agent, "stop", key="order-7")
    assert (await first.result(timeout=30)).output == "one"
    assert (await again.result(timeout=30)).output == "one"
    late = await own_world.submit(agent, "go", key="order-7")  # also after its end
    assert (await late.result(timeout=30)).output == "one"
    other = await own_world.submit(agent, "go", key="order-8")
    assert (await other.result(timeout=30)).output == "two"
    acme = w.Caller("ann", tenant="acme")
    foreign = await own_world.submit(
        agent.with_(model=scripted("three")), "x", key="order-7", caller=acme
    )
    assert foreign.session_id != first.session_id


async def test_session_has_one_run_at_a_time_in_the_order_of_submission(own_world):
    started, released, running = [], asyncio.Event(), []

    @w.tool
    async def work(n: int) -> str:
        """Work."""
        running.append(n)
        assert len(running) == 1
        started.append(n)
        await released.wait()
        running.remove(n)
        return "ok"

    agent = build_agent(call("work", n=1), "first", call("work", n=2), "second", tools=[work])
    one = await own_world.submit(agent, "one", session_id="shared")
    two = await own_world.submit(agent, "two", session_id="shared")
    released.set()
    assert (await one.result(timeout=30)).output == "first"
    assert (await two.result(timeout=30)).output == "second"
    assert started == [1, 2]
    entries = await own_world.store.read("shared")
    said = [e.message.text for e in entries if type(e) is Said and e.message.role == "user"]
    assert said == ["one", "two"]


async def test_priority_runs_first_and_not_before_is_kept(own_world):
    order = []

    @w.tool
    async def note(who: str) -> str:
        """Note."""
        order.append(who)
        return "ok"

    replies = [call("note", who=name) for name in ("a", "b", "c")]
    agents = {
        name: build_agent(reply, "done", name=name, tools=[note])
        for name, reply in zip(("a", "b", "c"), replies, strict=True)
    }
    soon = seams.now() + 10.0  # far enough for a slow disk: the clock goes on while it writes
    # By name: nobody serves them yet.
    handles = [
        await own_world.submit("a", "go"),
        await own_world.submit("b", "go", priority=5),
        await own_world.submit("c", "go", priority=9, not_before=soon),
    ]
    serving = asyncio.create_task(own_world.serve(*agents.values(), slots=1))
    for handle in handles:
        await handle.result(timeout=300)
    assert order == ["b", "a", "c"]
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_run_that_waits_is_cancelled_at_once(own_world):
    handle = await own_world.submit("nobody", "go")
    assert await handle.status() == "queued"
    await handle.cancel("not needed")
    out = await handle.result(timeout=30)
    assert (out.status, out.stop_reason) == ("cancelled", "not needed")
    assert not (await read(own_world, handle.session_id)).is_wanted
    await handle.cancel()  # of a run that has ended: nothing
    assert (await handle.result(timeout=30)).stop_reason == "not needed"


async def test_running_run_is_steered_and_cancelled(own_world):
    begun, told = asyncio.Event(), asyncio.Event()

    @w.tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await told.wait()
        return "ok"

    agent = build_agent(call("wait"), call("wait"), "done", tools=[wait])
    handle = await own_world.submit(agent, "go")
    await begun.wait()
    assert await handle.status() == "running"
    await handle.steer("hurry")
    told.set()
    begun.clear()
    await begun.wait()
    told.clear()
    await handle.cancel()
    out = await handle.result(timeout=30)
    assert out.status in ("done", "cancelled")
    said = [e.message.text for e in out.entries if type(e) is Said]
    assert "hurry" in said


async def test_parked_run_goes_on_when_its_call_is_approved(own_world):
    @w.tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    agent = build_agent(call("pay", amount=7), "thanks", tools=[pay])
    handle = await own_world.submit(agent, "go")
    waiting = []
    while not waiting:
        await handle._changes.wait(handle.session_id, 0.05)
        waiting = await w.approvals(own_world.store)
    while await handle.status() != "parked":
        await handle._changes.wait(handle.session_id, 0.05)
    assert not (await read(own_world, handle.session_id)).is_wanted
    await w.approve(waiting[0].id, store=own_world.store)
    assert (await handle.result(timeout=30)).output == "thanks"


async def test_sessions_run_by_hand_are_never_taken(own_world):
    @w.tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = build_agent(call("pay"), "by hand", tools=[pay])
    out = await agent.run("go", session_id="by-hand")
    assert out.status == "suspended"
    done = await (await own_world.submit(build_agent("ok"), "x")).result(timeout=30)
    assert done.status == "done"
    await w.approve((await w.approvals(own_world.store))[0].id, store=own_world.store)
    assert await own_world.store.commit(lambda tx: raise_wish(tx, "by-hand")) == 0
    assert (await own_world.store.info("by-hand")).status == "suspended"
    assert (await agent.resume("by-hand")).output == "by hand"


async def test_job_of_an_agent_that_nobody_knows_stays(own_world):
    handle = await own_world.submit("unknown@7", "go")
    out = await (await own_world.submit(build_agent("ok"), "x")).result(timeout=30)
    assert out.status == "done"
    with pytest.raises(TimeoutError):
        await handle.result(timeout=0.2)
    wish = await read(own_world, handle.session_id)
    assert wish.is_wanted and (wish.agent, wish.tries) == ("unknown@7", 0)


async def test_versions_of_an_agent_have_runs_of_their_own(own_world):
    old, new = build_agent("from the old"), build_agent("from the new", version="2")
    handles = [await own_world.submit(agent, "go") for agent in (old, new)]
    outs = [(await handle.result(timeout=30)).output for handle in handles]
    assert outs == ["from the old", "from the new"]
    wishes = [await read(own_world, handle.session_id) for handle in handles]
    assert [wish.agent for wish in wishes] == ["writer@1", "writer@2"]


async def test_run_that_cannot_be_driven_is_given_up_as_poison(own_world):
    class Broken:
        name, version = "broken", "1"

        async def run(self, prompt, /, **options):
            raise RuntimeError("no way")

        async def resume(self, session_id, **options):
            raise RuntimeError("no way")

    handle = await own_world.submit(Broken(), "go")
    fine = await own_world.submit(build_agent("ok"), "x")
    assert (await fine.result(timeout=30)).status == "done"
    while (await read(own_world, handle.session_id)).is_wanted:
        # The pauses between tries are long: each wish is made due by hand.
        await own_world.store.commit(
            lambda tx: tx.keep("UPDATE windlass_wishes SET due = 1.0 WHERE due IS NOT NULL")
        )
        await handle._changes.wait(handle.session_id, 0.05)
        own_world._fleet._engine._resting.clear()
    out = await handle.result(timeout=30)
    assert (out.status, out.stop_reason) == ("failed", "poison")
    assert "no way" in out.error["message"]


async def test_limits_of_a_tenant_hold_over_all_sessions(own_world):
    running, most, finish = set(), [0], asyncio.Event()

    @w.tool
    async def work(n: int) -> str:
        """Work."""
        running.add(n)
        most[0] = max(most[0], len(running))
        await asyncio.sleep(0)
        running.discard(n)
        return "ok"

    agents = [build_agent(call("work", n=n), "done", name=f"a{n}", tools=[work]) for n in range(4)]
    acme = w.Caller("ann", tenant="acme")
    handles = [await own_world.submit(f"a{n}", "go", caller=acme) for n in range(4)]
    serving = asyncio.create_task(own_world.serve(*agents, limits={"tenants": {"acme": 1}}))
    for handle in handles:
        assert (await handle.result(timeout=30)).status == "done"
    assert most == [1]
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    finish.set()


async def test_worker_that_ends_hands_its_runs_over(own_world):
    begun, go_on = asyncio.Event(), asyncio.Event()

    @w.tool
    async def work() -> str:
        """Work."""
        begun.set()
        await go_on.wait()
        return "ok"

    agent = build_agent(call("work"), "done", tools=[work])
    handle = await own_world.submit("writer", "go")
    serving = asyncio.create_task(own_world.serve(agent))
    await begun.wait()
    assert len(await own_world.store.consult(list_workers)) == 1
    serving.cancel()
    while not await own_world.store.inbox(handle.session_id):  # it is told to park
        await handle._changes.wait(handle.session_id, 0.01)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert await own_world.store.consult(list_workers) == []
    info = await own_world.store.info(handle.session_id)
    assert info.status == "suspended"
    assert (await read(own_world, handle.session_id)).is_wanted
    serving = asyncio.create_task(own_world.serve(agent))
    out = await handle.result(timeout=30)
    assert out.output == "done" and len(out.tool_calls) == 1
    assert not any("suspended" in m.text for m in out.all_messages)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_run_left_by_the_block_of_a_runtime_goes_on_in_the_next(tmp_path):
    begun, calls_made = asyncio.Event(), []

    @w.tool
    async def work() -> str:
        """Work."""
        calls_made.append(1)
        begun.set()
        return "ok"

    @w.tool
    async def hang() -> str:
        """Hang."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    place = f"sqlite:///{tmp_path}/fleet.db"
    async with Runtime(store=place, environ={}) as runtime:
        handle = await runtime.submit(build_agent(call("work"), "x", "y", tools=[work]), "go")
        await begun.wait()
    async with Runtime(store=place, environ={}) as runtime:
        again = await runtime.handle(handle.session_id)
        if await again.status() == "queued":
            serving = asyncio.create_task(runtime.serve(build_agent("after", tools=[work])))
            assert (await again.result(timeout=30)).status == "done"
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
    assert calls_made == [1]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"priority": 1.5}, "priority is a whole number"),
        ({"priority": True}, "priority is a whole number"),
        ({"priority": 10**9}, "priority is a whole number"),
        ({"not_before": datetime(2030, 1, 1)}, "no time zone"),
        ({"not_before": "tomorrow"}, "not_before is a datetime"),
        ({"not_before": float("nan")}, "not_before is a datetime"),
        ({"not_before": float("inf")}, "not_before is a datetime"),
        ({"key": "a\nb"}, "key"),
        ({"key": ""}, "key"),
        ({"queue": "../x"}, "queue"),
        ({"queue": ""}, "queue"),
        ({"session_id": "a b"}, "session_id"),
        ({"caller": "ann"}, "caller is a Caller"),
        ({"connection": object()}, "Postgres|asyncpg"),
    ],
)
async def test_bad_submission_is_refused_before_anything_is_stored(own_world, options, match):
    with pytest.raises(ConfigError, match=match):
        await own_world.submit("writer", "go", **options)
    assert await own_world.store.sessions() == []


async def test_bad_agents_prompts_and_engines_are_refused(own_world):
    with pytest.raises(ConfigError, match="needs a name"):
        await own_world.submit(w.Agent(scripted("x")), "go")
    with pytest.raises(ConfigError):
        await own_world.submit("writer", object())
    with pytest.raises(ConfigError):
        await own_world.submit("writer", [])
    with pytest.raises(ConfigError, match="no engine"):
        await Runtime(store="memory:", environ={}, fleet="locall").submit("writer", "go")
    for agent in (5, None, [build_agent("x")]):
        with pytest.raises(ConfigError, match="an Agent"):
            await own_world.submit(agent, "go")
    with pytest.raises(ConfigError, match="version"):
        await own_world.submit("writer@", "go")
    assert await own_world.store.sessions() == []
    with pytest.raises(ConfigError, match="needs an agent"):
        await own_world.serve()
    for agent in (5, "writer", None):
        with pytest.raises(ConfigError, match="an Agent"):
            await own_world.serve(agent)
    with pytest.raises(ConfigError, match="two agents are named 'writer@1'"):
        await own_world.serve(build_agent("x"), build_agent("y"))
    for options, match in (
        ({"grace": -1}, "grace"),
        ({"grace": "x"}, "grace"),
        ({"lease": float("inf")}, "lease"),
        ({"queues": "abc"}, "queues"),
        ({"queues": [5]}, "queue"),
        ({"queues": ["a b"]}, "queue"),
    ):
        with pytest.raises(ConfigError, match=match):
            await own_world.serve(build_agent("x"), **options)
    for limits in ({"tenant": {}}, {"tenants": {"a": 0}}, {"tenants": 5}, [1]):
        with pytest.raises(ConfigError, match="limit"):
            await own_world.serve(build_agent("x"), limits=limits)
    with pytest.raises(NoSuchSession):
        await own_world.handle("nothing")
    handle = await own_world.submit("writer", "go")
    with pytest.raises(ConfigError, match="a reason is a text"):
        await handle.cancel(5)
    assert await handle.status() == "queued"


async def test_worker_fires_triggers_that_are_due(own_world):
    model = scripted("one", "two")
    serving = asyncio.create_task(own_world.serve(w.Agent(model, name="reporter")))
    await w.trigger_register(
        {"kind": "timer", "every": "20s"},
        {"kind": "start", "agent": "reporter", "prompt": "Report."},
        store=own_world.store,
    )
    await asyncio.sleep(2 * 20 + 5)
    sessions = await own_world.store.sessions()
    for info in sessions:
        assert (await (await own_world.handle(info.id)).result(timeout=30)).status == "done"
    assert len(sessions) == 2
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


@pytest.mark.parametrize("cancels", [False, True])
async def test_runtime_that_closes_ends_its_worker(own_world, cancels, caplog):
    given = own_world._given_store
    begun, gate = asyncio.Event(), asyncio.Event()

    @w.tool(keyed=True)
    async def work() -> str:
        """Work."""
        begun.set()
        await gate.wait()
        return "worked"

    writer = build_agent(call("work"), "done", tools=[work])
    async with Runtime(store=own_world.store if given == "memory:" else given, environ={}) as other:
        serving = asyncio.create_task(other.serve(writer))
        handle = await own_world.submit("writer", "go")
        await begun.wait()
        if cancels:
            serving.cancel()
    await asyncio.wait({serving})
    assert await handle.status() == "parked"
    assert [one.message for one in caplog.records if one.levelname == "WARNING"] == []
    gate.set()
    task = asyncio.create_task(own_world.serve(writer))
    assert (await handle.result(timeout=1000)).output == "done"
    task.cancel()
    await asyncio.wait({task})

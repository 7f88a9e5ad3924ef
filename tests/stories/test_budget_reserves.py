"""A budget of a period: every call is on the books of the store before it is made, at every door."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass as w
from windlass import seams
from windlass.callers import compose, with_fallback, with_retry, with_shadow
from windlass.engine.environment import current_store
from windlass.errors import Overloaded
from windlass.events import IterationStart, Replied, ReplyFailed, RunStarted
from windlass.store.base import Store
from windlass.testing import call, scripted
from windlass.testing.script import ScriptedModel

from .helpers import add, kept

TOKENS = 1000
MOST = 985  # of a reply: too many for a second one beside it


class Slow(ScriptedModel):
    """A model that answers once it is let go."""

    def __init__(self, *replies: Any) -> None:
        self.__dict__.update(scripted(*replies, usage=w.Usage(5, 5)).__dict__)
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.asked.set()
        await self.go.wait()
        return await super().respond(request, emit)


Door = Callable[[Any], Awaitable[Any]]
DOORS: dict[str, Door] = {}


def door(function: Door) -> Door:
    DOORS[function.__name__] = function
    return function


@door
async def by_call(model: Any) -> Any:
    return await w.llm_call("go", model=model, max_tokens=MOST)


@door
async def by_stream(model: Any) -> Any:
    return [chunk async for chunk in w.llm_stream("go", model=model, max_tokens=MOST)]


@door
async def by_completion(model: Any) -> Any:
    return await w.llm_completion("go", model=model, max_tokens=MOST)


@door
async def by_generate(model: Any) -> Any:
    from windlass.engine.environment import current_environment

    scope: Any = current_environment()
    return await scope.models.generate("go", model=model, max_output_tokens=MOST)


@door
async def by_agent(model: Any) -> Any:
    out = await w.Agent(model, max_tokens=MOST).run("go")
    out.raise_for_status()
    return out


@door
async def by_agent_stream(model: Any) -> Any:
    async with w.Agent(model, max_tokens=MOST).stream("go") as run:
        out = await run.result()
    out.raise_for_status()
    return out


@door
async def by_loop(model: Any) -> Any:
    out = await w.agent_loop("go", model=model, max_tokens=MOST)
    out.raise_for_status()
    return out


@door
async def by_turn(model: Any) -> Any:
    judge = {"model": scripted('{"verdict": "done", "reasoning": "fine"}', usage=w.Usage(1, 1))}
    out = await w.agent_turn("go", model=model, max_tokens=MOST, judge=judge)
    out.raise_for_status()
    return out


@door
async def by_child(model: Any) -> Any:
    child = w.Agent(model, max_tokens=MOST, name="child")
    lead = w.Agent(
        scripted(call("child", task="go"), "ok", usage=w.Usage(1, 1)),
        tools=[child.as_tool()],
        max_tokens=20,
    )
    out = await lead.run("go")
    assert out.status == "done"
    if "budget_exhausted" in out.tool_calls[0].result:
        raise w.BudgetExceeded("the child's")
    return out


def runtime(store: Store, tokens: int = TOKENS, per: Any = "day") -> w.Runtime:
    return w.Runtime(store=store, budget=w.Budget(tokens=tokens, per=per), environ={}, resources=[])


async def reserved(store: Store) -> list[w.ModelCall]:
    return [one for one in await store.calls() if one.outcome == "reserved"]


@pytest.mark.parametrize("other", ["by_call", "by_agent"])
@pytest.mark.parametrize("name", DOORS)
async def test_reserve_of_one_process_binds_another(name: str, other: str):
    """Two Runtimes on one store know nothing of each other but what is stored."""
    store = current_store()
    slow = Slow("ok ##DONE##")

    async def first() -> Any:
        async with runtime(store):
            return await DOORS[name](slow)

    task = asyncio.create_task(first())
    await slow.asked.wait()
    assert len(await reserved(store)) == 1
    async with runtime(store):
        with pytest.raises(w.BudgetExceeded):
            await DOORS[other](scripted("no"))
    slow.go.set()
    await task
    assert await reserved(store) == []
    # what the first has not used is there for others again
    async with runtime(store):
        await DOORS[other](scripted("yes ##DONE##", usage=w.Usage(5, 5)))


@pytest.mark.parametrize("name", DOORS)
async def test_calls_of_one_process_wait_for_each_other_and_count_once(name: str):
    """Each fits alone only; none is refused, since each leaves nearly everything to the next."""
    async with runtime(current_store()):
        await asyncio.gather(
            *[DOORS[name](scripted("ok ##DONE##", usage=w.Usage(1, 1))) for _ in range(5)]
        )
    assert await reserved(current_store()) == []


async def test_calls_that_fit_beside_each_other_are_made_at_once():
    async with runtime(current_store(), 10_000):
        await by_call(scripted("ok", usage=w.Usage(5, 5)))
        slow = [Slow("ok ##DONE##") for _ in range(9)]
        tasks = [asyncio.create_task(by_call(one)) for one in slow]
        for one in slow:
            await one.asked.wait()
        assert len(await reserved(current_store())) == 9
        for one in slow:
            one.go.set()
        await asyncio.gather(*tasks)
    assert [one.outcome for one in await current_store().calls()] == ["ok"] * 10


@pytest.mark.parametrize("name", ["by_call", "by_stream", "by_agent", "by_generate"])
async def test_cancelled_call_leaves_nothing_reserved(name: str):
    async with runtime(current_store()):
        slow = Slow("ok ##DONE##")
        task = asyncio.create_task(DOORS[name](slow))
        await slow.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await reserved(current_store()) == []
        await DOORS[name](scripted("ok", usage=w.Usage(5, 5)))


async def test_call_that_is_cancelled_while_it_reserves_leaves_nothing():
    store = current_store()
    for steps in range(12):
        async with runtime(store):
            task = asyncio.create_task(by_call(Slow("ok ##DONE##")))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await reserved(store) == []


async def test_retries_hold_one_row_and_leave_what_they_used():
    store = current_store()
    async with runtime(store):
        model = scripted(Overloaded("x"), Overloaded("x"), "ok", usage=w.Usage(5, 5))
        caller = with_retry(max_attempts=3, backoff="none")
        await w.llm_call("go", model=model, max_tokens=MOST, llm_caller=caller)
        assert len(model.requests) == 3 and await reserved(store) == []
        failing = [scripted(then=Overloaded("x")) for _ in range(3)]
        made = await asyncio.gather(
            *[w.llm_call("go", model=m, max_tokens=MOST, llm_caller=caller) for m in failing],
            return_exceptions=True,
        )
        assert all(isinstance(one, Overloaded) for one in made)
        assert await reserved(store) == []
        out = await w.Agent(
            scripted(Overloaded("x"), "ok", usage=w.Usage(5, 5)),
            max_tokens=MOST,
            llm_caller=caller,
        ).run("go")
        assert out.status == "done" and await reserved(store) == []
        await kept(out)


async def test_fallbacks_and_shadows_leave_nothing_reserved():
    store = current_store()
    async with runtime(store, 3000):
        other = scripted(then="other", usage=w.Usage(5, 5), name="other")
        caller = compose([with_fallback(models=[other]), with_shadow(model=other)])
        for _ in range(2):
            broken = scripted(then=Overloaded("x"))
            reply = await w.llm_call("go", model=broken, max_tokens=900, llm_caller=caller)
            assert reply.text == "other"
            out = await w.Agent(broken, max_tokens=900, llm_caller=caller).run("go")
            assert out.status == "done"
        assert await reserved(store) == []
        books = sum(one.usage.total_tokens for one in await store.calls())
        assert books == (await store.spent(0.0))[0]


async def test_refused_call_is_on_no_books():
    store = current_store()
    async with runtime(store, 50):
        with pytest.raises(w.BudgetExceeded):
            await w.llm_call("word " * 400, model=scripted("no"), max_tokens=MOST)
        assert await store.calls() == []


async def test_store_that_cannot_reserve_makes_no_call(monkeypatch: pytest.MonkeyPatch):
    store = current_store()
    model = scripted("ok", usage=w.Usage(5, 5))
    async with runtime(store):

        async def fail(*_: Any) -> Any:
            raise w.StoreError("out of order")

        with monkeypatch.context() as patched:
            patched.setattr(store, "reserve_call", fail)
            with pytest.raises(w.StoreError):
                await by_call(model)
            assert model.requests == []
        await by_call(model)  # and nothing is held for it here


async def test_budget_without_a_period_reserves_nothing_on_the_books(
    monkeypatch: pytest.MonkeyPatch,
):
    store = current_store()

    async def fail(*_: Any) -> Any:
        raise AssertionError("a plain run pays for a budget that it does not have")

    monkeypatch.setattr(store, "reserve_call", fail)
    async with w.Runtime(store=store, budget=w.Budget(tokens=TOKENS), environ={}):
        for name in ("by_call", "by_agent"):
            await DOORS[name](scripted("ok", usage=w.Usage(5, 5)))


# --------------------------------------------------------------------------- processes that die

KILLED = """
import asyncio, os, sys
import windlass as w
from windlass.testing import call, scripted
from windlass.testing.script import ScriptedModel

class Deadly(ScriptedModel):
    async def respond(self, request, emit):
        print("asked", flush=True)
        os._exit(9)

async def main(url, how):
    model = scripted("never")
    model.__class__ = Deadly
    async with w.Runtime(store=url, budget=w.Budget(tokens=1000, per="day"), environ={}) as scope:
        try:
            if how == "call":
                await w.llm_call("go", model=model, max_tokens=400)
            elif how == "generate":
                await scope.models.generate("go", model=model, max_output_tokens=400)
            else:
                out = await w.Agent(model, max_tokens=400).run("go")
                out.raise_for_status()
        except w.BudgetExceeded:
            print("refused", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def die(url: str, how: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, url, how],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() in ("asked", "refused"), done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("how", ["call", "generate", "agent"])
def test_call_that_dies_with_its_process_is_not_free(tmp_path: Path, how: str):
    url = f"sqlite:///{tmp_path / 'a.db'}"
    said = [die(url, how) for _ in range(5)]
    # the third is asked for what is left: the reply is limited to it
    assert said == ["asked", "asked", "asked", "refused", "refused"]

    async def look() -> None:
        async with w.Runtime(store=url, environ={}) as scope:
            calls = await scope.store.calls()
            assert [one.outcome for one in calls] == ["reserved"] * 3
            assert sum(one.usage.total_tokens for one in calls) <= TOKENS

    asyncio.run(look())


RESUMED = """
import asyncio, os, sys
import windlass as w
from windlass.testing import scripted
from windlass.testing.script import ScriptedModel

class Deadly(ScriptedModel):
    async def respond(self, request, emit):
        os._exit(9)

async def main(url):
    model = scripted("never")
    model.__class__ = Deadly
    async with w.Runtime(store=url, budget=w.Budget(tokens=1000, per="day"), environ={}):
        await w.Agent(model, max_tokens=400).run("go", session_id="s")

asyncio.run(main(sys.argv[1]))
"""


async def test_lost_call_of_a_run_that_is_resumed_counts_once(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'a.db'}"
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", RESUMED, url)
    await killed.wait()
    budget = w.Budget(tokens=TOKENS, per="day")
    async with w.Runtime(store=url, budget=budget, environ={}) as scope:
        assert len(await reserved(scope.store)) == 1
        model = scripted("ok", usage=w.Usage(5, 5))
        out = await w.Agent(model, max_tokens=400).resume("s")
        assert out.status == "done"
        entries = await scope.store.read("s")
        paid = [e.usage.total_tokens for e in entries if isinstance(e, (Replied, ReplyFailed))]
        books = [one.usage.total_tokens for one in await scope.store.calls()]
        assert sorted(books) == sorted(paid) and len(paid) == 2
        assert await reserved(scope.store) == []


async def test_reserve_whose_outcome_is_in_the_journal_is_released_by_a_resume():
    """The process died after the reply was stored, and before what was held was taken off."""
    store = current_store()
    async with runtime(store):
        journal = await store.open("s")
        journal.append(RunStarted("r", "agent", "local", "scripted", "scripted"))
        journal.append(IterationStart(1))
        said = w.Message("assistant", (w.ToolCall("c", "add", {"a": 1, "b": 1}),))
        journal.append(Replied(said, w.Usage(5, 5), "tool_use", "scripted", "scripted", 0, "f"))
        await journal.close()
        held = w.ModelCall(at=seams.now(), provider="p", model="m", output_tokens=900)
        held = msgspec.structs.replace(held, session="s", outcome="reserved")
        await store.reserve_call(held, None)
        out = await w.Agent(
            scripted("ok", usage=w.Usage(5, 5)), tools=[add], max_tokens=MOST - 200
        ).resume("s")
        assert out.status == "done" and await reserved(store) == []
        assert (await store.spent(0.0))[0] == 20


async def test_turns_of_a_run_are_reserved_one_by_one():
    store = current_store()
    async with runtime(store):
        model = scripted(*[call("add", a=1, b=1)] * 4, "ok", usage=w.Usage(5, 5))
        out = await w.Agent(model, tools=[add], max_tokens=300).run("go")
        assert out.status == "done" and await reserved(store) == []
        assert (await store.spent(0.0))[0] == 50 == out.usage.total_tokens
        await kept(out, model)


async def test_new_period_forgets_what_was_reserved_before(monkeypatch: pytest.MonkeyPatch):
    now = [20_000 * 86_400.0 + 40_000]
    monkeypatch.setattr(seams, "now", lambda: now[0])
    store = current_store()
    lost = w.ModelCall(at=now[0], provider="p", model="m", input_tokens=990, outcome="reserved")
    await store.reserve_call(lost, None)
    async with runtime(store):
        with pytest.raises(w.BudgetExceeded):
            await by_call(scripted("no"))
        now[0] += 86_400
        await by_call(scripted("ok", usage=w.Usage(5, 5)))


# --------------------------------------------------------------------------- deaths in between


@pytest.mark.parametrize("fails", [False, True], ids=["reply", "failure"])
async def test_process_that_dies_after_its_reply_is_stored_leaves_it_on_the_books_once(
    tmp_path: Path, fails: bool
):
    """Nothing that follows the row with the reply is needed to take its estimate off the books."""
    place = f"sqlite:///{tmp_path / 'a.db'}"
    budget = w.Budget(tokens=TOKENS, per="day")
    async with w.Runtime(store=place, budget=budget, environ={}) as runtime:
        dies: Any = runtime.store

        async def nothing_more(*_: Any) -> None:
            """End as a process that was killed: no further change of the books is stored."""

        dies.record_calls = dies.release_calls = nothing_more
        reply = w.BadRequest("no") if fails else "done"
        out = await w.Agent(scripted(reply, usage=w.Usage(5, 5)), max_tokens=MOST).run("go")
        assert out.status == ("provider_error" if fails else "done")
    async with w.Runtime(store=place, budget=budget, environ={}) as runtime:
        books = await runtime.store.calls()
        assert [row.outcome for row in books] == ["bad_request" if fails else "ok"]
        out = await w.Agent(scripted("done", usage=w.Usage(5, 5)), max_tokens=MOST - 30).run("go")
        assert out.status == "done"

"""Many tasks for one agent at once: the order is kept, failures are apart, the budget is one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.testing import call, run_virtual, scripted


class Echo(w.Model):
    """A model that repeats the last user's text; `bad` fails, `slow` takes longer."""

    provider, name = "echo", "echo"

    def __init__(self, price: float = 0.0) -> None:
        self.at_work = self.most = self.asked = 0
        self._price = price

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        text = next(m.text for m in reversed(request.messages) if m.role == "user")
        self.asked += 1
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        try:
            await asyncio.sleep(5 if "slow" in text else 1)
        finally:
            self.at_work -= 1
        if "bad" in text:
            raise w.BadRequest("bad task")
        return w.Response(w.Message("assistant", f"did {text}"), w.Usage(10, 5))

    def price(self, usage: w.Usage) -> float:
        return self._price


class Unpriced(w.Model):
    """A model whose price nobody knows."""

    provider, name, remote = "far", "away", True

    def unpriced(self) -> w.Model | None:
        return self


def test_order_is_kept_and_at_most_limit_run_at_once():
    model = Echo()

    async def main() -> Any:
        return await w.fan_out(w.Agent(model), ["slow a", "b", "c", "d", "e"], limit=2)

    out = run_virtual(main())
    assert out.outputs == ["did slow a", "did b", "did c", "did d", "did e"]
    assert [one.status for one in out.results] == ["done"] * 5
    assert (model.most, out.ok, out.failures) == (2, True, [])
    assert out.usage.input_tokens == 50


def test_failures_are_apart_and_stop_nobody():
    async def main() -> Any:
        return await w.fan_out(w.Agent(Echo()), ["a", "bad b", "c"])

    out = run_virtual(main())
    assert out.outputs == ["did a", "did c"]
    [failure] = out.failures
    assert (failure.index, failure.task, failure.status) == (1, "bad b", "provider_error")
    assert "bad task" in failure.message and not out.ok
    with pytest.raises(w.WindlassError, match="1 of 3 tasks"):
        out.raise_for_status()


def test_one_budget_for_all():
    model = Echo(price=1.0)

    async def main() -> Any:
        tasks = [str(n) for n in range(10)]
        return await w.fan_out(w.Agent(model), tasks, budget=w.Budget(usd=3), limit=1)

    out = run_virtual(main())
    assert 2 <= model.asked <= 3 and out.cost_usd == len(out.outputs) == model.asked
    assert {one.status for one in out.failures} == {"budget_exhausted"}


async def test_named_batch_goes_on_where_it_was(tmp_path: Path):
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    async with w.Runtime(store=store):
        agent = w.Agent(scripted("first", "second"))
        once = await w.fan_out(agent, ["a", "b"], session_id="batch", limit=1)
        assert once.outputs == ["first", "second"]
        silent = w.Agent(scripted())  # nothing is asked again
        again = await w.fan_out(silent, ["a", "b"], session_id="batch", limit=1)
        assert again.outputs == ["first", "second"]
        with pytest.raises(w.ConfigError, match="another task"):
            await w.fan_out(silent, ["a", "c"], session_id="batch")


async def test_children_of_a_tool_have_the_rules_and_the_budget_of_its_run():
    written: list[str] = []

    @w.tool
    async def write(text: str) -> str:
        """Write."""
        written.append(text)
        return "ok"

    child = w.Agent(
        scripted(call("write", text="x"), "one", call("write", text="y"), "two"), tools=[write]
    )

    @w.tool
    async def research(ctx: w.ToolContext[None], topics: list[str]) -> str:
        """Research."""
        found = await w.fan_out(child, topics, limit=1, parent=ctx)
        return ", ".join(found.outputs)

    model = scripted(call("research", topics=["a", "b"]), "done")
    parent = w.Agent(model, tools=[research], permissions={"deny": ["write"]})
    out = await parent.run("go")
    assert (out.output, written) == ("done", [])
    assert out.usage.total_tokens > out.own_usage.total_tokens


@pytest.mark.parametrize(
    "given",
    [
        {"deps": "db"},
        {"session_id": "s"},
        {"store": "memory:"},
        {"caller": w.Caller("ann")},
        {"run_id": "r"},
        {"take_over": True},
        {"max_turns": 3},
    ],
    ids=lambda given: next(iter(given)),
)
async def test_what_is_of_the_parent_is_refused_with_a_parent(given: dict[str, Any]):
    child = w.Agent(scripted("one"))

    @w.tool
    async def research(ctx: w.ToolContext[None]) -> str:
        """Research."""
        found = await w.fan_out(child, ["a"], parent=ctx, **given)
        return ", ".join(found.outputs)

    out = await w.Agent(scripted(call("research"), "done"), tools=[research]).run("go")
    name, told = next(iter(given)), out.tool_calls[0].result
    assert told == "one" if name == "max_turns" else f"{name} is the parent's" in told


@pytest.mark.parametrize("given_to", ["fan_out", "agent"])
async def test_tasks_of_a_tenant_are_charged_to_its_budget(own_world: w.Runtime, given_to: str):
    async def spend(tenant: str) -> list[str]:
        caller = w.Caller("ann", tenant=tenant)
        model = scripted("a", "b", "c", usage={"input_tokens": 10, "output_tokens": 5})
        agent = w.Agent(model, max_tokens=5)
        if given_to == "agent":
            out = await w.fan_out(agent.with_(caller=caller), ["a", "b", "c"], limit=1)
        else:
            out = await w.fan_out(agent, ["a", "b", "c"], limit=1, caller=caller)
        return [one.status for one in out.results if one is not None]

    served = w.Agent(scripted("ready"), name="served")
    limits = {"budgets": {"acme": {"tokens": 30, "per": "ever"}}}
    serving = asyncio.create_task(own_world.serve(served, limits=limits))
    handle = await own_world.submit("served", "go")
    await handle.result(timeout=30)  # the worker is at work
    assert await spend("acme") == ["done", "done", "budget_exhausted"]
    assert await spend("other") == ["done", "done", "done"]
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_price_that_is_not_known_is_one_error():
    agent = w.Agent(Unpriced())
    with pytest.raises(w.ConfigError, match="price"):
        await w.fan_out(agent, ["a", "b"], budget=w.Budget(usd=1))


@pytest.mark.parametrize(
    ("tasks", "more", "words"),
    [
        ("one task", {}, "a list of tasks"),
        ([], {}, "at least one task"),
        (["a"], {"limit": 0}, "limit"),
        (["a", " "], {}, "blank"),
        (["a"], {"limt": 3}, "limt"),
    ],
)
async def test_mistakes_are_named_before_anything_runs(tasks: Any, more: Any, words: str):
    model = scripted("x")
    with pytest.raises(w.ConfigError, match=words):
        await w.fan_out(w.Agent(model), tasks, **more)
    assert not model.requests


def test_cancelled_it_leaves_nothing_running():
    model = Echo()

    async def main() -> None:
        work = asyncio.ensure_future(w.fan_out(w.Agent(model), ["slow a", "slow b"]))
        await asyncio.sleep(2)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert model.at_work == 0

    run_virtual(main())


def test_two_batches_of_one_tool_call_are_apart():
    agent = w.Agent(Echo())

    @w.tool
    async def research(ctx: w.ToolContext[None]) -> str:
        """Research."""
        one = await w.fan_out(agent, ["a", "b"], parent=ctx)
        alone = await w.sub_agent_run("c", parent=ctx, model=scripted("did c"))
        two = await w.fan_out(agent, ["d"], parent=ctx)
        return ", ".join([*one.outputs, alone.summary, *two.outputs])

    async def main() -> Any:
        return await w.Agent(scripted(call("research"), "done"), tools=[research]).run("go")

    out = run_virtual(main())
    assert out.tool_calls[0].result == "did a, did b, did c, did d"
    assert len(out.children) == 4


@pytest.mark.parametrize("limit", ["of the run", "of the tasks"])
def test_money_that_tasks_spent_before_a_crash_counts(limit: str):
    """A tool that runs again finds the books as they were, its own and those of its run."""
    model, cut = Echo(price=1.0), asyncio.Event()
    five: Any = {"budget": w.Budget(usd=5)}
    of_run, of_tasks = (five, {}) if limit == "of the run" else ({}, five)

    @w.tool(keyed=True)
    async def research(ctx: w.ToolContext[None]) -> str:
        """Research."""
        tasks = list("abcdefgh") if cut.is_set() else ["a", "b"]
        out = await w.fan_out(w.Agent(model), tasks, limit=1, parent=ctx, **of_tasks)
        if not cut.is_set():
            cut.set()
            await asyncio.Event().wait()
        return f"{len(out.outputs)} done"

    async def main() -> Any:
        first = w.Agent(scripted(call("research"), "end"), tools=[research], **of_run)
        run = asyncio.ensure_future(first.run("go", session_id="s", on_cancel="park"))
        await cut.wait()
        run.cancel()
        await asyncio.wait({run})
        assert model.asked == 2
        return await w.Agent(scripted("end"), tools=[research], **of_run).resume("s")

    out = run_virtual(main())
    assert 4 <= model.asked <= 5 and out.cost_usd == model.asked

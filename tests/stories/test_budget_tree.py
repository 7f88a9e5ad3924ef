"""One ledger for a tree of runs, over parks and deaths: what is spent stays spent."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from tests.stories.test_budget import priced
from windlass.events import INTERRUPTED, CallReserved, ReplyFailed, RunResumed
from windlass.testing import call, scripted

ask_host = w.Tool("ask_host", "Ask the host.", {})


def usd(tokens: int) -> dict[str, int]:
    return {"input_tokens": tokens, "output_tokens": 0}


class Disk:
    """A store whose process ends when a model is asked: the next one finds what was stored then."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0

    @property
    def path(self) -> Path:
        return self.folder / f"{self.number}.db"

    def keep(self) -> None:
        """What is stored now is what the next process finds."""
        after = self.folder / f"{self.number + 1}.db"
        after.unlink(missing_ok=True)
        before = sqlite3.connect(self.path)
        copy = sqlite3.connect(after)
        before.backup(copy)
        before.close()
        copy.close()

    def runtime(self, **options: Any) -> w.Runtime:
        return w.Runtime(store=f"sqlite:///{self.path}", environ={}, **options)


class Dies(w.Model):
    """The process ends while it is asked."""

    provider, name = "dies", "dies"

    def __init__(self, disk: Disk) -> None:
        self.asked, self.disk = 0, disk

    def price(self, usage: w.Usage) -> float:
        return (usage.input_tokens + usage.output_tokens) / 1000

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.asked += 1
        self.disk.keep()
        raise w.BadRequest("what comes now nobody will know")


# --------------------------------------------------------------------------- parks


async def test_a_resumed_tree_remembers_what_its_children_spent():
    child = w.Agent(priced("dug", usage=usd(3000)), name="child", max_tokens=100)
    model = priced(
        call("child", task="dig"),
        call("ask_host"),
        call("child", task="dig on"),
        "done",
        usage=usd(1000),
    )
    agent = w.Agent(model, tools=[child.as_tool(), ask_host], budget=w.Budget(usd=5.5))
    out = await agent.run("go", session_id="s")
    assert (out.status, round(out.cost_usd, 6), round(out.own_cost_usd, 6)) == ("suspended", 5, 2)
    out = await agent.resume("s", results={out.pending[0].id: "yes"})
    assert out._run.ledger.usd == pytest.approx(out.cost_usd)
    assert out.status == "budget_exhausted" and out.cost_usd <= 6.5
    assert len(child._options["model"].requests) == 1
    await kept(out)


async def test_usage_is_of_the_tree_and_own_usage_of_the_agent():
    child = w.Agent(scripted("dug", usage=w.Usage(30, 3)), name="child")
    model = scripted(call("child", task="dig"), "done", usage=w.Usage(10, 1))
    out = await w.Agent(model, tools=[child.as_tool()]).run("go")
    assert (out.own_usage, out.usage) == (w.Usage(20, 2), w.Usage(50, 5))
    assert out.token_usage == {"input_tokens": 20, "output_tokens": 2}
    loop = await w.agent_loop(
        "go",
        model=scripted(call("child", task="dig"), "done", usage=w.Usage(10, 1)),
        tools=[w.Agent(scripted("dug", usage=w.Usage(30, 3)), name="child").as_tool()],
    )
    assert (loop.usage, loop.llm.input_tokens) == (w.Usage(50, 5), 20)


async def test_a_parked_child_is_counted_once():
    """It is in the sum that its parent reads, and goes on from there."""
    inner = priced(call("ask_host"), "dug", usage=usd(1000))
    child = w.Agent(inner, tools=[ask_host], name="child", max_tokens=100)
    model = priced(call("child", task="dig"), "done", usage=usd(500))
    agent = w.Agent(model, tools=[child.as_tool()], budget=w.Budget(usd=10))
    out = await agent.run("go", session_id="s")
    assert (out.status, out.cost_usd) == ("suspended", pytest.approx(1.5))
    child_id = out.pending[0].session_id or ""
    waiting = (await w.Agent(inner, tools=[ask_host]).resume(child_id)).pending[0].id
    await child.resume(child_id, results={waiting: "yes"})
    out = await agent.resume("s")
    assert (out.status, out.cost_usd) == ("done", pytest.approx(3.0))
    assert out._run.ledger.usd == pytest.approx(3.0)


# --------------------------------------------------------------------------- deaths


async def test_a_reply_that_was_waited_for_counts_by_its_reserve(tmp_path: Path):
    disk = Disk(tmp_path)
    async with disk.runtime():
        agent = w.Agent(Dies(disk), budget=w.Budget(usd=1.0), max_tokens=100)
        await agent.run("go", session_id="s")
    disk.number += 1
    async with disk.runtime() as runtime:
        [reserved] = [e for e in await runtime.store.read("s") if type(e) is CallReserved]
        assert reserved.output_tokens == 100
        out = await w.Agent(priced("done", usage=usd(10)), max_tokens=100).resume("s")
        lost = [e for e in out.entries if type(e) is ReplyFailed]
        assert [(e.category, e.cost_usd) for e in lost] == [(INTERRUPTED, reserved.usd)]
        assert out.status == "done"
        assert out.cost_usd == pytest.approx(reserved.usd + 0.01)
        books = await runtime.store.calls(session="s")
        assert sum(row.cost_usd for row in books) == pytest.approx(out.cost_usd)
        await kept(out)


async def deaths(disk: Disk, **options: Any) -> tuple[Dies, list[w.AgentResult[Any]]]:
    """Twelve processes, each of which ends when the model is asked; what came of each."""
    dies = Dies(disk)
    outs: list[w.AgentResult[Any]] = []
    for number in range(12):
        disk.number = number
        async with disk.runtime():
            agent = w.Agent(dies, **options)
            asked = dies.asked
            outs.append(await (agent.resume("s") if number else agent.run("go", session_id="s")))
            if dies.asked == asked:
                await kept(outs[-1])
                break
    return dies, outs


async def test_deaths_are_not_for_free(tmp_path: Path):
    """Each reserve is 0.4 dollars and more of 1: for the third there is too little left."""
    dies, outs = await deaths(Disk(tmp_path), budget=w.Budget(usd=1.0), max_tokens=400)
    assert dies.asked <= 3
    assert (outs[-1].status, outs[-1].stop_reason) == ("budget_exhausted", "usd")
    assert outs[-1].cost_usd <= 1.0


async def test_turns_that_died_count(tmp_path: Path):
    dies, outs = await deaths(Disk(tmp_path), budget=w.Budget(usd=20, iterations=3), max_tokens=400)
    assert dies.asked == 3
    assert (outs[-1].status, outs[-1].stop_reason) == ("budget_exhausted", "max_iterations")


async def test_a_session_that_keeps_dying_is_given_up(tmp_path: Path):
    dies, outs = await deaths(Disk(tmp_path), budget=w.Budget(usd=20), max_tokens=100)
    out = outs[-1]
    assert (out.status, out.stop_reason, dies.asked) == ("failed", "poison", 6)
    assert "the model call of turn 1 to dies:dies" in (out.error or {})["message"]
    with pytest.raises(w.WindlassError, match="poison"):
        out.raise_for_status()


@pytest.mark.parametrize(("most", "asked"), [(0, 1), (2, 3), (None, 12)])
async def test_how_often_is_an_option(tmp_path: Path, most: int | None, asked: int):
    dies, _ = await deaths(
        Disk(tmp_path),
        budget=w.Budget(usd=20),
        max_tokens=100,
        max_turns=50,
        max_resume_attempts=most,
    )
    assert dies.asked == asked


async def test_a_tool_that_ends_the_process_is_named(tmp_path: Path):
    disk = Disk(tmp_path)

    @w.tool(keyed=True)
    async def look() -> str:
        """Look."""
        disk.keep()
        return "seen"

    for number in range(8):
        disk.number = number
        async with disk.runtime():
            model = scripted("done") if number else scripted(call("look"), "done")
            agent = w.Agent(model, tools=[look])
            out = await (agent.resume("s") if number else agent.run("go", session_id="s"))
            if out.status == "failed":
                break
    assert (out.status, out.stop_reason, number) == ("failed", "poison", 6)
    assert "the call of look" in (out.error or {})["message"]


async def test_progress_sets_the_count_back(tmp_path: Path):
    """It dies in every turn, and gets one further each time."""
    disk = Disk(tmp_path)
    ran: list[int] = []  # in this process

    @w.tool(keyed=True)
    async def add(n: int) -> int:
        """Add."""
        ran.append(n)
        if len(ran) == (2 if disk.number else 1):
            disk.keep()
        return n

    for number in range(9):
        disk.number = number
        ran.clear()
        replies = [call("add", n=n) for n in range(number, 9)]
        async with disk.runtime():
            agent = w.Agent(scripted(*replies, "done"), tools=[add], max_turns=50)
            out = await (agent.resume("s") if number else agent.run("go", session_id="s"))
            attempts = [entry.attempt for entry in out.entries if type(entry) is RunResumed]
            assert (out.status, attempts, ran[0]) == ("done", [1] * number, max(0, number - 1))


async def test_waiting_again_and_again_is_no_dying():
    agent = w.Agent(scripted(call("ask_host"), "done"), tools=[ask_host])
    out = await agent.run("go", session_id="s")
    for _ in range(8):
        out = await agent.resume("s")
        assert out.status == "suspended"
    assert (await agent.resume("s", results={out.pending[0].id: "yes"})).status == "done"


# --------------------------------------------------------------------------- limits that last


async def test_resume_remembers_the_budget_of_the_run():
    model = priced(call("ask_host"), call("ask_host"), "done", usage=usd(1000))
    agent = w.Agent(model, tools=[ask_host], max_tokens=100)
    out = await agent.run("go", session_id="s", budget=w.Budget(usd=1.5))
    out = await agent.resume("s", results={out.pending[0].id: "yes"})
    assert (out.status, out.cost_usd) == ("suspended", pytest.approx(2.0))
    out = await agent.resume("s", results={out.pending[0].id: "yes"})
    assert (out.status, out.stop_reason) == ("budget_exhausted", "usd")


@pytest.mark.parametrize(
    ("own", "given", "status"),
    [(1.0, None, "budget_exhausted"), (9.0, None, "budget_exhausted"), (None, 9.0, "done")],
)
async def test_a_resuming_program_may_lower_it_and_raise_it_by_saying_so(
    own: float | None, given: float | None, status: str
):
    model = priced(call("ask_host"), "done", usage=usd(2000))
    first = w.Agent(model, tools=[ask_host], max_tokens=100)
    out = await first.run("go", session_id="s", budget=w.Budget(usd=2.0))
    other = w.Agent(
        model, tools=[ask_host], max_tokens=100, budget=None if own is None else w.Budget(usd=own)
    )
    more: Any = {} if given is None else {"budget": w.Budget(usd=given)}
    out = await other.resume("s", results={out.pending[0].id: "yes"}, **more)
    assert out.status == status

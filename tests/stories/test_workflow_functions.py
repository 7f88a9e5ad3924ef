"""Workflows in plain Python: steps run once, branches side by side, parks, changed code is named."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from windlass.testing import call, run_virtual, scripted


def agent(*replies: Any, **options: Any) -> w.Agent[Any, str]:
    """Build an agent with a scripted model."""
    return w.Agent(scripted(*replies), **options)


async def test_steps_and_branches_of_a_function():
    writer, checker, editor = agent("draft", name="writer"), agent("facts"), agent("style")
    published: list[Any] = []

    def publish(*parts: str) -> dict[str, Any]:
        published.append(parts)
        return {"parts": parts}

    @w.workflow
    async def review(wf: w.WorkflowContext, pr: int) -> Any:
        """Review a pull request."""
        draft = await wf.run(writer, f"Review {pr}.")
        a, b = await wf.parallel(wf.run(checker, draft.output), wf.run(editor, draft.output))
        return await wf.step(publish, a.output, b.output)

    result = await review.run(7, session_id="r")
    assert (result.status, result.output) == ("done", {"parts": ["facts", "style"]})
    assert [(step.key, step.name, step.kind) for step in result.steps] == [
        ("1", "writer", "run"),
        ("2.0.1", "agent", "run"),
        ("2.1.1", "agent", "run"),
        ("3", "publish", "step"),
    ]
    again = await review.resume("r")
    assert again.output == result.output and published == [("facts", "style")]
    assert "writer (run)  done" in w.workflow_draw(review, result)
    assert "n1 --> n2" in w.workflow_draw(review, result, format="mermaid")
    assert "n1 --> n3" in w.workflow_draw(review, result, format="mermaid")
    assert (await w.task_run("x", w.workflow(lambda_free))).output == "x"


async def lambda_free(wf: w.WorkflowContext, text: str) -> str:
    """Return the input."""
    return text


def test_branches_run_side_by_side():
    @w.workflow
    async def naps(wf: w.WorkflowContext) -> list[float]:
        async def nap(seconds: float) -> float:
            await asyncio.sleep(seconds)
            return asyncio.get_running_loop().time()

        async def twice(seconds: float) -> float:
            await wf.step(nap, seconds)
            return await wf.step(nap, seconds)

        began = asyncio.get_running_loop().time()
        return [end - began for end in await wf.parallel(twice(5), twice(1), twice(3))]

    assert run_virtual(naps.run()).output == [10.0, 2.0, 6.0]


async def test_failed_step_is_an_error_that_the_function_may_catch():
    calls: list[int] = []

    def flaky(limit: int) -> int:
        calls.append(1)
        if len(calls) < limit:
            raise ValueError("not yet")
        return len(calls)

    @w.workflow
    async def tries(wf: w.WorkflowContext) -> Any:
        assert await wf.step(flaky, 3, retries=2) == 3
        try:
            await wf.run(agent(w.BadRequest("no")), "do", name="broken")
        except w.WorkflowStepFailed as error:
            return [error.step, str(error)]
        return None

    result = await tries.run(session_id="t")
    assert result.output[0] == "broken" and "no" in result.output[1]
    assert [step.status for step in result.steps] == ["done", "failed"]

    @w.workflow
    async def fails(wf: w.WorkflowContext) -> None:
        await wf.step(flaky, 100)

    failed = await fails.run()
    assert (failed.status, failed.error["step"]) == ("failed", "flaky")
    with pytest.raises(w.WindlassError):
        failed.raise_for_status()


def build_paying(log: list[str]) -> w.Workflow:
    """Build a workflow with two branches that wait for an approval."""

    @w.tool(requires_approval=True)
    async def pay(what: str) -> str:
        """Pay."""
        log.append(what)
        return "paid"

    def paying(name: str) -> w.Agent[Any, str]:
        return agent(call("pay", what=name), f"{name} ok", name=name, tools=[pay])

    agents = {name: paying(name) for name in ("left", "right")}

    @w.workflow(name="pays")
    async def pays(wf: w.WorkflowContext, what: str) -> Any:
        async def branch(name: str) -> str:
            await wf.step(log.append, f"before {name}")
            out = await wf.run(agents[name], f"Pay {what}.")
            await wf.step(log.append, f"after {name}")
            return out.output

        return await wf.parallel(branch("left"), branch("right"))

    return pays


async def test_parked_steps_park_the_workflow_and_finished_ones_are_not_repeated():
    log: list[str] = []
    pays = build_paying(log)
    parked = await pays.run("all", session_id="p")
    assert parked.status == "suspended" and [one.path[0] for one in parked.pending] == [
        "left",
        "right",
    ]
    half = await pays.resume("p", decisions={parked.pending[1].id: True})
    assert half.status == "suspended" and [one.path[0] for one in half.pending] == ["left"]
    done = await pays.resume("p", decisions={half.pending[0].id: w.Allow()})
    assert done.output == ["left ok", "right ok"]
    assert log == ["before left", "before right", "right", "after right", "left", "after left"]


async def test_changed_code_is_named_with_the_step_and_the_session_stays():
    log: list[str] = []
    pays = build_paying(log)
    parked = await pays.run("all", session_id="c")

    @w.workflow(name="pays")
    async def other(wf: w.WorkflowContext, what: str) -> Any:
        await wf.step(log.append, "something new")

    with pytest.raises(w.WorkflowChanged, match="has step 'append', now it is given") as caught:

        @w.workflow(name="pays")
        async def given(wf: w.WorkflowContext, what: str) -> Any:
            await wf.parallel(wf.step(log.append, "changed"))

        await given.resume("c")
    assert caught.value.step == "append"
    with pytest.raises(w.WorkflowChanged, match="'pays'|append"):
        await other.resume("c")

    @w.workflow(name="pays")
    async def shorter(wf: w.WorkflowContext, what: str) -> str:
        return "nothing to do"

    with pytest.raises(w.WorkflowChanged, match="pays ends without it"):
        await shorter.resume("c")
    assert "something new" not in log and "changed" not in log
    done = await pays.resume("c", decisions={one.id: True for one in parked.pending})
    assert done.status == "done", done.error


async def test_wrong_uses_are_refused():
    with pytest.raises(w.ConfigError, match="async function"):
        w.workflow(lambda wf: None)  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(w.ConfigError, match="first parameter"):

        @w.workflow
        async def none() -> None: ...

    @w.workflow
    async def takes(wf: w.WorkflowContext, one: int) -> int:
        return one

    with pytest.raises(w.ConfigError, match="missing a required argument"):
        await takes.run()
    with pytest.raises(w.ConfigError, match="plain data"):
        await takes.run(object())
    with pytest.raises(w.ConfigError, match="no option 'modle'"):
        await takes.run(1, modle="x")
    with pytest.raises(w.ConfigError, match="no option 'temperature'"):
        await takes.run(1, temperature=1.0)

    @w.workflow
    async def gathers(wf: w.WorkflowContext) -> None:
        await asyncio.gather(wf.step(print, 1), wf.step(print, 2))

    gathered = await gathers.run()
    assert gathered.status == "failed" and "wf.parallel" in gathered.error["message"]

    @w.workflow
    async def endless(wf: w.WorkflowContext) -> None:
        while True:
            await wf.step(int, "1")

    bounded = await endless.run(max_steps=5)
    assert bounded.status == "failed" and "max_steps=5" in bounded.error["message"]
    assert len(bounded.steps) == 5


async def test_rules_and_budget_hold_for_the_agents_of_a_function():
    written: list[str] = []

    @w.tool
    async def write(text: str) -> str:
        """Write."""
        written.append(text)
        return "ok"

    writer = agent(call("write", text="x"), "done", tools=[write])

    @w.workflow
    async def writes(wf: w.WorkflowContext) -> str:
        return (await wf.run(writer, "Write.")).output

    result = await writes.run(permissions={"deny": ["write"]})
    assert result.output == "done" and written == []
    caller = w.Caller("ann")
    mine = w.Agent(scripted("hi"))

    @w.workflow
    async def says(wf: w.WorkflowContext) -> list[str]:
        return [(await wf.run(mine, "Hi.")).output, str(wf.caller), wf.session_id, wf.deps]

    said = await says.run(caller=caller, session_id="says", deps="db")
    assert said.output == ["hi", "ann", "says", "db"]


def test_at_most_max_parallel_steps_run_at_a_time():
    at_work: list[int] = [0, 0]

    async def nap(seconds: float) -> None:
        at_work[0] += 1
        at_work[1] = max(at_work)
        await asyncio.sleep(seconds)
        at_work[0] -= 1

    @w.workflow
    async def naps(wf: w.WorkflowContext) -> None:
        await wf.parallel(*[wf.step(nap, 1) for _ in range(6)])

    assert run_virtual(naps.run(max_parallel=2)).status == "done" and at_work[1] == 2


async def test_object_that_is_no_plain_data_counts_by_its_type():
    class Book:
        """A book."""

    seen: list[str] = []

    def read(book: Book) -> str:
        seen.append(type(book).__name__)
        return "read"

    ask = agent(
        call("look", where="x"),
        "found",
        tools=[w.Tool("look", "Look.", {"where": {"type": "string"}}, None)],
    )

    @w.workflow
    async def reads(wf: w.WorkflowContext) -> str:
        await wf.step(read, Book())
        return (await wf.run(ask, "Look.")).output

    parked = await reads.run(session_id="b")
    done = await reads.resume("b", results={parked.pending[0].id: "here"})
    assert (done.output, seen) == ("found", ["Book"])


async def test_abort_and_discard_end_the_steps_as_well():
    abort, asked = w.Abort(), list[w.Request]()

    async def stop(request: w.Request) -> str:
        asked.append(request)
        if len(asked) == 2:  # both steps have begun
            abort.abort("enough")
        await asyncio.sleep(30)
        return "never"

    @w.workflow
    async def waits(wf: w.WorkflowContext) -> None:
        await wf.parallel(wf.run(agent(stop), "one"), wf.run(agent(stop), "two"))

    ended = await waits.run(abort=abort, session_id="w")
    assert (ended.status, ended.stop_reason) == ("cancelled", "enough")
    children = [await w.sessions.agent_session_read(f"w.w1.{number}") for number in (1, 2)]
    assert {child.status for child in children} == {"cancelled"}
    log: list[str] = []
    pays = build_paying(log)
    await pays.run("all", session_id="p")
    assert len(await w.approvals()) == 2
    again = await pays.run("all", session_id="p", on_pending="discard")
    assert again.status == "done" and await w.approvals() == []  # its models say the rest
    assert [one for one in log if not one.startswith(("before", "after"))] == []

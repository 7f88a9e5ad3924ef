"""A parked run that is given up takes the questions of its children with it, on every record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import windlass as w
from windlass.engine.environment import current_store
from windlass.events import RunEnded, ToolDecided, ToolResulted
from windlass.store.base import Store
from windlass.testing import call, scripted

from .helpers import kept
from .test_parked_sessions import ASK, pay_tool

ANN = w.Caller("ann")
GIVEN_UP: list[tuple[str, Callable[..., Awaitable[Any]]]] = []


def given_up(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    GIVEN_UP.append((function.__name__, function))
    return function


def family(ran: list[str], depth: int = 2, *more: Any) -> w.Agent[Any, str]:
    """A lead whose child, or whose child's child, wants to pay and has to ask."""
    agent: Any = w.Agent(
        scripted(call("pay", to="bob"), "Paid."),
        tools=[pay_tool(ran)],
        approval_policy=ASK,
        name="payer",
    )
    for level in range(1, depth):
        name = agent.name
        last = level == depth - 1
        replies = (call(name, task="pay"), "Done.", *(more if last else ()))
        agent = w.Agent(scripted(*replies), tools=[agent.as_tool()], name=f"lead{level}")
    return agent


async def suspend(agent: w.Agent[Any, str], **options: Any) -> w.PendingApproval:
    out = await agent.run("go", session_id="s", **options)
    assert out.status == "suspended"
    [waiting] = await w.approvals()
    assert waiting.session_id != "s"
    return waiting


@given_up
async def by_run(agent: Any) -> Any:
    return await agent.run("Forget it.", session_id="s", on_pending="discard")


@given_up
async def by_stream(agent: Any) -> Any:
    async with agent.stream("Forget it.", session_id="s", on_pending="discard") as run:
        return await run.result()


@given_up
async def by_loop(agent: Any) -> Any:
    options = {name: agent.options[name] for name in ("model", "tools")}
    return await w.agent_loop("Forget it.", session_id="s", on_pending="discard", **options)


@given_up
async def by_cancel(agent: Any) -> Any:
    await w.agent_session_post("s", "cancel", "enough")
    return await agent.resume("s")


@given_up
async def by_abort(agent: Any) -> Any:
    abort = w.Abort()
    abort.abort("enough")
    return await agent.with_(abort=abort).resume("s")


@given_up
async def by_reset(agent: Any) -> Any:
    await w.agent_session_reset("s")
    return await agent.run("Hello.", session_id="s")


@given_up
async def by_close(agent: Any) -> Any:
    await w.agent_session_close("s")
    return await agent.run("Hello.", session_id="s")


async def check_discarded(store: Store, waiting: w.PendingApproval, ran: list[str]) -> None:
    assert await w.approvals() == [] and ran == []
    entries = await store.read(waiting.session_id)
    ended = entries[-1]
    assert isinstance(ended, RunEnded) and (ended.status, ended.stop_reason) == (
        "cancelled",
        "discarded",
    )
    refused = [e for e in entries if isinstance(e, ToolDecided) and e.action == "deny"]
    [result] = [e for e in entries if isinstance(e, ToolResulted)]
    assert [e.ask for e in refused] == [waiting.id] and refused[0].answered_by
    assert result.outcome == "not_run"
    await store.verify(waiting.session_id)
    # an answer that comes too late is refused at every door
    for answering in (w.approve, w.deny):
        with pytest.raises(w.NoSuchApproval, match="discarded"):
            await answering(waiting.id)
    with pytest.raises(w.AlreadyAnswered, match="discarded"):
        await store.post(waiting.session_id, "decision", {waiting.call_id: {"action": "allow"}})
    payer = w.Agent(scripted("no"), tools=[pay_tool(ran)], approval_policy=ASK)
    for name in (waiting.call_id, waiting.id):
        with pytest.raises(w.AlreadyAnswered, match="discarded"):
            await payer.resume(waiting.session_id, decisions={name: True})
    assert ran == []


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize(("name", "way"), GIVEN_UP)
async def test_question_of_a_child_is_discarded_with_its_parent(name: str, way: Any, depth: int):
    ran: list[str] = []
    agent = family(ran, depth, "More.")
    waiting = await suspend(agent)
    out = await way(agent)
    assert out.status in ("done", "cancelled")
    await check_discarded(current_store(), waiting, ran)


async def test_question_of_a_child_stands_while_its_parent_is_kept():
    """The control: the same tree, and the answer runs the call."""
    ran: list[str] = []
    agent = family(ran, 3)
    waiting = await suspend(agent)
    assert (await agent.run("more", session_id="s")).status == "suspended"
    assert [one.id for one in await w.approvals()] == [waiting.id]
    await w.approve(waiting.id)
    out = await agent.resume("s")
    assert (out.status, out.output, ran) == ("done", "Done.", ["bob"])
    await kept(out)


async def test_answer_before_the_discard_does_not_run_the_call():
    ran: list[str] = []
    agent = family(ran, 2, "More.")
    waiting = await suspend(agent)
    await w.approve(waiting.id)
    assert (await by_run(agent)).status == "done"
    assert ran == [] and await w.approvals() == []


async def test_discard_names_who_said_so_and_asks_whose_session_it_is():
    ran: list[str] = []
    agent = family(ran, 2, "More.")
    waiting = await suspend(agent, caller=ANN)
    with pytest.raises(w.NoSuchSession):
        await agent.run("x", session_id="s", on_pending="discard", caller=w.Caller("eve"))
    assert [one.id for one in await w.approvals()] == [waiting.id]
    await agent.run("x", session_id="s", on_pending="discard", caller=ANN)
    entries = await current_store().read(waiting.session_id)
    [refused] = [e for e in entries if isinstance(e, ToolDecided) and e.action == "deny"]
    assert refused.answered_by == "ann" and refused.asks
    assert await w.approvals() == []


async def test_child_that_somebody_runs_on_its_own_is_not_discarded():
    ran: list[str] = []
    agent = family(ran, 2, "More.")
    waiting = await suspend(agent)
    held = await current_store().open(waiting.session_id)
    with pytest.raises(w.SessionHeld):
        await by_run(agent)
    await held.close()
    [still] = await w.approvals()
    assert still.id == waiting.id
    assert (await by_run(agent)).status == "done"
    await check_discarded(current_store(), waiting, ran)


async def test_question_of_one_child_is_discarded_when_the_parent_ends_beside_another():
    """One child is parked while its sibling ends the run."""
    ran: list[str] = []
    abort = w.Abort()

    @w.tool(side_effect_level="none")
    async def leave() -> str:
        """Leave once the sibling waits."""
        for _ in range(10_000):
            if await w.approvals():
                break
            await asyncio.sleep(0)
        abort.abort("enough")
        return "left"

    payer: Any = w.Agent(
        scripted(call("pay", to="bob"), "Paid."),
        tools=[pay_tool(ran)],
        approval_policy=ASK,
        name="payer",
    )
    model = scripted([call("payer", task="pay"), call("leave")], "never")
    lead = w.Agent(model, tools=[payer.as_tool(), leave], abort=abort)
    out = await lead.run("go", session_id="s")
    assert out.status == "cancelled" and ran == []
    assert await w.approvals() == []


async def test_generate_discards_the_tree_of_a_conversation():
    ran: list[str] = []
    payer = family(ran, 2, "More.")
    async with w.Runtime(store=current_store(), resources=[], tools=[payer.as_tool()]) as scope:
        model = scripted(call("lead1", task="pay"), "Done.")
        with pytest.raises(w.Suspended):
            await scope.models.generate("go", model=model, conversation="c")
        [waiting] = await w.approvals(scope.store)
        out = await scope.models.generate(
            "Forget it.", model=scripted("Fine."), conversation="c", on_pending="discard"
        )
        assert out.content == "Fine." and ran == []
        assert await w.approvals(scope.store) == []
        ended = (await scope.store.read(waiting.session_id))[-1]
        assert isinstance(ended, RunEnded) and ended.stop_reason == "discarded"


async def test_lost_call_of_a_discarded_child_is_on_the_books():
    """Control of sums: what the tree spent is what its journals say."""
    ran: list[str] = []
    agent = family(ran, 2, "More.")
    await suspend(agent)
    before = len(await current_store().calls())
    out = await by_run(agent)
    assert len(await current_store().calls()) == before + 1
    await kept(out)


@pytest.mark.parametrize("depth", [2, 3])
async def test_question_is_not_shown_when_the_process_died_before_it_was_discarded(
    depth: int, monkeypatch: pytest.MonkeyPatch
):
    ran: list[str] = []
    agent = family(ran, depth)
    waiting = await suspend(agent)
    store = current_store()
    opened = type(store).open

    async def open_parent_only(self: Store, session_id: str, **how: Any) -> Any:
        if session_id != "s":
            raise w.StoreError("the process ended")
        return await opened(self, session_id, **how)

    monkeypatch.setattr(type(store), "open", open_parent_only)
    abort = w.Abort()
    abort.abort("enough")
    out = await agent.with_(abort=abort).resume("s")
    assert out.status == "cancelled"
    monkeypatch.undo()
    assert (await store.info(waiting.session_id)).status == "suspended"
    assert await w.approvals(store) == []
    assert await w.approvals(store, waiting.session_id) == []
    with pytest.raises(w.NoSuchApproval):
        await w.approve(waiting.id, store=store)
    assert not ran

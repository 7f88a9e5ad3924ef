"""What a session did is undone: newest first, on the record, once, and where it cannot be, it says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.engine.environment import current_environment
from windlass.events import RunEnded, UndoBegun, UndoEnded
from windlass.store.base import Store
from windlass.testing import call, scripted

LOG: list[Any] = []


@pytest.fixture(autouse=True)
def an_empty_log() -> Iterator[None]:
    LOG.clear()
    yield


async def unpay(args: dict[str, Any], result: w.ToolResult, ctx: w.ToolContext[Any]) -> str:
    """Ask for the money back.

    It may take days.
    """
    if args["amount"] == 13:
        raise ValueError("the bank is closed")
    LOG.append(("unpay", args, result.text, str(ctx.caller), ctx.idempotency_key))
    return f"got {args['amount']} back"


@w.tool(undo=unpay)
async def pay(to: str, amount: int) -> str:
    """Send money."""
    LOG.append(("pay", to, amount))
    return f"paid {amount}"


@w.tool(keyed=True, undo=lambda args, result, ctx: LOG.append(("unmail", ctx.idempotency_key)))
async def mail(to: str) -> str:
    """Send a letter."""
    return "mailed"


@w.tool
async def shout(words: str) -> str:
    """Say it aloud."""
    return words.upper()


@w.tool(undo=unpay)
async def broken(amount: int) -> str:
    """Fails."""
    raise ValueError("no")


@w.tool(side_effect_level="read_only")
async def look() -> str:
    """Look."""
    return "seen"


TOOLS = [pay, mail, shout, broken, look]
ANN = w.Caller("ann", roles=("clerk",), tenant="acme")


async def ran(*script: Any, session_id: str = "s", **options: Any) -> Any:
    doing = w.Agent(scripted(*script, "ok"), **{"tools": TOOLS, **options})
    return await doing.run("go", session_id=session_id)


async def entries(session_id: str = "s", *kinds: type) -> list[Any]:
    found = await store().read(session_id)
    return [entry for entry in found if type(entry) in kinds]


def store() -> Store:
    from windlass.engine.environment import current_store

    return current_store()


PAID = (call("pay", to="bob", amount=5), call("look"), call("mail", to="bob"))


async def test_effects_are_listed_newest_first_with_what_their_undo_does():
    await ran(*PAID, call("shout", words="hi"), call("broken", amount=1))
    steps = await w.undoable("s", tools=TOOLS)
    assert [(one.tool, one.what, one.why) for one in steps] == [
        ("broken", None, "it failed, and what it did until then is unknown"),
        ("shout", None, "shout declares no undo"),
        ("mail", "run <lambda>", None),
        ("pay", "Ask for the money back.", None),
    ]
    assert LOG == [("pay", "bob", 5)]


async def test_an_undo_runs_once_on_the_record_in_the_callers_name():
    await ran(*PAID, caller=ANN)
    LOG.clear()
    steps = await w.undo("s", tools=TOOLS, name="eve")
    assert [(one.tool, one.outcome, one.undone_by) for one in steps] == [
        ("mail", "ok", "eve"),
        ("pay", "ok", "eve"),
    ]
    assert LOG == [
        ("unmail", "s:call_3:undo"),
        ("unpay", {"to": "bob", "amount": 5}, "paid 5", str(ANN), "s:call_1:undo"),
    ]
    begun = await entries("s", UndoBegun)
    assert [(e.call_id, e.by, e.what) for e in begun] == [
        ("call_3", "eve", "run <lambda>"),
        ("call_1", "eve", "Ask for the money back."),
    ]
    assert [(e.outcome, e.detail) for e in await entries("s", UndoEnded)] == [
        ("ok", None),
        ("ok", "got 5 back"),
    ]
    again = await w.undo("s", tools=TOOLS)
    assert [one.why for one in again] == ["it was undone by eve"] * 2 and len(LOG) == 2
    assert (await store().info("s")).status == "done"


async def test_some_calls_are_undone_and_others_stay():
    await ran(*PAID)
    (step,) = await w.undo("s", "call_1", tools=TOOLS)
    assert (step.tool, step.outcome) == ("pay", "ok")
    left = await w.undoable("s", tools=TOOLS)
    assert [one.why is None for one in left] == [True, False]
    with pytest.raises(w.ConfigError, match="has no effect of call 'call_2'"):
        await w.undo("s", ["call_2"], tools=TOOLS)


async def test_what_fails_says_so_and_may_be_tried_again():
    await ran(call("pay", to="bob", amount=13), call("pay", to="bob", amount=5))
    steps = await w.undo("s", tools=TOOLS)
    assert [(one.outcome, one.detail) for one in steps] == [
        ("ok", "got 5 back"),
        ("error", "the bank is closed"),
    ]
    steps = await w.undo("s", tools=TOOLS)
    assert [one.outcome for one in steps] == ["ok", "error"] and steps[1].why is None


async def test_a_tool_that_is_not_here_cannot_be_undone():
    await ran(*PAID)
    steps = await w.undo("s")
    assert all("is not here" in (one.why or "") and one.outcome is None for one in steps)


async def test_an_undo_that_was_begun_and_lost_is_not_tried_again_unless_it_is_keyed():
    await ran(*PAID)
    journal = await store().open("s", create=False)
    for call_id, tool, effect in (("call_1", "pay", "plain"), ("call_3", "mail", "keyed")):
        journal.append(UndoBegun(call_id, tool, "eve", effect))
    journal.flush()
    await journal.close()
    LOG.clear()
    mailed, paid = await w.undo("s", tools=TOOLS)
    assert mailed.outcome == "ok" and LOG == [("unmail", "s:call_3:undo")]
    assert paid.outcome is None and "nobody knows how far that came" in (paid.why or "")


async def test_an_undo_that_takes_too_long_is_of_unknown_outcome():
    async def slow(args: Any, result: Any, ctx: Any) -> None:
        await asyncio.sleep(60)

    tools = [w.tool(name="pay", undo=slow, timeout=0.01)(pay.__wrapped__)]
    await ran(PAID[0], tools=tools)
    (step,) = await w.undo("s", tools=tools)
    assert step.outcome is None and "nobody knows" in (step.why or "")
    (step,) = await w.undoable("s", tools=tools)
    assert "began to undo it" in (step.why or "")


async def test_two_who_undo_at_once_undo_it_once(tmp_path: Path):
    place = f"sqlite:///{tmp_path}/runs.db"
    seen: list[Any] = []

    async def slowly(args: Any, result: Any, ctx: Any) -> None:
        LOG.append("unpaid")
        async with w.Runtime(store=place, environ={}):  # as another process would
            seen.extend(await w.undo("s", tools=tools, name="bob"))

    tools = [w.tool(name="pay", undo=slowly)(pay.__wrapped__)]
    async with w.Runtime(store=place, environ={}):
        await ran(PAID[0], tools=tools)
        LOG.clear()
        (step,) = await w.undo("s", tools=tools, name="ann")
        assert step.outcome == "ok" and LOG == ["unpaid"]
        assert "ann began to undo it" in (seen[0].why or "")


async def test_a_call_of_unknown_outcome_is_not_undone():
    began, abort = asyncio.Event(), w.Abort()

    @w.tool(undo=unpay, name="pay")
    async def hangs(to: str, amount: int) -> str:
        """Hang."""
        began.set()
        await asyncio.sleep(60)
        return "never"

    doing = w.Agent(scripted(PAID[0], "ok"), tools=[hangs])
    running = asyncio.ensure_future(doing.run("go", session_id="s", abort=abort))
    await began.wait()
    abort.abort("enough")
    assert (await running).status == "cancelled"
    (step,) = await w.undo("s", tools=[hangs])
    assert "its outcome is unknown" in (step.why or "") and LOG == []


async def test_a_commit_and_its_record_are_one():
    async def back(args: Any, result: Any, ctx: w.ToolContext[Any]) -> Any:
        """Take it out."""

        def body(tx: Any) -> str:
            tx.execute("DELETE FROM words WHERE word = ?", (args["word"],))
            if args["word"] == "bad":
                raise w.Conflict("it was changed")
            return "gone"

        return await ctx.commit(body)

    @w.tool(transactional=True, undo=back)
    async def keep(ctx: w.ToolContext[None], word: str) -> str:
        """Keep a word."""

        def body(tx: Any) -> str:
            tx.execute("CREATE TABLE IF NOT EXISTS words (word TEXT)")
            tx.execute("INSERT INTO words VALUES (?)", (word,))
            return "kept"

        return await ctx.commit(body)

    await ran(call("keep", word="good"), call("keep", word="bad"), tools=[keep])
    bad, good = await w.undo("s", tools=[keep])
    assert (bad.outcome, bad.detail) == ("conflict", "it was changed")
    assert (good.outcome, good.detail) == ("ok", "gone")
    left = await store().consult(lambda tx: tx.execute("SELECT word FROM words").fetchall())
    assert [row[0] for row in left] == ["bad"]


async def test_what_failed_before_it_committed_did_nothing():
    @w.tool(transactional=True, undo=unpay)
    async def keep(ctx: w.ToolContext[None]) -> str:
        """Keep."""
        raise ValueError("no room")

    await ran(call("keep"), tools=[keep])
    assert await w.undoable("s", tools=[keep]) == []


async def test_an_undo_of_a_transactional_tool_must_commit():
    @w.tool(transactional=True, undo=lambda args, result, ctx: None)
    async def keep(ctx: w.ToolContext[None]) -> str:
        """Keep."""
        return await ctx.commit(lambda tx: "kept")

    await ran(call("keep"), tools=[keep])
    (step,) = await w.undo("s", tools=[keep])
    assert step.outcome == "error" and "ctx.commit" in (step.detail or "")


async def test_what_a_fork_inherited_is_undone_where_it_was_done():
    await ran(*PAID)
    await w.agent_session_fork("s", "f")
    await ran(call("pay", to="bob", amount=7), session_id="f")
    LOG.clear()
    steps = await w.undo("f", tools=TOOLS)
    assert [(one.tool, one.outcome) for one in steps] == [
        ("pay", "ok"),
        ("mail", None),
        ("pay", None),
    ]
    assert steps[1].why == "it was done in session s: undo it there"
    assert [one[0] for one in LOG] == ["unpay"]
    assert len(await w.undo("s", tools=TOOLS)) == 2 and len(LOG) == 3


async def test_what_an_agent_did_is_undone_in_its_own_session():
    clerk = w.Agent(scripted(PAID[0], "paid"), tools=TOOLS, name="clerk")
    await ran(call("clerk", task="pay"), tools=[clerk.as_tool()])
    (step,) = await w.undo("s", tools=[clerk.as_tool()])
    assert step.why == "an agent did it, in a session of its own: undo s.call_1"
    (step,) = await w.undo("s.call_1", tools=TOOLS)
    assert step.outcome == "ok"


async def test_what_the_host_ran_is_listed_too():
    hosted = w.Tool("hosted", undo=lambda args, result, ctx: LOG.append(("unhosted", result.text)))
    doing = w.Agent(scripted(call("hosted"), "ok"), tools=[hosted])
    out = await doing.run("go", session_id="s")
    await doing.resume("s", results={out.pending[0].id: "did it"})
    (step,) = await w.undo("s", tools=[hosted])
    assert step.outcome == "ok" and LOG == [("unhosted", "did it")]


async def test_another_tenant_undoes_nothing():
    await ran(*PAID, caller=ANN)
    for who in (w.Caller("ann", tenant="evil"), w.Caller("eve")):
        with pytest.raises(w.NoSuchSession, match="no session 's'"):
            await w.undo("s", tools=TOOLS, caller=who)
    boss = w.Caller("boss", ("lead",), "acme")
    with pytest.raises(w.NoSuchSession):
        await w.undo("s", tools=TOOLS, caller=boss)
    LOG.clear()
    current_environment().roles.grant("lead", "agent_session.undo")
    await w.undo("s", tools=TOOLS, caller=boss)
    assert LOG[1][3] == str(boss)


async def test_a_session_at_work_is_left_alone():
    await ran(*PAID)
    journal = await store().open("s", create=False)
    started = [e for e in journal.entries if type(e).__name__ == "RunStarted"]
    journal.append(started[-1])  # a run that was killed looks like one at work
    journal.flush()
    await journal.close()
    with pytest.raises(w.ConfigError, match="may be at work"):
        await w.undo("s", tools=TOOLS)
    assert len(await w.undo("s", tools=TOOLS, force=True)) == 2


async def test_the_model_hears_of_it_if_it_goes_on():
    await ran(*PAID)
    await w.undo("s", "call_1", tools=TOOLS, name="eve")
    model = scripted("I see")
    await w.Agent(model, tools=TOOLS).run("and now?", session_id="s")
    assert "eve has undone what these calls did: pay." in str(model.requests[0].tail)
    assert len(await entries("s", RunEnded)) == 2


@pytest.mark.parametrize("value", [3, "words", dict])
async def test_what_an_undo_is_not(value: Any):
    with pytest.raises(w.ConfigError, match="undo is a function"):
        w.tool(undo=value)(pay.__wrapped__)


async def test_a_session_that_never_ran():
    await w.agent_session_open("empty")
    with pytest.raises(w.NoSuchSession, match="nothing to undo"):
        await w.undo("empty")


async def test_who_approves_a_plan_or_undoes_it_is_asked_for_the_right():
    ann, bea = w.Caller("ann", (), "acme"), w.Caller("bea", (), "acme")
    boss = w.Caller("boss", ("boss",), "acme")
    roles = {"boss": ["agent_session.answer", "agent_session.undo", "tool.*"], "none": []}
    async with w.Runtime(store="memory:", environ={}, roles=roles):
        out = await w.Agent(scripted("ok")).run("go", dry_run="plan", session_id="p", caller=ann)
        assert out.plan is not None
        for who in (bea, w.Caller("ann", (), "evil"), w.Caller("ann")):
            with pytest.raises(w.NoSuchSession):
                await w.approve_plan("p", by=who)
            with pytest.raises(w.NoSuchSession):
                await w.undo("p", by=who)
        for odd in ("ann", object(), {"user": "ann"}):
            with pytest.raises(w.ConfigError, match="by is who answers, a Caller"):
                await w.approve_plan("p", by=odd)  # pyright: ignore[reportArgumentType]
            with pytest.raises(w.ConfigError, match="by is who answers, a Caller"):
                await w.undo("p", by=odd)  # pyright: ignore[reportArgumentType]
        assert (await w.approve_plan("p", by=boss)).approved_by == "acme/boss"
        for who in (ann, boss):
            assert await w.undo("p", by=who) == []

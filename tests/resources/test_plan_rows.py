"""An approved plan on rows that are not what they were: somebody is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import windlass as w
from windlass.resources import preview
from windlass.resources.plan_check import find_last_write
from windlass.resources.row import plan_of
from windlass.resources.service import ResourceService
from windlass.resources.tx import Change
from windlass.testing import call, scripted

ANN, BEA = w.Caller("ann", (), "acme"), w.Caller("bea", (), "acme")


class Account(w.Resource):
    id: str
    amount: int = 0
    at: float = 0.0
    mcp_tools = ["double", "stamp", "add_rate"]

    def double(self, tx: w.ResourceTx) -> Account:
        """Double the amount."""
        self.amount *= 2
        return tx.save(self)

    def stamp(self, tx: w.ResourceTx) -> Account:
        """Write down when."""
        self.amount += 1
        self.at = tx.now
        return tx.save(self)

    def add_rate(self, tx: w.ResourceTx) -> Account:
        """Add what the account `rate` says."""
        rate = tx.get(Account, "rate")
        assert rate is not None
        self.amount += rate.amount
        return tx.save(self)


Between = Callable[[Any], Awaitable[Any]]


async def nothing(accounts: Any) -> None: ...


async def other_row(accounts: Any) -> None:
    await accounts.update("b", {"amount": 5}, caller=BEA)


async def changed(accounts: Any) -> None:
    await accounts.update("a", {"amount": 1000}, caller=BEA)


async def changed_back(accounts: Any) -> None:
    await accounts.update("a", {"amount": 1000}, caller=BEA)
    await accounts.update("a", {"amount": 10}, caller=BEA)


async def made_again(accounts: Any) -> None:
    await accounts.delete("a", caller=BEA)
    await accounts.create(id="a", amount=10, caller=BEA)


async def gone(accounts: Any) -> None:
    await accounts.delete("a", caller=BEA)


async def begun(runtime: Any) -> tuple[w.Runtime, Any]:
    scope = await runtime(Account)
    accounts = scope.resources[Account]
    for name, amount in (("a", 10), ("b", 1), ("rate", 3)):
        await accounts.create(id=name, amount=amount, caller=ANN)
    return scope, accounts


def agent(scope: w.Runtime, *script: Any) -> w.Agent[Any, str]:
    return w.Agent(scripted(*script, "ok"), tools=list(scope.resources), caller=ANN)


async def amount(accounts: Any, name: str = "a") -> int | None:
    try:
        return (await accounts.get(name, caller=ANN)).amount
    except w.NotFound:
        return None


DOUBLE, DELETE = call("double_account", id="a"), call("delete_account", id="a")


async def planned(scope: w.Runtime, *script: Any) -> w.EffectPlan:
    out = await agent(scope, *script).run("go", dry_run="plan")
    assert out.status == "done" and out.plan is not None
    return await w.approve_plan(out.plan, name="eve")


@pytest.mark.parametrize("between", [nothing, other_row])
@pytest.mark.parametrize(("what", "left"), [(DOUBLE, 20), (DELETE, None)], ids=["double", "delete"])
async def test_rows_as_they_were_need_no_question(
    runtime: Any, between: Between, what: Any, left: int | None
):
    scope, accounts = await begun(runtime)
    async with scope:
        plan = await planned(scope, what)
        await between(accounts)
        real = await agent(scope, what).run("go", plan=plan)
        assert real.status == "done" and await amount(accounts) == left


@pytest.mark.parametrize("between", [changed, changed_back, made_again, gone])
@pytest.mark.parametrize("what", [DOUBLE, DELETE], ids=["double", "delete"])
async def test_rows_that_differ_ask_again(runtime: Any, between: Between, what: Any):
    scope, accounts = await begun(runtime)
    async with scope:
        plan = await planned(scope, what)
        await between(accounts)
        before = await amount(accounts)
        real = await agent(scope, what).run("go", plan=plan, session_id="real")
        assert real.status == "suspended" and await amount(accounts) == before
        reason = real.pending[0].reason or ""
        assert f"not in plan {plan.id[:12]}" in reason
        if between is changed and what is DOUBLE:
            assert "1000 -> 2000" in reason and "10 -> 20" in reason


@pytest.mark.parametrize(
    ("yes", "left", "status"), [(True, 2000, "done"), (False, 1000, "done")], ids=["yes", "no"]
)
async def test_the_new_question_is_answered(runtime: Any, yes: bool, left: int, status: str):
    scope, accounts = await begun(runtime)
    async with scope:
        plan = await planned(scope, DOUBLE)
        await changed(accounts)
        real = await agent(scope, DOUBLE).run("go", plan=plan, session_id="real")
        on = await agent(scope).resume("real", decisions={real.pending[0].id: yes})
        assert on.status == status and await amount(accounts) == left


@pytest.mark.parametrize("between", [changed_back, made_again])
async def test_a_yes_is_to_the_rows_as_they_were_then(runtime: Any, between: Between):
    scope, accounts = await begun(runtime)
    async with scope:
        plan = await planned(scope, DOUBLE)
        await between(accounts)
        real = await agent(scope, DOUBLE).run("go", plan=plan, session_id="real")
        await between(accounts)
        on = await agent(scope).resume("real", decisions={real.pending[0].id: True})
        assert on.status == "suspended" and await amount(accounts) == 10
        again = await agent(scope).resume("real", decisions={on.pending[0].id: True})
        assert again.status == "done" and await amount(accounts) == 20


@pytest.mark.parametrize("between", [changed, made_again, nothing])
async def test_what_changes_after_the_decision_is_found_in_the_transaction(
    runtime: Any, between: Between, monkeypatch: pytest.MonkeyPatch
):
    scope, accounts = await begun(runtime)
    answer = ResourceService.for_tool

    async def late(self: Any, verb: Any, arguments: Any, ctx: Any) -> Any:
        await between(accounts)
        return await answer(self, verb, arguments, ctx)

    async with scope:
        plan = await planned(scope, DOUBLE)
        monkeypatch.setattr(ResourceService, "for_tool", late)
        real = await agent(scope, DOUBLE, DOUBLE).run("go", plan=plan)
        assert real.status == "suspended"  # the second try is asked about
        told = real.tool_calls[0].result
        if between is nothing:
            assert await amount(accounts) == 20 and '"amount":20' in told.replace(" ", "")
        else:
            assert '"conflict"' in told and await amount(accounts) in (10, 1000)


@pytest.mark.parametrize("sub_agent", [False, True], ids=["own", "of a sub-agent"])
@pytest.mark.parametrize("between", [changed, changed_back, made_again, nothing, other_row])
async def test_a_call_that_was_let_through_and_cut_off_is_compared_again_on_resume(
    runtime: Any, between: Between, sub_agent: bool, monkeypatch: pytest.MonkeyPatch
):
    scope, accounts = await begun(runtime)
    answer, reached = ResourceService.for_tool, asyncio.Event()

    def made(*script: Any) -> w.Agent[Any, str]:
        if not sub_agent:
            return agent(scope, *script)
        inner = w.Agent(scripted(*script, "ok"), tools=list(scope.resources), name="helper")
        task = [call("helper", task="double it")] if script else []
        return w.Agent(scripted(*task, "ok"), tools=[inner.as_tool()], caller=ANN)

    async def hang(self: Any, verb: Any, arguments: Any, ctx: Any) -> Any:
        reached.set()
        await asyncio.Event().wait()

    async with scope:
        out = await made(DOUBLE).run("go", dry_run="plan")
        assert out.plan is not None
        plan = await w.approve_plan(out.plan, name="eve")
        monkeypatch.setattr(ResourceService, "for_tool", hang)
        first = asyncio.create_task(
            made(DOUBLE).run("go", plan=plan, session_id="real", on_cancel="park")
        )
        await reached.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        monkeypatch.setattr(ResourceService, "for_tool", answer)
        await between(accounts)
        before = await amount(accounts)
        on = await made().resume("real")
        if between in (nothing, other_row):
            assert on.status == "done" and await amount(accounts) == 20
        else:
            assert await amount(accounts) == before  # the model is told, and may ask again
            assert "conflict" in on.tool_calls[0].result or sub_agent


async def test_effects_that_build_on_each_other_need_no_question(runtime: Any):
    scope, accounts = await begun(runtime)
    script = (DOUBLE, DOUBLE, DELETE, call("create_account", id="a", amount=7), DOUBLE)
    async with scope:
        plan = await planned(scope, *script)
        assert await amount(accounts) == 10
        real = await agent(scope, *script).run("go", plan=plan)
        assert real.status == "done", real.pending
        assert await amount(accounts) == 14


@pytest.mark.parametrize("between", [nothing, changed])
async def test_calls_of_one_reply_build_on_each_other_too(runtime: Any, between: Between):
    scope, accounts = await begun(runtime)
    script = ([call("stamp_account", id="a"), DOUBLE, DOUBLE], DELETE)
    async with scope:
        plan = await planned(scope, *script)
        await between(accounts)
        real = await agent(scope, *script).run("go", plan=plan)
        asked = between is changed
        assert real.status == ("suspended" if asked else "done"), real.pending
        assert await amount(accounts) == (1000 if asked else None)


async def test_an_effect_without_those_before_it_asks(runtime: Any):
    scope, accounts = await begun(runtime)
    update = call("update_account", id="a", values={"amount": 50})
    async with scope:
        plan = await planned(scope, update, DOUBLE)
        real = await agent(scope, DOUBLE).run("go", plan=plan)
        assert real.status == "suspended" and await amount(accounts) == 10


async def test_a_row_that_a_call_only_reads_shows_in_the_diff(runtime: Any):
    scope, accounts = await begun(runtime)
    add = call("add_rate_account", id="a")
    async with scope:
        plan = await planned(scope, add)
        await accounts.update("rate", {"amount": 5000}, caller=BEA)
        real = await agent(scope, add).run("go", plan=plan)
        assert real.status == "suspended" and await amount(accounts) == 10
        plan = await planned(scope, add)  # control
        assert (await agent(scope, add).run("go", plan=plan)).status == "done"
        assert await amount(accounts) == 5010


async def test_the_time_of_a_call_is_no_difference(runtime: Any):
    scope, accounts = await begun(runtime)
    stamp = call("stamp_account", id="a")
    async with scope:
        plan = await planned(scope, stamp)
        real = await agent(scope, stamp).run("go", plan=plan)
        assert real.status == "done" and await amount(accounts) == 11


@pytest.mark.parametrize("between", [changed, nothing])
async def test_a_plan_of_before_is_compared_by_its_diff(
    runtime: Any, between: Between, monkeypatch: pytest.MonkeyPatch
):
    scope, accounts = await begun(runtime)
    async with scope:
        with monkeypatch.context() as then:
            then.setattr(preview, "describe_rows", lambda changes, loose: None)
            then.setattr(preview, "end_of_log", lambda tx: None)
            plan = await planned(scope, DOUBLE)
        assert plan.effects[0].rows is None
        await between(accounts)
        real = await agent(scope, DOUBLE).run("go", plan=plan)
        assert real.status == ("done" if between is nothing else "suspended")


async def test_a_sub_agent_is_held_to_the_rows_too(runtime: Any):
    scope, accounts = await begun(runtime)

    def boss() -> w.Agent[Any, str]:
        clerk = w.Agent(scripted(DOUBLE, "ok"), tools=list(scope.resources), name="clerk")
        return w.Agent(scripted(call("clerk", task="x"), "ok"), tools=[clerk.as_tool()], caller=ANN)

    async with scope:
        for between, status, left in ((nothing, "done", 20), (changed, "suspended", 1000)):
            out = await boss().run("go", dry_run="plan")
            plan = await w.approve_plan(out.plan, name="eve")
            await between(accounts)
            real = await boss().run("go", plan=plan)
            assert (real.status, await amount(accounts)) == (status, left)


async def test_the_log_is_read_from_where_it_ended_when_the_plan_was_made(runtime: Any, place: str):
    """However long the log, only rows after the mark are looked at: `n` is its key."""
    scope, accounts = await begun(runtime)
    async with scope:
        for number in range(20):
            await accounts.update("b", {"amount": number}, caller=BEA)
        plan = await planned(scope, DOUBLE)
        assert plan.effects[0].mark is not None and plan.effects[0].mark >= 20
        asked: list[tuple[str, tuple[Any, ...]]] = []

        def explain(tx: Any) -> list[str]:
            class Spy:
                dialect = tx.dialect

                def execute(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
                    asked.append((sql, values))
                    return tx.execute(sql, values)

            changes = [Change(plan_of(Account), "a", None, None)]
            assert find_last_write(Spy(), "acme", changes, 0, frozenset()) > 0
            assert find_last_write(Spy(), "acme", changes, plan.effects[0].mark, frozenset()) == 0
            words = "EXPLAIN" if tx.dialect == "postgres" else "EXPLAIN QUERY PLAN"
            return [
                str(row)
                for sql, values in asked
                for row in tx.execute(f"{words} {sql}", values).fetchall()
            ]

        found = " ".join(await scope.store.consult(explain))
        if place.startswith("postgres"):  # a planner scans what fits on one page
            assert "windlass_audit_pkey" in found or "n > " in found
        else:
            assert "SEARCH" in found and "PRIMARY KEY (rowid>?)" in found and "SCAN" not in found

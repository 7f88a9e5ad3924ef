"""Seals under strain: many at once, several processes' worth of stores, cancellation, sub-agents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.audit import seal as sealing
from windlass.errors import StoreError
from windlass.store.base import Store
from windlass.testing import no_model_requests, scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server

from .tamper import ANN, Order, work

POSTGRES = pytest.mark.skipif(find_binaries() is None, reason=MISSING)


@pytest.fixture(autouse=True)
def offline() -> Iterator[None]:
    with no_model_requests():
        yield


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=POSTGRES)])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Makes stores of their own at one place, as processes of their own would."""
    if request.param == "sqlite":
        from windlass.store.sqlite.store import SqliteStore

        return lambda: SqliteStore(tmp_path / "shop.db")
    from windlass.store.postgres.store import PostgresStore

    url = shared_server().schema()
    return lambda: PostgresStore(url)


async def test_several_seal_one_tenant(stores, tmp_path):
    anchor = tmp_path / "anchor.jsonl"
    homes: list[Store] = [stores() for _ in range(3)]
    scopes = [w.Runtime(home, environ={}, resources=[Order], audit_anchor=anchor) for home in homes]

    async def one(number: int, scope: w.Runtime) -> None:
        async with scope:
            for turn in range(4):
                await work(scope, f"p{number}-{turn}", ANN, turns=1)
                await scope.resources[Order].create(id=f"h{number}-{turn}", caller=ANN)

    await asyncio.gather(*(one(number, scope) for number, scope in enumerate(scopes)))
    async with w.Runtime(homes[0], environ={}, audit_anchor=anchor) as scope:
        await scope.audit.seal()  # what a turn could not do, if two stood in each other's way
        report = await scope.audit.verify()
        assert report.ok and not report.not_covered, report
        assert report.sessions == 12 and report.seals >= 3
    for home in homes:
        await home.aclose()


async def test_a_child_is_sealed_as_its_parent_is(tmp_path):
    anchor, store = tmp_path / "anchor.jsonl", f"sqlite:///{tmp_path}/shop.db"
    async with w.Runtime(store, environ={}, audit_anchor=anchor) as scope:
        child = w.Agent(scripted("looked"), name="helper").as_tool()
        agent = w.Agent(
            scripted(w.ToolCall("c1", child.name, {"task": "look"}), "done"), tools=[child]
        )
        out = await agent.run("go", session_id="s1", caller=ANN)
        assert out.status == "done"
        report = await scope.audit.verify()
        assert report.ok and report.sessions == 2 and not report.not_covered, report


async def test_who_cancels_does_not_wait_for_an_anchor(tmp_path, monkeypatch):
    monkeypatch.setattr(sealing, "SENDING", 0.05)
    started, never = asyncio.Event(), asyncio.Event()

    async def hang(_seal: w.Seal) -> None:
        started.set()
        await never.wait()

    store = f"sqlite:///{tmp_path}/shop.db"
    async with w.Runtime(store, environ={}, audit_anchor=hang):
        run = asyncio.ensure_future(w.agent_loop("hi", model=scripted("x"), session_id="s1"))
        await started.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_an_anchor_that_hangs_holds_a_run_for_a_while_only(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sealing, "SENDING", 0.01)

    async def hang(_seal: w.Seal) -> None:
        await asyncio.Event().wait()

    async with w.Runtime(f"sqlite:///{tmp_path}/shop.db", environ={}, audit_anchor=hang):
        out = await w.agent_loop("hi", model=scripted("x"), session_id="s1")
        assert out.status == "done" and "could not be anchored: TimeoutError" in caplog.text


async def test_a_store_that_cannot_seal_loses_no_run(tmp_path, monkeypatch, caplog):
    from windlass.store import seals

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    anchor, store = tmp_path / "anchor.jsonl", f"sqlite:///{tmp_path}/shop.db"
    async with w.Runtime(store, environ={}, audit_anchor=anchor) as scope:
        with monkeypatch.context() as patch:
            patch.setattr(seals, "write", full)
            out = await w.agent_loop("hi", model=scripted("x"), session_id="s1")
            assert out.status == "done" and "the disk is full" in caplog.text
            with pytest.raises(StoreError):
                await scope.audit.seal()
        await w.agent_loop("hi", model=scripted("x"), session_id="s2")
        report = await scope.audit.verify()
        assert report.ok and report.sessions == 2 and not report.not_covered


async def test_a_run_in_yet_another_store_is_not_sealed_and_told_of(tmp_path, caplog):
    anchor, store = tmp_path / "anchor.jsonl", f"sqlite:///{tmp_path}/shop.db"
    async with w.Runtime(store, environ={}, audit_anchor=anchor):
        await w.agent_loop("hi", model=scripted("x"), session_id="s1", store="memory:")
        assert not caplog.text
        for _ in range(2):
            other = f"sqlite:///{tmp_path}/other.db"
            await w.agent_loop("hi", model=scripted("x"), session_id="s1", store=other)
    assert caplog.text.count("are not sealed") == 1
    assert not anchor.exists() or not anchor.read_bytes()


async def test_where_the_runtime_has_memory_the_store_of_the_agent_is_sealed(tmp_path):
    anchor, store = tmp_path / "anchor.jsonl", f"sqlite:///{tmp_path}/shop.db"
    async with w.Runtime(environ={}, audit_anchor=anchor) as scope:
        out = await w.Agent(scripted("x"), store=store).run("hi", session_id="s1")
        assert out.status == "done"
        report = await scope.audit.verify()
        assert report.ok and report.sessions == report.anchored == 1 and not report.not_covered


async def test_many_ends_make_several_seals(tmp_path, monkeypatch):
    from windlass.store import seals

    monkeypatch.setattr(seals, "MOST", 3)
    async with w.Runtime(f"sqlite:///{tmp_path}/shop.db", environ={}) as scope:
        for number in range(10):
            await w.agent_loop("hi", model=scripted("x"), session_id=f"s{number}")
        made = await scope.audit.seal()
        assert [len(seal.ends) for seal in made] == [3, 3, 3, 1]
        assert (await scope.audit.verify()).ok


async def test_a_session_reset_or_trimmed_is_still_whole(tmp_path):
    anchor, store = tmp_path / "anchor.jsonl", f"sqlite:///{tmp_path}/shop.db"
    async with w.Runtime(store, environ={}, audit_anchor=anchor) as scope:
        for _ in range(2):
            await w.agent_loop("hi", model=scripted("x"), session_id="s1")
        await w.agent_session_trim("s1", 1)
        await w.agent_session_reset("s1")
        report = await scope.audit.verify()
        assert report.ok and "s1 from row" in report.not_covered[0]
        await scope.audit.seal()
        assert not (await scope.audit.verify()).not_covered


@pytest.mark.parametrize("table", ["windlass_seals", "windlass_tombstones", "windlass_anchored"])
async def test_no_tool_can_write_to_seals(stores, table):
    home = stores()
    async with w.Runtime(home, environ={}) as scope:
        await scope.audit.seal()
        with pytest.raises(StoreError, match="a body may not"):
            await home.commit(lambda tx: tx.execute(f"DELETE FROM {table}"))
    await home.aclose()


async def test_a_store_at_work_is_whole_whenever_one_looks(stores, tmp_path):
    home = stores()
    anchor = tmp_path / "anchor.jsonl"
    async with w.Runtime(home, environ={}, resources=[Order], audit_anchor=anchor) as scope:
        await work(scope, "first", ANN, turns=1)
        done = asyncio.Event()

        async def busy(number: int) -> None:
            for turn in range(3):
                name = f"b{number}-{turn}"
                await work(scope, name, ANN, turns=2)
                await scope.resources[Order].create(id=f"h{name}", caller=ANN)
                if turn == 1:
                    await home.delete(name)

        async def look() -> int:
            looks = 0
            while not done.is_set():
                report = await scope.audit.verify()
                assert report.ok, report.findings
                await scope.audit.query(tenant="acme", limit=5)
                looks += 1
            return looks

        looking = asyncio.ensure_future(look())
        await asyncio.gather(*(busy(number) for number in range(4)))
        done.set()
        assert await looking > 1
        report = await scope.audit.verify()
        assert report.ok and len(report.deleted) == 4
    await home.aclose()

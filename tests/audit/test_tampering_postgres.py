"""The same seven ways where the record is in Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

import windlass as w
from windlass.store.base import Store
from windlass.testing import no_model_requests
from windlass.testing.postgres import MISSING, find_binaries, shared_server

from .tamper import (
    ANN,
    KINDS,
    Backup,
    Run,
    history,
    more,
    places,
    tamper,
)
from .test_tampering import PLACES, chosen, unseen_alone

T = TypeVar("T")
pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)
DEEDS = [kind for kind in KINDS if kind != "restore"]


@pytest.fixture(autouse=True)
def offline() -> Iterator[None]:
    with no_model_requests():
        yield


async def by_hand(store: Store, deed: Callable[[Run], T]) -> T:
    """Statements behind the store's back, in one transaction."""

    def body(tx: Any) -> T:
        return deed(lambda sql, values=(): tx.keep(sql, tuple(values)).fetchall())

    return await store.commit(body)


async def sweep(tmp_path: Path, kind: str, count: int) -> dict[str, int]:
    url, anchor = shared_server().schema(), tmp_path / "anchor.jsonl"
    await history(url, anchor)
    seen = {"anchored": 0, "alone": 0, "not covered": 0}
    async with w.Runtime(url, environ={}) as scope:
        store = scope.store
        assert (report := await scope.audit.verify(anchor=anchor)).ok and not report.not_covered
        backup = await by_hand(store, Backup)
        for salt, place in enumerate(chosen(await by_hand(store, places), kind, count)):
            await by_hand(store, partial(tamper, kind=kind, place=place, salt=salt // 3))
            report = await scope.audit.verify(anchor=anchor)
            assert not report.ok, f"{kind} at {place} was not seen"
            seen["anchored"] += 1
            alone = await scope.audit.verify()
            if alone.ok:
                assert any("no anchor" in line for line in alone.not_covered)
                assert unseen_alone(kind, place), (kind, place)
            seen["not covered" if alone.ok else "alone"] += 1
            await by_hand(store, backup.put_back)
        assert (await scope.audit.verify(anchor=anchor)).ok
    return seen


@pytest.mark.parametrize("kind", DEEDS)
async def test_it_is_seen(tmp_path, kind):
    assert (await sweep(tmp_path, kind, 3))["anchored"] == 3


@pytest.mark.deep
@pytest.mark.parametrize("kind", DEEDS)
async def test_it_is_seen_anywhere(tmp_path, kind):
    seen = await sweep(tmp_path, kind, PLACES)
    assert seen["anchored"] == PLACES
    print(f"{kind}: {seen}")


async def restored(tmp_path: Path, count: int) -> int:
    """Backups on the way, each put back at the end; how many were seen."""
    url, anchor, seen = shared_server().schema(), tmp_path / "anchor.jsonl", 0
    backups: list[Backup] = []
    await history(url, anchor)
    async with w.Runtime(url, environ={}, audit_anchor=anchor) as scope:
        for number in range(count + 1):
            model = w.testing.scripted("hello")
            await w.agent_loop("hi", model=model, session_id=f"n{number % 7}", caller=ANN)
            backups.append(await by_hand(scope.store, Backup))
    async with w.Runtime(url, environ={}) as scope:
        for backup in backups[:-1]:
            await by_hand(scope.store, backup.put_back)
            report = await scope.audit.verify(anchor=anchor)
            seen += any("older copy" in one.problem for one in report.findings)
            alone = await scope.audit.verify()
            assert alone.ok and any("no anchor" in line for line in alone.not_covered)
        await by_hand(scope.store, backups[-1].put_back)
        assert (await scope.audit.verify(anchor=anchor)).ok
    return seen


async def test_an_old_backup_is_seen_only_from_outside(tmp_path):
    assert await restored(tmp_path, 3) == 3


@pytest.mark.deep
async def test_a_backup_of_any_moment_is_seen(tmp_path):
    assert await restored(tmp_path, PLACES) == PLACES


async def test_who_deletes_by_the_rules_leaves_a_mark(tmp_path):
    url, anchor = shared_server().schema(), tmp_path / "anchor.jsonl"
    await history(url, anchor)
    async with w.Runtime(url, environ={}, audit_anchor=anchor) as scope:
        await scope.store.delete("s0")
        assert (await scope.audit.verify()).ok
        await scope.audit.seal()
        report = await scope.audit.verify()
        assert report.ok and [one.name for one in report.deleted] == ["s0"]
        assert not report.not_covered
        await scope.store.prune(2e10)
        report = await scope.audit.verify()
        assert report.ok and report.sessions == 0 and len(report.deleted) == 4


async def test_what_an_agent_did_is_one_query(tmp_path):
    url = shared_server().schema()
    await history(url, tmp_path / "anchor.jsonl")
    await more(url, tmp_path / "anchor.jsonl")
    async with w.Runtime(url, environ={}) as scope:
        for which, count in (
            ({}, 40),
            ({"tenant": "acme"}, 24),
            ({"caller": "eve"}, 16),
            ({"session": "s1"}, 6),
            ({"tool": "note"}, 16),
            ({"resource": "order"}, 24),
            ({"until": 1.0}, 0),
            ({"tenant": None}, 0),
            ({"since": 1.0}, 40),
        ):
            assert len((await scope.audit.query(**which)).entries) == count, which
        page = await scope.audit.query(limit=7)
        rest = await scope.audit.query(cursor=page.cursor)
        assert page.entries + rest.entries == (await scope.audit.query()).entries

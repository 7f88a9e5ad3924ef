"""Seven ways to change the record, at a hundred places each: all are seen, or said not to be covered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.events import ToolDecided, ToolIntended
from windlass.resources import audit
from windlass.store import codec
from windlass.testing import no_model_requests

from .tamper import (
    KINDS,
    TABLES,
    Database,
    copied,
    history,
    more,
    places,
    swapped_file,
    tamper,
)

PLACES = 100


@pytest.fixture(autouse=True)
def offline() -> Iterator[None]:
    with no_model_requests():
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a history, backups taken on the way, and its anchor."""
    folder = tmp_path_factory.mktemp("world")

    async def make() -> None:
        store, anchor = f"sqlite:///{folder}/shop.db", folder / "anchor.jsonl"
        await history(store, anchor)
        copied(folder / "shop.db", folder / "old.db")
        await more(store, anchor)

    with no_model_requests():
        asyncio.run(make())
    copied(folder / "shop.db", folder / "now.db")
    return folder


async def verified(file: Path, anchor: Path | None) -> w.AuditReport:
    async with w.Runtime(f"sqlite:///{file}", environ={}) as scope:
        return await scope.audit.verify(anchor=anchor)


async def test_the_untouched_store_is_whole(world):
    report = await verified(world / "shop.db", world / "anchor.jsonl")
    assert report.ok and not report.not_covered, report
    assert report.sessions == 8 and report.audit_rows >= 20 and report.seals >= 8


def in_file(file: Path) -> list[tuple[str, Any, int, int]]:
    run = Database(file)
    found = places(run)
    run.close()
    return found


def chosen(
    found: list[tuple[str, Any, int, int]], kind: str, count: int
) -> list[tuple[str, Any, int, int]]:
    """Some of them, spread over all tables; where the deed would change nothing is no place."""
    if kind == "swap":
        found = [place for place in found if place[3] > (1 if place[0] == "windlass_seals" else 0)]
    if kind == "cut_tail":  # of a journal at least its opening stays
        found = [place for place in found if place[0] != "windlass_rows" or place[2] > 0]
    random.Random(kind).shuffle(found)
    tables = {table: [place for place in found if place[0] == table] for table in TABLES}
    mixed: list[tuple[str, Any, int, int]] = []
    while len(mixed) < count:
        for some in tables.values():
            mixed.append(some[len(mixed) // len(tables) % len(some)])
    return mixed[:count]


def unseen_alone(kind: str, place: tuple[str, Any, int, int]) -> bool:
    """Without its last seal a store looks as it did before it was sealed."""
    table, _, at, last = place
    return table == "windlass_seals" and (kind == "cut_tail" or (kind == "delete" and at == last))


async def sweep(world: Path, tmp_path: Path, kind: str, count: int) -> dict[str, int]:
    """Tamper `count` times, each time with a fresh copy; how often it was seen with and without."""
    seen = {"anchored": 0, "alone": 0, "not covered": 0}
    for salt, place in enumerate(chosen(in_file(world / "now.db"), kind, count)):
        file = tmp_path / f"{kind}{salt}.db"
        swapped_file(world / "now.db", file)
        run = Database(file)
        tamper(run, kind, place, salt // len(TABLES))
        run.close()
        report = await verified(file, world / "anchor.jsonl")
        assert not report.ok, f"{kind} at {place} was not seen"
        assert all(str(one) and "\n" not in str(one) for one in report.findings)
        seen["anchored"] += 1
        alone = await verified(file, None)
        if alone.ok:
            assert any("no anchor" in line for line in alone.not_covered), (kind, place)
            assert unseen_alone(kind, place), (kind, place)
            seen["not covered"] += 1
        else:
            seen["alone"] += 1
        file.unlink()
    return seen


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "restore"])
async def test_it_is_seen(world, tmp_path, kind):
    seen = await sweep(world, tmp_path, kind, 9)
    assert seen["anchored"] == 9


@pytest.mark.deep
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "restore"])
async def test_it_is_seen_anywhere(world, tmp_path, kind):
    seen = await sweep(world, tmp_path, kind, PLACES)
    assert seen["anchored"] == PLACES and seen["alone"] + seen["not covered"] == PLACES
    print(f"{kind}: {seen}")


async def test_an_old_backup_is_seen_only_from_outside(world):
    report = await verified(world / "old.db", world / "anchor.jsonl")
    assert not report.ok and "older copy" in report.findings[0].problem
    gone = [one.session for one in report.findings if one.session is not None]
    assert {"s0x", "s1x", "s2x", "s3x"} <= set(gone)
    alone = await verified(world / "old.db", None)
    assert alone.ok and any("older copy" in line for line in alone.not_covered)


@pytest.mark.deep
async def test_a_backup_of_any_moment_is_seen(tmp_path):
    """A backup after each of a hundred sealed runs, put back at the end."""
    anchor, file = tmp_path / "anchor.jsonl", tmp_path / "shop.db"
    async with w.Runtime(f"sqlite:///{file}", environ={}, audit_anchor=anchor):
        for number in range(PLACES + 1):
            model = w.testing.scripted("hello")
            await w.agent_loop("hi", model=model, session_id=f"s{number % 7}")
            if number < PLACES:
                copied(file, tmp_path / f"old{number}.db")
    for number in range(PLACES):
        report = await verified(tmp_path / f"old{number}.db", anchor)
        assert not report.ok and "older copy" in report.findings[0].problem
        alone = await verified(tmp_path / f"old{number}.db", None)
        assert alone.ok and any("no anchor" in line for line in alone.not_covered)


async def test_a_store_that_was_put_back_and_went_on_is_seen(world, tmp_path):
    swapped_file(world / "old.db", tmp_path / "shop.db")
    anchor = tmp_path / "anchor.jsonl"
    anchor.write_bytes((world / "anchor.jsonl").read_bytes())
    await more(f"sqlite:///{tmp_path}/shop.db", anchor)
    report = await verified(tmp_path / "shop.db", anchor)
    assert any("anchored twice" in one.problem for one in report.findings)
    assert (await verified(tmp_path / "shop.db", None)).ok


async def test_who_writes_everything_anew_is_seen_only_from_outside(world, tmp_path):
    """Another history with sound chains and sound seals: only the anchor knows better."""
    other = tmp_path / "shop.db"
    await history(f"sqlite:///{other}", tmp_path / "mine.jsonl")
    assert (await verified(other, None)).ok
    report = await verified(other, world / "anchor.jsonl")
    assert any("differs from the one that is anchored" in one.problem for one in report.findings)


async def test_a_session_that_vanished_is_told_from_one_that_was_deleted(world, tmp_path):
    file = tmp_path / "shop.db"
    swapped_file(world / "now.db", file)
    async with w.Runtime(f"sqlite:///{file}", environ={}) as scope:
        await scope.store.delete("s0x")
    run = Database(file)
    (sid,) = run("SELECT sid FROM windlass_sessions WHERE id = 's1x'")[0]
    for table in ("windlass_rows", "windlass_sessions"):
        run(f"DELETE FROM {table} WHERE sid = ?", (sid,))
    run.close()
    report = await verified(file, world / "anchor.jsonl")
    (finding,) = report.findings
    assert finding.session == "s1x" and "nobody deleted it" in finding.problem
    assert [one.name for one in report.deleted] == ["s0x"]


async def test_an_anchor_that_was_changed_is_seen(world, tmp_path):
    lines = (world / "anchor.jsonl").read_bytes().splitlines()
    anchor = tmp_path / "anchor.jsonl"
    anchor.write_bytes(b"\n".join([lines[0].replace(b"acme", b"acmf"), *lines]) + b"\n")
    (finding,) = (await verified(world / "shop.db", anchor)).findings
    assert "in the anchor was changed" in finding.problem
    anchor.write_bytes(b"\n".join(lines[3:]) + b"\n")  # each vouches for all before it
    report = await verified(world / "shop.db", anchor)
    assert report.ok and not report.not_covered
    anchor.write_bytes(b"\n".join(lines[:-2]) + b"\n")
    report = await verified(world / "shop.db", anchor)
    assert report.ok and "2 seals are in the store alone" in report.not_covered[0]
    anchor.unlink()
    report = await verified(world / "shop.db", anchor)
    assert "is not there" in report.findings[0].problem


@pytest.mark.parametrize("column", ["tenant", "caller", "request", "conversation"])
async def test_the_index_that_queries_go_by_is_checked(world, tmp_path, column):
    file = tmp_path / "shop.db"
    swapped_file(world / "now.db", file)
    run = Database(file)
    run(f"UPDATE windlass_runs SET {column} = 'mallory' WHERE session = 's2'")
    run.close()
    (finding,) = (await verified(file, world / "anchor.jsonl")).findings
    assert finding.session == "s2" and "index of runs" in finding.problem


async def test_what_came_after_the_last_seal_is_named(world, tmp_path):
    file = tmp_path / "shop.db"
    swapped_file(world / "now.db", file)
    async with w.Runtime(f"sqlite:///{file}", environ={}):
        model = w.testing.scripted("hello")
        await w.agent_loop("hi", model=model, session_id="s0", caller=w.Caller("ann", (), "acme"))
    report = await verified(file, world / "anchor.jsonl")
    assert report.ok and "s0 from row" in report.not_covered[0]


ODD = {"a blob": b"\x00\xff", "words": "odd", "a number": -1, "a large number": 2**62}
COLUMNS = {
    **{table: (number, by, *columns) for table, (by, number, columns) in TABLES.items()},
    "windlass_sessions": ("id", "rows", "head", "last_key"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("table", COLUMNS)
async def test_what_is_of_another_kind_is_a_finding_and_no_crash(world, tmp_path, table, odd):
    for column in COLUMNS[table]:
        file = tmp_path / f"{column}.db"
        swapped_file(world / "now.db", file)
        run = Database(file)
        last = f"(SELECT max(rowid) FROM {table})"
        run(f'UPDATE {table} SET "{column}" = ? WHERE rowid = {last}', (ODD[odd],))
        run.close()
        report = await verified(file, world / "anchor.jsonl")
        assert not report.ok, column


async def test_odd_marks_of_deletion_excuse_nothing(world, tmp_path):
    file = tmp_path / "shop.db"
    swapped_file(world / "now.db", file)
    run = Database(file)
    run(
        "DELETE FROM windlass_rows WHERE sid IN (SELECT sid FROM windlass_sessions WHERE id = 's1x')"
    )
    run("DELETE FROM windlass_sessions WHERE id = 's1x'")
    for odd in (b"", "late", None):
        if odd is not None:
            run("INSERT INTO windlass_tombstones VALUES ('s1x', 1, ?, '', ?, 1)", (str(odd), odd))
    run.close()
    report = await verified(file, world / "anchor.jsonl")
    assert [one.session for one in report.findings] == ["s1x"] and not report.deleted


async def test_a_session_made_anew_is_not_excused_by_its_first_deletion(world, tmp_path):
    file, anchor = tmp_path / "shop.db", tmp_path / "anchor.jsonl"
    ann = w.Caller("ann", (), "acme")
    async with w.Runtime(f"sqlite:///{file}", environ={}, audit_anchor=anchor) as scope:
        for _ in range(2):
            model = w.testing.scripted("hello")
            await w.agent_loop("hi", model=model, session_id="s1", caller=ann)
            if not (await scope.audit.verify()).deleted:
                await scope.store.delete("s1")
        assert (await scope.audit.verify()).ok
    run = Database(file)
    run("DELETE FROM windlass_rows")
    run("DELETE FROM windlass_sessions")
    run.close()
    report = await verified(file, anchor)
    assert [one.session for one in report.findings] == ["s1"]


async def test_long_logs_are_read_a_page_at_a_time(world, monkeypatch):
    monkeypatch.setattr("windlass.audit.verify._PAGE", 3)
    monkeypatch.setattr("windlass.audit.query._PAGE", 2)
    monkeypatch.setattr("windlass.audit.query._AT_ONCE", 2)
    report = await verified(world / "shop.db", world / "anchor.jsonl")
    assert report.ok and not report.not_covered
    async with w.Runtime(f"sqlite:///{world}/shop.db", environ={}) as scope:
        assert len((await scope.audit.query()).entries) == 40
        assert len((await scope.audit.query(limit=5)).entries) == 5
        for session in ("s0", "s1x"):
            assert (await scope.audit.verify(session=session)).ok


def rechain(run: Database, session: str, at: int) -> None:
    """Change a row of a journal and make all hashes after it anew: a sound chain of another history."""
    ((sid,),) = run("SELECT sid FROM windlass_sessions WHERE id = ?", (session,))
    rows = run("SELECT seq, at, payload FROM windlass_rows WHERE sid = ? ORDER BY seq", (sid,))
    head = codec.genesis(session)
    for seq, when, payload in rows:
        if seq == at:
            when += 1.0
        head = codec.chain_hash(head, seq, when, payload)
        run(
            "UPDATE windlass_rows SET at = ?, hash = ? WHERE sid = ? AND seq = ?",
            (when, head, sid, seq),
        )
    run(
        "UPDATE windlass_sessions SET head = ?, updated_at = updated_at + 1 WHERE sid = ?",
        (head, sid),
    )


def rechain_log(run: Database, chain: str, at: int) -> None:
    """The same for the log of resources."""
    names = ", ".join(f'"{name}"' for name in audit.COLUMNS[1:-1])
    head = audit.genesis(chain)
    for row in run(f"SELECT {names} FROM windlass_audit WHERE chain = ? ORDER BY seq", (chain,)):
        content = list(row)
        if content[1] == at:
            content[4] = "mallory"
        head = audit.link(head, content)
        run(
            "UPDATE windlass_audit SET caller = ?, hash = ? WHERE chain = ? AND seq = ?",
            (content[4], head, chain, content[1]),
        )


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_who_makes_the_hashes_anew_is_caught_by_the_seals(world, tmp_path, at):
    file = tmp_path / "shop.db"
    for deed in (
        lambda run: rechain(run, "s0", at),
        lambda run: rechain_log(run, "session:s0", at),
    ):
        swapped_file(world / "now.db", file)
        run = Database(file)
        deed(run)
        run.close()
        for anchor in (world / "anchor.jsonl", None):
            (finding,) = (await verified(file, anchor)).findings
            assert finding.session == "s0" and "is not the row that was sealed" in finding.problem
        run = Database(file)
        run("DELETE FROM windlass_seals")
        run.close()
        assert not (await verified(file, world / "anchor.jsonl")).ok
        alone = await verified(file, None)
        assert alone.ok and any("nothing was ever sealed" in line for line in alone.not_covered)


async def test_a_call_that_began_without_a_decision_is_a_finding(tmp_path):
    async with w.Runtime(f"sqlite:///{tmp_path}/shop.db", environ={}) as scope:
        writer = await scope.store.open("s1")
        writer.append(ToolDecided("c1", "pay", "allow", "default", "ann", "d1"))
        writer.append(ToolIntended("c1", "pay", "plain"))
        writer.append(ToolDecided("c2", "pay", "allow", "", "ann", "d1"))
        writer.append(ToolIntended("c2", "pay", "plain"))
        writer.append(ToolIntended("c3", "pay", "plain"))
        await writer.close()
        findings = (await scope.audit.verify()).findings
        assert ["c2" in findings[0].problem, "c3" in findings[1].problem] == [True, True]
        assert len(findings) == 2 and {one.session for one in findings} == {"s1"}

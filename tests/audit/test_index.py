"""What queries read beside the chains is compared with them, and no clock makes a call disappear."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass import seams
from windlass.testing import no_model_requests, scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server

from .tamper import (
    ANN,
    EVE,
    history,
    note,
    work,
)
from .test_tampering_postgres import by_hand

STORES = [
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.skipif(find_binaries() is None, reason=MISSING)),
]


@pytest.fixture(autouse=True)
def offline() -> Iterator[None]:
    with no_model_requests():
        yield


@pytest.fixture(params=STORES)
async def scope(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[w.Runtime]:
    sqlite = request.param == "sqlite"
    place = f"sqlite:///{tmp_path}/s.db" if sqlite else shared_server().schema()
    await history(place, tmp_path / "anchor.jsonl")
    async with w.Runtime(place, environ={}) as scope:
        yield scope


RUNS = "UPDATE windlass_runs SET {} WHERE session = 's0'"
SESSIONS = "UPDATE windlass_sessions SET {} WHERE id = 's0'"
#: Changes to what a query reads and no chain holds, and a query that then misses calls of s0.
HIDDEN: dict[str, tuple[str, dict[str, Any]]] = {
    "runs deleted": ("DELETE FROM windlass_runs WHERE session = 's0'", {"tenant": "acme"}),
    "session renamed": (RUNS.format("session = 's9'"), {"tenant": "acme"}),
    "session emptied": (RUNS.format("session = NULL"), {"caller": "ann"}),
    "tenant": (RUNS.format("tenant = 'evil'"), {"tenant": "acme"}),
    "tenant emptied": (RUNS.format("tenant = NULL"), {"tenant": "acme"}),
    "caller": (RUNS.format("caller = 'acme/bob'"), {"caller": "ann"}),
    "request": (RUNS.format("request = 'other'"), {"request": "r0"}),
    "conversation": (RUNS.format("conversation = 'other'"), {"conversation": "c0"}),
    "run renamed": (RUNS.format("run = 'other', tenant = 'evil'"), {"tenant": "acme"}),
    "written long ago": (SESSIONS.format("updated_at = 1.0"), {"since": 2.0}),
    "begun later": (SESSIONS.format("created_at = 9e9"), {"until": 8e9}),
}


async def calls_of(scope: w.Runtime, session: str, **which: Any) -> int:
    page = await scope.audit.query(limit=1000, **which)
    return sum(entry.session == session for entry in page.entries)


async def begun(scope: w.Runtime) -> None:
    """One more run in the session, with all that a query may name."""
    call = w.ToolCall("named", "note", {"text": "x"})
    await w.agent_loop(
        "go",
        model=scripted(call, "done"),
        tools=[note],
        session_id="s0",
        caller=ANN,
        request_id="r0",
        conversation_id="c0",
    )


@pytest.mark.parametrize("deed", HIDDEN)
async def test_what_hides_a_session_from_a_query_is_found(scope: w.Runtime, deed: str):
    await begun(scope)
    sql, which = HIDDEN[deed]
    assert await calls_of(scope, "s0", **which)
    assert (await scope.audit.verify()).ok
    kept = await by_hand(scope.store, _backup)
    await by_hand(scope.store, lambda run: run(sql))
    assert not await calls_of(scope, "s0", **which), "the deed hides nothing: the test is void"
    for more in ({}, {"session": "s0"}, {"tenant": "acme"}):
        report = await scope.audit.verify(**more)
        assert not report.ok and all(f.session == "s0" for f in report.findings), more
        assert {finding.what for finding in report.findings} == {"books"}
    await by_hand(scope.store, lambda run: _put_back(run, kept))
    assert (await scope.audit.verify()).ok
    assert await calls_of(scope, "s0", **which)


@pytest.mark.parametrize(
    "sql",
    [
        SESSIONS.format("title = 'other'"),
        SESSIONS.format("run = 0"),  # the session is read in any case
        SESSIONS.format("updated_at = updated_at + 5"),
        "INSERT INTO windlass_runs (n, session, tenant) VALUES (999999, 's0', 'evil')",
    ],
)
async def test_what_hides_nothing_is_no_finding(scope: w.Runtime, sql: str):
    before = await calls_of(scope, "s0", tenant="acme")
    await by_hand(scope.store, lambda run: run(sql))
    assert await calls_of(scope, "s0", tenant="acme") == before > 0
    assert (await scope.audit.verify()).ok


async def test_a_session_that_is_only_gone_from_the_list_is_found(scope: w.Runtime):
    await by_hand(scope.store, lambda run: run("DELETE FROM windlass_sessions WHERE id = 's0'"))
    assert not (await scope.audit.verify()).ok


async def test_another_tenants_index_is_no_affair_of_this_one(scope: w.Runtime):
    await by_hand(scope.store, lambda run: run(RUNS.format("tenant = 'x'")))
    assert (await scope.audit.verify(tenant="evil")).ok
    assert not (await scope.audit.verify(tenant="acme")).ok


async def test_a_fork_has_the_runs_that_are_its_own(scope: w.Runtime):
    await begun(scope)
    await w.agent_session_fork("s0", "fork")
    await work(scope, "other", EVE, 1)
    assert (await scope.audit.verify()).ok


# --------------------------------------------------------------------------- clocks


def stepped(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    real, shift = seams.now, [0.0]
    monkeypatch.setattr(seams, "now", lambda: real() + shift[0])

    def to(seconds: float) -> None:
        shift[0] = seconds

    return to


async def paged(scope: w.Runtime, **which: Any) -> list[tuple[str | None, str | None]]:
    found: list[tuple[str | None, str | None]] = []
    cursor: str | None = None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        page = await scope.audit.query(limit=1, **which, **more)
        found += [(entry.session, entry.call) for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("place", ["memory", *STORES])
async def test_no_page_loses_a_call_when_a_clock_was_set_back(tmp_path, monkeypatch, place):
    to = stepped(monkeypatch)
    url: Any = "memory:"
    if place != "memory":
        url = f"sqlite:///{tmp_path}/s.db" if place == "sqlite" else shared_server().schema()
    async with w.Runtime(url, environ={}) as scope:
        made: list[tuple[str, str]] = []
        for number, shift in enumerate([0, 3600, -3600, 7200, -7200, 0]):
            to(shift)
            for session in ("a", f"own{number}"):
                call = w.ToolCall(f"{session}-{number}", "note", {"text": "x"})
                await w.agent_loop(
                    "go", model=scripted(call, "done"), tools=[note], session_id=session, caller=ANN
                )
                made.append((session, call.id))
        found = await paged(scope)
        assert sorted(found) == sorted(made)
        whole = (await scope.audit.query()).entries
        assert [(e.session, e.call) for e in whole] == found
        assert [call for session, call in found if session == "a"] == [
            f"a-{number}" for number in reversed(range(6))
        ]  # a session's calls are in their order, whatever the clock said
        for entry in whole:  # and every call is found by its own time
            at = (await scope.audit.query(since=entry.at, until=entry.at + 1e-6)).entries
            assert (entry.session, entry.call) in [(e.session, e.call) for e in at]
        assert (await scope.audit.verify()).ok


def _backup(run: Any) -> tuple[list[Any], list[Any]]:
    return (
        run("SELECT n, session, run, tenant, caller, request, conversation FROM windlass_runs"),
        run("SELECT id, created_at, updated_at FROM windlass_sessions"),
    )


def _put_back(run: Any, kept: tuple[list[Any], list[Any]]) -> None:
    for n, *facts in kept[0]:
        run("DELETE FROM windlass_runs WHERE n = ?", (n,))
        run(
            "INSERT INTO windlass_runs (n, session, run, tenant, caller, request, conversation)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (n, *facts),
        )
    for name, created, updated in kept[1]:
        run(
            "UPDATE windlass_sessions SET created_at = ?, updated_at = ? WHERE id = ?",
            (created, updated, name),
        )

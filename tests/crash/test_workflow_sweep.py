"""Kill a workflow anywhere: the same outputs, and nothing that is over runs again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import windlass as w
from tests.sizes import pick_size
from windlass.engine.environment import current_environment
from windlass.events import JournalEntry, Replied, SessionOpened
from windlass.store.base import Store
from windlass.store.codec import decode
from windlass.testing import kill_sweep

from . import waking_scenes
from . import workflow_scenes as scenes


class Row:
    """A row of one of the journals of a workflow."""

    def __init__(self, session_id: str, at: float, entries: Sequence[JournalEntry]) -> None:
        self.session_id, self.at, self.entries = session_id, at, entries


async def read_rows(store: Store) -> list[Row]:
    """Read the rows of all sessions, in the order in which they were written."""
    rows: list[Row] = []
    for info in await store.sessions():
        for row in await store.rows(info.id):
            rows.append(Row(info.id, row.at, decode(row.payload, info.id, row.seq)))
    return sorted(rows, key=lambda row: row.at)


async def write_rows(store: Store, rows: Sequence[Row]) -> None:
    """Write journals with these rows only, as after a kill."""
    for session_id in dict.fromkeys([row.session_id for row in rows]):
        entries = [e for row in rows if row.session_id == session_id for e in row.entries]
        opened = entries[0]
        assert isinstance(opened, SessionOpened)
        journal = await store.open(session_id, parent_id=opened.parent_id)
        for entry in entries[1:]:
            journal.append(entry)
        await journal.close()


def build(form: str, model: scenes.Pure, paid: list[str]) -> tuple[Any, Any, dict[str, Any]]:
    """Return the workflow, how it begins, and the options of a resume."""

    def write(key: str, what: str) -> None:
        paid.append(what)

    if form == "function":
        flow = scenes.build_function(write, model)
        return flow, lambda: flow.run("Do it.", session_id=scenes.SESSION), {}
    graph = scenes.build_graph(write)
    given = {"session_id": scenes.SESSION, "model": model}
    return graph, lambda: graph.run("Do it.", **given), {"model": model}


def picture(result: w.WorkflowResult) -> Any:
    steps = sorted([(step.key, step.text, step.status) for step in result.steps])
    return result.status, result.output, steps


async def cut_rows(form: str, every: int) -> int:
    """Cut the journals after each of these rows and go on; return how often."""
    async with w.Runtime():
        model, paid = scenes.Pure(), list[str]()
        flow, begin, options = build(form, model, paid)
        whole = await scenes.go_on(flow, begin, **options)
        rows = await read_rows(current_environment().store)
    assert whole.status == "done", whole.error
    assert sorted(paid) == ["pay1", "pay2"]
    if form == "graph":
        assert len(flow.nodes) == 30 and len(whole.steps) == 31  # one of them twice
    cuts = 0
    for cut in range(1, len(rows), every):
        async with w.Runtime():
            await write_rows(current_environment().store, rows[:cut])
            again, paid = scenes.Pure(), list[str]()
            flow, begin, options = build(form, again, paid)
            resumed = await scenes.go_on(flow, begin, **options)
        assert picture(resumed) == picture(whole), (cut, resumed.error)
        told = [e for row in rows[:cut] for e in row.entries if isinstance(e, Replied)]
        known = [entry for entry in told if entry.provider != "workflow"]
        assert len(again.asked) == len(model.asked) - len(known), "no model call is paid for twice"
        cuts += 1
    return cuts


@pytest.mark.parametrize("form", ["graph", "function"])
async def test_cut_after_every_row(form: str):
    every = pick_size(37, 1) if form == "graph" else pick_size(11, 1)
    assert await cut_rows(form, every) > 4


@pytest.mark.deep
def test_killed_at_points_and_commits():
    for form in ("graph", "function"):
        report = kill_sweep(
            scenes.scenario,
            check=scenes.check,
            params={"form": form},
            every=pick_size(200, 1),
            commits=True,
            kill_resume=pick_size(False, True),
            instants=pick_size(1, 100),
            timeout=60,
        )
        print(f"\n{form}: {report}")
        report.assert_ok()


@pytest.mark.deep
def test_workflow_that_waits_is_killed_and_wakes_by_itself():
    """A fourth of the points in CI; `make prove-workflows` kills at all of them."""
    report = kill_sweep(
        waking_scenes.scenario,
        check=waking_scenes.check,
        every=pick_size(40, 10),
        timeout=60,
        shard=pick_size((0, 4), (0, 1)),
    )
    print(f"\n{report}")
    report.assert_ok()

"""Cut and kill a run of sixty turns with all of context at work: it goes on with the same bytes.

Whatever is on record is asked of nobody again: no reply, no answer of a function, no hook.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import windlass as w
from tests.sizes import pick_size
from tests.stories.helpers import written
from windlass import seams
from windlass.events import (
    AgentScratchpad,
    Compacted,
    IterationStart,
    JournalEntry,
    Projected,
    Reminded,
    Replied,
    RunStarted,
)
from windlass.loop.requests import requests_of
from windlass.models.history import audit
from windlass.replay.replay import recorded_runs, replay_run
from windlass.testing import kill_sweep

from . import context_scenes as scenes

_decode = msgspec.json.Decoder(list[JournalEntry]).decode


@pytest.fixture(autouse=True)
def _strict_and_timeless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(seams, "strict", True)
    monkeypatch.setattr(seams, "now", scenes.Clock())
    yield


class Went:
    """A run, or the rest of one: what it sent, whom it asked, how it ended."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.asked: list[tuple[str, str]] = []
        self.decorated: list[tuple[str, int]] = []  # and before which request
        self.entries: list[JournalEntry] = []
        self.rows: list[list[JournalEntry]] = []
        self.out: Any = None

    def log(self, who: str, what: str) -> None:
        self.asked.append((who, what))
        if who == "message_decorator":
            self.decorated.append((what, len(self.sent)))

    def count(self, who: str) -> int:
        return sum(name == who for name, _ in self.asked)


async def went(before: list[JournalEntry] | None = None, variant: str = "all") -> Went:
    """From the beginning, or from a journal that holds so much."""
    this = Went()
    clock = scenes.Clock(before or ())
    seams.now = clock
    agent = scenes.agent_of(clock, this.sent.append, this.log, variant)
    async with w.Runtime(store="memory:", environ={}) as runtime:
        if before is None:
            this.out = await agent.run(scenes.TASK, session_id=scenes.SESSION)
        else:
            await written(runtime.store, scenes.SESSION, before)
            this.out = await agent.resume(scenes.SESSION)
        this.entries = list(await runtime.store.read(scenes.SESSION))
        this.rows = [_decode(row.payload) for row in await runtime.store.rows(scenes.SESSION)]
        await runtime.store.verify(scenes.SESSION)
    assert this.out.status == "done", (this.out.status, this.out.stop_reason, this.out.error)
    return this


async def test_the_errand_has_all_of_context_at_work():
    whole = await went()
    kinds = Counter(type(entry) for entry in whole.entries)
    assert kinds[IterationStart] > scenes.TURNS
    assert kinds[Compacted] > 5 and kinds[Projected] > 2 and kinds[Reminded] > 5
    assert kinds[w.SkillActivated] == 3 and kinds[w.SkillDeactivated] == 3
    assert kinds[w.SkillScopeTools] == 2 and kinds[w.SkillMatched] == kinds[IterationStart]
    narrowed = [e for e in whole.entries if type(e) is w.SkillNarrowed]
    assert any("atlas" in e.removed_tools for e in narrowed)
    assert any("atlas" in e.returned_tools for e in narrowed)
    pads = Counter(e.action for e in whole.entries if type(e) is AgentScratchpad)
    assert pads["reorganize"] > 8 and pads["rejected"] >= 1
    asked = Counter(e.purpose for e in whole.entries if type(e) is Replied)
    assert asked["compaction"] > 5 and asked["scratchpad"] > 10
    tools = Counter(
        c.name for e in whole.entries if type(e) is Replied for c in e.message.tool_calls
    )
    assert tools["recall"] > 3 and tools["read_skill_file"] and tools["atlas"] and tools["mind"]
    rewritten = [e for e in whole.entries if type(e) is Replied and e.rewritten is not None]
    assert len(rewritten) >= scenes.TURNS
    words = b"".join(whole.sent).decode()
    for said in (
        "Be kind",
        "Stay calm.",
        "Hurry.",
        "It is autumn.",
        "Mind the wasps.",
        "Put away:",
        "was a good one.",
        "One command at a time.",
        "Short sentences.",
        "log book of",
        "say ##DONE##",
        "[2023-11-14T22:",
        "#0 in 0 at",
        "Read every line.",
    ):
        assert said in words, said
    assert all("pears" in sent.decode() for sent in whole.sent if b"You tend" in sent)
    for request in requests_of(whole.entries):
        assert not audit(list(request.messages), tail=request.tail)


@pytest.mark.parametrize(
    ("variant", "step"),
    [
        ("all", 23),
        pytest.param("all", pick_size(5, 1), marks=pytest.mark.deep),
        *[
            pytest.param(one, pick_size(17, 7), marks=pytest.mark.deep)
            for one in scenes.VARIANTS
            if one != "all"
        ],
    ],
)
async def test_it_goes_on_from_every_row_with_the_same_bytes(variant: str, step: int):
    whole = await went(variant=variant)
    assert [scenes.bytes_of(request) for request in requests_of(whole.entries)] == whole.sent
    places = 0
    for cut in range(1, len(whole.rows), step):
        before = [entry for row in whole.rows[:cut] for entry in row]
        if not any(type(entry) is RunStarted for entry in before):
            continue
        rest = await went(before, variant)
        where = f"cut {cut} of {len(whole.rows)}, after {before[-1]!r:.200}"
        answered = sum(type(entry) is Replied for entry in before)
        assert len(rest.sent) == len(whole.sent) - answered, where
        for number, (sent, was) in enumerate(zip(rest.sent, whole.sent[answered:], strict=True)):
            assert sent == was, f"{where}: request {answered + number} differs"
        assert not scenes.on_record(before) & set(rest.asked), where
        matched = scenes.matched_turns(before) if whole.count("matcher") else 0
        assert rest.count("matcher") == whole.count("matcher") - matched, where
        known = answered + scenes.decorated_now(before)
        meant = [what for what, at in whole.decorated if at >= known]
        assert [what for what, _ in rest.decorated] == meant, where
        assert rest.out.final_text == whole.out.final_text, where
        assert rest.out.usage == whole.out.usage, where
        assert [type(e) for e in rest.entries if type(e) in _STEADY] == [
            type(e) for e in whole.entries if type(e) in _STEADY
        ], where
        places += 1
    assert places > 250 // step


@pytest.mark.parametrize("step", [29, pytest.param(pick_size(7, 3), marks=pytest.mark.deep)])
async def test_a_second_run_on_the_session_goes_on_as_well(step: int):
    async def second(before: list[JournalEntry] | None) -> tuple[Went, list[list[JournalEntry]]]:
        this = Went()
        async with w.Runtime(store="memory:", environ={}) as runtime:
            if before is None:
                seams.now = clock = scenes.Clock()
                first = scenes.agent_of(clock, lambda sent: None, lambda *one: None, until=22)
                await first.run(scenes.TASK, session_id=scenes.SESSION)
            else:
                seams.now = clock = scenes.Clock(before)
            agent = scenes.agent_of(clock, this.sent.append, this.log)
            if before is None:
                this.out = await agent.run("Now deploy the rest.", session_id=scenes.SESSION)
            else:
                await written(runtime.store, scenes.SESSION, before)
                this.out = await agent.resume(scenes.SESSION)
            rows = [_decode(row.payload) for row in await runtime.store.rows(scenes.SESSION)]
        assert this.out.status == "done", (this.out.stop_reason, this.out.error)
        return this, rows

    whole, rows = await second(None)
    assert whole.count("on_session_start") == 0 and len(whole.sent) > 40
    starts = [at for at, row in enumerate(rows) if any(type(entry) is RunStarted for entry in row)]
    entries = [entry for row in rows for entry in row]
    earlier = sum(type(e) is Replied for row in rows[: starts[1]] for e in row)
    rebuilt = [scenes.bytes_of(request) for request in requests_of(entries)]
    assert rebuilt[earlier:] == whole.sent
    for cut in range(starts[1] + 1, len(rows), step):
        before = [entry for row in rows[:cut] for entry in row]
        rest, _ = await second(before)
        answered = sum(type(entry) is Replied for entry in before) - earlier
        assert rest.sent == whole.sent[answered:], f"cut {cut} of {len(rows)}"


_STEADY = {
    AgentScratchpad,
    Compacted,
    IterationStart,
    Projected,
    Replied,
    w.SkillActivated,
    w.SkillDeactivated,
    w.SkillMatched,
    w.SkillNarrowed,
}


# --------------------------------------------------------------------------- killed for good


@pytest.mark.parametrize(
    "how",
    [
        {"every": 61},
        pytest.param(
            {"every": pick_size(13, 7), "commits": True, "instants": pick_size(4, 10)},
            marks=pytest.mark.deep,
        ),
    ],
    ids=["some", "many"],
)
async def test_killed_anywhere(how: dict[str, Any]):
    report = await asyncio.to_thread(
        kill_sweep, scenes.scenario, check=scenes.check, seed=5, timeout=60, **how
    )
    print(f"\n{report}")
    report.assert_ok()
    if how.get("commits"):  # each kind of place that there is
        assert set(report.points) >= {
            "journal.before_commit",
            "journal.after_commit",
            "model.before_request",
            "model.after_reply",
            "tool.before_call",
            "tool.after_call",
        }


@pytest.mark.parametrize("variant", scenes.VARIANTS)
async def test_it_is_replayed_from_its_journal(variant: str):
    whole = await went(variant=variant)
    entries = [entry for row in whole.rows for entry in row]  # as a disk has them
    own = list(scenes.options(whole.log)["tools"])
    agent = scenes.agent_of(scenes.Clock(), lambda sent: None, whole.log, variant)
    ways: list[dict[str, Any]] = [{}, {"tools": own}, {"plan": agent.plan}]
    asked = len(whole.asked)
    for how in ways:
        async with w.Runtime(store="memory:", environ={}) as runtime:
            [run] = recorded_runs(entries)
            done = await replay_run(scenes.SESSION, entries, run, runtime, **how)
        assert done.difference is None, (how.keys(), done.difference)
        assert done.requests + done.left_out == len(whole.sent) and not done.cut
        assert (done.left_out == 0) is ("plan" in how), "its policies ask for themselves"
        assert (len(whole.asked) > asked) is ("plan" in how), "without them no function is asked"

"""The bench runs, and refuses to time what was not done. How quick anything is, is not asked here."""

from __future__ import annotations

import asyncio

import pytest

import windlass as w
from bench import (
    adapters,
    bare,
    context,
    crowd,
    durable,
    fleet,
    flow,
    idle_context,
    judgement,
    ours,
    partial,
    prefix,
    requests,
    streams,
    turns,
    vault,
    work,
)
from bench.proof import CutCorner, prove
from bench.proof_of_calls import NotCalled, counted
from bench.sampling import Work, paired, rounds, sample
from bench.sdks.exchange import exchange
from bench.sdks.exchange import ours as through_ours
from bench.table import Row, report
from bench.work import Script
from windlass.engine.environment import current_store
from windlass.events import Compacted, ToolDecided, ToolIntended, ToolResulted
from windlass.loop.run import Run
from windlass.store.memory import MemoryStore

# --------------------------------------------------------------------------- both sides do the work


@pytest.mark.parametrize("script", [{"turns": 1}, {"turns": 4}, {"turns": 3, "width": 5}])
async def test_both_sides_make_the_same_calls(script):
    for once in (
        lambda: bare.run(bare.build("add"), Script(**script)),
        lambda: ours.run(ours.build("add"), Script(**script)),
        lambda: ours.loop(("add",), Script(**script)),
    ):
        work.ran[0] = 0
        await once()
        assert work.ran[0] == Script(**script).calls


async def test_both_sides_stream_the_same_text():
    script = {"turns": 1, "deltas": 50}
    seen, out = await ours.stream(ours.build("add"), Script(**script))
    assert seen == await bare.stream(bare.build("add"), Script(**script)) == 50
    assert out.final_text == "tok " * 50


async def test_a_run_is_proved_turn_by_turn():
    script = Script(5, width=2)
    out = await ours.run(ours.build("add"), script)
    assert await prove(current_store(), [out], script) == len(out.entries) + 1


def test_a_plan_is_the_same_for_another_model_in_all_but_the_model():
    plan, other = ours.build("add").plan, ours.Fake()
    again = plan.of(other)
    assert again.model is other is not plan.model
    for name in set(type(plan).__slots__) - {"model"}:
        assert getattr(again, name) is getattr(plan, name), name


# --------------------------------------------------------------------------- a cut corner is seen


def without(monkeypatch, kind, *, times=1):
    """Leave the first entries of a kind out of every journal."""
    left = [times]
    plain = Run.__init__

    def init(self, *args, **kwargs):
        plain(self, *args, **kwargs)
        record = self.record

        def some(entry):
            if type(entry) is kind and left[0]:
                left[0] -= 1
            else:
                record(entry)

        self.record = some

    monkeypatch.setattr(Run, "__init__", init)


@pytest.mark.parametrize("kind", [ToolDecided, ToolIntended, ToolResulted])
async def test_one_missing_entry_is_refused(monkeypatch, kind):
    without(monkeypatch, kind)
    store = MemoryStore()
    out = await ours.run(ours.build("add"), Script(4), store)
    with pytest.raises(CutCorner, match="turn 1: call 'c0_0' has"):
        await prove(store, [out], Script(4))


async def test_a_sample_without_decisions_is_refused(monkeypatch):
    without(monkeypatch, ToolDecided, times=-1)
    with pytest.raises(CutCorner):
        await rounds({"ours": turns.recorded(lambda: Script(3))}, 1, target=0)


async def test_a_reply_without_usage_is_refused(monkeypatch):
    monkeypatch.setattr(ours, "USAGE", w.Usage())
    out = await ours.run(ours.build("add"), Script(2))
    with pytest.raises(CutCorner, match="replies with usage"):
        await prove(current_store(), [out], Script(2))


async def test_fewer_turns_than_the_script_are_refused():
    out = await ours.run(ours.build("add"), Script(3))
    with pytest.raises(CutCorner, match="2 turns|3 turns|fewer rows"):
        await prove(current_store(), [out], Script(4))


async def test_one_digest_for_all_arguments_is_refused(monkeypatch):
    monkeypatch.setattr("windlass.loop.gate.digest_of", lambda _: "same")
    out = await ours.run(ours.build("add"), Script(3))
    with pytest.raises(CutCorner, match="same digest"):
        await prove(current_store(), [out], Script(3))


async def test_calls_that_were_not_made_are_refused():
    async def idle():
        return None

    with pytest.raises(NotCalled, match="made 0 tool calls, not 2"):
        await sample(counted(idle, 2), 1)


async def test_a_compaction_that_is_not_on_record_is_refused(monkeypatch):
    without(monkeypatch, Compacted, times=-1)
    with pytest.raises(CutCorner, match="llm has"):
        await context.rows(1, 0.0)


async def test_an_option_of_context_that_nobody_thought_of_is_refused(monkeypatch):
    monkeypatch.delitem(idle_context.ON, "scratchpad")
    with pytest.raises(CutCorner, match="scratchpad is an option of context"):
        await idle_context.rows(1, 0.0, (3, 5))


# --------------------------------------------------------------------------- the rows


async def test_samples_are_taken_in_turns_and_paired():
    order = []

    async def one():
        order.append("one")

    async def other():
        order.append("other")

    taken = await rounds({"one": Work(one), "other": Work(other)}, 3, target=0)
    assert {name: len(samples) for name, samples in taken.items()} == {"one": 3, "other": 3}
    assert order[-4:] == ["one", "other", "one", "other"]
    assert paired([2.0, 6.0, 3.0], [1.0, 2.0, 3.0])[:3] == (2.0, 3.0, 2.0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("make", adapters.VENDORS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("streamed", [True, False])
async def test_our_adapter_and_the_vendors_client_hear_the_same(make, streamed):
    vendor = make()
    given = exchange(vendor, 5, streamed=streamed)
    heard = await adapters.agreed(vendor, through_ours(vendor, given), vendor.theirs(given))
    assert heard.said.text == "Sunny ü" * 5 and len(heard.said.calls) == 2
    assert (heard.said.input_tokens, heard.said.output_tokens) == (1200, 340)
    assert heard.pieces >= 5 if streamed else heard.pieces == 1


async def test_a_client_that_hears_something_else_is_not_measured():
    vendor = adapters.VENDORS[0]()
    mine = through_ours(vendor, exchange(vendor, 5, streamed=True))
    other = through_ours(vendor, exchange(vendor, 4, streamed=True))
    with pytest.raises(CutCorner, match="we heard"):
        await adapters.agreed(vendor, mine, other)


async def test_every_part_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "_work", lambda: tmp_path)
    monkeypatch.setattr(work, "SLOW", 0.005)
    monkeypatch.setattr("bench.sampling.gc.collect", lambda: 0)
    monkeypatch.setattr(turns, "LENGTHS", {2: 8.0, 3: 5.0, 5: 5.0})
    found = await turns.rows(1, 0.0)
    found += await streams.rows(1, 0.0, 20)
    found += await durable.rows(1, 3, 4)
    found += requests.rows(1, 3, 6)
    found += await judgement.rows(1, 0.0, (3, 5))
    found += await vault.rows()
    found += await context.rows(1, 0.0)
    found += await idle_context.rows(1, 0.0, (3, 5))
    found += await flow.rows(1, 0.0, 3)
    for side in ("bare", "ours"):
        assert (await crowd.measure(side, 5, 3)).cpu > 0
    assert len(found) == 28 and all(row.measured > 0 for row in found)


@pytest.mark.parametrize("wire", prefix.WIRES, ids=lambda wire: wire.name)
async def test_a_request_begins_as_the_one_before_it(wire):
    shares = await prefix.shared(wire, 8)
    assert len(shares) == 7 and min(shares) > prefix.SHARED


def test_the_report_marks_what_fails():
    rows = [Row("a", 4.0, 5.0, "1"), Row("b", 6.0, 5.0, "1"), Row("c", 6.0, None, "1")]
    page = report(rows, 3, 10)
    assert [row.mark for row in rows] == ["pass", "FAIL", "info"]
    assert "| b | 1 |  | x6 | x5 | FAIL |  |" in page


def test_the_bare_writer_keeps_every_row(tmp_path):
    import sqlite3

    async def main():
        await durable._bare(4, [(b"x", False), (b"y", True)], tmp_path).once()

    asyncio.run(main())
    db = sqlite3.connect(tmp_path / "bare-1.db")
    assert db.execute("SELECT count(*) FROM rows").fetchone() == (8,)
    db.close()


async def test_partial_values_are_timed_against_the_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(partial, "SIZES", (2000,))
    [row] = await partial.rows(reps=1, target=0)
    assert row.allowed == 3 and row.measured > 0


async def test_the_fleet_is_timed_beside_a_plain_run():
    [row] = await fleet.embedded(1)
    assert row.measured > 0 and row.allowed == fleet.EMBEDDED

"""The long tasks in small: what each way costs and keeps, and a bill that cannot be cheated."""

from __future__ import annotations

import msgspec
import pytest

import windlass as w
from bench.long_tasks import rows
from bench.long_tasks.facts import COUNT
from bench.long_tasks.play import Played, play
from bench.long_tasks.provider import LEAST, Bill, PromptCache, Scripted, prompt_of, summary
from bench.long_tasks.tasks import SMALL, TASKS, Task, coding, research
from bench.long_tasks.ways import EVERYTHING, Way, ours, ways
from bench.proof import CutCorner

NAMES = ["coding", "research", "chat"]


@pytest.mark.parametrize("make", SMALL, ids=NAMES)
async def test_ours_is_cheapest_among_those_that_keep_as_much(make):
    task = make()
    *others, mine = [await play(task, way) for way in ways()]
    assert mine.kept == COUNT and mine.missed == 0
    rivals = [one for one in others if one.kept >= mine.kept]
    assert rivals and all(mine.bill.dollars < one.bill.dollars for one in rivals)
    nothing = others[0]
    assert (nothing.visible, nothing.recalled, nothing.missed) == (COUNT, 0, 0)
    assert mine.bill.input_tokens < nothing.bill.input_tokens
    narrow = others[1]
    assert narrow.kept < mine.kept and narrow.missed, "what left the window is gone"


@pytest.mark.deep
@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-fable-5-1"])
@pytest.mark.parametrize("make", TASKS[:2], ids=NAMES[:2])  # the chat takes its time
async def test_also_where_a_cached_token_costs_a_twentieth_or_a_fortieth(make, model):
    task = make()
    nothing, mine = [await play(task, way, model) for way in (ways()[0], ours())]
    assert mine.kept == COUNT and mine.bill.dollars < nothing.bill.dollars


async def test_it_is_not_the_cap_on_results_that_makes_the_difference():
    task = research(36, 0.6)
    nothing = await play(task, ways()[0])
    mine = await play(task, Way("ours", {"tool_result_max_bytes": EVERYTHING}))
    assert mine.kept == COUNT and mine.bill.dollars < nothing.bill.dollars


@pytest.mark.parametrize("make", SMALL, ids=NAMES)
async def test_a_writer_who_keeps_nothing_costs_calls_and_no_fact(make, monkeypatch):
    """What our rows say of facts does not hang on how clever the scripted writer is."""
    monkeypatch.setattr("bench.long_tasks.provider.summary", lambda asked: "Work was done.")
    mine = await play(make(), ours())
    assert mine.kept == COUNT and mine.missed == 0


async def test_the_rows_say_what_was_found():
    (row,) = await rows.rows([SMALL[0]])
    assert row.passed and "40 of 40 facts" in row.ours and "nothing is left out" in row.bare
    assert len(rows.notes[0].splitlines()) == 4 + len(ways()) and rows.entries_proved[0] > 500


def test_the_tasks_are_as_long_as_they_say():
    tasks = [make() for make in TASKS]
    assert [task.steps for task in tasks] == [300, 60, 1_000]
    assert max(len(page) for page in tasks[1].pages.values()) >= 200_000
    for task in tasks:
        assert len({fact.value for fact in task.facts}) == COUNT
        said = [v.says for v in task.visits] + [s.words for v in task.visits for s in v.steps]
        told = "\n".join([*said, *task.pages.values()])
        assert all(told.count(fact.value) == 1 for fact in task.facts)
        assert sum(step.needs is not None for v in task.visits for step in v.steps) == 6


# --------------------------------------------------------------------------- the bill


def body(*texts: str, marked: bool = True) -> bytes:
    """A request of one message with these texts."""
    content = [{"type": "text", "text": text} for text in texts]
    sent = {"messages": [{"role": "user", "content": content}]}
    if marked:
        sent["cache_control"] = {"type": "ephemeral"}
    return msgspec.json.encode(sent)


LONG = "x" * 4 * LEAST


def test_what_was_sent_before_is_read_and_the_rest_is_written():
    cache = PromptCache()
    one, two = prompt_of(body(LONG)), prompt_of(body(LONG, "more"))
    assert cache.use(one) == (0, one.size)
    assert cache.use(two) == (one.size, two.size - one.size)
    assert cache.use(two) == (two.size, 0)
    assert cache.use(prompt_of(body("y", LONG)))[0] == 0, "only a beginning is found"


def test_what_is_short_or_not_marked_is_not_kept():
    cache = PromptCache()
    for sent in (body("short"), body(LONG, marked=False)):
        assert cache.use(prompt_of(sent)) == (0, 0)
    assert cache.use(prompt_of(body(LONG)))[0] == 0


def test_the_provider_looks_back_over_twenty_blocks():
    cache = PromptCache()
    cache.use(prompt_of(body(LONG)))
    assert cache.use(prompt_of(body(LONG, *["a"] * 19)))[0] > 0
    assert cache.use(prompt_of(body(LONG, *["b"] * 20)))[0] == 0


def test_a_mark_is_no_part_of_what_is_cached():
    marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    sent = {"system": [marked], "messages": [{"role": "user", "content": [marked]}]}
    prompt = prompt_of(msgspec.json.encode(sent))
    assert prompt.marks == [0, 1] and prompt.sizes == [27, 54]


def test_the_writer_keeps_a_bounded_part_and_invents_nothing():
    said = [f"USER: the port of {n} is {n}. Never mind" for n in range(300)]
    said += ["ASSISTANT: words " * 200, "RESULT look (c): value = 3\nx is 4"]
    text = summary("\n\n".join(said))
    assert 100 < len(text.split()) <= 460
    assert all(part.strip() in "\n".join(said) for part in text.split(". "))
    assert "the port of 299" in text and "the port of 1 is" not in text


# --------------------------------------------------------------------------- a cut corner is seen


def small() -> Task:
    return coding(60, 0.2)


async def test_a_fact_that_was_never_told_is_refused():
    task = small()
    pages = dict.fromkeys(task.pages, "nothing")
    with pytest.raises(CutCorner, match="facts were told"):
        await play(task._replace(pages=pages), ours())


async def test_a_call_that_is_not_on_the_bill_is_refused(monkeypatch):
    monkeypatch.setattr(Scripted, "_paid", lambda self, body, message: w.Usage(10, 5))
    with pytest.raises(CutCorner, match="on record, and the bill"):
        await play(small(), ours())


async def test_a_run_that_ends_early_is_refused():
    with pytest.raises(CutCorner, match="budget"):
        await play(small(), Way("poor", {"token_budget": 20_000}))


def test_who_keeps_less_is_no_rival():
    def one(way: str, kept: int, dollars: float) -> Played:
        return Played("t", way, Bill(dollars=dollars), kept, 0, 0, 0)

    others = [one("all", 40, 9.0), one("some", 12, 1.0), one("most", 39, 5.0)]
    assert rows.cheapest(others, 40).way == "all" and rows.cheapest(others, 39).way == "most"

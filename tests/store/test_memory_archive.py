"""What stays of unnamed sessions in memory: bounded by entries, however long the runs were."""

from windlass.events import (
    JournalEntry,
    Replied,
    RunStarted,
    Said,
    ToolDecided,
    ToolIntended,
    ToolResulted,
)
from windlass.messages import Message, ToolResult
from windlass.store import memory_archive
from windlass.store.memory_archive import Archive
from windlass.usage import Usage


def entries_of(turns: int, text: str = "7"):
    entries: list[JournalEntry] = [RunStarted("run_1", "agent", "local", "fake", "fake")]
    for turn in range(turns):
        call = f"c{turn}"
        entries += [
            Replied(Message("assistant"), Usage(1, 1), "tool_use", "fake", "fake", 1, "d"),
            ToolDecided(call, "add", "allow", "default", "host", "digest"),
            ToolIntended(call, "add", "plain", 1),
            ToolResulted(call, "add", "done", ToolResult(call, text, False, "add")),
        ]
    return entries


def names(archive: Archive):
    return [one.session_id for one in archive]


def size(archive: Archive):
    return sum(len(one.calls) for one in archive)


def test_the_calls_of_the_latest_sessions_are_kept():
    archive = Archive()
    for number in range(300):
        archive.add(f"s{number}", 1.0, [Said(Message("user", "go")), *entries_of(1)])
    assert names(archive) == [f"s{number}" for number in range(300)]
    assert all(
        {type(entry) for entry in one.calls}
        == {RunStarted, Replied, ToolDecided, ToolIntended, ToolResulted}
        for one in archive
    )


def test_long_runs_do_not_fill_the_memory():
    archive = Archive()
    for number in range(60):
        archive.add(f"s{number}", 1.0, entries_of(40))
    assert size(archive) <= memory_archive.MOST_ENTRIES < size(archive) + 161
    assert names(archive) == [f"s{number}" for number in range(48, 60)]


def test_a_session_that_reaches_the_limit_alone_stays_until_the_next():
    archive = Archive()
    archive.add("long", 1.0, entries_of(3_000))
    assert names(archive) == ["long"]
    archive.add("short", 1.0, entries_of(1))
    assert names(archive) == ["short"] and len(archive) == 1


def test_a_session_that_is_opened_again_is_removed():
    archive = Archive()
    for number in range(10):
        archive.add(f"s{number}", 1.0, entries_of(50))
    archive.remove("s0")
    archive.remove("s5")
    assert names(archive) == ["s1", "s2", "s3", "s4", "s6", "s7", "s8", "s9"]
    for number in range(300):
        archive.add(f"t{number}", 1.0, entries_of(10))
    assert size(archive) <= memory_archive.MOST_ENTRIES < size(archive) + 41


def test_long_results_are_not_kept():
    archive = Archive()
    archive.add("long", 1.0, entries_of(1, "x" * 1_000))
    archive.add("short", 1.0, entries_of(1, "7"))
    kept, short = archive
    (result,) = [entry for entry in kept.calls if type(entry) is ToolResulted]
    assert result.result.content == "" and result.call_id == "c0"
    assert [e.result.content for e in short.calls if type(e) is ToolResulted] == ["7"]

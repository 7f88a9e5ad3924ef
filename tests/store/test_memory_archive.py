"""What stays of unnamed sessions in memory: bounded by entries, however long the runs were."""

from collections.abc import Sequence

from windlass.events import (
    JournalEntry,
    Replied,
    RunStarted,
    ToolDecided,
    ToolIntended,
    ToolResulted,
)
from windlass.messages import Message, ToolResult
from windlass.store import memory_archive
from windlass.store.memory_archive import Archive, archive_entries
from windlass.usage import Usage


def entries_of(turns: int, text: str = "7", arguments: dict[str, int] | None = None):
    entries: list[JournalEntry] = [RunStarted("run_1", "agent", "local", "fake", "fake")]
    for turn in range(turns):
        call = f"c{turn}"
        entries += [
            Replied(Message("assistant"), Usage(1, 1), "tool_use", "fake", "fake", 1, "d"),
            ToolDecided(call, "add", "allow", "default", "host", "digest", None, arguments),
            ToolIntended(call, "add", "plain", 1),
            ToolResulted(call, "add", "done", ToolResult(call, text, False, "add")),
        ]
    return entries


def archived(name: str, entries: Sequence[JournalEntry]):
    return archive_entries(name, 1.0, entries)


def kinds(calls: Sequence[JournalEntry]):
    return {type(entry) for entry in calls}


def test_the_latest_sessions_keep_their_model_calls():
    archive = Archive()
    for number in range(memory_archive.MOST_SESSIONS + 2):
        archive.add(archived(f"s{number}", entries_of(1)))
    assert len(archive.latest) == memory_archive.MOST_SESSIONS
    assert all(Replied in kinds(one.calls) for one in archive.latest)
    assert [one.session_id for one in archive.audited] == ["s0", "s1"]
    assert all(
        kinds(one.calls) == {RunStarted, ToolDecided, ToolIntended, ToolResulted}
        for one in archive.audited
    )
    assert [one.session_id for one in archive][:3] == ["s0", "s1", "s2"]


def test_long_runs_do_not_fill_the_memory():
    archive = Archive()
    for number in range(60):
        archive.add(archived(f"s{number}", entries_of(200)))
    assert sum(len(one.calls) for one in archive.latest) <= memory_archive.MOST_ENTRIES
    assert sum(len(one.calls) for one in archive.audited) <= memory_archive.MOST_AUDITED
    assert len(archive) > 10 and [*archive][-1].session_id == "s59"


def test_one_session_that_is_longer_than_the_limit_stays_while_it_is_the_latest():
    archive = Archive()
    archive.add(archived("long", entries_of(3_000)))
    assert [one.session_id for one in archive] == ["long"]
    archive.add(archived("short", entries_of(1)))
    assert [one.session_id for one in archive] == ["long", "short"]
    assert Replied not in kinds(archive.audited[0].calls)


def test_a_session_without_tool_calls_is_dropped_for_good():
    archive = Archive()
    for number in range(memory_archive.MOST_SESSIONS + 1):
        archive.add(archived(f"s{number}", entries_of(0)))
    assert len(archive) == memory_archive.MOST_SESSIONS and not archive.audited


def test_a_session_that_is_opened_again_is_removed():
    archive = Archive()
    for number in range(memory_archive.MOST_SESSIONS + 1):
        archive.add(archived(f"s{number}", entries_of(1)))
    archive.remove("s0")
    archive.remove("s5")
    names = [one.session_id for one in archive]
    assert (
        "s0" not in names and "s5" not in names and len(names) == memory_archive.MOST_SESSIONS - 1
    )
    for number in range(300):
        archive.add(archived(f"t{number}", entries_of(10)))
    assert sum(len(one.calls) for one in archive.latest) <= memory_archive.MOST_ENTRIES


def test_long_results_and_changed_arguments_are_not_kept():
    kept = archived("s", entries_of(1, "x" * 1_000, {"a": 1}))
    (result,) = [entry for entry in kept.calls if type(entry) is ToolResulted]
    assert result.result.content == "" and result.call_id == "c0"
    older = kept.without_model_calls()
    assert older is not None
    (decided,) = [entry for entry in older.calls if type(entry) is ToolDecided]
    assert decided.arguments is None and decided.action == "allow"
    short = archived("s", entries_of(1, "7"))
    assert [e.result.content for e in short.calls if type(e) is ToolResulted] == ["7"]

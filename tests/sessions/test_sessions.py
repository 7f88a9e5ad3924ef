"""Sessions by name, on both stores."""

import pytest

from windlass.errors import ConfigError, Locked, NoSuchSession, StoreError
from windlass.events import (
    IterationEnd,
    IterationStart,
    Remembered,
    Replied,
    Reshaped,
    RunEnded,
    RunStarted,
    SessionReset,
    Suspended,
    ToolIntended,
    ToolMessage,
    ToolResulted,
)
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.sessions.api import (
    agent_session_close,
    agent_session_fork,
    agent_session_fork_at,
    agent_session_list,
    agent_session_open,
    agent_session_read,
    agent_session_reset,
    agent_session_trim,
)
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.store_pieces import add, user
from windlass.usage import Usage


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    yield store
    await store.aclose()


def reply(text, *calls):
    blocks = (Text(text), *(ToolCall(call, "t", {}) for call in calls))
    return Replied(Message("assistant", blocks), Usage(), "end_turn", "mock", "m", 0, "f")


def round_of(number):
    """A turn with one call: two messages."""
    call = f"c{number}"
    return [
        IterationStart(number),
        reply(f"turn {number}", call),
        ToolIntended(call, "t", "plain"),
        ToolResulted(call, "t", "ok", ToolResult(call, f"result {number}", name="t")),
        ToolMessage((call,)),
        Remembered("p", number, "session"),
        IterationEnd(number, "keep_going"),
    ]


STARTED = RunStarted("r1", "agent", "local", "mock", "m")


async def used(store, *more, rounds=3, name="s"):
    """A session with a question, some rounds, and more."""
    journal = await store.open(name)
    await add(journal, STARTED, user("go"))
    for number in range(1, rounds + 1):
        await add(journal, *round_of(number))
    if more:
        await add(journal, *more)
    await journal.close()


def whole_rounds(messages):
    """I1: every call has its result in the next message."""
    for index, message in enumerate(messages):
        if message.tool_calls:
            ids = [block.id for block in messages[index + 1].content]
            assert ids == [call.id for call in message.tool_calls]
        if message.role == "tool":
            assert messages[index - 1].tool_calls and index
    return True


async def test_opening_twice_changes_nothing(store):
    first = await agent_session_open("s", metadata={"a": 1}, store=store)
    assert (first.id, first.parent_id, first.child_ids, first.root_id) == ("s", None, (), "s")
    assert first.messages == [] and first.metadata == {"a": 1} and first.status is None
    await used(store)
    again = await agent_session_open("s", store=store)
    assert len(again.messages) == 7 and again.metadata == {"a": 1}
    assert len(await agent_session_list(store=store)) == 1


async def test_an_open_session_may_be_in_use(store):
    journal = await store.open("s")
    assert (await agent_session_open("s", store=store)).id == "s"
    with pytest.raises(Locked):
        await agent_session_reset("s", store=store)
    await journal.close()


async def test_a_session_without_a_name_gets_one(store):
    one, two = [await agent_session_open(store=store) for _ in range(2)]
    assert one.id != two.id
    assert {info.id for info in await agent_session_list(store=store)} == {one.id, two.id}


@pytest.mark.parametrize("name", ["", " ", " s", "s\n"])
async def test_a_name_is_a_name(store, name):
    with pytest.raises(ConfigError, match="a session's id"):
        await agent_session_open(name, store=store)


async def test_reset_keeps_the_id_and_the_record(store):
    await used(store)
    await agent_session_reset("s", store=store)
    session = await agent_session_read("s", store=store)
    assert session.messages == []
    assert session.entries[-1] == SessionReset() and len(session.entries) > 20
    assert session.transcript["events"][-1]["kind"] == "transcript_reset"


@pytest.mark.parametrize(
    ("keep", "kept"), [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (5, 4), (6, 6), (7, 7), (99, 7)]
)
async def test_trim_keeps_whole_rounds_from_the_end(store, keep, kept):
    await used(store)
    before = (await agent_session_read("s", store=store)).messages
    assert await agent_session_trim("s", keep, store=store) == kept
    session = await agent_session_read("s", store=store)
    assert session.messages == before[len(before) - kept :]
    assert whole_rounds(session.messages)
    assert isinstance(session.entries[-1], Reshaped) == (kept < 7)
    assert await store.verify("s")


async def test_trim_leaves_calls_that_wait(store):
    await used(store, IterationStart(4), reply("turn 4", "c4"))
    assert await agent_session_trim("s", 0, store=store) == 1
    assert (await agent_session_read("s", store=store)).messages[0].tool_calls[0].id == "c4"
    with pytest.raises(ConfigError, match="keep_last"):
        await agent_session_trim("s", -1, store=store)


async def test_a_fork_is_the_same_history_under_another_name(store):
    await used(store, reply("done"), RunEnded("r1", "done"))
    fork = await agent_session_fork("s", "copy", store=store)
    parent = await agent_session_read("s", store=store)
    assert (fork.id, fork.parent_id, fork.root_id, fork.branch_at) == ("copy", "s", "s", 8)
    assert parent.child_ids == ("copy",)
    assert fork.messages == parent.messages
    assert list(fork.entries[1:]) == list(parent.entries[1:])
    assert fork.status == "done"
    grandchild = await agent_session_fork("copy", store=store)
    assert (grandchild.parent_id, grandchild.root_id) == ("copy", "s")
    assert grandchild.transcript["metadata"]["parent_transcript_id"] == "copy"
    with pytest.raises(StoreError, match="exists already"):
        await agent_session_fork("s", "copy", store=store)


async def test_a_fork_does_not_take_over_what_its_parent_is_doing(store):
    """An open call would run twice: under its parent's key and under the copy's."""
    await used(
        store,
        IterationStart(4),
        reply("turn 4", "c4"),
        ToolIntended("c4", "t", "keyed"),
        Suspended("wait", "run"),
        RunEnded("r1", "suspended"),
    )
    fork = await agent_session_fork("s", store=store)
    assert len(fork.messages) == 7 and whole_rounds(fork.messages)
    assert fork.entries[-1] == RunEnded("r1", "stopped", "fork")
    assert fork.status == "stopped"
    assert not any(isinstance(e, ToolIntended) and e.call_id == "c4" for e in fork.entries)


@pytest.mark.parametrize(
    ("n", "kept"), [(0, 0), (1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (7, 7), (99, 7)]
)
async def test_fork_at_keeps_the_first_messages(store, n, kept):
    await used(store)
    before = (await agent_session_read("s", store=store)).messages
    fork = await agent_session_fork_at("s", n, store=store)
    assert fork.messages == before[:kept] and fork.branch_at == kept
    assert whole_rounds(fork.messages)
    turns = [e.number for e in fork.entries if isinstance(e, IterationEnd)]
    assert turns == list(range(1, kept // 2 + 1))  # what belongs to a kept turn is kept with it
    remembered = [e.value for e in fork.entries if isinstance(e, Remembered)]
    assert remembered == turns
    if any(isinstance(e, RunStarted) for e in fork.entries):
        assert fork.status == "stopped"


async def test_fork_at_a_place_that_was_reshaped(store):
    summary = tuple(Message("user", (Text(word),), "summary") for word in "abc")
    await used(store, Reshaped(0, 5, summary, "compaction"), user("next"))
    before = (await agent_session_read("s", store=store)).messages
    for n in range(len(before)):
        fork = await agent_session_fork_at("s", n, store=store)
        assert fork.messages == before[: fork.branch_at]
        assert fork.branch_at in (n, n - 1) and whole_rounds(fork.messages)
    with pytest.raises(ConfigError):
        await agent_session_fork_at("s", -1, store=store)


async def test_close_removes(store):
    await used(store)
    assert await agent_session_close("s", store=store) is True
    assert await agent_session_close("s", store=store) is False
    for ask in (agent_session_read, agent_session_reset, agent_session_fork):
        with pytest.raises(NoSuchSession, match="'s'"):
            await ask("s", store=store)
    with pytest.raises(NoSuchSession):
        await agent_session_trim("s", 1, store=store)
    with pytest.raises(NoSuchSession):
        await agent_session_fork_at("s", 1, store=store)


async def test_without_a_store_it_is_the_current_one():
    import windlass.engine.environment as runtime

    async with runtime.Environment(store=MemoryStore()):
        await agent_session_open("here")
        assert [info.id for info in await agent_session_list()] == ["here"]
        assert await runtime.current_store().read("here")
        assert await agent_session_close("here")

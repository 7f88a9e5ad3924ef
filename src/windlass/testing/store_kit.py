"""Tests that every store must pass, to be inherited.

```python
class TestMyStore(StoreKit):
    def store(self, folder):
        return MyStore(folder / "sessions")
```
A store whose sessions outlive it, or are shared by several, inherits `SharedStoreKit` instead
(`windlass.testing.shared_store_kit`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from windlass.errors import (
    Corrupt,
    Locked,
    NoSuchSession,
    SessionHeld,
    StaleWriter,
    StoreError,
)
from windlass.events import (
    FORMAT,
    InboxTaken,
    JournalEntry,
    Noted,
    RunEnded,
    RunStarted,
    SessionOpened,
    ToolIntended,
)
from windlass.json_types import JsonObject
from windlass.store import codec as written
from windlass.store.base import Head, Store
from windlass.testing.answers_kit import AnswersKit
from windlass.testing.daemon_events_kit import DaemonEventsKit
from windlass.testing.model_calls_kit import BooksKit
from windlass.testing.store_pieces import (
    add,
    effects,
    insert,
    make_table,
    note,
    numbers,
    result,
    tamper_with_rows,
    unnest,
    user,
)
from windlass.testing.wishes_kit import WishesKit

LARGE = 200_000


class StoreKit(AnswersKit, BooksKit, DaemonEventsKit, WishesKit):
    """A base for test classes, which override how a store is built."""

    def store(self, folder: Path) -> Store:
        """Build a store with its data, if it keeps any, under `folder`."""
        raise NotImplementedError

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[Store]:
        """Open a store that is closed at the end."""
        store = self.store(folder)
        try:
            yield store
        finally:
            await store.aclose()

    # ----------------------------------------------------------------------- rows

    async def test_a_new_session_begins_with_its_opening(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s", metadata={"team": "a"})
            assert journal.entries == [SessionOpened("s", metadata={"team": "a"})]
            assert await store.read("s") == journal.entries
            await journal.close()

    async def test_entries_keep_their_order_and_rows_their_bounds(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, note(1), note(2))
            await add(journal, note(3))
            rows = await store.rows("s")
            assert [(row.seq, row.first) for row in rows] == [(0, 0), (1, 1), (2, 3)]
            assert numbers(await store.read("s")) == [1, 2, 3]
            assert await store.read("s") == journal.entries
            assert written.decode_rows(rows, "s") == journal.entries
            await journal.close()

    async def test_what_is_not_flushed_is_not_stored(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            journal.append(note(1))
            await journal.durable()
            assert numbers(await store.read("s")) == []
            assert numbers(journal.entries) == [1]
            journal.flush()
            await journal.durable()
            assert numbers(await store.read("s")) == [1]
            await journal.close()

    async def test_an_empty_flush_writes_nothing(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            for _ in range(3):
                journal.flush()
                await journal.durable()
            assert len(await store.rows("s")) == 1
            await journal.close()

    async def test_close_writes_what_is_pending(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            journal.append(note(1))
            await journal.close()
            assert numbers(await store.read("s")) == [1]
            again = await store.open("s")
            assert numbers(again.entries) == [1]
            await again.close()

    async def test_every_kind_of_value_comes_back(self, tmp_path: Path) -> None:
        odd: JsonObject = {
            "a": [1, -2.5, 1 << 80, None, True, "\u2028\x00\U0001f9f6"],
            "": {"x": {}},
        }
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, Noted("odd", odd), user('\x7f"\\/\n'))
            await journal.close()
            read = await store.read("s")
            assert read[1:] == [Noted("odd", odd), user('\x7f"\\/\n')]
            assert await store.verify("s") == 2

    async def test_large_values_come_back_and_verify(self, tmp_path: Path) -> None:
        long = 'x"\\\n' * (LARGE // 4)
        async with self.opened(tmp_path) as store:
            for name in ("a", "b"):  # the second use of the same value
                journal = await store.open(name)
                await add(journal, result("c1", long), note(1), result("c2", long + "!"))
                await journal.close()
                found = await store.result_of(name, "c2")
                assert found is not None and found.result.content == long + "!"
                assert await store.verify(name) == 2
            assert await store.delete("a")
            assert (await store.read("b"))[1] == result("c1", long)

    @pytest.mark.parametrize(
        "value",
        ["\ud800", {"k": "a\udfffb"}, {1, object()}, object()],
        ids=["surrogate", "inner-surrogate", "set", "object"],
    )
    async def test_what_json_cannot_hold_is_refused_by_name(
        self, tmp_path: Path, value: object
    ) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            journal.append(note(1))
            journal.append(Noted("bad", value))
            with pytest.raises(StoreError, match="note entry"):
                journal.flush()
                await store.rows("s")

    async def test_what_is_nested_too_deeply_is_refused(self, tmp_path: Path) -> None:
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            journal.append(Noted("deep", deep))
            with pytest.raises(StoreError, match="deeply"):
                journal.flush()
                await store.rows("s")
            unnest(deep)

    async def test_sixty_four_sessions_at_once(self, tmp_path: Path) -> None:
        async def run(number: int) -> None:
            journal = await store.open(f"s{number}")
            for turn in range(10):
                await add(journal, note(turn), note(number))
                await asyncio.sleep(0)
            await journal.close()

        async with self.opened(tmp_path) as store:
            await asyncio.gather(*(run(number) for number in range(64)))
            for number in range(64):
                expected = [n for turn in range(10) for n in (turn, number)]
                assert numbers(await store.read(f"s{number}")) == expected
                assert await store.verify(f"s{number}") == 11
            assert len(await store.sessions()) == 64

    # ----------------------------------------------------------------------- writers

    async def test_a_second_writer_here_is_refused(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            with pytest.raises(Locked, match="'s'"):
                await store.open("s")
            await add(journal, note(1))
            await journal.close()
            again = await store.open("s")
            await add(again, note(2))
            await again.close()
            assert numbers(await store.read("s")) == [1, 2]

    async def test_a_second_writer_here_may_take_over(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            stale = await store.open("s", caller="ann")
            await add(stale, note(1))
            with pytest.raises(SessionHeld) as caught:
                await store.open("s")
            holder = caught.value.holder
            assert holder is not None
            assert (holder.pid, holder.caller) == (os.getpid(), "ann")
            assert caught.value.last_active > 0
            stale.append(note(2))  # on its way, and not handed on
            winner = await store.open("s", take_over=True)
            with pytest.raises(StaleWriter):
                stale.flush()
                await stale.durable()
            with pytest.raises(StaleWriter):
                await stale.commit(make_table, lambda _: [])
            with contextlib.suppress(StaleWriter):
                await stale.close()
            await add(winner, note(3))
            with pytest.raises(SessionHeld):  # the end of the old one has not released the session
                await store.open("s")
            await winner.close()
            assert numbers(await store.read("s")) == [1, 3]
            await (await store.open("s")).close()

    async def test_an_unknown_session_is_named_with_its_nearest(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await (await store.open("review")).close()
            for ask in (store.read, store.rows, store.verify, store.info, store.inbox, store.head):
                with pytest.raises(NoSuchSession, match="did you mean 'review'"):
                    await ask("reviev")
            with pytest.raises(NoSuchSession, match="reviev"):
                await store.open("reviev", create=False)
            with pytest.raises(NoSuchSession):
                await store.post("reviev", "steer", "hi")
            with pytest.raises(NoSuchSession):
                await store.fork("reviev", "new", [], None)
            assert not await store.delete("reviev")

    # ----------------------------------------------------------------------- bodies

    async def test_a_body_and_its_record_happen_together(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await journal.commit(make_table, lambda _: [])
            journal.append(note(1))
            value = await journal.commit(insert(7), lambda v: [result("c1", str(v))])
            assert value == 7
            assert journal.entries[-2:] == [note(1), result("c1", "7")]
            assert await store.read("s") == journal.entries
            assert (await store.rows("s"))[-1].first == len(journal.entries) - 2
            assert await journal.commit(effects, lambda _: []) == [7]
            assert await store.verify("s") == 2
            await journal.close()

    async def test_a_body_that_raises_changes_nothing(self, tmp_path: Path) -> None:
        def raise_after_insert(tx: Any) -> None:
            insert(7)(tx)
            raise LookupError("no such order")

        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await journal.commit(make_table, lambda _: [])
            journal.append(note(1))
            with pytest.raises(LookupError, match="no such order"):
                await journal.commit(raise_after_insert, lambda _: [result("c1", "ok")])
            await add(journal, note(2))
            assert await journal.commit(effects, lambda _: []) == []
            assert numbers(await store.read("s")) == [1, 2]
            assert await store.read("s") == journal.entries
            assert await store.result_of("s", "c1") is None
            await journal.close()

    async def test_a_record_that_raises_undoes_the_body(self, tmp_path: Path) -> None:
        def raise_error(_value: int) -> Sequence[JournalEntry]:
            raise LookupError("no words for it")

        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await journal.commit(make_table, lambda _: [])
            with pytest.raises(LookupError, match="no words"):
                await journal.commit(insert(7), raise_error)
            assert await journal.commit(effects, lambda _: []) == []
            await journal.close()

    async def test_a_call_has_one_result(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await journal.commit(make_table, lambda _: [])
            await journal.commit(insert(1), lambda _: [result("c1", "first")])
            with pytest.raises(StoreError, match="'c1' already has"):
                await journal.commit(insert(2), lambda _: [result("c1", "second")])
            assert await journal.commit(effects, lambda _: []) == [1]
            assert await store.result_of("s", "c1") == result("c1", "first")
            assert await store.result_of("s", "c2") is None
            await journal.close()
            other = await store.open("other")  # a call id belongs to its session
            await other.commit(insert(3), lambda _: [result("c1", "third")])
            await other.close()

    @pytest.mark.parametrize(
        "statement",
        ["COMMIT", " /* x */ rollback", "BEGIN", "SAVEPOINT a", "ATTACH ':memory:' AS x"],
    )
    async def test_a_body_may_not_end_the_transaction(self, tmp_path: Path, statement: str) -> None:
        def meddle(tx: Any) -> None:
            insert(7)(tx)
            tx.execute(statement)

        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await journal.commit(make_table, lambda _: [])
            with pytest.raises(StoreError, match="a body may not"):
                await journal.commit(meddle, lambda _: [result("c1", "ok")])
            for method in ("commit", "rollback", "close", "executescript", "set_authorizer"):
                with pytest.raises(StoreError, match=f"tx.{method}"):
                    await journal.commit(lambda tx, m=method: getattr(tx, m)(), lambda _: [])
            assert await journal.commit(effects, lambda _: []) == []
            await journal.close()

    async def test_commits_side_by_side_all_land(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await journal.commit(make_table, lambda _: [])

            async def one(number: int) -> None:
                journal.append(ToolIntended(f"c{number}", "t", "transactional"))
                await journal.commit(insert(number), lambda v: [result(f"c{number}", str(v))])
                await add(journal, note(number))

            await asyncio.gather(*(one(number) for number in range(8)))
            assert sorted(await journal.commit(effects, lambda _: [])) == list(range(8))
            assert await store.read("s") == journal.entries
            for number in range(8):
                found = await store.result_of("s", f"c{number}")
                assert found is not None and found.result.content == str(number)
            await store.verify("s")
            await journal.close()

    # ----------------------------------------------------------------------- mail

    async def test_mail_arrives_and_is_taken_with_a_row(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            first = await store.post("s", "steer", "use metric")
            assert [item.id for item in journal.mail] == [first], "at once, in the same process"
            second = await store.post("s", "cancel")
            assert [(i.id, i.kind, i.payload) for i in journal.mail] == [
                (first, "steer", "use metric"),
                (second, "cancel", None),
            ]
            journal.take(journal.mail[0])
            journal.append(InboxTaken(first, "steer", "use metric"))
            assert [item.id for item in await store.inbox("s")] == [first, second]
            journal.flush()
            await journal.durable()
            assert [item.id for item in await store.inbox("s")] == [second]
            assert [item.id for item in journal.mail] == [second]
            await journal.close()

    async def test_mail_waits_for_a_writer(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await (await store.open("s")).close()
            posted = [await store.post("s", "follow_up", {"n": n}) for n in range(3)]
            journal = await store.open("s")
            assert [item.id for item in journal.mail] == posted
            assert [item.payload for item in journal.mail] == [{"n": 0}, {"n": 1}, {"n": 2}]
            await journal.close()

    # ----------------------------------------------------------------------- families and lists

    async def test_a_fork_knows_its_family(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("a", metadata={"team": 1})
            await add(journal, user("hello"), result("c1", "r"))
            await store.fork("a", "b", await store.read("a"), 1)
            await store.fork("b", "c", (await store.read("b"))[:2], None)
            a, b, c = [await store.info(name) for name in "abc"]
            assert (a.parent_id, a.root_id, a.child_ids) == (None, "a", ("b",))
            assert (b.parent_id, b.root_id, b.child_ids, b.branch_at) == ("a", "a", ("c",), 1)
            assert (c.parent_id, c.root_id, c.child_ids, c.branch_at) == ("b", "a", (), None)
            assert b.metadata == {"team": 1} and b.title == "hello"
            assert (await store.read("b"))[0] == SessionOpened(
                "b", FORMAT, "a", "a", 1, {"team": 1}
            )
            assert (await store.read("b"))[1:] == (await store.read("a"))[1:]
            assert await store.result_of("b", "c1") == result("c1", "r")
            assert await store.verify("b") == 1
            with pytest.raises(StoreError, match="exists already"):
                await store.fork("a", "c", [], None)
            await journal.close()

    async def test_a_child_opened_under_a_parent_has_its_root(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for name, parent in (("a", None), ("b", "a"), ("c", "b")):
                await (await store.open(name, parent_id=parent)).close()
            assert [(await store.info(n)).root_id for n in "abc"] == ["a", "a", "a"]
            assert (await store.info("b")).child_ids == ("c",)

    async def test_the_list_shows_status_and_title(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(
                journal, RunStarted("r", "agent", "ann", "mock", "m"), user("What  is\nthis? " * 20)
            )
            info = await store.info("s")
            assert info.status is None and info.entries == 3
            assert info.title is not None and info.title.startswith("What is this? What")
            assert len(info.title) <= 80
            await add(journal, RunEnded("r", "done"))
            assert (await store.info("s")).status == "done"
            await add(journal, RunStarted("r2", "agent", "ann", "mock", "m"))
            assert (await store.info("s")).status is None
            await journal.close()
            await (await store.open("later")).close()
            listed = await store.sessions()
            assert [info.id for info in listed] == ["later", "s"]
            assert listed[1] == await store.info("s")
            assert listed[0].updated_at >= listed[1].updated_at >= listed[1].created_at

    async def test_delete_and_prune(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("busy")
            for name in ("old", "new"):
                await (await store.open(name)).close()
            with pytest.raises(Locked):
                await store.delete("busy")
            assert await store.delete("new")
            with pytest.raises(NoSuchSession):
                await store.read("new")
            assert await store.prune(0.0) == []
            assert await store.prune(float("inf")) == ["old"]
            assert [info.id for info in await store.sessions()] == ["busy"]
            await add(journal, note(1))
            await journal.close()
            fresh = await store.open("old")  # the name is free again
            assert fresh.entries == [SessionOpened("old")]
            await fresh.close()

    # ----------------------------------------------------------------------- the chain

    async def test_rows_that_were_touched_do_not_verify(self, tmp_path: Path) -> None:
        """Verify that the chain of this store's rows shows every kind of tampering."""
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            for number in range(6):
                await add(journal, note(number))
            rows, head = await store.rows("s"), await store.head("s")
            assert written.verify(rows, "s", head) == head == Head(7, rows[-1].hash)
            for changed in tamper_with_rows(rows):
                with pytest.raises(Corrupt, match="session 's'"):
                    written.verify(changed, "s", head)
            with pytest.raises(Corrupt):
                written.verify(rows, "another", head)
            await journal.close()

    async def test_an_anchor_shows_an_old_copy_up(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            early = await store.head("s")
            await add(journal, note(1))
            anchor = await store.head("s")
            await add(journal, note(2))
            assert await store.verify("s", anchor=early) == 3
            assert await store.verify("s", anchor=anchor) == 3
            rows = await store.rows("s")
            with pytest.raises(Corrupt, match="old copy"):
                written.verify(rows[:1], "s", anchor=anchor)
            await journal.close()

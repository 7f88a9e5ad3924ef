"""Tests of stores with sessions that outlive them and are shared by several."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random
from typing import Protocol

import msgspec
import pytest

from windlass.errors import (
    AlreadyAnswered,
    Corrupt,
    Full,
    Locked,
    SessionHeld,
    StaleWriter,
    StoreError,
)
from windlass.events import FORMAT, InboxTaken, RunEnded, RunResumed, RunStarted
from windlass.store import holder as holders
from windlass.store.base import Store
from windlass.store.model_calls import ReservedCall, SpendingLimit
from windlass.testing.answers_kit import answer, question
from windlass.testing.model_calls_kit import reserved_call
from windlass.testing.store_kit import StoreKit
from windlass.testing.store_pieces import (
    add,
    effects,
    insert,
    mail,
    make_table,
    note,
    numbers,
    result,
)

_ROWS = 6


class RawRows(Protocol):
    """Raw access to the rows of session `s`, past all guards of the store."""

    def edit(self, seq: int, payload: bytes) -> None: ...

    def payload(self, seq: int) -> bytes: ...

    def delete(self, seq: int) -> None: ...

    def insert(self, seq: int) -> None:
        """Insert a copy of row `seq` after the last row."""
        ...

    def swap(self, one: int, other: int) -> None: ...


class SharedStoreKit(StoreKit):
    """Tests of a shared store: `store(folder)` called twice opens the same sessions."""

    def raw(self, folder: Path) -> RawRows:
        """Return raw access to the rows, while no store is open."""
        raise NotImplementedError

    async def test_sessions_outlive_the_store(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s", metadata={"a": 1})
            await journal.commit(make_table, lambda _: [])
            await journal.commit(insert(7), lambda _: [result("c1", "7")])
            await add(journal, note(1))
            await store.post("s", "steer", "hello")
            entries, head = list(journal.entries), await store.head("s")
            await journal.close()
        async with self.opened(tmp_path) as store:
            assert await store.head("s") == head
            journal = await store.open("s", create=False)
            assert journal.entries == entries
            assert [item.payload for item in journal.mail] == ["hello"]
            assert await journal.commit(effects, lambda _: []) == [7]
            with pytest.raises(StoreError, match="already has"):
                await journal.commit(insert(8), lambda _: [result("c1", "8")])
            await add(journal, note(2))
            assert await store.verify("s", anchor=head) == head.rows + 1
            await journal.close()

    async def test_of_answers_from_two_processes_one_is_stored(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            journal = await one.open("s")
            await add(journal, *[question(f"c{n}", f"ask{n}") for n in range(10)])
            await journal.close()
            posts = [
                store.post("s", "decision", answer(f"c{n}", action, by, f"ask{n}"))
                for n in range(10)
                for store, action, by in ((one, "allow", "ann"), (two, "deny", "bea"))
            ]
            told = await asyncio.gather(*posts, return_exceptions=True)
            for n in range(10):
                pair = told[2 * n : 2 * n + 2]
                assert {type(each) for each in pair} == {str, AlreadyAnswered}
            assert len(await two.inbox("s")) == 10

    async def test_of_reserves_from_two_processes_as_many_are_stored_as_fit(
        self, tmp_path: Path
    ) -> None:
        limit = SpendingLimit(since=0.0, tokens=100)
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            answers = await asyncio.gather(
                *[
                    store.reserve_call(reserved_call(30), limit)
                    for _ in range(6)
                    for store in (one, two)
                ]
            )
            kept = [answer.place for answer in answers if answer.place is not None]
            assert len(kept) == 3 == len(set(kept))
            await one.record_calls([], kept)  # also those of the other
            assert await two.calls() == []

    async def test_reserves_see_every_call_whoever_recorded_it(self, tmp_path: Path) -> None:
        limit = SpendingLimit(since=5.0, tokens=10**9)
        random, held = Random(7), list[ReservedCall]()
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            for step in range(60):
                store, tokens = random.choice((one, two)), random.randrange(1, 9)
                at = random.choice((4.0, 10.0))
                match random.randrange(4):
                    case 0:
                        call = msgspec.structs.replace(reserved_call(tokens), outcome="ok", at=at)
                        await store.record_calls([call])
                    case 1 if held:
                        place = held.pop(random.randrange(len(held)))
                        done = msgspec.structs.replace(reserved_call(tokens), outcome="ok")
                        await store.record_calls([done][: step % 2], [place])
                    case kind:
                        known = [c for c in await store.calls() if c.at >= 5.0]
                        before = sum(c.input_tokens for c in known)
                        old = held.pop() if held and kind == 2 else None
                        answer = await store.reserve_call(reserved_call(tokens), limit, old)
                        assert answer.place is not None
                        held.append(answer.place)
                        after = sum(c.input_tokens for c in await store.calls() if c.at >= 5.0)
                        assert answer.tokens == after - tokens
                        assert old is not None or answer.tokens == before

    async def test_the_later_writer_wins_and_the_earlier_touches_nothing(
        self, tmp_path: Path
    ) -> None:
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            stale = await one.open("s")
            await stale.commit(make_table, lambda _: [])
            await add(stale, note(1))
            await one.post("s", "steer", "hi")
            await mail(stale)
            winner = await two.open("s", take_over=True)
            assert numbers(winner.entries) == [1]
            item = stale.mail[0]
            stale.take(item)
            stale.append(InboxTaken(item.id, "steer"))
            stale.append(result("c1", "stale"))
            stale.flush()
            with pytest.raises(StaleWriter, match="taken over"):
                await stale.durable()
            with pytest.raises(StaleWriter):
                await stale.commit(insert(1), lambda _: [])
            with pytest.raises(StaleWriter):
                await stale.close()
            await add(winner, note(2), result("c1", "winner"))
            assert await winner.commit(effects, lambda _: []) == []
            assert numbers(await one.read("s")) == [1, 2]
            assert await two.inbox("s") == [item]
            assert await two.verify("s") == 3
            await winner.close()

    async def test_a_session_that_is_held_elsewhere_is_refused(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            first = await one.open("s", caller="ann")
            await add(first, note(1))
            with pytest.raises(SessionHeld, match="'s'.*take_over") as caught:
                await two.open("s")
            holder = caught.value.holder
            assert holder is not None
            assert (holder.pid, holder.caller) == (os.getpid(), "ann")
            assert caught.value.last_active == (await two.info("s")).updated_at
            assert (await two.info("s")).state == "alive"
            assert [info.alive for info in await two.sessions()] == [True]
            await add(first, note(2))  # nothing has happened to it
            await first.close()
            assert not (await two.info("s")).alive
            second = await two.open("s")
            assert numbers(second.entries) == [1, 2]
            with pytest.raises(SessionHeld):
                await one.open("s")
            await second.close()

    async def test_a_run_that_ends_gives_its_session_up_with_its_last_row(
        self, tmp_path: Path
    ) -> None:
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            journal = await one.open("s")
            await add(journal, RunStarted("r", "agent", "local", "mock", "mock"))
            assert (await two.info("s")).state == "alive"
            await add(journal, RunEnded("r", "suspended", "waits"))
            assert (await two.info("s")).state == "parked"
            other = await two.open("s")  # though the first has not closed it yet
            await add(other, RunResumed("r", "open"))
            assert (await one.info("s")).state == "alive"
            await other.close()
            assert (await one.info("s")).state == "dead"  # no run is at work on it, and none ended

    async def test_a_store_that_closes_holds_nothing(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as two:
            async with self.opened(tmp_path) as one:
                journal = await one.open("s")
                await add(journal, note(1))
                assert (await two.info("s")).alive
            assert (await two.info("s")).holder is None
            again = await two.open("s")
            await again.close()

    async def test_a_process_elsewhere_is_alive_while_it_gives_signs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            journal = await one.open("s")
            await add(journal, note(1))
            here = holders.is_own_process
            monkeypatch.setattr(holders, "is_own_process", _no)
            monkeypatch.setattr(holders, "process_lives", _unknown)  # as on another machine
            assert await _becomes(two, alive=True)
            with pytest.raises(SessionHeld):
                await two.open("s")
            monkeypatch.setattr(
                holders, "DEAD_SECONDS", -1.0
            )  # and now it has been silent too long
            assert (await two.info("s")).state == "dead"
            other = await two.open("s")
            monkeypatch.setattr(holders, "is_own_process", here)
            await other.close()

    async def test_a_stale_body_does_not_run(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            stale = await one.open("s")
            await stale.commit(make_table, lambda _: [])
            winner = await two.open("s", take_over=True)
            with pytest.raises(StaleWriter):
                await stale.commit(insert(1), lambda _: [result("c1", "1")])
            assert await winner.commit(effects, lambda _: []) == []
            await winner.close()

    async def test_a_stale_writer_loses_alone(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            journals = [await one.open(f"s{n}") for n in range(8)]
            thief = await two.open("s3", take_over=True)
            for number, journal in enumerate(journals):
                journal.append(note(number))
                journal.flush()
            waited = await asyncio.gather(*(j.durable() for j in journals), return_exceptions=True)
            lost = [number for number, error in enumerate(waited) if error is not None]
            assert lost == [3] and isinstance(waited[3], StaleWriter)
            for number in range(8):
                assert numbers(await one.read(f"s{number}")) == [number] * (number != 3)
                assert await one.verify(f"s{number}") == (1 if number == 3 else 2)
            await thief.close()

    async def test_a_second_result_loses_alone(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journals = [await store.open(f"s{n}") for n in range(4)]
            await add(journals[2], result("c", "first"))
            for journal in journals:
                journal.append(result("c", "again"))
                journal.flush()
            waited = await asyncio.gather(*(j.durable() for j in journals), return_exceptions=True)
            assert [error is None for error in waited] == [True, True, False, True]
            assert isinstance(waited[2], StoreError) and "second result" in str(waited[2])
            assert await store.result_of("s2", "c") == result("c", "first")
            assert await store.verify("s2") == 2

    async def test_mail_from_another_process_arrives(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            journal = await one.open("s")
            posted = await two.post("s", "cancel", {"why": "enough"})
            await mail(journal)
            assert [item.id for item in journal.mail] == [posted]
            await journal.close()

    async def test_a_session_deleted_elsewhere_has_no_writer_any_more(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as one, self.opened(tmp_path) as two:
            journal = await one.open("s")
            assert await two.delete("s")
            again = await two.open("s")  # the same name, another session
            journal.append(note(1))
            journal.flush()
            with pytest.raises(StaleWriter, match="deleted"):
                await journal.durable()
            assert numbers(await two.read("s")) == []
            await again.close()

    async def test_a_closed_store_says_so(self, tmp_path: Path) -> None:
        store = self.store(tmp_path)
        journal = await store.open("s")
        await store.aclose()
        await store.aclose()
        journal.append(note(1))
        with pytest.raises(StoreError, match="closed"):
            journal.flush()
            await journal.durable()
        for ask in (store.read, store.open, store.info):
            with pytest.raises(StoreError, match="closed"):
                await ask("s")

    # ----------------------------------------------------------------------- damage

    async def _write_rows(self, folder: Path) -> RawRows:
        async with self.opened(folder) as store:
            journal = await store.open("s")
            for number in range(1, _ROWS):
                await add(journal, note(number))
            await journal.close()
        return self.raw(folder)

    async def _check_refused(self, folder: Path) -> None:
        async with self.opened(folder) as store:
            with pytest.raises(Corrupt, match="session 's'"):
                await store.verify("s")
            with pytest.raises(Corrupt, match="session 's'"):
                await store.open("s")
            other = await store.open("other")  # the damage is one session's own
            await add(other, note(1))
            await other.close()

    @pytest.mark.parametrize("seq", range(_ROWS))
    @pytest.mark.parametrize("kind", ["edit", "delete", "swap", "cut_head", "cut_tail"])
    async def test_meddling_is_detected(self, tmp_path: Path, kind: str, seq: int) -> None:
        raw = await self._write_rows(tmp_path)
        match kind:
            case "edit":
                old = raw.payload(seq)
                raw.edit(seq, old.replace(b"s", b"z", 1) if seq == 0 else b"[]")
            case "delete":
                raw.delete(seq)
            case "swap":
                raw.swap(seq, (seq + 1) % _ROWS)
            case "cut_head":
                for number in range(seq + 1):
                    raw.delete(number)
            case _:
                for number in range(seq, _ROWS):
                    raw.delete(number)
        await self._check_refused(tmp_path)

    @pytest.mark.parametrize("seq", range(_ROWS))
    async def test_an_inserted_row_is_detected(self, tmp_path: Path, seq: int) -> None:
        raw = await self._write_rows(tmp_path)
        raw.insert(seq)
        await self._check_refused(tmp_path)

    async def test_a_newer_format_asks_for_an_upgrade(self, tmp_path: Path) -> None:
        raw = await self._write_rows(tmp_path)
        for payload in (
            b'[{"kind":"session","session_id":"s","format":%d}]' % (FORMAT + 1),
            b'[{"kind":"session","session_id":"s","format":%d},{"kind":"later"}]' % (FORMAT + 1),
        ):
            raw.edit(0, payload)
            async with self.opened(tmp_path) as store:
                with pytest.raises(StoreError, match="upgrade") as caught:
                    await store.read("s")
                assert not isinstance(caught.value, (Corrupt, Full, Locked))

    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            b"[",
            b"{}",
            b"[1]",
            b'[{"kind":"nonsense"}]',
            b'[{"kind":"message"}]',
            b"\xff\xfe",
            b'[{"kind":"iteration_start","number":"x"}]',
            b"[" * 100_000,
        ],
        ids=range(9),
    )
    async def test_rows_that_do_not_decode_are_named(self, tmp_path: Path, payload: bytes) -> None:
        raw = await self._write_rows(tmp_path)
        raw.edit(3, payload)
        async with self.opened(tmp_path) as store:
            with pytest.raises(Corrupt, match="session 's', row 3"):
                await store.read("s")


async def _becomes(store: Store, *, alive: bool) -> bool:
    """Wait for the heartbeat of a store's thread."""
    for _ in range(1000):
        if (await store.info("s")).alive is alive:
            return True
        await asyncio.sleep(0)
    return False


def _no(_holder: holders.Holder) -> bool:
    return False


def _unknown(_holder: holders.Holder) -> None:
    return None

"""The memory store keeps every promise of a store, and is cheap while nobody looks."""

import asyncio
import threading

import pytest

from windlass.errors import StoreError
from windlass.events import IterationStart, SessionOpened
from windlass.store import codec as written
from windlass.store.memory import MemoryStore
from windlass.store.transaction import LIMIT_SECONDS
from windlass.testing.store_kit import StoreKit
from windlass.testing.store_pieces import add, note, numbers


class TestMemoryStore(StoreKit):
    def store(self, folder):
        return MemoryStore()


async def test_nothing_is_encoded_until_someone_asks(monkeypatch):
    encoded = []
    encode = written.encode
    monkeypatch.setattr(written, "encode", lambda e, s: encoded.append(s) or encode(e, s))
    store = MemoryStore()
    journal = await store.open("s")
    await add(journal, note(1))
    await store.read("s")
    await journal.close()
    assert encoded == []
    await store.verify("s")
    assert encoded == ["s", "s"]


async def test_append_is_the_list_itself():
    journal = await MemoryStore().open("s")
    assert journal.append.__self__ is journal.entries
    journal.append(IterationStart(1))
    assert journal.entries[-1] == IterationStart(1)


async def test_a_writer_that_closed_can_change_nothing_any_more():
    store = MemoryStore()
    old = await store.open("s")
    await add(old, note(1))
    await old.close()
    new = await store.open("s")
    old.append(note(2))
    old.flush()
    with pytest.raises(StoreError, match="open it again"):
        await old.durable()
    with pytest.raises(StoreError, match="open it again"):
        await old.commit(lambda tx: 1, lambda _: [])
    assert numbers(new.entries) == numbers(await store.read("s")) == [1]


async def test_what_the_last_writer_left_unflushed_is_gone():
    store = MemoryStore()
    old = await store.open("s")
    await old.close()
    old.append(note(1))
    assert (await store.open("s")).entries == [SessionOpened("s")]


async def test_mail_from_another_thread_arrives_on_the_writers_loop():
    store = MemoryStore()
    journal = await store.open("s")
    arrived, here = asyncio.Event(), threading.get_ident()
    seen = []
    journal.on_mail = lambda: (seen.append(threading.get_ident()), arrived.set())
    thread = threading.Thread(target=lambda: asyncio.run(store.post("s", "cancel")))
    thread.start()
    await asyncio.wait_for(arrived.wait(), 5)
    thread.join()
    assert seen == [here] and [item.kind for item in journal.mail] == ["cancel"]


async def test_a_body_in_memory_is_timed_too(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("windlass.seams.monotonic", lambda: clock[0])

    def slow(tx):
        tx.execute("CREATE TABLE t (n)")
        clock[0] += LIMIT_SECONDS + 1
        tx.execute("INSERT INTO t VALUES (1)")

    store = MemoryStore()
    journal = await store.open("s")
    with pytest.raises(StoreError, match="rolled back"):
        await journal.commit(slow, lambda _: [])
    count = "SELECT count(*) FROM sqlite_master WHERE name = 't'"
    assert await journal.commit(lambda tx: tx.execute(count).fetchone()[0], lambda _: []) == 0
    await store.aclose()

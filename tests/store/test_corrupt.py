"""Whatever the bytes of a journal have become: a typed error or the entries, never anything else."""

import asyncio
import sqlite3

from hypothesis import example, given, settings
from hypothesis import strategies as st

from windlass.errors import Corrupt, StoreError
from windlass.events import (
    IterationEnd,
    Noted,
    Replied,
    Reshaped,
    SessionOpened,
    ToolMessage,
    ToolResulted,
)
from windlass.messages import Message, Text, Thinking, ToolCall, ToolResult
from windlass.store import codec as written
from windlass.store.base import Head, Row
from windlass.store.sqlite.store import SqliteStore
from windlass.store.view import messages_of
from windlass.testing.store_pieces import add, note
from windlass.usage import Usage

ENTRIES = [
    SessionOpened("s", metadata={"a": [1, None]}),
    Replied(
        Message("assistant", (Thinking("hm"), Text("ok"), ToolCall("c1", "add", {"a": 1.5}))),
        Usage(10, 5),
        "tool_use",
        "mock",
        "m",
        1,
        "f",
    ),
    ToolResulted("c1", "add", "ok", ToolResult("c1", "3", name="add")),
    ToolMessage(("c1",)),
    Reshaped(0, 1, (Message("user", (Text("cut"),)),), "trim"),
    IterationEnd(1, "dropped"),
    Noted("x", {"deep": [[[]]]}),
]
PAYLOAD = written.encode(ENTRIES, "s")


@st.composite
def mutated(draw):
    """The payload with bytes changed, cut out, put in or doubled; always different."""
    data = bytearray(PAYLOAD)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1)) if data else 0
        match draw(st.sampled_from(["flip", "cut", "put", "double", "token"])):
            case "flip":
                data[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case "cut":
                del data[at : at + draw(st.integers(1, 40))]
            case "put":
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "double":
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
            case _:
                data[at:at] = draw(
                    st.sampled_from([b'"', b"{", b"]", b"null", b"\\u", b"1e999", b","])
                )
    return bytes(data)


@settings(max_examples=600)
@given(mutated())
@example(b"[" * 200_000)
@example(PAYLOAD.replace(b'"kind":"tool_message"', b'"kind":"tool_massage"'))
def test_a_changed_payload_is_corrupt_or_reads(payload):
    try:
        entries = written.decode_rows([Row(0, 0, 1.0, payload, b"")], "s")
    except StoreError as error:
        assert "'s'" in str(error)
        return
    try:
        messages_of(entries)
    except Corrupt:
        pass


@settings(max_examples=300)
@given(mutated())
def test_a_changed_payload_never_verifies(payload):
    at, start = 1.0, written.genesis("s")
    row = Row(0, 0, at, PAYLOAD, written.link(start, 0, at, written.digest(PAYLOAD)))
    assert written.verify([row], "s") == Head(1, row.hash)
    if payload == PAYLOAD:
        return
    try:
        written.verify([Row(0, 0, at, payload, row.hash)], "s")
    except Corrupt as error:
        assert "row 0: changed" in str(error)
    else:
        raise AssertionError("a changed payload verified")


COLUMNS = {
    "windlass_rows": ["sid", "seq", "before", "first", "at", "payload", "cuts", "hash"],
    "windlass_sessions": ["epoch", "rows", "entries", "head", "last_key", "metadata", "created_at"],
    "windlass_blobs": ["data", "digest"],
}


@settings(max_examples=60)
@given(
    st.sampled_from([(table, column) for table, names in COLUMNS.items() for column in names]),
    st.one_of(st.binary(max_size=40), st.text(max_size=20), st.integers(-3, 3), st.floats()),
)
def test_columns_with_anything_in_them_are_typed_errors(where, value):
    asyncio.run(_damaged(*where, value))


async def _damaged(table, column, value):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        store = SqliteStore(path)
        journal = await store.open("s", metadata={"a": 1})
        await add(journal, note(1), Noted("long", "y" * 70_000))
        await journal.close()
        await store.aclose()
        db = sqlite3.connect(path)
        try:
            with db:
                db.execute(f"UPDATE {table} SET {column} = ?", (value,))
        except sqlite3.IntegrityError:
            return
        finally:
            db.close()
        store = SqliteStore(path)
        try:
            for ask in (store.read, store.verify, store.info, store.rows, store.head, store.open):
                try:
                    await ask("s")
                except StoreError:
                    pass
            try:
                await store.sessions()
            except StoreError:
                pass
            other = await store.open("other")
            await add(other, note(1))
        finally:
            await store.aclose()

"""Helpers for tests of stores: entries, bodies, and tampered rows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from windlass.events import IterationStart, JournalEntry, Said, ToolResulted
from windlass.messages import Message, Text, ToolResult
from windlass.store.base import Journal, Row


def user(text: str) -> Said:
    """Build a user message."""
    return Said(Message("user", (Text(text),)))


def note(number: int) -> IterationStart:
    """Build an entry that is easy to count."""
    return IterationStart(number)


def numbers(entries: Sequence[JournalEntry]) -> list[int]:
    """Return the numbers of the notes among these entries."""
    return [entry.number for entry in entries if isinstance(entry, IterationStart)]


def result(call_id: str, text: str) -> ToolResulted:
    """Build the result of a call."""
    return ToolResulted(call_id, "t", "ok", ToolResult(call_id, text, name="t"))


async def add(journal: Journal, *entries: JournalEntry) -> None:
    """Append one row, and wait until it is on disk."""
    for entry in entries:
        journal.append(entry)
    journal.flush()
    await journal.durable()


async def mail(journal: Journal, count: int = 1) -> None:
    """Wait until the writer has this many items."""
    arrived = asyncio.Event()
    journal.on_mail = arrived.set
    while len(journal.mail) < count:
        await asyncio.wait_for(arrived.wait(), 10)
        arrived.clear()


def make_table(tx: Any) -> None:
    """Create the table of effects, as a body."""
    tx.execute("CREATE TABLE IF NOT EXISTS effects (n INTEGER)")


def insert(number: int) -> Any:
    """Build a body with an effect."""

    def body(tx: Any) -> int:
        tx.execute("INSERT INTO effects VALUES (?)", (number,))
        return number

    return body


def effects(tx: Any) -> list[int]:
    """Read the effects, as a body."""
    return [row[0] for row in tx.execute("SELECT n FROM effects ORDER BY n")]


def tamper_with_rows(rows: list[Row]) -> list[list[Row]]:
    """Return the rows tampered with in every way: edited, deleted, inserted, swapped, cut."""

    def put(row: Row, **fields: Any) -> Row:
        return Row(**{**{f: getattr(row, f) for f in row.__struct_fields__}, **fields})

    changed: list[list[Row]] = []
    for i, row in enumerate(rows):
        before, after = rows[:i], rows[i + 1 :]
        edited = row.payload.replace(b'"', b"' ", 1)
        changed += [
            [*before, put(row, payload=edited), *after],
            [*before, put(row, at=row.at + 1), *after],
            [*before, put(row, first=row.first + 1), *after],
            [*before, put(row, hash=bytes(32)), *after],
            before + after,
            [*before, row, *rows[i:]],
            rows[i + 1 :],
            rows[:i],
            [*before, *after, row] if after else [],
        ]
    return changed


def unnest(deep: list[Any]) -> None:
    """Take a deep list apart by hand; freeing it whole recurses."""
    while deep:
        deep = deep.pop()

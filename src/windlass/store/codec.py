"""The stored form of a journal: rows of entries as JSON, chained by hashes.

Pure functions. Where the rows are kept is a store's business.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, TypeVar, cast

import msgspec

from windlass.errors import Corrupt, StoreError
from windlass.events import (
    FORMAT,
    JournalEntry,
    Replied,
    ReplyFailed,
    RunEnded,
    RunResumed,
    RunStarted,
    Said,
    SessionOpened,
    ToolResulted,
    kind_of,
)
from windlass.identifiers import to_title
from windlass.store.base import Head, Row

T = TypeVar("T")
TITLE_LENGTH = 80
UNWRITABLE = (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError)

_encoder = msgspec.json.Encoder()
_link = struct.Struct(">Qd").pack
_blank = blake2b(digest_size=32).copy


class _Probe(msgspec.Struct):
    """The fields of a first entry that every format has."""

    kind: str = ""
    format: int = 1


_probe = msgspec.json.Decoder(list[_Probe])


# --------------------------------------------------------------------------- entries and bytes


@cache
def _decoder() -> msgspec.json.Decoder[list[JournalEntry]]:
    """Build the decoder at first use: that is slow, and most programs only write."""
    return msgspec.json.Decoder(list[JournalEntry])


def encode(entries: Sequence[JournalEntry], session_id: str) -> bytes:
    """Encode the payload of a row, or raise a `StoreError` that names what JSON cannot hold."""
    try:
        return _encoder.encode(entries)
    except UNWRITABLE as error:
        raise _unwritable(entries, session_id) from error


def encode_value(value: object, what: str) -> bytes:
    """Encode plain data as JSON, or raise a `StoreError` that names it."""
    try:
        return _encoder.encode(value)
    except UNWRITABLE as error:
        raise StoreError(f"{what} cannot be written: {_why(error)}") from error


def decode(payload: bytes, session_id: str, seq: int) -> list[JournalEntry]:
    """Decode the entries of a row, or raise `Corrupt` with session, row and place."""
    try:
        return _decoder().decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if seq == 0:
            _refuse_newer(_format_of(payload), session_id)
        raise Corrupt(
            f"session {session_id!r}, row {seq}: {error}. "
            "Restore it from a backup, or fork the session before this row"
        ) from error


class LaterFormat(StoreError):
    """A journal was written by a later version of Windlass: a process of that one can read it."""


def decode_rows(rows: Iterable[Row], session_id: str) -> list[JournalEntry]:
    """Decode all entries of a session; refuse a journal of a newer format."""
    entries: list[JournalEntry] = []
    for row in rows:
        if row.first != len(entries):
            raise Corrupt(
                f"session {session_id!r}, row {row.seq}: begins at entry {row.first}, "
                f"but {len(entries)} came before it"
            )
        entries += decode(row.payload, session_id, row.seq)
    check_opening(entries, session_id)
    return entries


def check_opening(entries: Sequence[JournalEntry], session_id: str) -> None:
    """Check the first entry: the session's id and the format of the journal."""
    first = entries[0] if entries else None
    if type(first) is not SessionOpened:
        raise Corrupt(f"session {session_id!r}, row 0: the journal does not begin with its opening")
    _refuse_newer(first.format, session_id)
    if first.session_id != session_id:
        raise Corrupt(f"session {session_id!r}, row 0: the journal of {first.session_id!r}")


def _refuse_newer(found: int, session_id: str) -> None:
    if found > FORMAT:
        raise LaterFormat(
            f"session {session_id!r} is in journal format {found}; this version reads up to "
            f"{FORMAT}: upgrade windlass to open it"
        )


def _format_of(payload: bytes) -> int:
    try:
        probes = _probe.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0
    return probes[0].format if probes and probes[0].kind == "session" else 0


def _unwritable(entries: Sequence[JournalEntry], session_id: str) -> StoreError:
    for number, entry in enumerate(entries):
        try:
            _encoder.encode(entry)
        except UNWRITABLE as error:
            return StoreError(
                f"session {session_id!r}: a {kind_of(entry)} entry ({number + 1} of "
                f"{len(entries)}) cannot be written: {_why(error)}; nothing of this append is kept"
            )
    return StoreError(f"session {session_id!r}: these entries cannot be written")


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds a lone surrogate (half a character); replace it first"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return f"{error}; a journal holds plain data"


# --------------------------------------------------------------------------- the chain


def digest(data: bytes) -> bytes:
    """Compute the content hash: 32 bytes of blake2b."""
    state = _blank()  # a copy is made in half the time of a new one
    state.update(data)
    return state.digest()


def genesis(session_id: str) -> bytes:
    """Return the hash that the first row is chained to, which binds rows to their session."""
    return digest(b"windlass journal\0" + session_id.encode("utf-8", "surrogatepass"))


def link(previous: bytes, seq: int, at: float, payload_digest: bytes) -> bytes:
    """Compute the hash of a row from its payload's digest."""
    return digest(previous + _link(seq, at) + payload_digest)


def chain_hash(previous: bytes, seq: int, at: float, payload: bytes) -> bytes:
    """Compute the hash of a row from its payload: `link` and `digest` in one step."""
    content, row = _blank(), _blank()
    content.update(payload)
    row.update(previous + _link(seq, at) + content.digest())
    return row.digest()


def verify(
    rows: Sequence[Row], session_id: str, head: Head | None = None, anchor: Head | None = None
) -> Head:
    """Verify the chain from its beginning to `head`; raise `Corrupt` for the first error."""
    hash_ = genesis(session_id)
    count = 0
    held = anchor is None or (anchor.rows == 0 and anchor.hash == hash_)
    for position, row in enumerate(rows):
        if row.seq != position:
            raise Corrupt(f"session {session_id!r}: row {position} is missing or out of place")
        hash_ = link(hash_, row.seq, row.at, digest(row.payload))
        if hash_ != row.hash:
            raise Corrupt(f"session {session_id!r}, row {position}: changed since it was written")
        if row.first != count:
            raise Corrupt(f"session {session_id!r}, row {position}: entry numbers do not follow")
        count += len(decode(row.payload, session_id, position))
        held = held or anchor == Head(position + 1, hash_)
    if head is not None and head != Head(len(rows), hash_):
        raise Corrupt(
            f"session {session_id!r}: {len(rows)} rows, but its head says {head.rows}: "
            "the end was cut off or written over"
        )
    if not held:
        raise Corrupt(
            f"session {session_id!r}: does not hold the anchored row {cast(Head, anchor).rows - 1}; "
            "it is an old copy or another history"
        )
    return Head(len(rows), hash_)


# --------------------------------------------------------------------------- what a list shows


class Notes(msgspec.Struct):
    """The effects of a row's entries on the session's own record."""

    results: tuple[str, ...] = ()  # calls that have their result now
    status: str | None = None
    status_changed: bool = False
    title: str | None = None
    paid: tuple[RunStarted | Replied | ReplyFailed, ...] = ()  # for the books, in their order

    def then(self, later: Notes) -> Notes:
        """Combine these notes with those of later entries."""
        last = later if later.status_changed else self
        title = self.title if self.title is not None else later.title
        changed = self.status_changed or later.status_changed
        results, paid = self.results + later.results, self.paid + later.paid
        return Notes(results, last.status, changed, title, paid)


_NONE = Notes()


def notes_of(entries: Sequence[JournalEntry]) -> Notes:
    """Collect the results, the run's status and the title in these entries."""
    if _NOTED.keys().isdisjoint(map(type, entries)):
        return _NONE
    notes = Notes()
    for entry in entries:
        note = _NOTED.get(type(entry))
        if note is not None:
            note(notes, entry)
    return notes


def _result(notes: Notes, entry: ToolResulted) -> None:
    notes.results += (entry.call_id,)


def _note_start(notes: Notes, entry: RunStarted) -> None:
    notes.status, notes.status_changed = None, True
    notes.paid += (entry,)


def _note_resume(notes: Notes, _entry: RunResumed) -> None:
    notes.status, notes.status_changed = None, True


def _note_payment(notes: Notes, entry: Replied | ReplyFailed) -> None:
    notes.paid += (entry,)


def _note_end(notes: Notes, entry: RunEnded) -> None:
    notes.status, notes.status_changed = entry.status, True


def _note_title(notes: Notes, entry: Said) -> None:
    if notes.title is None and entry.message.role == "user" and entry.message.kind is None:
        notes.title = to_title(entry.message.text, TITLE_LENGTH)


_NOTED: dict[type, Callable[[Notes, Any], None]] = {
    ToolResulted: _result,
    RunStarted: _note_start,
    RunResumed: _note_resume,
    Replied: _note_payment,
    ReplyFailed: _note_payment,
    RunEnded: _note_end,
    Said: _note_title,
}


def restore_entries(
    rows: Sequence[Row], session_id: str, head: Head, count: int
) -> list[JournalEntry]:
    """Verify the chain of stored rows and decode them for a new writer."""
    verify(rows, session_id, head)
    entries = decode_rows(rows, session_id)
    if len(entries) != count:
        raise Corrupt(
            f"session {session_id!r} has {len(entries)} entries, and its list says {count}"
        )
    return entries

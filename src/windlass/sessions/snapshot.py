"""Snapshots: a session as one file, to be resumed on a machine without its store.

The store is the truth; a snapshot is an export of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.engine.active_runs import SuspendedRun
from windlass.engine.ownership import SessionScope
from windlass.errors import ConfigError, NoSuchSession, safe_repr
from windlass.events import JournalEntry, RunEnded, SessionOpened, Suspended
from windlass.files import open_private
from windlass.identifiers import check_identifier
from windlass.json_types import JsonObject
from windlass.loop.resume import standing
from windlass.store import codec
from windlass.store.armed_conditions import build_arming
from windlass.store.base import Journal, Store
from windlass.store.open import Address
from windlass.store.wishes import Transaction

FORMAT: Final = "windlass-worker-1"
FOLDER: Final = Path(".windlass") / "workers"
_LARGEST: Final = 256_000_000


class _Below(msgspec.Struct, frozen=True):
    """A session below that of a snapshot: a sub-agent, a step, or a worker."""

    session_id: str
    entries: msgspec.Raw


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot file."""

    format: str
    session_id: str
    saved_at: float
    status: str | None
    suspension: JsonObject | None
    entries: msgspec.Raw
    below: list[_Below] = []  # parents first


async def save_snapshot(
    session: str | SuspendedRun,
    path: str | os.PathLike[str] | None = None,
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> Path:
    """Write a session and those below it to a file; return its path.

    By default it is `.windlass/workers/worker_….json`.

    ```python
    out = await w.agent_loop("go", session_id="s1", …)
    if out.handle is not None:
        path = await w.save_snapshot(out.handle)        # windlass run --resume PATH
    ```
    """
    scope = SessionScope.current(store, caller)
    wanted = session.session_id if isinstance(session, SuspendedRun) else session
    key = await scope.find(wanted, "read")
    entries = await scope.home.read(key)
    parked = standing(entries).suspended
    ended = next((entry for entry in reversed(entries) if type(entry) is RunEnded), None)
    document = _Snapshot(
        format=FORMAT,
        session_id=key,
        saved_at=seams.now(),
        status=None if ended is None else ended.status,
        suspension=None if parked is None else _describe(parked),
        entries=msgspec.Raw(codec.encode(entries, key)),
        below=await _read_below(scope.home, key),
    )
    place = FOLDER / f"worker_{key}.json" if path is None else Path(path)
    await asyncio.to_thread(_write, place, msgspec.json.encode(document))
    return place


async def load_snapshot(path: str | os.PathLike[str], *, store: Address | None = None) -> str:
    """Read a snapshot file into the store; return the id of the session.

    A session that the store has already is left as it is: the store is the truth.
    """
    data = await asyncio.to_thread(_read, Path(path))
    home = SessionScope.current(store, None).home
    return await restore_snapshot(data, home, str(path))


async def restore_snapshot(data: bytes, home: Store, name: str) -> str:
    """Put the session of a snapshot into a store that does not have it; return its id."""
    try:
        document = msgspec.json.decode(data, type=_Snapshot)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{safe_repr(name)} is no snapshot of a session: {error}") from None
    if document.format != FORMAT:
        raise ConfigError(f"{safe_repr(name)} has the format {safe_repr(document.format)}")
    session_id = check_identifier(document.session_id, "session_id")
    sessions = {session_id: document.entries} | {
        check_identifier(one.session_id, "session_id"): one.entries for one in document.below
    }
    found = {key: codec.decode(bytes(packed), key, 0) for key, packed in sessions.items()}
    openings = {key: _read_opening(entries, name) for key, entries in found.items()}
    foreign = [key for key in found if key != session_id and not key.startswith(f"{session_id}.")]
    if foreign:
        raise ConfigError(f"{safe_repr(name)} holds {foreign[0]!r}, which is not of its session")
    if not await _may_restore(home, session_id, openings[session_id]):
        return session_id
    journals: list[Journal] = []
    try:
        for key, opened in openings.items():
            if key == session_id or await _may_restore(home, key, opened):
                above = None if key == session_id else opened.parent_id
                journals.append(await home.open(key, metadata=opened.metadata, parent_id=above))
        # The session itself is the last: if this process is killed before, it is loaded again.
        for journal in reversed(journals):
            if len(journal.entries) == 1:
                entries = found[journal.session_id]
                body = _build_arming(journal.session_id, document, entries)
                await journal.commit(body, lambda _, entries=entries: entries[1:])
    finally:
        for journal in journals:
            await journal.close()
    return session_id


def _read_opening(entries: list[JournalEntry], name: str) -> SessionOpened:
    opened = entries[0] if entries else None
    if not isinstance(opened, SessionOpened):
        raise ConfigError(f"{safe_repr(name)} holds no session")
    return opened


async def _may_restore(home: Store, key: str, opened: SessionOpened) -> bool:
    """Check whether the store lacks a session, or has of it what a killed process left."""
    try:
        known = await home.info(key)
    except NoSuchSession:
        return True
    return known.entries == 1 and known.metadata == (opened.metadata or {})


async def _read_below(home: Store, key: str) -> list[_Below]:
    """Read the sessions that were begun for calls of a session, and those below them."""
    found: list[_Below] = []
    for child_id in (await home.info(key)).child_ids:
        if not child_id.startswith(f"{key}."):
            continue  # a fork
        try:
            entries = await home.read(child_id)
            found.append(_Below(child_id, msgspec.Raw(codec.encode(entries, child_id))))
            found += await _read_below(home, child_id)
        except NoSuchSession:
            continue  # deleted meanwhile
    return found


def _build_arming(
    session_id: str, document: _Snapshot, entries: list[JournalEntry]
) -> Callable[[Transaction], None]:
    """Return the body that arms the conditions which the session waits for."""
    parked = standing(entries).suspended
    body = None
    if parked is not None and parked.conditions:
        body = build_arming(session_id, parked.conditions, document.saved_at, None)
    return (lambda _tx: None) if body is None else body


def _describe(parked: Suspended) -> JsonObject:
    return {
        "reason": parked.reason,
        "initiator": parked.initiator,
        "conditions": parked.conditions,
    }


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(open_private(path, linked_folders=True), "wb") as file:
        file.write(data)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > _LARGEST:
            raise ConfigError(f"{path} is too large for a snapshot")
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error

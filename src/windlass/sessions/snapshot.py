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
from windlass.store.base import Store
from windlass.store.open import Address
from windlass.store.wishes import Transaction

FORMAT: Final = "windlass-worker-1"
FOLDER: Final = Path(".windlass") / "workers"
_LARGEST: Final = 256_000_000


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot file."""

    format: str
    session_id: str
    saved_at: float
    status: str | None
    suspension: JsonObject | None
    entries: msgspec.Raw


async def save_snapshot(
    session: str | SuspendedRun,
    path: str | os.PathLike[str] | None = None,
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> Path:
    """Write a session to a file; return its path, `.windlass/workers/worker_….json` by default.

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
    entries = codec.decode(bytes(document.entries), session_id, 0)
    opened = entries[0] if entries else None
    if not isinstance(opened, SessionOpened):
        raise ConfigError(f"{safe_repr(name)} holds no session")
    try:
        known = await home.info(session_id)
    except NoSuchSession:
        pass
    else:
        # One with nothing else in it was killed between its opening and its entries.
        if known.entries > 1 or known.metadata != (opened.metadata or {}):
            return session_id
    journal = await home.open(session_id, metadata=opened.metadata)
    try:
        if len(journal.entries) == 1:
            body = _build_arming(session_id, document, entries)
            await journal.commit(body, lambda _: entries[1:])
    finally:
        await journal.close()
    return session_id


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

"""What is known of a session in memory without its rows: its opening, holder, tenant and status."""

from __future__ import annotations

from typing import Protocol

from windlass.errors import SessionHeld
from windlass.events import JournalEntry, RunStarted, SessionOpened
from windlass.store import codec as written
from windlass.store import holder as holders
from windlass.store.base import SessionInfo


class MemorySession(Protocol):
    """A session in memory, as far as its description needs it."""

    session_id: str
    entries: list[JournalEntry]
    since: float
    caller: str | None

    @property
    def held(self) -> bool:
        """Whether it has a writer."""
        ...

    @property
    def size(self) -> int:
        """How many entries are in closed rows."""
        ...

    @property
    def touched(self) -> float:
        """When the last row was closed."""
        ...

    def row_ends(self) -> list[tuple[int, float]]:
        """Return the end of each row, and when it was closed."""
        ...


def build_held_error(session: MemorySession) -> SessionHeld:
    """Build the error for a session that has a writer."""
    holder = _read_holder(session)
    assert holder is not None
    return holders.session_held_error(session.session_id, holder, session.touched)


def _read_holder(session: MemorySession) -> holders.Holder | None:
    if not session.held:
        return None
    return holders.new_holder("", session.caller, session.since)


def read_opening(session: MemorySession) -> SessionOpened:
    """Return the entry that opened the session."""
    opened = session.entries[0]
    assert isinstance(opened, SessionOpened)
    return opened


def read_tenant(session: MemorySession) -> str:
    """Return the tenant of the last run."""
    runs = [entry for entry in session.entries if type(entry) is RunStarted]
    return runs[-1].tenant or "" if runs else ""


def build_info(session: MemorySession, child_ids: tuple[str, ...]) -> SessionInfo:
    """Describe the session."""
    opened, ends = read_opening(session), session.row_ends()
    notes = written.notes_of(session.entries)
    return SessionInfo(
        id=session.session_id,
        created_at=ends[0][1],
        updated_at=session.touched,
        entries=session.size,
        parent_id=opened.parent_id,
        root_id=opened.root_id or session.session_id,
        branch_at=opened.branch_at,
        child_ids=child_ids,
        status=notes.status,
        title=notes.title,
        metadata=dict(opened.metadata or {}),
        holder=_read_holder(session),
        alive=session.held,
    )

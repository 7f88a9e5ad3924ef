"""The writer of a session, and whether its process is still alive.

On one machine the kernel is asked: a process is told by its id, its start and the boot. Elsewhere
the last sign of life counts that its store has left in the database.
"""

from __future__ import annotations

import functools
import itertools
import os
import socket
from pathlib import Path
from typing import Any

import msgspec

from windlass import seams
from windlass.errors import SessionHeld

BEAT_SECONDS = 10.0  # seconds between heartbeats of a store that holds sessions
DEAD_SECONDS = 30.0  # after which a process on another machine is taken for dead


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """The writer of a session: `info.holder.host`, `.pid`, `.caller` and `.since`."""

    host: str
    pid: int
    since: float  # when it became the writer
    caller: str | None = None
    store: str = ""  # names the store object through which it writes
    boot: str = ""
    started: int = 0  # in ticks of the kernel since the boot
    space: str = ""  # in which the pid counts
    opening: int = 0  # distinguishes the openings of one store

    def __str__(self) -> str:
        owner = f" for {self.caller}" if self.caller else ""
        return f"process {self.pid} on {self.host}{owner}"


class _Process(msgspec.Struct, frozen=True):
    host: str
    pid: int
    boot: str
    started: int
    space: str


_openings = itertools.count(1)


def new_holder(store: str, caller: str | None, now: float) -> Holder:
    """Return this process as a holder."""
    me = _process(os.getpid())
    return Holder(
        me.host, me.pid, now, caller, store, me.boot, me.started, me.space, next(_openings)
    )


def encode(holder: Holder) -> str:
    """Encode a holder for the store."""
    return msgspec.json.encode(holder).decode()


def decode(text: Any) -> Holder | None:
    """Decode a stored holder; None for anything invalid."""
    try:
        return None if text is None else msgspec.json.decode(text, type=Holder)
    except (msgspec.DecodeError, TypeError):
        return None


def is_own_process(holder: Holder) -> bool:
    """Check whether the holder is a store of this process."""
    own = _process(os.getpid())
    return (holder.pid, holder.host, holder.boot, holder.started, holder.space) == (
        own.pid,
        own.host,
        own.boot,
        own.started,
        own.space,
    )


def process_lives(holder: Holder) -> bool | None:
    """Check whether the process is alive; None where this machine cannot know."""
    own = _process(os.getpid())
    if (holder.host, holder.space) != (own.host, own.space):
        return None
    if holder.boot != own.boot:
        return False  # the machine has been started again since
    if holder.started:
        return _start_time(holder.pid) == holder.started
    if os.name == "nt":  # a signal of 0 would end it
        return None
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def lives(holder: Holder, silent: float | None) -> bool:
    """Check whether the holder is alive; `silent` is the seconds since its last heartbeat."""
    found = process_lives(holder)
    if found is None:
        return silent is not None and silent < DEAD_SECONDS
    return found


def lost_seconds(idle: float, silent: float | None) -> float:
    """Bound how long a writer lived after its last row: it died before a heartbeat was due.

    `idle` is the seconds since that row, `silent` those since the last heartbeat.
    """
    seen = 0.0 if silent is None else max(0.0, idle - silent)
    return max(0.0, min(idle, seen + BEAT_SECONDS))


def session_held_error(session_id: str, holder: Holder, last_active: float) -> SessionHeld:
    """Build the error for opening a session that another writer holds."""
    ago = max(0.0, seams.now() - last_active)
    where = "this process" if is_own_process(holder) else str(holder)
    error = SessionHeld(
        f"session {session_id!r} has a writer already: a run is under way on it in {where}, last "
        f"active {ago:.0f} s ago. Wait for its end, use another session_id, or pass take_over=True",
        holder=holder,
        last_active=last_active,
    )
    error.session_id = session_id
    return error


@functools.lru_cache(maxsize=1)
def _process(pid: int) -> _Process:
    boot = _text("/proc/sys/kernel/random/boot_id")
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return _Process(socket.gethostname(), pid, boot, _start_time(pid), space)


def _start_time(pid: int) -> int:
    """Return the start of a process in ticks since boot; 0 if it is gone or unknown."""
    stat = _text(f"/proc/{pid}/stat")
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return 0
    return int(fields[19])


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""

"""What a handle of a daemon is for: give it events, look at it, and stop it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.daemons.handle import DaemonRef, FoundDaemon, find_daemon
from windlass.errors import ConfigError, DaemonError, SessionHeld, safe_repr
from windlass.events import JournalEntry, Noted, RunEnded, RunResumed, RunStarted
from windlass.json_types import JsonObject, as_object
from windlass.loop.plan import as_journaled
from windlass.options.checks import number
from windlass.policies.daemon.queue import DaemonState, read_state
from windlass.policies.daemon.snapshot import list_events
from windlass.records import Record
from windlass.store.daemon_events import STOP, NumberTaken
from windlass.store.open import Address

_PATIENCE: Final = 5.0  # seconds that a turn has to end before a daemon is stopped in it
_LOOK: Final = 0.05  # seconds between two looks at a daemon of another process


class DaemonSnapshot(Record, frozen=True, kw_only=True):
    """A daemon as it is in the store: `(await w.daemon_snapshot(daemon)).pending_event_count`."""

    name: str
    session_id: str
    status: str
    """`active`, `idle`, `stopped`, `interrupted` (its process died), or how its last run ended."""
    pending_event_count: int
    """Events that wait; those of a daemon that does not run include the one it was working on."""
    pending_events: list[JsonObject]
    in_flight: JsonObject | None
    """The event that a running daemon works on."""
    last_event: int
    """The number of the latest event."""
    persist_path: str | None


async def daemon_trigger(
    daemon: DaemonRef,
    event: Mapping[str, Any],
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> int:
    """Give a daemon an event, from any process; return its number when it is stored.

    ```python
    await w.daemon_trigger("reviewer", {"kind": "file_changed", "path": "src/lib.rs"})
    ```
    The model hears it as a user message when the daemon is idle, one event at a time, in order. Raises
    `DaemonQueueFull` if too many wait, and `DaemonStopped` if the daemon was stopped or has ended.
    """
    if not isinstance(cast("object", event), Mapping):
        raise ConfigError(f"an event is a dict with a kind, not {safe_repr(event)}")
    kind: object = event.get("kind")
    if not isinstance(kind, str) or not kind.strip():
        raise ConfigError(f"an event has a kind, which is a text, not {safe_repr(kind)}")
    found = await find_daemon(daemon, store, caller)
    kept = as_journaled(found.scope.environment.redact(dict(event)), "an event")
    number = 0
    while True:
        try:
            await found.home.post(found.key, "event", {"number": number, "event": kept})
            return number
        except NumberTaken as taken:
            number = taken.expected


async def daemon_snapshot(
    daemon: DaemonRef, *, store: Address | None = None, caller: Caller | None = None
) -> DaemonSnapshot:
    """Describe a daemon as it is in the store now, also one of another process.

    ```python
    snap = await w.daemon_snapshot(daemon)
    print(snap.status, snap.pending_event_count)
    ```
    """
    return await _describe(await find_daemon(daemon, store, caller))


async def daemon_stop(
    daemon: DaemonRef,
    *,
    timeout: float = _PATIENCE,
    store: Address | None = None,
    caller: Caller | None = None,
) -> DaemonSnapshot:
    """Stop a daemon and return how it stands; `daemon_resume` goes on with it.

    A turn under way has `timeout` seconds to end; then it is interrupted, if the daemon runs in this
    process, else `DaemonError` is raised. Events stay in the queue; the one that was being worked on
    is the first of them.
    """
    number(0)("timeout", timeout)
    found = await find_daemon(daemon, store, caller)
    if await _is_alive(found):
        payload = {"reason": STOP, "initiator": "operator"}
        await found.home.post(found.key, "suspend", payload)
        await _wait_until_parked(found, timeout)
    await _mark_stopped(found)
    return await _describe(found)


async def _wait_until_parked(found: FoundDaemon, timeout: float) -> None:
    """Wait for the end of the run; interrupt it if it is ours and takes too long."""
    running = found.running
    if running is not None:
        done, _ = await asyncio.wait({running.task}, timeout=timeout)
        if not done:
            running.park()
            await asyncio.wait({running.task})
        return
    until = seams.monotonic() + timeout
    while await _is_alive(found):
        if seams.monotonic() >= until:
            raise DaemonError(f"daemon {found.name!r} stops when its turn ends: ask again later")
        await seams.sleep(_LOOK)


async def _mark_stopped(found: FoundDaemon) -> None:
    """Put on record that the daemon is stopped, where its run does not say so."""
    if _status_of(await found.read()) == "stopped":
        return
    try:
        journal = await found.home.open(found.key, create=False)
    except SessionHeld as error:
        raise DaemonError(f"daemon {found.name!r} is running again: {error}") from error
    try:
        queue = msgspec.to_builtins(read_state(journal.entries).to_note())
        journal.append(Noted(STOP, {"queue": queue}))
    finally:
        await journal.close()


async def _is_alive(found: FoundDaemon) -> bool:
    running = found.running
    if running is not None:
        return not running.task.done()
    return (await found.home.info(found.key)).alive


async def _describe(found: FoundDaemon) -> DaemonSnapshot:
    alive = await _is_alive(found)
    # the inbox first: what is taken meanwhile is then in both, and never in none
    inbox, entries = await found.home.inbox(found.key), await found.read()
    state = read_state(entries)
    waiting, in_flight = list_events(state, inbox), None
    if alive:
        status = "active" if state.idle is None else "idle"
        in_flight = state.in_flight
        waiting = [one for one in waiting if in_flight is None or one.number != in_flight.number]
    else:
        status = _status_of(entries)
    return DaemonSnapshot(
        name=found.name,
        session_id=found.session_id,
        status=status,
        pending_event_count=len(waiting),
        pending_events=[msgspec.to_builtins(one) for one in waiting],
        in_flight=None if in_flight is None else msgspec.to_builtins(in_flight),
        last_event=max([state.last, *(one.number for one in waiting)]),
        persist_path=_persist_path(state),
    )


def _persist_path(state: DaemonState) -> str | None:
    path = as_object((state.definition or {}).get("options")).get("persist_path")
    return path if isinstance(path, str) else None


def _status_of(entries: list[JournalEntry]) -> str:
    """Return how a daemon stands that does not run."""
    for entry in reversed(entries):
        if type(entry) is Noted and entry.name == STOP:
            return "stopped"
        if type(entry) is RunEnded:
            return "stopped" if entry.stop_reason == STOP else entry.status
        if type(entry) in (RunStarted, RunResumed):
            return "interrupted"
    return "interrupted"

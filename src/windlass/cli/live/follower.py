"""The follower of a session: it looks at the store now and then, and shows what has changed.

It only reads, in a process of its own. The sessions below, of sub-agents and of the steps of a workflow, are looked
at too: they grow while the journal of the session itself does not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import click

from windlass import seams
from windlass.cli.console import err
from windlass.cli.session_run import hear_signals
from windlass.cli.store_location import Place, find_place, match
from windlass.cli.text import clean
from windlass.errors import Corrupt, NoSuchSession, StoreError

if TYPE_CHECKING:
    from windlass.store.base import SessionInfo, Store

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

POLL_SECONDS: Final = 0.5
#: Between two looks at the store there is this many times what a look takes, so that a long session is no load.
REST: Final = 10
PATIENCE: Final = 60.0  # seconds that a store may be out of reach
DEPTH: Final = 4  # of sessions below sessions

_State: TypeAlias = "dict[str, tuple[int, str | None, bool]]"


class Display(Protocol[T_contra]):
    """Where a session is shown while it is followed."""

    def __enter__(self) -> object: ...

    def __exit__(self, *error: object) -> None: ...

    def show(self, seen: T_contra, *, changed: bool) -> None:
        """Show the session; `changed` says whether it has grown since the last time."""
        ...

    def report(self, trouble: str) -> None:
        """Say why nothing new can be shown now."""
        ...

    def finish(self, seen: T_contra) -> None:
        """Show the session for the last time, after the block of the display."""
        ...

    def abandon(self, seen: T_contra) -> None:
        """Leave what was shown in good order, because of an error."""
        ...


class _Look(NamedTuple, Generic[T]):
    """One look at a session: what was read of it, and how its run has ended."""

    seen: T
    changed: bool
    ending: str | None


class SessionFollower(Generic[T]):
    """One session that is followed, and what was read of it last."""

    def __init__(
        self, place: Place, wanted: str, read: Callable[[Store, str], Awaitable[T]]
    ) -> None:
        self.place, self.session_id, self.seen = place, wanted, None
        self._wanted, self._read = wanted, read
        self._store: Store | None = None
        self._file: tuple[int, int] | None = None
        self._state: _State | None = None
        self._gone = False
        self._failing_since: float | None = None
        self._is_found = False

    seen: T | None

    async def follow(self, display: Display[T]) -> str:
        """Show the session until its run has ended, parked or died; return words for that."""
        try:
            while True:
                began = seams.monotonic()
                try:
                    look = await self._look()
                    self._failing_since = None
                except (NoSuchSession, Corrupt):
                    raise
                except (StoreError, OSError) as error:
                    look = None
                    await self._bear(error, display)
                if look is not None:
                    display.show(look.seen, changed=look.changed)
                    if look.ending is not None:
                        return look.ending
                took = seams.monotonic() - began
                await seams.sleep(max(POLL_SECONDS, REST * took))
        finally:
            await self._close()

    async def _look(self) -> _Look[T]:
        """Read what is new, and how the run has ended, if it has."""
        store = await self._open()
        if not self._is_found:
            self.session_id = await match(store, self._wanted)
            self._is_found = True
        info = await store.info(self.session_id)
        state: _State = {}
        await self._read_state(store, info, state, DEPTH)
        seen, changed = self.seen, state != self._state
        if changed or seen is None:
            seen = self.seen = await self._read(store, self.session_id)
            self._state = state
        return _Look(seen, changed, self._find_ending(info, changed))

    def _find_ending(self, info: SessionInfo, changed: bool) -> str | None:
        """Return words for the end of the last run; None while one is under way or to come."""
        if info.status is not None:
            return "parked" if info.status == "suspended" else f"ended: {info.status}"
        # A session between two writers looks dead for a moment: it counts when it stays so.
        was_gone, self._gone = self._gone, info.holder is not None and not info.alive
        if self._gone and was_gone and not changed:
            return "its process has gone, and no end is on record: resume the run to go on with it"
        return None

    async def _read_state(self, store: Store, info: SessionInfo, state: _State, depth: int) -> None:
        state[info.id] = (info.entries, info.status, info.alive)
        for child_id in info.child_ids if depth else ():
            try:
                child = await store.info(child_id)
            except NoSuchSession:
                continue  # deleted since
            if child.branch_at is None:  # a fork does not work for the session
                await self._read_state(store, child, state, depth - 1)

    async def _open(self) -> Store:
        """Open the store, and open it anew if another file has taken the place of its file."""
        file = self._stat()
        if self._store is not None and file != self._file:
            await self._close()
        if self._store is None:
            self._store, self._file = self.place.open(read_only=True), file
        return self._store

    def _stat(self) -> tuple[int, int] | None:
        if self.place.file is None:
            return None
        try:
            status = os.stat(self.place.file)
        except FileNotFoundError:
            raise StoreError(f"{self.place.shown}: it is not there") from None
        return status.st_dev, status.st_ino

    async def _bear(self, error: StoreError | OSError, display: Display[T]) -> None:
        """Say what is wrong, and raise it after a while; the next look opens the store anew."""
        if self.seen is None:
            raise error
        now = seams.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since > PATIENCE:
            raise error
        display.report(clean(f"{error}; trying again"))
        await self._close()

    async def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            try:
                await store.aclose()
            except (StoreError, OSError):
                pass  # it is away


def follow_session(
    store: str | None,
    wanted: str,
    read: Callable[[Store, str], Awaitable[T]],
    display: Display[T],
) -> None:
    """Follow a session on a display; exit with 128 + n after a signal."""
    place = find_place(store)
    if not place.exists:
        raise NoSuchSession(f"no session {wanted!r}: nothing is kept in {place.shown}")
    follower = SessionFollower(place, wanted, read)
    stopped: list[int] = []
    ending = "no longer followed; the run goes on"
    try:
        with display:
            ending = asyncio.run(_until_signal(follower, display, stopped)) or ending
    except BaseException:
        if follower.seen is not None:
            display.abandon(follower.seen)
        raise
    if follower.seen is not None:
        display.finish(follower.seen)
    err().line((clean(f"{follower.session_id}: {ending}"), "bold"))
    if stopped:
        raise click.exceptions.Exit(128 + stopped[0])


async def _until_signal(
    follower: SessionFollower[T], display: Display[T], stopped: list[int]
) -> str | None:
    task = asyncio.ensure_future(follower.follow(display))

    def stop(number: int) -> None:
        stopped.append(number)
        task.cancel()

    with hear_signals(stop):
        try:
            return await task
        except asyncio.CancelledError:
            if not stopped:
                raise
            return None

"""The seam to engines: what carries wake-ups to workers, and may deliver them twice, late or never."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from windlass.store.base import Store
from windlass.store.wishes import Transaction, Wish


class SeenWish(NamedTuple):
    """The wish of a session as an engine has just read it, and the number of entries: 0 if unknown."""

    wish: Wish | None
    entries: int


class Drive(Protocol):
    """What drives a session. An engine that has read its wish hands it on, or else it is read."""

    def __call__(self, session: str, seen: SeenWish | None = None, /) -> Awaitable[None]:
        """Drive a session until it wants nothing more now."""
        ...


#: Fires what is due of triggers; returns when to look again, or None.
Sweep: TypeAlias = Callable[[Store, float], Awaitable[float | None]]


class Held(msgspec.Struct, frozen=True):
    """A session that an engine has given to a worker."""

    session: str
    worker: str | None
    since: float | None


class Fleet(Protocol):
    """An engine. What a session does is not its business: the store says who wants to run.

    There is no lock, no lease and no retry in this protocol: whoever drives reads the wish of the
    session first, and the journal refuses a writer that was replaced.
    """

    name: str
    exclusive: bool  # only one process drives at a time, so that one before it has ended

    async def prepare(self) -> None:
        """Create what the engine needs in the database, before the first wake-up."""
        ...

    async def wake(
        self, session: str, *, queue: str, priority: int = 0, at: float | None = None
    ) -> None:
        """Have a session driven by a worker that serves the queue, now or at a time."""
        ...

    def wake_within(self, tx: Transaction, session: str, *, queue: str, priority: int = 0) -> bool:
        """Wake with the commit of the transaction that raises the wish; False if it cannot."""
        ...

    async def serve(self, drive: Drive, *, queues: Sequence[str], slots: int) -> None:
        """Drive sessions of these queues, at most `slots` at once, until `stop`.

        `queues` is looked at again and again: it may grow.
        """
        ...

    async def stop(self, grace: float) -> None:
        """Take no new sessions, and wait up to `grace` seconds for those under way to park."""
        ...

    async def held(self) -> list[Held]:
        """List what workers hold now."""
        ...

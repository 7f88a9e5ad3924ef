"""The seam to sessions that are more than runs of an agent, such as those of `spawn_agent`.

A fleet hands their wishes on to what was registered for them, and does not know what they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from windlass.errors import SessionHeld, WindlassError
from windlass.store.base import Store
from windlass.store.wishes import Wish


class NotHere(WindlassError):
    """A session cannot be driven by this process, and perhaps by another: it is asked again later.

    It is no failure of the session, and does not count as a try.
    """

    def __init__(self, message: str, seconds: float = 30.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class SessionDriver(Protocol):
    """What drives sessions of its own kind; it settles their wishes itself."""

    @property
    def name(self) -> str | None:
        """Its name; with its version, that of its queue."""
        ...

    @property
    def version(self) -> str:
        """Its version."""
        ...

    async def drive_session(
        self,
        wish: Wish,
        store: Store,
        may_take_over: Callable[[SessionHeld], Awaitable[bool]],
    ) -> bool:
        """Drive the session until it ends or parks; True if it wants more at once.

        Raises `SessionHeld` if somebody else drives it, `NotHere` if this process cannot.
        """
        ...

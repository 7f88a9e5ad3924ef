"""News from the store's own event loop to those that journals live on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from windlass.store.writer import Told, hear


class News:
    """What is told in one step is heard in one step: nobody acts between two pieces of it."""

    def __init__(self) -> None:
        self.home: asyncio.AbstractEventLoop | None = None  # where the news come from
        self._told: dict[asyncio.AbstractEventLoop, list[Told]] = {}

    def tell(self, loop: asyncio.AbstractEventLoop, what: Callable[..., None], *args: Any) -> None:
        """Have it called on that loop, soon."""
        first = not self._told
        self._told.setdefault(loop, []).append((what, args))
        if not first:
            return
        try:
            assert self.home is not None
            self.home.call_soon(self.say)
        except RuntimeError:  # the thread has ended
            self.say()

    def say(self) -> None:
        """Now."""
        told, self._told = self._told, {}
        for loop, news in told.items():
            try:
                loop.call_soon_threadsafe(hear, news)
            except RuntimeError:  # the loop is closed; nobody waits there any more
                pass

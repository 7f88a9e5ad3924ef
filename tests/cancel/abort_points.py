"""A brake that is pulled from inside a run: at a callback, or at any step of a task."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Literal

import windlass as w

SESSION = "s"
REASON = "from inside"
How = Literal["abort", "cancel"]

#: The step of the sweeps. `make check-stories` takes each third place on the other Pythons.
EVERY = int(os.environ.get("WINDLASS_CANCEL_EVERY") or 1)


class Brake:
    """Stops the run at the place with the number `at`; the places passed are in `places`.

    `abort` pulls an `Abort`; `cancel` calls `cancel_run`, which posts to the session's inbox.
    """

    def __init__(self, how: How, at: int | None = None) -> None:
        self.how, self.at = how, at
        self.abort = w.Abort()
        self.places: list[str] = []
        self.pulled = False
        self.cancel_run: Callable[[], Coroutine[Any, Any, Any]] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self._posts: list[Any] = []

    def pass_by(self, place: str) -> None:
        """Pass a synchronous place, in any thread."""
        if self._is_due(place):
            if self.how == "abort":
                self.abort.abort(REASON)
            elif threading.current_thread() is threading.main_thread():
                self._posts.append(asyncio.ensure_future(self._cancel()))
            else:
                assert self.loop is not None
                self._posts.append(asyncio.run_coroutine_threadsafe(self._cancel(), self.loop))

    async def pass_in(self, place: str) -> None:
        """Pass an asynchronous place: a cancel is posted before it goes on."""
        if self._is_due(place):
            if self.how == "abort":
                self.abort.abort(REASON)
            else:
                await self._cancel()

    async def settled(self) -> None:
        """Wait until what was posted has arrived."""
        for post in self._posts:
            await (post if asyncio.isfuture(post) else asyncio.wrap_future(post))

    async def _cancel(self) -> None:
        assert self.cancel_run is not None
        await self.cancel_run()

    def _is_due(self, place: str) -> bool:
        self.places.append(place)
        due = len(self.places) - 1 == self.at
        self.pulled = self.pulled or due
        return due


class Stepped(Coroutine[Any, Any, Any]):
    """A task's coroutine that passes by the brake at the beginning and at the end of every step."""

    def __init__(self, inner: Coroutine[Any, Any, Any], brake: Brake) -> None:
        self.inner, self.brake = inner, brake
        self.name = getattr(inner, "__qualname__", repr(inner))

    def send(self, value: Any) -> Any:
        self.brake.pass_by(f"begins: {self.name}")
        try:
            return self.inner.send(value)
        finally:
            self.brake.pass_by(f"ends: {self.name}")

    def throw(self, *error: Any) -> Any:
        self.brake.pass_by(f"begins, cancelled: {self.name}")
        try:
            return self.inner.throw(*error)
        finally:
            self.brake.pass_by(f"ends, cancelled: {self.name}")

    def close(self) -> None:
        self.inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError


def step_by_step(brake: Brake) -> Callable[..., asyncio.Task[Any]]:
    """Build a task factory: every step of its tasks passes by the brake."""

    def make(loop: asyncio.AbstractEventLoop, work: Any, **given: Any) -> asyncio.Task[Any]:
        return asyncio.Task(Stepped(work, brake), loop=loop, **given)

    return make

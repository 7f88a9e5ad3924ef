"""A run in a thread of its own, which goes a step further each time that a follower waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from windlass import seams

PATIENCE = 60  # seconds; only what is broken makes a test wait for it


class BackgroundRun:
    """A run whose steps wait at a gate: `await run.gate()` in a step, `run.advance()` in the test."""

    def __init__(self) -> None:
        self._go, self._arrived = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self.result: Any = None
        self.slept: list[float] = []

    def start(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Begin, and return when the first gate is reached, or the end."""

        def inside() -> None:
            try:
                self.result = asyncio.run(self._run(work))
            except BaseException as error:
                self.result = error
            finally:
                self._thread = None
                self._arrived.release()

        self._thread = threading.Thread(target=inside, daemon=True)
        self._thread.start()
        self._wait()

    async def _run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        return await work()

    async def gate(self) -> None:
        """Wait until the test lets the run go on."""
        self._arrived.release()
        await asyncio.to_thread(self._go.acquire, timeout=PATIENCE)

    def advance(self) -> None:
        """Let it go on to the next gate, or to its end."""
        assert self._thread is not None, "the follower waits for a run that is over"
        self._go.release()
        self._wait()

    def finish(self) -> None:
        """Let it go on to its end."""
        while self._thread is not None:
            self.advance()

    def _wait(self) -> None:
        assert self._arrived.acquire(timeout=PATIENCE), "the run does not go on"

    def advance_at_each_wait(
        self, monkeypatch: pytest.MonkeyPatch, *then: Callable[[], object]
    ) -> None:
        """Let each wait of the follower take no time; the run, or what is given, goes on instead."""
        tasks, main, real = list(then), threading.current_thread(), seams.sleep

        async def sleep(seconds: float) -> None:
            if threading.current_thread() is not main:
                await real(seconds)
                return
            self.slept.append(seconds)
            assert len(self.slept) < 200, "the follower does not end"
            await asyncio.to_thread(tasks.pop(0) if tasks else self.advance)

        monkeypatch.setattr(seams, "sleep", sleep)

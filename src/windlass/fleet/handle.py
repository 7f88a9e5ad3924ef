"""Handles of submitted runs: wait, watch, steer and cancel, from any process with the same store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Literal, TypeAlias, cast

from windlass import seams
from windlass.agents.agent import Agent
from windlass.engine.environment import Environment
from windlass.engine.results import AgentResult, RunResult
from windlass.errors import ConfigError, SessionHeld, safe_repr
from windlass.events import JournalEntry
from windlass.fleet.record import cut_run, end_without_run, find_end, read_result
from windlass.fleet.request import from_stored
from windlass.loop.resume import standing
from windlass.store.base import Store
from windlass.store.threaded.store import ServedStore
from windlass.store.wishes import Wish, read_wish

FIRST_LOOK: Final = 0.02  # seconds until a waiting handle looks again; then longer and longer
LONGEST_LOOK: Final = 0.5
MOST_TOLD: Final = 1000  # sessions that are known to have changed

#: How far a submitted run is: `queued`, `running`, `parked`, or the status that it ended with.
RunState: TypeAlias = str
_UNDER_WAY: Final = ("queued", "running", "parked")


class Waiter:
    """Somebody who waits for a session, and the result of a run that has ended here meanwhile."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.result: RunResult | None = None


class Changes:
    """Sessions that this process drives: whoever waits for one is told when it has changed."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[Waiter]] = {}
        self._told: dict[str, None] = {}  # the latest

    def tell(self, session: str) -> None:
        """Wake those who wait for a session."""
        self._told[session] = None
        if len(self._told) > MOST_TOLD:
            del self._told[next(iter(self._told))]
        for waiter in self._waiting.get(session, ()):
            waiter.told.set()

    def offer(self, session: str, result: RunResult) -> None:
        """Hand the result of a run that has ended, and is on record, to those who wait for it."""
        for waiter in self._waiting.get(session, ()):
            waiter.result = result

    def has_told(self, session: str) -> bool:
        """Check whether the session has changed here lately."""
        return session in self._told

    async def wait(self, session: str, seconds: float) -> Waiter:
        """Wait until the session has changed here, or the time is over; say which."""
        waiter = Waiter()
        waiting = self._waiting.setdefault(session, set())
        waiting.add(waiter)
        try:
            async with asyncio.timeout(seconds):  # `wait_for` may lose a cancellation
                await waiter.told.wait()
        except TimeoutError:
            pass
        finally:
            waiting.discard(waiter)
            if not waiting:
                self._waiting.pop(session, None)
        return waiter


class RunHandle:
    """A submitted run: `handle = await runtime.submit(agent, "…")`.

    It holds nothing but names, so a handle can be made anywhere: `runtime.handle(session_id)`.
    """

    def __init__(
        self,
        environment: Environment,
        store: Store,
        changes: Changes,
        session_id: str,
        *,
        request_id: str | None = None,
        agent: Agent[Any, Any] | None = None,
        wake: Callable[[], None] | None = None,
        is_new: bool = False,
    ) -> None:
        self._environment, self._store, self._changes = environment, store, changes
        self._agent, self._wake = agent, wake
        self._known = 1 if is_new else -1  # the length of a journal that need not be read
        self.session_id = session_id
        self.request_id = request_id

    def __repr__(self) -> str:
        return f"<RunHandle {self.session_id}>"

    async def status(self) -> RunState:
        """Return `queued`, `running`, `parked`, or the status that the run ended with."""
        return _read_state(await self._entries(), self.request_id, await self._wish())

    async def result(self, *, timeout: float | None = None) -> AgentResult[Any]:
        """Wait until the run has ended, anywhere, and return its result.

        A run that is parked is waited for: somebody may answer. Raises `TimeoutError` after
        `timeout` seconds; the run goes on. Raises `NoSuchSession` if the session is deleted.
        """
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"timeout is a number of seconds, not {safe_repr(timeout)}")
        until = None if timeout is None else seams.monotonic() + timeout
        pause, size = FIRST_LOOK, self._known
        # It was just submitted: what is driven here is told, and it is waited for before a look.
        is_new = size == 1 and timeout != 0 and not self._changes.has_told(self.session_id)
        told = False
        while True:
            if is_new:
                is_new = False
            elif (now := await self._measure()) != size or told:
                size, found = now, await self._entries()
                entries = cut_run(found, self.request_id)
                if entries is not None and find_end(entries) is not None:
                    return await read_result(self._environment, self._store, self._agent, entries)
                pause = FIRST_LOOK
            if until is not None and seams.monotonic() >= until:
                raise TimeoutError(f"the run of session {self.session_id!r} has not ended yet")
            left = pause if until is None else min(pause, max(0.001, until - seams.monotonic()))
            waiter = await self._changes.wait(self.session_id, left)
            told = waiter.told.is_set()
            if told and (known := self._find_own(waiter.result)) is not None:
                return known
            pause = min(2 * pause, LONGEST_LOOK)

    def _find_own(self, result: RunResult | None) -> AgentResult[Any] | None:
        """Return the result of a run that has ended here, if it is the one of this handle."""
        if not isinstance(result, AgentResult) or self.request_id is None:
            return None
        if result.request_id != self.request_id or (self._agent is None and result.has_output_type):
            return None
        return cast("AgentResult[Any]", result)

    async def events(self) -> AsyncIterator[JournalEntry]:
        """Yield the entries of the run's journal from its beginning, until it has ended."""
        seen, pause = 0, FIRST_LOOK
        while True:
            entries = cut_run(await self._entries(), self.request_id)
            if entries is not None:
                first = standing(entries).first_entry
                fresh = entries[max(seen, first) :]
                seen = len(entries)
                for entry in fresh:
                    yield entry
                if find_end(entries) is not None:
                    return
                if fresh:
                    pause = FIRST_LOOK
            await self._changes.wait(self.session_id, pause)
            pause = min(2 * pause, LONGEST_LOOK)

    async def steer(self, text: str) -> None:
        """Say something to the run: the model hears it before its next request."""
        await self._post("steer", text)

    async def follow_up(self, text: str) -> None:
        """Say something that the model hears when it would have stopped."""
        await self._post("follow_up", text)

    async def cancel(self, reason: str = "cancelled") -> None:
        """End the run as `cancelled`: at once if it waits, else as soon as it takes notice.

        A run that has ended stays as it is.
        """
        if not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"a reason is a text, not {safe_repr(reason)}")
        wish, entries = await self._wish(), await self._entries()
        if _read_state(entries, self.request_id, wish) not in _UNDER_WAY:
            return
        request_id, caller = self.request_id, None
        for stored in () if wish is None else wish.requests:
            request = from_stored(stored)
            if request_id in (None, request.id):
                request_id, caller = request.id, request.caller
                break
        try:
            await end_without_run(
                self._store,
                self.session_id,
                number=None if wish is None else wish.number,
                request_id=request_id,
                caller=caller,
                ending=("cancelled", self._environment.redact(reason), None),
            )
        except SessionHeld:  # somebody drives it, and hears
            await self._store.post(self.session_id, "cancel", self._environment.redact(reason))
        self._changes.tell(self.session_id)

    async def _post(self, kind: Literal["steer", "follow_up"], text: str) -> None:
        if not isinstance(text, str) or not text:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"a run is told a text, not {safe_repr(text)}")
        await self._store.post(self.session_id, kind, self._environment.redact(text))

    async def _measure(self) -> int:
        """Return how long the journal is, in rows or entries: it is read again when it has grown."""
        if isinstance(self._store, ServedStore):
            return (await self._store.head(self.session_id)).rows
        return (await self._store.info(self.session_id)).entries

    async def _entries(self) -> list[JournalEntry]:
        return await self._store.read(self.session_id)

    async def _wish(self) -> Wish | None:
        return await self._store.consult(lambda tx: read_wish(tx, self.session_id))


def _read_state(entries: list[JournalEntry], request_id: str | None, wish: Wish | None) -> RunState:
    own = cut_run(entries, request_id)
    ended = find_end(own)
    if ended is not None:
        return ended.status
    driven = wish is not None and wish.since is not None and wish.is_wanted
    if own is None:
        return "running" if driven else "queued"
    if standing(own).parked:
        return "parked"
    return "running" if driven else "queued"

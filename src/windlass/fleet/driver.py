"""Driving sessions: read the wish, run or resume, and clear the wish if it is still the one driven.

Driving twice is harmless: a cleared wish is not driven, and of two writers the journal refuses the
one that was replaced. Nothing here cancels a run, because that would end its session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from windlass import seams
from windlass.engine.environment import Environment
from windlass.engine.results import AgentResult
from windlass.errors import NoSuchSession, SessionHeld, StaleWriter, WindlassError, error_text
from windlass.events import JournalEntry, RunStarted, Suspended
from windlass.fleet.limits import FleetLimits, has_room
from windlass.fleet.record import end_without_run
from windlass.fleet.request import FleetAgent, Request, from_stored
from windlass.fleet.workers import is_lost
from windlass.loop.resume import Standing, standing
from windlass.store.base import Store
from windlass.store.wishes import (
    Transaction,
    Wish,
    begin_drive,
    clear_wish,
    end_request,
    park_wish,
    postpone_wish,
    read_wish,
    remove_wishes,
)

MAX_TRIES: Final = 5  # drives in a row that come to nothing, after which a session is given up
HELD_SECONDS: Final = 1.0  # until a session is looked at again that somebody else holds
LIMIT_SECONDS: Final = 1.0  # until a session is looked at again that a limit keeps waiting
DRAIN: Final = {"reason": "drain", "initiator": "fleet"}  # what parks a run of a worker that ends

log = logging.getLogger("windlass.fleet")


class Driver:
    """The driver of a worker: which sessions it drives now, and with which agents."""

    def __init__(
        self,
        environment: Environment,
        store: Store,
        agents: Mapping[str, FleetAgent],
        worker: str,
        limits: FleetLimits,
    ) -> None:
        self._environment, self._store, self._agents = environment, store, agents
        self._worker, self._limits = worker, limits
        self.active: set[str] = set()
        self.draining = False
        self.on_step: Callable[[str], None] | None = None  # a session has changed
        self._idle = asyncio.Event()
        self._idle.set()

    async def drive(self, session: str) -> None:
        """Drive a session until it wants nothing more now. Safe to call at any time, for any."""
        if session in self.active or self.draining:
            return
        self.active.add(session)
        self._idle.clear()
        try:
            with self._environment.as_current():
                while not self.draining and await self._step(session):
                    self._tell(session)
        finally:
            self.active.discard(session)
            if not self.active:
                self._idle.set()
            self._tell(session)

    async def drain(self) -> None:
        """Drive nothing new, and have what runs parked at the end of its turn, for others."""
        self.draining = True
        for session in list(self.active):
            try:
                await self._store.post(session, "suspend", DRAIN)
            except WindlassError as error:
                log.warning("session %s could not be told to park: %s", session, error_text(error))

    async def wait_until_idle(self) -> None:
        """Wait until nothing is driven."""
        await self._idle.wait()

    def _tell(self, session: str) -> None:
        if self.on_step is not None:
            self.on_step(session)

    # ----------------------------------------------------------------------- one step

    async def _step(self, session: str) -> bool:
        """Run or resume once; True if there is more to do at once."""
        wish = await self._store.consult(lambda tx: read_wish(tx, session))
        if wish is None or wish.due is None or wish.due > seams.now():
            return False
        agent = self._agents.get(wish.agent)
        if agent is None:  # another worker knows it
            return False
        try:
            entries = await self._store.read(session)
        except NoSuchSession:
            await self._store.commit(lambda tx: remove_wishes(tx, [session]))
            return False
        state = standing(entries)
        # A run that its process took with it is counted by its own journal, which knows progress.
        died = state.unfinished and wish.error is None
        tries = 1 if died else wish.tries + 1
        if tries > MAX_TRIES:
            await self._give_up(wish)
            return False
        if not await self._begin(wish, tries):
            return not self.draining
        seams.point("fleet.after_begin")
        try:
            result = await self._run(agent, wish, state, entries)
        except SessionHeld as error:
            return await self._postpone(wish, HELD_SECONDS, error)
        except StaleWriter:
            log.info("session %s was taken over by another worker", session)
            return False
        except Exception as error:
            log.warning("session %s: %s", session, error_text(error), exc_info=True)
            return await self._postpone(wish, 2.0**tries, error)
        seams.point("fleet.before_settle")
        return await self._settle(wish, result)

    async def _begin(self, wish: Wish, tries: int) -> bool:
        """Put on record that it is driven; False if it must wait, or was raised meanwhile."""
        worker, limits = self._worker, self._limits

        def begin(tx: Transaction) -> bool | None:
            if not has_room(tx, wish, limits, worker):
                postpone_wish(tx, wish.session, wish.number, seams.now() + LIMIT_SECONDS, None)
                return None
            return begin_drive(tx, wish, worker, tries)

        return bool(await self._store.commit(begin))

    async def _run(
        self,
        agent: FleetAgent,
        wish: Wish,
        state: Standing,
        entries: list[JournalEntry],
    ) -> AgentResult[object] | None:
        """Run or resume; None if all that the wish asks for is done."""
        session, store = wish.session, self._store
        if state.unfinished:
            try:
                return await agent.resume(session, store=store, on_cancel="park")
            except SessionHeld as held:
                if not await is_lost(store, wish.worker, self._worker, held.holder):
                    raise
            return await agent.resume(session, store=store, on_cancel="park", take_over=True)
        request = _next_request(wish, entries)
        if request is None:
            return None
        return await agent.run(
            request.messages,
            session_id=session,
            store=store,
            caller=request.caller,
            request_id=request.id,
            on_cancel="park",
        )

    async def _settle(self, wish: Wish, result: AgentResult[object] | None) -> bool:
        """Clear the wish, unless there is more to do; True if so."""
        session, number = wish.session, wish.number
        if result is not None and result.status == "suspended":
            if _is_drained(result):
                if self.draining:
                    await self._store.commit(
                        lambda tx: postpone_wish(tx, session, number, seams.now())
                    )
                return True
            return not await self._store.commit(lambda tx: park_wish(tx, session, number))
        if result is not None and result.status == "cancelling":  # a tool takes no notice yet
            return await self._postpone(wish, HELD_SECONDS, None)
        done = [str(request.get("id")) for request in wish.requests]
        if result is not None:
            begun = next((e for e in result.entries if type(e) is RunStarted), None)
            done = [] if begun is None or begun.request_id is None else [begun.request_id]

        def settle(tx: Transaction) -> bool:
            left: Wish | None = wish
            for request_id in done:
                left = end_request(tx, session, request_id)
            if left is not None and left.requests and result is not None:
                return True
            return not clear_wish(tx, session, number)

        return await self._store.commit(settle)

    async def _postpone(self, wish: Wish, seconds: float, error: Exception | None) -> bool:
        why = None if error is None else self._environment.redact(error_text(error))
        due = seams.now() + seconds
        await self._store.commit(lambda tx: postpone_wish(tx, wish.session, wish.number, due, why))
        return False

    async def _give_up(self, wish: Wish) -> None:
        """End the session as failed: each try to drive it came to nothing."""
        request = from_stored(wish.requests[0]) if wish.requests else None
        message = f"it could not be driven in {MAX_TRIES} tries; the last error: {wish.error}"
        try:
            await end_without_run(
                self._store,
                wish.session,
                number=wish.number,
                request_id=None if request is None else request.id,
                caller=None if request is None else request.caller,
                ending=("failed", "poison", {"category": "poison", "message": message}),
            )
        except (SessionHeld, StaleWriter) as error:
            await self._postpone(wish, HELD_SECONDS, error)
        else:
            log.error("session %s is given up: %s", wish.session, message)


def _next_request(wish: Wish, entries: list[JournalEntry]) -> Request | None:
    """Return the first request of the wish that has no run on record."""
    known = {entry.request_id for entry in entries if type(entry) is RunStarted}
    for stored in wish.requests:
        try:
            request = from_stored(stored)
        except msgspec.ValidationError as error:
            raise WindlassError(
                f"a request of session {wish.session!r} is damaged: {error}"
            ) from error
        if request.id not in known:
            return request
    return None


def _is_drained(result: AgentResult[object]) -> bool:
    """Check whether a run was parked because its worker ends, or left by it."""
    if result.stop_reason == "detached":
        return True
    last = next((entry for entry in reversed(result.entries) if type(entry) is Suspended), None)
    return last is not None and last.initiator == DRAIN["initiator"]

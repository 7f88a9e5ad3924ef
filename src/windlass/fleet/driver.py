"""Driving sessions: read the wish, run or resume, and clear the wish if it is still the one driven.

Driving twice is harmless: a cleared wish is not driven, and of two writers the journal refuses the
one that was replaced. Nothing here cancels a run, because that would end its session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import msgspec

from windlass import seams
from windlass.agents.agent import Agent
from windlass.engine.active_runs import under_way
from windlass.engine.driver import keeps_waiting
from windlass.engine.environment import Environment
from windlass.engine.results import RunResult
from windlass.errors import (
    ConfigError,
    Corrupt,
    NoSuchSession,
    SessionHeld,
    StaleWriter,
    StoreError,
    WindlassError,
    WorkflowChanged,
    error_text,
)
from windlass.events import JournalEntry, RunStarted, Suspended
from windlass.fleet.allotments import TenantLedgers, park_until
from windlass.fleet.engine import SeenWish
from windlass.fleet.limits import NO_LIMITS, FleetLimits, has_room
from windlass.fleet.record import end_without_run
from windlass.fleet.request import FleetAgent, Request, from_stored, is_session_driver
from windlass.fleet.session_driver import NotHere, SessionDriver
from windlass.fleet.submit import read_model
from windlass.fleet.workers import drives_now, is_lost
from windlass.json_types import JsonObject
from windlass.loop.lifecycle import settlement
from windlass.loop.resume import Standing, standing
from windlass.store.base import Store
from windlass.store.body_sessions import read_wish_and_size, remove_stray_wish
from windlass.store.codec import LaterFormat
from windlass.store.outage import waits_on
from windlass.store.threaded.store import ServedStore
from windlass.store.transaction import on_snapshot, one_statement
from windlass.store.wishes import (
    Claim,
    ClaimRefused,
    Transaction,
    Wish,
    begin_drive,
    build_claim,
    clear_wish,
    keep_requests,
    park_wish,
    postpone_wish,
    read_wish,
)

MAX_TRIES: Final = 5  # drives in a row that come to nothing, after which a session is given up
SUSPECT_DEATHS: Final = 2  # after which a session is driven beside no other that died as often
SUSPECT_SECONDS: Final = 5.0  # that such a session lives before the next one begins
HELD_SECONDS: Final = 1.0  # until a session is looked at again that somebody else holds
OPENING_SECONDS: Final = 0.25  # and before that, for a driver that opens it at the same time
CHANGED_SECONDS: Final = 60.0  # and of a workflow whose code is another one here
UNREADABLE_SECONDS: Final = 60.0  # and whose journal cannot be read here
CHANGED: Final = "WorkflowChanged: "
LIMIT_SECONDS: Final = 1.0  # until a session is looked at again that a limit keeps waiting
DRAIN: Final = {"reason": "drain", "initiator": "fleet"}  # what parks a run of a worker that ends

log = logging.getLogger("windlass.fleet")
T = TypeVar("T")


class Driver:
    """The driver of a worker: which sessions it drives now, and with which agents."""

    def __init__(
        self,
        environment: Environment,
        store: Store,
        agents: Mapping[str, FleetAgent | SessionDriver],
        worker: str,
        limits: FleetLimits,
        *,
        exclusive: bool = True,
    ) -> None:
        self._environment, self._store, self._agents = environment, store, agents
        self._worker, self._limits = worker, limits
        self._exclusive = exclusive  # whoever drove before has ended
        self._ledgers: TenantLedgers | None = None
        if limits.shares:
            self._ledgers = TenantLedgers(store, worker, limits, environment.ledger)
        self._waits: dict[str, float] = {}  # until when sessions wait that a rate has parked
        self.active: set[str] = set()
        self.draining = False
        self.on_step: Callable[[str], None] | None = None  # a session has changed
        self.on_result: Callable[[str, RunResult], None] | None = None  # and is settled
        self.on_hand_over: Callable[[Wish], Awaitable[None]] | None = None  # others may drive it
        self._is_serving = lambda: not self.draining  # its runs wait for a store that is away
        self._suspects = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()

    def open(self) -> None:
        """Let the budgets and rates of tenants hold for the runs of this Runtime."""
        if self._ledgers is None:
            return
        known = self._environment.find_tenant_ledger
        if known is not None and known != self._ledgers.find:
            raise ConfigError(
                "this Runtime serves with budgets or rates of tenants already; give all limits to"
                " one worker, or use another Runtime"
            )
        self._environment.find_tenant_ledger = self._ledgers.find

    async def aclose(self) -> None:
        """Give back what is not used of the budgets and rates of tenants."""
        if self._ledgers is None:
            return
        if self._environment.find_tenant_ledger == self._ledgers.find:
            self._environment.find_tenant_ledger = None
        await self._ledgers.aclose()

    async def drive(self, session: str, seen: SeenWish | None = None) -> None:
        """Drive a session until it wants nothing more now. Safe to call at any time, for any.

        `seen` is its wish as it was a moment ago, which need not be read again: whatever is put on
        record asks whether it is still the same.
        """
        if session in self.active or self.draining:
            return
        self.active.add(session)
        self._idle.clear()
        kept, patient = keeps_waiting.set(True), waits_on.set(self._is_serving)
        try:
            with self._environment.as_current():
                while not self.draining and await self._step(session, seen):
                    seen = None
                    self._tell(session)
        finally:
            keeps_waiting.reset(kept)
            waits_on.reset(patient)
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

    async def _step(self, session: str, seen: SeenWish | None) -> bool:
        """Run or resume once; True if there is more to do at once."""
        wish, size = seen or await self._store.consult(
            one_statement(lambda tx: read_wish_and_size(tx, session))
        )
        if wish is None or wish.due is None or wish.due > self._store.read_clock():
            return False
        agent = self._agents.get(wish.agent)
        if agent is None:  # another worker knows it
            return False
        try:
            entries = [] if size == 1 else await self._store.read(session)
        except NoSuchSession:
            await self._store.commit(lambda tx: remove_stray_wish(tx, session))
            return False
        except StoreError as error:
            return await self._set_aside(wish, error)
        state = standing(entries)
        if not _is_suspect(wish, state):
            return await self._drive_once(agent, wish, state, entries)
        async with self._alone():
            if self.draining:
                return False
            return await self._drive_once(agent, wish, state, entries)

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """Keep other suspects waiting for a while: if this process dies again, one of them was it."""
        await self._suspects.acquire()
        released = False

        def release() -> None:
            nonlocal released
            if not released:
                released = True
                self._suspects.release()

        later = asyncio.get_running_loop().call_later(SUSPECT_SECONDS, release)
        try:
            yield
        finally:
            later.cancel()
            release()

    async def _drive_once(
        self,
        agent: FleetAgent | SessionDriver,
        wish: Wish,
        state: Standing,
        entries: list[JournalEntry],
    ) -> bool:
        """Begin, run or resume, and settle; True if there is more to do at once."""
        # A run that its process took with it is counted by its own journal, which knows progress.
        died = state.unfinished and wish.error is None
        changed = (wish.error or "").startswith(CHANGED)
        tries = 1 if died or changed else wish.tries + 1
        if tries > MAX_TRIES:
            await self._give_up(wish)
            return False
        ending = EndOfDrive(wish, self._worker)
        if self._may_claim(agent, wish):
            ending.claim = build_claim(
                wish, self._worker, tries, self._store.read_clock(), exclusive=self._exclusive
            )
        elif (begun := await self._begin(agent, wish, tries)) is not True:
            return begun is False and not self.draining
        if is_session_driver(agent):
            return await self._hand_on(agent, wish, tries)
        result, failure = None, None
        before = settlement.set(ending)
        try:
            work = self._run(agent, wish, state, entries)
            result = await self._within_limits(wish, work)
        except ClaimRefused:  # it has changed, and is read again
            return True
        except Exception as error:
            failure = error
        finally:
            settlement.reset(before)
        if ending.claim is not None:  # the session was not opened
            if isinstance(failure, SessionHeld):  # who opens it just now puts that on record first
                await seams.sleep(OPENING_SECONDS)
            begun = await self._begin(agent, wish, tries)
            if begun is not True:
                return begun is False and not self.draining
        if failure is not None:
            return await self._fail(wish, tries, failure)
        seams.point("fleet.before_settle")
        if ending.more is not None:  # it was settled with the end of the run
            self._waits.pop(wish.session, None)
            if self.on_result is not None and result is not None:
                self.on_result(wish.session, result)
            return ending.more
        return await self._settle(wish, result)

    async def _hand_on(self, driver: SessionDriver, wish: Wish, tries: int) -> bool:
        """Have a session driven by code that keeps its wish itself; True if there is more to do."""

        async def may_take_over(held: SessionHeld) -> bool:
            return await is_lost(self._store, self._worker, held.holder)

        try:
            work = driver.drive_session(wish, self._store, may_take_over)
            more = await self._within_limits(wish, work)
            due, number = self._waits.pop(wish.session, None), wish.number
            if due is not None:
                await self._store.commit(lambda tx: postpone_wish(tx, wish.session, number, due))
            elif self.draining and self.on_hand_over is not None:
                await self.on_hand_over(wish)
            return more
        except NoSuchSession:
            await self._store.commit(lambda tx: remove_stray_wish(tx, wish.session))
            return False
        except SessionHeld:  # mostly by the process that spawned it, as a task
            return await self._postpone(wish, HELD_SECONDS, None, wish.tries)
        except Exception as error:
            return await self._fail(wish, tries, error)

    async def _fail(self, wish: Wish, tries: int, error: Exception) -> bool:
        """Let a wish wait that could not be driven now, and say why; False."""
        session = wish.session
        if isinstance(error, StaleWriter):  # if nobody has taken it over, it is driven again
            log.info("session %s was taken over by another worker", session)
            return await self._postpone(wish, HELD_SECONDS, None, wish.tries)
        if isinstance(error, SessionHeld):
            return await self._postpone(wish, HELD_SECONDS, error, wish.tries)
        if isinstance(error, WorkflowChanged):  # it stays for the code that it was begun with
            return await self._postpone(wish, CHANGED_SECONDS, error)
        if isinstance(error, NotHere):
            return await self._postpone(wish, error.seconds, error, wish.tries)
        if isinstance(error, LaterFormat | Corrupt):  # a worker of that version goes on with it
            return await self._postpone(wish, UNREADABLE_SECONDS, error, wish.tries)
        log.warning("session %s: %s", session, error_text(error), exc_info=True)
        return await self._postpone(wish, 2.0**tries, error)

    def _may_claim(self, agent: FleetAgent | SessionDriver, wish: Wish) -> bool:
        """Check whether it can be put on record with the opening of the session that it is driven.

        A drive after one that came to nothing is counted before anything else is tried.
        """
        return (
            isinstance(self._store, ServedStore)
            and isinstance(agent, Agent)
            and self._ledgers is None
            and self._limits == NO_LIMITS
            and wish.since is None
            and wish.error is None
            and wish.tries == 0
        )

    async def _begin(
        self, agent: FleetAgent | SessionDriver, wish: Wish, tries: int
    ) -> bool | None:
        """Put on record that it is driven; None if it must wait, False if it was raised meanwhile."""
        worker, limits, ledgers = self._worker, self._limits, self._ledgers
        if limits.models and wish.model is None:  # it was submitted by the name of its agent
            wish = msgspec.structs.replace(wish, model=read_model(self._environment, agent))

        def begin(tx: Transaction) -> bool | None:
            if not self._exclusive and self._is_driven_elsewhere(tx, wish.session):
                return None
            due = None if ledgers is None else ledgers.find_due(tx, wish.tenant)
            if due is None and not has_room(tx, wish, limits, worker):
                due = tx.read_clock() + LIMIT_SECONDS
            if due is not None:
                postpone_wish(tx, wish.session, wish.number, due, None)
                return None
            return begin_drive(tx, wish, worker, tries)

        free = ledgers is None and limits == NO_LIMITS  # or else it counts what others drive
        begun = await self._store.commit(on_snapshot(begin) if free else begin)
        if begun:
            seams.point("fleet.after_begin")
        return begun

    def _is_driven_elsewhere(self, tx: Transaction, session: str) -> bool:
        """Check whether another worker drives it, which was heard of within its lease."""
        wish = read_wish(tx, session)
        if wish is None or wish.since is None or wish.worker == self._worker:
            return False
        return drives_now(tx, wish.worker)

    async def _within_limits(self, wish: Wish, work: Coroutine[Any, Any, T]) -> T:
        """Drive with what this worker holds of the tenant's budget and rate."""
        ledgers = self._ledgers
        if ledgers is None:
            return await work
        ledgers.enter(wish.tenant)
        before = park_until.set(lambda due: self._park(wish.session, due))
        try:
            return await work
        finally:
            park_until.reset(before)
            await ledgers.leave(wish.tenant)

    def _park(self, session: str, due: float) -> bool:
        """Park a run that a rate keeps waiting, until a time; False if it cannot be parked."""
        found = [one for one in list(under_way) if one.run.session_id == session]
        for one in found:
            self._waits[session] = due
            one.park()
        return bool(found)

    async def _run(
        self,
        agent: FleetAgent,
        wish: Wish,
        state: Standing,
        entries: list[JournalEntry],
    ) -> RunResult | None:
        """Run or resume; None if all that the wish asks for is done."""
        request = None if state.unfinished else _next_request(wish, entries)
        if request is None and not state.unfinished:
            return None
        try:
            return await self._open(agent, wish.session, request, take_over=False)
        except SessionHeld as held:
            if not await is_lost(self._store, self._worker, held.holder):
                raise
        return await self._open(agent, wish.session, request, take_over=True)

    async def _open(
        self, agent: FleetAgent, session: str, request: Request | None, *, take_over: bool
    ) -> RunResult:
        """Begin the run that was asked for, or resume the one that was left."""
        options: JsonObject = {"store": self._store, "on_cancel": "park"}
        if take_over:
            options["take_over"] = True
        if request is None:
            return await agent.resume(session, **options)
        return await agent.run(
            request.messages,
            session_id=session,
            caller=request.caller,
            request_id=request.id,
            **options,
        )

    async def _settle(self, wish: Wish, result: RunResult | None) -> bool:
        """Clear the wish, unless there is more to do; True if so."""
        session, number = wish.session, wish.number
        waits_until = self._waits.pop(session, None)
        if result is not None and result.status == "suspended":
            if self.draining:  # it may have parked for this: another worker looks at it
                me = self._worker
                await self._store.commit(
                    lambda tx: postpone_wish(tx, session, number, tx.read_clock(), worker=me)
                )
                if self.on_hand_over is not None:
                    await self.on_hand_over(wish)
                return True
            if waits_until is not None and result.stop_reason == "detached":
                due = waits_until
                return not await self._store.commit(
                    lambda tx: postpone_wish(tx, session, number, due, worker=self._worker)
                )
            if _is_drained(result):
                return True
            return not await self._store.commit(
                lambda tx: park_wish(tx, session, number, self._worker)
            )
        if result is not None and result.status == "cancelling":  # a tool takes no notice yet
            return await self._postpone(wish, HELD_SECONDS, None)
        done = [str(request.get("id")) for request in wish.requests]
        if result is not None:
            begun = next((e for e in result.entries if type(e) is RunStarted), None)
            done = [] if begun is None or begun.request_id is None else [begun.request_id]
        settle = EndOfDrive(wish, self._worker).settle
        return await self._store.commit(
            on_snapshot(lambda tx: settle(tx, done, result is not None))
        )

    async def _postpone(
        self, wish: Wish, seconds: float, error: Exception | None, tries: int | None = None
    ) -> bool:
        why = None if error is None else self._environment.redact(error_text(error))
        if isinstance(error, WorkflowChanged):
            why = f"{CHANGED}{why}"
        me, session, number = self._worker, wish.session, wish.number
        await self._store.commit(
            lambda tx: postpone_wish(
                tx, session, number, tx.read_clock() + seconds, why, me, tries=tries
            )
        )
        return False

    async def _set_aside(self, wish: Wish, error: StoreError) -> bool:
        """Let a wish wait whose journal cannot be read or written, and say why; False."""
        if wish.since is not None and wish.worker != self._worker and not self._exclusive:
            return False  # somebody drives it
        why, session = self._environment.redact(error_text(error)), wish.session
        if why != wish.error:
            log.warning("session %s is set aside: %s", session, why)
        await self._store.commit(
            lambda tx: postpone_wish(
                tx, session, wish.number, tx.read_clock() + UNREADABLE_SECONDS, why
            )
        )
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
        except StoreError as error:
            await self._set_aside(wish, error)
        else:
            log.error("session %s is given up: %s", wish.session, message)


class EndOfDrive:
    """The wish of a run that ends, settled in the transaction that records the end."""

    def __init__(self, wish: Wish, worker: str) -> None:
        self.session, self._wish, self._worker = wish.session, wish, worker
        self.claim: Claim | None = None
        self.more: bool | None = None  # whether there is more to do; None: not settled

    def build_body(self, request_id: str | None) -> Callable[[Transaction], bool]:
        """Return the body for the transaction of the end."""
        done = [] if request_id is None else [request_id]
        return on_snapshot(lambda tx: self.settle(tx, done, has_run=True))

    def note(self, more: bool) -> None:
        """Hear that it is stored."""
        self.more = more

    def settle(self, tx: Transaction, done: Sequence[str], has_run: bool) -> bool:
        """Clear the wish, unless more was asked for, or another worker has it; True if so."""
        session, wish = self.session, self._wish
        if all([request.get("id") in done for request in wish.requests]) and clear_wish(
            tx, session, wish.number, self._worker, wish.requests
        ):
            return False
        known = read_wish(tx, session)
        if known is None:
            return False
        if known.worker != self._worker:
            return True  # it was taken over, and is theirs
        left = [request for request in known.requests if request.get("id") not in done]
        if not (left and has_run) and clear_wish(tx, session, wish.number, self._worker):
            return False
        if len(left) != len(known.requests):
            keep_requests(tx, session, left)
        return True


def _is_suspect(wish: Wish, state: Standing) -> bool:
    """Check whether the process of a session died again and again, without anything new on record."""
    if wish.since is None or wish.error is not None:  # its last drive came to an end
        return False
    return (state.attempt() if state.unfinished else wish.tries) >= SUSPECT_DEATHS


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


def _is_drained(result: RunResult) -> bool:
    """Check whether a run was parked because its worker ends, or left by it."""
    if result.stop_reason == "detached":
        return True
    last = next((entry for entry in reversed(result.entries) if type(entry) is Suspended), None)
    return last is not None and last.initiator == DRAIN["initiator"]

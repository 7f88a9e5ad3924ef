"""A worker: an engine, a driver, and its row in the store. Several processes may have one each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from windlass import seams
from windlass.engine.active_runs import under_way
from windlass.engine.environment import Environment
from windlass.errors import StoreError, error_text
from windlass.fleet.driver import Driver
from windlass.fleet.engine import Fleet
from windlass.fleet.limits import NO_LIMITS, FleetLimits
from windlass.fleet.local import LocalFleet
from windlass.fleet.request import FleetAgent, name_agent
from windlass.fleet.session_driver import SessionDriver
from windlass.fleet.workers import BEATS, LEASE_SECONDS, beat, new_worker, remove_worker
from windlass.store.base import Store
from windlass.store.transaction import on_snapshot
from windlass.store.wishes import Wish

SLOTS: Final = 20  # sessions that a worker drives at once
AGAIN_SECONDS: Final = 0.5  # until a worker tries again to say that it is there
GRACE_SECONDS: Final = 20.0  # for runs to park when a worker ends; below every lease

log = logging.getLogger("windlass.fleet")


class Worker:
    """Drives the sessions that wait for its agents."""

    def __init__(
        self,
        environment: Environment,
        store: Store,
        engine: Fleet,
        *,
        slots: int = SLOTS,
        queues: Sequence[str] = (),
        limits: FleetLimits = NO_LIMITS,
        lease: float = LEASE_SECONDS,
    ) -> None:
        self._environment, self._store, self.engine = environment, store, engine
        self._slots = slots
        self._agents: dict[str, FleetAgent | SessionDriver] = {}
        self._queues: list[str] = list(queues)
        self._row = new_worker(engine.name, queues, slots, lease)
        self.driver = Driver(
            environment,
            store,
            self._agents,
            self._row.id,
            limits,
            exclusive=engine.exclusive,
        )
        self.driver.on_hand_over = self._hand_over
        self._beating: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """Its name in the store."""
        return self._row.id

    def add_agent(self, agent: FleetAgent | SessionDriver, queue: str | None = None) -> None:
        """Serve an agent from now on, and its queue or another one."""
        name = name_agent(agent)
        # A name without a version, as in the action of a trigger, is that of version 1.
        names = (name, name.removesuffix("@1")) if name.endswith("@1") else (name,)
        self._agents.update(dict.fromkeys(names, agent))
        for one in (*names, queue or name):
            if one not in self._queues:
                self._queues.append(one)

    def leave(self) -> None:
        """Let go of what did not park in time: it goes on elsewhere where its journal ends."""
        for one in list(under_way):
            if one.run.session_id in self.driver.active:
                one.park()

    async def serve(self) -> None:
        """Drive sessions until `stop`. An engine that fails is started again, with a pause."""
        self.driver.open()
        self._beating = asyncio.get_running_loop().create_task(self._beat())
        failures = 0
        try:
            while not self.driver.draining:
                try:
                    await self.engine.serve(
                        self.driver.drive, queues=self._queues, slots=self._slots
                    )
                    break
                except Exception as error:
                    failures += 1
                    log.warning("the fleet's engine failed: %s", error_text(error), exc_info=True)
                    await seams.sleep(min(0.1 * 2**failures, 10.0))
        finally:
            await self._end_beat()

    async def stop(self, grace: float = GRACE_SECONDS) -> bool:
        """Park what runs and end; False if something did not park within `grace` seconds."""
        self._row = msgspec.structs.replace(self._row, state="draining")
        until = seams.monotonic() + grace
        await self.driver.drain()
        await self.engine.stop(grace)
        try:
            left = max(0.0, until - seams.monotonic())
            async with asyncio.timeout(left):
                await self.driver.wait_until_idle()
        except TimeoutError:
            return False
        await self._end_beat()  # which would put the row back
        try:
            await self._store.commit(lambda tx: remove_worker(tx, self.id))
        except StoreError as error:
            log.info("the worker stays on record: %s", error_text(error))
        return True

    async def _hand_over(self, wish: Wish) -> None:
        """Wake a session for another worker; if that fails, a sweep finds it."""
        try:
            await self.engine.wake(wish.session, queue=wish.queue, priority=wish.priority)
        except StoreError as error:
            log.info("session %s waits for a sweep: %s", wish.session, error_text(error))

    async def _end_beat(self) -> None:
        await self.driver.aclose()
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait({self._beating})

    async def _beat(self) -> None:
        silent = False  # an outage is logged once
        while True:
            standby = isinstance(self.engine, LocalFleet) and not self.engine.is_driver
            state = self._row.state
            if state != "draining":
                state = "standby" if standby else "serving"
            row = msgspec.structs.replace(self._row, queues=tuple(self._queues), state=state)
            try:
                await self._store.commit(on_snapshot(lambda tx, row=row: beat(tx, row)))
                silent = False
            except StoreError as error:
                if not silent:
                    log.warning("this worker cannot say that it is there: %s", error_text(error))
                silent = True
            # Once the store is back, nobody may take this worker for lost.
            pause = self._row.lease / BEATS
            await seams.sleep(min(pause, AGAIN_SECONDS) if silent else pause)

"""The fleet of a Runtime: it submits runs, makes handles, and drives sessions in this process."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from windlass.access.caller import Caller
from windlass.agents.agent import Agent
from windlass.engine.environment import Environment
from windlass.engine.ownership import find_session
from windlass.errors import ConfigError, safe_repr
from windlass.fleet.engine import Fleet, SeenWish
from windlass.fleet.engines import build_engine, check_engine
from windlass.fleet.handle import Changes, RunHandle
from windlass.fleet.limits import FleetLimits, check_limits
from windlass.fleet.local import LocalFleet
from windlass.fleet.request import FleetAgent, name_agent
from windlass.fleet.session_driver import SessionDriver
from windlass.fleet.submit import Submission, Submitted, prepare_submission
from windlass.fleet.worker import GRACE_SECONDS, SLOTS, Worker
from windlass.fleet.workers import LEASE_SECONDS
from windlass.identifiers import check_identifier
from windlass.store.postgres.foreign import run_on_connection
from windlass.store.transaction import on_snapshot, repeatable
from windlass.store.wishes import Transaction
from windlass.triggers.fire import fire_some

LEAVE_SECONDS: Final = 2.0  # for runs to park when the block of a Runtime ends


class FleetService:
    """Submission and driving for one Runtime."""

    def __init__(
        self,
        environment: Environment,
        engine: str = "local",
        companions: Callable[[FleetAgent], Sequence[SessionDriver]] | None = None,
    ) -> None:
        self._environment, self._engine_name = environment, check_engine(engine)
        self._companions = companions  # what else is served with an agent
        self._changes = Changes()
        self._engine: Fleet | None = None
        self._worker: Worker | None = None
        self._serving: asyncio.Task[None] | None = None
        self._served: dict[Worker, asyncio.Task[None]] = {}  # by `serve`
        self._added: tuple[str, FleetAgent] | None = (
            None  # the last one, to what serves in the background
        )

    async def submit(
        self,
        agent: FleetAgent | str,
        prompt: object,
        *,
        session_id: str | None = None,
        queue: str | None = None,
        key: str | None = None,
        priority: int = 0,
        not_before: datetime | float | None = None,
        caller: Caller | None = None,
        connection: object = None,
    ) -> RunHandle:
        """Create a session with the wish to run the prompt, and return its handle."""
        environment, store = self._environment, self._environment.store
        asked = await prepare_submission(
            environment,
            store,
            agent,
            prompt,
            session_id=session_id,
            queue=queue,
            key=key,
            priority=priority,
            not_before=not_before,
            caller=caller,
        )
        engine = self._find_engine()
        await engine.prepare()
        done = await self._write(asked, connection, engine)
        if not isinstance(agent, str) and self._engine_name == "local":
            self._serve_in_background(agent, asked.queue)
        if not done.is_woken:
            # Nobody else can know a session whose name was made here, and have run it meanwhile.
            is_known = session_id is None and connection is None
            await self._wake(done, asked.due, done.seen if is_known else None)
        return RunHandle(
            environment,
            store,
            self._changes,
            done.session_id,
            request_id=done.request_id,
            agent=cast("Agent[Any, Any]", agent) if isinstance(agent, Agent) else None,
            is_new=done.request_id is not None and session_id is None,
        )

    async def _write(self, asked: Submission, connection: object, engine: Fleet) -> Submitted:
        store = self._environment.store

        def write(tx: Transaction) -> Submitted:
            return asked.write(tx, engine)

        if connection is None:
            return await store.commit(repeatable(on_snapshot(write)))
        return await run_on_connection(store, connection, write)

    async def _wake(self, done: Submitted, due: float | None, seen: SeenWish | None) -> None:
        engine = self._find_engine()
        if isinstance(engine, LocalFleet):
            engine.wake_here(done.session_id, queue=done.queue, at=due, seen=seen)
        else:
            await engine.wake(done.session_id, queue=done.queue, priority=done.priority, at=due)

    async def find_handle(
        self, session_id: str, agent: Agent[Any, Any] | None, caller: Caller | None
    ) -> RunHandle:
        """Return the handle of a session's last run."""
        environment, store = self._environment, self._environment.store
        key = await find_session(store, session_id, caller, environment, "read")
        await store.info(key)
        return RunHandle(environment, store, self._changes, key, agent=agent)

    # ----------------------------------------------------------------------- this process drives

    async def serve(
        self,
        agents: Sequence[FleetAgent],
        *,
        slots: int = SLOTS,
        queues: Sequence[str] = (),
        limits: FleetLimits | Mapping[str, Mapping[str, object]] | None = None,
        grace: float = GRACE_SECONDS,
        lease: float = LEASE_SECONDS,
    ) -> None:
        """Drive sessions of these agents until this task is cancelled; then park what runs."""
        if not agents:
            raise ConfigError("a worker needs an agent to serve")
        if not _is_number(grace) or grace < 0:
            raise ConfigError(f"grace is a number of seconds from 0, not {safe_repr(grace)}")
        worker = self.build_worker(agents, slots=slots, queues=queues, limits=limits, lease=lease)
        serving = asyncio.get_running_loop().create_task(worker.serve())
        self._served[worker] = serving
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            if not worker.driver.draining:  # or the Runtime is being closed
                await worker.stop(grace)
            await asyncio.wait({serving})
            raise
        finally:
            self._served.pop(worker, None)

    def build_worker(
        self,
        agents: Sequence[FleetAgent],
        *,
        slots: int = SLOTS,
        queues: Sequence[str] = (),
        limits: FleetLimits | Mapping[str, Mapping[str, object]] | None = None,
        lease: float = LEASE_SECONDS,
    ) -> Worker:
        """Return a worker for these agents, which its caller serves and stops."""
        _check_agents(agents)
        worker = self._build_worker(slots, queues, limits, lease)
        for agent in agents:
            self._add(worker, agent)
        return worker

    def _add(self, worker: Worker, agent: FleetAgent, queue: str | None = None) -> None:
        worker.add_agent(agent, queue)
        for one in () if self._companions is None else self._companions(agent):
            worker.add_agent(one)

    async def aclose(self) -> None:
        """Park what this process drives, and end."""
        for one, task in list(self._served.items()):
            await _end_serving(one, task)
        worker, self._worker = self._worker, None
        serving, self._serving, self._engine = self._serving, None, None
        if worker is not None and serving is not None:
            await _end_serving(worker, serving)

    def _serve_in_background(self, agent: FleetAgent, queue: str) -> None:
        serving = self._serving
        loop = asyncio.get_running_loop()
        if serving is None or serving.done() or serving.get_loop() is not loop:
            self._engine = None
            self._added = None
            self._worker = self._build_worker(SLOTS, (), None, LEASE_SECONDS)
            self._serving = loop.create_task(self._worker.serve())
        assert self._worker is not None
        if self._added is None or self._added[0] != queue or self._added[1] is not agent:
            self._added = queue, agent
            self._add(self._worker, agent, queue)

    def _build_worker(
        self,
        slots: int,
        queues: Sequence[str],
        limits: FleetLimits | Mapping[str, Mapping[str, object]] | None,
        lease: float,
    ) -> Worker:
        if type(slots) is not int or slots < 1:
            raise ConfigError(f"slots is a whole number from 1, not {safe_repr(slots)}")
        if not _is_number(lease) or lease < 1:
            raise ConfigError(f"lease is a number of seconds from 1, not {safe_repr(lease)}")
        if isinstance(queues, str):
            raise ConfigError(f"queues is a list of names, not {safe_repr(queues)}")
        for queue in queues:
            check_identifier(queue, "queue")
        store, engine = self._environment.store, self._find_engine()
        if not engine.exclusive:  # each worker has a queue of its own to stop
            engine = build_engine(self._engine_name, store, fire_some, lease)
        worker = Worker(
            self._environment,
            store,
            engine,
            slots=slots,
            queues=queues,
            limits=check_limits(limits),
            lease=lease,
        )
        worker.driver.on_step = self._changes.tell
        worker.driver.on_result = self._changes.offer
        return worker

    def _find_engine(self) -> Fleet:
        if self._engine is None:
            self._engine = build_engine(
                self._engine_name, self._environment.store, fire_some, LEASE_SECONDS
            )
        return self._engine


async def _end_serving(worker: Worker, serving: asyncio.Task[None]) -> None:
    """Have a worker park what it drives, and wait for its end."""
    if serving.get_loop() is not asyncio.get_running_loop():
        return  # its loop has ended, and it with it
    if worker.driver.draining:  # its task was cancelled, which stops it
        parked = bool((await asyncio.wait({serving}, timeout=LEAVE_SECONDS))[0])
    else:
        parked = await worker.stop(LEAVE_SECONDS)
    if not parked:
        worker.leave()
        await worker.driver.wait_until_idle()
        await worker.stop(LEAVE_SECONDS)  # the lock is let go of when nothing is driven
    await asyncio.wait({serving})


def _is_number(given: object) -> bool:
    return type(given) in (int, float) and math.isfinite(cast("float", given))


def _check_agents(agents: Sequence[object]) -> None:
    """Refuse what cannot be served, and two agents of which one would be served in the other's name."""
    names: set[str] = set()
    for agent in agents:
        if isinstance(agent, str):
            raise ConfigError(f"what is served is an Agent or a workflow, not {safe_repr(agent)}")
        name = name_agent(cast("FleetAgent", agent))
        if name in names:
            raise ConfigError(f"two agents are named {name!r}: give one another name or version")
        names.add(name)

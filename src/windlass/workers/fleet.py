"""Workers in a fleet: what another process needs to drive one, and how it does.

A worker that a run of a named agent has spawned can be rebuilt from its record and that agent: options
that are plain data are on record, tools and models that are code are those of the agent, by name. What
is neither stays with the process that spawned it, and the record says so.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import msgspec

from windlass import seams
from windlass.agents.agent import Agent
from windlass.agents.artifacts import NAME as ARTIFACT_TOOL
from windlass.engine.active_runs import under_way
from windlass.engine.environment import Environment, current_environment
from windlass.engine.orphans import place_under, rebuild_rules
from windlass.errors import ConfigError, NoSuchSession, ParentRequired, SessionHeld, error_text
from windlass.fleet.request import FleetAgent, name_agent
from windlass.fleet.session_driver import NotHere, SessionDriver
from windlass.json_types import JsonObject, as_list, as_object
from windlass.loop.plan import create_plan
from windlass.loop.run import Run
from windlass.policies.preview.mode import MODE
from windlass.store.base import Store
from windlass.store.wishes import WAKING, Wish, clear_wish, read_wish
from windlass.workers.drive import Live, TaskOutcome, WorkerScope, build_plan, settle
from windlass.workers.graph import GraphRun
from windlass.workers.live import LiveWorkers, live_workers, rebuild_live
from windlass.workers.record import WorkerRecord, WorkerState, read_record, read_worker
from windlass.workers.selection import Selection
from windlass.workers.wish import can_go, is_fleet_driven, is_woken_below, rest, tell_parent

_SETTLE_SECONDS: Final = 2.0  # for the process of a run that has ended to put the end on record


# --------------------------------------------------------------------------- when it is spawned


def find_agent(parent: Run | None) -> Agent[Any, Any] | None:
    """Return the agent of the run that spawns a worker, if a fleet can know it by its name."""
    found = next((one.agent for one in list(under_way) if one.run is parent), None)
    if isinstance(found, Live):  # the worker of a worker
        return found.agent
    return _as_named(found)


def _as_named(agent: object) -> Agent[Any, Any] | None:
    if not isinstance(agent, Agent):
        return None
    found = cast("Agent[Any, Any]", agent)
    return None if found.name is None else found


def is_unlimited(parent: Run | None) -> bool:
    """Check whether no budget above the worker has to be shared with those who run beside it."""
    ledger = None if parent is None else parent.ledger
    while ledger is not None:
        limits = ledger.limits
        if limits.tokens is not None or limits.usd is not None or limits.seconds is not None:
            return False
        ledger = ledger.parent
    return True


async def is_left(home: Store, record: WorkerRecord, live: Live) -> bool:
    """Check whether a worker that is on record already is left to the fleet."""
    if not is_unlimited(live.parent) or not can_go(record):
        return False
    return await home.consult(lambda tx: is_fleet_driven(tx, record.parent))


def place_in_fleet(
    record: WorkerRecord,
    live: Live,
    chosen: Selection,
    environment: Environment,
    named: str | None = None,
) -> WorkerRecord:
    """Return the record with the agent of the worker, and what only this process has of it.

    `named` is the submitted run that the worker is of where a step of it or a sub-agent spawns one.
    """
    agent, parent = live.agent, live.parent
    if agent is None or parent is None:
        if named is None:
            return record
        return msgspec.structs.replace(record, agent=named, stays=("the code of its parent",))
    stays = [name for name in record.objects if not _is_of_agent(agent, name, live.options)]
    own = agent.plan_in(environment).tools
    for tool in chosen.tools:
        if isinstance(tool, str) or tool.name == ARTIFACT_TOOL:
            continue
        # The very object: one with the same function may ask for an approval that the other does not.
        if own.get(tool.name) is not tool:
            stays.append(f"the tool {tool.name}")
    for rule in as_list(as_object(record.under).get("rules")):
        if as_object(rule).get("data") is None:
            stays.append(f"the rule {as_object(rule).get('policy')} of its parent")
    if MODE in (parent.plan.metadata or {}):
        stays.append("the plan of effects of its parent")
    return msgspec.structs.replace(
        record,
        agent=name_agent(agent),
        stays=tuple(stays),
        begins_under_parent=_has_unrecorded(parent),
        host=socket.gethostname() if record.execution.get("worktree") else None,
    )


def _is_of_agent(agent: Agent[Any, Any], name: str, options: JsonObject) -> bool:
    """Check whether an option that is code is that of the agent itself."""
    return name in options and name in agent.options and agent.options[name] is options[name]


def _has_unrecorded(parent: Run) -> bool:
    """Check whether a rule of the parent is put on record only by the first run under it."""
    bound = place_under(create_plan(parent.model), parent)
    return any([policy.as_record() == {} for policy in bound.inherited])


# --------------------------------------------------------------------------- in another process


class WorkerAgent:
    """Drives the workers that runs of an agent have spawned: `refunds@1.workers` of `refunds@1`.

    Of a workflow it drives those that its process has spawned.
    """

    def __init__(self, agent: FleetAgent) -> None:
        self._agent = _as_named(agent)
        self._name, self._version = agent.name, agent.version

    @property
    def name(self) -> str | None:
        """The name of the agent."""
        return self._name

    @property
    def version(self) -> str:
        """The version of the agent, and that these are its workers."""
        return f"{self._version}.workers"

    async def drive_session(
        self,
        wish: Wish,
        store: Store,
        may_take_over: Callable[[SessionHeld], Awaitable[bool]],
    ) -> bool:
        """Drive a worker to the end of its task, or until it is parked; False."""
        environment = current_environment()
        record = read_record(await store.info(wish.session))
        if record is None:
            raise NoSuchSession(f"no worker {wish.session!r}")
        workers = live_workers(environment)
        task = workers.get_task(store, record.id)
        if task is None:
            state = await read_worker(store, record.id)
            if not await self._wants_to_run(environment, store, state, wish):
                return False
            try:
                live = await self._find_code(environment, store, state, may_take_over)
            except NotHere as error:
                await _tell_of_loss(environment, store, record, error, wish)
                raise
            live.failure = None
            workers.launch(store, record.id, live)
            task = workers.get_task(store, record.id)
        if task is not None:
            await asyncio.wait({task})
        return await self._look_after(store, workers, record.id, wish)

    async def _wants_to_run(
        self, environment: Environment, store: Store, state: WorkerState, wish: Wish
    ) -> bool:
        """Check whether there is something to drive; settle the wish if there is not."""
        key, number = wish.session, wish.number
        if state.stopped or state.settled or state.is_stopping or state.key != key:
            await store.commit(lambda tx: clear_wish(tx, key, number))
            return False
        if state.is_left:
            if seams.now() - state.info.updated_at < _SETTLE_SECONDS:
                raise NotHere("the end of its task is being put on record", _SETTLE_SECONDS)
            scope = WorkerScope(environment, store, Live({}))
            await settle(scope, state, TaskOutcome.of_journal(state))
            return False
        if state.status != "suspended" or state.is_handed_over:
            return True
        if any([item.kind in WAKING for item in await store.inbox(key)]):
            return True
        if await is_woken_below(store, key):
            return True
        await rest(store, key, number, handed_over=False)
        return False

    async def _find_code(
        self,
        environment: Environment,
        store: Store,
        state: WorkerState,
        may_take_over: Callable[[SessionHeld], Awaitable[bool]],
    ) -> Live:
        """Return what drives the worker: what this process has of it, or what its agent gives."""
        takes_over = False
        if state.info.alive:
            held = SessionHeld(f"worker {state.record.id!r} is driven", holder=state.info.holder)
            takes_over = await may_take_over(held)
            if not takes_over:
                raise held
        live = live_workers(environment).get(store, state.record.id)
        if live is None:
            live = self.rebuild(environment, state)
        live.takes_over = takes_over
        return live

    def rebuild(self, environment: Environment, state: WorkerState) -> Live:
        """Build what a worker needs from its record and the agent; `NotHere` if that is not enough."""
        record, agent = state.record, self._agent
        where = f"worker {record.id!r} stays with the process that spawned it: only that has"
        if record.stays or agent is None:
            raise NotHere(f"{where} {', '.join(record.stays)}")
        if record.host not in (None, socket.gethostname()):
            raise NotHere(f"worker {record.id!r} works in a folder of machine {record.host!r}")
        if record.begins_under_parent and not state.is_begun:
            raise NotHere(f"{where} the rules that its first run begins under")
        own = agent.options
        given: JsonObject = {name: own[name] for name in record.objects if name in own}
        wanted = [name for name in record.tools if name not in record.builtin]
        tools = agent.plan_in(environment).tools
        given["tools"] = [tools[name] for name in wanted if name in tools]
        try:
            live = rebuild_live(environment, record, given)
            live.agent = agent
            if record.under is not None:
                rebuild_rules(record.under)
            if live.graph is not None:
                GraphRun(live.graph, live.options, record.task, record.artifacts)
            else:
                build_plan(WorkerScope(environment, environment.store, live), record, live.options)
        except (ConfigError, ParentRequired) as error:
            raise NotHere(f"this process cannot build worker {record.id!r}: {error}") from error
        return live

    async def _look_after(
        self, store: Store, workers: LiveWorkers, worker_id: str, wish: Wish
    ) -> bool:
        """Look at what became of a drive: one that could not begin is tried again later."""
        live = workers.get(store, worker_id)
        if live is not None:
            live.takes_over = False
        state = await read_worker(store, worker_id)
        if (state.settled or state.stopped) and can_go(state.record):
            workers.forget(store, worker_id)  # a process of a fleet drives many, and for long
        now = await store.consult(lambda tx: read_wish(tx, wish.session))
        if now is None or not now.is_wanted:
            return False
        if state.info.alive:
            raise SessionHeld(f"worker {worker_id!r} is driven", holder=state.info.holder)
        return now.number != wish.number


async def _tell_of_loss(
    environment: Environment, store: Store, record: WorkerRecord, error: NotHere, wish: Wish
) -> None:
    """Wake the parent of a worker that no process has: its keyed tool may spawn the worker again.

    Once: the wish has the error until the worker is driven again.
    """
    if wish.error == environment.redact(error_text(error)):
        return
    told: JsonObject = {"worker": record.id, "name": record.name, "status": "lost"}
    await store.commit(lambda tx: tell_parent(tx, record, told))


def build_worker_agents(agent: FleetAgent) -> list[SessionDriver]:
    """Build what drives the workers of an agent that a process serves."""
    return [] if agent.name is None else [WorkerAgent(agent)]

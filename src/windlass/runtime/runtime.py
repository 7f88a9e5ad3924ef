"""`Runtime`: an environment for runs, with the interfaces that a host works with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property, wraps
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from windlass.access.caller import Caller
from windlass.agents.agent import Agent
from windlass.engine.environment import Environment
from windlass.errors import ConfigError, nearest
from windlass.fleet.handle import RunHandle
from windlass.fleet.limits import FleetLimits
from windlass.fleet.request import FleetAgent
from windlass.fleet.service import FleetService
from windlass.fleet.worker import Worker
from windlass.generate.api import Models
from windlass.runtime.audit import Audit


class Runtime(Environment):
    """What agents share: `async with w.Runtime(store="sqlite:///agents.db") as scope: …`.

    Inside the block it is the current Runtime. Several tasks may be inside; the last one that
    leaves closes it. `environ` replaces the environment variables of the process (keys, addresses,
    proxies, `WINDLASS_…`). `resources` are the classes whose verbs are tools, by default all that
    are exported. `tools` are further tools, granted as `tool.<name>`. `roles` are grants,
    `fn(caller)`, or
    `w.Roles`. `audit_anchor` is where seals are kept outside of the store: a file, a callable, or an
    object with `put` and `get`.
    """

    if not TYPE_CHECKING:  # checkers see the arguments themselves

        @wraps(Environment.__init__)
        def __init__(self, *args: object, **options: object) -> None:
            known = signature(Environment.__init__).parameters
            for name in options:
                if name not in known:
                    hint = nearest(name, known, "options") or "; help(windlass.Runtime) lists them"
                    raise ConfigError(f"Runtime has no option {name!r}{hint}")
            super().__init__(*args, **options)

    @cached_property
    def models(self) -> Models:
        """The model API: `await scope.models.generate("…", caller=ann)`."""
        return Models(self)

    @cached_property
    def audit(self) -> Audit:
        """The audit log: `await scope.audit.query(…)`, `await scope.audit.verify()`."""
        return Audit(self)

    @cached_property
    def _fleet(self) -> FleetService:
        # What drives workers is loaded with the first fleet.
        workers = import_module("windlass.workers.fleet")
        return FleetService(self, self.fleet, workers.build_worker_agents)

    async def submit(
        self,
        agent: FleetAgent | str,
        prompt: object,
        *,
        queue: str | None = None,
        key: str | None = None,
        priority: int = 0,
        not_before: datetime | float | None = None,
        session_id: str | None = None,
        caller: Caller | None = None,
        connection: object = None,
    ) -> RunHandle:
        """Have an agent run in the background, on a worker or in this process; return a handle.

        ```python
        handle = await runtime.submit(refunds, "Refund order 7.", key="order-7")
        out = await handle.result()
        ```
        The agent needs a name; its queue is `name@version` unless `queue` says otherwise. With
        `fleet="local"`, an agent that is given as an object is served by this process while no other
        one drives the store; one that is given by name waits for a worker. A `key` that was used
        before gives the handle of that run, and raises `KeyReused` if the prompt is another. A higher
        `priority` runs first. `not_before` is a datetime or epoch seconds. `session_id` continues a
        session: one run at a time. `connection` is an asyncpg connection with a transaction of your
        own on the store's database: the run is submitted when it commits.
        """
        return await self._fleet.submit(
            agent,
            prompt,
            queue=queue,
            key=key,
            priority=priority,
            not_before=not_before,
            session_id=session_id,
            caller=caller,
            connection=connection,
        )

    async def handle(
        self,
        session_id: str,
        *,
        agent: Agent[Any, Any] | None = None,
        caller: Caller | None = None,
    ) -> RunHandle:
        """Return the handle of a session's last run, submitted in any process.

        With `agent`, the result is read with its output type. Raises `NoSuchSession`.
        """
        return await self._fleet.find_handle(session_id, agent, caller)

    async def serve(
        self,
        *agents: FleetAgent,
        slots: int = 20,
        queues: tuple[str, ...] = (),
        limits: FleetLimits | Mapping[str, Mapping[str, object]] | None = None,
        grace: float = 20.0,
        lease: float = 30.0,
    ) -> None:
        """Drive submitted runs of these agents in this process, until the task is cancelled.

        At most `slots` at once. `queues` are further queues to serve. `limits` hold over all
        workers: runs at once (`{"tenants": {"*": 5}, "queues": {"refunds@1": 2}, "models": {…}}`),
        `"budgets": {"acme": {"usd": 20, "per": "day"}}` and
        `"rates": {"*": {"requests_per_minute": 60, "tokens_per_minute": 90_000}}`. When it is
        cancelled, running turns end and the runs are handed over, within `grace` seconds. A worker
        that was not heard of for `lease` seconds is taken for lost: others go on with its runs.
        """
        await self._fleet.serve(
            agents, slots=slots, queues=queues, limits=limits, grace=grace, lease=lease
        )

    def build_worker(
        self,
        *agents: FleetAgent,
        slots: int = 20,
        queues: tuple[str, ...] = (),
        limits: FleetLimits | Mapping[str, Mapping[str, object]] | None = None,
        lease: float = 30.0,
    ) -> Worker:
        """Return a worker for these agents; you call `serve` and `stop` of it."""
        return self._fleet.build_worker(
            agents, slots=slots, queues=queues, limits=limits, lease=lease
        )

    async def aclose(self) -> None:
        """Hand over what runs in the background, then close the store and the threads."""
        if "_fleet" in self.__dict__:
            await self._fleet.aclose()
        await super().aclose()

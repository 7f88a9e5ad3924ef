"""The workers that this process runs: their tasks belong to the Runtime, and end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from windlass.agents.artifacts import NAME as ARTIFACT_TOOL
from windlass.agents.artifacts import build_artifact_tool
from windlass.engine.driver import Start
from windlass.engine.environment import Environment
from windlass.engine.run_options import RunOptions
from windlass.engine.tool_options import ToolOptions
from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.loop.abort import Abort
from windlass.store.base import Store
from windlass.tools.function import as_tools
from windlass.tools.tool import Tool
from windlass.workers.drive import Live, WorkerScope, caller_of, drive_worker
from windlass.workers.record import WorkerRecord

CLOSING: Final = 5.0  # seconds that workers have to reach a safe point when their Runtime closes


class LiveWorkers:
    """The workers of one Runtime in this process, by store and id."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._known: dict[tuple[int, str], tuple[Store, Live]] = {}
        environment.closers.add(self.close)

    def get(self, home: Store, worker_id: str) -> Live | None:
        """Return what this process has of a worker, if anything."""
        found = self._known.get((id(home), worker_id))
        return None if found is None else found[1]

    def keep(self, home: Store, worker_id: str, live: Live) -> None:
        """Keep the code of a worker until it is closed, or the Runtime is."""
        self._known[id(home), worker_id] = (home, live)

    def forget(self, home: Store, worker_id: str) -> None:
        """Forget a worker that is over."""
        self._known.pop((id(home), worker_id), None)

    def get_task(self, home: Store, worker_id: str) -> asyncio.Task[None] | None:
        """Return the task that drives a worker on this event loop."""
        live = self.get(home, worker_id)
        task = None if live is None else live.task
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            return None
        return task

    def launch(self, home: Store, worker_id: str, live: Live, begun: Start | None = None) -> None:
        """Drive a worker in a task of its own, unless one does so already."""
        self.keep(home, worker_id, live)
        # A run that has begun holds the session: a task that is still there is about to end.
        if begun is None and live.task is not None and not live.task.done():
            return
        live.leave, live.failure = Abort(), None
        scope = WorkerScope(self._environment, home, live)
        context = self._environment.new_context()
        loop = asyncio.get_running_loop()
        live.task = loop.create_task(drive_worker(scope, worker_id, begun), context=context)

    async def close(self) -> None:
        """Park the workers at their next safe point, and wait for them."""
        known, self._known = self._known, {}
        here = asyncio.get_running_loop()
        waiting: set[asyncio.Task[None]] = set()
        for _home, live in known.values():
            if live.task is not None and not live.task.done():
                live.leave.abort("the Runtime was closed")
                if live.task.get_loop() is here:
                    waiting.add(live.task)
        if waiting:
            _done, late = await asyncio.wait(waiting, timeout=CLOSING)
            for task in late:
                task.cancel()


_lives: WeakKeyDictionary[Environment, LiveWorkers] = WeakKeyDictionary()


def live_workers(environment: Environment) -> LiveWorkers:
    """Return the workers that run in this environment."""
    found = _lives.get(environment)
    if found is None:
        found = _lives[environment] = LiveWorkers(environment)
    return found


def rebuild_live(
    environment: Environment, record: WorkerRecord, given: Mapping[str, object]
) -> Live:
    """Build the options of a worker from its record, and from what this process gives for its code."""
    options: JsonObject = {**record.options, **given}
    deps = RunOptions.read(options).deps
    graph = next((one for name, one in options.items() if name == "graph"), None)
    options = {name: one for name, one in options.items() if name not in ("deps", "graph")}
    missing = [name for name in record.objects if name not in given]
    own = as_tools(ToolOptions.read(given).tools or ())
    tools = {tool.name: tool for tool in own}
    known = (ARTIFACT_TOOL, *record.builtin, *tools)
    unknown = [name for name in record.tools if name not in known]
    if unknown:
        found = {tool.name: tool for tool in environment.tools(caller_of(record))}
        tools |= {name: found[name] for name in unknown if name in found}
    chosen: list[Tool | str] = []
    for name in record.tools:
        if name in tools:
            chosen.append(tools[name])
        elif name == ARTIFACT_TOOL:
            chosen.append(build_artifact_tool())
        elif name in record.builtin:
            chosen.append(name)
        else:
            missing.append(f"the tool {name}")
    if missing:
        raise ConfigError(
            f"worker {record.id!r} was spawned with code that no record can hold: "
            f"{', '.join(missing)}; give it with resume_agent(…, options={{…}}), or the tools with "
            "Runtime(tools=[…])"
        )
    if record.mode != "graph" or chosen:
        options["tools"] = chosen
    return Live(options, graph=graph or record.graph, deps=deps)

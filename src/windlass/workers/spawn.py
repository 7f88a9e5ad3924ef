"""Start workers: `spawn_agent`, and what a background `sub_agent_run` is made of."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.agents.artifacts import NAME as ARTIFACT_TOOL
from windlass.agents.subagent import name_child
from windlass.engine.orphans import UNDER, place_under
from windlass.engine.ownership import (
    HOST,
    SessionScope,
    check_new_owner,
    owner_metadata,
    owner_of,
    with_owner,
)
from windlass.errors import ConfigError, NoSuchSession, safe_repr
from windlass.identifiers import child_session_id
from windlass.json_types import JsonObject, is_object, is_sequence
from windlass.loop.plan import as_journaled
from windlass.loop.run import Run
from windlass.options.group import OptionStruct
from windlass.store.base import Store
from windlass.store.open import Address
from windlass.toolbox.options import WorkspaceOptions
from windlass.tools.tool import ToolContext
from windlass.workers.config import (
    WorkerConfig,
    build_options,
    build_prompt,
    parse_config,
)
from windlass.workers.drive import Live, WorkerScope, build_plan
from windlass.workers.fleet import find_agent, is_left, is_unlimited, place_in_fleet
from windlass.workers.graph import GraphRun
from windlass.workers.live import live_workers
from windlass.workers.record import (
    Worker,
    WorkerRecord,
    build_worker,
    read_worker,
    to_metadata,
)
from windlass.workers.selection import Selection, inherit_place, select_tools
from windlass.workers.wish import create_worker, find_agent_above
from windlass.workers.worktree import check_branch, find_repository

#: Options that are secrets, and those that only code can give.
_NEVER_ON_RECORD: Final = frozenset({"api_key", "headers", "tools"})


async def spawn_agent(
    config: Mapping[str, Any],
    /,
    *,
    parent: ToolContext[Any] | None = None,
    store: Address | None = None,
    caller: Caller | None = None,
    deps: Any = None,
) -> Worker:
    """Start a worker in the background, and return its handle.

    ```python
    worker = await w.spawn_agent({"task": "Draft a summary.", "node": {"model_policy": {"provider": "mock"}}})
    done = await w.wait_agent(worker)
    print(done.status, done.text)
    ```
    Keys: `name`, `task`, `node`, `artifacts`, `options`, `transcript`, `policy`, `tools`, `carry`,
    `execution`, `approval_policy`, `permissions`; `graph` in place of `node`. In a tool, `parent=ctx`
    gives the worker the tools of the run, its rules and its budget. Raises `ConfigError` before anything
    runs.
    """
    checked = parse_config(config)
    options = build_options(checked)
    run = check_parent(parent, store, caller, deps)
    if checked.graph is not None:
        return await _spawn_graph(config, checked, options, run, parent, store, caller, deps)
    chosen = select_tools(checked, options, run)
    options = inherit_place(checked, options, chosen, run)
    options = {name: one for name, one in options.items() if name != "tool_preset"}
    if checked.node.mode == "llm" and not chosen.tools:
        options.setdefault("max_iterations", 1)
    return await spawn(checked, options, chosen, "node", parent, store, caller, deps)


async def _spawn_graph(
    config: Mapping[str, Any],
    checked: WorkerConfig,
    options: JsonObject,
    run: Run | None,
    parent: ToolContext[Any] | None,
    store: Address | None,
    caller: Caller | None,
    deps: Any,
) -> Worker:
    """Start a worker whose task is a workflow; `tools` narrows what its nodes may call."""
    if checked.tools is not None:
        if checked.policy is not None:
            raise ConfigError("policy and tools both narrow the nodes of a graph: give one of them")
        options = {**options, "policy": {"tools": [*checked.tools, ARTIFACT_TOOL]}}
    chosen = Selection((), ())
    if run is not None:
        found = select_tools(checked, options, run)
        chosen = Selection(found.tools[:-1], ())
        options = inherit_place(checked, options, chosen, run)
    return await spawn(
        checked, options, chosen, "graph", parent, store, caller, deps, given=config["graph"]
    )


async def spawn(
    config: WorkerConfig,
    options: JsonObject,
    chosen: Selection,
    mode: str,
    parent: ToolContext[Any] | None,
    store: Address | None,
    caller: Caller | None,
    deps: Any,
    *,
    given: object = None,
) -> Worker:
    """Put a worker on record and drive it; one that is on record under its name goes on.

    `given` is the graph as it came: only plain data can be on record.
    """
    place = SessionScope.current(store, caller)
    environment, home = place.environment, place.home
    live = Live(dict(options), graph=config.graph, deps=deps)
    if config.graph is None or chosen.tools:
        live.options["tools"] = chosen.tools
    if parent is not None:
        live.deps, caller = parent.deps, parent.caller
        if isinstance(parent.scope, Run):
            live.parent, home = parent.scope, parent.scope.store
            live.call = (parent.tool_name, parent.call_id)
        worker_id = child_session_id(parent.session_id, name_child(parent))
    else:
        check_new_owner(environment, caller)
        worker_id = seams.new_id("worker")
    record = await _build_record(worker_id, config, options, chosen, mode, caller, live)
    live.agent = find_agent(live.parent)
    if config.graph is not None:
        record = _put_graph(record, given)
    scope = WorkerScope(environment, home, live)
    named = None
    if live.agent is None and live.parent is not None:
        named = await find_agent_above(home, live.parent.session_id)
    record = place_in_fleet(_bind(scope, record), live, chosen, environment, named)
    left = False
    try:
        # the call of the tool runs again after a crash, or when it is woken
        state = await read_worker(home, worker_id)
        left = record.agent is not None and await is_left(home, record, live)
        if left and (state.settled or state.stopped):
            live_workers(environment).forget(home, worker_id)
            return await build_worker(home, state)
    except NoSuchSession:
        metadata = environment.redact(to_metadata(record, _describe_owner(live, caller)))
        left = await _create(home, record, metadata, live, parent)
    seams.point("worker.recorded")
    workers = live_workers(environment)
    if workers.get_task(home, worker_id) is None:
        # One that is left to a fleet is kept for whoever waits for it here.
        (workers.keep if left else workers.launch)(home, worker_id, live)
    state = await read_worker(home, worker_id)
    found = await build_worker(home, state)
    if state.status == "suspended" and state.is_handed_over:  # it goes on, here or in the fleet
        return msgspec.structs.replace(found, status="running", suspension=None)
    return found


def _describe_owner(live: Live, caller: Caller | None) -> JsonObject | None:
    """Return the metadata of who owns the worker: the owner of its parent's session, or the caller."""
    if live.parent is None:
        return owner_metadata(caller)
    known = owner_of(live.parent.journal.entries)
    return None if known == HOST else with_owner(known)


def _put_graph(record: WorkerRecord, given: object) -> WorkerRecord:
    """Return the record with the graph, or with the note that it is code."""
    if is_object(given) and _is_plain(given):
        return msgspec.structs.replace(record, graph=as_journaled(given, "graph"))
    return msgspec.structs.replace(record, objects=(*record.objects, "graph"))


async def _create(
    home: Store,
    record: WorkerRecord,
    metadata: JsonObject,
    live: Live,
    parent: ToolContext[Any] | None,
) -> bool:
    """Create the session of a worker, and its wish if it has an agent; True if a fleet drives it."""
    above = None if parent is None else parent.session_id
    if record.agent is None:
        journal = await home.open(record.id, metadata=metadata, parent_id=above)
        await journal.close()
        return False
    alone = is_unlimited(live.parent)
    return await home.commit(lambda tx: create_worker(tx, record, metadata, above, alone))


def check_parent(
    parent: object, store: Address | None, caller: Caller | None, deps: Any
) -> Run | None:
    """Return the run of the tool that spawns a worker; refuse what is the parent's already."""
    if parent is None:
        return None
    if not isinstance(parent, ToolContext):
        raise ConfigError(f"parent is the ToolContext of a tool, not {safe_repr(parent)}")
    for name, value in (("store", store), ("caller", caller), ("deps", deps)):
        if value is not None:
            raise ConfigError(f"{name} is the parent's: leave it out, or leave out parent")
    scope: object = parent.scope
    return scope if isinstance(scope, Run) else None


# --------------------------------------------------------------------------- its record


async def _build_record(
    worker_id: str,
    config: WorkerConfig,
    options: JsonObject,
    chosen: Selection,
    mode: str,
    caller: Caller | None,
    live: Live,
) -> WorkerRecord:
    stored, objects = _split(options)
    if live.deps is not None:
        objects.append("deps")
    execution = await _check_execution(config, options, worker_id)
    node: JsonObject = {
        "kind": config.node.kind,
        "mode": config.node.mode,
        "model_policy": _split(config.node.model_policy)[0],
        "output_contract": msgspec.to_builtins(config.node.output_contract),
        "tools": list(chosen.names),
    }
    request: JsonObject = {
        "task": config.task,
        "name": config.name,
        "node": node,
        "artifacts": list(config.artifacts),
        "options": stored,
    }
    carry: JsonObject = msgspec.to_builtins(config.carried)
    transcript = None
    if config.transcript is not None:
        transcript = as_journaled(config.transcript, "transcript")
    return WorkerRecord(
        id=worker_id,
        mode=mode,
        task=config.task,
        created_at=seams.now(),
        name=config.name,
        node=node,
        options=stored,
        resume_when=config.resume_when,
        objects=tuple(objects),
        tools=chosen.names,
        builtin=chosen.builtin,
        withheld=chosen.withheld,
        artifacts=config.artifacts,
        transcript=transcript,
        carry=carry,
        retriggers=config.carry is not None,
        execution=execution,
        parent=None if live.parent is None else live.parent.session_id,
        request=request,
        provenance=_describe_origin(worker_id, config, mode, caller, live),
        caller=_describe_caller(caller),
    )


def _bind(scope: WorkerScope, record: WorkerRecord) -> WorkerRecord:
    """Check the options by building the plan; return the record with the rules of the parent."""
    live, parent = scope.live, scope.live.parent
    if live.graph is not None:
        plan = GraphRun(live.graph, live.options, record.task, record.artifacts).plan
    else:
        plan = build_plan(scope, record, live.options)
        build_prompt(record.task, record.artifacts)
    if parent is None:
        return record
    under = (place_under(plan, parent).metadata or {}).get(UNDER)
    return msgspec.structs.replace(record, under=under)


def _split(options: JsonObject) -> tuple[JsonObject, list[str]]:
    """Part the options into those that are plain data, and the names of those that are code."""
    stored: JsonObject = {}
    objects: list[str] = []
    for name, value in options.items():
        if name == "tools" or value is None:
            continue
        if isinstance(value, OptionStruct) or name == "budget":
            value = msgspec.to_builtins(value)
        if name in _NEVER_ON_RECORD or not _is_plain(value):
            objects.append(name)
        else:
            stored[name] = as_journaled(value, name)
    return stored, objects


def _is_plain(value: object) -> bool:
    try:
        return msgspec.json.decode(msgspec.json.encode(value)) == _with_lists(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


def _with_lists(value: object) -> object:
    if is_object(value):
        return {key: _with_lists(one) for key, one in value.items()}
    return [_with_lists(one) for one in value] if is_sequence(value) else value


async def _check_execution(config: WorkerConfig, options: JsonObject, worker_id: str) -> JsonObject:
    """Return where the worker works as plain data, with the repository and the branch settled."""
    given = config.execution
    execution: JsonObject = {}
    if given.cwd is not None:
        execution["cwd"] = given.cwd
    if given.env:
        execution["env"] = dict(given.env)
    tree = given.worktree
    if tree is None:
        if given.cwd is not None:
            execution["cwd"] = WorkspaceOptions.read(options).workspace
        return execution
    if given.cwd is not None and os.path.isabs(given.cwd):
        raise ConfigError("execution.cwd is a folder in the worktree, such as 'src'")
    top = await asyncio.to_thread(find_repository, tree.repo)
    branch = tree.branch or f"worker/{worker_id.rpartition('.')[2]}"
    await asyncio.to_thread(check_branch, top, branch)
    execution["worktree"] = {"repo": str(top), "branch": branch, "cleanup": tree.cleanup}
    return execution


def _describe_origin(
    worker_id: str, config: WorkerConfig, mode: str, caller: Caller | None, live: Live
) -> JsonObject:
    parent = live.parent
    origin: JsonObject = {
        "worker_id": worker_id,
        "name": config.name,
        "mode": mode,
        "kind": config.node.kind,
        "requested_by": None if is_host(caller) else str(caller),
        "parent_session_id": None if parent is None else parent.session_id,
        "parent_run_id": None if parent is None else parent.run_id,
        "tool": None if live.call is None else live.call[0],
        "call_id": None if live.call is None else live.call[1],
    }
    return origin


def _describe_caller(caller: Caller | None) -> JsonObject | None:
    if caller is None or is_host(caller):
        return None
    return {"user": caller.user, "roles": list(caller.roles), "tenant": caller.tenant}

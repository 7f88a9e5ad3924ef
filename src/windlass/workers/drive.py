"""The runs of a worker: from its record to a plan, to a run, to the end of a task on record."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.agents.agent import Agent
from windlass.agents.artifacts import read_artifacts
from windlass.agents.subagent import share_workspace
from windlass.engine import driver
from windlass.engine.assemble import assemble, parse_loop_options
from windlass.engine.continuation import parse_run_input, read_transcript
from windlass.engine.driver import RunRequest, Start, conduct
from windlass.engine.environment import Environment
from windlass.engine.input import parse_run_prompt
from windlass.engine.orphans import (
    UNDER,
    build_ledger_below,
    find_rules,
    place_under,
    rebuild_rules,
)
from windlass.engine.ownership import owner_of
from windlass.engine.results import LoopResult, paid_in
from windlass.engine.resume import resume_run
from windlass.engine.transcript import transcript_of
from windlass.errors import ConfigError, SessionHeld, StaleWriter, WindlassError, error_text
from windlass.events import (
    ArtifactWritten,
    ChildEvent,
    Event,
    JournalEntry,
    Replied,
    Reshaped,
    RunEnded,
    WorkerStopped,
    WorkerUpdate,
)
from windlass.json_types import JsonObject, as_list
from windlass.llm.transcript_compaction import transcript_compact
from windlass.loop.abort import Abort
from windlass.loop.ledger import Ledger
from windlass.loop.plan import Plan, as_journaled, digest_of
from windlass.loop.run import Run
from windlass.loop.sinks import Sink
from windlass.models.base import silent
from windlass.observe.callbacks import CallbackOptions, sinks_of
from windlass.output.options import OutputOptions
from windlass.policies.preview.mode import for_child
from windlass.store.base import Journal, Store
from windlass.store.view import messages_of
from windlass.usage import Usage
from windlass.workers.config import build_prompt
from windlass.workers.graph import GraphRun, bind_steps, list_stages
from windlass.workers.record import TASK_KEY, WorkerRecord, WorkerState, read_worker, status_of
from windlass.workers.wish import read_number, rest, write_end
from windlass.workers.worktree import (
    GitFailed,
    build_patch,
    clean_up,
    find_worktree,
    prepare_worktree,
)
from windlass.workflows.host import read_finish
from windlass.workflows.result import WorkflowResult
from windlass.workflows.steps import WorkflowStep

log = logging.getLogger("windlass.loop")
DOOR: Final = "spawn_agent"
_OPEN_TRIES: Final = 60  # waits for a session that somebody is about to let go


class Live(msgspec.Struct, eq=False):
    """What this process has of a worker: the code among its options, its parent, its task."""

    options: JsonObject  # of the loop, with its tools and all that no record can hold
    graph: Any = None  # of a worker whose task is a workflow
    parent: Run | None = None
    call: tuple[str, str] | None = None  # the tool and the call that spawned it
    deps: Any = None
    agent: Agent[Any, Any] | None = None  # the named one whose run spawned it
    takes_over: bool = False  # from a process that is lost
    task: asyncio.Task[None] | None = None
    leave: Abort = msgspec.field(default_factory=Abort)
    failure: BaseException | None = None  # that nothing could be written about


class WorkerScope(msgspec.Struct, frozen=True):
    """Where a worker runs: the environment, the store, and what this process has of it."""

    environment: Environment
    home: Store
    live: Live

    def show(self, event: WorkerUpdate | WorkerStopped) -> None:
        """Show a change of the worker to those who watch it, or its parent."""
        parent = self.live.parent
        if parent is not None and parent.emit is not silent and _is_under_way(parent):
            parent.host.show(event)
        on_event = CallbackOptions.read(self.live.options).on_event
        for sink in sinks_of(on_event):
            sink(event)


# --------------------------------------------------------------------------- its plan


def build_plan(scope: WorkerScope, record: WorkerRecord, options: JsonObject) -> Plan:
    """Build the plan of a run of the worker."""
    typed = dict(options)
    system = typed.pop("system", None)
    values = parse_loop_options(typed, DOOR)
    plan = assemble(scope.environment.with_defaults(values), system, "agent_loop")
    plan = plan.of(plan.model)
    plan.name = record.name or plan.name
    plan.withheld = frozenset(record.withheld)
    return plan


async def build_request(scope: WorkerScope, state: WorkerState, plan: Plan) -> RunRequest:
    """Bind the plan by the rules and the budget of the parent, and return the request of a run."""
    record, live, environment = state.record, scope.live, scope.environment
    parent, ledger, parent_id = live.parent, None, None
    if parent is not None:
        if plan.relocate is not None:
            plan = await share_workspace(plan, parent, record.id)
        plan = for_child(place_under(plan, parent), parent.plan, parent.session_id)
        ledger, parent_id = Ledger(plan.limits, parent.ledger), parent.session_id
    elif record.under is not None:
        # The runs of this session have the rules on record; the first has not begun.
        if find_rules(state.entries) is None:
            plan = plan.below(rebuild_rules(record.under))
            plan.metadata = {**(plan.metadata or {}), UNDER: record.under}
        if not state.is_begun or state.ended is not None:
            entries = state.entries
            top = environment.ledger_for(caller_of(record))
            ledger = await build_ledger_below(scope.home, entries, plan.limits, top)
    return RunRequest(
        plan=plan if live.graph is None or not plan.inherited else bind_steps(plan),
        environment=environment,
        store=scope.home,
        caller=caller_of(record),
        deps=live.deps,
        sinks=_sinks_of(scope, state.key),
        ledger=ledger,
        owner=owner_of(state.entries),
        parent_id=parent_id,
        take_over=live.takes_over,
    )


def caller_of(record: WorkerRecord) -> Caller | None:
    """Return in whose name a worker works, whoever started the process; None: the host's."""
    known = record.caller
    if known is None:
        return None
    return Caller(str(known["user"]), tuple(known.get("roles") or ()), known.get("tenant"))


def _sinks_of(scope: WorkerScope, key: str) -> tuple[Sink, ...]:
    live = scope.live
    own = sinks_of(CallbackOptions.read(live.options).on_event)
    parent = live.parent
    if parent is None or live.call is None or parent.emit is silent:
        return own
    host, (tool, call_id) = parent.host, live.call

    def show(event: Event) -> None:
        path, session_id, inner = (tool,), key, event
        if isinstance(event, ChildEvent):
            path, session_id, inner = (tool, *event.path), event.session_id, event.event
        if _is_under_way(parent):
            host.show(ChildEvent(path, session_id, call_id, inner))

    return (*own, show)


def _is_under_way(parent: Run) -> bool:
    return type(parent.journal.entries[-1]) is not RunEnded


# --------------------------------------------------------------------------- its place


async def place_worker(record: WorkerRecord, options: JsonObject) -> JsonObject:
    """Return the options with the folder of the worker; make its worktree where it has one."""
    tree = record.execution.get("worktree")
    if tree is None:
        return options
    place = await prepare_worktree(tree["repo"], tree["branch"], record.id)
    return {**options, "workspace": _find_folder(place.path, record.execution.get("cwd"))}


def _find_folder(tree: str, cwd: str | None) -> str:
    """Return the folder in the worktree; refuse one outside of it."""
    top = os.path.realpath(tree)
    folder = os.path.realpath(os.path.join(top, cwd or "."))
    if os.path.commonpath([folder, top]) != top:
        raise ConfigError(f"execution.cwd leaves the worktree: {cwd}")
    return folder


async def leave_place(record: WorkerRecord) -> str | None:
    """Remove the worktree of a worker by its rule; return why it stays, if it does."""
    tree = record.execution.get("worktree")
    if tree is None:
        return None
    try:
        place = await find_worktree(tree["repo"], record.id)
        return None if place is None else await clean_up(place, tree["cleanup"])
    except ConfigError as error:  # the work is done: a folder that stays is no failure of it
        log.warning("the worktree of worker %s stays: %s", record.id, error)
        return str(error)


# --------------------------------------------------------------------------- a run


async def begin_run(scope: WorkerScope, state: WorkerState) -> Start:
    """Start the task of a worker, or go on with it where its journal ends."""
    record = state.record
    options = await place_worker(record, scope.live.options)
    if scope.live.graph is not None:
        number, goes_on = state.number, state.is_begun and record.resumes_workflow
        return await begin_graph(scope, state, number, state.task, goes_on=goes_on)
    plan = build_plan(scope, record, options)
    if state.is_begun:
        return await resume_run(await build_request(scope, state, plan), state.key)
    assigned = state.assigned
    number = record.number if assigned is None else assigned.number
    plan.metadata = {**(plan.metadata or {}), TASK_KEY: {"number": number, "task": state.task}}
    request = await build_request(scope, state, plan)
    if assigned is None:
        prompt = build_prompt(record.task, record.artifacts, record.output_kinds)
    else:
        prompt = build_prompt(state.task, as_list((assigned.payload or {}).get("artifacts")))
    transcript = record.transcript if number == 1 else None
    messages = parse_run_input(prompt, None, transcript, state.key, DOOR)
    return await driver.start(request, messages, state.key, on_pending="discard")


async def begin_graph(
    scope: WorkerScope, state: WorkerState, number: int, task: str, *, goes_on: bool = False
) -> Start:
    """Start the workflow of a worker on its session, or go on with it."""
    record = state.record
    options = await place_worker(record, scope.live.options)
    graph = GraphRun(scope.live.graph, options, task, record.artifacts)
    plan = graph.plan
    plan.name = record.name or plan.name
    plan.metadata = {**(plan.metadata or {}), TASK_KEY: {"number": number, "task": task}}
    request = await build_request(scope, state, plan)
    if goes_on:
        graph.check(state.entries_of_task)
        begun = await resume_run(request, state.key)
    else:
        messages = parse_run_prompt(graph.prompt, state.key)
        begun = await driver.start(request, messages, state.key, on_pending="discard")
    graph.enter(begun)
    return begun


async def drive_worker(scope: WorkerScope, worker_id: str, begun: Start | None = None) -> None:
    """Run the task of a worker to its end, or until it is parked; put its end on record."""
    state: WorkerState | None = None
    try:
        state = await _read_for(scope, worker_id, begun)
        if begun is None:
            if state.stopped is not None or state.settled is not None:
                return
            begun = await begin_run(scope, state)
        begun.parks, begun.agent = True, scope.live
        number = await read_number(scope.home, state.record, state.key)
        _show(scope, state, "running")
        outcome = await conduct(begun, scope.environment, leave=scope.live.leave)
        if outcome.status == "suspended":
            _show(scope, state, "suspended")
            await _rest(scope, worker_id, number)
            return
        seams.point("worker.run_ended")
        state = await read_worker(scope.home, worker_id)
        if scope.live.graph is not None:
            told = TaskOutcome.of_workflow(WorkflowResult(begun.run, outcome))
        else:
            told = TaskOutcome.of_result(LoopResult(begun.run, outcome), scope.live.options)
        await settle(scope, state, told)
    except SessionHeld:
        pass  # another process drives it
    except StaleWriter as error:
        scope.live.failure = error
    except Exception as error:
        if not isinstance(error, WindlassError):
            log.exception("worker %s failed", worker_id)
        scope.live.failure = error
        if state is not None:
            await _settle_failed(scope, state, error)


async def _rest(scope: WorkerScope, worker_id: str, number: int | None) -> None:
    """Let the wish of a worker that was parked wait with it, unless another process is to go on."""
    if number is None:
        return
    seams.point("worker.parked")
    state = await read_worker(scope.home, worker_id)
    if state.status == "suspended":
        await rest(scope.home, state.key, number, handed_over=state.is_handed_over)


async def _read_for(scope: WorkerScope, worker_id: str, begun: Start | None) -> WorkerState:
    """Read the worker; let its session go where that fails, for nobody else would."""
    try:
        return await read_worker(scope.home, worker_id)
    except BaseException:
        if begun is not None:
            await begun.run.journal.close()
        raise


def _show(scope: WorkerScope, state: WorkerState, status: str) -> None:
    record = state.record
    scope.show(WorkerUpdate(record.id, status, record.name, state.number, at=seams.now()))


# --------------------------------------------------------------------------- the end of a task


class TaskOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the run of a task ended: as its result says, or its journal alone."""

    status: str
    stop_reason: str | None
    error: JsonObject | None
    text: str
    asks: bool  # for a value
    data: object
    usage: Usage
    cost_usd: float
    budget_exceeded: bool
    run_id: str | None

    @classmethod
    def of_result(cls, result: LoopResult, options: JsonObject) -> TaskOutcome:
        """Read the result of a run."""
        asks = OutputOptions.read(options).asks
        return cls(
            status=result.status,
            stop_reason=result.stop_reason,
            error=result.error,
            text=result.final_text,
            asks=asks,
            data=result.data if asks else None,
            usage=result.usage,
            cost_usd=result.cost_usd,
            budget_exceeded=result.budget_exceeded,
            run_id=result.run_id,
        )

    @classmethod
    def of_workflow(cls, result: WorkflowResult) -> TaskOutcome:
        """Read the result of a workflow."""
        output = result.output
        return cls(
            status=result.status,
            stop_reason=result.stop_reason,
            error=result.error,
            text=result.final_text,
            asks=False,
            data=None if isinstance(output, str) else output,
            usage=result.usage,
            cost_usd=result.cost_usd,
            budget_exceeded=result.budget_exceeded,
            run_id=result.run_id,
        )

    @classmethod
    def of_journal(cls, state: WorkerState) -> TaskOutcome:
        """Read the journal of a run, in a process that has none of its code."""
        ended, entries = state.ended, state.entries_of_task
        usage, usd = paid_in(entries)
        finish = read_finish(entries)
        said = [e.message.text for e in entries if type(e) is Replied and e.purpose is None]
        text = str(finish.get("text") or "") if finish else said[-1] if said else ""
        asks = OutputOptions.read(state.record.options).asks
        return cls(
            status="failed" if ended is None else ended.status,
            stop_reason=None if ended is None else ended.stop_reason,
            error=None if ended is None else ended.error,
            text=text,
            asks=asks,
            data=finish.get("data") if finish else _read_json(text) if asks else None,
            usage=usage,
            cost_usd=usd,
            budget_exceeded=ended is not None and ended.status == "budget_exhausted",
            run_id=None if state.run is None else state.run.run_id,
        )


def _read_json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


async def settle(scope: WorkerScope, state: WorkerState, outcome: TaskOutcome) -> None:
    """Put on record what came of a task, once; then leave its folder by its rule."""
    if state.settled is not None:
        return
    record = state.record
    entries: list[JournalEntry] = []
    patch = await _write_patch(state)
    if patch is not None:
        entries.append(patch)
    entries += _write_outputs(state, outcome)
    entries += _copy_artifacts(state)
    made = read_artifacts([*state.entries, *entries], state.key)
    status = status_of(outcome.status, record)
    payload = _build_payload(outcome, [one.id for one in made], state.key)
    if record.mode == "graph":
        payload["stages"] = [_describe_stage(one) for one in list_stages(state.entries_of_task)]
    update = WorkerUpdate(record.id, status, record.name, state.number, payload, seams.now())
    if record.transcript_mode == "compact" and status in ("completed", "awaiting"):
        entries += await _compact(state)
    if await append_entries(scope, state, [*entries, update]):
        scope.show(update)
    if status not in ("awaiting", "suspended"):
        await leave_place(record)


async def _settle_failed(scope: WorkerScope, state: WorkerState, error: Exception) -> None:
    """Put on record that a task could not begin or go on, and why."""
    record = state.record
    about = {"category": "worker", "kind": type(error).__name__, "message": error_text(error)}
    payload: JsonObject = {"status": "failed", "ok": False, "text": "", "error": about}
    update = WorkerUpdate(record.id, "failed", record.name, state.number, payload, seams.now())
    try:
        if await append_entries(scope, state, [update]):
            scope.show(update)
    except WindlassError:
        log.exception("the end of worker %s could not be put on record", record.id)


async def append_entries(
    scope: WorkerScope, state: WorkerState, entries: Sequence[JournalEntry]
) -> bool:
    """Append the end of a task to a journal that nobody writes; False if it is there already."""
    journal = await open_idle(scope.home, state.key)
    try:
        known = [entry for entry in journal.entries if type(entry) is WorkerUpdate]
        ends = {entry.number for entry in known if entry.status != "running"}
        if any([type(entry) is WorkerUpdate and entry.number in ends for entry in entries]):
            return False
        seams.point("worker.before_end")
        redact = scope.environment.redact
        await write_end(journal, state.record, [redact(entry) for entry in entries])
        return True
    finally:
        await journal.close()


async def open_idle(home: Store, key: str) -> Journal:
    """Become the writer of a session whose run has ended; wait a little for who lets it go."""
    for attempt in count():
        try:
            return await home.open(key, create=False)
        except SessionHeld:
            if attempt == _OPEN_TRIES:
                raise
            await seams.sleep(min(0.005 * 2**attempt, 0.25))
    raise AssertionError("unreachable")


def _build_payload(outcome: TaskOutcome, made: list[str], key: str) -> JsonObject:
    """Build what the parent reads of a task, without its transcript and artifacts."""
    data, status = outcome.data, outcome.status
    lacks = outcome.asks and data is None
    ok = status in ("done", "idle") and not lacks
    error = outcome.error
    if error is None and not ok:
        category = "invalid_output" if lacks and status == "done" else status
        error = {"category": category, "message": f"it ended as {status} ({outcome.stop_reason})"}
    payload: JsonObject = {
        "ok": ok,
        "status": status,
        "stop_reason": outcome.stop_reason,
        "text": outcome.text,
        "summary": outcome.text if data is None else msgspec.json.encode(data).decode(),
        "data": as_journaled(data, "the answer of a worker"),
        "error": error,
        "usage": msgspec.to_builtins(outcome.usage),
        "tokens_used": outcome.usage.total_tokens,
        "cost_usd": outcome.cost_usd,
        "budget_exceeded": outcome.budget_exceeded,
        "session_id": key,
        "run_id": outcome.run_id,
        "artifact_ids": made,
    }
    return payload


def _describe_stage(step: WorkflowStep) -> JsonObject:
    names = ("name", "kind", "status", "verdict", "reason", "session_id")
    return {"id": step.key, **{name: getattr(step, name) for name in names}}


def _copy_artifacts(state: WorkerState) -> list[JournalEntry]:
    """Return the artifacts that the steps of a workflow kept, for the record of the worker."""
    if state.record.mode != "graph":
        return []
    return [
        ArtifactWritten(one.id, one.kind, one.title, one.text, one.data, one.created_by)
        for step in list_stages(state.entries_of_task)
        for one in step.artifacts
    ]


def _write_outputs(state: WorkerState, outcome: TaskOutcome) -> list[JournalEntry]:
    """Make the final text an artifact of the first kind that is expected, where none was kept."""
    kinds = state.record.output_kinds
    made = {one.kind for one in read_artifacts(state.entries, state.key)}
    if not kinds or kinds[0] in made or outcome.status not in ("done", "idle"):
        return []
    name = state.record.name
    title = f"{kinds[0]} of task {state.number}"
    made_id = f"artifact_{digest_of([state.key, kinds[0], title])[:12]}"
    return [ArtifactWritten(made_id, kinds[0], title, outcome.text, None, name)]


async def _write_patch(state: WorkerState) -> ArtifactWritten | None:
    """Make an artifact of what the worker changed in its worktree."""
    record = state.record
    tree = record.execution.get("worktree")
    if tree is None:
        return None
    try:
        place = await find_worktree(tree["repo"], record.id)
        patch = "" if place is None else await build_patch(place)
    except GitFailed as error:
        log.warning("the changes of worker %s could not be read: %s", record.id, error)
        return None
    if not patch or place is None:
        return None
    made = f"artifact_{digest_of([state.key, 'patch', state.number])[:12]}"
    title = f"Changes on {place.branch} since {place.base[:12]}"
    return ArtifactWritten(made, "patch", title, patch, None, record.name)


async def _compact(state: WorkerState) -> list[JournalEntry]:
    """Make the conversation shorter before the next task inherits it."""
    before = messages_of(state.entries)
    shorter = await transcript_compact(transcript_of(state.entries), {"keep_last": 2})
    messages = read_transcript(shorter)[0]
    if len(messages) >= len(before):
        return []
    return [Reshaped(0, len(before), messages, "compaction")]

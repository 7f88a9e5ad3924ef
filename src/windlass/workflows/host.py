"""The run of a workflow: one session whose only call is the workflow, with a child session for each step.

The kernel drives it like any run, so that budgets, callers, approvals, cancelling, parking and resuming are
those of every run. Nobody asks a model: the call is put on record when the run begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from windlass import seams
from windlass.agents.subagent import ChildAgent, run_child
from windlass.engine import driver
from windlass.engine.active_runs import DETACHED
from windlass.engine.assemble import assemble, parse_loop_options
from windlass.engine.children import read_calls_below
from windlass.engine.decisions import check_answers
from windlass.engine.driver import RunRequest, Start, conduct
from windlass.engine.environment import current_environment
from windlass.engine.input import parse_run_prompt
from windlass.engine.limit_options import LimitOptions, check_budget
from windlass.engine.ownership import find_session
from windlass.engine.results import AgentResult
from windlass.engine.resume import resume_run
from windlass.engine.run_options import RunOptions
from windlass.errors import ConfigError, NoSuchSession, StoreError, WorkflowChanged, safe_repr
from windlass.events import IterationStart, JournalEntry, Noted, Replied
from windlass.identifiers import child_session_id
from windlass.json_types import JsonObject, as_object, is_sequence
from windlass.loop.inbox import take_item, wait_for_mail
from windlass.loop.kernel import Stage
from windlass.loop.ledger import NO_LIMITS
from windlass.loop.plan import BUDGET, Plan, as_journaled, create_plan
from windlass.loop.policy import Policy
from windlass.loop.resume import Standing, standing
from windlass.loop.resume_input import Allow, Deny
from windlass.loop.run import Run
from windlass.loop.turn import Turn, turn_of
from windlass.loop.verdict import Stop
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.models.base import Emit, Model, Request, Response
from windlass.observe.callbacks import CallbackOptions, sinks_of
from windlass.options.checks import number
from windlass.options.index import NAMES
from windlass.options.parse import unknown_option
from windlass.store.base import InboxItem
from windlass.tools.tool import Parked, Tool, ToolContext
from windlass.usage import NO_USAGE, Usage
from windlass.workflows.labels import bind_agent, collect_labels, find_labels
from windlass.workflows.result import WorkflowResult
from windlass.workflows.steps import FINISHED, StepLog, WorkflowStep, read_steps

DOOR: Final = "workflow"
#: The key of a run's metadata that says which workflow it is of, and what it was given.
RECORD: Final = "workflow"
ARCHIVED: Final = "transcript_archive"
UNARCHIVED: Final = "transcript_resume"
MAX_STEPS: Final = 100
MAX_PARALLEL: Final = 8
#: Options of the whole: they are the run's of the workflow, and of no step.
_OF_THE_RUN: Final = frozenset(RunOptions.__struct_fields__) | {
    "on_event",
    "budget",
    "token_budget",
    "max_resume_attempts",
}
#: Options that bind all steps, whatever these say themselves.
_BINDING: Final = frozenset(("policy", "permissions", "approval_policy"))
_PLACE: Final = frozenset(("workspace", "mounts"))
#: The options of a workflow that is a function; its agents have options of their own.
OF_FUNCTIONS: Final = _OF_THE_RUN | _BINDING | {"max_steps", "max_parallel"}
_OWN: Final = ("max_steps", "max_parallel")
_WHOLE: Final = ("messages", "transcript")


class FlowEnd(msgspec.Struct, frozen=True):
    """How a workflow ended: its status, its output, and why."""

    status: str
    reason: str
    text: str = ""
    data: Any = None
    error: JsonObject | None = None


class Flow(Protocol):
    """A workflow, however it is written."""

    @property
    def name(self) -> str:
        """Its name on record."""
        ...

    def describe(self) -> JsonObject:
        """Return what a resume needs beside the code, as plain data."""
        ...

    def check(self, record: JsonObject, steps: Sequence[WorkflowStep]) -> None:
        """Raise `WorkflowChanged` if the steps on record are not those of this workflow."""
        ...

    def prepare(self, defaults: Mapping[str, Any]) -> None:
        """Raise `ConfigError` for what could not run, with these options as defaults of its steps."""
        ...

    def build_prompt(self) -> str:
        """Return the first message of its session."""
        ...

    def list_words(self) -> list[str]:
        """List the texts of whoever wrote the task and the workflow, which flow control trusts."""
        ...

    async def carry_out(self, host: StepHost) -> FlowEnd | Parked:
        """Run the steps that are not over yet."""
        ...


def check_names(given: Iterable[str], door: str) -> None:
    """Refuse names that are no options of a workflow."""
    known = (NAMES["loop"] | {"system", *_OWN}) - set(_WHOLE)
    for name in given:
        if name not in known:
            raise unknown_option(name, known, door)


def drop_limits(options: Mapping[str, Any]) -> JsonObject:
    """Return the options of a workflow that hold for a resume: limits are those of the record."""
    return {n: one for n, one in options.items() if n not in ("budget", "max_steps", "session_id")}


def read_task(given: object) -> object:
    """Return the text of messages, as a fleet hands over what was submitted; other values as they are."""
    if not is_sequence(given) or not given:
        return given
    texts = [one.text for one in given if isinstance(one, Message)]
    return "\n\n".join(texts) if len(texts) == len(given) else given


class WorkflowArguments:
    """The options of a workflow's run, and the defaults of its steps."""

    def __init__(self, given: Mapping[str, Any], door: str) -> None:
        check_names(given, door)
        whole = number(1, whole=True)
        self.max_steps = int(whole("max_steps", given.get("max_steps", MAX_STEPS)))
        self.max_parallel = int(whole("max_parallel", given.get("max_parallel", MAX_PARALLEL)))
        loop = {name: value for name, value in given.items() if name not in _OWN}
        values = parse_loop_options(loop, door)
        self.environment = current_environment()
        self.run = RunOptions.read(values)
        self.limits = LimitOptions.read(
            {name: one for name, one in values.items() if name in _OF_THE_RUN}
        )
        self.sinks = sinks_of(CallbackOptions.read(values).on_event)
        apart = _OF_THE_RUN | _BINDING
        self.defaults: JsonObject = {n: one for n, one in loop.items() if n not in apart}
        self._binding = {n: one for n, one in values.items() if n in _BINDING | _PLACE}
        place = self.run.store
        environment = self.environment
        self.store = environment.store if place is None else environment.store_at(place)

    def build_plan(self, flow: Flow, tool: Tool, record: JsonObject) -> Plan:
        """Build the plan of the run: its only tool is the workflow."""
        policies: list[Policy[Any]] = []
        if not _BINDING.isdisjoint(self._binding):
            bound = assemble({**self._binding, "model": FlowModel(flow.name)}, None, "agent_loop")
            policies += [ForSteps(policy) for policy in bound.policies]
        limits = msgspec.structs.replace(self.limits.build(NO_LIMITS), iterations=None)
        metadata: JsonObject = {RECORD: record}
        if said := self.limits.collect_limits():
            metadata[BUDGET] = said
        return create_plan(
            FlowModel(flow.name),
            door=DOOR,
            name=flow.name,
            tools=(tool,),
            policies=(*policies, WorkflowEnd()),
            limits=limits,
            # the seconds of steps side by side are not added up
            concurrency=self.max_parallel + 1,
            eager=False,
            tool_timeout=None,
            metadata=metadata,
            resume_attempts=self.limits.max_resume_attempts,
        )

    def build_request(self, plan: Plan) -> RunRequest:
        """Build the request for the driver."""
        run = self.run
        return RunRequest(
            plan=plan,
            environment=self.environment,
            store=self.store,
            caller=run.caller,
            deps=run.deps,
            sinks=self.sinks,
            run_id=run.run_id,
            request_id=run.request_id,
            conversation_id=run.conversation_id,
            take_over=run.take_over,
        )


class StepHost:
    """What a workflow runs its steps with: the log, the run, and the answers of a resume."""

    def __init__(
        self, log: StepLog, ctx: ToolContext[Any], call: WorkflowCall, words: Sequence[str]
    ) -> None:
        self._words = words  # of whoever wrote the task and the workflow
        self.log, self.run, self.arguments = log, log.run, call.arguments
        self._ctx, self._call = ctx, call
        self._under_way: set[str] = set()  # sessions of steps
        self._touched: dict[int, dict[str, str]] = {}  # by steps of this process

    async def run_session(
        self, step: WorkflowStep, agent: ChildAgent, task: str | Sequence[Message]
    ) -> AgentResult[Any] | None:
        """Run an agent for a step, or go on with its session; None if it stays parked."""
        if step.number in self._call.left_alone or self._find_suspend() is not None:
            return None
        run, ctx = self.run, self._ctx
        inner: ToolContext[Any] = ToolContext(
            ctx.deps,
            ctx.caller,
            ctx.session_id,
            ctx.run_id,
            self.log.name_call(step),
            step.name,
            run,
            step.attempt,
        )
        child_id = self.log.name_session(step)
        before = collect_labels(step, self.log.steps)
        agent = bind_agent(agent, before, self._words, self.arguments.defaults)
        self._under_way.add(child_id)
        try:
            result = await run_child(agent, task, inner, child_id)
        finally:
            self._under_way.discard(child_id)
        if result.status == "suspended":
            return None
        self._touched[step.number] = find_labels(result)
        return result

    async def end(self, step: WorkflowStep) -> WorkflowStep:
        """Record how a step ended, with what it and those before it have touched."""
        labels = {**self._touched.get(step.number, {}), **collect_labels(step, self.log.steps)}
        return await self.log.end(msgspec.structs.replace(step, labels=labels))

    async def pass_on_suspend(self) -> None:
        """Once somebody suspends the workflow, have the steps under way park before their next turn."""
        while (item := self._find_suspend()) is None:
            await wait_for_mail(self.run, None)
        for child_id in list(self._under_way):
            try:
                await self.run.store.post(child_id, "suspend", item.payload)
            except NoSuchSession:
                continue  # it has not begun

    def _find_suspend(self) -> InboxItem | None:
        return next((item for item in self.run.journal.mail if item.kind == "suspend"), None)

    def park(self, steps: Sequence[WorkflowStep]) -> Parked:
        """Build what parks the workflow while these steps wait."""
        reason = f"waiting for {', '.join([step.name for step in steps])}"
        if (item := self._find_suspend()) is not None:
            reason = str(item.fields.get("reason") or reason)
            take_item(self.run, item)
        return Parked(reason)


class WorkflowCall:
    """One run of a workflow in this process: begun, or gone on with."""

    def __init__(self, arguments: WorkflowArguments) -> None:
        self.arguments = arguments
        self.left_alone: frozenset[int] = frozenset()
        self._raised: BaseException | None = None

    async def begin(self, flow: Flow) -> WorkflowResult:
        """Begin a run of the workflow; one that was killed on the same session goes on."""
        arguments = self.arguments
        flow.prepare(arguments.defaults)
        run = arguments.run
        session_id = run.session_id or seams.new_id(DOOR)
        record = as_journaled(flow.describe(), "what a workflow is given")
        if run.session_id is not None and await self._was_killed(flow, session_id, record):
            return await self.resume(flow, session_id)
        prompt = parse_run_prompt(flow.build_prompt(), session_id)
        request = self.build_request(flow, record)
        begun = await driver.start(request, prompt, session_id, on_pending=run.on_pending)
        return await self._drive(begun, flow)

    async def _was_killed(self, flow: Flow, session_id: str, record: JsonObject) -> bool:
        """Check whether the session has a run of this workflow that its process left."""
        try:
            entries = await self._read(session_id)
        except NoSuchSession:
            return False
        _refuse_archived(entries, session_id)
        state = standing(entries)
        if not state.unfinished or state.parked:
            return False
        known = _read_record(state.run.metadata if state.run else None)
        if known.get("name") != record["name"]:
            return False
        if known.get("input") != self.arguments.environment.redact(record["input"]):
            raise ConfigError(
                f"session {session_id!r} has a run of {flow.name!r} under way with another input; "
                "resume it, or give another session_id"
            )
        return True

    async def resume(
        self,
        flow: Flow,
        session_id: str,
        *,
        decisions: Mapping[str, Allow | Deny | bool] | None = None,
        results: Mapping[str, Any] | None = None,
        budget: object = None,
    ) -> WorkflowResult:
        """Go on with a run of the workflow that was parked or killed; what is over stays."""
        check_answers(decisions, results)
        arguments = self.arguments
        entries = await self._read(session_id)
        _refuse_archived(entries, session_id)
        state = standing(entries)
        record = _read_record(state.run.metadata if state.run else None)
        if record.get("name") != flow.name:
            raise ConfigError(
                f"session {session_id!r} is no run of the workflow {flow.name!r}, but of "
                f"{safe_repr(record.get('name') or (state.run and state.run.name))}"
            )
        steps = read_steps(entries[state.first_entry :])
        if state.unfinished:
            flow.check(record, steps)
        flow.prepare(arguments.defaults)
        key = await self._find(session_id)
        given = [*(decisions or ()), *(results or ())]
        self.left_alone = await self._find_left_alone(key, state, steps, given)
        limits = check_budget("budget", budget)
        request = self.build_request(flow, record)
        begun = await resume_run(request, key, decisions=decisions, results=results, budget=limits)
        return await self._drive(begun, flow)

    async def _find_left_alone(
        self, key: str, state: Standing, steps: Sequence[WorkflowStep], given: Sequence[str]
    ) -> frozenset[int]:
        """Find the parked steps that stay as they are: answers were given, and none to them.

        They may wait for something else, which a resume would end.
        """
        if not given or state.turn is None:
            return frozenset()
        store = self.arguments.store
        below = await read_calls_below(store, key, state.turn)
        meant = [one.session_id for one in below if any([one.is_meant_by(name) for name in given])]
        call_id, alone = state.turn.calls[0].id, list[int]()
        for step in steps:
            child_id = child_session_id(key, f"{call_id}.{step.number}")
            if step.is_over or any([f"{one}.".startswith(f"{child_id}.") for one in meant]):
                continue
            try:
                if standing(await store.read(child_id)).parked:
                    alone.append(step.number)
            except NoSuchSession:
                continue  # it was about to begin
        return frozenset(alone)

    async def read_record(self, session_id: str) -> JsonObject:
        """Return what the last run of a session was given, if it is one of a workflow."""
        run = standing(await self._read(session_id)).run
        if run is None:
            raise NoSuchSession(f"session {session_id!r} has never run: start it with a task")
        return _read_record(run.metadata)

    async def _find(self, session_id: str) -> str:
        arguments = self.arguments
        caller, environment = arguments.run.caller, arguments.environment
        return await find_session(arguments.store, session_id, caller, environment, "resume")

    async def _read(self, session_id: str) -> Sequence[JournalEntry]:
        return await self.arguments.store.read(await self._find(session_id))

    def build_request(self, flow: Flow, record: JsonObject) -> RunRequest:
        """Build the request of a run whose only tool carries the workflow out."""

        async def handle(args: JsonObject, ctx: ToolContext[Any]) -> ToolResult | Parked:
            assert isinstance(ctx.scope, Run)
            log = StepLog(ctx.scope, ctx.call_id)
            return await self._carry_out(flow, StepHost(log, ctx, self, flow.list_words()))

        tool = Tool(DOOR, f"Carry out {flow.name}.", {}, handle, keyed=True, kind="agent")
        arguments = self.arguments
        return arguments.build_request(arguments.build_plan(flow, tool, record))

    async def _carry_out(self, flow: Flow, host: StepHost) -> ToolResult | Parked:
        watching = asyncio.ensure_future(host.pass_on_suspend())
        try:
            end = await flow.carry_out(host)
        except (WorkflowChanged, StoreError) as error:
            # The run is left as it is, for the code that it was begun with, or another time.
            self._raised = error
            host.run.interrupt(DETACHED)
            await asyncio.Event().wait()  # until it is interrupted
            raise
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if isinstance(end, Parked):
            return end
        host.run.note(FINISHED, as_journaled(end, f"the output of {flow.name!r}"))
        failed = end.status != "done"
        return ToolResult(content=end.text, is_error=failed, outcome="error" if failed else "ok")

    async def _drive(self, begun: Start, flow: Flow) -> WorkflowResult:
        arguments = self.arguments
        enter_workflow(begun, flow.name)
        begun.parks = arguments.run.on_cancel == "park"
        outcome = await conduct(begun, arguments.environment, abort=arguments.run.abort)
        if self._raised is not None:
            raise self._raised
        return WorkflowResult(begun.run, outcome)


def _refuse_archived(entries: Sequence[JournalEntry], session_id: str) -> None:
    for entry in reversed(entries):
        if type(entry) is Noted and entry.name in (ARCHIVED, UNARCHIVED):
            if entry.name == ARCHIVED:
                raise ConfigError(
                    f"session {session_id!r} is archived: workflow_session_resume opens it again"
                )
            return


def _read_record(metadata: Mapping[str, Any] | None) -> JsonObject:
    return as_object((metadata or {}).get(RECORD))


def find_workflow(entries: Sequence[JournalEntry]) -> str | None:
    """Return the name of the workflow that the last run of a session is one of, or None."""
    run = standing(entries).run
    name = _read_record(run.metadata if run is not None else None).get("name")
    return name if isinstance(name, str) else None


def enter_workflow(begun: Start, name: str) -> None:
    """Put the call of the workflow on record, as the reply that the run begins with."""
    run = begun.run
    if begun.outcome is not None or begun.at > Stage.ASK:
        return
    if any([type(entry) is Replied for entry in run.own_entries]):
        return
    taken, at = run.calls.ids, 1
    while f"w{at}" in taken:
        at += 1
    run.calls.ids.add(f"w{at}")
    message = Message("assistant", (ToolCall(f"w{at}", DOOR, {}),))
    if begun.at is Stage.OPEN:
        run.record(IterationStart(1))
    position, frame = len(run.view.strand.items), run.view.frame_digest
    run.record(Replied(message, NO_USAGE, "tool_use", DOOR, name, position, frame))
    run.view.strand.append(message)
    run.number = run.iteration = run.ledger.iterations = 1
    run.turn = turn_of(1, message, "tool_use")
    begun.at = Stage.CHECK


class FlowModel(Model):
    """The model of a workflow's own run, which is never asked anything."""

    provider = DOOR

    def __init__(self, name: str) -> None:
        self.name = name

    def price(self, usage: Usage) -> float:
        """Return 0: it is free."""
        return 0.0

    async def respond(self, request: Request, emit: Emit) -> Response:
        """End the run, should anybody ask."""
        return Response(Message("assistant", (Text(""),)))


class WorkflowEnd(Policy[None]):
    """The policy that ends the run with the outcome of the workflow."""

    @property
    def name(self) -> str:
        return "workflow_end"

    async def before_turn(self, run: Run) -> Stop | None:
        """End a run whose workflow is over."""
        return _find_end(run)

    async def after_turn(self, run: Run, turn: Turn) -> Stop:
        """End the run with the outcome on record."""
        stop = _find_end(run)
        if stop is None:
            shown = turn.answers[0].text if turn.answers else "the workflow has no outcome"
            return Stop("failed", "error", {"category": "workflow", "message": shown})
        last = run.messages[-1] if len(run.messages) else None
        text = str(read_finish(run.own_entries).get("text") or "")
        if text and (last is None or last.role != "assistant"):
            run.hear(Message("assistant", (Text(text),)))
        return stop


def read_finish(entries: Sequence[JournalEntry]) -> JsonObject:
    """Return the outcome of a workflow that its journal has, or nothing."""
    for entry in reversed(entries):
        if type(entry) is Noted and entry.name == FINISHED:
            return as_object(entry.data)
    return {}


def _find_end(run: Run) -> Stop | None:
    found = read_finish(run.own_entries)
    if not found:
        return None
    return Stop(str(found["status"]), str(found["reason"]), found.get("error"))


class ForSteps(Policy[None]):
    """A rule that binds the steps of a workflow, and not the workflow's own call."""

    def __init__(self, rule: Policy[Any]) -> None:
        self._rule = rule

    @property
    def name(self) -> str:
        return self._rule.name

    def for_child(self, run: Run) -> Policy[Any] | None:
        """Return the rule for the session of a step."""
        return self._rule.for_child(run)

    def as_record(self) -> JsonObject | None:
        """Return the rule as plain data."""
        return self._rule.as_record()

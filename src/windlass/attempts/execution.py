"""Executions: run a defined agent until an output passes, or go on with one that was interrupted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast

from windlass.access.caller import Caller
from windlass.agents.agent import Agent
from windlass.attempts.definition import AgentDefinition
from windlass.attempts.history import AttemptHistory
from windlass.attempts.result import (
    AgentErrorCode,
    ExecutionMetadata,
    Failure,
    FailureContext,
    Phase,
    Success,
)
from windlass.attempts.state import CALLBACKS, ExecuteCallbacks, Execution
from windlass.engine import driver
from windlass.engine.decisions import check_answers
from windlass.engine.driver import RunRequest, Start, conduct
from windlass.engine.environment import current_environment
from windlass.engine.input import parse_run_prompt
from windlass.engine.limit_options import check_budget
from windlass.engine.ownership import find_session
from windlass.engine.results import AgentResult
from windlass.engine.resume import resume_run
from windlass.engine.run_options import RunOptions
from windlass.errors import ConfigError, safe_repr
from windlass.events import Event
from windlass.json_types import as_given, is_sequence
from windlass.loop.abort import Abort
from windlass.loop.resume_input import Allow, Deny
from windlass.loop.sinks import Watcher
from windlass.observe.callbacks import CallbackOptions
from windlass.options.parse import check_given, check_option, unknown_option
from windlass.output.error import WITHOUT_OUTPUT
from windlass.store.base import Store
from windlass.tools.render import to_text
from windlass.usage import NO_USAGE

if TYPE_CHECKING:
    from typing import Literal

    from windlass.json_types import JsonObject
    from windlass.loop.ledger import Budget

Output = TypeVar("Output")
_SKIPPED: Final = ("abort", "deps", "messages")
_NAMED: Final = ("abort", "budget", "deps", "timeout")
_OF_RESUME: Final = frozenset(("caller", "on_cancel", "on_event", "store", "take_over"))
_OF_EXECUTE: Final = _OF_RESUME | {
    name for name in RunOptions.__struct_fields__ if name not in _SKIPPED
}


class ResumeExecutionKeywords(ExecuteCallbacks, total=False):
    """What `resume_execution` takes by name, beside its named arguments."""

    caller: Caller | None
    on_cancel: Literal["cancel", "park"]
    on_event: Callable[[Event], object] | None
    store: str | os.PathLike[str] | Store | None
    take_over: bool


class ExecuteKeywords(ResumeExecutionKeywords, total=False):
    """What `execute_agent` takes by name, beside its named arguments."""

    conversation_id: str | None
    on_pending: Literal["keep", "discard"]
    request_id: str | None
    run_id: str | None
    session_id: str | None


async def execute_agent(
    agent: AgentDefinition[Output],
    input: object = None,
    *,
    deps: object = None,
    abort: Abort | None = None,
    budget: Budget | JsonObject | None = None,
    timeout: float | None = None,
    **options: Unpack[ExecuteKeywords],
) -> Success[Output] | Failure:
    """Run a defined agent until an output passes its schema and its validators.

    ```python
    match await w.execute_agent(invoice, mail):
        case w.Success(output):
            print(output.total)
        case w.Failure(code, message):
            print(code, message)
    ```
    The whole execution is one run on one session: budgets, approvals and traces count all its
    attempts, and `resume_execution` goes on with one that was parked or killed.
    """
    call = _Call(agent, options, "execute_agent", _OF_EXECUTE, deps, abort, timeout)
    if budget is not None:
        call.agent = call.agent.with_(budget=budget)
    if call.abort is not None and call.abort.aborted:
        return call.cancel(call.abort.reason or "aborted")
    prompt = await _build_prompt(agent, input)
    execution = call.build_execution(given=input)
    session_id = call.run.session_id
    request = await call.build_request(execution, session_id, None)
    messages = parse_run_prompt(prompt, session_id)
    begun = await driver.start(request, messages, session_id, on_pending=call.run.on_pending)
    return await call.drive(begun, execution)


async def resume_execution(
    agent: AgentDefinition[Output],
    session_id: str,
    *,
    input: object = None,
    decisions: Mapping[str, Allow | Deny | bool] | None = None,
    results: Mapping[str, object] | None = None,
    deps: object = None,
    abort: Abort | None = None,
    budget: Budget | JsonObject | None = None,
    timeout: float | None = None,
    **options: Unpack[ResumeExecutionKeywords],
) -> Success[Output] | Failure:
    """Go on with an execution that was parked or killed, from this or any other process.

    ```python
    outcome = await w.resume_execution(invoice, session_id, decisions={call_id: w.Allow()})
    ```
    It goes on in the attempt that its session ends in; one that has ended stays as it ended. The
    prompt is not built again: `input` is for validators and callbacks that read `state.input`.
    """
    call = _Call(agent, options, "resume_execution", _OF_RESUME, deps, abort, timeout)
    if not isinstance(as_given(session_id), str):
        raise ConfigError(f"session_id is a text, not {safe_repr(session_id)}")
    check_answers(decisions, results)
    store = call.store or call.environment.store
    caller = call.run.caller
    key = await find_session(store, session_id, caller, call.environment, "resume")
    execution = call.build_execution(given=input, resumed=True)
    request = await call.build_request(execution, key, store)
    limits = check_budget("budget", budget)
    begun = await resume_run(request, key, decisions=decisions, results=results, budget=limits)
    return await call.drive(begun, execution)


async def _build_prompt(agent: AgentDefinition[Any], given: object) -> object:
    """Build the prompt of an execution from its input, once."""
    if agent.prompt is None:
        return given if isinstance(given, str) or is_sequence(given) else to_text(given)
    prompt = agent.prompt(given)
    return await prompt if isawaitable(prompt) else prompt


class _Call:
    """The arguments of an execution, with those of its definition as defaults."""

    def __init__(
        self,
        definition: AgentDefinition[Any],
        options: Mapping[str, Any],
        door: str,
        known: frozenset[str],
        deps: object,
        abort: Abort | None,
        timeout: float | None,
    ) -> None:
        if not isinstance(as_given(definition), AgentDefinition):
            raise ConfigError(
                f"{door} takes what define_agent returns, not {safe_repr(definition)}"
            )
        self.definition, self.environment = definition, current_environment()
        self.callbacks = _read_callbacks(options)
        given = {name: value for name, value in options.items() if name not in CALLBACKS}
        for name in given:
            if name not in known:
                raise unknown_option(name, (*known, *CALLBACKS, *_NAMED), door)
        check_given(given, known)
        if abort is not None:
            check_option("abort", abort)
        self.agent: Agent[Any, Any] = definition.agent_in(self.environment)
        own = {
            **self.agent.options,
            **{name: one for name, one in given.items() if one is not None},
        }
        self.run = RunOptions.read(own)
        self.deps = self.run.deps if deps is None else deps
        self.abort = self.run.abort if abort is None else abort
        self.on_event = CallbackOptions.read(own).on_event
        self.timeout = check_option("timeout", timeout)
        place = self.run.store
        self.store = None if place is None else self.environment.store_at(place)

    def build_execution(self, *, given: object, resumed: bool = False) -> Execution:
        """Build the state of the execution in this process."""
        return self.definition.build_execution(self.callbacks, given=given, resumed=resumed)

    async def build_request(
        self, execution: Execution, session_id: str | None, going_on: Store | None
    ) -> RunRequest:
        """Build the request for the driver."""
        run = self.run
        plan = await self.agent.plan_for(self.deps, run.caller, session_id, going_on)
        watchers = [Watcher(execution.look)] if execution.callbacks else []
        if self.on_event is not None:
            watchers.append(Watcher(self.on_event))
        return RunRequest(
            plan=plan,
            environment=self.environment,
            store=self.store,
            caller=run.caller,
            deps=self.deps,
            sinks=watchers,
            take_over=run.take_over,
            run_id=run.run_id,
            request_id=run.request_id,
            conversation_id=run.conversation_id,
        )

    async def drive(self, begun: Start, execution: Execution) -> Success[Any] | Failure:
        """Drive the run to its end and read what came of it."""
        run = execution.run = begun.run
        run.cache[Execution] = execution
        begun.agent, begun.parks = self.agent, self.run.on_cancel == "park"
        outcome = await conduct(begun, self.environment, abort=self.abort, timeout=self.timeout)
        result: AgentResult[Any] = AgentResult(run, outcome)
        return _read_outcome(self.definition, execution, result, run.host.elapsed * 1000)

    def cancel(self, reason: str) -> Failure:
        """Return the end of an execution that was aborted before it began."""
        context = FailureContext(
            attempt=1,
            iteration_count=0,
            max_iterations=self.definition.max_iterations,
            phase="prompt",
            status="cancelled",
            stop_reason=reason,
        )
        nothing = NO_USAGE if self.definition.track_tokens else None
        metadata: ExecutionMetadata[object] = ExecutionMetadata(
            tokens=nothing,
            cost_usd=None if nothing is None else 0.0,
            latency_ms=0.0,
            callback_errors=(),
            attempts=(),
            session_id="",
        )
        code = AgentErrorCode.EXECUTION_CANCELLED
        return Failure(code, _describe_cancel(reason, "prompt"), context, metadata)


def _read_callbacks(options: Mapping[str, Any]) -> dict[str, Callable[..., object] | None]:
    callbacks = {name: options[name] for name in CALLBACKS if options.get(name) is not None}
    for name, callback in callbacks.items():
        if not callable(callback):
            raise ConfigError(f"{name} is a function, not {safe_repr(callback)}")
    return callbacks


#: The codes of ends that are not the policy's own, by the status of the run.
_BY_STATUS: Final = {
    "cancelled": AgentErrorCode.EXECUTION_CANCELLED,
    "cancelling": AgentErrorCode.EXECUTION_CANCELLED,
    "suspended": AgentErrorCode.SUSPENDED,
    "provider_error": AgentErrorCode.PROVIDER_ERROR,
    "budget_exhausted": AgentErrorCode.BUDGET_EXHAUSTED,
}
_BY_REASON: Final = {code.value.lower(): code for code in AgentErrorCode}


def _read_outcome(
    definition: AgentDefinition[Output],
    execution: Execution,
    result: AgentResult[Any],
    latency_ms: float,
) -> Success[Output] | Failure:
    """Read the outcome of the run as a success or a failure."""
    history = AttemptHistory(definition.output_tool).read(result.entries)
    tracked = definition.track_tokens
    metadata: ExecutionMetadata[Output] = ExecutionMetadata(
        tokens=result.usage if tracked else None,
        cost_usd=result.cost_usd if tracked else None,
        latency_ms=latency_ms,
        callback_errors=tuple(execution.errors),
        attempts=tuple([definition.read_attempt(each) for each in history.attempts]),
        session_id=result.session_id,
    )
    last = history.current
    if last is not None and last.is_over and not last.errors:
        if result.status not in WITHOUT_OUTPUT:
            return Success(cast("Output", metadata.attempts[-1].value), metadata)
    code = _BY_STATUS.get(result.status)
    if result.status == "failed":
        code = _BY_REASON.get(result.stop_reason or "")
    context = _build_context(definition, execution.phase, history, result)
    if code is None:
        code = AgentErrorCode.RUN_FAILED
    return Failure(code, _describe_end(code, context), context, metadata)


def _build_context(
    definition: AgentDefinition[Any],
    phase: Phase,
    history: AttemptHistory,
    result: AgentResult[Any],
) -> FailureContext:
    last = history.current
    if phase == "prompt" and last is not None:
        phase = "iteration"
    return FailureContext(
        attempt=last.number if last else 1,
        iteration_count=last.iterations if last else 0,
        max_iterations=definition.max_iterations,
        phase=phase,
        status=result.status,
        stop_reason=result.stop_reason,
        errors=tuple([each.errors for each in history.attempts if each.is_over]),
        pending=tuple(result.pending),
        error=result.error,
    )


def _describe_end(code: AgentErrorCode, context: FailureContext) -> str:
    """Say in a sentence why there is no output."""
    reason = context.stop_reason or context.status
    if context.error is not None and (message := context.error.get("message")):
        return str(message)
    if code is AgentErrorCode.EXECUTION_CANCELLED:
        return _describe_cancel(reason, context.phase)
    if code is AgentErrorCode.SUSPENDED:
        waiting = ", ".join([call.name for call in context.pending]) or reason
        return f"the execution waits for {waiting}: resume_execution goes on with it"
    return f"the run ended as {context.status} ({reason})"


def _describe_cancel(reason: str, phase: Phase) -> str:
    return f"the execution was cancelled in its {phase} phase: {reason}"

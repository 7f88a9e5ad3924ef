"""The loop behind a model API: `scope.models.generate` calls tools before it answers.

The tools are those of the Runtime that the caller may use; every call runs in the caller's name.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Unpack, cast

import msgspec

from windlass import errors
from windlass.access.caller import Caller
from windlass.engine import driver
from windlass.engine.assemble import assemble, parse_loop_options
from windlass.engine.driver import RunRequest, Start
from windlass.engine.environment import Environment
from windlass.engine.input import parse_run_prompt
from windlass.engine.results import LoopResult
from windlass.engine.resume import resume_run
from windlass.engine.run_options import AgentOptions, RunOptions
from windlass.engine.stream import RunStream
from windlass.errors import (
    BudgetExceeded,
    ConfigError,
    ToolFailed,
    WindlassError,
    nearest,
    safe_repr,
)
from windlass.events import Replied, TextDelta, ToolCallReady, ToolResulted
from windlass.generate.conversation import Keeper, conversation_of
from windlass.generate.options import GenerateOptions, parse_generate_options
from windlass.generate.policies import (
    NoFailure,
    ReturnCalls,
    ToolOutputCounts,
    ToolRounds,
)
from windlass.generate.resume import (
    DISCARDED,
    OF_THE_SESSION,
    Continuation,
    find_parked,
    read_continuation,
)
from windlass.json_types import JsonObject
from windlass.loop.ledger import Budget
from windlass.loop.plan import Plan
from windlass.loop.policy import Policy
from windlass.loop.resume_input import Allow, Deny
from windlass.loop.verdict import Outcome
from windlass.messages import ToolCall
from windlass.observe.callbacks import CallbackOptions, sinks_of
from windlass.options.signature import show_method_options
from windlass.policies.result_cap import ResultCapOptions
from windlass.usage import Usage

if TYPE_CHECKING:
    from windlass.engine.keyword_lists import take_generate_options
    from windlass.generate.keywords import GenerateOpts

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
_FINISHED: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}


class ToolTraceEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of `generate`: a reply, a tool call, or a result (`step.type`)."""

    type: Literal["assistant", "tool_call", "tool_result"]
    iteration: int
    content: str = ""
    tool: str | None = None
    call_id: str | None = None
    arguments: JsonObject | None = None
    outcome: str | None = None  # ok, error, denied, invalid, …
    duration_ms: float = 0.0
    usage: Usage | None = None
    cost_usd: float = 0.0


class GenerateResult(msgspec.Struct, frozen=True):
    """The result of `generate`: `out.content`, `out.usage`, `out.cost_usd`, `out.trace`, …"""

    content: str
    finish_reason: FinishReason
    usage: Usage
    tool_calls: tuple[ToolCall, ...] = ()  # with tool_mode="return": run them and ask again
    trace: tuple[ToolTraceEntry, ...] | None = None
    cost_usd: float = 0.0
    model: str | None = None
    session_id: str | None = None


class GenerateChunk(msgspec.Struct, frozen=True):
    """A piece of a streamed answer: `chunk.delta_content`, `chunk.delta_tool_calls`."""

    delta_content: str | None = None
    delta_tool_calls: tuple[ToolCall, ...] | None = None
    finish_reason: FinishReason | None = None
    trace: tuple[ToolTraceEntry, ...] | None = None
    """On the last piece, with `include_tool_trace`: every reply, call and result."""


class Models:
    """The model API of a Runtime: `await scope.models.generate("How many?", caller=ann)`."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def generate(self, input: Any, **options: Unpack[GenerateOpts]) -> GenerateResult:
        """Call a model and run tools until there is an answer; return a `GenerateResult`.

        ```python
        out = await scope.models.generate("Reorder what is short.", caller=ann, max_cost_usd=0.10)
        print(out.content, out.usage.output_tokens)
        ```
        Without `tools` the model has all tools that the caller may use. With `tool_mode="return"`
        no tool is run; the calls are in `out.tool_calls`. Raises `BudgetExceeded`, `Aborted`,
        `ToolFailed`, `GuardrailTripped`, `Suspended` or a `ModelError`, each with the `trace` so
        far.
        """
        if TYPE_CHECKING:
            take_generate_options(**options)
        await self._environment.connect_servers()
        with self._environment.as_current():
            asked = _GenerateRequest(self._environment, dict(options))
        begun = await asked.begin(input, sinks_of(asked.on_event))
        outcome = await driver.conduct(begun, self._environment, abort=asked.run.abort)
        return asked.answer(_result(begun, outcome))

    async def resume(
        self,
        session_id: str,
        /,
        *,
        decisions: Mapping[str, Allow | Deny | bool] | None = None,
        results: Mapping[str, Any] | None = None,
        **options: Unpack[GenerateOpts],
    ) -> GenerateResult:
        """Continue a `generate` that is parked or was killed, and return its result.

        ```python
        try:
            out = await scope.models.generate("Refund order 7.", caller=ann, approval_policy=rules)
        except w.Suspended as parked:
            yes = {call.id: w.Allow() for call in parked.pending}
            out = await scope.models.resume(parked.session_id, decisions=yes, caller=ann)
        ```
        Its conversation continues too. Options are those of `generate`: name the model and the
        tools again. Questions that were asked stay, whatever the rules are now.
        """
        if TYPE_CHECKING:
            take_generate_options(**options)
        found = await read_continuation(
            self._environment, session_id, decisions, results, dict(options)
        )
        await self._environment.connect_servers()
        with self._environment.as_current():
            asked = _GenerateRequest(self._environment, found.options, found)
        begun = await asked.go_on(sinks_of(asked.on_event))
        outcome = await driver.conduct(begun, self._environment, abort=asked.run.abort)
        return asked.answer(_result(begun, outcome))

    async def resume_stream(
        self,
        session_id: str,
        /,
        *,
        decisions: Mapping[str, Allow | Deny | bool] | None = None,
        results: Mapping[str, Any] | None = None,
        **options: Unpack[GenerateOpts],
    ) -> AsyncIterator[GenerateChunk]:
        """Resume and stream: `async for chunk in scope.models.resume_stream(id, caller=ann): …`"""
        if TYPE_CHECKING:
            take_generate_options(**options)
        found = await read_continuation(
            self._environment, session_id, decisions, results, dict(options)
        )
        await self._environment.connect_servers()
        with self._environment.as_current():
            asked = _GenerateRequest(self._environment, found.options, found)
        async with aclosing(self._pieces(asked, asked.go_on)) as pieces:
            async for chunk in pieces:
                yield chunk

    async def generate_stream(
        self, input: Any, **options: Unpack[GenerateOpts]
    ) -> AsyncIterator[GenerateChunk]:
        """Generate and stream: yield text and calls while the model writes, through all turns.

        ```python
        async for chunk in scope.models.generate_stream("Tell me.", caller=ann):
            print(chunk.delta_content or "", end="")
        ```
        A reader that stops early cancels the run. Errors are raised at the end.
        """
        if TYPE_CHECKING:
            take_generate_options(**options)
        await self._environment.connect_servers()
        with self._environment.as_current():
            asked = _GenerateRequest(self._environment, dict(options))
        pieces = self._pieces(asked, lambda sinks: asked.begin(input, sinks))
        async with aclosing(pieces):  # a reader that leaves cancels the run
            async for chunk in pieces:
                yield chunk

    async def _pieces(
        self, asked: _GenerateRequest, begin: Callable[[Sequence[Any]], Awaitable[Start]]
    ) -> AsyncGenerator[GenerateChunk]:
        sinks = sinks_of(asked.on_event)
        stream: RunStream[LoopResult] = RunStream(
            lambda pipe: begin((pipe, *sinks)),
            _result,
            self._environment,
            abort=asked.run.abort,
        )
        async with stream as run:
            streamed = False
            called: set[str] = set()
            async for event in run:
                if type(event) is TextDelta:
                    streamed = True
                    yield GenerateChunk(event.text)
                elif type(event) is ToolCallReady:
                    called.add(event.call.id)
                    yield GenerateChunk(delta_tool_calls=(event.call,))
                elif type(event) is Replied and event.purpose is None:
                    if not streamed and event.message.text:
                        yield GenerateChunk(event.message.text)
                    late = [one for one in event.message.tool_calls if one.id not in called]
                    if late:
                        yield GenerateChunk(delta_tool_calls=tuple(late))
                    streamed = False
                    called.clear()
            answer = asked.answer(await run.result())
            yield GenerateChunk(finish_reason=answer.finish_reason, trace=answer.trace)


show_method_options(
    Models,
    dict.fromkeys(
        ("generate", "generate_stream", "resume", "resume_stream"), "take_generate_options"
    ),
)


def _result(begun: Start, outcome: Outcome) -> LoopResult:
    return LoopResult(begun.run, outcome)


class _GenerateRequest:
    """One request: its checked options, the run that answers it, and the result."""

    def __init__(
        self, environment: Environment, given: JsonObject, found: Continuation | None = None
    ) -> None:
        own, loop = parse_generate_options(given)
        self.environment, self.own, self.given = environment, own, given
        self.loop = parse_loop_options(loop, "generate")
        self.run, self.on_event = (
            RunOptions.read(self.loop),
            CallbackOptions.read(self.loop).on_event,
        )
        self.caller = self.run.caller
        self.found = found
        self.keeper: Keeper | None = None if found is None else found.keeper
        if own.conversation is not None:
            self.keeper = Keeper(conversation_of(environment, own.conversation, self.caller))
        self.tools = self._tools(own.tools)
        self.plan = self._plan()

    def _tools(self, wanted: object) -> list[Any]:
        """Return all tools that the caller may use, or those named or given."""
        if self.own.returns and wanted is None:
            return []
        known = {tool.name: tool for tool in self.environment.tools(self.caller or Caller.local())}
        if wanted is None:
            return list(known.values())
        if isinstance(wanted, str) or not isinstance(wanted, Sequence):
            raise ConfigError(f"tools is a list of names or of tools, not {safe_repr(wanted)}")
        chosen: list[Any] = []
        for one in cast("Sequence[object]", wanted):
            if isinstance(one, str) and ":" not in one:
                if one not in known:
                    raise ConfigError(
                        f"the caller has no tool {one!r}{nearest(one, known)}"
                        if known
                        else f"the caller has no tool {one!r}: none is exported or allowed here"
                    )
                chosen.append(known[one])
            else:
                chosen.append(one)
        return chosen

    def _plan(self) -> Plan:
        own, loop = self.own, dict(self.loop)
        rounds = own.max_tool_iterations
        policies: list[Policy[Any]] = [*AgentOptions.read(loop).policies]
        policies.append(ReturnCalls() if own.returns else ToolRounds(rounds))
        if own.tool_error_mode == "abort":
            policies.append(NoFailure())
        if own.max_tokens is not None:
            policies.append(ToolOutputCounts(ResultCapOptions.read(loop).tool_result_max_bytes))
        if self.keeper is not None:
            policies.append(self.keeper)
        limits = Budget(tokens=own.max_tokens, usd=own.max_cost_usd)
        serial = own.tool_parallelism == "serial"
        typed = {
            **loop,
            "tools": self.tools,
            "policies": policies,
            "max_iterations": rounds + 1,
            "max_concurrent_tools": 1 if serial else 16,
            "budget": limits,
        }
        if own.max_output_tokens is not None:
            typed["max_tokens"] = own.max_output_tokens
        options = self.environment.with_defaults(parse_loop_options(typed, "generate"))
        return assemble(options, own.system, "generate")

    async def begin(self, input: Any, sinks: Sequence[Any]) -> Start:
        """Start the run that answers."""
        with self.environment.as_current():
            return await self._begin(input, sinks)

    async def _begin(self, input: Any, sinks: Sequence[Any]) -> Start:
        run = self.run
        messages = parse_run_prompt(input, run.session_id)
        if self.keeper is not None:
            before = await self.keeper.open_messages()
            if isinstance(input, str):
                if await self._waits(self.keeper.conversation.waits_for):
                    before = await self.keeper.open_messages()  # with what was discarded
                messages = (*before, *messages)
            else:
                self.keeper.before = 0  # a list is a history of its own
            self.plan.metadata = {**(self.plan.metadata or {}), **self.keeper.metadata}
        request = RunRequest(
            plan=self.plan,
            environment=self.environment,
            store=None if run.store is None else self.environment.store_at(run.store),
            caller=self.caller,
            deps=run.deps,
            sinks=sinks,
            run_id=run.run_id,
            request_id=run.request_id,
            conversation_id=self.keeper.conversation.id
            if self.keeper is not None
            else run.conversation_id,
            take_over=run.take_over,
        )
        begun = await driver.start(request, messages, run.session_id, on_pending=run.on_pending)
        begun.parks = run.on_cancel == "park"
        return begun

    async def _waits(self, session_id: str | None) -> bool:
        """Check whether the conversation has a parked run, which must be resumed or discarded."""
        if session_id is None:
            return False
        place = self.run.store
        home = self.environment.store if place is None else self.environment.store_at(place)
        parked = await find_parked(home, session_id)
        if parked is None:
            return False
        if self.run.on_pending != "discard":
            raise parked
        options = {n: v for n, v in self.given.items() if n not in OF_THE_SESSION}
        found = await read_continuation(self.environment, session_id, None, None, options)
        with self.environment.as_current():
            asked = _GenerateRequest(self.environment, found.options, found)
        await driver.conduct(await asked.go_on(()), self.environment, abort=DISCARDED)
        return True

    async def go_on(self, sinks: Sequence[Any]) -> Start:
        """Resume the run that was parked or killed."""
        found, run = self.found, self.run
        assert found is not None
        request = RunRequest(
            plan=self.plan,
            environment=self.environment,
            store=found.home,
            caller=found.given_caller,
            deps=run.deps,
            sinks=sinks,
            take_over=run.take_over,
        )
        begun = await resume_run(
            request, found.session_id, decisions=found.decisions, results=found.results
        )
        begun.parks = run.on_cancel == "park"
        return begun

    def answer(self, result: LoopResult) -> GenerateResult:
        """Build the result; raise, with all that happened, where there is no answer."""
        trace = trace_of(result)
        if result.status != "done":
            raise self._error(result, trace)
        replies = [e for e in result.entries if type(e) is Replied and e.purpose is None]
        last = replies[-1] if replies else None
        calls = last.message.tool_calls if last is not None and self.own.returns else ()
        return GenerateResult(
            last.message.text if last is not None else "",
            _FINISHED.get(last.stop_reason, "stop") if last is not None else "stop",
            result.usage,
            calls,
            trace if self.own.include_tool_trace else None,
            result.cost_usd,
            last.model if last is not None else None,
            result.session_id,
        )

    def _error(self, result: LoopResult, trace: tuple[ToolTraceEntry, ...]) -> WindlassError:
        error: WindlassError
        try:
            result.raise_for_status()
            error = errors.WindlassError(f"the run ended as {result.status}")
        except WindlassError as raised:
            error = raised
        if result.stop_reason == "tool_error":
            error = ToolFailed((result.error or {}).get("message") or "a tool failed")
        elif result.status == "budget_exhausted":
            error = BudgetExceeded(_describe_limit(result, self.own))
            error.limit = _name_limit(result)
        error.trace, error.session_id, error.status = trace, result.session_id, result.status
        return error


def _name_limit(result: LoopResult) -> str:
    """Return the caller's option whose limit was reached."""
    name = result.stop_reason or "a limit"
    return _LIMIT_OPTIONS.get(name, name)


def _describe_limit(result: LoopResult, own: GenerateOptions) -> str:
    name = _name_limit(result)
    allowed = getattr(own, name, None)
    return f"{name} is reached" if allowed is None else f"{name}={allowed} is reached"


_LIMIT_OPTIONS: Final = {
    "tokens": "max_tokens",
    "usd": "max_cost_usd",
    "iterations": "max_tool_iterations",
}


def trace_of(result: LoopResult) -> tuple[ToolTraceEntry, ...]:
    """Trace every turn of the model, every call and its result, in order."""
    trace: list[ToolTraceEntry] = []
    iteration = 0
    for entry in result.entries:
        if type(entry) is Replied and entry.purpose is None:
            iteration += 1
            trace += _reply_trace(entry, iteration)
        elif type(entry) is ToolResulted:
            trace.append(_result_trace(entry, iteration))
    if result.status == "blocked":  # what a guardrail refused does not leave here either
        trace = [
            msgspec.structs.replace(one, content="") if one.type == "assistant" else one
            for one in trace
        ]
    return tuple(trace)


def _reply_trace(entry: Replied, iteration: int) -> list[ToolTraceEntry]:
    text_entry = ToolTraceEntry(
        "assistant",
        iteration,
        entry.message.text,
        duration_ms=entry.duration_ms,
        usage=entry.usage,
        cost_usd=entry.cost_usd,
    )
    calls = [
        ToolTraceEntry("tool_call", iteration, tool=c.name, call_id=c.id, arguments=c.arguments)
        for c in entry.message.tool_calls
    ]
    return [text_entry, *calls]


def _result_trace(entry: ToolResulted, iteration: int) -> ToolTraceEntry:
    return ToolTraceEntry(
        "tool_result",
        iteration,
        entry.result.text,
        entry.tool,
        entry.call_id,
        outcome=entry.outcome,
        duration_ms=entry.duration_ms,
    )

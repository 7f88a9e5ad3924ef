"""Guardrails: functions that may stop a run before its first tool, or before its answer leaves.

Input guardrails run beside the first model call. No tool starts and no text is shown before they
pass; one that trips cancels the call. Output guardrails read the answer, and until they pass nobody
sees it. A function passes with None and stops the run with a text, the reason. What is not clearly a
pass stops the run: a function that raises, or returns anything else.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.errors import ConfigError, GuardrailTripped, error_text, safe_repr
from windlass.events import (
    AnswerDelta,
    Event,
    GuardrailDecided,
    IterationStart,
    Replied,
    RunStarted,
    Said,
    StreamRestarted,
    TextDelta,
    ThinkingDelta,
)
from windlass.json_types import JsonObject, is_sequence
from windlass.loop.calls import PATIENCE
from windlass.loop.plan import digest_of
from windlass.loop.policy import CallVerdict, Policy
from windlass.loop.run import Run
from windlass.loop.sinks import Sink
from windlass.loop.turn import Turn
from windlass.loop.verdict import Finish, Outcome, Refused, Stop
from windlass.messages import Message, Text, ToolCall
from windlass.options.group import Option, OptionGroup
from windlass.policies.build import BuildContext, Policies
from windlass.policies.completion import visible
from windlass.tools.handlers import is_async, takes_context
from windlass.tools.result import not_permitted

#: `fn(text)` or `fn(text, ctx)`, sync or async: None passes, a text is the reason to stop.
Guardrail: TypeAlias = Callable[..., object]
_Stage: TypeAlias = Literal["input", "output"]
BLOCKED: Final = "blocked"
#: Seconds that guardrails may take once a run is ending and can no longer be cancelled.
_LAST_SECONDS: Final = 30.0
#: Statuses of runs whose text is no answer, so that nobody checks it and nobody sees it.
_UNCHECKED: Final = ("provider_error", "failed", "suspended", "cancelled", "cancelling")


class GuardrailContext(msgspec.Struct, frozen=True, kw_only=True):
    """The second argument of a guardrail: `def no_secrets(text, ctx): …`.

    It has `caller`, `deps`, `agent`, `session_id`, `run_id` and `messages`.
    """

    session_id: str
    run_id: str
    agent: str | None
    caller: Caller
    deps: Any
    messages: tuple[Message, ...]
    """The conversation so far."""


def _check_guardrails(name: str, value: Any) -> tuple[Guardrail, ...]:
    given = tuple(value) if is_sequence(value) else (value,)
    for one in given:
        if not callable(one) or isinstance(one, type):
            raise ConfigError(
                f"{name} are functions of the text, or of the text and ctx, not {safe_repr(one)}"
            )
        takes_context(one, name)
    return given


class GuardrailOptions(OptionGroup, frozen=True, kw_only=True):
    """Guardrails: functions that may stop a run."""

    input_guardrails: Annotated[
        tuple[Guardrail, ...],
        Option(
            _check_guardrails, accepts="Sequence[Callable[..., object]] | Callable[..., object]"
        ),
    ] = ()
    """Functions of the input that may stop a run before its first tool; None passes."""
    output_guardrails: Annotated[
        tuple[Guardrail, ...],
        Option(
            _check_guardrails, accepts="Sequence[Callable[..., object]] | Callable[..., object]"
        ),
    ] = ()
    """Functions of the answer that may stop it before it leaves; None passes."""


def build(ctx: BuildContext) -> Policies:
    """Build the policy of the guardrails, if there are any."""
    options = GuardrailOptions.read(ctx.values)
    if not options.input_guardrails and not options.output_guardrails:
        return ()
    return (Guardrails(options.input_guardrails, options.output_guardrails),)


class Guardrails(Policy[None]):
    """A policy that asks the guardrails, and stops the run with the first that trips."""

    decides = True

    def __init__(self, given: Sequence[Guardrail], answered: Sequence[Guardrail]) -> None:
        self.input = _name_all(given)
        self.output = _name_all(answered)

    @property
    def name(self) -> str:
        return "guardrails"

    # ----------------------------------------------------------------- moments

    async def start(self, run: Run) -> None:
        """Begin with the input, beside what the run does next; a recorded verdict is not asked for."""
        if _State in run.cache:
            return
        known = _read_decisions(run, "input")
        waiting = [name for name in self.input if name not in known]
        state = run.cache[_State] = _State()
        tripped = next((entry for entry in known.values() if entry.verdict == "tripped"), None)

        def hold(show: Sink) -> Sink:
            state.show = HeldShow(show, bool(waiting or tripped), bool(self.output))
            return state.show

        run.filter_events(hold)
        if tripped is not None:  # before a crash
            run.interrupt(_stop("input", tripped))
        elif waiting:
            text = "\n".join([message.text for message in _read_input(run)])
            checking = self._check_input(run, state, text, waiting, _build_context(run))
            state.task = asyncio.create_task(checking)

    async def after_reply(self, run: Run, turn: Turn) -> None:
        """Wait for the input guardrails before any call of the reply runs."""
        await _wait_for_input(run)

    def passes(self, run: Run, call: ToolCall) -> bool:
        task = _state_of(run).task
        return task is None or (task.done() and not task.cancelled() and task.result())

    async def before_tool(self, run: Run, call: ToolCall) -> CallVerdict:
        """Wait for the input guardrails, for calls that start while the reply is written."""
        if await _wait_for_input(run):
            return None
        why = "an input guardrail stops the run"
        return Refused(not_permitted(call, why), why)

    async def before_finish(self, run: Run, turn: Turn, finish: Finish) -> Stop | None:
        """Let the output guardrails read the answer."""
        tripped = await self._check_output(run)
        return None if tripped is None else _stop("output", tripped)

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        """Check what was not checked yet, and withhold what may not leave."""
        state = _state_of(run)
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                outcome = await self._end(run, outcome, state)
        except TimeoutError:
            entry = GuardrailDecided("output", "", "tripped", "the guardrails took too long")
            run.note(entry)
            outcome = _replace(outcome, _stop("output", entry))
        finally:
            if state.task is not None and not state.task.done():
                await _cancel(run, {state.task})
        has_passed = outcome.status != BLOCKED and outcome.status not in _UNCHECKED
        if outcome.status == BLOCKED:
            _withhold(run, "input" if outcome.stop_reason == "input_guardrail" else "output")
        elif self.output and not has_passed and outcome.status != "suspended" and _answer_of(run):
            why = f"the run ended as {outcome.status}"
            run.note(GuardrailDecided("output", "", "withheld", why))
        if state.show is not None:
            state.show.finish(has_passed or not self.output and outcome.status != BLOCKED)
        return outcome

    async def _end(self, run: Run, outcome: Outcome, state: _State) -> Outcome:
        for stage in ("input", "output"):
            for entry in _read_decisions(run, stage).values():
                if entry.verdict == "tripped":
                    return _replace(outcome, _stop(stage, entry))
        if outcome.status in _UNCHECKED:
            return outcome
        if state.task is not None and not await state.task:
            return await self._end(run, outcome, state)  # its verdict is on record now
        tripped = await self._check_output(run)
        return outcome if tripped is None else _replace(outcome, _stop("output", tripped))

    # ----------------------------------------------------------------- checks

    async def _check_input(
        self,
        run: Run,
        state: _State,
        text: str,
        names: Sequence[str],
        context: GuardrailContext,
    ) -> bool:
        """Run the input guardrails side by side; stop the run with the first that trips."""
        waiting = {name: self.input[name] for name in names}
        tripped = await _run_all(run, "input", waiting, text, context)
        if tripped is not None:
            run.interrupt(_stop("input", tripped))
            return False
        run.flush()
        if state.show is not None:
            state.show.pass_input()
        return True

    async def _check_output(self, run: Run) -> GuardrailDecided | None:
        """Return the decision of the first output guardrail that trips over the answer."""
        text = _answer_of(run)
        if not self.output or not text:
            return None
        known = _read_decisions(run, "output")
        digest = digest_of(text)
        for entry in known.values():
            if entry.verdict == "tripped":
                return entry
        waiting = {
            name: function
            for name, function in self.output.items()
            if name not in known or known[name].digest != digest
        }
        tripped = await _run_all(run, "output", waiting, text, _build_context(run))
        run.flush()
        return tripped


# --------------------------------------------------------------------------- verdicts


def _build_context(run: Run) -> GuardrailContext:
    return GuardrailContext(
        session_id=run.session_id,
        run_id=run.run_id,
        agent=run.plan.name,
        caller=run.caller,
        deps=run.deps,
        messages=tuple(run.messages),
    )


async def _run_all(
    run: Run,
    stage: _Stage,
    guardrails: Mapping[str, Guardrail],
    text: str,
    context: GuardrailContext,
) -> GuardrailDecided | None:
    """Run guardrails side by side and record each verdict; the first that trips ends the others."""
    tasks = [
        asyncio.create_task(_ask(stage, name, function, text, context))
        for name, function in guardrails.items()
    ]
    try:
        for done in asyncio.as_completed(tasks):
            entry = await done
            run.note(entry)
            if entry.verdict == "tripped":
                return entry
    finally:
        if unfinished := {task for task in tasks if not task.done()}:
            await _cancel(run, unfinished)
    return None


async def _cancel(run: Run, tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait a moment; the session stays held while one of them goes on."""
    for task in tasks:
        task.cancel()
        run.calls.linger(task)
    await asyncio.wait(tasks, timeout=PATIENCE)


async def _ask(
    stage: _Stage, name: str, function: Guardrail, text: str, context: GuardrailContext
) -> GuardrailDecided:
    """Ask one guardrail; what is not clearly a pass trips."""
    started = seams.monotonic()
    reason: str | None
    try:
        given = (text, context) if takes_context(function, name) else (text,)
        # a function that blocks would hold up the model call that it runs beside
        answer = (
            function(*given) if is_async(function) else await asyncio.to_thread(function, *given)
        )
        if inspect.isawaitable(answer):
            answer = await answer
        reason = None if answer is None else _read_reason(answer)
    except GuardrailTripped as tripped:
        reason = str(tripped) or "it tripped"
    except Exception as error:
        reason = f"it failed: {type(error).__name__}: {error_text(error)}"
    took = (seams.monotonic() - started) * 1000
    verdict = "passed" if reason is None else "tripped"
    return GuardrailDecided(stage, name, verdict, reason, took, digest_of(text))


def _read_reason(answer: object) -> str:
    if isinstance(answer, str) and answer.strip():
        return answer
    return f"it returns None to pass, or a text as the reason to stop, not {safe_repr(answer)}"


def _read_decisions(run: Run, stage: str) -> dict[str, GuardrailDecided]:
    """Return what is on record of this run, by the name of the guardrail; the last one counts."""
    return {
        entry.guardrail: entry
        for entry in run.own_entries
        if type(entry) is GuardrailDecided and entry.stage == stage
    }


def _stop(stage: str, entry: GuardrailDecided) -> Stop:
    error: JsonObject = {
        "category": "guardrail",
        "reason": f"{stage}_guardrail",
        "kind": GuardrailTripped.__name__,
        "guardrail": entry.guardrail,
        "message": f"{stage} guardrail {entry.guardrail}: {entry.reason}",
    }
    return Stop(BLOCKED, f"{stage}_guardrail", error)


def _replace(outcome: Outcome, stop: Stop) -> Outcome:
    return msgspec.structs.replace(
        outcome, status=stop.status, stop_reason=stop.reason, error=stop.error, exception=None
    )


def _name_all(guardrails: Sequence[Guardrail]) -> dict[str, Guardrail]:
    """Name each guardrail after its function; the second of a name has a number."""
    named: dict[str, Guardrail] = {}
    for one in guardrails:
        own = getattr(one, "__name__", None) or type(one).__name__
        name, number = own, 1
        while name in named:
            number += 1
            name = f"{own}_{number}"
        named[name] = one
    return named


# --------------------------------------------------------------------------- state of a run


class _State:
    """What is under way in this process: the check of the input, and what is held back."""

    task: asyncio.Task[bool] | None = None
    show: HeldShow | None = None


def _state_of(run: Run) -> _State:
    state: _State | None = run.cache.get(_State)
    return _State() if state is None else state


async def _wait_for_input(run: Run) -> bool:
    """Wait for the input guardrails; return whether all have passed."""
    task = _state_of(run).task
    return True if task is None else await asyncio.shield(task)


def _read_input(run: Run) -> list[Message]:
    """Return the messages that the run began with, which somebody outside wrote."""
    found: list[Message] = []
    for entry in run.own_entries:
        if type(entry) is IterationStart:
            break
        if type(entry) is RunStarted:
            found.clear()
        elif type(entry) is Said and entry.message.role == "user" and entry.message.kind is None:
            found.append(entry.message)
    return found


def _answer_of(run: Run) -> str:
    """Return the text that would leave as the answer."""
    sentinel = (run.plan.metadata or {}).get("sentinel")
    for entry in reversed(run.own_entries):
        message = None
        if (
            type(entry) is Replied
            and entry.purpose is None
            or type(entry) is Said
            and entry.message.role == "assistant"
        ):
            message = entry.message
        if message is not None and (text := visible(message.text, sentinel)):
            return text
    return ""


def _withhold(run: Run, stage: _Stage) -> None:
    """Replace what was refused in the conversation, so that no later run builds on it."""
    items = list(run.messages)
    words = Text(f"[Withheld by an {stage} guardrail.]")
    if stage == "input":
        first = next(iter(_read_input(run)), None)
        places = [at for at, message in enumerate(items) if message == first]
        if places:
            span = (places[-1], len(items))
            run.reshape(span, [Message("user", (words,), "guardrail")], "input_guardrail")
        return
    places = [at for at, message in enumerate(items) if message.role == "assistant"]
    if places and not items[places[-1]].tool_calls:
        span = (places[-1], places[-1] + 1)
        run.reshape(span, [Message("assistant", (words,))], "output_guardrail")


# --------------------------------------------------------------------------- what observers see


class HeldShow:
    """A sink before the observers that holds back text until it may be seen.

    Text of a reply with calls is not the answer, nor is that of a reply after which another turn
    begins: it is shown as soon as that is known.
    """

    def __init__(self, show: Sink, waits_for_input: bool, guards_output: bool) -> None:
        self._show, self._held = show, list[Event]()
        self._waits_for_input, self._guards_output = waits_for_input, guards_output

    def __call__(self, event: Event) -> None:
        """Show an event, or hold it and all that come after it."""
        holds = self._waits_for_input or (self._guards_output and _has_text(event))
        if not self._held and not holds:
            self._show(event)
            return
        self._held.append(event)
        if not self._waits_for_input and _is_no_answer(event):
            self._release()

    def pass_input(self) -> None:
        """Show what was held for the input guardrails, unless it may be the answer."""
        self._waits_for_input = False
        held, self._held = self._held, []
        for event in held:
            self(event)

    def finish(self, has_passed: bool) -> None:
        """Show what is held, without its text unless that has passed; hold nothing more."""
        self._waits_for_input = self._guards_output = False
        if not has_passed:
            self._held = [
                _without_text(event) for event in self._held if type(event) not in _PIECES
            ]
        self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        for event in held:
            self._show(event)


_PIECES: Final = frozenset({TextDelta, ThinkingDelta, AnswerDelta, StreamRestarted})


def _has_text(event: Event) -> bool:
    if type(event) is Replied:
        return event.purpose is None and not event.message.tool_calls
    if type(event) is Said:
        return event.message.role == "assistant"
    return type(event) in _PIECES


def _is_no_answer(event: Event) -> bool:
    """Return whether what is held turns out to be no answer."""
    if type(event) is Replied and event.purpose is None:
        return bool(event.message.tool_calls)
    return type(event) is IterationStart


def _without_text(event: Event) -> Event:
    if type(event) is Replied or (type(event) is Said and event.message.role == "assistant"):
        return msgspec.structs.replace(event, message=Message(event.message.role, ()))
    return event

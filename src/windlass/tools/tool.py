"""Tools: a name, a schema, and a handler.

`prepare` runs before any policy, so that what is approved is what runs. `call` runs the handler and
turns every outcome into a `ToolResult`; only cancellation passes through.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import (
    Any,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
)

import msgspec

from windlass.errors import (
    ConfigError,
    PermissionDenied,
    ResourceError,
    TestBroken,
    WindlassError,
    error_text,
    nearest,
)
from windlass.events.policy import Reminder
from windlass.json_types import JsonObject, as_given
from windlass.messages import ToolResult, ToolSpec
from windlass.tools.arguments.repair import mend
from windlass.tools.arguments.validate import Checker
from windlass.tools.handlers import is_async, own, takes_context
from windlass.tools.middleware.preview import Rehearsal, call_preview, handler_of
from windlass.tools.render import stand_in
from windlass.tools.result import (
    BLOCKS,
    answer,
    failure,
    refusal,
)
from windlass.tools.schema.shorthand import as_parameters, as_returns

log = logging.getLogger("windlass.tools")

Deps = TypeVar("Deps")
T = TypeVar("T")
#: The number of tool threads that wait on this one: one per synchronous tool that runs an agent.
thread_depth: contextvars.ContextVar[int] = contextvars.ContextVar("windlass_depth", default=0)
Effect: TypeAlias = Literal["read_only", "keyed", "transactional", "plain"]
Validation: TypeAlias = Literal["strict", "lenient", "none"]
SideEffectLevel: TypeAlias = Literal[
    "none", "read_only", "workspace_write", "process_exec", "network"
]


class Retry(WindlassError):
    """An error that the model reads, so that it can call the tool again in a better way.

    `raise w.Retry("amount must be positive")`
    """


class Parked(msgspec.Struct, frozen=True):
    """A return value of a keyed tool: the call stays open and the run is suspended.

    `return w.Parked("waiting for the bank")`. On resume the tool runs again with the same key.
    """

    reason: str
    conditions: JsonObject | None = None


class PreparedArguments(msgspec.Struct, frozen=True, gc=False):
    """Arguments that are ready to run, or problems for the model (`path: message`)."""

    arguments: JsonObject
    problems: tuple[str, ...] = ()
    coerced: tuple[str, ...] = ()


class AgentInfo(msgspec.Struct, frozen=True):
    """The agent that calls a tool, `ctx.agent`: its name, its role, and its model's name."""

    name: str = "runner"
    role: str = "assistant"
    model: str = ""


class CallScope(Protocol):
    """The part of a run that a tool call may reach."""

    @property
    def agent(self) -> AgentInfo: ...

    @property
    def cancelled(self) -> bool: ...

    @property
    def pool(self) -> Executor | None:
        """The pool for synchronous handlers; None for the event loop's own."""
        ...

    def progress(self, call_id: str, data: Any) -> None: ...

    def remind(self, reminder: Reminder, source: str = "policy") -> None: ...

    def again(self, call_id: str, tool: Tool, attempt: int) -> bool:
        """Record a retry of the call; False if it may not be tried again."""
        ...

    def keep_error(self, call_id: str, error: BaseException) -> None:
        """Keep the exception of a call, for the record and the span."""
        ...

    async def commit(self, call_id: str, body: Callable[[Any], T]) -> T: ...


class ToolContext(msgspec.Struct, Generic[Deps], eq=False):
    """The context of a tool call: a parameter with this type, at any position, gets it.

    ```python
    @w.tool
    async def refund(ctx: w.ToolContext[Db], order: str) -> str: ...
    ```
    It has `deps`, `caller`, `agent`, `session_id`, `call_id`, `idempotency_key`, `progress(…)` and
    `commit(…)`. The model does not see the parameter.
    """

    deps: Deps
    caller: Any
    session_id: str
    run_id: str
    call_id: str
    tool_name: str
    scope: CallScope
    attempt: int = 1
    decided: JsonObject | None = None
    """The arguments that were decided on, which the tool must be given."""

    def __repr__(self) -> str:
        return f"<ToolContext of {self.tool_name} {self.call_id}>"

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for this call after every crash and resume."""
        return f"{self.session_id}:{self.call_id}"

    @property
    def agent(self) -> AgentInfo:
        """The agent that calls: `ctx.agent.name`, `ctx.agent.role`, `ctx.agent.model`."""
        return self.scope.agent

    @property
    def cancelled(self) -> bool:
        """Whether the run is being cancelled; a long synchronous tool should check it."""
        return self.scope.cancelled

    def progress(self, data: Any) -> None:
        """Report the progress of the call to observers, from any thread."""
        self.scope.progress(self.call_id, data)

    def remind(self, reminder: Reminder) -> None:
        """Add a reminder for the model: `ctx.remind(w.system_reminder("…", ttl=2))`."""
        self.scope.remind(reminder, "tool")

    def artifact(
        self, title: str, *, text: str | None = None, data: Any = None, kind: str = "note"
    ) -> str:
        """Keep something for the agent that this one works for; the same title replaces it."""
        return getattr(self.scope, "write_artifact")(title, text, data, kind)  # noqa: B009

    async def commit(self, body: Callable[[Any], T]) -> T:
        """Run `body(tx)` in one transaction with the record of this call.

        `return await ctx.commit(body)`: the effect and its result are stored together or not at
        all. The body is short and synchronous, and changes nothing outside of `tx`.
        """
        return await self.scope.commit(self.call_id, body)


Handler: TypeAlias = Callable[..., Any | Awaitable[Any]]
_NOT_DECIDED = (
    "not run: a tool runs a call as it was decided, and something around it changed the arguments; "
    "change them in `prepare`, or in a policy's before_tool"
)

_encode = msgspec.json.Encoder().encode
NAME = re.compile(r"[a-zA-Z0-9_.:-]{1,128}")
_LEVELS: tuple[str, ...] = get_args(SideEffectLevel)
_MODES: tuple[str, ...] = get_args(Validation)


class ToolOptions(TypedDict, total=False):
    """Options of any tool, however it is made."""

    returns: Any  # JSON Schema of the answer, or a type: what does not fit is an error result
    annotations: Mapping[str, Any] | None
    side_effect_level: SideEffectLevel | None  # the same as annotations["side_effect_level"]
    kind: str | None  # read, search, edit, execute, fetch, think, …
    timeout: float | None  # seconds; None: the run's default
    keyed: bool  # runs again under the same idempotency_key after a crash
    transactional: bool  # ends with `return await ctx.commit(body)`
    defer_loading: bool
    namespace: str | None
    strict: bool
    undo: Callable[..., Any] | None  # undo(args, result, ctx) reverses the effect
    preview: Callable[..., Any] | None  # preview(args) or (args, ctx): what it would answer
    requires_approval: bool | Callable[..., object]  # or a predicate (args) or (args, ctx)


OPTIONS: tuple[str, ...] = tuple(ToolOptions.__annotations__)


class BadArguments(Exception):
    """Arguments that cannot be turned into what the function expects: `path: message` lines."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


#: What a tool raises to tell the model something: an answer, and no failure of the tool.
_FOR_THE_MODEL = (Retry, BadArguments, PermissionDenied, ResourceError)


class Tool:
    """Something that a model may call; usually made by `@w.tool`, or by hand.

    ```python
    Tool(name="add", description="Add.", parameters={"a": {"type": "number"}}, handler=lambda args: …)
    ```
    A tool without a handler is run by the host: the run is suspended, and `resume` takes the
    result. A name has 1 to 128 letters, digits and `_ - . :`. `parameters` is a JSON Schema or the
    short form above. Arguments of `strict` tools are checked and never repaired, whatever the mode
    of the run.
    """

    __slots__ = (
        "__weakref__",
        "_check",
        "_checker",
        "_returns",
        "_typed",
        "annotations",
        "defer_loading",
        "description",
        "effect",
        "handler",
        "is_async",
        "keyed",
        "name",
        "namespace",
        "parameters",
        "preview",
        "requires_approval",
        "returns",
        "spec",
        "strict",
        "timeout",
        "transactional",
        "undo",
        "wants_context",
    )

    name: str
    description: str
    parameters: JsonObject
    returns: JsonObject | None
    annotations: Mapping[str, Any]
    timeout: float | None  # None: the run's default
    keyed: bool
    transactional: bool
    strict: bool
    defer_loading: bool
    namespace: str | None
    handler: Handler | None
    is_async: bool
    effect: Effect
    spec: ToolSpec
    wants_context: bool
    undo: Callable[..., Any] | None
    preview: Callable[..., Any] | None
    requires_approval: bool | Callable[..., object]
    _check: Callable[[Any], bool]
    _checker: Checker | None
    _returns: Checker | None
    _typed: bool  # arguments that fit the schema may still not be what the function expects

    def __init__(
        self,
        name: str,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        handler: Handler | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        self._begin(name, description, options)
        label = f"tool {name!r}"
        self.handler = handler
        if handler is not None and not callable(as_given(handler)):
            raise ConfigError(f"{label}: handler is fn(args) or fn(args, ctx), not {handler!r}")
        self.is_async = handler is not None and is_async(handler)
        self.wants_context = handler is not None and takes_context(handler, label)
        self._offer(as_parameters(parameters, label), description)
        self._first_check({})  # a wrong schema is a mistake of now, not of the first call

    def _begin(self, name: str, description: str, options: Mapping[str, Any]) -> None:
        """Take the options, refuse impossible values, and derive the effect."""
        label = f"tool {name!r}"
        if not isinstance(as_given(name), str) or not NAME.fullmatch(name):
            raise ConfigError(
                f"{label}: a tool's name has 1 to 128 letters, digits and `_ - . :`; "
                "give it one with name=…"
            )
        if not isinstance(as_given(description), str):
            raise ConfigError(f"{label}: description is text, not {description!r}")
        for option in options:
            if option not in OPTIONS:
                raise ConfigError(f"{label} has no option {option!r}{nearest(option, OPTIONS)}")
        for option in ("keyed", "transactional", "defer_loading", "strict"):
            value = options.get(option, False)
            if not isinstance(value, bool):
                raise ConfigError(f"{label}: {option} is True or False, not {value!r}")
            setattr(self, option, value)
        self.name, self.timeout = name, _seconds(label, options.get("timeout"))
        self.namespace = options.get("namespace")
        if self.namespace is not None and not isinstance(as_given(self.namespace), str):
            raise ConfigError(f"{label}: namespace is text, not {self.namespace!r}")
        self.undo = handler_of(label, "undo", options.get("undo"), "(args, result, ctx)")
        self.preview = handler_of(label, "preview", options.get("preview"), "(args, ctx)")
        self.requires_approval = _check_requires_approval(
            label, options.get("requires_approval", False)
        )
        self.annotations = _annotations(label, options)
        self.returns = as_returns(options.get("returns"), label)
        self._returns = None if self.returns is None else Checker(self.returns, label)
        if self.annotations.get("side_effect_level") in ("none", "read_only"):
            self.effect = "read_only"
        elif self.transactional:
            self.effect = "transactional"
        else:
            self.effect = "keyed" if self.keyed else "plain"

    def _offer(self, parameters: JsonObject, description: str) -> None:
        """Set the specification that a model sees."""
        self.parameters, self.description = parameters, description
        self.spec = ToolSpec(
            self.name, description, parameters, self.strict, self.defer_loading, self.namespace
        )
        try:
            _encode(self.spec)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ConfigError(
                f"tool {self.name!r}: its words and its schema must be JSON: {error}"
            ) from None
        self._checker, self._check, self._typed = None, self._first_check, False

    def _first_check(self, arguments: Any) -> bool:
        self._checker = Checker(self.parameters, f"tool {self.name!r}")
        self._check = self._checker.is_valid
        return self._check(arguments)

    def prepare(self, arguments: JsonObject, mode: Validation = "strict") -> PreparedArguments:
        """Check the arguments against the schema; in lenient mode repair what is safe to repair."""
        if mode != "strict" and not self.strict:
            return self._prepare_loosely(arguments, mode)
        try:
            if self._check(arguments):
                return PreparedArguments(arguments, self._misfits(arguments) if self._typed else ())
        except Exception:  # text that is not Unicode, nesting without end: `problems` names it
            pass
        return PreparedArguments(arguments, self._problems(arguments))

    def _prepare_loosely(self, arguments: JsonObject, mode: str) -> PreparedArguments:
        if mode == "none":
            return PreparedArguments(arguments)
        if mode != "lenient":
            raise ConfigError(f"tool_arg_validation {mode!r} is not known{nearest(mode, _MODES)}")
        as_given = self.prepare(arguments)
        if not as_given.problems:
            return as_given
        try:
            mended, notes = mend(arguments, self.parameters)
        except RecursionError:
            return as_given
        after = self.prepare(mended) if notes else as_given
        if after.problems:  # what is still wrong, but with the arguments as they were
            return PreparedArguments(arguments, after.problems)
        return PreparedArguments(mended, (), notes)

    def _problems(self, arguments: Any) -> tuple[str, ...]:
        if self._checker is None:
            self._checker = Checker(self.parameters, f"tool {self.name!r}")
        return self._checker.problems(arguments) or ("arguments: do not fit the schema",)

    def _misfits(self, arguments: JsonObject) -> tuple[str, ...]:
        """List problems of arguments that fit the schema but not the function."""
        return ()

    async def call(self, arguments: JsonObject, ctx: ToolContext[Any]) -> ToolResult | Parked:
        """Run the handler; the result's `id` is left empty for the caller to fill in.

        The call that was approved is the call that runs: changed arguments are refused.
        """
        decided = ctx.decided
        if decided is not None and arguments is not decided and self.name == ctx.tool_name:
            if arguments != decided:
                return refusal(_NOT_DECIDED)
            arguments = decided
        try:
            if self.is_async:
                return self._finish(await self._invoke(arguments, ctx))
            made = await self.invoke_sync(arguments, ctx)
            if isinstance(made, (ToolResult, Parked)):
                return made
            return self._finish(await made)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._fail(error, ctx)  # raised by the handler: this call was not cancelled
        except (KeyboardInterrupt, GeneratorExit, TestBroken):
            raise
        except BaseException as error:
            return self._fail(error, ctx)

    async def rehearse(
        self, arguments: JsonObject, ctx: ToolContext[Any], earlier: Sequence[Rehearsal]
    ) -> Rehearsal | None:
        """Preview the call after `earlier` ones, without running it; None if unknown."""
        if self.preview is None or self.effect == "read_only":
            return None
        try:
            made = self._finish(await call_preview(self.preview, arguments, ctx))
        except Exception as error:
            made = self._error_result(error)
        return Rehearsal(made) if isinstance(made, ToolResult) else None

    async def invoke_sync(
        self, arguments: JsonObject, ctx: ToolContext[Any]
    ) -> ToolResult | Parked | Awaitable[Any]:
        """Run a synchronous handler in the run's pool, with the context variables copied.

        Its answer is converted to text there too, because 10 MB of text must not block the event
        loop. If the handler returns an awaitable, it is awaited here.
        """
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        context.run(thread_depth.set, thread_depth.get() + 1)
        return await loop.run_in_executor(
            ctx.scope.pool, cast("Any", context.run), self._run_blocking, arguments, ctx
        )

    def _run_blocking(
        self, arguments: JsonObject, ctx: ToolContext[Any]
    ) -> ToolResult | Parked | Awaitable[Any]:
        try:
            value = self._invoke(arguments, ctx)
            return cast("Any", value) if inspect.isawaitable(value) else self._finish(value)
        except (KeyboardInterrupt, TestBroken):
            raise
        except BaseException as error:  # here, because a future cannot carry a StopIteration
            return self._fail(error, ctx)

    def _invoke(self, arguments: JsonObject, ctx: ToolContext[Any]) -> Any:
        if self.handler is None:
            raise RuntimeError("the tool has no handler: the host answers it")
        copied = own(arguments)
        return self.handler(copied, ctx) if self.wants_context else self.handler(copied)

    def _finish(self, value: Any) -> ToolResult | Parked:
        if type(value) is Parked:
            return self._parking(value)
        wrong = None if self._returns is None else self._wrong_answer(self._returns, value)
        return answer(value) if wrong is None else refusal(wrong)

    def _parking(self, parked: Parked) -> ToolResult | Parked:
        if not self.keyed:
            return refusal("only a tool with keyed=True may park its call")
        try:
            msgspec.convert(msgspec.json.decode(msgspec.json.encode(parked)), Parked)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            return refusal(f"a call parks with a text and plain data for its conditions: {error}")
        return parked

    def _wrong_answer(self, checker: Checker, value: Any) -> str | None:
        """Describe an answer that does not fit `returns`; media and ready results always do."""
        if isinstance(value, (ToolResult, *BLOCKS)):
            return None
        try:
            plain = msgspec.to_builtins(value, str_keys=True, enc_hook=stand_in)
            if checker.is_valid(plain):
                return None
            problems = checker.problems(plain)
        except Exception as error:
            problems = (f"it cannot be written as JSON ({type(error).__name__})",)
        found = "\n".join(line.removeprefix("arguments: ") for line in problems)
        return f"the tool's answer does not fit its `returns` schema:\n{found}"

    def _fail(self, error: BaseException, ctx: ToolContext[Any]) -> ToolResult:
        """Report what the handler raised, and return the result that the model reads of it."""
        if not isinstance(error, _FOR_THE_MODEL):
            log.info(
                "tool %s failed: %s (session %s, call %s, attempt %d)",
                self.name,
                f"{type(error).__name__}: {error_text(error, 300)}",
                ctx.session_id,
                ctx.call_id,
                ctx.attempt,
                exc_info=error if _can_log(error) else None,
            )
            ctx.scope.keep_error(ctx.call_id, error)
        return self._error_result(error)

    def _error_result(self, error: BaseException) -> ToolResult:
        if isinstance(error, Retry):
            return refusal(str(error) or "the tool asks to try again", "retry")
        if isinstance(error, BadArguments):
            return refusal(str(error), "invalid")
        return failure(error)

    def __repr__(self) -> str:
        names = ", ".join(self.parameters.get("properties", ()))
        return f"<{type(self).__name__} {self.name}({names})>"


def _check_requires_approval(label: str, value: object) -> bool | Callable[..., object]:
    if isinstance(value, bool) or (callable(value) and not isinstance(value, type)):
        return value
    raise ConfigError(
        f"{label}: requires_approval is True, False or a function (args) or (args, ctx), not {value!r:.80}"
    )


def _can_log(error: BaseException) -> bool:
    """Check whether handlers can write the message: not one with halves of characters."""
    try:
        str(error).encode()
    except UnicodeEncodeError:
        return False
    except Exception:
        return True  # a traceback shows that there is no message
    return True


def _seconds(label: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ConfigError(f"{label}: timeout is a positive number of seconds, not {value!r}")
    return value


def _annotations(label: str, options: Mapping[str, Any]) -> JsonObject:
    """Collect the annotations of a tool's effects in one dict."""
    given = options.get("annotations")
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{label}: annotations is a dict, not {type(given).__name__}")
    found = dict(cast("Mapping[str, Any]", given or {}))
    for key in ("side_effect_level", "kind"):
        if options.get(key) is not None:
            found[key] = options[key]
    level = found.get("side_effect_level", "none")
    if level not in _LEVELS:
        raise ConfigError(
            f"{label}: side_effect_level {level!r} is not known{nearest(str(level), _LEVELS)}; "
            f"it is one of {', '.join(_LEVELS)}"
        )
    if not isinstance(found.get("kind", ""), str):
        raise ConfigError(f"{label}: kind is a word such as 'read', not {found['kind']!r}")
    return found

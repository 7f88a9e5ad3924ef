"""The contract of callers: `fn(call) -> {ok, value | status, error?}`.

A call is `{prompt, system, opts, turn: {iteration, session_id, attempt}}`. `opts` holds the model, the
messages, the tools and every setting that is not left to the provider; what a function changes in a
call that it passes on is what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from windlass.errors import (
    BadReply,
    BudgetExceeded,
    ConfigError,
    ModelError,
    WindlassError,
    error_text,
    nearest,
    safe_repr,
    whole_text,
)
from windlass.events import StreamRestarted
from windlass.json_types import JsonObject, as_given, is_mapping
from windlass.loop.policy import Policy
from windlass.loop.reply import cost_of
from windlass.messages import Block, Message, Text, Thinking, ToolCall, ToolSpec
from windlass.models.base import Emit, Frame, Holding, Model, Request, Response, Settings, silent
from windlass.models.estimates import fill_usage
from windlass.models.meter import begin_request, fail_request, receive_reply
from windlass.models.mock import ERRORS
from windlass.models.wrappers.base import EmitTracker, show
from windlass.models.wrappers.retry import attempt_under_way
from windlass.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from windlass.loop.run import Run


#: The turn under way: its number and its session.
turn_under_way: ContextVar[tuple[int, str | None]] = ContextVar("windlass_turn", default=(1, None))


class _Asking:
    """A running caller function: its request, its emit, and the last reply shown."""

    __slots__ = ("emit", "last", "model", "request", "shown")

    def __init__(self, model: Model, request: Request, emit: Emit) -> None:
        self.model, self.request, self.emit, self.shown = model, request, emit, EmitTracker(emit)
        self.last: Response | None = None

    def anew(self, why: str) -> Emit:
        """Return the emit of the next reply; discard what was shown before."""
        if self.shown.anything:
            self.emit(StreamRestarted(why))
            self.shown = EmitTracker(self.emit)
        self.last = None
        return self.shown


_under_way: ContextVar[_Asking | None] = ContextVar("windlass_call", default=None)

_SETTINGS = Settings.__struct_fields__
_OWN = ("model", "provider", "messages", "tools", "tail")
# Only a run that really waits may have these statuses.
RESERVED = frozenset({"suspended", "cancelling"})


class Call(JsonObject):
    """The argument of a caller: a dict with keys readable as fields, `call.turn.iteration`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a call has no {name!r}{nearest(name, self)}") from None


class Answer(JsonObject):
    """The answer of a caller: `{ok: True, value}` or `{ok: False, status, error}`."""

    exception: WindlassError | None = None  # raised as it was, when the answer is handed on


def call_of(model: Model, request: Request) -> Call:
    """Describe a request to a model as a call."""
    settings = msgspec.structs.asdict(request.settings)
    opts = Call((name, value) for name, value in settings.items() if value is not None)
    opts |= {
        "provider": model.provider,
        "model": model,
        "messages": request.messages,
        "tools": request.tools,
        "tail": request.tail,
    }
    iteration, session_id = turn_under_way.get()
    attempt = attempt_under_way.get()
    turn = Call(iteration=iteration, session_id=session_id, attempt=attempt)
    return Call(prompt=_prompt(request), system=request.system, opts=opts, turn=turn)


def _prompt(request: Request) -> str:
    """Return the user's last message."""
    messages = request.messages
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user":
            return messages[at].text
    return ""


# --------------------------------------------------------------------------- from a call to a reply


async def ask(call: object, around: Callable[[Model], Model]) -> Answer:
    """Make the described call through `around`, and answer by the contract."""
    model, request = _parse_call(call)
    emit, asking = silent, _under_way.get()
    if asking is not None:
        emit, frame = asking.anew("the caller asks again"), asking.request.frame
        if request.frame == frame:  # the same object: wires keep what they made of it
            request = msgspec.structs.replace(request, frame=frame)
    model = around(model)
    try:
        if asking is not None:
            request = await begin_request(model, request)
        response = await model.respond(request, emit)
    except (ModelError, BudgetExceeded) as error:
        if asking is not None:
            fail_request(error)
        status = error.status
        if not isinstance(status, str):
            status = "budget_exhausted" if isinstance(error, BudgetExceeded) else "provider_error"
        answer = Answer(ok=False, status=status, error=_error_to_dict(error))
        answer.exception = error
        return answer
    if asking is not None:
        if model is not asking.model:
            response = _with_price(model, request, response)
        asking.last = response
        receive_reply(response)
    return Answer(ok=True, value=response)


def _with_price(model: Model, request: Request, response: Response) -> Response:
    """Fill in price and name of a model other than the run's own."""
    if type(response) is not Response:
        return response  # no reply at all: the caller handles it
    response = fill_usage(model, request, response)
    usage = response.usage
    if usage.cost_usd is None:
        usage = msgspec.structs.replace(usage, cost_usd=cost_of(model, usage))
    return msgspec.structs.replace(
        response,
        usage=usage,
        provider=response.provider or model.provider,
        model=response.model or model.name,
    )


def _error_to_dict(error: WindlassError) -> JsonObject:
    detail: JsonObject = {"kind": type(error).__name__, "message": error_text(error)}
    if isinstance(error, ModelError):
        detail |= {
            "category": error.category,
            "transient": error.transient,
            "retry_after": error.retry_after,
            "provider": error.provider,
            "model": error.model,
        }
    else:
        detail["category"] = "budget"
    return detail


def _parse_call(call: object) -> tuple[Model, Request]:
    if not is_mapping(call):
        raise ConfigError(
            f"a caller is asked with a call, {{prompt, system, opts, turn}}, not {safe_repr(call)}"
        )
    given = call
    found: object = given.get("opts") or {}
    if not is_mapping(found):
        raise ConfigError(f"a call's opts are a dict, not {safe_repr(found)}")
    opts = found
    for name in opts:
        if name not in _SETTINGS and name not in _OWN:
            raise ConfigError(
                f"a call's opts have no {safe_repr(name)}{nearest(str(name), (*_SETTINGS, *_OWN))}"
            )
    model = opts.get("model")
    if not isinstance(model, Model):
        from windlass.models.registry.providers import resolve

        model = resolve(
            model, opts.get("provider") if model is None or ":" not in str(model) else None
        )
    system = given.get("system")
    if system is not None and not isinstance(system, str):
        raise ConfigError(f"a call's system is a text, not {safe_repr(system)}")
    tools = tuple(msgspec.convert(tool, ToolSpec) for tool in opts.get("tools") or ())
    frame = Frame(system, tools, _settings(opts))
    messages = _messages(opts.get("messages"), given.get("prompt"))
    return model, Request(messages, frame, tuple(opts.get("tail") or ()))


def _settings(opts: Mapping[str, Any]) -> Settings:
    try:
        return msgspec.convert({n: opts[n] for n in _SETTINGS if n in opts}, Settings)
    except msgspec.ValidationError as problem:
        raise ConfigError(f"a call's opts: {problem}") from None


def _messages(given: Any, prompt: Any) -> Sequence[Message]:
    if not given:
        if not isinstance(prompt, str) or not prompt:
            raise ConfigError("a call needs a prompt or opts.messages")
        return (Message("user", (Text(prompt),)),)
    for at in range(len(given) - 1, -1, -1):
        message = given[at]
        if not isinstance(message, Message):
            raise ConfigError(f"opts.messages of a call are Messages, not {safe_repr(message)}")
        if message.role == "user":
            if isinstance(prompt, str) and prompt != message.text:
                changed = Message("user", (Text(prompt),), message.kind)
                return (*given[:at], changed, *given[at + 1 :])
            break
    return given


# --------------------------------------------------------------------------- a function as a model


class Function(Holding):
    """A model that calls a function by the contract; the function may call the held model."""

    def __init__(self, model: Model, function: Callable[[Any], Any]) -> None:
        super().__init__(model)
        self.function = function

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the function's answer; its `status`, where it is not ok, becomes the run's."""
        call = call_of(self.model, request)
        asking = _Asking(self.model, request, emit)
        before = _under_way.set(asking)
        try:
            answer = self.function(call)
            if isawaitable(answer):
                answer = await answer
        finally:
            _under_way.reset(before)
        response = read_answer(answer, self.function)
        if asking.shown.anything and response is not asking.last:
            show(response, asking.anew("the caller answers otherwise"))
        return response

    def check(self) -> None:
        """Check nothing: the function may never call the held model."""

    def price(self, usage: Usage) -> float:
        """Return the price in the usage, else that of the held model."""
        return self.model.price(usage) if usage.cost_usd is None else usage.cost_usd

    @property
    def reports_parts(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether parts are reported: no, as the function may call another model."""
        return False


def read_answer(answer: object, function: object) -> Response:
    """Return the reply in an answer, or raise the error that it describes."""
    if not is_mapping(answer) or type(ok := cast("Any", answer).get("ok")) is not bool:
        raise ConfigError(
            "an llm_caller answers {'ok': True, 'value': …} or {'ok': False, 'status': …}; "
            f"{safe_repr(function)} answered {safe_repr(as_given(answer))}"
        )
    given = answer
    if ok:
        return _reply(given.get("value"), function)
    raise _failure(given, function)


def _failure(given: Mapping[str, Any], function: object) -> WindlassError:
    status, error = given.get("status"), given.get("error")
    if not isinstance(status, str) or not status or status in RESERVED:
        raise ConfigError(
            f"an llm_caller that fails names a status of its own; {safe_repr(function)} said {safe_repr(status)}"
        )
    if isinstance(given, Answer) and given.exception is not None:
        run_status = given.exception.status or "provider_error"
        if status == run_status or isinstance(given.exception, BudgetExceeded):
            return given.exception
    status = whole_text(status)
    detail: Mapping[str, Any] = {}
    message: object = error
    if is_mapping(error):
        detail = error
        message = detail.get("message")
    if isinstance(error, BaseException):
        message = error_text(error)
    category = detail.get("category")
    kind = ERRORS.get(category, ModelError) if isinstance(category, str) else ModelError
    retry_after = detail.get("retry_after")
    failed = kind(
        whole_text(str(message)) if message else f"the caller ended the call as {status!r}",
        retry_after=float(retry_after) if isinstance(retry_after, (int, float)) else None,
    )
    if kind is ModelError:
        vars(failed)["category"] = category if isinstance(category, str) else status
    if status != "provider_error":
        failed.status = status
    if isinstance(error, BaseException):
        failed.__cause__ = error
    return failed


_UNASKED = Usage(cost_usd=0.0)  # a function's own text: no model was paid for it


def _reply(value: Any, function: object) -> Response:
    """Convert a reply from any form that a function may return."""
    if isinstance(value, Response):
        return value
    if isinstance(value, str):
        return Response(Message("assistant", (Text(value),)), _UNASKED)
    if isinstance(value, Message):
        return Response(value, _UNASKED)
    if is_mapping(value):
        return _dict_to_response(value)
    message, usage = getattr(value, "message", None), getattr(value, "usage", None)
    if isinstance(message, Message) and isinstance(usage, Usage):  # what llm_call returns
        return Response(
            message,
            usage,
            value.stop_reason,
            getattr(value, "model", None),
            getattr(value, "native_id", None),
            getattr(value, "provider", None),
        )
    raise ConfigError(
        f"the value of an llm_caller is a text, a Message, a Response or a dict with text and "
        f"tool_calls; {safe_repr(function)} gave {safe_repr(value)}"
    )


def _dict_to_response(value: Mapping[str, Any]) -> Response:
    """Convert `{text, tool_calls, stop_reason, usage …}`, the fields of an `LLMResult`."""
    blocks: list[Block] = []
    try:
        if thinking := value.get("thinking") or value.get("private_reasoning"):
            blocks.append(Thinking(thinking))
        if text := value.get("text"):
            blocks.append(Text(text))
        calls = value.get("tool_calls") or ()
        for one in calls:
            blocks.append(
                one
                if isinstance(one, ToolCall)
                else ToolCall(one.get("id") or "", one["name"], one.get("arguments") or {})
            )
        counts = value.get("usage")
        if counts is None:
            names = [name for name in Usage.__struct_fields__ if value.get(name) is not None]
            counts = {name: value[name] for name in names}
        usage = counts if isinstance(counts, Usage) else msgspec.convert(counts, Usage)
        if usage == NO_USAGE:
            usage = _UNASKED
    except (AttributeError, KeyError, TypeError, msgspec.ValidationError) as problem:
        raise BadReply(f"the value of an llm_caller cannot be read: {problem!r}") from None
    reason = value.get("stop_reason") or ("tool_use" if calls else "end_turn")
    return Response(
        Message("assistant", tuple(blocks)),
        usage,
        reason,
        value.get("model"),
        None,
        value.get("provider"),
    )


# The turn and session of a call, for callers.


class TurnTold(Policy[None]):
    """A policy that records the current turn for callers, in runs with an `llm_caller`."""

    async def before_model(self, run: Run, request: Request) -> Request:
        """Set the turn in the run's own task, so that parallel runs do not interfere."""
        turn_under_way.set((run.number, run.session_id))
        return request

"""A function of yours after every turn: it may add a message, stop, or change options."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, cast

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.loop.plan import to_plain
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import KeepGoing, Stop, Verdict
from windlass.options.checks import function
from windlass.options.group import Option, OptionGroup
from windlass.policies.build import BuildContext, ChangeOptions, Policies
from windlass.policies.completion import visible
from windlass.policies.facts import tally
from windlass.tools.handlers import own

CHANGED = "changed"  # in a plan's metadata: it was made of changed options
ANSWERS = ("message", "stop", "stop_reason", "next_options", "llm_options", "veto")
SUPERSEDED = {
    "tool_names": "successful_tool_names and turn.rejected_tool_names",
    "consecutive_single_tool_turns": "iteration and turn.tool_count, and keep count",
    "session_tools_used": "session_successful_tools and turn.session_rejected_tools",
}


class TurnToolResult(msgspec.Struct, frozen=True, gc=False):
    """One call of the turn, as a callback sees it."""

    tool_name: str
    ok: bool
    status: str
    rendered_result: str
    error: str | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "rejected":
            raise AttributeError("a tool result of a turn has no 'rejected' any more: use not .ok")
        raise AttributeError(
            f"a tool result of a turn has no {name!r}{nearest(name, self.__struct_fields__)}"
        )


class TurnInfo(msgspec.Struct, frozen=True, gc=False):
    """The argument of `post_turn_callback`: `turn.tool_results`, `turn.text`, …"""

    session_id: str
    iteration: int  # counted from 0
    has_tool_calls: bool
    dispatch: list[dict[str, Any]] | None
    tool_results: list[TurnToolResult]
    tool_count: int
    successful_tool_names: list[str]
    rejected_tool_names: list[str]
    session_successful_tools: list[str]
    session_rejected_tools: list[str]
    text: str
    visible_text: str

    def __getattr__(self, name: str) -> Any:
        if name in SUPERSEDED:
            raise AttributeError(f"a turn has no {name!r} any more: use turn.{SUPERSEDED[name]}")
        raise AttributeError(f"a turn has no {name!r}{nearest(name, self.__struct_fields__)}")


class TurnCallback:
    """A callback that sees the run beside the turn, and answers a verdict."""

    async def decide(self, run: Run, turn: TurnInfo) -> Verdict | None:
        """Decide about the turn."""
        raise NotImplementedError

    def __call__(self, turn: TurnInfo) -> None:
        """Refuse to be called without a run."""
        raise ConfigError("this callback is for post_turn_callback=…, which gives it the run")


Callback = Callable[[TurnInfo], Any | Awaitable[Any]]


class PostTurnOptions(OptionGroup, frozen=True, kw_only=True):
    """A callback after every turn."""

    post_turn_callback: Annotated[
        Callback | None, Option(function, accepts="Callable[..., Any] | None")
    ] = None
    """A function that sees each turn and may send a message, stop the run or change options."""


def build(ctx: BuildContext) -> Policies:
    """Build the policy that asks the function."""
    callback = PostTurnOptions.read(ctx.values).post_turn_callback
    return () if callback is None else (PostTurn(callback, ctx.change_options),)


class ChangedOptions(msgspec.Struct, frozen=True):
    """The options that the function has changed so far."""

    options: dict[str, Any] = {}
    llm_options: dict[str, Any] = {}


class PostTurn(Policy[ChangedOptions]):
    """A policy that calls your function after each turn and applies its answer."""

    memory = ChangedOptions

    def __init__(self, callback: Callback, change: ChangeOptions) -> None:
        self.callback, self.change = callback, change

    async def start(self, run: Run) -> None:
        changed: ChangedOptions = run.recall(self)
        if (run.plan.metadata or {}).get(CHANGED):
            return  # this plan is the result of it
        if changed.options or changed.llm_options:
            await self.change(run, changed.options, changed.llm_options)

    async def after_turn(self, run: Run, turn: Turn) -> Verdict | None:
        if isinstance(self.callback, TurnCallback):
            return await self.callback.decide(run, _info(run, turn))
        answer = self.callback(_info(run, turn))
        if answer is not None and inspect.isawaitable(answer):
            answer = await answer
        if answer is None:
            return None
        answered = _parse_answer(answer)
        message = answered.get("message")
        if message and tally(run).heard.get("post_turn") != message:  # added before a crash
            run.say(message, "post_turn")
        if answered.get("stop"):
            return Stop("done", answered.get("stop_reason") or "post_turn_stop")
        options: dict[str, Any] = dict(answered.get("next_options") or {})
        llm: dict[str, Any] = dict(answered.get("llm_options") or {})
        if options or llm:
            changed: ChangedOptions = run.recall(self)
            own = {name: value for name, value in options.items() if not name.startswith("_")}
            changed = ChangedOptions({**changed.options, **own}, {**changed.llm_options, **llm})
            await self.change(run, changed.options, changed.llm_options)
            run.remember(self, changed)
        return KeepGoing("post_turn_callback") if answered.get("veto") else None


def _info(run: Run, turn: Turn) -> TurnInfo:
    counted = tally(run)
    results: list[TurnToolResult] = []
    worked: list[str] = []
    failed: list[str] = []
    for call in turn.calls:
        result = turn.shown.get(call.id) or turn.results.get(call.id)
        if result is None:
            continue
        ok, text = result.outcome == "ok" and not result.is_error, result.text
        (worked if ok else failed).append(call.name)
        status = result.outcome if ok or result.outcome != "ok" else "error"
        results.append(TurnToolResult(call.name, ok, status, text, None if ok else text))
    sentinel = (run.plan.metadata or {}).get("sentinel")
    calls = [{"id": c.id, "name": c.name, "arguments": own(c.arguments)} for c in turn.calls]
    return TurnInfo(
        run.session_id,
        run.iteration - 1,
        bool(turn.calls),
        calls or None,
        results,
        len(turn.calls),
        worked,
        failed,
        list(counted.successful),
        list(counted.rejected),
        turn.text,
        visible(turn.text, sentinel),
    )


def _parse_answer(answer: object) -> Mapping[str, Any]:
    """Convert the function's answer to a dict."""
    if answer is None or answer is False:
        return {}
    if answer is True:
        return {"stop": True}
    if isinstance(answer, str):
        return {"message": answer}
    if not isinstance(answer, Mapping):
        raise ConfigError(
            f"post_turn_callback answers a text, a bool, a dict or None, not {safe_repr(answer)}"
        )
    fields = cast("Mapping[str, Any]", answer)
    for key in fields:
        if key not in ANSWERS:
            raise ConfigError(f"post_turn_callback answers no {key!r}{nearest(str(key), ANSWERS)}")
    for key in ("message", "stop_reason"):
        if fields.get(key) is not None and not isinstance(fields[key], str):
            raise ConfigError(f"post_turn_callback: {key} is a text, not {safe_repr(fields[key])}")
    for key in ("stop", "veto"):
        if fields.get(key) is not None and not isinstance(fields[key], bool):
            raise ConfigError(
                f"post_turn_callback: {key} is True or False, not {safe_repr(fields[key])}"
            )
    for key in ("next_options", "llm_options"):
        given = fields.get(key)
        if given is not None and not isinstance(given, Mapping):
            raise ConfigError(f"post_turn_callback: {key} is a dict, not {safe_repr(given)}")
        to_plain(given, f"post_turn_callback: {key}")
    return fields

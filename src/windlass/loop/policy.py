"""A behaviour of the loop, whole in one object: what it does at each moment of a turn.

A policy is frozen configuration that many runs share; what it must remember of one run is its
`memory`, journaled with the moment that changed it. A run asks only the moments a policy overrides.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from windlass.errors import ConfigError, ModelError
from windlass.json_types import JsonObject
from windlass.loop.verdict import (
    Finish,
    Granted,
    KeepGoing,
    Outcome,
    Refused,
    Stop,
    Suspend,
    Verdict,
)
from windlass.messages import ToolCall, ToolResult
from windlass.models.base import Model, Request
from windlass.tools.tool import Tool

if TYPE_CHECKING:
    from windlass.loop.run import Run
    from windlass.loop.turn import Turn

Memory = TypeVar("Memory")
CallVerdict: TypeAlias = ToolCall | ToolResult | Suspend | Granted | Refused | None


_MOMENTS = (
    "start",
    "before_turn",
    "before_model",
    "on_model_error",
    "after_reply",
    "before_tool",
    "after_tool",
    "after_turn",
    "before_finish",
    "end",
)
_KNOWN = frozenset(_MOMENTS)


class TryAgain:
    """The answer of `on_model_error`: the cause is fixed, call the model once more."""


class Policy(Generic[Memory]):
    """A behaviour of the loop; override the methods that it needs.

    ```python
    class Polite(w.Policy[None]):
        async def after_turn(self, run, turn):
            return w.Stop("failed", "rude") if "damn" in turn.message.text else None

    agent = w.Agent(model, policies=[Polite()])
    ```
    Many runs share one policy: keep what it must remember of a run with `run.remember`.
    """

    memory: ClassVar[Any] = None  # the msgspec struct that holds what it remembers
    keeps: ClassVar[Literal["run", "session"]] = "run"
    # its before_model and its after_reply are over at once, but for rare turns
    brief: ClassVar[bool] = False
    # its after_reply looks only at replies without calls
    skips_calls: ClassVar[bool] = False
    # its after_reply looks only at replies with calls
    skips_texts: ClassVar[bool] = False
    # of replies with calls, its after_reply looks only at those that call this tool
    looks_for: ClassVar[str | None] = None
    # of replies without calls, its after_reply looks only at those with this text in them
    looks_for_text: ClassVar[str | None] = None
    # its start does nothing in a session of fewer than `FEW_ENTRIES` entries
    needs_history: ClassVar[bool] = False
    lasts: ClassVar[bool] = False  # its before_model also shapes the closing answer after the turns
    decides: ClassVar[bool] = False
    """Whether `before_tool` never changes a call; it is then called after those that do."""
    models: tuple[
        Model, ...
    ] = ()  # models it calls beside the run's own: their keys are secrets too

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a misspelt moment: nobody would ever call it."""
        super().__init_subclass__(**options)
        if cls.__module__.startswith("windlass."):
            return
        for name, value in vars(cls).items():
            if name.startswith("_") or name in _KNOWN or not isinstance(value, FunctionType):
                continue
            near = next((moment for moment in _MOMENTS if _is_slip(name, moment)), None)
            if near is not None:
                raise ConfigError(
                    f"policy {cls.__name__!r} has no moment {name!r}; did you mean {near!r}? The name "
                    "of a method of your own may begin with an underscore"
                )

    @property
    def name(self) -> str:
        """Its name in the journal and the audit log."""
        return type(self).__name__

    def for_child(self, run: Run) -> Policy[Any] | None:
        """Return the policy for sub-agents of the run; None for none."""
        return None

    def as_record(self) -> JsonObject | None:
        """Return data from which a policy of `for_child` is rebuilt; None if it needs its program.

        `{}` means that there is nothing to rebuild. The session of a sub-agent under a policy that
        needs its program can only be resumed with its parent.
        """
        return None

    async def start(self, run: Run) -> Sequence[Tool] | None:
        """Prepare for a run, also when it is resumed; return the tools that the policy adds."""

    async def before_turn(self, run: Run) -> Stop | Suspend | None:
        """Decide whether the next turn may begin."""

    async def before_model(self, run: Run, request: Request) -> Request:
        """Return the request, changed or not; decide nothing here."""
        return request

    async def on_model_error(self, run: Run, error: ModelError) -> TryAgain | None:
        """Fix the cause of a failed model call and return `TryAgain()`, or return None."""

    async def after_reply(self, run: Run, turn: Turn) -> Stop | Suspend | KeepGoing | None:
        """Decide about a reply, before any of its calls runs."""

    async def before_tool(self, run: Run, call: ToolCall) -> CallVerdict:
        """Decide whether a call may run: return the call or None, a `ToolResult`, or `Suspend`.

        A changed call is shown again to the policies that have seen an earlier version, and then to
        those with `decides`. Each policy may change a call once.
        """

    def passes(self, run: Run, call: ToolCall) -> bool:
        """Return whether `before_tool` would let a call run unchanged; must be quick.

        Return False if in doubt. A call that all policies pass is not reviewed: nobody asks,
        refuses or changes it.
        """
        return False

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult | Stop:
        """Return what the model sees of the result."""
        return result

    def leaves(self, run: Run, call: ToolCall, result: ToolResult) -> bool:
        """Return whether `after_tool` would return a result unchanged; must be quick.

        Return False if in doubt. A class that overrides `after_tool` and not this method is called
        for every result.
        """
        return False

    async def after_turn(self, run: Run, turn: Turn) -> Verdict | None:
        """Vote on the turn: all policies are called, and the strongest verdict wins."""

    async def before_finish(
        self, run: Run, turn: Turn, finish: Finish
    ) -> KeepGoing | Stop | Suspend | None:
        """Decide whether the run may end as proposed."""

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        """Return the outcome of the run; may change the status and add fields to the result."""
        return outcome


def _is_slip(name: str, moment: str) -> bool:
    """Check whether two letters at most were added, left out or changed."""
    before = list(range(len(moment) + 1))
    for row, letter in enumerate(name, 1):
        costs = [row]
        for column, other in enumerate(moment, 1):
            changed = before[column - 1] + (letter != other)
            costs.append(min(changed, before[column] + 1, costs[-1] + 1))
        before = costs
    return before[-1] <= min(2, len(moment) // 3)


def invalid_answer(method: Any, answer: object, may: str) -> ConfigError:
    """Build the error for an answer that has no meaning at its moment."""
    name, moment = method.__self__.name, method.__name__
    return ConfigError(f"policy {name!r}: {moment} answers {may}, not {answer!r:.80}")


FEW_ENTRIES = 8  # of a session that has just begun
_REVERSED = ("after_tool", "end")  # an After runs in reverse, so that wrappers nest


class Moments:
    """For each moment the methods to call, collected once from the policies that override it."""

    __slots__ = (
        *_MOMENTS,
        "changing",
        "checks_calls",
        "checks_texts",
        "deciding",
        "deliberates",
        "leaving",
        "looks_for",
        "looks_for_texts",
        "models",
        "starts_new",
    )
    start: tuple[Any, ...]
    before_turn: tuple[Any, ...]
    before_model: tuple[Any, ...]
    on_model_error: tuple[Any, ...]
    after_reply: tuple[Any, ...]
    before_tool: tuple[Any, ...]
    after_tool: tuple[Any, ...]
    after_turn: tuple[Any, ...]
    before_finish: tuple[Any, ...]
    end: tuple[Any, ...]
    changing: tuple[Any, ...]  # those of before_tool that may change a call
    deciding: tuple[Any, ...]  # and those that come after them, and may not
    leaving: tuple[Any, ...]  # for each of after_tool: whether it leaves a result as it is
    checks_calls: bool  # whether a policy of after_reply looks at all replies with calls
    looks_for: frozenset[str]  # names of calls for which one looks at a reply
    checks_texts: bool  # whether one looks at all replies without calls
    looks_for_texts: frozenset[str]  # texts for which one looks at a reply without calls
    models: tuple[Model, ...]  # that policies call beside the run's own
    starts_new: bool  # whether a policy has to start in a session that has just begun
    deliberates: bool  # whether a policy may take long between two steps of a turn

    def __init__(self, policies: Sequence[Policy[Any]]) -> None:
        for moment in _MOMENTS:
            setattr(self, moment, ())
        for policy in policies:
            for moment in overridden_moments(type(policy)):
                asked = getattr(self, moment)
                method = getattr(policy, moment)
                joined = (method, *asked) if moment in _REVERSED else (*asked, method)
                setattr(self, moment, joined)
        self.changing = tuple([each for each in self.before_tool if not each.__self__.decides])
        self.deciding = tuple([each for each in self.before_tool if each.__self__.decides])
        self.leaving = tuple([_leaves_of(each.__self__) for each in self.after_tool])
        looking = [each.__self__ for each in self.after_reply if not each.__self__.skips_calls]
        self.models = tuple([model for policy in policies for model in policy.models])
        self.checks_calls = any([policy.looks_for is None for policy in looking])
        self.looks_for = frozenset([policy.looks_for for policy in looking if policy.looks_for])
        reading = [each.__self__ for each in self.after_reply if not each.__self__.skips_texts]
        self.checks_texts = any([policy.looks_for_text is None for policy in reading])
        texts = [policy.looks_for_text for policy in reading if policy.looks_for_text]
        self.looks_for_texts = frozenset(texts)
        self.starts_new = any([not each.__self__.needs_history for each in self.start])
        shapes = any([not method.__self__.brief for method in self.before_model])
        self.deliberates = bool(
            len(self.after_tool) > 1
            or self.after_turn
            or self.before_finish
            or self.before_turn
            or shapes
            or any([not method.__self__.brief for method in self.after_reply])
            or self.before_tool
        )


def _may_change(_run: Run, _call: ToolCall, _result: ToolResult) -> bool:
    return False


def _leaves_of(policy: Policy[Any]) -> Any:
    """Return the `leaves` that was written for the policy's own `after_tool`."""
    owner = next(kind for kind in type(policy).__mro__ if "after_tool" in vars(kind))
    return policy.leaves if "leaves" in vars(owner) else _may_change


@functools.cache
def overridden_moments(kind: type[Policy[Any]]) -> tuple[str, ...]:
    """Return the moments that a class of policies overrides."""
    return tuple(m for m in _MOMENTS if getattr(kind, m) is not getattr(Policy, m))


@functools.lru_cache(maxsize=256)
def moments_of(policies: tuple[Policy[Any], ...]) -> Moments:
    """Collect the moments of these policies; agents that are made again and again share them."""
    return Moments(policies)

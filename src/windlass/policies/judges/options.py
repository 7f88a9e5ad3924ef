"""The options of judges: models and functions that must agree before a run is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, cast

from windlass.errors import ConfigError, safe_repr
from windlass.models.base import Model
from windlass.options.checks import number, one_of, optional, text
from windlass.options.group import Option, OptionGroup, OptionStruct, struct
from windlass.policies.loop_state import LoopState
from windlass.policies.model_check import check_model

FALLBACK = "The task is not finished yet. Go on with what is missing."
SYSTEM = (
    "You decide whether the assistant has done what the user asked for. Trust what tools returned, "
    "not what the assistant claims. Say done only if nothing that was asked for is missing; "
    "otherwise say continue and name the one next step."
)

_check_count = number(1, whole=True)
_check_amount = number(0, whole=True)
_check_cap = optional(_check_amount)


def _check_when(name: str, value: Any) -> Any:
    return value if callable(value) else one_of("always", "stalled")(name, value)


class Cadence(OptionStruct, frozen=True, kw_only=True):
    """When the done judge is asked: `Cadence(every=2, min_iterations_before_first=3)`."""

    every: Annotated[int, Option(_check_count)] = 1
    """Ask only on turns that are a multiple of this number."""
    when: Annotated[
        Literal["always", "stalled"] | Callable[[LoopState], Any], Option(_check_when)
    ] = "always"
    """Ask at every end, only when the run stalls, or when a function says so."""
    max_invocations: Annotated[int | None, Option(_check_cap)] = None
    """Calls after which it is not asked any more."""
    min_iterations_before_first: Annotated[int, Option(_check_amount)] = 0
    """Turns at the beginning in which it is not asked."""


class DoneJudge(OptionStruct, frozen=True, kw_only=True):
    """A model that must agree that the work is done: `DoneJudge(model="openai:gpt-5")`."""

    provider: Annotated[str | None, Option(optional(text))] = None
    """The provider of its model."""
    model: Annotated[str | Model | None, Option(check_model)] = None
    """Its model; None: the model of the run."""
    system: Annotated[str, Option(text)] = SYSTEM
    """Its system prompt."""
    max_invocations: Annotated[int | None, Option(_check_cap, aliases=("max_feedback",))] = None
    """Objections after which the run ends; 0 and None: no limit."""
    cadence: Annotated[Cadence, Option(struct(Cadence, flag=False))] = Cadence()
    """When it is asked."""


class CompletionJudge(OptionStruct, frozen=True, kw_only=True):
    """A model that checks every natural end: `CompletionJudge(max_invocations=2)`."""

    provider: Annotated[str | None, Option(optional(text))] = None
    """The provider of its model."""
    model: Annotated[str | Model | None, Option(check_model)] = None
    """Its model; None: the model of the run."""
    system: Annotated[str, Option(text)] = SYSTEM
    """Its system prompt."""
    feedback_fallback: Annotated[str, Option(text)] = FALLBACK
    """What the model is told if the judge names no next step."""
    max_invocations: Annotated[int | None, Option(_check_cap, aliases=("max_feedback",))] = 5
    """Objections after which the run ends; 0 and None: no limit."""


def _check_checks(name: str, value: Any) -> Any:
    if value is None or callable(value):
        return value
    if isinstance(value, str) and value.strip():
        return (value,)
    if isinstance(value, (list, tuple)) and value:
        checks = cast("Sequence[Any]", value)
        if all(callable(each) or (isinstance(each, str) and each.strip()) for each in checks):
            return tuple(checks)
    given = cast("object", value)
    raise ConfigError(
        f"{name} is a function, a command, or a list of these, not {safe_repr(given)}"
    )


class JudgeOptions(OptionGroup, frozen=True, kw_only=True):
    """Judges and completion checks."""

    verify_completion: Annotated[
        Callable[..., Any] | tuple[Callable[..., Any] | str, ...] | None,
        Option(
            _check_checks,
            accepts="Callable[..., Any] | str | Sequence[Callable[..., Any] | str] | None",
        ),
    ] = None
    """A function or a list of checks of finished work. A text is a command for the sandbox."""
    verify_completion_judge: Annotated[
        CompletionJudge | None,
        Option(struct(CompletionJudge), accepts="bool | dict[str, Any] | CompletionJudge | None"),
    ] = None
    """A model that checks every natural end."""
    done_judge: Annotated[
        DoneJudge | None,
        Option(struct(DoneJudge), accepts="bool | dict[str, Any] | DoneJudge | None"),
    ] = None
    """A model that must agree that the work is done."""
    max_verify_attempts: Annotated[int, Option(_check_count)] = 20
    """Objections of all checks after which the run ends."""

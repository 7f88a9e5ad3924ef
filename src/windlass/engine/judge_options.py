"""The options that decide whether a run goes on, with what each accepts. No behaviour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from windlass.engine.tool_options import CHECKS as CALLING
from windlass.engine.tool_options import CallingOptions
from windlass.errors import ConfigError, safe_repr
from windlass.models.base import Model
from windlass.options.checks import (
    boolean,
    check_struct,
    function,
    late,
    number,
    one_of,
    optional,
    text,
    texts,
)
from windlass.options.group import checks_of
from windlass.policies.completion import TurnPolicy
from windlass.policies.stall.options import LoopDetection, StallDiagnostics, StallOptions
from windlass.policies.turn_limit.options import IterationBudget

if TYPE_CHECKING:
    from windlass.policies.judges.options import CompletionJudge, DoneJudge
    from windlass.policies.judges.step import StepJudge


class JudgementOptions(CallingOptions, total=False):
    """What decides whether a run goes on, and how its calls run."""

    iteration_budget: str | dict[str, Any] | IterationBudget
    loop_control: Callable[..., Any]
    verify_completion: Callable[..., Any] | Sequence[Callable[..., Any]]
    verify_completion_judge: bool | dict[str, Any] | CompletionJudge
    done_judge: bool | dict[str, Any] | DoneJudge
    max_verify_attempts: int
    step_judge: dict[str, Any] | StepJudge
    stall_diagnostics: bool | dict[str, Any] | StallDiagnostics
    loop_detect_warn: int
    loop_detect_block: int
    loop_detect_skip: int
    loop_detection: bool | dict[str, Any] | LoopDetection
    turn_policy: dict[str, Any] | TurnPolicy
    native_tool_fallback: str
    stop_after_successful_tools: Sequence[str]
    require_successful_tools: Sequence[str | Sequence[str]]
    post_turn_callback: Callable[..., Any]


_Check = Callable[[str, Any], Any]


def _model(name: str, value: Any) -> Any:
    if value is None or isinstance(value, Model):
        return value
    return text(name, value)


def _when(name: str, value: Any) -> Any:
    return value if callable(value) else one_of("always", "stalled")(name, value)


_WHOLE, _COUNT = number(0, whole=True), number(1, whole=True)
_JUDGE: dict[str, _Check] = {
    "provider": optional(text),
    "model": _model,
    "system": text,
    "max_invocations": optional(_WHOLE),
}
_BUDGET = check_struct(
    IterationBudget,
    {
        "mode": one_of("fixed", "adaptive"),
        "initial": optional(_COUNT),
        "max": optional(_COUNT),
        "extend_by": optional(_WHOLE),
        "expose_decisions": optional(boolean),
    },
    flag=False,
)


@late
def _completion_judge() -> _Check:
    from windlass.policies.judges.options import CompletionJudge

    fields = {**_JUDGE, "feedback_fallback": text}
    return check_struct(CompletionJudge, fields, {"max_feedback": "max_invocations"})


@late
def _done_judge() -> _Check:
    from windlass.policies.judges.gates import Cadence
    from windlass.policies.judges.options import DoneJudge

    cadence: dict[str, _Check] = {
        "every": _COUNT,
        "when": _when,
        "max_invocations": optional(_WHOLE),
        "min_iterations_before_first": _WHOLE,
    }
    fields = {**_JUDGE, "cadence": check_struct(Cadence, cadence, flag=False)}
    return check_struct(DoneJudge, fields, {"max_feedback": "max_invocations"})


@late
def _step_judge() -> _Check:
    from windlass.policies.judges.step import StepJudge

    fields: dict[str, _Check] = {
        "provider": optional(text),
        "model": _model,
        "system": text,
        "on_veto": one_of("replace", "retain"),
        "max_attempts": _COUNT,
        "skip_when_empty": boolean,
        "skip_when_stalled": boolean,
        "skip_when_iterations_remaining": _WHOLE,
    }
    return check_struct(StepJudge, fields)


def _iteration_budget(name: str, value: Any) -> Any:
    if isinstance(value, str):
        value = {"mode": one_of("fixed", "adaptive")(name, value)}
    budget: IterationBudget | None = _BUDGET(name, value)
    if budget is not None:
        if budget.mode == "adaptive" and budget.extend_by == 0:
            raise ConfigError(f"{name}.extend_by is a whole number of at least 1, not 0")
        budget.resolved()  # refuses an initial that is more than max
    return budget


def _checks(name: str, value: Any) -> Any:
    if value is None or callable(value):
        return value
    if isinstance(value, (list, tuple)) and value:
        checks = cast("Sequence[Any]", value)
        if all(callable(each) for each in checks):
            return tuple(checks)
    given = cast("object", value)
    raise ConfigError(f"{name} is a function, or a list of functions, not {safe_repr(given)}")


def _groups(name: str, value: Any) -> tuple[tuple[str, ...], ...]:
    """All of these, and of a nested list any one."""
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise ConfigError(f"{name} is a list of tools' names, not {safe_repr(value)}")
    groups: list[tuple[str, ...]] = []
    for each in cast("Sequence[Any]", value):
        group = (text(name, each),) if isinstance(each, str) else texts(name, each)
        if not group:
            raise ConfigError(f"{name} holds an empty group, which nothing can satisfy")
        groups.append(group)
    return tuple(groups)


CHECKS: dict[str, _Check] = {
    "iteration_budget": optional(_iteration_budget),
    "loop_control": function,
    "verify_completion": _checks,
    "verify_completion_judge": _completion_judge,
    "done_judge": _done_judge,
    "max_verify_attempts": _COUNT,
    "step_judge": _step_judge,
    **checks_of(StallOptions),
    "turn_policy": check_struct(
        TurnPolicy,
        {
            "require_action_or_yield": boolean,
            "allow_done_sentinel": boolean,
            "max_prose_chars": optional(_COUNT),
        },
        flag=False,
    ),
    "native_tool_fallback": one_of("allow", "allow_once", "reject"),
    "stop_after_successful_tools": optional(texts),
    "require_successful_tools": optional(_groups),
    "post_turn_callback": function,
    **CALLING,
}

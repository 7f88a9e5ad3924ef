"""From the options of judgement to policies, in their order, with the reason for each place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from windlass.errors import ConfigError
from windlass.loop.ledger import Limits
from windlass.loop.policy import Policy
from windlass.models.base import Model
from windlass.options.prompt_text import Words
from windlass.options.prompts import choose_prompt as prompt_of
from windlass.options.prompts import override, words_of
from windlass.policies.completion import ACT, NUDGES, SENTINEL, Completion, Mode
from windlass.policies.stall.options import build as build_stall
from windlass.policies.turn_limit.options import IterationBudget, Turns

if TYPE_CHECKING:
    from windlass.policies.judges.completion import Verification
    from windlass.policies.judges.evidence import Check
    from windlass.policies.judges.gates import Judge
    from windlass.policies.judges.options import CompletionJudge, DoneJudge
    from windlass.policies.judges.step import StepJudge
    from windlass.policies.post_turn import Change

#: The model that a judge's own settings name: `ask(provider, model)`.
Named = Callable[[str | None, str | Model | None], Model]


def turns_of(options: Mapping[str, Any], default: int) -> Turns | None:
    """The limit on turns where it is more than a number; None: it is just that."""
    budget: IterationBudget | None = options.get("iteration_budget")
    limits: Limits | None = options.get("budget")
    turns = limits.iterations if limits is not None else None
    if budget is not None:
        if turns is not None:
            raise ConfigError("iteration_budget and budget.iterations limit the same: give one")
        return budget.resolved()
    if options.get("loop_control") is None:
        return None
    most = options.get("max_iterations", default if turns is None else turns)
    return Turns("fixed", most, most, 0, False)


def judging(
    options: Mapping[str, Any],
    mode: Mode,
    sentinel: str | None,
    turns: Turns | None,
    named: Named,
    change: Change,
) -> list[Policy[Any]]:
    """Everything that decides whether the run goes on, but for budgets."""
    required = options.get("require_successful_tools") or ()
    chosen: list[Policy[Any]] = []
    fallback = options.get("native_tool_fallback", "allow")
    if fallback != "allow" and mode == "native":  # before anybody looks at calls that will not run
        from windlass.policies.native_tools import WORDS, NativeFallback

        words = words_of(options, "agent.native_tool_fallback", WORDS)
        chosen.append(NativeFallback(fallback, words))
    if (stall := build_stall(options)) is not None:  # before the judges: they read its warnings
        chosen.append(stall)
    if (gates := _gates(options, named)) is not None:  # before completion, which asks for tools
        chosen.append(gates)
    step: StepJudge | None = options.get("step_judge")
    if step is not None:  # after the stall, which may make it superfluous
        chosen.append(_step_judging(options, step, named))
    if (completion := _completion(options, mode, sentinel, required)) is not None:
        chosen.append(completion)
    if (callback := options.get("post_turn_callback")) is not None:
        from windlass.policies.post_turn import PostTurn

        chosen.append(PostTurn(callback, change))
    control = options.get("loop_control")
    if turns is not None and (control is not None or turns.mode == "adaptive" or turns.expose):
        from windlass.policies.turn_limit.policy import LoopControl

        chosen.append(
            LoopControl(turns, control, required)
        )  # last: it looks at what all others said
    return chosen


def _step_judging(options: Mapping[str, Any], step: StepJudge, named: Named) -> Policy[Any]:
    from windlass.policies.judges.step import SYSTEM, StepJudging

    other = step.provider is not None or step.model is not None
    system = prompt_of(options, "agent.step_judge_system", step.system, "step_judge.system", SYSTEM)
    return StepJudging(step, named(step.provider, step.model) if other else None, system)


def _completion(
    options: Mapping[str, Any], mode: Mode, sentinel: str | None, required: Any
) -> Completion | None:
    until_done = options.get("loop_until_done", False)
    stop_after, shape = options.get("stop_after_successful_tools"), options.get("turn_policy")
    if not (until_done or sentinel is not None or required or stop_after or shape is not None):
        return None  # the kernel's own rule is the whole of it
    said, prompt = sentinel or SENTINEL, override(options, "agent.nudge")
    nudge: Words | None = options.get("nudge")
    if prompt is not None:
        offers = NUDGES[mode].format(sentinel=said)
        nudge = prompt_of(
            options, "agent.nudge", options.get("nudge"), "nudge", offers, sentinel=said
        )
    act: Words | None = None
    if override(options, "agent.action_required") is not None:
        act = words_of(options, "agent.action_required", ACT, sentinel=said)
    return Completion(
        mode,
        loop_until_done=until_done,
        sentinel=sentinel,
        max_nudges=options.get("max_nudges", 8),
        nudge=nudge,
        act=act,
        stop_after=frozenset(stop_after or ()),
        required=required,
        shape=shape,
    )


def _gates(options: Mapping[str, Any], named: Named) -> Verification | None:
    given: Check | tuple[Check, ...] | None = options.get("verify_completion")
    checks: tuple[Check, ...] = () if given is None or callable(given) else given
    judge: CompletionJudge | None = options.get("verify_completion_judge")
    done: DoneJudge | None = options.get("done_judge")
    if given is None and judge is None and done is None:
        return None
    from windlass.policies.judges.completion import Verification
    from windlass.policies.judges.evidence import FALLBACK

    return Verification(
        given if callable(given) else None,
        checks,
        None
        if judge is None
        else _judge(options, "verify_completion_judge", judge, named, judge.feedback_fallback),
        None if done is None else _judge(options, "done_judge", done, named, FALLBACK),
        options.get("max_verify_attempts", 20),
        options.get("require_successful_tools") or (),
    )


def _judge(
    options: Mapping[str, Any],
    gate: str,
    judge: CompletionJudge | DoneJudge,
    named: Named,
    fallback: str,
) -> Judge:
    from windlass.policies.judges.gates import SYSTEM, Cadence, Judge
    from windlass.policies.judges.options import DoneJudge

    whose = "done" if gate == "done_judge" else "completion"
    system = prompt_of(
        options, f"agent.{whose}_judge_system", judge.system, f"{gate}.system", SYSTEM
    )
    other = judge.provider is not None or judge.model is not None
    return Judge(
        gate=gate,
        model=named(judge.provider, judge.model) if other else None,
        system=system,
        fallback=fallback,
        cap=judge.max_invocations or None,  # 0 is the word for no cap
        cadence=judge.cadence if isinstance(judge, DoneJudge) else Cadence(),
    )

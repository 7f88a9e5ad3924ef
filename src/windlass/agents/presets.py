"""Presets: options for common agents. Options of the user override them.

Four are roles (audit, repair, summary, verify). Four are captains: they have long budgets, and may
have consent, a rate limit, a dry run or sinks around their tool calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from windlass.agents.agent_loop import agent_loop
from windlass.callers.caller import Caller, compose, default_llm_caller
from windlass.callers.common import other
from windlass.callers.escalation import with_escalation
from windlass.callers.logs import with_logging
from windlass.engine.model import resolve_model
from windlass.engine.model_options import ModelOptions
from windlass.engine.results import LoopResult
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.models.base import Model
from windlass.models.reasoning import Wish, choose
from windlass.options.parse import merge_options
from windlass.policies.turn_limit.options import check_iteration_budget
from windlass.tools.middleware.call_info import AskedCall
from windlass.tools.middleware.dry_run import HARMLESS
from windlass.tools.middleware.layers import MOST_CALLS

if TYPE_CHECKING:
    from windlass.agents.keywords import CaptainKeywords, PresetKeywords


def _adaptive(initial: int, most: int, step: int) -> dict[str, Any]:
    return {"mode": "adaptive", "initial": initial, "max": most, "extend_by": step}


def _working(profile: str, nudges: int, budget: dict[str, Any]) -> dict[str, Any]:
    """Return the options of an agent that works with tools until it is done."""
    return {
        "profile": profile,
        "tool_format": "native",
        "loop_until_done": True,
        "max_nudges": nudges,
        "iteration_budget": budget,
        "stall_diagnostics": {"enabled": True, "threshold": 3},
    }


_PRESETS: Final[dict[str, dict[str, Any]]] = {
    "audit": _working("verifier", 1, _adaptive(4, 12, 2)),
    "repair": _working("tool_using", 2, _adaptive(4, 16, 2)),
    "summary": {
        "profile": "completer",
        "loop_until_done": False,
        "max_nudges": 0,
        "iteration_budget": {"mode": "fixed", "initial": 1, "max": 1},
        "tool_choice": "none",
    },
    "verify": {
        "profile": "verifier",
        "loop_until_done": False,
        "max_nudges": 0,
        "iteration_budget": _adaptive(1, 5, 1),
        "done_judge": True,
    },
    "merge_captain": _working("tool_using", 3, _adaptive(8, 60, 4)),
    "review_captain": _working("tool_using", 3, _adaptive(6, 30, 3)),
    "oncall_captain": {
        **_working("tool_using", 3, _adaptive(6, 24, 3)),
        "rate_limit": {"max_calls": MOST_CALLS},
    },
    "release_captain": _working("tool_using", 3, _adaptive(8, 40, 4)),
}
#: The thinking level of each, where its model takes levels.
_EFFORTS: Final = {"verify": "low"}
#: Any of these options replaces the preset's choice of thinking.
_SAID: Final = frozenset({"thinking", "reasoning_effort", "reasoning_policy", "thinking_policy"})
_AROUND: Final = ("consent", "rate_limit", "dry_run", "audit_sink", "telemetry", "handoff_sink")


def agent_preset(name: str, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the options of a preset as a dict, with your overrides.

    ```python
    options = w.agent_preset("repair", {"tools": tools, "max_nudges": 5})
    result = await w.agent_loop("Fix the regression.", None, options)
    ```
    `iteration_budget="adaptive"` in the overrides keeps the numbers of the preset. If the overrides
    name the model, `thinking` is chosen for it. An unknown preset raises `ConfigError`.
    """
    return _options(name, overrides, whole=False)


def _options(name: str, overrides: object, *, whole: bool) -> dict[str, Any]:
    """Merge the options; with `whole` nothing is added later, so the model is known."""
    preset = _preset(name)
    if overrides is not None and not isinstance(overrides, Mapping):
        raise ConfigError(f"the overrides of a preset are a dict, not {safe_repr(overrides)}")
    given = dict(cast("Mapping[str, Any]", overrides or {}))
    budget = given.get("iteration_budget")
    if isinstance(budget, str):
        given["iteration_budget"] = _switch_mode(preset["iteration_budget"], budget)
    captain = name.endswith("_captain")
    if captain:
        given = _led(given)
    if given.get("tool_caller") is not None and captain:
        _refuse_conflicts(given)
        preset.pop("rate_limit", None)
    elif name == "merge_captain" and given.get("consent") is None:
        given["consent"] = reads_only
    options = {**preset, **given}
    if _SAID.isdisjoint(given) and _SAID.isdisjoint(given.get("llm_options") or ()):
        thinking = _thinking(name, options, whole)
        if thinking is not None:
            options["thinking"] = thinking
    return options


def _preset(name: object) -> dict[str, Any]:
    if not isinstance(name, str) or name not in _PRESETS:
        hint = nearest(name, _PRESETS) if isinstance(name, str) else ""
        known = ", ".join(_PRESETS)
        raise ConfigError(f"there is no preset {safe_repr(name)}{hint}; there are: {known}")
    return deepcopy(_PRESETS[name])


# --------------------------------------------------------------------------- budgets


def agent_budget(
    kind_or_options: str | Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Build a value for `iteration_budget` from a preset, a mode, or your own numbers.

    `agent_budget("repair", {"max": 24})`, `agent_budget("adaptive", {"initial": 2, "max": 6})`
    """
    kind = cast("object", kind_or_options)
    if isinstance(kind, str):
        if kind in ("adaptive", "fixed"):
            budget: dict[str, Any] = {"mode": kind}
        elif kind in _PRESETS:
            budget = _preset(kind)["iteration_budget"]
        else:
            hint = nearest(kind, ("adaptive", "fixed", *_PRESETS))
            raise ConfigError(f"there is no budget {safe_repr(kind)}{hint}")
    elif isinstance(kind, Mapping):
        budget = dict(cast("Mapping[str, Any]", kind))
    else:
        raise ConfigError(f"a budget is a preset's name, a mode or a dict, not {safe_repr(kind)}")
    if overrides is not None and not isinstance(cast("object", overrides), Mapping):
        raise ConfigError(f"the overrides of a budget are a dict, not {safe_repr(overrides)}")
    budget |= overrides or {}
    checked = check_iteration_budget("iteration_budget", budget)
    assert checked is not None
    turns = checked.resolve()
    numbers = {"initial": turns.initial, "max": turns.max, "extend_by": turns.extend_by}
    shows = {} if checked.expose_decisions is None else {"expose_decisions": turns.expose}
    return {"mode": turns.mode, **numbers, **shows}


def _switch_mode(budget: Mapping[str, Any], mode: str) -> Any:
    """Convert the preset's numbers to another mode."""
    if mode == "adaptive":
        return {**budget, "mode": mode}
    if mode == "fixed":
        return {"mode": mode, "max": budget["max"]}
    return mode  # the loop reports what is wrong with it


# --------------------------------------------------------------------------- captains


def reads_only(call: AskedCall) -> bool | dict[str, Any]:
    """Allow only tools that read; the default consent of a merge captain."""
    if call["kind"] in HARMLESS:
        return True
    kinds = ", ".join(sorted(HARMLESS))
    return {"allow": False, "reason": f"only tools of the kinds {kinds} run without a consent=…"}


def _refuse_conflicts(given: Mapping[str, Any]) -> None:
    for name in _AROUND:
        if given.get(name) is not None:
            raise ConfigError(
                f"tool_caller replaces all that a captain puts around tool calls: leave {name} out, "
                "or compose it into the tool_caller"
            )


def _led(given: dict[str, Any]) -> dict[str, Any]:
    """Replace the options that choose models by an `llm_caller`."""
    cheap, frontier = given.pop("cheap_caller", None), given.pop("frontier_caller", None)
    predicate, sink = given.pop("escalate_predicate", None), given.pop("logging_sink", None)
    if cheap is None and frontier is None and predicate is None and sink is None:
        return given
    if (frontier is None) != (predicate is None):
        have, lack = (
            ("frontier_caller", "escalate_predicate")
            if predicate is None
            else ("escalate_predicate", "frontier_caller")
        )
        raise ConfigError(f"{have} needs {lack}: they say who is asked, and when")
    base: Any = given.get("llm_caller")
    if base is not None and (cheap is not None or frontier is not None):
        raise ConfigError("llm_caller and cheap_caller or frontier_caller: give one of them")
    if cheap is not None:
        base = _Instead(other("cheap_caller", cheap))
    layers: list[Callable[[Any], Any]] = []
    if sink is not None:
        layers.append(with_logging(sink))
    if frontier is not None:
        layers.append(with_escalation(frontier, predicate=predicate))
    caller = compose(layers)(default_llm_caller() if base is None else base)
    return {**given, "llm_caller": caller}


class _Instead(Caller):
    """Calls another model in place of the run's own."""

    def __init__(self, make: Callable[[Model], Model]) -> None:
        self.make = make

    def around(self, model: Model) -> Model:
        return self.make(model)


# --------------------------------------------------------------------------- thinking


def _thinking(name: str, options: Mapping[str, Any], whole: bool) -> Any:
    """Return the thinking option of the preset's model, or None."""
    if not whole and not any(options.get(key) for key in ("model", "provider", "model_tier")):
        return None  # the model is not known yet
    caps = resolve_model(ModelOptions.read(options)).capabilities
    if name == "summary":
        off = "disabled" in caps.thinking_modes and not caps.always_thinks
        return {"mode": "disabled"} if off else None
    if "adaptive" in caps.thinking_modes:
        return {"mode": "adaptive"}
    if caps.reasoning_effort_supported:
        return choose(caps, Wish(effort=_EFFORTS.get(name, "medium")))
    return None


# --------------------------------------------------------------------------- agents


async def _run(name: str, prompt: Any, options: Any, more: Mapping[str, Any]) -> LoopResult:
    given = merge_options(options, more, f"{name}_agent")
    return await agent_loop(prompt, None, _options(name, given, whole=True))


async def audit_agent(
    prompt: Any, options: Mapping[str, Any] | None = None, /, **more: Unpack[PresetKeywords]
) -> LoopResult:
    """Run an agent that inspects: `await w.audit_agent("Audit the release", tools=tools)`."""
    return await _run("audit", prompt, options, more)


async def repair_agent(
    prompt: Any, options: Mapping[str, Any] | None = None, /, **more: Unpack[PresetKeywords]
) -> LoopResult:
    """Run an agent that fixes something: `await w.repair_agent("Fix the bug", tools=tools)`."""
    return await _run("repair", prompt, options, more)


async def summary_agent(
    prompt: Any, options: Mapping[str, Any] | None = None, /, **more: Unpack[PresetKeywords]
) -> LoopResult:
    """Run one model call without tools: `await w.summary_agent("Summarize these notes: …")`."""
    return await _run("summary", prompt, options, more)


async def verify_agent(
    prompt: Any, options: Mapping[str, Any] | None = None, /, **more: Unpack[PresetKeywords]
) -> LoopResult:
    """Run an agent until a judge agrees: `await w.verify_agent("Is it fixed?", tools=tools)`."""
    return await _run("verify", prompt, options, more)


async def merge_captain_agent(
    prompt: Any, options: Mapping[str, Any] | None = None, /, **more: Unpack[CaptainKeywords]
) -> LoopResult:
    """Run an agent for pull requests; without `consent`, tools that write are denied.

    `await w.merge_captain_agent("Sweep open PRs.", tools=tools, consent=ask_a_person)`
    """
    return await _run("merge_captain", prompt, options, more)


async def review_captain_agent(
    prompt: Any, options: Mapping[str, Any] | None = None, /, **more: Unpack[CaptainKeywords]
) -> LoopResult:
    """Run a review agent: `await w.review_captain_agent("Review the PRs.", tools=tools)`."""
    return await _run("review_captain", prompt, options, more)


async def oncall_captain_agent(
    prompt: Any, options: Mapping[str, Any] | None = None, /, **more: Unpack[CaptainKeywords]
) -> LoopResult:
    """Run an agent that triages alerts, with at most 50 tool calls.

    Example: `await w.oncall_captain_agent("Triage.", tools=tools)`. `rate_limit={"max_calls": 100}`
    changes the limit.
    """
    return await _run("oncall_captain", prompt, options, more)


async def release_captain_agent(
    prompt: Any, options: Mapping[str, Any] | None = None, /, **more: Unpack[CaptainKeywords]
) -> LoopResult:
    """Run an agent that makes a release; with `dry_run=True` tools that write are not run.

    `await w.release_captain_agent("Cut v0.9.0.", tools=tools, dry_run=True)`
    """
    return await _run("release_captain", prompt, options, more)

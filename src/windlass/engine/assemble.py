"""From options to a plan: which wrappers, which policies, in which order, and why."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.engine.authority_options import authorizing
from windlass.engine.context_policies import contexting
from windlass.engine.judge_policies import judging, turns_of
from windlass.engine.model import (
    PLAIN,
    bind_model,
    choice_fits,
    model_of,
    model_resolver,
    needs_native_repair,
    settings_for,
    usual_settings,
    with_defaults,
    with_retries,
)
from windlass.engine.options import LoopOptions, validate_options
from windlass.engine.profiles import BARE, with_profile
from windlass.engine.tool_policies import around, tooling, with_progress
from windlass.errors import ConfigError
from windlass.loop.ledger import NO_LIMITS, Limits
from windlass.loop.lifecycle import adopt
from windlass.loop.plan import BUDGET, MAX_CALLS_PER_REPLY, RESUME_ATTEMPTS, Plan
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.models.base import Model, Settings
from windlass.models.reasoning import Task
from windlass.models.registry.capabilities import Capabilities
from windlass.options.checks import words
from windlass.options.prompts import override, words_of
from windlass.policies.budget import BudgetGuard
from windlass.policies.build import About
from windlass.policies.compaction.options import has_context_limit
from windlass.policies.completion import SENTINEL, Mode
from windlass.policies.preview.options import (
    MODE,
    as_begun,
    foreseeing,
    mode_of,
)
from windlass.policies.result_cap import ResultCap
from windlass.policies.tool_surface import contract_of
from windlass.policies.turn_limit.options import Turns
from windlass.tools.filter import FILTERS, filter_tools
from windlass.tools.function import as_tools
from windlass.tools.tool import Tool

if TYPE_CHECKING:
    from windlass.output.policy import TypedAnswer
    from windlass.policies.post_turn import Change
    from windlass.policies.progress import ProgressTool
    from windlass.policies.tool_search.plan import ToolSearchPlan

LOOP_OPTIONS = LoopOptions.__optional_keys__ | {"system"}
AGENT_OPTIONS = (LOOP_OPTIONS - {"max_iterations", "persistent", "messages", "run_id"}) | {
    "max_turns",
    "max_token_budget",
    "role",
    "allowed_tools",
    "disallowed_tools",
    "output",
    "deps_type",
}
_PER_RUN = (
    "session_id",
    "take_over",
    "on_cancel",
    "store",
    "on_event",
    "abort",
    "caller",
    "deps",
    "run_id",
    "messages",
    "request_id",
    "conversation_id",
    "on_pending",
)

_LOOP_DEFAULTS = {"max_iterations": 50, "max_concurrent_tools": 1}
_AGENT_DEFAULTS = {"max_iterations": 10, "max_concurrent_tools": 16}
_DEFAULT_CAP = ResultCap()
_NOBODY = Model()  # in a plan that has no model yet


def check_loop(options: Mapping[str, Any], door: str = "agent_loop") -> dict[str, Any]:
    """The options of `agent_loop`, checked."""
    return validate_options(options, LOOP_OPTIONS, door)


def check_agent(
    options: Mapping[str, Any], door: str = "Agent", also: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The options of `Agent`, checked; its own names for common things become the common ones."""
    checked = validate_options(options, AGENT_OPTIONS, door, also)
    if "max_turns" in checked:
        checked["max_iterations"] = checked.pop("max_turns")
    if "max_token_budget" in checked:
        if "token_budget" in checked:
            raise ConfigError("token_budget and max_token_budget are the same limit: give one")
        checked["token_budget"] = checked.pop("max_token_budget")
    return checked


def assemble(options: Mapping[str, Any], system: str | None, door: str) -> Plan:
    """A plan for runs through this door."""
    if system is not None:
        system = words("system", system)
    if _FEW.issuperset(options):
        model = model_of(options)
        if not model.remote and model.provider != "mock":  # else a file may speak of it
            return _simple(options, model, system, door)
    options = with_profile(options)
    model = model_of(options)
    options = with_defaults(options, model)
    drifting = needs_native_repair(model, options)
    model = with_retries(model, options)
    model.check()
    tools = as_tools(options.get("tools"))
    if not FILTERS.isdisjoint(options):
        tools = filter_tools(options, tools).tools
    if "tool_choice" in options and not options.get("policies"):  # these may bring tools
        progress: ProgressTool | None = options.get("progress_tool")
        also = () if progress is None else (progress.name,)
        choice_fits(options, [*[tool.name for tool in tools], *also])
    tools = around(options, tools)
    mode, task = _mode(options, model, bool(tools)), _task(tools)
    caps = model.capabilities
    settings = settings_for(options, caps, model.provider, task)
    disclosure = None
    if options.get("tool_search") is not None:
        from windlass.policies.tool_search.plan import plan_tool_search

        disclosure = plan_tool_search(options, tools, model, text=mode == "text")
    answer = None
    if (kind := options.get("output")) is not None:
        from windlass.output.policy import build_typed_answer

        among_words = mode == "text" or _sentinel(options, mode) is not None
        answer = build_typed_answer(kind, caps, tools, settings, among_words=among_words)
    bound = has_context_limit(model)
    plan = _build_plan(
        options, system, door, mode, tools, settings, bound, caps, disclosure, answer
    )
    if answer is not None and answer.wanted.means == "tool":
        from windlass.output.policy import InWords

        model = InWords(model, answer.wanted)
    if mode == "none" and options.get("progress_tool") is not None:
        mode = _mode(options, model, True)  # how the one tool there is must be called
    return bind_model(plan, model, mode, drifting, options)


def _simple(options: Mapping[str, Any], model: Model, system: str | None, door: str) -> Plan:
    """The plan of an agent that is a model of this process and a few tools: made in a hurry."""
    model.check()
    tools = as_tools(options.get("tools"))
    mode: Mode = "none" if not tools else "native" if model.native_tools else "text"
    caps = model.capabilities
    thinks = caps if caps.thinking else None
    turns, name = options.get("max_iterations"), options.get("name")
    plan = _usual(door, system, mode, tools, turns, name, thinks, has_context_limit(model))
    return plan.of(model) if mode != "text" else bind_model(plan, model, mode, False, options)


def _changing(options: Mapping[str, Any], system: str | None, door: str) -> Change:
    """What puts options into effect that a callback changes in the middle of a run."""

    async def change(run: Run, changed: dict[str, Any], llm: dict[str, Any]) -> None:
        from windlass.policies.post_turn import CHANGED

        check = check_loop if door == "agent_loop" else check_agent
        for name in changed:
            if name in _SETTLED:
                raise ConfigError(f"next_options: {name} is settled when a run begins")
        now = {**options, **check(changed)}
        if llm:
            now["llm_options"] = {**(now.get("llm_options") or {}), **llm}
        plan = as_begun(assemble(now, now.pop("system", system), door), run.plan.metadata)
        plan.metadata = {**(plan.metadata or {}), CHANGED: True}
        await adopt(run, plan, "post_turn_callback")

    return change


_SETTLED = frozenset({*_PER_RUN, "name", "role", "llm_transcript_dir", "output", "deps_type"})


def _task(tools: Sequence[Tool]) -> Task:
    """What a loop is for, where nobody says."""
    return "agent" if tools else "chat"


_FEW = frozenset({"model", "tools", "max_iterations", "name"})


@functools.lru_cache(maxsize=64)
def _usual(
    door: str,
    system: str | None,
    mode: Mode,
    tools: tuple[Tool, ...],
    turns: int | None,
    name: str | None,
    thinks: Capabilities | None,
    bound: bool,
) -> Plan:
    """Agents that differ in little else than their model are made again and again."""
    options = {"name": name} if turns is None else {"name": name, "max_iterations": turns}
    settings = usual_settings(thinks, _task(tools)) if thinks is not None else PLAIN
    return _build_plan(options, system, door, mode, tools, settings, bound, thinks)


def _build_plan(
    options: Mapping[str, Any],
    system: str | None,
    door: str,
    mode: Mode,
    tools: tuple[Tool, ...],
    settings: Settings,
    bound: bool,
    caps: Capabilities | None,
    disclosure: ToolSearchPlan | None = None,
    answer: TypedAnswer | None = None,
) -> Plan:
    """All of a plan but its model."""
    defaults = _LOOP_DEFAULTS if door == "agent_loop" else _AGENT_DEFAULTS
    given, sentinel = system, _sentinel(options, mode)
    if sentinel is not None:
        system = _with_contract(options, system, mode, sentinel)
    if disclosure is not None:
        tools = disclosure.tools
        system, settings = disclosure.add_to_frame(system, settings)
    offered = disclosure.offered if disclosure is not None else None
    progress: ProgressTool | None = options.get("progress_tool")
    if progress is not None:
        tools, system = with_progress(progress, tools, system)
        offered = None if offered is None else (*offered, tools[-1].spec)
    tools_about = tooling(options)
    if answer is not None:
        frame = answer.build_frame(system, tools, offered, settings)
        system, offered, settings = frame.system, frame.tools, frame.settings
    limits, turns = _limits(options, defaults["max_iterations"])
    most = limits.iterations if turns is None else turns.max
    about = About(options, tools, mode, bound, caps, most, sentinel, model_resolver(options))
    judges = judging(
        options,
        mode,
        sentinel,
        turns,
        about.named,
        _changing(options.get(BARE, options), given, door),
    )
    return Plan(
        _NOBODY,
        door=door,
        name=options.get("name"),
        system=system,
        tools=tools,
        settings=settings,
        policies=_policies(
            options, judges, tools_about.policies, limits, door, about, disclosure, answer
        ),
        limits=limits,
        concurrency=options.get("max_concurrent_tools", defaults["max_concurrent_tools"]),
        eager=options.get("eager_tools", True),
        tool_timeout=options.get("tool_timeout", 120.0),
        validation=options.get("tool_arg_validation", "strict"),
        metadata=_metadata(options, mode, sentinel),
        watchers=tools_about.watchers,
        offered=offered,
        role=options.get("role"),
        resume_attempts=options.get("max_resume_attempts", RESUME_ATTEMPTS),
        denied=frozenset(options.get("disallowed_tools") or ()),
        max_calls_per_reply=options.get("max_calls_per_reply", MAX_CALLS_PER_REPLY),
    )


def _mode(options: Mapping[str, Any], model: Model, tools: bool) -> Mode:
    chosen = options.get("tool_format")
    if not tools:
        return "native" if chosen == "native" else "none"
    return chosen if chosen is not None else "native" if model.native_tools else "text"


def _sentinel(options: Mapping[str, Any], mode: Mode) -> str | None:
    if "done_sentinel" in options:
        return options["done_sentinel"]
    return SENTINEL if options.get("loop_until_done") and mode != "native" else None


def _with_contract(
    options: Mapping[str, Any], system: str | None, mode: Mode, sentinel: str
) -> str | None:
    contract = contract_of(options, mode, sentinel)
    if not isinstance(contract, str):
        return system  # a function writes it: see `prompting`
    return f"{system}\n\n{contract}" if system else contract


def _limits(options: Mapping[str, Any], iterations: int) -> tuple[Limits, Turns | None]:
    """What a run may spend, and its limit on turns where that is more than a number."""
    limits, turns = _fixed_limits(options, iterations), turns_of(options, iterations)
    if turns is not None:
        limits = msgspec.structs.replace(limits, iterations=turns.initial)
    return limits, turns


def _fixed_limits(options: Mapping[str, Any], iterations: int) -> Limits:
    limits: Limits = options.get("budget") or NO_LIMITS
    tokens = options.get("token_budget")
    if tokens is not None and limits.tokens is not None:
        raise ConfigError("token_budget and budget.tokens are the same limit: give one of them")
    turns = options.get("max_iterations", limits.iterations)
    turns = iterations if turns is None else turns
    if limits is NO_LIMITS and tokens is None:
        return _turns_only(turns)
    tokens = limits.tokens if tokens is None else tokens
    return msgspec.structs.replace(limits, iterations=turns, tokens=tokens)


def _said_limits(options: Mapping[str, Any]) -> dict[str, float]:
    """The limits that somebody asked for: whoever resumes the run is held to them."""
    limits: Limits = options.get("budget") or NO_LIMITS
    tokens = options.get("token_budget")
    turns = options.get("max_iterations", limits.iterations)
    said = {
        "iterations": turns,
        "tokens": limits.tokens if tokens is None else tokens,
        "usd": limits.usd,
        "seconds": limits.seconds,
    }
    return {name: value for name, value in said.items() if value is not None}


@functools.lru_cache(maxsize=64)
def _turns_only(turns: int) -> Limits:
    return Limits(iterations=turns)


def _policies(
    options: Mapping[str, Any],
    judges: list[Policy[Any]],
    calls: Sequence[Policy[Any]],
    limits: Limits,
    door: str,
    about: About,
    disclosure: ToolSearchPlan | None,
    answer: TypedAnswer | None,
) -> list[Policy[Any]]:
    chosen: list[Policy[Any]] = []
    if limits.tokens is not None or limits.usd is not None:  # first: nobody overrules a budget
        chosen.append(BudgetGuard("after_turn" if door == "agent_loop" else "before_tools"))
    chosen += authorizing(
        options, about.tools
    )  # before all who look at a call: what may not run is nobody's
    if answer is not None:  # before the judges: nobody judges what cannot be taken
        chosen.append(answer)
    chosen += judges
    chosen += calls  # after the judges: nobody is asked about a call that they answer
    if options.get("llm_caller") is not None:
        from windlass.callers.contract import TurnTold

        chosen.append(TurnTold())  # it decides nothing: a caller is told which turn it is asked in
    if disclosure is not None:
        chosen.append(disclosure.policy)  # before whoever narrows what is on offer
    chosen += contexting(about)
    chosen += options.get("policies", ())
    if override(options, "agent.continue") is not None:  # after all who may have said something
        from windlass.policies.frame_prompts import GoOn

        chosen.append(GoOn(words_of(options, "agent.continue", "Continue.")))
    if options.get("closing_answer"):
        from windlass.policies.closing_answer import WORDS, ClosingAnswer

        chosen.append(ClosingAnswer(words_of(options, "agent.closing_answer", WORDS)))
    size = options.get("tool_result_max_bytes")
    chosen.append(_DEFAULT_CAP if size is None else ResultCap(size))  # last: cut before others look
    if (mode := mode_of(options)) is not None:
        chosen = foreseeing(chosen, mode)
    if len(chosen) > 1:
        _names_differ(chosen)
    return chosen


def _names_differ(policies: list[Policy[Any]]) -> None:
    names = [policy.name for policy in policies]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"there are two policies named {twice!r}; a name is a memory's key")


def _metadata(options: Mapping[str, Any], mode: Mode, sentinel: str | None) -> dict[str, Any]:
    about: dict[str, Any] = {"mode": mode}
    if sentinel is not None:
        about["sentinel"] = sentinel
    if (foreseen := mode_of(options)) is not None:
        about[MODE] = foreseen
    if said := _said_limits(options):
        about[BUDGET] = said
    if options.get("schema_retries"):
        about["schema_retries"] = options["schema_retries"]  # judges read it there
    return about

"""From options to a plan: the model behind its wrappers, the frame, the policies in their order.

What no option asks for is not loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from windlass.engine.environment import current_environment
from windlass.engine.features import build_policies, names_in
from windlass.engine.limit_options import LimitOptions, with_profile
from windlass.engine.model import (
    CONNECTION,
    build_settings,
    check_tool_choice,
    model_resolver,
    resolve_model,
    with_defaults,
    with_retries,
    with_tool_format,
    without_foreign_connection,
)
from windlass.engine.model_options import (
    ModelOptions,
    ProviderDict,
    ProviderOptions,
    SettingOptions,
    check_provider_dict,
)
from windlass.engine.run_options import AgentOptions
from windlass.engine.shared_plans import SharedPlan, build_key, find_shared, keep_shared, may_share
from windlass.engine.tool_options import ToolOptions
from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.loop.ledger import Budget
from windlass.loop.lifecycle import adopt
from windlass.loop.plan import BUDGET, Plan, create_plan
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.sinks import Watcher
from windlass.messages import ToolSpec
from windlass.models.base import Model, Settings
from windlass.models.registry.capabilities import Capabilities
from windlass.models.registry.scope import ENDPOINTS
from windlass.options.checks import words
from windlass.options.group import Check, Values
from windlass.options.index import SETTLED
from windlass.options.parse import parse_options
from windlass.options.prompts import Prompts
from windlass.output.options import OutputOptions
from windlass.policies.build import BuildContext, ChangeOptions, Mode
from windlass.policies.completion import add_contract, choose_sentinel
from windlass.policies.post_turn import CHANGED
from windlass.policies.preview.mode import MODE, PLAN, as_begun, effects_mode, wrap_policies
from windlass.policies.progress import ProgressOptions
from windlass.policies.resumption import may_offer, may_suspend, offer_beside
from windlass.policies.turn_limit.options import Turns, choose_turns
from windlass.toolbox.names import BUILTIN_NAMES
from windlass.tools.filter import (
    AGENT_FRAMEWORK_DISALLOWED,
    ToolFilterOptions,
    collect_denied,
    filter_tools,
)
from windlass.tools.function import as_tools
from windlass.tools.tool import Tool

if TYPE_CHECKING:
    from windlass.output.policy import TypedAnswer
    from windlass.policies.skills.skill import Skill
    from windlass.policies.tool_search.plan import ToolSearchPlan

_LOOP_TURNS: Final = 50
_AGENT_TURNS: Final = 10
_LOOP_LIMITS: Final = Budget(iterations=_LOOP_TURNS)
_AGENT_LIMITS: Final = Budget(iterations=_AGENT_TURNS)
_LIMITS: Final = names_in("engine.limit_options")
_TOOL_LAYERS: Final = names_in("engine.tool_layers")
_COMPLETION: Final = names_in("policies.completion")
_ANSWERS: Final = frozenset({"output", "schema", "response_format"})
_OF_FRAME: Final = _COMPLETION | _ANSWERS | {"progress_tool", "tool_search"}
_COMPACTION_OPTIONS: Final = names_in("policies.compaction.options")
_WHOLE_COMPACTION: Final = ("compaction", "auto_compact")
_TURN_LIMIT: Final = names_in("policies.turn_limit.options")
_LOOP_TOOLS_AT_ONCE: Final = 1
_AGENT_TOOLS_AT_ONCE: Final = 16
_NOTHING: Final[frozenset[str]] = frozenset()


def parse_loop_options(given: Mapping[str, Any], where: str = "agent_loop") -> dict[str, Any]:
    """Check the options of `agent_loop`, or of a function that takes the same."""
    also = ("system", "judge") if where == "agent_turn" else ("system",)
    return parse_options(given, "loop", where, find_check=find_provider_check, also=also)


def parse_agent_options(
    given: Mapping[str, Any], where: str = "Agent", also: Iterable[str] = ()
) -> dict[str, Any]:
    """Check the options of an `Agent`; `also` are names that are taken apart from these."""
    also = ("system", *also)
    return parse_options(given, "agent", where, find_check=find_provider_check, also=also)


def change_options(own: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent's options with some changed; what said how to compact goes where that is off."""
    strategies = {changed.get("compact_strategy")}
    strategies |= {getattr(changed.get(name), "strategy", None) for name in _WHOLE_COMPACTION}
    if "none" in strategies:
        own = {name: value for name, value in own.items() if name not in _COMPACTION_OPTIONS}
    return {**own, **changed}


def find_provider_check(given: Mapping[str, Any], name: object) -> Check | None:
    """Return the check of a provider's own dict, if the name is one of a provider."""
    model = given.get("model")
    own = model.provider if isinstance(model, Model) else None
    is_provider = isinstance(name, str) and (name in ("mock", own) or name in ENDPOINTS)
    return check_provider_dict if is_provider else None


class _Groups(msgspec.Struct, frozen=True):
    """The option groups that every plan is made of, each read once."""

    model: ModelOptions
    tools: ToolOptions
    agent: AgentOptions
    limits: LimitOptions
    output: OutputOptions


class _Frame(msgspec.Struct, eq=False):
    """The frame of a plan while it is built."""

    system: str | None
    tools: tuple[Tool, ...]
    settings: Settings
    offered: tuple[ToolSpec, ...] | None = None


class _Recipe(msgspec.Struct, eq=False):
    """What a plan is made of, once its model is known."""

    given: Values
    values: Values
    system: str | None
    door: str
    model: Model
    model_options: ModelOptions
    tools: tuple[Tool, ...]


class _Built(msgspec.Struct, frozen=True):
    """A plan, how its model is wrapped, and whether other agents may have the plan."""

    plan: Plan
    mode: Mode
    is_shared: bool


#: Options of a model that is given by its name.
_OF_NAMED_MODELS: Final = frozenset({"provider", "model_tier", *CONNECTION})
#: Options of agents that are assembled elsewhere, or that stand for others.
_ELSEWHERE: Final = frozenset({"handoffs", "mcp_servers", "profile", "skills"})
#: Options that are about a workspace.
_PLACED: Final = frozenset({"approval_policy", "mounts", "permissions", "workspace"})


def assemble(values: Values, system: str | None, door: str, *, is_connected: bool = False) -> Plan:
    """Build the plan of runs with these options: a model, a frame, policies.

    `is_connected`: the tools of MCP servers are among the tools already.
    """
    if system is not None and not (type(system) is str and system.isascii()):
        system = words("system", system)
    given = values
    if not _ELSEWHERE.isdisjoint(values):
        if not is_connected and (
            "mcp_servers" in values or ("skills" in values and _names_servers(values))
        ):
            connector = import_module("windlass.engine.mcp.connector")
            return connector.build_unconnected(values, system, door)
        if "handoffs" in values:
            return import_module("windlass.engine.handoff.team").build_front(values, system, door)
        if "profile" in values:
            values = with_profile(values)
    model: Any = values.get("model")
    if (
        not isinstance(model, Model)
        or not _OF_NAMED_MODELS.isdisjoint(values)
        or not type(model.provider) is type(model.name) is str
    ):
        model = resolve_model(ModelOptions.read(values))
    asked = values
    if model.remote or model.provider == "mock":
        values = with_defaults(values, model)
    key = build_key(values, system, door, model)
    if key is not None and (shared := find_shared(key)) is not None:
        model.check()
        return shared.give_to(model)
    recipe = _complete_recipe(given, asked, values, system, door, model)
    has_builtin = any([tool.name in BUILTIN_NAMES for tool in recipe.tools])
    if has_builtin or not _PLACED.isdisjoint(values):
        return _build_placed(recipe, has_builtin)
    built = _build(recipe)
    if key is not None and built.is_shared and may_share(recipe.tools):
        keep_shared(key, _share(recipe, built))
    return built.plan


def _share(recipe: _Recipe, built: _Built) -> SharedPlan:
    own, caps = recipe.model_options, recipe.model.capabilities
    repeated = ModelOptions(llm_retries=own.llm_retries, llm_backoff_ms=own.llm_backoff_ms)
    return SharedPlan(built.plan, recipe.tools, built.mode, repeated, caps)


def _complete_recipe(
    given: Values, asked: Values, values: Values, system: str | None, door: str, model: Model
) -> _Recipe:
    """Add what a shared plan has already: `asked` are the options without those of the model."""
    options = ModelOptions.read(asked)
    model = with_retries(model, options)
    model.check()
    return _Recipe(given, values, system, door, model, options, _collect_tools(values))


def _collect_tools(values: Values) -> tuple[Tool, ...]:
    """Collect the tools of the options; agents are tools, too."""
    listed = resolve_names(ToolOptions.read(values).tools, values)
    if "agents" in values:
        listed = (*as_tools(listed), *AgentOptions.read(values).agents)
    tools = as_tools(listed)
    if "subagents" in values:
        return import_module("windlass.workers.tools").add_lifecycle_tools(tools, values)
    return tools


def _build_placed(recipe: _Recipe, has_builtin: bool) -> Plan:
    """Build the plan of an agent that uses a workspace: it keeps to that of its session."""
    plan, values = _build(recipe).plan, recipe.given
    records = has_builtin or "workspace" in values or "mounts" in values

    def assemble_again(now: Values) -> Plan:
        return assemble(now, recipe.system, recipe.door)

    module = import_module("windlass.toolbox.session_workspace")
    module.bind_plan(plan, values, assemble_again, records=records)
    return plan


def _names_servers(values: Values) -> bool:
    """Check whether a skill names MCP servers that it needs."""
    options = import_module("windlass.policies.skills.options")
    skills: Iterable[Skill] | None = options.SkillOptions.read(values).skills
    return any([skill.mcp for skill in skills or ()])


def _build(recipe: _Recipe) -> _Built:
    values, door, model = recipe.values, recipe.door, recipe.model
    groups = _read_groups(values, recipe.model_options)
    caps, options, agent = model.capabilities, groups.tools, groups.agent
    tools = _choose_tools(values, agent, recipe.tools)
    mode = _choose_mode(options, model, has_tools=bool(tools))
    sentinel = None if _COMPLETION.isdisjoint(values) else choose_sentinel(values, mode)
    prompts = _read_prompts(values)
    task = "agent" if tools else "chat"
    frame = _Frame(recipe.system, tools, build_settings(values, caps, model.provider, task))
    search = _plan_search(values, frame, model, is_text=mode == "text")
    answer = None
    if not _ANSWERS.isdisjoint(values) and groups.output.asks:
        among_words = mode == "text" or sentinel is not None
        retries: int | None = groups.output.schema_retries
        if groups.output.output is not None and "schema_retries" not in recipe.given:
            retries = None
        answer = _build_answer(groups.output, retries, frame, caps, among_words=among_words)
    has_progress = False
    if not _OF_FRAME.isdisjoint(values):
        has_progress = _complete_frame(values, frame, mode, sentinel, prompts, search, answer)
    suspends = may_suspend(values, door)
    if suspends and _may_choose_tools(values) and may_offer(mode, model, answer):
        frame.offered = offer_beside(frame.tools, frame.offered)
    if answer is not None:
        model = answer.wrap(model)
    called = _choose_mode(options, model, has_tools=True) if has_progress else mode
    formatted = with_tool_format(model, called)
    limits, turns = _choose_limits(values, groups.limits, door)
    effects = _choose_effects(values)
    ctx = BuildContext(
        values=values,
        door=door,
        tools=frame.tools,
        given_tools=recipe.tools,
        mode=mode,
        caps=caps,
        limits=limits,
        turns=turns,
        sentinel=sentinel,
        prompts=prompts,
        user_policies=agent.policies,
        reads_text_calls=formatted is not model,
        resolve_model=model_resolver(recipe.model_options),
        change_options=_change_options(recipe.given, recipe.system, door),
        answer=answer,
        tool_search=None if search is None else search.policy,
        may_suspend=suspends,
    )
    policies, is_shared = build_policies(ctx)
    if effects is not None:
        policies, is_shared = wrap_policies(policies, effects), False
    if agent.policies:
        _check_names(policies)
    about = _describe(ctx, groups, effects)
    plan = _build_plan(ctx, groups, formatted, frame, policies, about)
    return _Built(plan, called, is_shared)


def _read_prompts(values: Values) -> Prompts:
    if "prompts" not in values:
        return None
    module = import_module("windlass.policies.prompt_overrides")
    prompts: Prompts = module.PromptOptions.read(values).prompts
    return prompts


def resolve_names(tools: object, values: Values) -> object:
    """Replace names of built-in tools (`"bash"`) and a preset by the tools; most agents have none."""
    if "tool_preset" in values:
        return import_module("windlass.toolbox.registry").add_preset(tools, values)
    if not isinstance(tools, (list, tuple)):
        return tools
    listed = cast("Sequence[object]", tools)
    for one in listed:
        if isinstance(one, str) and ":" not in one:
            return import_module("windlass.toolbox.registry").replace_names(listed, values)
    return listed


def _read_groups(values: Values, model: ModelOptions) -> _Groups:
    return _Groups(
        model,
        ToolOptions.read(values),
        AgentOptions.read(values),
        LimitOptions.read(values),
        OutputOptions.read(values),
    )


def _choose_tools(values: Values, agent: AgentOptions, given: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Choose the tools of an agent, each as it will run."""
    tools = given
    if ToolFilterOptions.is_given(values) or AGENT_FRAMEWORK_DISALLOWED:
        tools = filter_tools(ToolFilterOptions.read(values), tools)
    if "tool_choice" in values and not agent.policies:  # these may bring tools
        choice = SettingOptions.read(values).tool_choice
        progress = ProgressOptions.read(values).progress_tool
        also = () if progress is None else (progress.name,)
        check_tool_choice(choice, [*[tool.name for tool in tools], *also])
    if _TOOL_LAYERS.isdisjoint(values):
        return tools
    from windlass.engine.tool_layers import wrap_tools

    return wrap_tools(values, tools)


def _may_choose_tools(values: Values) -> bool:
    """Check whether the model itself chooses whether it calls a tool, and which."""
    if "tool_choice" not in values:
        return True
    return SettingOptions.read(values).tool_choice in (None, "auto")


def _choose_mode(options: ToolOptions, model: Model, *, has_tools: bool) -> Mode:
    chosen = options.tool_format
    if not has_tools:
        return "native" if chosen == "native" else "none"
    return chosen if chosen is not None else "native" if model.native_tools else "text"


def _plan_search(
    values: Values, frame: _Frame, model: Model, *, is_text: bool
) -> ToolSearchPlan | None:
    if "tool_search" not in values:
        return None
    from windlass.policies.tool_search.plan import ToolSearchOptions, plan_tool_search

    search = ToolSearchOptions.read(values).tool_search
    if search is None:
        return None
    choice = SettingOptions.read(values).tool_choice
    forced = ProviderDict.read(values, model.provider).force_native_tool_search
    return plan_tool_search(
        search, frame.tools, model, text=is_text, tool_choice=choice, forced=forced
    )


def _build_answer(
    options: OutputOptions,
    retries: int | None,
    frame: _Frame,
    caps: Capabilities,
    *,
    among_words: bool,
) -> TypedAnswer:
    from windlass.output.policy import build_typed_answer

    return build_typed_answer(
        options, retries, caps, frame.tools, frame.settings, among_words=among_words
    )


def _complete_frame(
    values: Values,
    frame: _Frame,
    mode: Mode,
    sentinel: str | None,
    prompts: Prompts,
    search: ToolSearchPlan | None,
    answer: TypedAnswer | None,
) -> bool:
    """Add what behaviours bring to the frame; return whether the only tool is one of these."""
    if not _COMPLETION.isdisjoint(values):
        frame.system = add_contract(values, frame.system, prompts, mode, sentinel)
    if search is not None:
        frame.tools, frame.offered = search.tools, search.offered
        frame.system, frame.settings = search.add_to_frame(frame.system, frame.settings)
    progress = None
    if "progress_tool" in values:
        progress = ProgressOptions.read(values).progress_tool
    if progress is not None:
        frame.tools, frame.system = progress.add_to(frame.tools, frame.system)
        if frame.offered is not None:
            frame.offered = (*frame.offered, frame.tools[-1].spec)
    if answer is not None:
        built = answer.build_frame(frame.system, frame.tools, frame.offered, frame.settings)
        frame.system, frame.offered, frame.settings = built.system, built.tools, built.settings
    return progress is not None and mode == "none"


def _choose_limits(values: Values, options: LimitOptions, door: str) -> tuple[Budget, Turns | None]:
    """Choose what a run may spend, and its limit on turns where that is more than a number."""
    limits = _LOOP_LIMITS if door == "agent_loop" else _AGENT_LIMITS
    if not _LIMITS.isdisjoint(values):
        limits = options.build(limits)
    if _TURN_LIMIT.isdisjoint(values):
        return limits, None
    turns = choose_turns(values, limits, options.limits.iterations)
    if turns is None:
        return limits, None
    return msgspec.structs.replace(limits, iterations=turns.initial), turns


def _choose_effects(values: Values) -> JsonObject | None:
    """Choose what becomes of effects: a preview, a plan that is done, or nothing special."""
    if "dry_run" not in values and "plan" not in values:
        return None
    from windlass.engine.tool_layers import ToolLayerOptions
    from windlass.policies.preview.options import PreviewOptions

    rehearsed = ToolLayerOptions.read(values).dry_run == PLAN
    return effects_mode(PreviewOptions.read(values).plan, rehearsed=rehearsed)


def _change_options(values: Values, system: str | None, door: str) -> ChangeOptions:
    """Return what puts options into effect that a callback changes in the middle of a run."""

    async def change(run: Run, changed: JsonObject, llm: JsonObject) -> None:
        parse = parse_loop_options if door == "agent_loop" else parse_agent_options
        for name in changed:
            if name in SETTLED:
                raise ConfigError(f"next_options: {name} is settled when a run begins")
        system_given = changed.get("system", system)
        now = {**values, **parse({n: v for n, v in changed.items() if n != "system"})}
        now = without_foreign_connection(now, values)
        if llm:
            now["llm_options"] = {**(ProviderOptions.read(now).llm_options or {}), **llm}
        plan = assemble(now, system_given, door).follow(run.journal.entries)
        if plan.connect is not None:
            plan = await plan.connect(current_environment())
        try:
            plan = as_begun(plan, run.plan.metadata)
            plan.metadata = {**(plan.metadata or {}), CHANGED: True}
            await adopt(run, plan, "post_turn_callback")
        finally:
            if plan.servers:  # the run holds them too
                await current_environment().release_servers(plan.servers)

    return change


def _check_names(policies: Sequence[Policy[Any]]) -> None:
    names = [policy.name for policy in policies]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"there are two policies named {twice!r}; a name is a memory's key")


def _describe(ctx: BuildContext, groups: _Groups, effects: JsonObject | None) -> JsonObject:
    """Describe the run for its record."""
    about: JsonObject = {"mode": ctx.mode}
    if ctx.sentinel is not None:
        about["sentinel"] = ctx.sentinel
    if effects is not None:
        about[MODE] = effects
    if not _LIMITS.isdisjoint(ctx.values) and (said := groups.limits.collect_limits()):
        about[BUDGET] = said
    if retries := groups.output.schema_retries:
        about["schema_retries"] = retries  # judges read it there
    return about


def _build_watchers(values: Values) -> tuple[Callable[[Run], Watcher], ...]:
    watchers: tuple[Callable[[Run], Watcher], ...] = ()
    if not _TOOL_LAYERS.isdisjoint(values):
        from windlass.engine.tool_layers import build_watchers

        watchers = build_watchers(values)
    if "llm_transcript_dir" in values:
        from windlass.observe.transcript_file import TranscriptFileOptions, transcript_in

        folder = TranscriptFileOptions.read(values).llm_transcript_dir
        if folder is not None:
            watchers = (*watchers, transcript_in(folder))
    return watchers


def _build_plan(
    ctx: BuildContext,
    groups: _Groups,
    model: Model,
    frame: _Frame,
    policies: Sequence[Policy[Any]],
    metadata: JsonObject,
) -> Plan:
    values, options, agent = ctx.values, groups.tools, groups.agent
    denied = _NOTHING
    if "disallowed_tools" in values or AGENT_FRAMEWORK_DISALLOWED:
        denied = collect_denied(ToolFilterOptions.read(values))
    at_once = _LOOP_TOOLS_AT_ONCE if ctx.door == "agent_loop" else _AGENT_TOOLS_AT_ONCE
    return create_plan(
        model,
        door=ctx.door,
        name=agent.name,
        system=frame.system,
        tools=frame.tools,
        settings=frame.settings,
        policies=policies,
        limits=ctx.limits,
        concurrency=options.max_concurrent_tools or at_once,
        eager=options.eager_tools,
        tool_timeout=options.tool_timeout,
        validation=options.tool_arg_validation,
        metadata=metadata,
        watchers=_build_watchers(values),
        offered=frame.offered,
        role=agent.role,
        resume_attempts=groups.limits.max_resume_attempts,
        denied=denied,
        max_calls_per_reply=options.max_calls_per_reply,
    )

"""The agent that the options of a command describe: its model, tools and limits."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from windlass.agents.agent import Agent
from windlass.cli.imports import import_object, load_tools, read_system
from windlass.cli.options import CommandOptions
from windlass.engine.assemble import assemble, parse_loop_options
from windlass.engine.environment import current_environment
from windlass.engine.model import resolve_model
from windlass.engine.model_options import ModelOptions
from windlass.errors import ConfigError, safe_repr
from windlass.events import JournalEntry
from windlass.json_types import JsonObject
from windlass.loop.plan import Plan
from windlass.loop.requests import last_frame
from windlass.loop.resume import standing
from windlass.loop.resume_input import Allow, Deny
from windlass.models.registry.providers import resolve
from windlass.options.index import OF_A_RUN
from windlass.policies.resumption import NAME as AWAIT_RESUMPTION
from windlass.replay.replay import NeverAsked
from windlass.toolbox.presets import TOOL_PRESETS, ToolPresetOptions

#: Tools for the resources of MCP servers.
RESOURCE_TOOLS: Final = ("mcp_resource_list", "mcp_resource_read")

# --------------------------------------------------------------------------- what a session was


class Before(NamedTuple):
    """The last run of a session."""

    provider: str
    model: str
    system: str | None
    tool_names: tuple[str, ...]
    unfinished: bool  # killed on its way, or parked
    status: str | None


def before(entries: Sequence[JournalEntry]) -> Before | None:
    """Return the facts of a journal's last run; None when it has never run."""
    state = standing(entries)
    if state.run is None:
        return None
    frame = last_frame(entries)
    names = tuple(str(tool.get("name")) for tool in frame.tools) if frame is not None else ()
    return Before(
        state.run.provider,
        state.run.model,
        frame.system if frame is not None else None,
        names,
        state.unfinished,
        state.ended.status if state.ended is not None else None,
    )


# --------------------------------------------------------------------------- the agent


def make_agent(
    chosen: CommandOptions, past: Before | None, hint: Sequence[str] = ()
) -> Agent[Any, str]:
    """Make the agent that the options ask for.

    A session goes on with its model and system prompt unless told otherwise; its tools must be named
    again, for code is not loaded because a file says so.
    """
    options = {name: value for name, value in chosen.options.items() if name not in OF_A_RUN}
    for name in ("model", "provider"):
        options.pop(name, None)
    tools = load_tools(options.pop("tools", ()))
    if past is not None and chosen.resume is not None:
        if AWAIT_RESUMPTION in past.tool_names:  # it is a tool of ours, and stays
            options.setdefault("await_resumption", True)
    system = read_system(chosen.system)
    if chosen.ask:
        options["approval_policy"] = {"rules": [{"ask": list(chosen.ask)}]}
    if system is None and past is not None:
        system = past.system
    agent: Agent[Any, str] = Agent(
        make_model(chosen, past), system=system, tools=tools or None, **options
    )
    if past is not None and chosen.resume is not None:
        _same_tools(past, agent, tools, hint)
    agent.plan.model.check()  # for want of a key: now, and not after the session was made
    return agent


def make_model(chosen: CommandOptions, past: Before | None) -> Any:
    """Return the named model, else the session's own; None for that of `[agent]`."""
    options = ModelOptions.read(chosen.options)
    if options.model is None and options.provider is None and past is not None:
        try:
            return resolve(past.model, past.provider)
        except ConfigError:
            raise ConfigError(
                f"this session was run with the model {past.provider}:{past.model}, which the "
                "command line cannot make; name one with --model"
            ) from None
    if options.model is None and options.provider is None:
        return None
    return resolve(options.model, options.provider)


def _same_tools(
    past: Before, agent: Agent[Any, str], tools: Iterable[Any], hint: Sequence[str]
) -> None:
    plan = agent.plan
    preset = ToolPresetOptions.read(agent.options).tool_preset
    known = {one if isinstance(one, str) else one.name for one in tools} | {AWAIT_RESUMPTION}
    known |= {*(TOOL_PRESETS[preset] if preset else ()), *[one.name for one in plan.frame.tools]}
    missing = [name for name in past.tool_names if name not in known]
    if plan.connect is not None:  # its servers say which tools they have when they run
        missing = [name for name in missing if "__" not in name and name not in RESOURCE_TOOLS]
    if missing:
        again = shlex.join(hint) if hint else "--tools module:function"
        how = "name them again:" if hint else "name them with"
        raise ConfigError(
            f"this session was run with the tools {', '.join(missing)}; {how} {again}"
        )


def answers_of(chosen: CommandOptions) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Parse decisions and results for the calls of a parked run."""
    decisions: JsonObject = {call: Allow(scope=chosen.scope) for call in chosen.allow}
    for text in chosen.deny:
        call, _, reason = text.partition("=")
        decisions[call] = Deny(reason or None, scope=chosen.scope)
    results: JsonObject = {}
    for text in chosen.result:
        call, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--result {text!r}: write it as CALL=VALUE")
        results[call] = value
    return decisions, results


def load_plan(path: str) -> Plan:
    """Load the plan of an Agent, or of options for `agent_loop`; no key is needed."""
    found = import_object(path, "--agent")
    if isinstance(found, Mapping):
        given = dict(cast("Mapping[str, Any]", found))
        system = given.pop("system", None)
        options = parse_loop_options(given)
        options["model"] = NeverAsked(resolve_model(ModelOptions.read(options)))
        for name in ("provider", "model_tier"):
            options.pop(name, None)
        options = current_environment().with_defaults(options)
        return assemble(options, system, "agent_loop")
    if not isinstance(found, Agent):
        raise ConfigError(
            f"--agent {path} is {safe_repr(found)}; it must be an Agent, or a dict of options for agent_loop"
        )
    agent = cast("Agent[Any, Any]", found)
    if callable(agent.system):
        raise ConfigError(
            f"--agent {path}: its system prompt is written by a function for each run"
        )
    return agent.with_(model=NeverAsked(resolve_model(ModelOptions.read(agent.options)))).plan

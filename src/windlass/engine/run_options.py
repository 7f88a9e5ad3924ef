"""The options that belong to one run, and those that name an agent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, cast, get_origin

from windlass.access.caller import Caller
from windlass.engine.open_questions import ON_PENDING, OnPending
from windlass.errors import ConfigError, safe_repr
from windlass.loop.abort import Abort
from windlass.loop.policy import Policy
from windlass.options.checks import (
    all_of,
    anything,
    boolean,
    identifier,
    instance,
    label,
    one_of,
    optional,
    text,
)
from windlass.options.group import AGENTS, EVERYWHERE, LOOPS, Door, Flag, Option, OptionGroup
from windlass.store.base import Store
from windlass.store.open import check_address
from windlass.tools.tool import Tool

_LOOP_OR_RUN: Final[frozenset[Door]] = frozenset({"loop", "run"})
_LOOP_OR_CALL: Final[frozenset[Door]] = frozenset({"loop", "call"})


def _check_caller(name: str, value: Any) -> Caller | None:
    if value is None:
        return None
    if not isinstance(value, Caller):
        hint = f"; write windlass.Caller({value!r})" if isinstance(value, str) else ""
        raise ConfigError(f"{name} is a Caller, not {safe_repr(value)}{hint}")
    text("a caller's user", value.user)
    if value.tenant is not None:
        text("a caller's tenant", value.tenant)
    roles = cast("object", value.roles)
    if not isinstance(roles, (tuple, list)):
        raise ConfigError(f"a caller's roles are a tuple of texts, not {safe_repr(roles)}")
    for role in cast("Sequence[object]", roles):
        text("a caller's role", role)
    return value


def _check_policies(name: str, value: Any) -> tuple[Policy[Any], ...]:
    if not all_of(value, Policy):
        raise ConfigError(f"{name} is a list of Policy objects, not {safe_repr(value, 120)}")
    return tuple(value)


def _check_deps_type(name: str, value: Any) -> Any:
    if value is None or isinstance(value, type) or get_origin(value) is not None:
        return value
    raise ConfigError(f"{name} is a type, not {safe_repr(value)}")


def _check_agents(name: str, value: Any) -> tuple[Tool, ...]:
    """Make a tool of each agent; `as_tool` gives one another name or description."""
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{name} is a list of Agents, not {safe_repr(value)}")
    tools: list[Tool] = []
    for one in cast("Sequence[Any]", value):
        make_tool: object = getattr(one, "as_tool", None)
        if not callable(make_tool):
            raise ConfigError(f"{name} is a list of Agents, not of {safe_repr(one)}")
        if one.name is None:
            raise ConfigError(f'an agent in {name} needs a name, which its tool has: name="…"')
        if one.name in [tool.name for tool in tools]:
            raise ConfigError(
                f"{name} has two agents named {one.name!r}; rename one with with_(name=…)"
            )
        tools.append(cast("Tool", make_tool()))
    return tuple(tools)


class RunOptions(OptionGroup, frozen=True, kw_only=True):
    """One run: session, store, caller, timeout, abort."""

    session_id: Annotated[
        str | None,
        Option(
            optional(text),
            scope="run",
            flags=(Flag(names=("--session",), metavar="ID", begins=True),),
        ),
    ] = None
    """The session that the run starts or continues."""
    store: Annotated[
        str | os.PathLike[str] | Store | None,
        Option(
            check_address,
            scope="run",
            flags=(
                Flag(metavar="URL|FILE", note="Default: .windlass/sessions.db of the project."),
            ),
        ),
    ] = None
    """Where the session is kept. A store, or its address."""
    take_over: Annotated[bool, Option(boolean, scope="run", flags=(Flag(),))] = False
    """Take the session from another process that is working on it. Its run ends."""
    on_cancel: Annotated[
        Literal["cancel", "park"], Option(one_of("cancel", "park"), scope="run")
    ] = "cancel"
    """What happens to a run whose task is cancelled: it ends, or it is parked."""
    on_pending: Annotated[
        OnPending,
        Option(
            one_of(*ON_PENDING),
            scope="run",
            flags=(
                Flag(
                    begins=True,
                    note="keep: take no task. discard: go on without the calls that wait.",
                ),
            ),
        ),
    ] = "keep"
    """What happens to calls that a parked session waits for."""
    abort: Annotated[Abort | None, Option(instance(Abort, "an Abort"), scope="run")] = None
    """A handle that stops the run."""
    caller: Annotated[
        Caller | None, Option(optional(_check_caller), scope="run", doors=EVERYWHERE)
    ] = None
    """The identity in whose name the run acts."""
    request_id: Annotated[str | None, Option(optional(label), scope="run", doors=EVERYWHERE)] = None
    """The id of the request, for the record."""
    conversation_id: Annotated[
        str | None, Option(optional(label), scope="run", doors=EVERYWHERE)
    ] = None
    """The id of the conversation, for the record."""
    run_id: Annotated[str | None, Option(optional(label), scope="run", doors=_LOOP_OR_RUN)] = None
    """Your own id for the run."""
    deps: Annotated[Any, Option(anything, scope="start", doors=LOOPS)] = None
    """Your own object, which tools get as `ctx.deps`."""
    messages: Annotated[
        Any, Option(anything, scope="start", doors=_LOOP_OR_CALL, accepts="Sequence[Any] | None")
    ] = None
    """A whole conversation in place of the prompt."""


class AgentOptions(OptionGroup, frozen=True, kw_only=True):
    """The agent's name, role and dependencies."""

    name: Annotated[str | None, Option(optional(identifier), scope="start", in_file=False)] = None
    """Its name in traces, as a tool, and in a fleet."""
    version: Annotated[str, Option(identifier, scope="start", doors=AGENTS, in_file=False)] = "1"
    """Its version in a fleet, where its queue is `name@version`."""
    description: Annotated[
        str | None, Option(optional(text), scope="start", doors=AGENTS, in_file=False)
    ] = None
    """What it is for, which the model of another agent reads where this one is its tool."""
    agents: Annotated[
        tuple[Tool, ...],
        Option(_check_agents, doors=AGENTS, in_file=False, accepts="Sequence[Any]"),
    ] = ()
    """Agents that it may hand tasks to: each is a tool with the agent's name."""
    role: Annotated[
        str | None, Option(optional(text), scope="start", doors=AGENTS, in_file=False)
    ] = None
    """Its role, which approval rules may name."""
    deps_type: Annotated[Any, Option(_check_deps_type, scope="start", doors=AGENTS)] = None
    """The type that `deps` must have."""
    policies: Annotated[
        tuple[Policy[Any], ...], Option(_check_policies, accepts="Sequence[Policy[Any]]")
    ] = ()
    """Policies of your own."""

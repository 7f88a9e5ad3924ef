"""The agents that share a conversation, and the plan of the run under each of them.

The agent that was run (the front) keeps its budget, rules, checks, limits and type of answer. A
receiver brings its system prompt, model, settings, tools and skills, and its own refusals on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final

import msgspec

from windlass.engine.assemble import assemble
from windlass.engine.environment import Environment, current_environment
from windlass.engine.run_options import AgentOptions
from windlass.engine.tool_options import ToolOptions, list_given_tools
from windlass.errors import ConfigError
from windlass.loop.lifecycle import adopt
from windlass.loop.plan import Plan
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import Message, Text
from windlass.models.history import audit
from windlass.options.group import Values
from windlass.options.index import GROUPS
from windlass.output.options import OutputOptions
from windlass.policies.handoffs import (
    REASON,
    Handoff,
    HandoffOptions,
    Handoffs,
    Receiver,
    build_transfer_tool,
    list_active,
)
from windlass.policies.preview.mode import as_begun
from windlass.tools.filter import ToolFilterOptions

WRITTEN: Final = "system"  # in a plan's metadata: what a function wrote
FRONT: Final = "front"  # the name of an agent that has none
#: Groups of options that an agent brings with it; all others are the front's.
_OF_RECEIVER: Final = frozenset(
    (
        "McpOptions",
        "ModelOptions",
        "ProviderOptions",
        "ReasoningOptions",
        "SettingOptions",
        "SkillOptions",
        "ToolFilterOptions",
    )
)
_NAMES_OF_RECEIVER: Final = ("tools", "tool_preset", "agents", "name", "description", "role")
_RULES: Final = frozenset(("ApprovalOptions", "PermissionOptions", "WorkspaceOptions"))
_ANSWER: Final = "OutputOptions"
_REFUSALS: Final = ("policy", "permissions", "approval_policy")


class _Member(msgspec.Struct, frozen=True):
    values: Mapping[str, Any]
    system: Any
    agent: Receiver | None = None


def build_front(values: Values, system: str | None, door: str) -> Plan:
    """Build the plan of an agent with handoffs."""
    return Team(values, system, door).front_plan()


class Team:
    """The front and all agents that can be reached from it."""

    def __init__(self, values: Values, system: str | None, door: str) -> None:
        options = HandoffOptions.read(values)
        self._door, self._options = door, options
        self._rest = {name: value for name, value in values.items() if name not in _OWN}
        self.front = AgentOptions.read(values).name or FRONT
        self._members = {self.front: _Member(self._rest, system)}
        self._ways: dict[tuple[str, str], Handoff] = {}
        self._back: dict[str, list[str]] = {}
        self._add_all(self.front, options.handoffs)

    def _add_all(self, sender: str, handoffs: Sequence[Handoff]) -> None:
        for one in handoffs:
            agent: Receiver = one.agent
            if one.name == sender or one.name == self.front:
                raise ConfigError(f"agent {one.name!r} cannot hand a conversation to itself")
            known = self._members.get(one.name)
            if known is not None and known.values is not agent.options:
                raise ConfigError(f"two agents that hand over are named {one.name!r}")
            self._check_output(agent, one.name)
            self._ways[sender, one.name] = one
            self._back.setdefault(one.name, []).append(sender)
            if known is None:
                below = HandoffOptions.read(agent.options).handoffs
                self._members[one.name] = _Member(agent.options, agent.system, agent)
                self._add_all(one.name, below)

    def _check_output(self, agent: Receiver, name: str) -> None:
        own = OutputOptions.read(agent.options)
        if own.asks and own.output is not OutputOptions.read(self._rest).output:
            raise ConfigError(
                f"agent {name!r} has an output type of its own: the answer has the type of the agent "
                "that is run; leave it out, or use it as a sub-agent"
            )

    # ----------------------------------------------------------------- plans

    def front_plan(self) -> Plan:
        """Build the plan that a run begins with."""
        member = self._members[self.front]
        plan = assemble(self._with_tools(self.front, self._rest), member.system, self._door)
        return self._join(plan, self.front)

    def _with_tools(self, name: str, values: Values) -> dict[str, Any]:
        """Add the tools that hand over: to whom the agent may, and back to who handed to it."""
        ways = {to: way for (sender, to), way in self._ways.items() if sender == name}
        if self._options.handoffs_back:
            for sender in self._back.get(name, ()):
                ways.setdefault(sender, Handoff(_Named(sender)))
        tools = [build_transfer_tool(one, self._options.max_handoffs) for one in ways.values()]
        given = {**values, "tools": [*list_given_tools(ToolOptions.read(values).tools), *tools]}
        allowed = ToolFilterOptions.read(values).allowed_tools
        if allowed is not None:
            given["allowed_tools"] = (*allowed, *[tool.name for tool in tools])
        return given

    def _join(self, plan: Plan, name: str) -> Plan:
        """Return the plan with the policy that switches; also once its servers are connected."""
        inner = plan.connect
        joined = plan.beside(Handoffs(name, self._list_active, self.switch))
        if inner is not None:

            async def connect(environment: Environment) -> Plan:
                return self._join(await inner(environment), name)

            joined.connect = connect
        return joined

    def _list_active(self, run: Run) -> list[str]:
        """Return the active agent, last, after those that wait for its return."""
        returns = {pair for pair, way in self._ways.items() if way.return_after}
        return list_active(run.entries, self.front, returns)

    async def _plan_under(self, run: Run, name: str) -> Plan:
        """Build the plan for going on under an agent."""
        environment = current_environment()
        if name == self.front:
            plan = self.front_plan()
        else:
            member = self._members[name]
            values = {key: value for key, value in self._rest.items() if not _is_of_receiver(key)}
            own = environment.with_defaults(dict(member.values))
            values |= {key: value for key, value in own.items() if _is_of_receiver(key)}
            if len(self._list_active(run)) > 1:  # its text is for the sender, and no answer
                values = {key: one for key, one in values.items() if _group_of(key) != _ANSWER}
            if "taint" in own:
                values.setdefault("taint", own["taint"])
            denied = [ToolFilterOptions.read(one).disallowed_tools for one in (self._rest, own)]
            if any(denied):
                values["disallowed_tools"] = tuple([name for one in denied for name in one or ()])
            system = await _write_system(member, run)
            plan = assemble(self._with_tools(name, values), system, self._door)
            plan = self._join(plan, name)
        plan = plan.follow(run.journal.entries)
        if plan.connect is not None:
            plan = await plan.connect(environment)
        if name != self.front:
            refusals = self._find_refusals(run, name)
            plan = plan.below(refusals) if refusals else plan
            plan.inherited = ()
        return as_begun(plan, run.plan.metadata)

    def _find_refusals(self, run: Run, name: str) -> list[Policy[Any]]:
        """Return what the receiver's own rules refuse, under names of its own."""
        own = self._members[name].values
        rules = {key: value for key, value in own.items() if _group_of(key) in _RULES}
        found: list[Policy[Any]] = []
        for policy in assemble({**rules, "model": run.model}, None, self._door).policies:
            if policy.name in _REFUSALS and (held := policy.for_child(run)) is not None:
                renamed = copy(held)
                setattr(renamed, "_name", f"{name}.{policy.name}")  # noqa: B010
                found.append(renamed)
        return found

    # ----------------------------------------------------------------- switching

    async def switch(self, run: Run, sender: str, name: str) -> None:
        """Go on under the agent of this name."""
        if name not in self._members:
            raise ConfigError(
                f"the conversation was handed to {name!r}, which is none of the handoffs any more"
            )
        plan = await self._plan_under(run, name)
        try:
            way = self._ways.get((sender, name))
            if way is not None and way.input_filter is not None and run.turn is not None:
                self._filter(run, way)
            await adopt(run, plan, f"{REASON} to {name}")
        finally:
            if plan.servers:  # the run holds them too
                await current_environment().release_servers(plan.servers)

    def _filter(self, run: Run, way: Handoff) -> None:
        """Replace the view by what the filter leaves of it, on the record."""
        assert way.input_filter is not None
        before = list(run.messages)
        after = list(way.input_filter(tuple(before)))
        if not after or any([type(one) is not Message for one in after]):
            raise ConfigError(
                f"the input_filter of the handoff to {way.name!r} returns messages, at least one"
            )
        if problems := audit([*after, Message("user", (Text("next"),))]):
            raise ConfigError(
                f"the input_filter of the handoff to {way.name!r} tears calls from their results: "
                f"{problems[0]}"
            )
        if after != before:
            run.reshape((0, len(before)), after, REASON)


class _Named:
    """A member by its name alone, for the way back."""

    def __init__(self, name: str) -> None:
        self.name, self.options = name, {}


_OWN: Final = frozenset(HandoffOptions.__struct_fields__)


def _group_of(name: str) -> str:
    return GROUPS.get(name, "").partition(":")[2]


def _is_of_receiver(name: str) -> bool:
    return (
        name in _NAMES_OF_RECEIVER or _group_of(name) in _OF_RECEIVER or name not in GROUPS
    )  # a name of no group is a provider's own


async def _write_system(member: _Member, run: Run) -> str | None:
    """Return the system prompt of a receiver; a function writes it at each handoff."""
    if not callable(member.system):
        return member.system
    assert member.agent is not None
    plan: Plan = await member.agent.plan_for(run.deps, run.caller, run.session_id)
    return (plan.metadata or {})[WRITTEN]

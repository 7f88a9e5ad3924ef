"""Every behaviour of a run that is a policy, in the order in which policies are asked, and why.

A behaviour is a module with an option group and a function `build(ctx)`, or a package with these in
`options.py` and `policy.py`. It is loaded when one of its options is given, or when it is on by itself.

Around tool calls the order is another one: whatever may rewrite a call comes before whatever may
refuse it (`loop/policy.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Final, TypeAlias

import msgspec

from windlass.access.flow.labels import needs_flow_control
from windlass.engine.model_options import ModelOptions
from windlass.loop.policy import Policy, overridden_moments
from windlass.options.index import GROUPS
from windlass.policies.build import BuildContext, Policies

Build: TypeAlias = Callable[[BuildContext], Policies]
Condition: TypeAlias = Callable[[BuildContext], bool]


class Feature(msgspec.Struct, frozen=True):
    """A behaviour: where it is, and when it is on without an option of its own."""

    path: str
    is_on: Condition | None = None
    function: str = "build"
    only_with: tuple[str, ...] = ()
    """Options of others: where none of them is given, `is_on` is not asked. Empty: it always is."""
    is_shared: bool = False
    """Whether its policy is made of numbers and words alone, so that plans may be shared."""

    def load(self) -> Build:
        """Import the behaviour, at its first use."""
        return _load(self.path, self.function)

    def options(self) -> frozenset[str]:
        """Return the names of its options."""
        return names_in(self.path, f"{self.path}.options")


class Part(msgspec.Struct, frozen=True):
    """A behaviour that was built with the frame, if one of its options is given."""

    names: tuple[str, ...]
    add: Build
    is_shared: bool = False

    def load(self) -> Build:
        """Return what adds its policy."""
        return self.add

    def options(self) -> frozenset[str]:
        """Return the names of its options."""
        return frozenset(self.names)


@cache
def _load(path: str, function: str) -> Build:
    """Import a behaviour. The one place where modules are loaded because of an option."""
    module = import_module(f"windlass.{path}")
    if not hasattr(module, function):
        module = import_module(f"windlass.{path}.policy")
    return getattr(module, function)


def names_in(*modules: str) -> frozenset[str]:
    """Return the names of the options that these modules declare."""
    declared = _names_by_module()
    return frozenset([name for module in modules for name in declared.get(module, ())])


@cache
def _names_by_module() -> dict[str, list[str]]:
    declared: dict[str, list[str]] = {}
    for name, group in GROUPS.items():
        declared.setdefault(group.partition(":")[0], []).append(name)
    return declared


def _limits_spending(ctx: BuildContext) -> bool:
    return ctx.limits.tokens is not None or ctx.limits.usd is not None


def _needs_flow_control(ctx: BuildContext) -> bool:
    if not any([tool.annotations for tool in ctx.tools]):
        return False  # tools that say nothing about themselves
    return needs_flow_control([(tool.name, tool.annotations) for tool in ctx.tools])


def _requires_approval(ctx: BuildContext) -> bool:
    if any([tool.requires_approval is not False for tool in ctx.tools]):
        return True
    # a policy of the user may bring tools when the run starts
    return any(["start" in overridden_moments(type(policy)) for policy in ctx.user_policies])


def _runs_commands(ctx: BuildContext) -> bool:
    return any(["uses_sandbox" in tool.annotations for tool in ctx.given_tools])


def _shows_digests(ctx: BuildContext) -> bool:
    return any(["file_digest" in tool.annotations for tool in ctx.given_tools])


def _asks_simulated_user(ctx: BuildContext) -> bool:
    return any(["simulated_user" in tool.annotations for tool in ctx.given_tools])


def _reads_text_calls(ctx: BuildContext) -> bool:
    return ctx.reads_text_calls


def _has_model_caller(ctx: BuildContext) -> bool:
    return ModelOptions.read(ctx.values).llm_caller is not None


def _may_narrow(ctx: BuildContext) -> bool:
    return ctx.door == "agent_loop" and len(ctx.tools) > 1


def _may_suspend(ctx: BuildContext) -> bool:
    return ctx.may_suspend


def _replaces(*ids: str) -> Condition:
    """Return a condition: one of these prompts is overridden."""
    return lambda ctx: ctx.prompts is not None and not ctx.prompts.keys().isdisjoint(ids)


def _always(_ctx: BuildContext) -> bool:
    return True


def add_answer(ctx: BuildContext) -> Policies:
    """Add the policy that asks for an answer of a type."""
    return () if ctx.answer is None else (ctx.answer,)


def add_tool_search(ctx: BuildContext) -> Policies:
    """Add the policy that discloses deferred tools."""
    return () if ctx.tool_search is None else (ctx.tool_search,)


def add_user_policies(ctx: BuildContext) -> Policies:
    """Add the policies of the user."""
    return ctx.user_policies


#: The options that give an agent tools of which a behaviour may ask whether they are there.
_TOOLS: Final = ("tools", "tool_preset")

#: Every behaviour, in order.
FEATURES: Final[tuple[Feature | Part, ...]] = (
    # before all: it waits before a turn begins, and writes its snapshot when all others have ended
    Feature("policies.daemon"),
    # first of those that decide: nothing overrules a budget
    Feature("policies.budget", _limits_spending, only_with=("budget", "token_budget")),
    # before all who look at a call: what the lists deny need not be asked about
    Feature("policies.authority.permissions"),
    Feature("policies.authority.approval"),
    Feature("policies.authority.tool_approval", _requires_approval),
    Feature("policies.taint", _needs_flow_control),
    # before all who look at a reply: nothing of one that suspends the run is judged or dispatched
    Feature("policies.resumption", _may_suspend, is_shared=True),
    Part(
        ("output", "schema", "response_format"), add_answer
    ),  # before the judges: an answer of the wrong type is not judged
    Feature("policies.native_tools"),  # before anybody looks at calls that will not run
    Feature("policies.stall"),  # before the judges: they read its warnings
    Feature("policies.judges"),  # before completion, which asks for tools
    Feature("policies.judges.step"),  # after the stall, which may make it superfluous
    Feature("policies.completion"),
    Feature("policies.post_turn"),
    Feature("policies.simulated_user", _asks_simulated_user, only_with=_TOOLS),
    Feature("policies.turn_limit"),  # after all others that decide: it looks at what they said
    Feature("engine.tool_layers"),  # after the judges: nobody is asked about a call they answer
    # before whatever decides on a call: what is approved names the content that it is for
    Feature("policies.file_digests", _shows_digests, only_with=_TOOLS),
    Feature("policies.progress"),
    Feature("engine.tool_layers", function="build_receipts"),
    Feature("observe.caller_turn", _has_model_caller, only_with=("llm_caller",)),
    Part(("tool_search",), add_tool_search),  # before whatever narrows the tools on offer
    Feature("policies.scratchpad"),
    Feature("policies.skills"),
    # before whatever shapes a request: these change what all others see
    Feature("policies.context_strategy"),  # in place of compaction
    Feature("policies.compaction", _always, is_shared=True),
    # after skills, for it narrows what they leave; after what cuts the view: it goes along with that
    Feature("policies.tool_narrowing", _may_narrow, is_shared=True),
    Feature(  # it writes down which tools are left
        "policies.frame_prompts",
        _replaces("agent.loop_contract", "agent.tool_contract_text"),
        only_with=("prompts",),
    ),
    # each shapes what the one before it leaves
    Feature("policies.projection"),
    Feature("policies.context_callback"),
    Feature("policies.decorators"),  # what is shown at the end is what is decorated
    Feature("policies.reminders"),
    Part(("policies",), add_user_policies),
    # after all who may run a command at the end
    Feature("policies.sandbox_session", _runs_commands, only_with=_TOOLS),
    # after all who may have said something
    Feature("policies.frame_prompts", _replaces("agent.continue"), "build_continue", ("prompts",)),
    # before the closing answer, for what ends runs in reverse: it reads that answer too
    Feature("policies.guardrails"),
    # after all who must agree to an end: it is idle where a run would have ended
    Feature("policies.daemon", function="build_idle"),
    Feature("policies.closing_answer"),
    Feature("policies.quoted_calls", _reads_text_calls, is_shared=True),
    # last: after_tool runs in reverse, so it cuts first
    Feature("policies.result_cap", _always, is_shared=True),
)


#: A behaviour, and the condition that certain options leave open: None, they turn it on.
_Step: TypeAlias = tuple[Condition | None, Feature | Part]


@lru_cache(maxsize=256)
def _choose_steps(given: frozenset[str]) -> tuple[_Step, ...]:
    """Choose the behaviours that agents with these options may have: few, for most agents."""
    steps: list[_Step] = []
    for feature in FEATURES:
        is_on = feature.is_on if isinstance(feature, Feature) else None
        if not feature.options().isdisjoint(given) or is_on is _always:
            steps.append((None, feature))
        elif is_on is not None and isinstance(feature, Feature):
            if not feature.only_with or not given.isdisjoint(feature.only_with):
                steps.append((is_on, feature))
    return tuple(steps)


def build_policies(ctx: BuildContext) -> tuple[list[Policy[Any]], bool]:
    """Build the policies of all behaviours that are asked for, and say whether plans may share them.

    The others cost nothing.
    """
    chosen: list[Policy[Any]] = []
    is_shared = True
    for is_on, feature in _choose_steps(frozenset(ctx.values)):
        if is_on is None or is_on(ctx):
            chosen += feature.load()(ctx)
            is_shared = is_shared and feature.is_shared
    return chosen, is_shared

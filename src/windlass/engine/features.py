"""Every behaviour of a run that is a policy, in the order in which policies are asked, and why.

A behaviour is a module with an option group and a function `build(ctx)`, or a package with these in
`options.py` and `policy.py`. It is loaded when one of its options is given, or when it is on by itself.

Around tool calls the order is another one: whatever may rewrite a call comes before whatever may
refuse it (`loop/policy.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias

from windlass.access.taint import has_labels
from windlass.engine.model_options import ModelOptions
from windlass.loop.policy import Policy
from windlass.options.index import GROUPS
from windlass.policies.build import BuildContext, Policies

Build: TypeAlias = Callable[[BuildContext], Policies]
Condition: TypeAlias = Callable[[BuildContext], bool]


class Feature(NamedTuple):
    """A behaviour: where it is, and when it is on without an option of its own."""

    path: str
    is_on: Condition | None = None
    function: str = "build"

    def load(self) -> Build:
        """Import the behaviour. The one place where modules are loaded because of an option."""
        module = import_module(f"windlass.{self.path}")
        if not hasattr(module, self.function):
            module = import_module(f"windlass.{self.path}.policy")
        return getattr(module, self.function)

    def options(self) -> frozenset[str]:
        """Return the names of its options."""
        return names_in(self.path, f"{self.path}.options")


def names_in(*modules: str) -> frozenset[str]:
    """Return the names of the options that these modules declare."""
    return frozenset([name for name, group in GROUPS.items() if group.partition(":")[0] in modules])


def _limits_spending(ctx: BuildContext) -> bool:
    return ctx.limits.tokens is not None or ctx.limits.usd is not None


def _has_labelled_tool(ctx: BuildContext) -> bool:
    return has_labels([tool.annotations for tool in ctx.tools])


def _has_sentinel(ctx: BuildContext) -> bool:
    return ctx.sentinel is not None


def _is_bounded(ctx: BuildContext) -> bool:
    return ctx.is_bounded


def _reads_text_calls(ctx: BuildContext) -> bool:
    return ctx.reads_text_calls


def _has_model_caller(ctx: BuildContext) -> bool:
    return ModelOptions.read(ctx.values).llm_caller is not None


def _may_narrow(ctx: BuildContext) -> bool:
    return ctx.is_bounded and len(ctx.tools) > 1


def _replaces(*ids: str) -> Condition:
    """Return a condition: somebody put other words in place of one of these prompts."""
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


#: Every behaviour, in order.
FEATURES: Final[tuple[Feature | Build, ...]] = (
    Feature("policies.budget", _limits_spending),  # first: nothing overrules a budget
    # before all who look at a call: what the lists deny need not be asked about
    Feature("policies.permissions"),
    Feature("policies.approval"),
    Feature("policies.taint", _has_labelled_tool),
    add_answer,  # before the judges: an answer of the wrong type is not judged
    Feature("policies.native_tools"),  # before anybody looks at calls that will not run
    Feature("policies.stall"),  # before the judges: they read its warnings
    Feature("policies.judges"),  # before completion, which asks for tools
    Feature("policies.judges.step"),  # after the stall, which may make it superfluous
    Feature("policies.completion", _has_sentinel),
    Feature("policies.post_turn"),
    Feature("policies.turn_limit"),  # after all others that decide: it looks at what they said
    Feature("engine.tool_layers"),  # after the judges: nobody is asked about a call they answer
    Feature("policies.progress"),
    Feature("engine.tool_layers", function="build_receipts"),
    Feature("engine.caller_turn", _has_model_caller),
    add_tool_search,  # before whatever narrows the tools on offer
    Feature("policies.scratchpad"),
    Feature("policies.skills"),
    # before whatever shapes a request: these change what all others see
    Feature("policies.context_strategy"),  # in place of compaction
    Feature("policies.compaction", _is_bounded),
    # after skills, for it narrows what they leave; after what cuts the view: it goes along with that
    Feature("policies.tool_narrowing", _may_narrow),
    Feature(  # it writes down which tools are left
        "policies.frame_prompts", _replaces("agent.loop_contract", "agent.tool_contract_text")
    ),
    # each shapes what the one before it leaves
    Feature("policies.projection"),
    Feature("policies.context_callback"),
    Feature("policies.decorators"),  # what is shown at the end is what is decorated
    Feature("policies.reminders"),
    add_user_policies,
    # after all who may have said something
    Feature("policies.frame_prompts", _replaces("agent.continue"), "build_continue"),
    Feature("policies.closing_answer"),
    Feature("policies.quoted_calls", _reads_text_calls),
    Feature("policies.result_cap", _always),  # last: after_tool runs in reverse, so it cuts first
)


class _Step(NamedTuple):
    names: frozenset[str]
    is_on: Condition | None
    feature: Feature | Build


_STEPS: Final = tuple(
    [
        _Step(each.options(), each.is_on, each)
        if isinstance(each, Feature)
        else _Step(frozenset(), _always, each)
        for each in FEATURES
    ]
)


def build_policies(ctx: BuildContext) -> list[Policy[Any]]:
    """Build the policies of all behaviours that are asked for; the others cost nothing."""
    given, chosen = ctx.values.keys(), list[Policy[Any]]()
    for names, is_on, feature in _STEPS:
        if not names.isdisjoint(given) or (is_on is not None and is_on(ctx)):
            build = feature.load() if isinstance(feature, Feature) else feature
            chosen += build(ctx)
    return chosen

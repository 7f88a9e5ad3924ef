"""The options of the surface (narrowing, prompts), and the policies that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict

from windlass.errors import ConfigError
from windlass.loop.policy import Policy
from windlass.options.checks import (
    boolean,
    check_struct,
    late,
    no_key,
    number,
    one_of,
    optional,
    texts,
)
from windlass.options.prompt_text import Words
from windlass.options.prompts import (
    PromptSource,
    check_prompts,
    override,
    words_of,
)
from windlass.policies.build import About
from windlass.policies.completion import CONTRACTS, Mode
from windlass.tools.kinds import CLASSES

if TYPE_CHECKING:
    from windlass.policies.tool_narrowing import Narrowing, ToolSurfaceNarrowing


class SurfaceOptions(TypedDict, total=False):
    """Which tools and which prompts the model is shown."""

    tool_surface_narrowing: bool | dict[str, Any] | ToolSurfaceNarrowing
    prompts: Mapping[str, PromptSource] | None
    prompt_overrides: Mapping[str, PromptSource] | None


def _classes(name: str, value: Any) -> tuple[str, ...]:
    given = texts(name, value)
    for one in given:
        if one not in CLASSES:
            raise no_key(name, one, CLASSES)
    return given


@late
def _fields() -> Callable[[str, Any], Any]:
    from windlass.policies.tool_narrowing import ToolSurfaceNarrowing

    fields: dict[str, Callable[[str, Any], Any]] = {
        "enabled": boolean,
        "window_turns": number(1, whole=True),
        "mode": one_of("safe", "aggressive"),
        "hard_keep": texts,
        "prune_classes": optional(_classes),
        "keep_classes": optional(_classes),
        "unknown_tool_policy": optional(one_of("keep", "prune")),
    }
    return check_struct(ToolSurfaceNarrowing, fields)


def _narrowing(name: str, value: Any) -> ToolSurfaceNarrowing | None:
    if value is False:
        value = {"enabled": False}
    wanted: ToolSurfaceNarrowing | None = _fields(name, value)
    if wanted is None:
        return None
    both = set(wanted.prune_classes or ()) & set(wanted.keep_classes or ())
    if both:
        raise ConfigError(f"{name}: {min(both)} cannot be pruned and kept: give it to one of them")
    unknown = wanted.unknown_tool_policy
    if unknown is not None:
        other = wanted.keep_classes if unknown == "prune" else wanted.prune_classes
        if "unknown" in (other or ()):
            raise ConfigError(f"{name}: unknown_tool_policy and the classes say different things")
    return wanted


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "tool_surface_narrowing": _narrowing,
    "prompts": check_prompts,
    "prompt_overrides": check_prompts,
}


def usual(about: About) -> list[Policy[Any]]:
    """What a run has that says nothing: only where the model has a limit, as with compaction."""
    return narrowing(about) if about.bound else []


def narrowing(about: About) -> list[Policy[Any]]:
    """The policy that hides unused tools, where there is something for it to do."""
    options = about.options
    wanted: ToolSurfaceNarrowing | None = options.get("tool_surface_narrowing")
    if wanted is None and not about.bound:
        return []
    window = 5 if wanted is None else wanted.window_turns
    if (wanted is not None and not wanted.enabled) or (
        about.turns is not None and about.turns <= window
    ):
        return []
    brought = wanted is not None and options.get("policies")  # these may bring tools
    if len(about.tools) < 2 and not brought:
        return []  # one tool at least stays
    from windlass.policies.tool_narrowing import LINE, Narrowing

    keep, words = _required_tools(options), words_of(options, "agent.hidden_tools", LINE)
    usual = wanted is None and not keep and words is LINE
    policy = _default_narrowing() if usual else Narrowing(wanted, keep, words)
    return [policy] if brought or any(map(policy.may_leave, about.tools)) else []


@cache
def _default_narrowing() -> Narrowing:
    """Frozen: all that say nothing else have the same."""
    from windlass.policies.tool_narrowing import Narrowing

    return Narrowing()


def prompting(about: About) -> list[Policy[Any]]:
    """The policy for prompts of the frame that are not ours."""
    options, sentinel = about.options, about.sentinel
    contract = override(options, "agent.loop_contract")
    tools = override(options, "agent.tool_contract_text") if about.mode == "text" else None
    if (sentinel is None or not callable(contract)) and tools is None:
        return []
    from windlass.models.wrappers.text_tools import CONTRACT, describe_tools
    from windlass.policies.frame_prompts import FramePrompts

    return [
        FramePrompts(
            contract_of(options, about.mode, sentinel)
            if sentinel is not None and callable(contract)
            else None,
            None if tools is None else words_of(options, "agent.tool_contract_text", CONTRACT),
            describe_tools,
        )
    ]


def contract_of(options: Mapping[str, Any], mode: Mode, sentinel: str) -> Words:
    """How the model is told to end a run."""
    default = CONTRACTS[mode].format(sentinel=sentinel)
    return words_of(options, "agent.loop_contract", default, sentinel=sentinel)


def _required_tools(options: Mapping[str, Any]) -> frozenset[str]:
    """Tools that others wait for."""
    required: tuple[tuple[str, ...], ...] = options.get("require_successful_tools") or ()
    names = {name for group in required for name in group}
    return frozenset({*names, *(options.get("stop_after_successful_tools") or ())})

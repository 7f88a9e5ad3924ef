"""The options of compaction, what each accepts, and the policy that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, cast

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.loop.policy import Policy
from windlass.models.base import Model
from windlass.options.checks import (
    boolean,
    check_struct,
    function,
    number,
    one_of,
    optional,
    text,
    texts,
)
from windlass.options.prompts import words_of
from windlass.policies.compaction.policy import STRATEGIES, Compactor, Strategy
from windlass.policies.compaction.summary_prompt import RULES, TASK, CompactionPolicy


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """How the view is kept small: `Compaction(strategy="hybrid", keep_last_n=10)`."""

    strategy: str | None = None
    keep_last_n: int | None = None
    policy: CompactionPolicy | None = None


class CompactionOptions(TypedDict, total=False):
    """How the view is kept small."""

    compaction: str | bool | dict[str, Any] | Compaction
    compact_strategy: str
    compact_threshold: int
    compact_keep_first: int
    compact_keep_last: int
    compact_callback: Callable[..., Any]
    auto_compact: bool | dict[str, Any] | Compaction


_Check = Callable[[str, Any], Any]
_POLICY_FIELDS: dict[str, _Check] = {
    "instructions": optional(text),
    "mode": optional(text),
    "scope": text,
    "preserve": texts,
    "drop": texts,
    "extend_default_instructions": boolean,
    "author": optional(text),
}
policy_of: _Check = check_struct(CompactionPolicy, _POLICY_FIELDS, flag=False)
_strategy: _Check = one_of("none", *STRATEGIES)
_fields: _Check = check_struct(
    Compaction,
    {
        "strategy": optional(_strategy),
        "keep_last_n": optional(number(0, whole=True)),
        "policy": policy_of,
    },
    {"compaction_policy": "policy"},
)


def _compaction(name: str, value: Any) -> Compaction | None:
    if value is False:
        return Compaction(strategy="none")
    if isinstance(value, str):
        return Compaction(strategy=_strategy(name, value))
    if value is not None and not isinstance(value, (bool, Mapping, Compaction)):
        raise ConfigError(f"{name} is a strategy, a dict, True or False, not {safe_repr(value)}")
    return _fields(name, value)


CHECKS: dict[str, _Check] = {
    "compaction": _compaction,
    "compact_strategy": optional(_strategy),
    "compact_threshold": optional(number(1, whole=True)),
    "compact_keep_first": number(0, whole=True),
    "compact_keep_last": optional(number(0, whole=True)),
    "compact_callback": function,
    "auto_compact": _compaction,
}


# --------------------------------------------------------------------------- the policy

_USUAL = Compactor()  # frozen, and shared by all that say nothing else
_NAMES = (
    "compaction",
    "auto_compact",
    "compact_strategy",
    "compact_threshold",
    "compact_keep_first",
    "compact_keep_last",
    "compact_callback",
)


def has_context_limit(model: Model) -> bool:
    """Is there a limit to what the model takes? One of this process that names none has none."""
    return model.remote or model.context_window is not None or model.provider == "mock"


def usual(bound: bool) -> list[Policy[Any]]:
    """What a run has that says nothing."""
    return [_USUAL] if bound else []


def compacting(options: Mapping[str, Any], bound: bool) -> Compactor | None:
    """The policy that keeps the view small; None: it is off."""
    given = {name: options[name] for name in _NAMES if options.get(name) is not None}
    task = words_of(options, "agent.compaction_system", TASK)
    rules = words_of(options, "agent.compaction_instructions", RULES)
    if not given:
        if not bound:
            return None
        ours = task is TASK and rules is RULES
        return _USUAL if ours else Compactor(task=task, rules=rules)
    wanted: dict[str, Compaction] = {
        name: given[name] for name in ("compaction", "auto_compact") if name in given
    }
    strategies = {f"{name}.strategy": each.strategy for name, each in wanted.items()}
    strategy = _single_value({"compact_strategy": given.get("compact_strategy"), **strategies})
    if strategy == "none":
        _nothing_else(given)
        return None
    callback = given.get("compact_callback")
    if callback is not None and strategy not in (None, "custom"):
        raise ConfigError(
            f'compact_callback writes the summary with compact_strategy="custom", not {strategy!r}'
        )
    if callback is None and strategy == "custom":
        raise ConfigError('compact_strategy="custom" needs a compact_callback to write the summary')
    strategy = "custom" if callback is not None else strategy or "hybrid"
    lasts = {f"{name}.keep_last_n": each.keep_last_n for name, each in wanted.items()}
    policies = {f"{name}.policy": each.policy for name, each in wanted.items()}
    return Compactor(
        cast("Strategy", strategy),
        threshold=given.get("compact_threshold"),
        keep_first=given.get("compact_keep_first", 0),
        keep_last=_single_value({"compact_keep_last": given.get("compact_keep_last"), **lasts}),
        policy=_single_value(policies),
        callback=callback,
        task=task,
        rules=rules,
    )


def _single_value(said: Mapping[str, Any]) -> Any:
    """The one value that these options name; two that differ are refused."""
    named = {name: value for name, value in said.items() if value is not None}
    values = list(named.values())
    if any(value != values[0] for value in values):
        raise ConfigError(f"{' and '.join(named)} say different things: give one of them")
    return values[0] if values else None


def _nothing_else(given: Mapping[str, Any]) -> None:
    """Refuse to be told how, by who also says not at all."""
    for name, value in given.items():
        says = value.strategy if isinstance(value, Compaction) else value
        how = isinstance(value, Compaction) and (value.keep_last_n, value.policy) != (None, None)
        if how or (says != "none" and says is not None):
            raise ConfigError(
                f"{name} says how to compact, and compaction is off: give one of them"
            )


# --------------------------------------------------------------------------- policies by name


def compaction_policy(
    options: Mapping[str, Any] | None = None, /, **fields: Any
) -> CompactionPolicy:
    """What summaries are to keep, checked: `compaction_policy(preserve=["open questions"])`."""
    return _build_policy(CompactionPolicy(), options, fields)


def compact_for_bug_fix_resumption(
    options: Mapping[str, Any] | None = None, /, **fields: Any
) -> CompactionPolicy:
    """For work on a defect that must go on: `compact_for_bug_fix_resumption(author="host")`.

    What you give is added to its lists, and takes the place of its texts.
    """
    return _build_policy(_BUG_FIX, options, fields)


def compact_preserving_test_failures(
    options: Mapping[str, Any] | None = None, /, **fields: Any
) -> CompactionPolicy:
    """For work on failing tests: `compact_preserving_test_failures(drop=["passing tests"])`."""
    return _build_policy(_FAILURES, options, fields)


def compact_retaining_current_plan(
    options: Mapping[str, Any] | None = None, /, **fields: Any
) -> CompactionPolicy:
    """For work along a plan: `compact_retaining_current_plan(author="host")`."""
    return _build_policy(_PLAN, options, fields)


def _build_policy(
    usual: CompactionPolicy, options: Mapping[str, Any] | None, fields: Mapping[str, Any]
) -> CompactionPolicy:
    if options is not None and not isinstance(cast("object", options), Mapping):
        raise ConfigError(f"the fields of a compaction policy are a dict, not {safe_repr(options)}")
    given = {**(options or {}), **fields}
    own: CompactionPolicy = policy_of("compaction_policy", given)
    changed = {name: getattr(own, name) for name in given}
    for name in ("preserve", "drop"):
        if name in changed:
            changed[name] = tuple(dict.fromkeys((*getattr(usual, name), *changed[name])))
    return msgspec.structs.replace(usual, **changed)


_BUG_FIX = CompactionPolicy(
    mode="bug_fix_resumption",
    instructions="Write the notes so that the work on this defect can go on at once.",
    preserve=(
        "how the defect shows, and how to reproduce it",
        "the cause as far as it is known, and causes that were ruled out",
        "files and lines that were changed, and those that still must be",
        "commands that were run, and what they said",
        "the next step",
    ),
    drop=("searches that led nowhere",),
)
_FAILURES = CompactionPolicy(
    mode="preserve_test_failures",
    instructions="Every test that fails must be in the notes.",
    preserve=(
        "names of failing tests, each with its assertion and message word for word",
        "the command that runs them",
        "what was tried for each, and what came of it",
    ),
    drop=("output of tests that pass",),
)
_PLAN = CompactionPolicy(
    mode="retain_current_plan",
    instructions="The plan must come through whole: write it as a list with the state of each step.",
    preserve=(
        "the plan as it stands now, step by step: done, under way, to do",
        "why it was changed, where it was",
        "decisions that later steps depend on",
    ),
    drop=("versions of the plan that no longer hold",),
)

"""The options of compaction, and policies of compaction by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.options.checks import function, number, one_of, optional
from windlass.options.group import Option, OptionGroup, OptionStruct, struct
from windlass.policies.compaction.summary_prompt import CompactionPolicy

Strategy: TypeAlias = Literal["truncate", "summarize_middle", "summarize_all", "hybrid", "custom"]
STRATEGIES: Final = cast("tuple[str, ...]", get_args(Strategy))

check_policy = struct(CompactionPolicy, flag=False)
_check_strategy = one_of("none", *STRATEGIES)


class Compaction(OptionStruct, frozen=True, kw_only=True):
    """How a long conversation is shortened: `Compaction(strategy="hybrid", keep_last_n=10)`."""

    strategy: Annotated[str | None, Option(optional(_check_strategy))] = None
    """What happens to old messages; `none`: they stay."""
    keep_last_n: Annotated[int | None, Option(optional(number(0, whole=True)))] = None
    """Messages at the end that stay as they are."""
    policy: Annotated[
        CompactionPolicy | None, Option(check_policy, aliases=("compaction_policy",))
    ] = None
    """What summaries keep."""

    @property
    def says_how(self) -> bool:
        """Whether it says more than a strategy."""
        return (self.keep_last_n, self.policy) != (None, None)


_check_struct = struct(Compaction)


def _check_compaction(name: str, value: Any) -> Compaction | None:
    if value is False:
        return Compaction(strategy="none")
    if isinstance(value, str):
        return Compaction(strategy=_check_strategy(name, value))
    if value is not None and not isinstance(value, (bool, Mapping, Compaction)):
        raise ConfigError(f"{name} is a strategy, a dict, True or False, not {safe_repr(value)}")
    return _check_struct(name, value)


class CompactionOptions(OptionGroup, frozen=True, kw_only=True):
    """Compaction: how a long conversation fits the context window."""

    choice: ClassVar[str | None] = "context"

    compaction: Annotated[
        Compaction | None,
        Option(_check_compaction, accepts="str | bool | dict[str, Any] | Compaction | None"),
    ] = None
    """A strategy, or all settings of compaction; False: no compaction."""
    auto_compact: Annotated[
        Compaction | None,
        Option(_check_compaction, accepts="str | bool | dict[str, Any] | Compaction | None"),
    ] = None
    """Another name for `compaction`."""
    compact_strategy: Annotated[str | None, Option(optional(_check_strategy))] = None
    """What happens to old messages."""
    compact_threshold: Annotated[int | None, Option(optional(number(1, whole=True)))] = None
    """Tokens of the view above which it is compacted."""
    compact_keep_first: Annotated[int | None, Option(number(0, whole=True))] = None
    """Messages at the beginning that stay as they are (0)."""
    compact_keep_last: Annotated[int | None, Option(optional(number(0, whole=True)))] = None
    """Messages at the end that stay as they are."""
    compact_callback: Annotated[Callable[..., Any] | None, Option(function)] = None
    """A function that writes the summary."""

    @property
    def whole(self) -> dict[str, Compaction]:
        """The options that say all of it, by name."""
        both = {"compaction": self.compaction, "auto_compact": self.auto_compact}
        return {name: each for name, each in both.items() if each is not None}

    def strategy(self) -> str | None:
        """Return the strategy that the options agree on."""
        strategies = {f"{name}.strategy": each.strategy for name, each in self.whole.items()}
        return _single_value({"compact_strategy": self.compact_strategy, **strategies})

    def keep_last(self) -> int | None:
        """Return how many messages at the end stay."""
        counts = {f"{name}.keep_last_n": each.keep_last_n for name, each in self.whole.items()}
        return _single_value({"compact_keep_last": self.compact_keep_last, **counts})

    def policy(self) -> CompactionPolicy | None:
        """Return what summaries are to keep."""
        return _single_value({f"{name}.policy": each.policy for name, each in self.whole.items()})

    def is_silent(self) -> bool:
        """Return whether no option is set."""
        return all(getattr(self, name) is None for name in self.__struct_fields__)

    def check_off(self) -> None:
        """Refuse options for compaction where it is switched off."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            says = value.strategy if isinstance(value, Compaction) else value
            how = isinstance(value, Compaction) and value.says_how
            if how or (says != "none" and says is not None):
                raise ConfigError(
                    f"{name} says how to compact, and compaction is off: give one of them"
                )


def _single_value(said: Mapping[str, Any]) -> Any:
    """Return the one value that these options name; two that differ are refused."""
    named = {name: value for name, value in said.items() if value is not None}
    values = list(named.values())
    if any(value != values[0] for value in values):
        raise ConfigError(f"{' and '.join(named)} say different things: give one of them")
    return values[0] if values else None


# --------------------------------------------------------------------------- policies by name


def compaction_policy(
    options: Mapping[str, Any] | None = None, /, **fields: Any
) -> CompactionPolicy:
    """Build a policy for summaries: `compaction_policy(preserve=["open questions"])`.

    Returns a `CompactionPolicy`; wrong fields raise `ConfigError`.
    """
    return _build_policy(CompactionPolicy(), options, fields)


def compact_for_bug_fix_resumption(
    options: Mapping[str, Any] | None = None, /, **fields: Any
) -> CompactionPolicy:
    """Build a summary policy for bug fixes: `compact_for_bug_fix_resumption(author="host")`.

    Lists that you give are added to its lists; texts that you give replace its texts.
    """
    return _build_policy(_BUG_FIX, options, fields)


def compact_preserving_test_failures(
    options: Mapping[str, Any] | None = None, /, **fields: Any
) -> CompactionPolicy:
    """Build a summary policy for failing tests: `compact_preserving_test_failures()`.

    Lists that you give are added to its lists; texts that you give replace its texts.
    """
    return _build_policy(_FAILURES, options, fields)


def compact_retaining_current_plan(
    options: Mapping[str, Any] | None = None, /, **fields: Any
) -> CompactionPolicy:
    """Build a summary policy for work along a plan: `compact_retaining_current_plan()`.

    Lists that you give are added to its lists; texts that you give replace its texts.
    """
    return _build_policy(_PLAN, options, fields)


def _build_policy(
    usual: CompactionPolicy, options: Mapping[str, Any] | None, fields: Mapping[str, Any]
) -> CompactionPolicy:
    if options is not None and not isinstance(cast("object", options), Mapping):
        raise ConfigError(f"the fields of a compaction policy are a dict, not {safe_repr(options)}")
    given = {**(options or {}), **fields}
    own: CompactionPolicy = check_policy("compaction_policy", given)
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

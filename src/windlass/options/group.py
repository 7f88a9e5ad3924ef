"""Option groups: the options of one behaviour, declared once, with their checks and defaults.

```python
class StallDiagnostics(OptionStruct, frozen=True, kw_only=True):
    \"\"\"Warn the model when it repeats the same call.\"\"\"

    threshold: Annotated[int, Option(number(2, whole=True))] = 3
    \"\"\"Identical calls in a row before the warning.\"\"\"


class StallOptions(OptionGroup, frozen=True, kw_only=True):
    \"\"\"Options against repetition.\"\"\"

    stall_diagnostics: Annotated[StallDiagnostics | None, Option(struct(StallDiagnostics))] = None
    \"\"\"Warn the model when it repeats the same call.\"\"\"
```

The name of a field of a group is the name of an option. What was given is checked by name (`parse.py`)
and kept as a flat mapping; `StallOptions.read(values)` gives a behaviour its own part of it, typed.
`scripts/make_options.py` writes down which group declares which option (`index.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from windlass.options.checks import Check, check_struct
from windlass.records import NamedFields

#: The options that were given, checked, by name.
Values: TypeAlias = Mapping[str, Any]
#: Where options are given: to `llm_completion`, to `llm_call`, to `agent_loop`, to an `Agent`, to one of its runs.
Door: TypeAlias = Literal["completion", "call", "loop", "agent", "run"]

LOOPS: Final[frozenset[Door]] = frozenset({"loop", "agent", "run"})
CALLS: Final[frozenset[Door]] = frozenset({"call", "loop", "agent", "run"})
EVERYWHERE: Final[frozenset[Door]] = frozenset(get_args(Door))
AGENTS: Final[frozenset[Door]] = frozenset({"agent", "run"})

G = TypeVar("G", bound="OptionGroup")


class Alias(msgspec.Struct, frozen=True):
    """Another name of an option, at the doors that take it; None: at those of the option."""

    name: str
    doors: frozenset[Door] | None = None
    deprecated: bool = False


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """A flag of `windlass run`, `chat` and `sessions resume` for an option: `--max-turns 5`.

    Its help is the first sentence of the option's docstring; its type, its choices and its limits are
    those of the option.
    """

    names: tuple[str, ...] = ()
    """Its names; `--` and the name of the option where there are none."""
    metavar: str | None = None
    """What the help shows for the value."""
    words: str | None = None
    """What the help says in place of the docstring, for a flag that gives one value of several."""
    note: str = ""
    """What the help adds."""
    key: str | None = None
    """The key that it gives, of an option that is a struct."""
    low: float | None = None
    """The least value of that key."""
    value: str | bool | None = None
    """What it gives, for a flag that takes no value."""
    repeats: bool = False
    """Whether it may be repeated, to give a list."""
    begins: bool = False
    """Whether only commands that may begin a session have it: `run` and `chat`."""


class Option(msgspec.Struct, frozen=True):
    """Facts of an option beside its type: `Option(number(1, whole=True), aliases=("n",))`."""

    check: Check
    aliases: tuple[str | Alias, ...] = ()
    doors: frozenset[Door] | None = None
    """Where it may be given; None: where the options of its group may."""
    scope: Literal["turn", "start", "run"] = "turn"
    """From when on it is settled: never, when a run begins; `run`: it belongs to one run alone."""
    deprecated: str | None = None
    """What to use instead."""
    accepts: str | None = None
    """The type that may be given, as source text, where it is wider than that of the field."""
    flags: tuple[Flag, ...] = ()
    """Its flags on the command line."""
    in_file: bool = True
    """Whether `[agent]` in `windlass.toml` may set it, where its type is plain data."""
    choice: str | None = None
    """What it decides together with other options: a default for it counts where code gives none of them."""


class OptionStruct(
    msgspec.Struct,
    metaclass=NamedFields,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
):
    """Base of structs that are the value of an option, and may be given as a dict."""


class OptionGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the options of one behaviour."""

    doors: ClassVar[frozenset[Door]] = LOOPS
    choice: ClassVar[str | None] = None
    """What its options decide together, where they do; see `Option.choice`."""

    @classmethod
    def read(cls: type[G], values: Values) -> G:
        """Take the group's own options out of all that were given: `StallOptions.read(values)`.

        Where none of them was given, everybody gets the same group.
        """
        names, untouched = _declaration_of(cls)
        if names.isdisjoint(values):
            return untouched  # pyright: ignore[reportReturnType] - the cache forgets whose it is
        return cls(**{name: values[name] for name in names.intersection(values)})

    @classmethod
    def is_given(cls, values: Values) -> bool:
        """Return whether any option of the group was given."""
        return not values.keys().isdisjoint(cls.__struct_fields__)


@cache
def _declaration_of(kind: type[OptionGroup]) -> tuple[frozenset[str], OptionGroup]:
    """Return the names of a group's options, and the group with all of its defaults."""
    return frozenset(kind.__struct_fields__), kind()


@cache
def read_options(kind: type[msgspec.Struct]) -> dict[str, Option]:
    """Return the options that a group or a struct declares, by field name."""
    declared: dict[str, Option] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            continue
        for extra in get_args(hint)[1:]:
            if isinstance(extra, Option):
                declared[name] = extra
    missing = [name for name in kind.__struct_fields__ if name not in declared]
    if missing:
        raise TypeError(f"{kind.__name__}: {', '.join(missing)} has no Option with a check")
    return declared


def checks_of(*groups: type[OptionGroup]) -> dict[str, Check]:
    """Return the check of each option of these groups; raise if two declare one name."""
    checks: dict[str, Check] = {}
    for group in groups:
        for name, option in read_options(group).items():
            if name in checks:
                raise TypeError(f"{group.__name__}: {name} is declared by another group already")
            checks[name] = option.check
    return checks


class StructCheck(msgspec.Struct, frozen=True):
    """A check for a struct of options, or the dict it stands for."""

    kind: type[msgspec.Struct]
    flag: bool = True

    def __call__(self, name: str, value: Any) -> Any:
        """Return the struct, or raise `ConfigError` that names the key."""
        return _struct_check(self.kind, self.flag)(name, value)


def struct(kind: type[msgspec.Struct], *, flag: bool = True) -> StructCheck:
    """Return a check for an option struct or its dict; True gives all defaults.

    Without `flag` True and False are refused.
    """
    return StructCheck(kind, flag)


@cache
def _struct_check(kind: type[msgspec.Struct], flag: bool) -> Check:
    options = read_options(kind)
    checks = {field: option.check for field, option in options.items()}
    aliases = {
        alias if isinstance(alias, str) else alias.name: field
        for field, option in options.items()
        for alias in option.aliases
    }
    return check_struct(kind, checks, aliases, flag=flag)

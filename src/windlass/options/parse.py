"""From options as they were given to options that are checked, by name: one pass for every door."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, cast

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.options.group import Alias, Check, Door, Option, OptionGroup, Values, read_options
from windlass.options.index import ALIASES, GROUPS, NAMES

#: Names that other documents use, and the names here.
SUPERSEDED: Final = {
    "iterations": "max_iterations",
    "abort_signal": "abort",
    "system_prompt": "system",
    "agent_name": "name",
    "agent_role": "role",
    "max_tool_iterations": "max_iterations",
}
#: The doors in the order in which an error names them.
_ENTRY_POINTS: Final[dict[Door, str]] = {
    "agent": "Agent",
    "run": "Agent.run",
    "loop": "agent_loop",
    "call": "llm_call",
    "completion": "llm_completion",
}


def parse_options(
    given: Mapping[str, Any],
    door: Door,
    where: str,
    *,
    find_check: Callable[[Mapping[str, Any], object], Check | None] | None = None,
    also: Iterable[str] = (),
) -> dict[str, Any]:
    """Check options one by one and return them under their own names.

    `where` is what an error says the option was given to. `find_check` finds the check of a name that
    is no option of ours (a provider's own dict); `also` are names that the door takes for itself.
    """
    known = NAMES[door]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            check = None if find_check is None else find_check(given, name)
            if check is None:
                raise unknown_option(name, known.union(also), where)
            values[name] = check(name, value)
            continue
        own, check, warning = _read_name(name)
        if own != name and own in given:
            raise ConfigError(f"{name} and {own} are the same option: give one")
        values[own] = check(name, value)
        if warning is not None and (own != name or value is not None):
            _warn(warning)
    return values


@cache
def _read_name(name: str) -> tuple[str, Check, str | None]:
    """Return the option of a name: its own name, its check, and a warning where one is due."""
    own = ALIASES.get(name, name)
    option = find_option(own)
    for alias in option.aliases:
        if isinstance(alias, Alias) and alias.deprecated and alias.name == name:
            return own, option.check, f"{name} is now {own}"
    if option.deprecated is None:
        return own, option.check, None
    return own, option.check, f"{name} is deprecated; use {option.deprecated}"


def find_group(name: str) -> type[OptionGroup]:
    """Return the group that declares an option; its module is loaded on first use."""
    module, _, group = GROUPS[name].partition(":")
    return getattr(import_module(f"windlass.{module}"), group)


@cache
def find_option(name: str) -> Option:
    """Return what is known of an option: `find_option("max_tokens").check`."""
    return read_options(find_group(name))[name]


def check_option(name: str, value: Any) -> Any:
    """Check the value of an option by itself, and return it as a behaviour takes it."""
    return find_option(name).check(name, value)


def check_given(given: Mapping[str, Any], names: Iterable[str]) -> None:
    """Check those of the options that have one of these names; None stands for not given."""
    for name in names:
        if given.get(name) is not None:
            check_option(name, given[name])


def merge_options(options: object, more: Values, where: str) -> dict[str, Any]:
    """Merge the options of a dict with those given by name, which have the last word."""
    if options is None:
        return dict(more)
    if not isinstance(options, Mapping):
        raise ConfigError(f"the options of {where} are a dict, not {safe_repr(options)}")
    return {**cast("Mapping[str, Any]", options), **more}


def unknown_option(name: object, known: Iterable[str], where: str) -> ConfigError:
    """Build the error for an option that a door does not have."""
    if not isinstance(name, str):
        return ConfigError(f"{where} has no option {safe_repr(name)}: an option's name is a text")
    names = frozenset(known)
    own = _own_name(SUPERSEDED.get(name, name))
    if own in GROUPS:  # an option that this door has by another name
        here = next((one for one in sorted(names) if _own_name(one) == own), None)
        if here is not None:
            return ConfigError(f"{where} has no option {name!r}; use {here!r}")
    if name in SUPERSEDED:
        return ConfigError(f"{where} has no option {name!r}; use {SUPERSEDED[name]!r}")
    for door, entry_point in _ENTRY_POINTS.items():
        if name in NAMES[door]:
            return ConfigError(f"{where} has no option {name!r}: it is one of {entry_point}")
    hint = nearest(name, names, "options")
    if not hint and where.partition(".")[0] in (
        *_ENTRY_POINTS.values(),
        "agent_turn",
        "llm_stream",
    ):
        hint = f"; help(windlass.{where}) lists them"
    return ConfigError(f"{where} has no option {safe_repr(name)}{hint}")


def _own_name(name: str) -> str:
    return ALIASES.get(name, name)


def _warn(message: str) -> None:
    """Warn at the line of the caller outside this package."""
    level, frame = 1, sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("windlass."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, DeprecationWarning, stacklevel=level)

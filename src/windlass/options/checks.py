"""How values of options are checked: numbers, texts, choices, functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, cast

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.identifiers import check_identifier, check_label

_Check = Callable[[str, Any], Any]
_MOST = 2**63 - 1  # a journal, a database and a wire can hold it
_LONGEST = 10**9  # seconds; who wants no limit says None


def number(low: float, high: float | None = None, *, whole: bool = False) -> Any:
    """A number between these, whole where it must be."""
    kinds = int if whole else (int, float)
    most = high if high is not None else _MOST if whole else _LONGEST

    def check(name: str, value: Any) -> Any:
        right = isinstance(value, kinds) and not isinstance(value, bool)
        if not right or not low <= value <= most:
            kind = "a whole number" if whole else "a number"
            reach = f"from {low:g} to {most:g}" if high is not None else f"of at least {low:g}"
            if right and value > most:
                reach = f"up to {most:g}"
            elif not right and low < -_MOST:  # any will do
                raise ConfigError(f"{name} is {kind}, not {safe_repr(value)}")
            raise ConfigError(f"{name} is {kind} {reach}, not {safe_repr(value)}")
        if type(value) is int or type(value) is float:
            return value
        return int(value) if isinstance(value, int) else float(value)  # of an enum, say

    return check


def optional(check: Any) -> Any:
    """What the check takes, or None."""

    def check_given(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    return check_given


def late(make: Callable[[], Any]) -> Any:
    """A check that is made at its first use: what it needs is not loaded for who does not ask."""
    made = cache(make)

    def check(name: str, value: Any) -> Any:
        return made()(name, value)

    return check


def boolean(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is True or False, not {safe_repr(value)}")
    return value


def text(name: str, value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} is a text that is not empty, not {safe_repr(value)}")
    return words(name, value)


def words(name: str, value: Any) -> str:
    """A text that can be written down: whole characters only."""
    if not isinstance(value, str):
        raise ConfigError(f"{name} is a text, not {safe_repr(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ConfigError(
                f"{name} holds half a character (a lone surrogate): {safe_repr(value)}"
            ) from None
    return value if type(value) is str else str.__str__(value)


def one_of(*names: str) -> Any:
    """One of these names."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            known = ", ".join(map(repr, names))
            hint = nearest(value, names) if isinstance(value, str) else ""
            raise ConfigError(f"{name} is one of {known}, not {safe_repr(value)}{hint}")
        return value

    return check


def function(name: str, value: Any) -> Any:
    """A function, or None."""
    if value is not None and not callable(value):
        raise ConfigError(f"{name} is a function, not {safe_repr(value)}")
    return value


def instance(kind: type, words: str) -> Any:
    """An object of this kind, or None."""

    def check(name: str, value: Any) -> Any:
        if value is not None and not isinstance(value, kind):
            raise ConfigError(f"{name} is {words}, not {safe_repr(value)}")
        return value

    return check


def all_of(value: Any, kind: type) -> bool:
    """Is it a list of such things?"""
    items = cast("list[Any]", value)
    return isinstance(value, (list, tuple)) and all(isinstance(item, kind) for item in items)


def texts(name: str, value: Any) -> tuple[str, ...]:
    """A list of texts, none of them empty."""
    if not all_of(value, str) or not all(value):
        raise ConfigError(f"{name} is a list of texts, not {safe_repr(value)}")
    return tuple([words(name, one) for one in value])


def no_key(name: str, key: object, known: Iterable[str]) -> ConfigError:
    """The error for a key that a dict does not have."""
    hint = nearest(key, known) if isinstance(key, str) else ""
    return ConfigError(f"{name} has no key {safe_repr(key)}{hint}")


def plain(name: str, value: dict[Any, Any]) -> dict[str, Any]:
    """A dict that goes to a provider as it is: it must be JSON."""
    try:
        same = msgspec.json.decode(msgspec.json.encode(value)) == value
    except (TypeError, ValueError, RecursionError, OverflowError):
        same = False
    if not same:
        raise ConfigError(f"{name} goes into a request, and this is not JSON: {safe_repr(value)}")
    return value


def check_struct(
    kind: type[msgspec.Struct],
    checks: Mapping[str, _Check],
    also: Mapping[str, str] | None = None,
    *,
    flag: bool = True,
) -> _Check:
    """A check for an option that is a dict or the struct it stands for; True: with all defaults."""

    def check(name: str, value: Any) -> Any:
        if value is None or (flag and value is False):
            return None
        if flag and value is True:
            return kind()
        if isinstance(value, kind):
            value = {field: getattr(value, field) for field in kind.__struct_fields__}
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name} is a dict or a {kind.__name__}, not {safe_repr(value)}")
        fields: dict[str, Any] = {}
        for key, given in cast("Mapping[Any, Any]", value).items():
            field = str((also or {}).get(key, key))
            if field not in checks:
                raise no_key(name, key, [*checks, *(also or ())])
            if field in fields:
                raise ConfigError(f"{name}: {key} and {field} are the same: give one")
            fields[field] = checks[field](f"{name}.{key}", given)
        return kind(**fields)

    return check


def anything(_name: str, value: Any) -> Any:
    """Take any value: what reads the option checks it."""
    return value


def identifier(name: str, value: Any) -> str:
    """A name that is printed, traced and may become a tool's: as strict as a session's id."""
    return check_identifier(text(name, value), name)


def label(name: str, value: Any) -> str:
    """An id that somebody else made up: one line of text."""
    return check_label(text(name, value), name)

"""How values of options are checked: numbers, texts, choices, functions.

A check is a function of the name and the value. Checks that are made for one option (`number(1, whole=True)`)
are objects, so that the limits they hold can be read: by the command line, the reference and the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeAlias, cast

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.identifiers import check_identifier, check_label

#: Checks a value that was given under a name, and returns it as the behaviour takes it.
Check: TypeAlias = Callable[[str, Any], Any]
_MOST = 2**63 - 1  # a journal, a database and a wire can hold it
_LONGEST = 10**9  # seconds; None for no limit


class NumberCheck(msgspec.Struct, frozen=True):
    """A check for a number from `low` to `high`."""

    low: float
    high: float | None = None
    whole: bool = False

    def __call__(self, name: str, value: Any) -> Any:
        """Return the number, or raise `ConfigError`."""
        most = self.high if self.high is not None else _MOST if self.whole else _LONGEST
        is_plain = type(value) is int or (type(value) is float and not self.whole)
        if is_plain and self.low <= value <= most:
            return value
        kinds = int if self.whole else (int, float)
        right = isinstance(value, kinds) and not isinstance(value, bool)
        if not right or not self.low <= value <= most:
            kind = "a whole number" if self.whole else "a number"
            reach = f"of at least {self.low:g}"
            if self.high is not None:
                reach = f"from {self.low:g} to {most:g}"
            if right and value > most:
                reach = f"up to {most:g}"
            elif not right and self.low < -_MOST:  # any will do
                raise ConfigError(f"{name} is {kind}, not {safe_repr(value)}")
            raise ConfigError(f"{name} is {kind} {reach}, not {safe_repr(value)}")
        return int(value) if isinstance(value, int) else float(value)  # of an enum, say


def number(low: float, high: float | None = None, *, whole: bool = False) -> NumberCheck:
    """Return a check for a number between these, whole where it must be."""
    return NumberCheck(low, high, whole)


class OptionalCheck(msgspec.Struct, frozen=True):
    """A check for what another check takes, or None."""

    inner: Check

    def __call__(self, name: str, value: Any) -> Any:
        """Return the value as the other check does, or None."""
        return None if value is None else self.inner(name, value)


def optional(check: Check) -> OptionalCheck:
    """Return a check for what this check takes, or None."""
    return OptionalCheck(check)


class LateCheck:
    """A check that is built at its first use, so that its imports come only then."""

    def __init__(self, build: Callable[[], Check]) -> None:
        self.build = cache(build)

    def __call__(self, name: str, value: Any) -> Any:
        """Build the check, and return the value as it does."""
        return self.build()(name, value)


def late(build: Callable[[], Check]) -> LateCheck:
    """Return a check that is built at its first use."""
    return LateCheck(build)


def boolean(name: str, value: Any) -> bool:
    """Check that a value is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is True or False, not {safe_repr(value)}")
    return value


def text(name: str, value: Any) -> str:
    """Check that a value is a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} is a text that is not empty, not {safe_repr(value)}")
    return words(name, value)


def words(name: str, value: Any) -> str:
    """Check that a value is a text of whole characters."""
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


class ChoiceCheck(msgspec.Struct, frozen=True):
    """A check for one of some names."""

    names: tuple[str, ...]

    def __call__(self, name: str, value: Any) -> str:
        """Return the name, or raise `ConfigError` with the nearest one."""
        if not isinstance(value, str) or value not in self.names:
            known = ", ".join(map(repr, self.names))
            hint = nearest(value, self.names) if isinstance(value, str) else ""
            raise ConfigError(f"{name} is one of {known}, not {safe_repr(value)}{hint}")
        return value


def one_of(*names: str) -> ChoiceCheck:
    """Return a check for one of these names."""
    return ChoiceCheck(names)


def function(name: str, value: Any) -> Any:
    """Check that a value is a function, or None."""
    if value is not None and not callable(value):
        raise ConfigError(f"{name} is a function, not {safe_repr(value)}")
    return value


class InstanceCheck(msgspec.Struct, frozen=True):
    """A check for an object of a kind, or None."""

    kind: type
    words: str

    def __call__(self, name: str, value: Any) -> Any:
        """Return the object, or raise `ConfigError`."""
        if value is not None and not isinstance(value, self.kind):
            raise ConfigError(f"{name} is {self.words}, not {safe_repr(value)}")
        return value


def instance(kind: type, words: str) -> InstanceCheck:
    """Return a check for an object of this kind, or None."""
    return InstanceCheck(kind, words)


def all_of(value: Any, kind: type) -> bool:
    """Check whether a value is a list of such items."""
    items = cast("list[Any]", value)
    return isinstance(value, (list, tuple)) and all(isinstance(item, kind) for item in items)


def texts(name: str, value: Any) -> tuple[str, ...]:
    """Check that a value is a list of texts, none of them empty."""
    if not all_of(value, str) or not all(value):
        raise ConfigError(f"{name} is a list of texts, not {safe_repr(value)}")
    return tuple([words(name, one) for one in value])


#: Keys that an error lists where none is close.
_FEW_KEYS = 16


def no_key(name: str, key: object, known: Iterable[str]) -> ConfigError:
    """Build the error for a key that a dict does not have."""
    names = list(known)
    hint = nearest(key, names) if isinstance(key, str) else ""
    if not hint and len(names) <= _FEW_KEYS:
        hint = f"; it has {', '.join(names)}"
    return ConfigError(f"{name} has no key {safe_repr(key)}{hint}")


def plain(name: str, value: dict[Any, Any]) -> dict[str, Any]:
    """Check that a dict, which goes to a provider as it is, is JSON."""
    try:
        same = msgspec.json.decode(msgspec.json.encode(value)) == value
    except (TypeError, ValueError, RecursionError, OverflowError):
        same = False
    if not same:
        raise ConfigError(f"{name} goes into a request, and this is not JSON: {safe_repr(value)}")
    return value


def check_struct(
    kind: type[msgspec.Struct],
    checks: Mapping[str, Check],
    also: Mapping[str, str] | None = None,
    *,
    flag: bool = True,
) -> Check:
    """Build a check for a dict or its struct; True gives the struct with its defaults."""

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
    """Check a name that is printed, traced and may become a tool's: like a session id."""
    return check_identifier(text(name, value), name)


def label(name: str, value: Any) -> str:
    """Check an id that others made up: one line of text."""
    return check_label(text(name, value), name)

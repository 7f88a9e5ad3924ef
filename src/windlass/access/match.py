"""The one matcher of permissions, approval rules, ceilings, roles and skills.

Names are compared by globs (`globs.py`). Arguments are compared in one of two senses:

- what is *allowed* must fit wholly: every value of the arguments that the pattern is about, each in every
  way that it can be read;
- what is *denied* need only fit somewhere: any value, however deep, keys of objects and numbers too, in
  any way that it can be read. What cannot be read as the path or the address that it must be is denied.

Which arguments is a pattern about? Those that it names (`arg_key`); else the paths, addresses and commands
among them, as the tool declares them or by their usual names; else every text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from windlass.access.addresses import fits_host, fits_url, host_spellings, parse_address
from windlass.access.facts import KINDS, Kind, declared_names, kind_of_argument
from windlass.access.paths import fits_path, is_url, read_path, relate_to, touches_path
from windlass.access.values import iterate_values, spell_scalar
from windlass.globs import like, path_like

Sense: TypeAlias = Literal["allow", "deny"]
#: What lets a shell do more than one thing. An allowed command has none that its pattern does not have.
_OPERATORS: Final = frozenset(";&|`$<>\n\r")
_SEGMENTS: Final = re.compile(r"[;&|`\n\r(){}<>]+|\$\(")


class CallValues(NamedTuple):
    """One call, as patterns over arguments see it."""

    arguments: Mapping[str, Any]
    annotations: Mapping[str, Any]
    parameters: frozenset[str]  # the names in the tool's schema, which are no values
    root: str  # where relative paths begin


# --------------------------------------------------------------------------- arguments of a call


def fits_arguments(
    patterns: Sequence[str], arg_key: str | None, call: CallValues, sense: Sense
) -> bool:
    """Check whether the arguments match, in the sense of the patterns' list."""
    if sense == "deny":
        return _is_denied(patterns, arg_key, call)
    about = _arguments_of(arg_key, call)
    return bool(about) and all(
        [_fits_argument(patterns, name, kind, value, call.root) for name, kind, value in about]
    )


def _arguments_of(arg_key: str | None, call: CallValues) -> list[tuple[str, Kind, object]]:
    """Return the arguments that an allowing pattern covers; a missing declared one is None."""
    given = call.arguments
    if arg_key is not None:
        return [(arg_key, kind_of_argument(arg_key, call.annotations), given.get(arg_key))]
    found: list[tuple[str, Kind, object]] = []
    for kind in KINDS:
        names = declared_names(kind, call.annotations)
        if names is None:
            usual = [name for name in given if kind_of_argument(name, call.annotations) == kind]
            names = tuple([name for name in usual if given[name] is not None])
        for name in names:
            found.append((name, kind, given.get(name)))
    if found:
        return found
    return [(name, "text", value) for name, value in given.items() if _holds_text(value)]


def _holds_text(value: object) -> bool:
    return any([isinstance(one, str) for one in iterate_values(value)])


def _fits_argument(
    patterns: Sequence[str], name: str, kind: Kind, value: object, root: str
) -> bool:
    values = list(iterate_values(value))
    if kind == "command" and name == "argv" and all([isinstance(one, str) for one in values]):
        values = [" ".join(cast("list[str]", values))]  # the words of one command
    if not values or None in values or "" in values:
        return False  # what is not there could be anything
    if "*" in patterns:
        return True
    return all([any([_fits_value(p, kind, one, root) for p in patterns]) for one in values])


def _fits_value(pattern: str, kind: Kind, value: object, root: str) -> bool:
    if not isinstance(value, str):
        return kind == "text" and any([like(pattern, one) for one in spell_scalar(value)])
    if kind == "command":
        return _OPERATORS.intersection(value) <= set(pattern) and like(pattern, value.strip())
    if kind == "url" or (kind == "text" and "://" in pattern):
        try:
            address = parse_address(value)
        except ValueError:
            return False
        return address.plain and fits_url(pattern, address)
    if kind == "path" or "/" in pattern:
        return fits_path(pattern, value, root)
    return like(pattern, value) and _stays_inside(pattern, value, root)


def _stays_inside(pattern: str, text: str, root: str) -> bool:
    """Check whether a text still fits if its tool reads it as a path."""
    if not any([mark in text for mark in ("/", "\\", "~")]) or "\n" in text:
        return True
    try:
        places = read_path(text, root)
    except ValueError:
        return True
    inside = [relate_to(place, root) for place in places]
    return all([one is not None and like(pattern, one) for one in inside])


# --------------------------------------------------------------------------- what is denied


def _is_denied(patterns: Sequence[str], arg_key: str | None, call: CallValues) -> bool:
    given = call.arguments
    if arg_key is not None:
        if arg_key not in given:
            return False
        given = {arg_key: given[arg_key]}
    if "*" in patterns:
        return True
    for name, value in given.items():
        if (
            arg_key is None
            and name not in call.parameters
            and _touches(patterns, "text", name, call)
        ):
            return True
        kind = kind_of_argument(name, call.annotations)
        if any([_touches(patterns, kind, one, call) for one in iterate_values(value)]):
            return True
        if kind == "command" and _touches(patterns, kind, _join_texts(value), call):
            return True
    return False


def _join_texts(value: object) -> str:
    return " ".join([one for one in iterate_values(value) if isinstance(one, str)])


def _touches(patterns: Sequence[str], kind: Kind, value: object, call: CallValues) -> bool:
    return any([touches_value(pattern, kind, value, call.root) for pattern in patterns])


def touches_value(pattern: str, kind: Kind, value: object, root: str) -> bool:
    """Check whether a value matches a denying pattern in any reading."""
    if not isinstance(value, str):
        spelled = spell_scalar(value)
        return any(
            [like(pattern, one) for text in spelled for one in (text, *host_spellings(text))]
        )
    if like(pattern, value) or like(pattern, value.strip()):
        return True
    if kind == "command":
        return any([like(pattern, one) for one in split_command(value)])
    if kind == "url" and touches_address(pattern, value):
        return True
    if kind == "text" and any([like(pattern, one) for one in host_spellings(value)]):
        return True
    if kind == "text" and "." in pattern and is_url(value) and not _parses(value):
        return True  # an address that two parsers may read differently
    return touches_path(pattern, value, root, crossing=True, unreadable=kind == "path")


def _parses(text: str) -> bool:
    if any([letter.isspace() for letter in text.strip()]):
        return True  # words that begin with an address
    try:
        parse_address(text)
    except ValueError:
        return False
    return True


def touches_address(pattern: str, text: str) -> bool:
    """Check whether an address matches a denying pattern; an unparsable one does."""
    try:
        address = parse_address(text)
    except ValueError:
        return True
    if any([like(pattern, one) or like(pattern.lower(), one) for one in address.texts]):
        return True
    return fits_url(pattern, address, wholly=False)


def touches_host(pattern: str, text: str, sense: Sense) -> bool:
    """Check the host of an address; an unparsable one is denied, and never allowed."""
    try:
        address = parse_address(text)
    except ValueError:
        return sense == "deny"
    return fits_host(pattern, address) and (sense == "deny" or address.plain)


def fits_address(pattern: str, text: str, sense: Sense) -> bool:
    """Check whether an address matches a glob, in the sense of its rule."""
    if sense == "deny":
        return touches_address(pattern, text) or like(pattern, text)
    return _fits_value(pattern, "url", text, "/")


def fits_command(pattern: str, text: str, sense: Sense) -> bool:
    """Check whether a command matches a glob; a denied one may be part of a longer line."""
    if sense == "allow":
        return _fits_value(pattern, "command", text, "/")
    return any([like(pattern, one) for one in (text, *split_command(text))])


def fits_place(pattern: str, text: str, root: str, sense: Sense) -> bool:
    """Check whether a path matches a glob in which `*` stays in a folder.

    A denying pattern without a folder is compared with the name alone as well: `*.pem`.
    """
    if sense == "allow":
        return fits_path(pattern, text, root)
    if touches_path(pattern, text, root, crossing=False):
        return True
    if "/" in pattern:
        return False
    try:
        places = read_path(text, root, named=True)
    except ValueError:
        return False
    return any([path_like(pattern, place.rpartition("/")[2]) for place in places])


def split_command(text: str) -> tuple[str, ...]:
    """Split a line of shell into its commands: `split_command("ls;  rm  x")`."""
    found = [" ".join(part.split()) for part in (text, *_SEGMENTS.split(text))]
    return tuple(dict.fromkeys([one for one in found if one]))

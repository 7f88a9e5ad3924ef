"""Facts of a tool call for rules: its tool, and the paths, commands and URLs in it.

A tool says in its annotations which arguments are what (`path_args`, `command_args`, `url_args`,
`method_args`). Where it says nothing, arguments with the usual names count, so that a rule about
paths is not blind to a tool that nobody has annotated. Free text is never searched.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from windlass.access.values import iterate_values, spell_scalar
from windlass.json_types import JsonObject, is_mapping, is_sequence

Kind: TypeAlias = Literal["path", "url", "command", "text"]
KINDS: Final[tuple[Kind, ...]] = ("path", "url", "command")
DECLARED: Final = ("path_args", "command_args", "url_args", "method_args")
_USUAL: Final[dict[str, frozenset[str]]] = {
    "path_args": frozenset(
        {
            "path",
            "paths",
            "file",
            "files",
            "file_path",
            "file_paths",
            "filepath",
            "filename",
            "directory",
            "dir",
            "folder",
            "cwd",
        }
    ),
    "command_args": frozenset({"command", "cmd", "argv", "commands"}),
    "url_args": frozenset({"url", "urls", "uri"}),
    "method_args": frozenset({"method"}),
}
#: Where one word of a shell command ends and the next begins, whatever the shell makes of it.
_WORDS = re.compile(r"[\s;&|<>()`\"'{}=,$:@]+")


class CallFacts(msgspec.Struct, frozen=True):
    """One call, as rules see it."""

    tool: str
    arguments: Mapping[str, Any]
    kind: str | None = None
    side_effect_level: str | None = None
    paths: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    mcp_server: str | None = None
    capability: str | None = None
    agent: str | None = None
    persona: str | None = None
    mode: str | None = None
    repeats: int = 1  # how often this very call was made in the session, with this one

    @property
    def words(self) -> tuple[str, ...]:
        """Every word of its commands that could be a path."""
        found = [word for command in self.commands for word in _WORDS.split(command) if word]
        return tuple(dict.fromkeys(found))


def facts_of(
    tool: str,
    annotations: Mapping[str, Any],
    arguments: Mapping[str, Any],
    *,
    agent: str | None = None,
    persona: str | None = None,
    mode: str | None = None,
    repeats: int = 1,
) -> CallFacts:
    """Collect the facts of a call."""
    return CallFacts(
        tool,
        arguments,
        _text(annotations.get("kind")),
        _text(annotations.get("side_effect_level")),
        _values("path_args", annotations, arguments),
        _commands(annotations, arguments),
        _values("url_args", annotations, arguments),
        tuple([one.upper() for one in _values("method_args", annotations, arguments)]),
        _text(annotations.get("mcp_server")),
        _text(annotations.get("capability")),
        agent,
        persona,
        mode,
        repeats,
    )


def strings(value: object) -> Iterable[str]:
    """Yield every text in a value, at any depth."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif is_mapping(one):
            waiting += one.values()
        elif is_sequence(one):
            waiting += one


def declared_names(kind: Kind, annotations: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the arguments that the tool declares to be of this kind; None if it has none."""
    declared = annotations.get(f"{kind}_args")
    if declared is None:
        return None
    return (declared,) if isinstance(declared, str) else tuple(declared)


def kind_of_argument(name: str, annotations: Mapping[str, Any]) -> Kind:
    """Return the kind of an argument, as declared by the tool or by its usual name."""
    for kind in KINDS:
        names = declared_names(kind, annotations)
        if name in (_USUAL[f"{kind}_args"] if names is None else names):
            return kind
    return "text"


def argument_names(kind: Kind, annotations: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of which `kind_of_argument` says that they are of a kind other than text."""
    found: dict[str, Kind] = {}
    for each in KINDS:
        names = declared_names(each, annotations)
        for name in _USUAL[f"{each}_args"] if names is None else names:
            found.setdefault(str(name), each)
    return frozenset([name for name, its in found.items() if its == kind])


def _arguments_of_kind(
    kind: str, annotations: Mapping[str, Any], arguments: Mapping[str, Any]
) -> JsonObject:
    """Return the arguments of one kind."""
    declared = annotations.get(kind)
    if isinstance(declared, str):
        declared = (declared,)
    names = _USUAL[kind] if declared is None else declared
    return {name: value for name, value in arguments.items() if name in names}


def _texts(value: object) -> list[str]:
    """Return every value of an argument as text, with the keys of objects."""
    return [
        one if isinstance(one, str) else spell_scalar(one)[0]
        for one in iterate_values(value)
        if one is not None
    ]


def _values(
    kind: str, annotations: Mapping[str, Any], arguments: Mapping[str, Any]
) -> tuple[str, ...]:
    given = _arguments_of_kind(kind, annotations, arguments).values()
    return tuple([text for value in given for text in _texts(value)])


def _commands(annotations: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return each command as one text; a list counts as one command and as several."""
    found: dict[str, None] = {}
    for value in _arguments_of_kind("command_args", annotations, arguments).values():
        several = _texts(value)
        found[" ".join(several)] = None
        found.update(dict.fromkeys(several))
    return tuple(found)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def resolve_path(path: str, workspace: str) -> str:
    """Resolve a path with its links; relative ones begin in the workspace."""
    return os.path.realpath(os.path.join(workspace, os.path.expanduser(path)))

"""Permissions of an agent: lists of allowed and denied calls, by tool and arguments."""

from __future__ import annotations

import asyncio
import copy
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec

from windlass.access.match import CallValues, Sense, fits_arguments
from windlass.access.paths import current_folder, is_url, read_path, relate_to
from windlass.access.values import has_many_values, iterate_values
from windlass.errors import ConfigError, error_text, safe_repr
from windlass.globs import match_name
from windlass.json_types import JsonObject, as_given, is_mapping, is_sequence
from windlass.options.checks import no_key
from windlass.records import NamedFields

Predicate: TypeAlias = Callable[[JsonObject], Any]
_KEYS: Final = ("arg_key", "patterns")


class ArgPattern(msgspec.Struct, frozen=True):
    """Globs over the arguments of a call, or over the one argument `arg_key`.

    What they are about, and how values are compared, is in `access/match.py`.
    """

    patterns: tuple[str, ...]
    arg_key: str | None = None

    def fits(self, call: CallValues, sense: Sense) -> bool:
        """Check whether all values of an allow match, or any value of a deny."""
        return fits_arguments(self.patterns, self.arg_key, call, sense)


class PathScope(msgspec.Struct, frozen=True):
    """Fits calls by whether their path arguments lie in the workspace or a mounted root."""

    arg_keys: tuple[str, ...]
    workspace: str | None = None
    roots: dict[str, str] = {}  # folder -> mode
    mount_modes: tuple[str, ...] | None = None  # which of them count; None: all

    def fits(self, call: CallValues, sense: Sense) -> bool:
        """Check whether all paths lie inside (allow), or any does (deny); False without paths."""
        anchor = os.path.realpath(self.workspace or call.root)
        roots = [anchor]
        roots += [
            os.path.realpath(root)
            for root, mode in self.roots.items()
            if self.mount_modes is None or mode in self.mount_modes
        ]
        given = [call.arguments[key] for key in self.arg_keys if key in call.arguments]
        hits = [
            self._lies_inside(one, anchor, roots, sense)
            for value in given
            for one in iterate_values(value)
            if one is not None or sense == "allow"
        ]
        return bool(hits) and (all(hits) if sense == "allow" else any(hits))

    def _lies_inside(self, value: object, anchor: str, roots: list[str], sense: Sense) -> bool:
        if not isinstance(value, str) or (sense == "allow" and is_url(value)):
            return False
        try:
            places = read_path(value, anchor)
        except ValueError:
            return sense == "deny"
        hits = [any([relate_to(place, root) is not None for root in roots]) for place in places]
        return all(hits) if sense == "allow" else any(hits)


def path_scope(
    *arg_keys: str,
    workspace: str | os.PathLike[str] | None = None,
    roots: Mapping[str, str] | Sequence[str] = (),
    mount_modes: Sequence[str] | None = None,
) -> PathScope:
    """Build a matcher for workspace paths: `{"allow": {"edit_*": path_scope("path")}}`.

    The first argument is the name of the tool's argument. `roots` adds folders, each with a mode
    (`{"/srv/data": "extend"}`); with `mount_modes` only folders with one of these modes count.
    """
    if not all(isinstance(key, str) and key for key in cast("tuple[object, ...]", arg_keys)):
        raise ConfigError(f"path_scope takes names of arguments, not {safe_repr(arg_keys)}")
    mounted = dict(roots) if isinstance(roots, Mapping) else dict.fromkeys(roots, "extend")
    modes = None if mount_modes is None else tuple(mount_modes)
    where = None if workspace is None else os.fspath(workspace)
    return PathScope(arg_keys or ("path",), where, mounted, modes)


Matcher: TypeAlias = ArgPattern | PathScope | Predicate | None  # None: any arguments


class Entry(msgspec.Struct, frozen=True):
    """One line of a list: which tools, and with which arguments."""

    tool: str  # a glob
    matcher: Matcher = None

    async def fits(self, tool: str, call: CallValues, sense: Sense) -> bool:
        """Check whether the line matches this call in the sense of its list."""
        if not match_name((self.tool,), tool):
            return False
        match self.matcher:
            case None:
                return True
            case ArgPattern() | PathScope() as scope:
                if has_many_values(call.arguments):
                    return await asyncio.to_thread(scope.fits, call, sense)
                return scope.fits(call, sense)
            case predicate:
                answer = predicate(copy.deepcopy(dict(call.arguments)))  # what runs stays as it is
                if inspect.isawaitable(answer):
                    answer = await answer
                return bool(answer)

    @property
    def words(self) -> str:
        """The line in short, for the record."""
        match self.matcher:
            case None:
                return self.tool
            case ArgPattern(patterns, key):
                return f"{self.tool}({key or '*'}: {'|'.join(patterns)})"
            case PathScope(keys):
                return f"{self.tool}({', '.join(keys)} in the workspace)"
            case predicate:
                return f"{self.tool}({getattr(predicate, '__name__', 'a function')})"


class Ruling(msgspec.Struct, frozen=True):
    """The ruling of the lists on a call: whether it may run, by which line, and why."""

    allowed: bool
    rule: str | None  # the line in short; None: no line matches the call
    reason: str


class Permissions(msgspec.Struct, metaclass=NamedFields, frozen=True, kw_only=True):
    """Lists of allowed and denied calls: `Permissions(allow=("read_*",), deny=("*secret*",))`.

    A denied call is refused. If there is an `allow` list, every other call is refused too.
    """

    allow: tuple[Entry, ...] | None = None
    deny: tuple[Entry, ...] = ()
    on_escalation: Callable[..., Any] | None = None

    def place_in(self, workspace: str, mounts: Mapping[str, str]) -> Permissions:
        """Return the lists for a workspace: path scopes without a folder get it."""
        return msgspec.structs.replace(
            self,
            allow=None if self.allow is None else _place_entries(self.allow, workspace, mounts),
            deny=_place_entries(self.deny, workspace, mounts),
        )

    async def rule_on(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        annotations: Mapping[str, Any] | None = None,
        parameters: Iterable[str] = (),
        root: str | None = None,
    ) -> Ruling:
        """Decide whether the call may run, and by which entry. A predicate that fails denies.

        `annotations` and `parameters` are those of the tool. `root` is the folder for relative
        paths; None: the current folder.
        """
        call = CallValues(
            arguments, annotations or {}, frozenset(parameters), root or current_folder()
        )
        for entry in self.deny:
            try:
                fits = await entry.fits(tool, call, "deny")
            except Exception as error:
                return Ruling(False, entry.words, f"{entry.words} failed: {error_text(error)}")
            if fits:
                return Ruling(False, entry.words, f"denied by {entry.words}")
        if self.allow is None:
            return Ruling(True, None, "no line denies it")
        for entry in self.allow:
            try:
                if await entry.fits(tool, call, "allow"):
                    return Ruling(True, entry.words, f"allowed by {entry.words}")
            except Exception as error:
                return Ruling(False, entry.words, f"{entry.words} failed: {error_text(error)}")
        return Ruling(False, None, "not in the list of what is allowed")


def _place_entries(
    entries: Sequence[Entry], workspace: str, mounts: Mapping[str, str]
) -> tuple[Entry, ...]:
    """Return the lines of a list with the workspace in each scope that names none of its own."""
    placed: list[Entry] = []
    for entry in entries:
        scope = entry.matcher
        if isinstance(scope, PathScope) and scope.workspace is None:
            roots = {**mounts, **scope.roots}
            scope = msgspec.structs.replace(scope, workspace=workspace, roots=roots)
        placed.append(Entry(entry.tool, scope))
    return tuple(placed)


class PermissionRequest(msgspec.Struct, frozen=True):
    """The argument of `on_escalation`: a call that the permissions refuse."""

    tool: str
    args: JsonObject
    reason: str
    session: str


def entries_of(name: str, value: object, depth: int = 0) -> tuple[Entry, ...]:
    """Parse a list of permissions: globs, `{glob: matcher}`, or a list of both."""
    if isinstance(value, str):
        return (Entry(_glob(name, value)),)
    if isinstance(value, Entry):
        return (value,)
    if is_mapping(value):
        written = value.items()
        return tuple([Entry(_glob(name, key), _matcher(f"{name}.{key}", m)) for key, m in written])
    if is_sequence(value) and depth < 8:  # one that holds itself has no end
        several = value
        return tuple([entry for one in several for entry in entries_of(name, one, depth + 1)])
    given = safe_repr(as_given(value))
    raise ConfigError(f"{name} is a list of tool globs or a dict by tool glob, not {given}")


def _glob(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} names tools by globs, not {safe_repr(value)}")
    return value


def _matcher(name: str, value: object) -> Matcher:
    if value is None or value is True:
        return None
    if isinstance(value, (ArgPattern, PathScope)) or callable(value):
        return cast("Matcher", value)
    if isinstance(value, str) or is_sequence(value):
        return ArgPattern(_patterns(name, value))
    if not is_mapping(value):
        raise ConfigError(
            f"{name} is a glob, a list of globs or a function, not {safe_repr(value)}"
        )
    given = value
    for key in given:
        if key not in _KEYS:
            raise no_key(name, key, _KEYS)
    key = given.get("arg_key")
    if key is not None and not isinstance(key, str):
        raise ConfigError(f"{name}.arg_key is the name of an argument, not {safe_repr(key)}")
    return ArgPattern(_patterns(f"{name}.patterns", given.get("patterns", "*")), key)


def _patterns(name: str, value: object) -> tuple[str, ...]:
    several = cast("Sequence[object]", (value,) if isinstance(value, str) else value)
    if not is_sequence(several) or not several:
        raise ConfigError(f"{name} is a glob or a list of globs, not {safe_repr(value)}")
    return tuple([_glob(name, one) for one in several])

"""The project's file: the settings of it that count without the user's trust.

A project's file may narrow, never widen: a shape says with `widens(path, value, weaker)` which of its
settings count only in a file that the user has trusted (`windlass trust`). It is asked about tables
first, then about what is in them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from windlass.config.sources import Layer, read_layer
from windlass.config.trust import IgnoredSetting, TrustRecord
from windlass.config.values import holds, leaves
from windlass.files import owner_problem
from windlass.json_types import JsonObject, is_object

UNTRUSTED = "it counts only in a file that you trust (windlass trust)"


def read_project(
    path: Path,
    known: Mapping[str, type[msgspec.Struct]],
    environ: Mapping[str, str],
    weaker: Mapping[str, Any],
    named: bool,
) -> tuple[Layer | None, list[str], list[IgnoredSetting]]:
    """Return the settings of the project's file that count, its problems, and what is ignored."""
    if problem := owner_problem(path):
        if named:
            return None, [f"{path}: {problem}"], []
        ignored = [IgnoredSetting("", str(path), problem)]
        warn_ignored(path, ignored)
        return None, [], ignored
    layer, wrong = read_layer(path, known)
    if wrong or named:  # a file named by code counts as code
        return layer, wrong or list(find_foreign_variables(layer, known)), []
    if TrustRecord(environ).trusts(path, layer.content):
        return layer, list(find_foreign_variables(layer, known)), []
    kept, ignored = without_widening(layer.data, layer.origin, known, weaker)
    warn_ignored(path, ignored)
    return Layer(kept, path, layer.lines, layer.content), [], ignored


def without_widening(
    data: Mapping[str, Any],
    origin: Callable[[tuple[str, ...]], str],
    known: Mapping[str, type[msgspec.Struct]],
    weaker: Mapping[str, Any],
) -> tuple[JsonObject, list[IgnoredSetting]]:
    """Split an untrusted file into the settings that count and those that are ignored."""
    kept: JsonObject = {}
    ignored: list[IgnoredSetting] = []
    for name, shape in known.items():
        table = data.get(name)
        if table is None:
            continue
        widens: _Widens | None = getattr(shape, "widens", None)
        if widens is None:
            kept[name] = table
            continue
        below: JsonObject = weaker.get(name, {})
        kept_table = _narrow(table, (), lambda path, value, w=widens, b=below: w(path, value, b))
        if kept_table:
            kept[name] = kept_table
        for path, _ in leaves(table, ()):
            if not holds(kept_table, path):
                setting = ".".join((name, *path))
                ignored.append(IgnoredSetting(setting, origin((name, *path)), UNTRUSTED))
    return kept, ignored


_Widens: TypeAlias = Callable[[tuple[str, ...], object, Mapping[str, Any]], bool]


def _narrow(
    table: Mapping[str, Any],
    path: tuple[str, ...],
    widens: Callable[[tuple[str, ...], object], bool],
) -> JsonObject:
    """Return the table without settings that widen, and without tables left empty by that."""
    kept: JsonObject = {}
    for key, value in table.items():
        at = (*path, key)
        if widens(at, value):
            continue
        if is_object(value) and value:
            value = _narrow(value, at, widens)
            if not value:
                continue
        kept[key] = value
    return kept


def find_foreign_variables(
    layer: Layer, known: Mapping[str, type[msgspec.Struct]]
) -> Iterator[str]:
    """Yield the problems of settings that even a trusted project file may not have."""
    for name, shape in known.items():
        check_project: Callable[[Mapping[str, Any]], Iterator[tuple[tuple[str, ...], str]]] | None
        check_project = getattr(shape, "project_problems", None)
        table = layer.data.get(name)
        if check_project is not None and is_object(table):
            for path, problem in check_project(table):
                where = (name, *path)
                yield f"{layer.origin(where)}: {'.'.join(where)}: {problem}"


_warned: set[tuple[str, ...]] = set()


def warn_ignored(path: Path, ignored: Iterable[IgnoredSetting]) -> None:
    """Log once which settings of a file are ignored."""
    several = tuple(each.setting or each.reason for each in ignored)
    if several and (str(path), *several) not in _warned:
        _warned.add((str(path), *several))
        what = ", ".join(each for each in several[:6]) + (", …" if len(several) > 6 else "")
        if any(each.setting for each in ignored):
            _log.warning("%s: ignored until you trust the file (windlass trust): %s", path, what)
        else:
            _log.warning("%s: ignored: %s", path, what)


_log = logging.getLogger("windlass")

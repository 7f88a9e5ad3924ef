"""The one loader for `windlass.toml`: typed sections, and an origin for every value.

Whoever owns a section gives it its shape; this file knows only their names. Nothing is read at
import. From strongest to weakest: the environment (`WINDLASS_<SECTION>_<KEY>`), the project's file
(the nearest upward), the user's file, and what is built in.

A project's file may narrow, never widen: a shape says with `widens(path, value, weaker)` which of its
settings count only in a file that the user has trusted (`windlass trust`). It is asked about tables
first, then about what is in them.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from windlass.config.lines import Lines
from windlass.config.shapes import (
    choice,
    convert,
    is_secret,
    problems_of,
    render_value,
    say,
)
from windlass.config.trust import IgnoredSetting, TrustRecord, user_folder
from windlass.errors import ConfigError, nearest
from windlass.files import owner_problem, read_regular
from windlass.redaction.redactor import Secret, mask_url, secrets_in

S = TypeVar("S", bound=msgspec.Struct)

FILE = "windlass.toml"
BUILT_IN = "built-in"
MASK = "****"
LARGEST = 1_000_000  # bytes of a file of settings
DEEPEST_KEY = 32  # parts of a dotted key
UNTRUSTED = "it counts only in a file that you trust (windlass trust)"
_NOTHING: tuple[Any, ...] = ({}, [])  # a table that nobody filled is not worth a line

# Windlass's own sections, by name alone: a file must read the same whoever loads it first.
_sections: dict[str, type[msgspec.Struct] | str] = {
    "store": "windlass.store.open:StoreConfig",
    "telemetry": "windlass.observe.telemetry:TelemetryConfig",
    "llm": "windlass.models.registry.config:LlmConfig",
    "capabilities": "windlass.models.registry.capability_rows:Table",
    "roles": "windlass.access.roles:RolesConfig",
    "audit": "windlass.audit.seal:AuditConfig",
}


def section(name: str, shape: type[msgspec.Struct] | str) -> None:
    """Register the shape of `[name]`: a frozen struct in which every field has a default.

    ```python
    class StoreConfig(msgspec.Struct, frozen=True):
        path: str | None = None

    config.section("store", StoreConfig)
    ```
    `"package.module:StoreConfig"` is imported only when somebody loads a configuration.
    """
    known = _sections.get(name)
    if known is not None and _shape_path(known) != _shape_path(shape):
        raise ConfigError(
            f"section {name!r} belongs to {_shape_path(known)}, not {_shape_path(shape)}"
        )
    if not isinstance(shape, str):
        _must_have_defaults(shape)
    if known is None or isinstance(known, str):
        _sections[name] = shape


class Setting(msgspec.Struct, frozen=True):
    """One effective value and where it came from; a secret is masked."""

    section: str
    key: str  # dotted where the value is inside a table
    value: Any
    origin: str  # path:line, environment NAME, or built-in


class Config:
    """What was configured: `config.get(StoreConfig).path`. Made by `load`."""

    def __init__(
        self,
        layers: list[Layer],
        sections: Mapping[str, type[msgspec.Struct] | str],
        start: Path,
        environ: Mapping[str, str],
        project: Path | None = None,
        ignored: Iterable[IgnoredSetting] = (),
    ) -> None:
        self._layers = layers  # the strongest first
        self._sections = sections
        self.start = start  # the folder it was loaded for
        self.environ = environ
        self.project = project  # the project's file
        self.ignored = list(ignored)  # what a file said and what does not count
        self._made: dict[type[msgspec.Struct], msgspec.Struct] = {}

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were read, the strongest first."""
        return tuple(layer.file for layer in self._layers if layer.file)

    def get(self, shape: type[S]) -> S:
        """The section of this shape, with every source merged into its defaults."""
        made = self._made.get(shape)
        if made is None:
            name = self._name(shape)
            try:
                made = self._made[shape] = convert(self._merge_layers(name), shape)
            except msgspec.ValidationError as error:  # each source is right, together they are not
                raise ConfigError(f"[{name}]: {say(error)}") from None
        return cast(S, made)

    def explain(self) -> list[Setting]:
        """Every effective value of every section, and where it came from."""
        return [
            Setting(name, ".".join(path), _mask_value(path, value), origin)
            for name, shape in _resolve_sections(self._sections).items()
            for path, value in _leaves(self.get(shape), ())
            if (origin := self._origin((name, *path))) != BUILT_IN or value not in _NOTHING
        ]

    def secrets(self) -> tuple[Secret, ...]:
        """Every secret in the configuration, for the redactor."""
        found: list[Secret] = []
        for shape in _resolve_sections(self._sections).values():
            for path, value in _leaves(self.get(shape), ()):
                if isinstance(value, Secret):
                    found.append(value)
                elif isinstance(value, str):
                    found += map(Secret, secrets_in(path[-1], value))
        return tuple(found)

    def folder(self, shape: type[msgspec.Struct], key: str) -> Path:
        """The folder that a relative path in this value is relative to: that of its file."""
        for layer in self._layers:
            if layer.file and _holds(layer.data, (self._name(shape), *key.split("."))):
                return layer.file.parent
        return self.start

    def document(self, *names: str) -> Document:
        """The raw tables of some sections, merged, and which file says what."""
        return Document({name: self._merge_layers(name) for name in names}, self._origin)

    def require_trust(self, setting: str) -> None:
        """Refuse to go on without settings that were ignored: `config.require_trust("roles.")`."""
        for each in self.ignored:
            if each.setting.startswith(setting):
                raise ConfigError(
                    f"{each.origin}: {each.setting} {each.reason}, and there is nothing in its "
                    "place; look at the file, then: windlass trust"
                )

    def _name(self, shape: type[msgspec.Struct]) -> str:
        for name, known in _resolve_sections({**_sections, **self._sections}).items():
            if known is shape:
                return name
        raise ConfigError(
            f"{shape.__name__} is no section of {FILE}; register it with config.section(name, shape)"
        )

    def _merge_layers(self, name: str) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for layer in reversed(self._layers):
            merged = _merge(merged, layer.data.get(name, {}))
        return merged

    def _origin(self, path: tuple[str, ...]) -> str:
        for layer in self._layers:
            if _holds(layer.data, path):
                return layer.origin(path)
        return BUILT_IN


def load(
    start_dir: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    *,
    file: str | os.PathLike[str] | None = None,
    sections: Mapping[str, type[msgspec.Struct] | str] | None = None,
) -> Config:
    """Read the configuration that applies in a folder: `load().get(StoreConfig)`.

    `file` names the project's file instead of looking for it upward from `start_dir`. All problems
    of all files are raised as one `ConfigError`.
    """
    environ = os.environ if env is None else env
    known = _resolve_sections(_sections if sections is None else sections)
    folder = Path(start_dir) if start_dir is not None else Path.cwd()
    if file is not None and not Path(file).is_file():
        raise ConfigError(f"{file}: there is no such file")
    project = Path(file).absolute() if file is not None else find(folder)
    user = user_file(environ)
    if user and project and user.is_file() and user.samefile(project):
        project = None if file is None else project  # by whatever name, it is the user's own
        user = user if file is None else None
    layer, problems = _read_environment(environ, known)
    layers, ignored = [layer], list[IgnoredSetting]()
    mine: Layer | None = None
    if user is not None and user.is_file():
        mine, wrong = _read(user, known)
        problems += [f"{user}: {problem}"] if (problem := owner_problem(user)) else wrong
    if project is not None:
        weaker = {} if mine is None else mine.data
        source, wrong, ignored = _read_project(project, known, environ, weaker, file is not None)
        problems += wrong
        if source is None:
            project = None  # what is refused does not say where the project is, either
        else:
            layers.append(source)
    layers += [mine] if mine is not None else []
    if problems:
        raise ConfigError("\n".join(problems))
    config = Config(layers, known, folder.absolute(), environ, project, ignored)
    for shape in known.values():
        config.get(shape)
    return config


def check(path: str | os.PathLike[str]) -> list[str]:
    """Every problem of one file, as `path:line: what is wrong`; empty when it is right."""
    if not Path(path).is_file():
        return [f"{path}: there is no such file"]
    return _read(Path(path), _resolve_sections(_sections))[1]


def find(start_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """The nearest `windlass.toml`, from a folder upward."""
    start = (Path(start_dir) if start_dir is not None else Path.cwd()).absolute()
    return next((up / FILE for up in (start, *start.parents) if (up / FILE).is_file()), None)


def user_file(env: Mapping[str, str] | None = None) -> Path | None:
    """Where the user's own file would be, whether or not it exists."""
    folder = user_folder(os.environ if env is None else env)
    return None if folder is None else folder / FILE


# --------------------------------------------------------------------------- trust


def _read_project(
    path: Path,
    known: Mapping[str, type[msgspec.Struct]],
    environ: Mapping[str, str],
    weaker: Mapping[str, Any],
    named: bool,
) -> tuple[Layer | None, list[str], list[IgnoredSetting]]:
    """The project's file, as far as it counts; its problems; and what of it does not count."""
    if problem := owner_problem(path):
        if named:
            return None, [f"{path}: {problem}"], []
        ignored = [IgnoredSetting("", str(path), problem)]
        warn_ignored(path, ignored)
        return None, [], ignored
    layer, wrong = _read(path, known)
    if wrong or named:  # a file that code names is code's word
        return layer, wrong or list(_foreign_variables(layer, known)), []
    if TrustRecord(environ).trusts(path, layer.content):
        return layer, list(_foreign_variables(layer, known)), []
    kept, ignored = without_widening(layer.data, layer.origin, known, weaker)
    warn_ignored(path, ignored)
    return Layer(kept, path, layer.lines, layer.content), [], ignored


def without_widening(
    data: Mapping[str, Any],
    origin: Callable[[tuple[str, ...]], str],
    known: Mapping[str, type[msgspec.Struct]],
    weaker: Mapping[str, Any],
) -> tuple[dict[str, Any], list[IgnoredSetting]]:
    """What an untrusted file may say, and what of it does not count."""
    kept: dict[str, Any] = {}
    ignored: list[IgnoredSetting] = []
    for name, shape in known.items():
        table = data.get(name)
        if table is None:
            continue
        widens: _Widens | None = getattr(shape, "widens", None)
        if widens is None:
            kept[name] = table
            continue
        below = cast("Mapping[str, Any]", weaker.get(name, {}))
        narrow = _narrow(table, (), lambda path, value, w=widens, b=below: w(path, value, b))
        if narrow:
            kept[name] = narrow
        for path, _ in _leaves(table, ()):
            if not _holds(narrow, path):
                setting = ".".join((name, *path))
                ignored.append(IgnoredSetting(setting, origin((name, *path)), UNTRUSTED))
    return kept, ignored


_Widens: TypeAlias = Callable[[tuple[str, ...], object, Mapping[str, Any]], bool]


def widening_of(path: Path, environ: Mapping[str, str]) -> tuple[bytes, list[IgnoredSetting]]:
    """The content of a file, and every setting of it that needs trust."""
    known = _resolve_sections(_sections)
    layer, wrong = _read(path, known, only="packages" in path.parts)
    wrong += _foreign_variables(layer, known)
    if wrong:
        raise ConfigError("\n".join(wrong))
    user = user_file(environ)
    weaker = _read(user, known)[0].data if user is not None and user.is_file() else {}
    return layer.content, without_widening(layer.data, layer.origin, known, weaker)[1]


def _narrow(
    table: Mapping[str, Any],
    path: tuple[str, ...],
    widens: Callable[[tuple[str, ...], object], bool],
) -> dict[str, Any]:
    """The table without the settings that widen, and without tables that are empty then."""
    kept: dict[str, Any] = {}
    for key, value in table.items():
        at = (*path, key)
        if widens(at, value):
            continue
        if isinstance(value, dict) and value:
            value = _narrow(cast("dict[str, Any]", value), at, widens)
            if not value:
                continue
        kept[key] = value
    return kept


def _foreign_variables(layer: Layer, known: Mapping[str, type[msgspec.Struct]]) -> Iterator[str]:
    """What even a trusted file of a project may not say."""
    for name, shape in known.items():
        check_project: Callable[[Mapping[str, Any]], Iterator[tuple[tuple[str, ...], str]]] | None
        check_project = getattr(shape, "project_problems", None)
        table = layer.data.get(name)
        if check_project is not None and isinstance(table, dict):
            for path, problem in check_project(cast("dict[str, Any]", table)):
                where = (name, *path)
                yield f"{layer.origin(where)}: {'.'.join(where)}: {problem}"


_warned: set[tuple[str, ...]] = set()


def warn_ignored(path: Path, ignored: Iterable[IgnoredSetting]) -> None:
    """Say once what does not count: nobody should have to look for it."""
    several = tuple(each.setting or each.reason for each in ignored)
    if several and (str(path), *several) not in _warned:
        _warned.add((str(path), *several))
        what = ", ".join(each for each in several[:6]) + (", …" if len(several) > 6 else "")
        if any(each.setting for each in ignored):
            _log.warning("%s: ignored until you trust the file (windlass trust): %s", path, what)
        else:
            _log.warning("%s: ignored: %s", path, what)


_log = logging.getLogger("windlass")


# --------------------------------------------------------------------------- sources


class Layer:
    """One source of values: a file with its lines, or the environment with its names."""

    def __init__(
        self,
        data: dict[str, Any],
        file: Path | None = None,
        lines: Lines | None = None,
        content: bytes = b"",
    ) -> None:
        self.data, self.file, self.lines, self.content = data, file, lines, content

    def origin(self, path: tuple[str, ...]) -> str:
        """Where this layer says so."""
        if self.lines is None:
            return f"environment {_variable(path[0], path[1])}"
        return f"{self.file}{self.lines.at(path)}"


class Document:
    """Tables that were checked, as plain data: `read_file(path, Shape).where("a", "b")`."""

    def __init__(self, data: dict[str, Any], where: Callable[[tuple[str, ...]], str]) -> None:
        self.data, self._where = data, where

    def holds(self, *path: str) -> bool:
        """Whether it says something there."""
        return _holds(self.data, path)

    def where(self, *path: str) -> str:
        """The file and line that say so, or whatever names the source."""
        return self._where(path)


Layout: TypeAlias = type[msgspec.Struct] | Mapping[str, type[msgspec.Struct]]


def read_file(path: Path, layout: Layout) -> Document:
    """A file of tables beside `windlass.toml`. Raises `ConfigError` with every problem it has.

    The layout is the shape of the whole, or the shapes of some sections; then others are passed over.
    """
    content, problem = _content(path)
    text, problem = _text(content, path) if not problem else ("", problem)
    if problem:
        raise ConfigError(problem)
    return read_text(text, str(path), layout)


def read_package(
    path: Path, layout: Mapping[str, type[msgspec.Struct]], config: Config
) -> Document:
    """A file that a package put into the project's folder: as far as it counts without trust."""
    if problem := owner_problem(path):
        ignored = [IgnoredSetting("", str(path), problem)]
        config.ignored += ignored
        warn_ignored(path, ignored)
        return Document({}, lambda _path: str(path))
    layer, wrong = _read(path, layout, only=True)
    if TrustRecord(config.environ).trusts(path, layer.content):
        wrong = wrong or list(_foreign_variables(layer, layout))
        kept = layer.data
    else:
        weaker = config.document(*layout).data
        kept, ignored = without_widening(layer.data, layer.origin, layout, weaker)
        config.ignored += ignored
        warn_ignored(path, ignored)
    if wrong:
        raise ConfigError("\n".join(wrong))
    return Document(kept, layer.origin)


def read_text(text: str, label: str, layout: Layout) -> Document:
    """The same of TOML in hand; `label` says in errors where it came from."""
    data, problem = parse(text, label)
    if problem:
        raise ConfigError(problem)
    lines = Lines(text)
    return check_document(data, lambda path: f"{label}{lines.at(path)}", layout)


def check_document(
    data: dict[str, Any], where: Callable[[tuple[str, ...]], str], layout: Layout
) -> Document:
    """Tables in hand, held against their layout; raises `ConfigError` with every problem."""
    if isinstance(layout, Mapping):
        data = {name: data[name] for name in layout if name in data}
        found = list(_wrong(data, layout))
    else:
        found = [
            (path, f"{'.'.join(path)}{problem}") for path, problem in problems_of(data, layout, ())
        ]
    if found:
        raise ConfigError("\n".join(f"{where(path)}: {problem}" for path, problem in found))
    return Document(data, where)


def _content(path: Path) -> tuple[bytes, str]:
    """What the file holds, or what is wrong with it."""
    try:
        return read_regular(path, LARGEST), ""
    except OSError as error:
        return b"", f"{path}: it cannot be read: {error.strerror}"


def _text(content: bytes, path: Path) -> tuple[str, str]:
    try:
        return content.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        return "", f"{path}: it is not UTF-8 text (byte {error.start})"


def parse(text: str, label: str) -> tuple[dict[str, Any], str]:
    """The tables of the text, or what is wrong with it: `parse("[store]", "windlass.toml")`."""
    if _LONG_KEY.search(text):  # the parser's time grows with the square of its parts
        return {}, f"{label}: a key has more than {DEEPEST_KEY} parts"
    try:
        return tomllib.loads(text), ""
    except RecursionError:
        return {}, f"{label}: it is nested too deep"
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        line = f":{place[1]}" if place and place[1] else ""
        words = str(error).replace(place[0], "") if place and place[1] else str(error)
        return {}, f"{label}{line}: it is not TOML: {words}"


_LONG_KEY = re.compile(
    r"""(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    f"{{{DEEPEST_KEY}}}"
)


def _read(
    path: Path, known: Mapping[str, type[msgspec.Struct]], *, only: bool = False
) -> tuple[Layer, list[str]]:
    """The file, and what is wrong with it; with `only` sections that are not known are passed over."""
    content, problem = _content(path)
    text, problem = _text(content, path) if not problem else ("", problem)
    data, problem = parse(text, str(path)) if not problem else ({}, problem)
    if problem:
        return Layer({}, path, Lines(""), content), [problem]
    if only:
        data = {name: data[name] for name in known if name in data}
    lines = Lines(text)
    found = [
        (where, f"{path}{lines.at(where)}: {problem}") for where, problem in _wrong(data, known)
    ]
    found.sort(key=lambda each: int(lines.at(each[0])[1:] or 0))
    return Layer(data, path, lines, content), [problem for _, problem in found]


def _wrong(
    data: dict[str, Any], known: Mapping[str, type[msgspec.Struct]]
) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, value in data.items():
        if name not in known:
            what = f"[{name}] is no section" if isinstance(value, dict) else f"{name} is no section"
            yield (name,), f"{what}{nearest(name, known)}{choice(known)}"
        elif not isinstance(value, dict):
            yield (name,), f"{name}: expected the table [{name}], got {type(value).__name__}"
        else:
            for path, problem in problems_of(value, known[name], (name,)):
                yield path, f"{'.'.join(path)}{problem}"


def _read_environment(
    environ: Mapping[str, str], known: Mapping[str, type[msgspec.Struct]]
) -> tuple[Layer, list[str]]:
    data: dict[str, Any] = {}
    problems: list[str] = []
    for name, shape in known.items():
        fields = {_variable(name, f.encode_name): f for f in msgspec.structs.fields(shape)}
        for variable in sorted(environ.keys() & fields.keys()):
            field, text = fields[variable], environ[variable]
            try:
                data.setdefault(name, {})[field.encode_name] = _from_text(text, field.type)
            except msgspec.ValidationError as error:
                given = render_value((field.encode_name,), text)
                problems.append(f"environment {variable}: {say(error, field.type)}{given}")
        prefix = _variable(name, "")
        keys = [variable.removeprefix(prefix) for variable in fields]
        for variable in sorted(environ.keys() - fields.keys()):
            # A name nobody knows may be another program's; one that is nearly right is a mistake.
            if variable.startswith(prefix):
                close = nearest(variable.removeprefix(prefix), keys).replace("'", f"'{prefix}", 1)
                problems += [f"environment {variable} is no setting{close}"] if close else []
    return Layer(data), problems


def _from_text(text: str, shape: Any) -> Any:
    """A variable's text as plain data: text if text fits, else a number, a flag, or JSON."""
    try:
        convert(text, shape)
        return text
    except msgspec.ValidationError as error:
        wrong = error
    try:
        return msgspec.to_builtins(msgspec.convert(text, shape, strict=False))
    except msgspec.ValidationError:
        pass
    try:
        value = msgspec.json.decode(text)
        convert(value, shape)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        raise wrong from None
    return value


def _variable(name: str, key: str) -> str:
    return f"WINDLASS_{name}_{key}".upper().replace("-", "_")


# --------------------------------------------------------------------------- shapes


def _must_have_defaults(shape: type[msgspec.Struct]) -> None:
    for field in msgspec.structs.fields(shape):
        if field.required:
            raise ConfigError(
                f"{shape.__name__}.{field.name} needs a default to be a section's key"
            )


def _resolve_sections(
    sections: Mapping[str, type[msgspec.Struct] | str],
) -> dict[str, type[msgspec.Struct]]:
    shapes: dict[str, type[msgspec.Struct]] = {}
    for name, shape in list(sections.items()):
        if isinstance(shape, str):
            module, _, attribute = shape.partition(":")
            shape = cast(
                "type[msgspec.Struct]", getattr(importlib.import_module(module), attribute)
            )
            _must_have_defaults(shape)
        shapes[name] = shape
    return shapes


def _shape_path(shape: type[msgspec.Struct] | str) -> str:
    return shape if isinstance(shape, str) else f"{shape.__module__}:{shape.__qualname__}"


# --------------------------------------------------------------------------- values


def _merge(weaker: dict[str, Any], stronger: dict[str, Any]) -> dict[str, Any]:
    merged = dict(weaker)
    for key, value in stronger.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            value = _merge(cast("dict[str, Any]", below), cast("dict[str, Any]", value))
        merged[key] = value
    return merged


def _holds(data: Any, path: tuple[str, ...]) -> bool:
    """Does the data say something at this path, or at a value above it that is no table?"""
    for key in path:
        if not isinstance(data, dict):
            return True
        if key not in data:
            return False
        data = cast("dict[str, Any]", data)[key]
    return True


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            yield from _leaves(getattr(value, field.name), (*path, field.encode_name))
    elif isinstance(value, dict) and value:
        for key, inner in cast("dict[Any, Any]", value).items():
            yield from _leaves(inner, (*path, str(key)))
    else:
        yield path, value


def _mask_value(path: tuple[str, ...], value: Any) -> Any:
    if value and is_secret(path, value):
        return MASK
    return mask_url(value) if isinstance(value, str) else value

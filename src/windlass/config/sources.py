"""Sources of settings: TOML files and the environment, checked against their sections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from windlass.config.lines import Lines
from windlass.config.shapes import choice, convert, problems_of, render_value, say
from windlass.config.values import holds
from windlass.errors import ConfigError, nearest
from windlass.files import read_regular
from windlass.json_types import JsonObject, is_object

LARGEST = 1_000_000  # bytes of a file of settings
DEEPEST_KEY = 32  # parts of a dotted key


class Layer:
    """One source of values: a file with its lines, or the environment with its names."""

    def __init__(
        self,
        data: JsonObject,
        file: Path | None = None,
        lines: Lines | None = None,
        content: bytes = b"",
        variables: Mapping[tuple[str, ...], str] | None = None,
    ) -> None:
        self.data, self.file, self.lines, self.content = data, file, lines, content
        self._variables = variables or {}  # settings that another variable gives than their own

    def origin(self, path: tuple[str, ...]) -> str:
        """Return where this layer sets a value."""
        if self.lines is None:
            variable = self._variables.get(path[:2]) or to_variable(path[0], path[1])
            return f"environment {variable}"
        return f"{self.file}{self.lines.at(path)}"


class Document:
    """Tables that were checked, as plain data: `read_file(path, Shape).where("a", "b")`."""

    def __init__(self, data: JsonObject, where: Callable[[tuple[str, ...]], str]) -> None:
        self.data, self._where = data, where

    def holds(self, *path: str) -> bool:
        """Check whether the document has a value there."""
        return holds(self.data, path)

    def where(self, *path: str) -> str:
        """Return the file and line of a value, or the name of the source."""
        return self._where(path)


#: A check of a section's values: problems, and the paths of what is wrong.
_Problems: TypeAlias = Callable[[JsonObject], Iterator[tuple[tuple[str, ...], str]]]
#: Settings that variables with other names give: the key, the variable and the value.
_ReadVariables: TypeAlias = Callable[[Mapping[str, str]], Iterator[tuple[str, str, str]]]
Layout: TypeAlias = type[msgspec.Struct] | Mapping[str, type[msgspec.Struct]]


def read_file(path: Path, layout: Layout) -> Document:
    """Read a file of tables beside `windlass.toml`, or raise `ConfigError`.

    The layout is the shape of the whole, or the shapes of some sections; then others are passed over.
    """
    content, problem = _content(path)
    text, problem = _text(content, path) if not problem else ("", problem)
    if problem:
        raise ConfigError(problem)
    return read_text(text, str(path), layout)


def read_text(text: str, label: str, layout: Layout) -> Document:
    """Read TOML from a text; `label` names its source in errors."""
    data, problem = parse(text, label)
    if problem:
        raise ConfigError(problem)
    lines = Lines(text)
    return check_document(data, lambda path: f"{label}{lines.at(path)}", layout)


def check_document(
    data: JsonObject, where: Callable[[tuple[str, ...]], str], layout: Layout
) -> Document:
    """Check tables against their layout, or raise `ConfigError` with every problem."""
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
    """Return the content of the file, or what is wrong with it."""
    try:
        return read_regular(path, LARGEST), ""
    except OSError as error:
        return b"", f"{path}: it cannot be read: {error.strerror}"


def _text(content: bytes, path: Path) -> tuple[str, str]:
    try:
        return content.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        return "", f"{path}: it is not UTF-8 text (byte {error.start})"


def parse(text: str, label: str) -> tuple[JsonObject, str]:
    """Parse TOML, or return what is wrong: `parse("[store]", "windlass.toml")`."""
    if re.search(_LONG_KEY, text):  # the parser's time grows with the square of its parts
        return {}, f"{label}: a key has more than {DEEPEST_KEY} parts"
    import tomllib  # most projects have no file

    try:
        return tomllib.loads(text), ""
    except RecursionError:
        return {}, f"{label}: it is nested too deep"
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        line = f":{place[1]}" if place and place[1] else ""
        words = str(error).replace(place[0], "") if place and place[1] else str(error)
        return {}, f"{label}{line}: it is not TOML: {words}"


_LONG_KEY = (
    r"""(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    f"{{{DEEPEST_KEY}}}"
)


def read_layer(
    path: Path, known: Mapping[str, type[msgspec.Struct]], *, only: bool = False
) -> tuple[Layer, list[str]]:
    """Read a file and its problems; with `only` unknown sections are skipped."""
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
    data: JsonObject, known: Mapping[str, type[msgspec.Struct]]
) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, value in data.items():
        if name not in known:
            what = f"[{name}] is no section" if isinstance(value, dict) else f"{name} is no section"
            hint = _find_elsewhere(name, name, known) or nearest(name, known)
            yield (name,), f"{what}{hint}{choice(known)}"
        elif not is_object(value):
            yield (name,), f"{name}: expected the table [{name}], got {type(value).__name__}"
        else:
            found = problems_of(value, known[name], (name,))
            for path, problem in found:
                why = _explain_key(path, known)
                yield path, f"{'.'.join(path)}{f' is no setting{why}' if why else problem}"
            if (check := _value_check(known[name])) is not None:
                wrong = {path[1] for path, _ in found if len(path) > 1}
                right = {key: value[key] for key in value if key not in wrong}
                yield from (((name, *path), problem) for path, problem in check(right))


def _value_check(shape: type[msgspec.Struct]) -> _Problems | None:
    """Return what looks at values of a section that have the right types, if it has such a check."""
    return getattr(shape, "value_problems", None)


def _explain_key(path: tuple[str, ...], known: Mapping[str, type[msgspec.Struct]]) -> str:
    """Say where a key belongs that is no key of its section."""
    if len(path) != 2 or path[1] in _keys_of(known[path[0]]):
        return ""
    explain: Callable[[str], str] | None = getattr(known[path[0]], "explain_key", None)
    why = "" if explain is None else explain(path[1])
    return why or _find_elsewhere(path[1], path[0], known)


def _find_elsewhere(key: str, section: str, known: Mapping[str, type[msgspec.Struct]]) -> str:
    homes = [f"[{name}]" for name in known if name != section and key in _keys_of(known[name])]
    return f"; it is a key of {' and '.join(homes)}" if homes else ""


def _keys_of(shape: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(shape)}


def read_environment(
    environ: Mapping[str, str], known: Mapping[str, type[msgspec.Struct]]
) -> tuple[Layer, list[str]]:
    """Read the settings in variables of the environment, and their problems."""
    data: JsonObject = {}
    problems: list[str] = []
    variables: dict[tuple[str, ...], str] = {}
    for name, shape in known.items():
        read_variables: _ReadVariables | None = getattr(shape, "read_variables", None)
        for key, variable, value in read_variables(environ) if read_variables is not None else ():
            data.setdefault(name, {})[key] = value
            variables[name, key] = variable
        prefix = to_variable(name, "")
        if not any([variable.startswith(prefix) for variable in environ]):
            continue  # the types of its fields need not be looked at
        fields = {to_variable(name, f.encode_name): f for f in msgspec.structs.fields(shape)}
        for variable in sorted(environ.keys() & fields.keys()):
            field, text = fields[variable], environ[variable]
            if (name, field.encode_name) in variables:
                continue
            try:
                data.setdefault(name, {})[field.encode_name] = _from_text(text, field.type)
            except msgspec.ValidationError as error:
                given = render_value((field.encode_name,), text)
                problems.append(f"environment {variable}: {say(error, field.type)}{given}")
        check = _value_check(shape)
        for path, problem in check(data[name]) if check is not None and name in data else ():
            problems.append(f"environment {to_variable(name, path[0])}: {problem}")
        keys = [variable.removeprefix(prefix) for variable in fields]
        for variable in sorted(environ.keys() - fields.keys()):
            # A name nobody knows may be another program's; one that is nearly right is a mistake.
            if variable.startswith(prefix):
                close = nearest(variable.removeprefix(prefix), keys).replace("'", f"'{prefix}", 1)
                problems += [f"environment {variable} is no setting{close}"] if close else []
    return Layer(data, variables=variables), problems


def _from_text(text: str, shape: Any) -> Any:
    """Convert a variable's text: text if it fits, else a number, a flag, or JSON."""
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


def to_variable(name: str, key: str) -> str:
    """Return the name of the variable that gives a setting."""
    return f"WINDLASS_{name}_{key}".upper().replace("-", "_")

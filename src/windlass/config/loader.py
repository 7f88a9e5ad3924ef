"""The one loader for `windlass.toml`: typed sections, and an origin for every value.

Whoever owns a section gives it its shape; this file knows only their names. Nothing is read at
import. From strongest to weakest: the environment (`WINDLASS_<SECTION>_<KEY>`), the project's file
(the nearest upward), the user's file, and what is built in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from windlass.config.project import (
    find_foreign_variables,
    read_project,
    warn_ignored,
    without_widening,
)
from windlass.config.sections import registered_sections, resolve_sections
from windlass.config.shapes import convert, is_secret, say
from windlass.config.sources import Document, Layer, read_environment, read_layer
from windlass.config.trust import IgnoredSetting, TrustRecord, user_folder
from windlass.config.values import holds, leaves, merge
from windlass.errors import ConfigError
from windlass.files import owner_problem
from windlass.json_types import JsonObject
from windlass.redaction.redactor import Secret, mask_url, secrets_in

S = TypeVar("S", bound=msgspec.Struct)

FILE = "windlass.toml"
BUILT_IN = "built-in"
MASK = "****"
# a table that nobody filled is not worth a line
_NOTHING: tuple[Any, ...] = ({}, [], msgspec.UNSET)


class Setting(msgspec.Struct, frozen=True):
    """One effective value and where it came from; a secret is masked."""

    section: str
    key: str  # dotted where the value is inside a table
    value: object
    origin: str  # path:line, environment NAME, or built-in


class Config:
    """The loaded configuration: `config.get(StoreConfig).path`. Made by `load`."""

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
        """Return the section of this type, with every source merged into its defaults."""
        made = self._made.get(shape)
        if isinstance(made, shape):
            return made
        name = self._name(shape)
        try:
            given = self._merge_layers(name)
            # nobody says anything: its types need not be looked at
            made = convert(given, shape) if given else shape()
        except msgspec.ValidationError as error:  # each source is right, together they are not
            raise ConfigError(f"[{name}]: {say(error)}") from None
        self._made[shape] = made
        return made

    def explain(self) -> list[Setting]:
        """List every effective value of every section, and where it came from."""
        return [
            Setting(name, ".".join(path), _mask_value(path, value), origin)
            for name, shape in resolve_sections(self._sections).items()
            for path, value in leaves(self.get(shape), ())
            if (origin := self._origin((name, *path))) != BUILT_IN or value not in _NOTHING
        ]

    def secrets(self) -> tuple[Secret, ...]:
        """Return every secret in the configuration, for the redactor."""
        found: list[Secret] = []
        for shape in resolve_sections(self._sections).values():
            for path, value in leaves(self.get(shape), ()):
                if isinstance(value, Secret):
                    found.append(value)
                elif isinstance(value, str):
                    found += map(Secret, secrets_in(path[-1], value))
        return tuple(found)

    def folder(self, shape: type[msgspec.Struct], key: str) -> Path:
        """Return the folder that a relative path in this value is relative to: its file's."""
        for layer in self._layers:
            if layer.file and holds(layer.data, (self._name(shape), *key.split("."))):
                return layer.file.parent
        return self.start

    def origin(self, *path: str) -> str:
        """Return where a setting comes from: `config.origin("llm", "model")`."""
        return self._origin(path)

    def document(self, *names: str) -> Document:
        """Return the raw tables of some sections, merged, with their origins."""
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
        for name, known in resolve_sections({**registered_sections(), **self._sections}).items():
            if known is shape:
                return name
        raise ConfigError(
            f"{shape.__name__} is no section of {FILE}; register it with config.sections.register"
        )

    def _merge_layers(self, name: str) -> JsonObject:
        merged: JsonObject = {}
        for layer in reversed(self._layers):
            merged = merge(merged, layer.data.get(name, {}))
        return merged

    def _origin(self, path: tuple[str, ...]) -> str:
        for layer in self._layers:
            if holds(layer.data, path):
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
    known = resolve_sections(registered_sections() if sections is None else sections)
    folder = Path(start_dir) if start_dir is not None else Path.cwd()
    if file is not None and not Path(file).is_file():
        raise ConfigError(f"{file}: there is no such file")
    project = Path(file).absolute() if file is not None else find(folder)
    user = user_file(environ)
    if user and project and user.is_file() and user.samefile(project):
        project = None if file is None else project  # by whatever name, it is the user's own
        user = user if file is None else None
    layer, problems = read_environment(environ, known)
    layers, ignored = [layer], list[IgnoredSetting]()
    mine: Layer | None = None
    if user is not None and user.is_file():
        mine, wrong = read_layer(user, known)
        problems += [f"{user}: {problem}"] if (problem := owner_problem(user)) else wrong
    if project is not None:
        weaker = {} if mine is None else mine.data
        source, wrong, ignored = read_project(project, known, environ, weaker, file is not None)
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
    """List every problem of one file, as `path:line: what is wrong`."""
    if not Path(path).is_file():
        return [f"{path}: there is no such file"]
    return read_layer(Path(path), resolve_sections(registered_sections()))[1]


def find(start_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Find the nearest `windlass.toml`, from a folder upward."""
    start = (Path(start_dir) if start_dir is not None else Path.cwd()).absolute()
    return next((up / FILE for up in (start, *start.parents) if (up / FILE).is_file()), None)


def user_file(env: Mapping[str, str] | None = None) -> Path | None:
    """Return the path of the user's own file, whether or not it exists."""
    folder = user_folder(os.environ if env is None else env)
    return None if folder is None else folder / FILE


def read_package(
    path: Path, layout: Mapping[str, type[msgspec.Struct]], config: Config
) -> Document:
    """Read a package's file in the project's folder, without what needs trust."""
    if problem := owner_problem(path):
        ignored = [IgnoredSetting("", str(path), problem)]
        config.ignored += ignored
        warn_ignored(path, ignored)
        return Document({}, lambda _path: str(path))
    layer, wrong = read_layer(path, layout, only=True)
    if TrustRecord(config.environ).trusts(path, layer.content):
        wrong = wrong or list(find_foreign_variables(layer, layout))
        kept = layer.data
    else:
        weaker = config.document(*layout).data
        kept, ignored = without_widening(layer.data, layer.origin, layout, weaker)
        config.ignored += ignored
        warn_ignored(path, ignored)
    if wrong:
        raise ConfigError("\n".join(wrong))
    return Document(kept, layer.origin)


def widening_of(path: Path, environ: Mapping[str, str]) -> tuple[bytes, list[IgnoredSetting]]:
    """Return the content of a file, and every setting of it that needs trust."""
    known = resolve_sections(registered_sections())
    layer, wrong = read_layer(path, known, only="packages" in path.parts)
    wrong += find_foreign_variables(layer, known)
    if wrong:
        raise ConfigError("\n".join(wrong))
    user = user_file(environ)
    weaker = read_layer(user, known)[0].data if user is not None and user.is_file() else {}
    return layer.content, without_widening(layer.data, layer.origin, known, weaker)[1]


def _mask_value(path: tuple[str, ...], value: object) -> object:
    if value and is_secret(path, value):
        return MASK
    return mask_url(value) if isinstance(value, str) else value

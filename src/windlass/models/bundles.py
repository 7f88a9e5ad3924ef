"""Tables that come from outside the project: the user's providers file, and installed packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from windlass.config import (
    Config,
    Document,
    checked,
    read_file,
    read_package,
    read_text,
    user_file,
)
from windlass.errors import ConfigError, shown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "windlass.providers"
VARIABLE: Final = "WINDLASS_PROVIDERS_CONFIG"
PACKAGES: Final = Path(".windlass", "packages")
MOST_PACKAGES: Final = 100  # a folder can be a download, and every command reads them all

Layouts = Mapping[str, type[msgspec.Struct]]


def installed(config: Config, layouts: Layouts) -> Iterator[Document]:
    """The user's providers file, then what packages bring, each laid over the one before."""
    if (path := _providers_file(config)) is not None:
        told = read_file(path, layouts["llm"])
        yield Document({"llm": told.data}, lambda at: told.where(*at[1:]))
    from importlib.metadata import entry_points  # reads mail's modules: only for who asks

    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        yield _from_point(point, layouts)
    for path in package_files(config.project.parent if config.project else config.start):
        yield read_package(path, layouts, config)


def package_files(folder: Path) -> list[Path]:
    """The files that packages put into the folder of a project, in the order of their names."""
    packages = folder / PACKAGES
    found = list(islice(packages.glob("*/windlass.toml"), MOST_PACKAGES + 1))
    if len(found) > MOST_PACKAGES:
        raise ConfigError(f"{packages}: it holds more than {MOST_PACKAGES} packages")
    return sorted(found)


def _providers_file(config: Config) -> Path | None:
    named = config.environ.get(VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise ConfigError(f"{VARIABLE}: {path}: there is no such file")
        return path
    home = user_file(config.environ)
    path = home.with_name("providers.toml") if home is not None else None
    return path if path is not None and path.is_file() else None


def _from_point(point: EntryPoint, layouts: Layouts) -> Document:
    """What an entry point gives: a table, TOML, the path of a file, or a function that gives one."""
    owner = point.dist.name if point.dist is not None else point.value
    label = f"entry point {point.name!r} of {owner}"
    try:
        told: Any = point.load()
        told = told() if callable(told) else told
    except Exception as error:
        raise ConfigError(f"{label}: it cannot be loaded: {error}") from error
    if isinstance(told, Path):
        return read_file(told, layouts)
    if isinstance(told, str):
        return read_text(told, label, layouts)
    if isinstance(told, dict):
        return checked(cast("dict[str, Any]", told), lambda _at: label, layouts)
    raise ConfigError(f"{label}: it gives {shown(told)}, not a table, TOML or a path")

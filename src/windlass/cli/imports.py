"""Objects and texts that options name: `--tools module:function`, and files."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windlass.errors import ConfigError, nearest
from windlass.files import read_regular
from windlass.json_types import is_sequence
from windlass.toolbox.names import BUILTIN_NAMES
from windlass.tools.function import as_tools
from windlass.tools.registry import ToolRegistry
from windlass.tools.tool import Tool


def load_tools(paths: Sequence[str], option: str = "--tools") -> list[Any]:
    """Load the tools at `module:name`, which may be one, a list of them, or a registry.

    The name of a built-in tool stays a name.
    """
    if not paths:
        return []
    found: list[Any] = []
    named = [path for path in paths if path in BUILTIN_NAMES]
    for path in paths:
        if path in BUILTIN_NAMES:
            continue
        thing = import_object(path, option)
        many = is_sequence(thing) or isinstance(thing, ToolRegistry)
        found += thing if many else [thing]
    return [*as_tools(found), *named]


def build_tools(paths: Sequence[str], option: str = "--tools") -> list[Tool]:
    """Load the tools at `module:name`, and build those that are named, for the current folder."""
    loaded = load_tools(paths, option)
    if not any([isinstance(one, str) for one in loaded]):
        return loaded
    # it loads all families of tools, which most command lines do without
    return importlib.import_module("windlass.toolbox.registry").replace_names(loaded, {})


def import_object(path: str, option: str) -> Any:
    """Import the object at `module:name`; the current folder comes after all others.

    A folder can be a download: a file in it must not stand in for an installed package. Where Python
    runs in safe-path mode (`PYTHONSAFEPATH=1`) the folder does not count at all.
    """
    module_name, _, inside = path.partition(":")
    if not module_name or not inside:
        raise ConfigError(f"{option} {path!r}: write it as module:function")
    here = str(Path.cwd())
    if here not in sys.path and not sys.flags.safe_path:
        sys.path.append(here)
    importlib.invalidate_caches()
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{option} {path}: there is no module {error.name!r} here or installed"
            ) from None
        raise ConfigError(f"{option} {path}: {module_name} needs {error.name!r}") from error
    except Exception as error:
        raise ConfigError(
            f"{option} {path}: importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error
    for step in inside.split("."):
        if not hasattr(found, step):
            names = [name for name in dir(found) if not name.startswith("_")]
            raise ConfigError(
                f"{option} {path}: {module_name} has no {step!r}{nearest(step, names)}"
            )
        found = getattr(found, step)
    return found


def read_system(given: str | None) -> str | None:
    """Return the system prompt: the text itself, or the content of `@file`."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return read_regular(given[1:]).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"--system {given}: {why}") from None

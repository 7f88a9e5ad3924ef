"""The capability row in `windlass.toml`: written between marks, so that it can be updated.

Only what stands between the doctor's own marks is ever replaced, and only while it is as the doctor
wrote it, by a digest in the first mark.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from windlass.errors import ConfigError
from windlass.files import read_regular, write_private
from windlass.models.registry.capabilities import glob_problem, matches

_SAFE = re.compile(r"[A-Za-z0-9_-]+\Z")


def as_toml(provider: str, model: str, row: Mapping[str, Any]) -> str:
    """Format the row for the file: `[[capabilities.provider.openai]]` and its fields."""
    if problem := glob_problem(model) or ("*" in model and "a star in it matches other models too"):
        raise ConfigError(f"no row can be about {model!r} alone: {problem}")
    head = provider if _SAFE.match(provider) else _value(provider)
    lines = [f"[[capabilities.provider.{head}]]", f"model_match = {_value(model)}"]
    lines += [f"{key} = {_value(value)}" for key, value in row.items()]
    return "\n".join(lines) + "\n"


def write(path: Path, provider: str, model: str, row: Mapping[str, Any]) -> str:
    """Write the row into the file; return what was done. The user's own text stays.

    The file is replaced whole or not at all, and only by what is still TOML.
    """
    old = _read(path)
    new, done = merge_row(old, provider, model, row, path)
    try:
        tomllib.loads(new)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path}: with the row in it the file would not be TOML ({error}); add the row by hand"
        ) from None
    if new != old:
        _replace(path, new)
    return done


def merge_row(
    text: str, provider: str, model: str, row: Mapping[str, Any], path: Path
) -> tuple[str, str]:
    """Insert the row into the text; return also what was done: added, replaced or unchanged."""
    newline = "\r\n" if "\r\n" in text else "\n"
    name = f"{provider}/{_printable_name(model)}"
    body = as_toml(provider, model, row)
    block = _add_markers(name, body).replace("\n", newline)
    begin, end = re.escape(f"# >>> windlass models doctor: {name} ("), re.escape(_end(name))
    found = re.search(rf"^{begin}(\w+)\)\r?\n(.*?)^{end}[ \t]*(?:\r?\n|\Z)", text, re.S | re.M)
    if found is None:
        gap = "" if not text or text.endswith("\n\n") else newline
        ending = "" if not text or text.endswith("\n") else newline
        return f"{text}{ending}{gap}{block}", "added"
    if found[1] != _digest(found[2]):
        line = text.count("\n", 0, found.start()) + 1
        raise ConfigError(
            f"{path}:{line}: the doctor's row was changed by hand; delete it, or take its marks away "
            "to keep it, and write again"
        )
    new = text[: found.start()] + block + text[found.end() :]
    return new, "unchanged" if new == text else "replaced"


def find_shadowing_glob(path: Path, provider: str, model: str) -> str | None:
    """Return the glob of a row above the doctor's that covers the same model and so wins."""
    rows = tomllib.loads(_read(path)).get("capabilities", {}).get("provider", {}).get(provider, [])
    for row in rows:
        glob = str(row.get("model_match", "")).lower()
        if glob == model.lower():
            return None
        if matches(glob, model.lower()):
            return str(row["model_match"])
    return None


def _add_markers(name: str, body: str) -> str:
    return f"# >>> windlass models doctor: {name} ({_digest(body)})\n{body}{_end(name)}\n"


def _end(name: str) -> str:
    return f"# <<< windlass models doctor: {name}"


def _digest(body: str) -> str:
    return sha256(body.replace("\r\n", "\n").encode()).hexdigest()[:12]


def _printable_name(model: str) -> str:
    """Replace characters of a model's name that may not stand in a comment."""
    return "".join(c if c.isprintable() else "?" for c in model)


def _value(value: object) -> str:
    """Format a plain value as TOML; JSON's strings, numbers and lists are TOML's too."""
    if isinstance(value, str):
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"  # pyright: ignore[reportUnknownArgumentType]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is not UTF-8 text; nothing was written") from None
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read: {error.strerror}") from None


def _replace(path: Path, text: str) -> None:
    try:
        write_private(path, text.encode(), keep_mode=True)
    except OSError as error:
        raise ConfigError(
            f"{path}: it cannot be written: {error.strerror}; print the row without --write and "
            "add it by hand"
        ) from None

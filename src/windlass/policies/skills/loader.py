"""Skills from folders: a SKILL.md in each, in the open format, and files beside it.

A skill that cannot be read is left out with a note, and the others stay. A file is only text; nothing
in it is run.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, cast

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.policies.skills import files, frontmatter
from windlass.policies.skills.globs import Glob
from windlass.policies.skills.skill import Skill, check_allowed, fits_name

LARGEST: Final = 256 * 1024  # bytes of a SKILL.md
_DEEPEST: Final = 3  # folders below the one that is given
_FOLDERS: Final = 2_000
_ENTRIES: Final = 20_000  # of one folder
_NAMES = ("SKILL.md", "skill.md")
_DESCRIPTION: Final = 1_024  # characters, by the format
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_OPEN = "name description license compatibility metadata allowed_tools".split()
_OURS = "when_to_use paths disable_model_invocation user_invocable mcp".split()


class LoadedSkills(NamedTuple):
    """The skills of a folder, and the problems found."""

    skills: list[Skill]
    problems: list[str]


def skills_in(path: str) -> LoadedSkills:
    """Load the skills of a folder of folders, or of one skill's folder."""
    if "\0" in path:
        raise ConfigError(f"skills: no folder has a name like {safe_repr(path)}")
    path = os.path.realpath(os.path.expanduser(path))
    if os.path.basename(path) in _NAMES:
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise ConfigError(f"skills: there is no folder {path}")
    found = LoadedSkills([], [])
    folders = _folders(path, found.problems)
    if not folders:
        found.problems.append(f"{path}: there is no SKILL.md in it, nor in the folders in it")
    for folder, name in folders:
        skill = _skill(folder, name, found.problems)
        if skill is not None:
            found.skills.append(skill)
    return LoadedSkills(_told_apart(found.skills, found.problems), found.problems)


def _told_apart(skills: list[Skill], problems: list[str]) -> list[Skill]:
    """Rename skills that share a name after their folders, where possible."""
    names = Counter(skill.name for skill in skills)
    renamed: list[Skill] = []
    for skill in skills:
        own = os.path.basename(skill.folder or "")
        if names[skill.name] > 1 and own != skill.name and fits_name(own) and not names[own]:
            problems.append(
                f"{skill.folder}: another skill is named {skill.name!r} too; it goes by {own!r}"
            )
            names[skill.name] -= 1
            names[own] += 1
            skill = msgspec.structs.replace(skill, name=own)
        renamed.append(skill)
    return renamed


def _folders(path: str, problems: list[str]) -> list[tuple[str, str]]:
    """List the folders with a SKILL.md by name, each with its file's name."""
    found: list[tuple[str, str]] = []
    todo, seen = [(path, 0)], 0
    while todo:
        folder, depth = todo.pop(0)
        name = next((one for one in _NAMES if os.path.lexists(os.path.join(folder, one))), None)
        if name is not None:
            found.append((folder, name))
            continue  # what is in a skill is the skill's own
        if depth >= _DEEPEST:
            continue
        try:
            with os.scandir(folder) as entries:
                inner = sorted(islice(entries, _ENTRIES), key=lambda one: one.name)
        except OSError as error:
            problems.append(f"{folder}: {error.strerror}")
            continue
        for entry in inner:
            if entry.name.startswith(".") or entry.name in ("node_modules", "__pycache__"):
                continue
            if entry.is_symlink():
                if os.path.isdir(entry.path):
                    problems.append(f"{entry.path}: a link is not followed; give its folder itself")
            elif entry.is_dir(follow_symlinks=False):
                seen += 1
                if seen > _FOLDERS:
                    problems.append(f"{path}: more than {_FOLDERS} folders; the rest is not read")
                    return found
                todo.append((entry.path, depth + 1))
    return found


def _skill(folder: str, name: str, problems: list[str]) -> Skill | None:
    """Load the skill of one folder; None if it cannot be read, with the reason noted."""
    place = os.path.join(folder, name)
    try:
        data, size = files.read(folder, name, most=LARGEST + 1)
        if size > LARGEST or len(data) > LARGEST:
            raise frontmatter.BadFrontmatter(f"it has more than {LARGEST} bytes; put more in files")
        text = files.text_of(data)
        if text is None:
            raise frontmatter.BadFrontmatter("it is not UTF-8 text")
        head, body = frontmatter.split(text)
        keys = {} if head is None else frontmatter.read(head)
    except (files.FileRefused, frontmatter.BadFrontmatter) as error:
        problems.append(f"{place}: {error}; the skill is left out")
        return None
    own: list[str] = []
    if head is None:
        own.append("it has no head with a name and a description")
    fields = _fields(keys, own)
    fields = _with_name(fields, os.path.basename(folder), own)
    if not fields.get("description"):
        own.append("it has no description; its first words are taken for one")
        fields["description"] = _first_words(body)
    elif len(fields["description"]) > _DESCRIPTION:
        own.append(f"its description has more than {_DESCRIPTION} characters")
    beside, whole = files.list_files(folder)
    if not whole:
        own.append(f"it has many files; {len(beside)} of them are listed")
    problems += [f"{place}: {one}" for one in own]
    return Skill(prompt=body.strip(), folder=folder, files=beside, **fields)


def _with_name(fields: dict[str, Any], folder: str, problems: list[str]) -> dict[str, Any]:
    given = fields.get("name")
    usual = re.sub(r'[\x00-\x1f\x7f<>"&\\]', "-", folder).strip()[:128]
    usual = usual if fits_name(usual) else "skill"
    if given is None or not fits_name(given):
        if given is not None:
            problems.append(f"{given[:80]!r} is no name for a skill; its folder's is taken")
        return {**fields, "name": usual}
    if given != folder:
        problems.append(f"it is named {given!r}, and its folder {folder!r}")
    return fields


def _first_words(body: str) -> str:
    for paragraph in re.split(r"\n\s*\n", body[:20_000]):
        lines = [line.strip() for line in paragraph.splitlines()]
        text = " ".join(line for line in lines if line and not line.startswith("#"))
        if text:
            return text[:_DESCRIPTION]
    return ""


def _fields(keys: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """Parse the known keys; all others are kept as they are."""
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in keys.items():
        field = key.replace("-", "_").lower()
        if field not in _OPEN and field not in _OURS:
            extra[key] = value
        elif value is None:
            continue
        elif field in fields:
            problems.append(f"{key!r} is there twice, in two spellings")
        else:
            read = _READ[field](value)
            if read is None:
                problems.append(f"{key} is {str(value)[:60]!r}, which makes no sense there")
                extra[key] = value
            else:
                fields[field] = read
    if "allowed_tools" in fields:
        fields["allowed_tools"] = _parse_allowed_tools(fields["allowed_tools"], problems)
    if "paths" in fields:
        fields["paths"] = _globs(fields["paths"], problems)
    for flag, closed in (("disable_model_invocation", True), ("user_invocable", False)):
        if flag not in fields and any(key.replace("-", "_").lower() == flag for key in extra):
            fields[flag] = closed  # the author wanted fewer tools, not more
    return {**fields, "extra": extra} if extra else fields


def _parse_allowed_tools(entries: tuple[str, ...], problems: list[str]) -> tuple[str, ...]:
    """Parse names of tools; of `Bash(git:*)` only the tool's name is used."""
    names: list[str] = []
    for entry in entries:
        name, _, pattern = entry.partition("(")
        if pattern:
            problems.append(f"allowed-tools: {entry!r} allows all of {name}: patterns are not read")
        try:
            names += check_allowed("allowed-tools", [name] if name else [])
        except ConfigError as error:
            problems.append(str(error))
    return tuple(dict.fromkeys(names))


def _globs(patterns: tuple[str, ...], problems: list[str]) -> tuple[str, ...]:
    fine: list[str] = []
    for pattern in patterns:
        try:
            Glob(pattern)
        except ValueError as error:
            problems.append(f"paths: {pattern[:60]!r}: {error}")
        else:
            fine.append(pattern)
    return tuple(fine)


# --------------------------------------------------------------------------- values of keys


def _text(value: Any) -> str | None:
    return value.strip() if isinstance(value, str) else None


def _flag(value: Any) -> bool | None:
    text = str(value).strip().lower()
    return True if text in _YES else False if text in _NO else None


def _map(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _several(apart: str, brackets: str = "()") -> Any:
    def read(value: Any) -> tuple[str, ...] | None:
        if isinstance(value, str):
            value = _parts(value, apart, brackets)
        if not isinstance(value, list):
            return None
        items = cast("list[Any]", value)
        if not all(isinstance(item, str) for item in items):
            return None
        return tuple(item.strip() for item in items if item.strip())

    return read


def _parts(text: str, apart: str, brackets: str) -> list[str]:
    """Split a text outside brackets: `Bash(git add:*)` is one part."""
    parts, depth = [""], 0
    for char in text:
        depth = max(0, depth + (char == brackets[0]) - (char == brackets[1]))
        if char in apart and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


_READ: dict[str, Any] = {
    "name": _text,
    "description": _text,
    "license": _text,
    "compatibility": _text,
    "metadata": _map,
    "allowed_tools": _several(" ,\n\t"),
    "when_to_use": _text,
    "paths": _several(",\n", "{}"),
    "disable_model_invocation": _flag,
    "user_invocable": _flag,
    "mcp": _several(" ,\n\t"),
}

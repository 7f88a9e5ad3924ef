"""Files of a skill: the list of them, and a tool that reads one."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Sequence
from typing import Any, Final

from windlass.errors import nearest
from windlass.policies.skills.skill import Skill, SkillRegistry
from windlass.tools.tool import Retry, Tool

NAMES: Final = ("read_skill_file", "read_file_of_skill")  # the second where the first is taken
LISTED: Final = 500  # files of a skill that are known by name
_LOOKED_AT: Final = 5_000  # entries of a folder, before it is too much
_DEEPEST: Final = 8
_PAGE: Final = 32_000  # bytes in one answer
_SHOWN: Final = 100  # names in one answer
_IGNORED = frozenset({"SKILL.md", "skill.md", "__pycache__", "node_modules"})
_NO_LINKS: Final = getattr(os, "O_NOFOLLOW", 0)
_READ: Final = os.O_RDONLY | _NO_LINKS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_ENTER: Final = os.O_RDONLY | _NO_LINKS | getattr(os, "O_DIRECTORY", 0)
_BY_STEPS: Final = os.open in os.supports_dir_fd and bool(_NO_LINKS)

_DESCRIPTION = (
    "Read a file that belongs to an active skill. `path` is one of the paths that the skill lists; "
    "a folder's path lists it. `start` goes on in a long file."
)
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "skill": {"type": "string", "description": "The skill's name."},
        "path": {"type": "string", "description": "Such as references/guide.md"},
        "start": {"type": "integer", "minimum": 0, "description": "The byte to begin at."},
    },
    "required": ["skill", "path"],
    "additionalProperties": False,
}


class FileRefused(Exception):
    """A refusal to read a file, with a message for the model."""


def list_files(folder: str) -> tuple[tuple[str, ...], bool]:
    """List the files in a folder, and whether these are all. No link is followed."""
    found: list[str] = []
    todo, seen, whole = [("", 0)], 0, True
    while todo:
        place, depth = todo.pop(0)
        try:
            with os.scandir(os.path.join(folder, place)) as entries:
                found_entries: list[os.DirEntry[str]] = []
                for entry in entries:
                    seen += 1
                    if seen > _LOOKED_AT:
                        whole = False
                        break
                    found_entries.append(entry)
        except OSError:
            continue
        for entry in sorted(found_entries, key=lambda one: one.name):
            name = entry.name
            if name in _IGNORED or name.startswith(".") or not name.isprintable():
                continue
            path = f"{place}{name}"
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEEPEST and whole:
                    todo.append((f"{path}/", depth + 1))
            elif entry.is_file(follow_symlinks=False):
                found.append(path)
    return tuple(found[:LISTED]), whole and len(found) <= LISTED


def read(folder: str, path: str, start: int = 0, most: int = _PAGE) -> tuple[bytes, int]:
    """Read part of a file in the folder; return also the size of the file.

    The way there is walked step by step, and a step over a link or out of the folder is refused.
    """
    parts = path.replace("\\", "/").split("/")
    if path.startswith("/") or os.path.isabs(path) or "\0" in path or ".." in parts:
        raise FileRefused(f"{path[:200]!r} is not a path within the skill's folder")
    parts = [part for part in parts if part not in ("", ".")]
    if not parts:
        raise FileRefused("give the path of a file")
    try:
        handle = _open_file(folder, parts)
    except FileNotFoundError:
        raise FileRefused(f"there is no file {path[:200]!r}") from None
    except (OSError, ValueError):
        raise FileRefused(f"{path[:200]!r} cannot be read: it is a link, or no file") from None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise FileRefused(f"{path[:200]!r} is no file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            file.seek(start)
            return file.read(most), about.st_size
    finally:
        os.close(handle)


def _open_file(folder: str, parts: Sequence[str]) -> int:
    if not _BY_STEPS:
        return _opened_whole(folder, parts)
    place = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        for part in parts[:-1]:
            inner = os.open(part, _ENTER, dir_fd=place)
            os.close(place)
            place = inner
        return os.open(parts[-1], _READ, dir_fd=place)
    finally:
        os.close(place)


def _opened_whole(folder: str, parts: Sequence[str]) -> int:
    """Open a file by path, after a check of every step for links."""
    place = os.path.realpath(folder)
    for part in parts:
        place = os.path.join(place, part)
        if os.path.islink(place):
            raise OSError("a link")
    if os.path.realpath(place) != place:
        raise OSError("elsewhere")
    return os.open(place, _READ)


# --------------------------------------------------------------------------- the tool


def file_tool(registry: SkillRegistry, name: str = NAMES[0]) -> Tool:
    """Build the tool over the files of these skills; access is decided at the gate."""

    def read_skill_file(args: dict[str, Any]) -> str:
        skill = registry.get(args["skill"])
        if skill is None or skill.folder is None or not skill.files:
            having = [one.name for one in registry if one.files]
            raise Retry(f"no skill {args['skill']!r} has files{nearest(args['skill'], having)}")
        try:
            return _read_for_model(skill, args["path"], args.get("start", 0))
        except FileRefused as refused:
            hint = nearest(args["path"], skill.files)
            raise Retry(f"{refused}{hint}") from None

    return Tool(
        name,
        _DESCRIPTION,
        _PARAMETERS,
        read_skill_file,
        side_effect_level="read_only",
        kind="read",
    )


def _read_for_model(skill: Skill, path: str, start: int) -> str:
    assert skill.folder is not None
    inside = path.strip("/") + "/" if path.strip("./") else ""
    below = [one for one in skill.files if one.startswith(inside)]
    if below and path not in skill.files:
        more = f"\n… and {len(below) - _SHOWN} more" if len(below) > _SHOWN else ""
        return "\n".join(below[:_SHOWN]) + more
    data, size = read(skill.folder, path, start)
    last = start + len(data) >= size
    text, rest = _piece(data, last)
    if text is None:
        return f"{path} is not text ({size} bytes); it cannot be shown."
    end = start + len(data) - rest
    return text if last else f"{text}\n[{end} of {size} bytes; go on with start={end}]"


def _piece(data: bytes, last: bool) -> tuple[str | None, int]:
    """Decode a piece of a file; return also how many bytes belong to the next one."""
    skipped = 0
    while skipped < min(3, len(data)) and 0x80 <= data[skipped] < 0xC0:
        skipped += 1  # the start lies in the middle of a character
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(data[skipped:], last)
    except UnicodeDecodeError:
        return None, 0
    return (None if "\0" in text else text.removeprefix("\ufeff")), len(decoder.getstate()[0])


def text_of(data: bytes) -> str | None:
    """Decode a whole file as text; None if it is not text."""
    return _piece(data, True)[0]

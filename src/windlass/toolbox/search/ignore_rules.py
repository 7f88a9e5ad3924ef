"""The rules of `.gitignore` files: which paths of a folder they leave out.

Loaded by the search process too, so it needs the standard library alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from windlass.toolbox.search.path_globs import InvalidGlob, translate_name, translate_path

LARGEST: Final = 1 << 20  # bytes of a file of rules that are read
MOST_RULES: Final = 5_000  # of one file
#: Folders of version control, which are never looked into.
VERSION_CONTROL: Final = frozenset({".git", ".hg", ".jj", ".svn"})
_SPECIAL: Final = re.compile(r"[*?\[\\]")

Match = Callable[[str], object]


class Rule(NamedTuple):
    """One line of a `.gitignore` file."""

    match: Match
    is_about_names: bool
    only_folders: bool
    negated: bool
    text: str


class IgnoreRules:
    """The rules of one `.gitignore` file, for paths relative to its folder.

    Rules and paths are texts with one character for each byte, as `to_byte_text` makes them.
    """

    __slots__ = ("_anywhere", "_ends", "_names", "_paths", "rules")

    def __init__(self, text: str) -> None:
        lines = text.split("\n")[:MOST_RULES]
        self.rules = [rule for line in lines if (rule := parse_rule(line)) is not None]
        self.rules.reverse()  # the last one that fits decides
        names: set[str] = set()
        ends: list[str] = []
        anywhere: list[str] = []
        paths: list[str] = []
        # What no rule is about, which is nearly everything, must be known fast.
        for rule in self.rules:
            if not rule.is_about_names:
                paths.append(translate_path(rule.text))
            elif not _SPECIAL.search(rule.text):
                names.add(rule.text)
            elif rule.text[0] == "*" and not _SPECIAL.search(rule.text[1:]):
                ends.append(rule.text[1:])
            else:
                anywhere.append(translate_name(rule.text))
        self._names = names
        self._ends = tuple(ends)
        self._anywhere = _compile(anywhere)
        self._paths = _compile(paths)

    def decide(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Return whether a path is left out, or None if no rule is about it."""
        if (
            name in self._names
            or (self._ends and name.endswith(self._ends))
            or (self._anywhere is not None and self._anywhere(name))
            or (self._paths is not None and self._paths(path))
        ):
            for rule in self.rules:
                if rule.only_folders and not is_folder:
                    continue
                if rule.match(name if rule.is_about_names else path):
                    return not rule.negated
        return None


def _compile(parts: list[str]) -> Match | None:
    return re.compile("|".join([f"(?:{one})\\Z" for one in parts]), re.S).match if parts else None


def parse_rule(line: str) -> Rule | None:
    """Parse one line; None for a comment, an empty line and one that cannot be used."""
    text = line.removesuffix("\r")
    while text.endswith(" ") and not _ends_escaped(text):
        text = text[:-1]
    if not text or text[0] == "#":
        return None
    negated = text[0] == "!"
    if negated:
        text = text[1:]
    only_folders = text.endswith("/") and not text.endswith("\\/")
    text = text.removesuffix("/")
    is_about_names = "/" not in text
    if not is_about_names:
        text = text.removeprefix("/")
    if not text or text.endswith("\\") and not _ends_escaped(text + " "):
        return None
    if text.startswith("**/") and "/" not in text[3:] and text[3:] not in ("", "**"):
        text, is_about_names = text[3:], True
    try:
        translated = translate_name(text) if is_about_names else translate_path(text)
        match = re.compile(f"(?:{translated})\\Z", re.S).match
    except (InvalidGlob, re.error):
        return None
    return Rule(match, is_about_names, only_folders, negated, text)


def _ends_escaped(text: str) -> bool:
    """Check whether the last character of a text has a backslash before it that counts."""
    before = text[:-1]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def to_byte_text(path: str) -> str:
    """Return a path with one character for each of its bytes."""
    return os.fsencode(path).decode("latin-1")


def read_rules(folder: int) -> IgnoreRules | None:
    """Read the `.gitignore` file in an open folder; None if there is none with rules."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(".gitignore", flags, dir_fd=folder)
    except OSError:
        return None
    try:
        data = os.read(file, LARGEST)
    except OSError:
        return None
    finally:
        os.close(file)
    found = IgnoreRules(data.removeprefix(b"\xef\xbb\xbf").decode("latin-1"))
    return found if found.rules else None

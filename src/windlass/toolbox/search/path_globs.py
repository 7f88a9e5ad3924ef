"""Globs over paths as regular expressions: those of the tools, and those of `.gitignore` files.

No module of the standard library does it: `fnmatch` knows no folders, and `glob.translate` is new.
Loaded by the search process too, so it needs the standard library alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

LONGEST: Final = 1_000  # characters
MOST_ALTERNATIVES: Final = 64
MOST_NESTING: Final = 10
MOST_LEVELS: Final = 4  # `**` in one pattern: each multiplies the work
_CLASSES: Final = {
    "alnum": "A-Za-z0-9",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class InvalidGlob(ValueError):
    """A glob that cannot be used, and why."""


def compile_glob(pattern: str) -> Callable[[str, str], object]:
    """Compile the glob of a call to a test of a path and its last name.

    Without a slash it is about names at any depth, else about whole paths. `{a,b}` are alternatives.
    """
    if "\0" in pattern:
        raise InvalidGlob("it holds a NUL character")
    if len(pattern) > LONGEST:
        raise InvalidGlob(f"it has {len(pattern):,} characters; {LONGEST:,} are the most")
    if _count_nesting(pattern) > MOST_NESTING:
        raise InvalidGlob(f"it has more than {MOST_NESTING} braces in each other")
    names: list[str] = []
    paths: list[str] = []
    for one in expand_braces(pattern):
        text = one.removeprefix("./")
        is_anchored = text.startswith("/")
        text = text.strip("/") + ("/**" if text.endswith("/") and text.strip("/") else "")
        if not text:
            raise InvalidGlob("it is empty; '**' stands for every file")
        if ".." in text.split("/"):
            raise InvalidGlob("it goes up with '..'; name the folder to look in with path")
        last = text
        while last.startswith("**/"):
            last = last[3:]
        if "/" in last or (is_anchored and last == text):
            paths.append(translate_path(text))
        else:
            names.append("" if last == "**" else translate_name(last) + r"\Z")
    name = re.compile("|".join(names), re.S).match if names else None
    path = re.compile("|".join([f"{one}\\Z" for one in paths]), re.S).match if paths else None
    if path is None:
        assert name is not None
        return lambda _path, last: name(last)
    if name is None:
        return lambda whole, _last: path(whole)
    return lambda whole, last: name(last) or path(whole)


def _count_nesting(pattern: str) -> int:
    depth = most = 0
    for char in pattern:
        depth += (char == "{") - (char == "}")
        most = max(most, depth)
    return most


def expand_braces(pattern: str) -> list[str]:
    """Return the alternatives of `{a,b}` in a glob; braces that do not close stand for themselves."""
    opened = _find_brace(pattern)
    if opened is None:
        return [pattern]
    begin, commas, end = opened
    cuts = [begin, *commas, end]
    parts = [pattern[a + 1 : b] for a, b in zip(cuts, cuts[1:], strict=False)]
    tails = expand_braces(pattern[end + 1 :])
    heads = [one for part in parts for one in expand_braces(part)]
    if len(heads) * len(tails) > MOST_ALTERNATIVES:
        raise InvalidGlob(f"it has over {MOST_ALTERNATIVES} alternatives")
    return [pattern[:begin] + head + tail for head in heads for tail in tails]


def _find_brace(pattern: str) -> tuple[int, list[int], int] | None:
    """Find the first `{…}`: where it begins, its commas, where it ends."""
    begin, depth, commas, at = -1, 0, list[int](), 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "{":
            depth += 1
            if depth == 1:
                begin = at
        elif char == "," and depth == 1:
            commas.append(at)
        elif char == "}" and depth:
            depth -= 1
            if depth == 0:
                return begin, commas, at
        at += 1
    return None


def translate_path(pattern: str) -> str:
    """Translate a glob over a relative path: `*` stays in a folder, `**` between slashes does not."""
    parts: list[str] = []
    for part in pattern.split("/"):
        if part and not (part == "**" and parts and parts[-1] == "**"):
            parts.append(part)
    if parts.count("**") > MOST_LEVELS:
        raise InvalidGlob(f"it has more than {MOST_LEVELS} '**'")
    found: list[str] = []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            found.append(".+" if last else "(?:[^/]+/)*")
        else:
            found.append(translate_name(part) + ("" if last else "/"))
    return "".join(found)


def translate_name(pattern: str) -> str:
    """Translate a glob over one name; a name is looked through once, however many stars there are."""
    pieces: list[str] = [""]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        elif char == "?":
            pieces[-1] += "[^/]"
        elif char == "[":
            at, text = _translate_class(pattern, at)
            pieces[-1] += text
        elif char == "\\" and at < len(pattern):
            pieces[-1] += re.escape(pattern[at])
            at += 1
        else:
            pieces[-1] += re.escape(char)
    if len(pieces) == 1:
        return pieces[0]
    # The first place where a piece fits is as good as any: no way back is kept to the stars before.
    middle = "".join([f"(?>[^/]*?{piece})" for piece in pieces[1:-1] if piece])
    return f"{pieces[0]}{middle}[^/]*{pieces[-1]}"


def _translate_class(pattern: str, at: int) -> tuple[int, str]:
    """Translate `[…]` that begins before `at`; one that does not close is a bracket."""
    begin, negated = at, False
    if pattern[at : at + 1] in ("!", "^"):
        negated, at = True, at + 1
    items: list[str] = []
    first = True
    while True:
        char = pattern[at : at + 1]
        if not char:
            return begin, r"\["
        if char == "]" and not first:
            break
        first = False
        if char == "[" and pattern[at + 1 : at + 2] == ":":
            end = pattern.find(":]", at + 2)
            known = _CLASSES.get(pattern[at + 2 : end]) if end > 0 else None
            if known is not None:
                items.append(known)
                at = end + 2
                continue
        at, low = _take_char(pattern, at)
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("]", ""):
            at, high = _take_char(pattern, at + 1)
            if low <= high:
                items.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            items.append(re.escape(low))
    inside = "".join(items)
    if negated:
        return at + 1, f"[^/{inside}]"
    return at + 1, f"(?!/)[{inside}]" if inside else "(?!)"


def _take_char(pattern: str, at: int) -> tuple[int, str]:
    if pattern[at] == "\\" and at + 1 < len(pattern):
        at += 1
    return at + 1, pattern[at]

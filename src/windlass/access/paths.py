"""Paths as a file system takes them: every place that a text may name, and globs.

Tools differ in what they make of `~`, of a backslash and of letters that look alike. A path is
therefore read in each of these ways: what is allowed must fit in all of them, and what is denied in any.
"""

from __future__ import annotations

import os
import os.path
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from windlass.globs import like, path_like

LONGEST: Final = 4096  # characters: no file system opens a longer path
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[/\\]{2}")
_FILE_URL: Final = re.compile(r"\s*file:(?://(?:localhost)?)?/+", re.IGNORECASE)
_MAGIC: Final = frozenset("*?[")
_FOLDS: Final = sys.platform in ("darwin", "win32")  # case-insensitive file systems


def read_path(text: str, root: str, *, named: bool = False) -> tuple[str, ...]:
    """Return every absolute place that a path may lead to; with `named` also its names.

    Links are followed, with `..` taken as the kernel takes it and as a tool does that first shortens
    the path. Relative paths begin in `root`. ValueError: no file can have this path.
    """
    if not text or "\0" in text or len(text) > LONGEST:
        raise ValueError("it is no path")
    places: dict[str, None] = {}
    for spelled in _spellings(text):
        whole = os.path.join(root, spelled)
        shortened = os.path.normpath(whole)
        if named:
            places[_fold(_squeeze(shortened))] = None
        places[_fold(_squeeze(os.path.realpath(whole)))] = None
        if ".." in spelled:
            places[_fold(_squeeze(os.path.realpath(shortened)))] = None
    return tuple(places)


def current_folder() -> str:
    """Return the folder in which relative paths begin, unless a workspace is set."""
    return os.path.realpath(os.getcwd())


def _spellings(text: str) -> dict[str, None]:
    """Return what a tool may make of a text before it opens it."""
    found = {text: None, text.strip(): None}
    if "%" in text:
        found[unquote(text)] = None
    if _FILE_URL.match(text):
        found[unquote(_FILE_URL.sub("/", text, count=1))] = None
    if not text.isascii():
        found[unicodedata.normalize("NFC", text)] = None
        found[unicodedata.normalize("NFKC", text)] = None
    for one in tuple(found):
        if "$" in one:
            found[os.path.expandvars(one)] = None
        if "\\" in one:
            found[one.replace("\\", "/")] = None
        if one.startswith("~"):
            found[os.path.expanduser(one)] = None
    if not all(found) or any(["\0" in one for one in found]):
        raise ValueError("it is no path")
    return found


def _squeeze(path: str) -> str:
    """Remove one of two leading slashes, which POSIX keeps."""
    return path[1:] if path.startswith("//") else path


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold() if _FOLDS else text


def relate_to(place: str, root: str) -> str | None:
    """Return the path of a place within `root`; None if it lies outside."""
    root = _fold(root)
    if place == root:
        return "."
    start = root.rstrip("/") + "/"
    return place[len(start) :] if place.startswith(start) else None


def is_url(text: str) -> bool:
    """Check whether a text is a URL, which some tools open in place of a path."""
    return _URL.match(text.strip()) is not None


def fits_path(pattern: str, text: str, root: str) -> bool:
    """Check whether every reading of a path matches; `*` stays in a folder, `**` does not."""
    if is_url(text) and "://" not in pattern:
        return False
    try:
        places = read_path(text, root)
    except ValueError:
        return False
    globs = _resolve(pattern, root, follow=False)
    return all([any([_fits_place(glob, place, root) for glob in globs]) for place in places])


def touches_path(
    pattern: str, text: str, root: str, *, crossing: bool, unreadable: bool = True
) -> bool:
    """Check whether any reading of a path matches a glob over paths.

    With `crossing` a `*` crosses folders too, and the folder itself falls under what is in it.
    `unreadable` is the answer for what no file can be named; what is empty or too long is nothing that
    a tool could open.
    """
    if not text.strip() or len(text) > LONGEST:
        return False
    try:
        places = read_path(text, root, named=True)
    except ValueError:
        return unreadable
    globs = _resolve(pattern, root, follow=True)
    return any(
        [
            _fits_place(glob, place, root) or (crossing and _covers(glob, place, root))
            for place in places
            for glob in globs
        ]
    )


def _fits_place(glob: str, place: str, root: str) -> bool:
    if glob.startswith("/"):
        return path_like(glob, place)
    inside = relate_to(place, root)
    return inside is not None and path_like(glob, inside)


def _covers(glob: str, place: str, root: str) -> bool:
    shown = place if glob.startswith("/") else relate_to(place, root)
    if shown is None:  # a glob without a folder of its own may be meant for places outside
        shown = place
    return like(glob, shown) or like(glob, f"{shown}/")


def _resolve(pattern: str, root: str, *, follow: bool) -> Sequence[str]:
    """Return the globs that a pattern stands for: relative to `root`, or absolute.

    With `follow` the links in its fixed part are followed as well: a denied folder is denied by each
    of its names. For an allowed one this would let whoever turns the link say what is allowed.
    """
    glob = os.path.expanduser(unicodedata.normalize("NFC", pattern) if follow else pattern)
    if not _MAGIC.intersection(pattern) or ".." in pattern.split("/") or "./" in pattern:
        glob = _squeeze(os.path.normpath(glob))
    if glob.startswith("../") or glob == "..":
        glob = os.path.normpath(os.path.join(root, glob))
    found = [glob]
    if glob.startswith("/"):
        inside = relate_to(_fold(glob), root)
        if inside is not None:
            found.append(inside)
        elif (other := _follow(glob)) is not None:
            found.append(other)
    elif follow and (other := _follow(os.path.join(root, glob))) is not None:
        inside = relate_to(_fold(other), root)
        found.append(inside or other)
    return [_fold(one) for one in dict.fromkeys(found)]


def _follow(glob: str) -> str | None:
    """Resolve the links in the fixed part of an absolute glob; None if there are none."""
    parts = glob.split("/")
    fixed = next((at for at, part in enumerate(parts) if _MAGIC.intersection(part)), len(parts))
    start = "/".join(parts[:fixed]) or "/"
    real = os.path.realpath(start)
    if real == start:
        return None
    return "/".join([real.rstrip("/"), *parts[fixed:]])

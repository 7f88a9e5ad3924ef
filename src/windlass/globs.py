"""Globs over names and paths, in linear time also for hostile texts."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=1024)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))  # which backtracks over one star at most


def like(pattern: str, text: str) -> bool:
    """Check a name against a glob with `*`: `like("read_*", "read_file")`."""
    return _compile_glob(pattern).match(text) is not None


def match_name(patterns: Iterable[str], name: str) -> bool:
    """Check a name against several globs: `match_name(["read_*"], "read_file")`."""
    return any([like(pattern, name) for pattern in patterns])


def path_like(pattern: str, path: str) -> bool:
    """Check a path; `*` stays in a folder, `**` does not: `path_like("src/**", "src/a/b")`."""
    wanted, parts = pattern.split("/"), path.split("/")
    fits = {0}  # how many parts the pieces so far may stand for
    for piece in wanted:
        if piece == "**":
            fits = set(range(min(fits), len(parts) + 1))
        else:
            glob = _compile_glob(piece)
            fits = {n + 1 for n in fits if n < len(parts) and glob.match(parts[n])}
        if not fits:
            return False
    return len(parts) in fits

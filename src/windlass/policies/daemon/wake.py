"""Reasons to wake an idle daemon: messages, events, files that changed, and a timer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

BACK_OFF: Final = (0.1, 0.5, 1.0, 2.0)  # seconds between two looks at the files; the last stays


def read_mtimes(paths: Sequence[str]) -> dict[str, int | None]:
    """Read when each file was changed last, in nanoseconds; None for one that is not there."""
    found: dict[str, int | None] = {}
    for path in paths:
        try:
            found[path] = os.stat(path).st_mtime_ns
        except OSError:
            found[path] = None
    return found


def find_changes(before: dict[str, int | None], now: dict[str, int | None]) -> list[str]:
    """Return the files that were changed, made or removed since."""
    return [path for path, mtime in now.items() if path in before and mtime != before[path]]


def choose_pause(waits: int) -> float:
    """Choose how long to wait the next time: longer, up to a limit."""
    return BACK_OFF[min(waits, len(BACK_OFF) - 1)]

"""The rows of the report, and the report."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

RESULTS = Path(__file__).with_name("RESULTS.md")

Unit = Literal["x", "ms", "%"]

HEAD = """# Benchmark results

Written by `make bench`; what each row measures and how is in [docs/concepts/performance.md](../docs/concepts/performance.md).
{machine}. {when}. A ratio is the median of {reps} paired samples of CPU time in one process (half as many where a sample is a
process of its own or waits; request building is wall time, being microseconds); in brackets the lowest and the highest.
After each sample the chain of every journal was verified, and every turn in it held its usage and for each call one
decision, one intent and one result: {entries:,} entries in all. Of the one-turn runs one in 32 was looked at.

| | Windlass | bare loop | measured | allowed | | peers |
|---|---|---|---|---|---|---|
"""


class Row(NamedTuple):
    """One figure: what was measured, what is allowed (None: only for information)."""

    name: str
    measured: float
    allowed: float | None
    ours: str
    bare: str = ""
    spread: tuple[float, float] | None = None
    unit: Unit = "x"
    peers: str = ""

    @property
    def passed(self) -> bool:
        """Is it within what is allowed?"""
        return self.allowed is None or self.measured <= self.allowed

    @property
    def mark(self) -> str:
        """Passed, failed, or nothing to pass."""
        if self.allowed is None:
            return "info"
        return "pass" if self.passed else "FAIL"

    def line(self) -> str:
        """The row in Markdown."""
        measured = figure(self.measured, self.unit)
        if self.spread is not None:
            low, high = (figure(end, self.unit, sign=False) for end in self.spread)
            measured += f" ({low}–{high})"
        allowed = "" if self.allowed is None else figure(self.allowed, self.unit)
        cells = (self.name, self.ours, self.bare, measured, allowed, self.mark, self.peers)
        return "| " + " | ".join(cells) + " |"


def figure(value: float, unit: Unit, *, sign: bool = True) -> str:
    """A number as a reader wants it."""
    places = 3 if value < 0.2 else 2 if value < 10 else 1 if value < 100 else 0
    text = f"{value:.{places}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if not sign:
        return text
    return f"x{text}" if unit == "x" else f"{text} {unit}"


def micro(seconds: float) -> str:
    """Seconds as microseconds."""
    return f"{seconds * 1e6:.2f} µs" if seconds < 1e-5 else f"{seconds * 1e6:.1f} µs"


def report(rows: Sequence[Row], reps: int, entries: int, notes: Sequence[str] = ()) -> str:
    """The whole page."""
    machine = (
        f"CPython {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores, load {_load()}"
    )
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    head = HEAD.format(machine=machine, when=when, reps=reps, entries=entries)
    page = head + "\n".join(row.line() for row in rows) + "\n"
    return page + "".join(f"\n{note}\n" for note in notes)


def _load() -> str:
    if sys.platform == "win32":
        return "unknown"
    return f"{os.getloadavg()[0]:.1f}"

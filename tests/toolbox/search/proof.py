"""The full-size proof of built-in search: `make prove-search` writes it to bench/SEARCH.md."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from bench import search
from tests.toolbox.search.hostile_patterns import list_patterns
from tests.toolbox.search.test_hostile_patterns import fill, try_all
from tests.toolbox.search.test_same_results import compare_engines, compare_with_git
from windlass.toolbox.search import process

TREES, PATTERNS, REPS = 400, 20, 5


def main() -> int:
    """Prove all of it; exit code 1 if a figure is above its limit, an exception if results differ."""
    print("# What built-in search was tried with\n")
    print(
        "Written by `make prove-search`; what is promised is in [the guide](../docs/guides/built-in-tools.md)."
    )
    print(
        f"Linux {platform.release()} on {platform.machine()}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}. {datetime.now(UTC):%Y-%m-%d}.\n"
    )
    print("| tried | how often | result | seconds |\n|---|---|---|---|", flush=True)
    _print_row("hostile patterns for `grep`, at most 0.5 s each", *_try_patterns())
    what = f"random trees, {PATTERNS} patterns each: ripgrep, no ripgrep, line by line"
    _print_row(what, TREES, *_compare(compare_engines, PATTERNS))
    _print_row(
        "random trees with `.gitignore` files: our walk, git", TREES, *_compare(compare_with_git)
    )
    rows = search.rows(REPS)
    print("\n| | Windlass | other | measured | allowed | |\n|---|---|---|---|---|---|")
    for row in rows:
        print(row.line().removesuffix(" |  |") + " |")
    return 0 if all(row.passed for row in rows) else 1


def _print_row(what: str, count: int, result: str, seconds: float) -> None:
    print(f"| {what} | {count:,} | {result} | {seconds:.0f} |", flush=True)


def _try_patterns() -> tuple[int, str, float]:
    patterns = list_patterns(200)
    process.SECONDS = 0.25
    began, worked = time.perf_counter(), time.thread_time()
    try:
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder))
            ends = asyncio.run(try_all(Path(folder), patterns))
    finally:
        process.SECONDS = 20.0
    answered = ends.count("answer")
    stopped = len([one for one in ends if "not done after" in one])
    loop = (time.thread_time() - worked) / len(patterns)
    result = (
        f"{answered} answers, {stopped} ended at the limit, {len(ends) - answered - stopped} refused; the loop "
        f"worked {loop * 1e3:.1f} ms for each"
    )
    return len(patterns), result, time.perf_counter() - began


def _compare(compare: Callable[..., None], *more: int) -> tuple[str, float]:
    began, here = time.perf_counter(), os.getcwd()
    for seed in range(TREES):
        with tempfile.TemporaryDirectory() as folder:
            try:
                compare(seed, Path(folder), *more)
            finally:
                os.chdir(here)
    return "the same", time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())

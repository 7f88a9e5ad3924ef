"""All benchmarks, one table: `make bench`.

REPS=25 takes more samples; ONLY=turns,durable measures some; PEERS=agno,strands measures peers too.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable

from bench import crowd, durable, requests, starting, streams, turns
from bench.sampling import REPS
from bench.table import RESULTS, Row, report


def main() -> int:
    """Measure, write the table, and say whether every figure is within what is allowed."""
    only = [name for name in os.environ.get("ONLY", "").split(",") if name]
    unknown = set(only) - set(PARTS)
    if unknown:
        print(f"ONLY: there is no part {sorted(unknown)[0]!r}; there are {', '.join(PARTS)}")
        return 2
    rows: list[Row] = []
    entries = 0
    for name, part in PARTS.items():
        if only and name not in only:
            continue
        began = time.perf_counter()
        found, proved = part()
        rows += found
        entries += proved
        for row in found:
            print(row.line(), flush=True)
        print(f"  {name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    page = report(rows, REPS, entries)
    if not only:
        RESULTS.write_text(page, encoding="utf-8")
    failed = [row.name for row in rows if not row.passed]
    print(f"{len(rows) - len(failed)} of {len(rows)} rows pass; {entries:,} entries proved")
    for name in failed:
        print(f"FAIL: {name}")
    return 1 if failed else 0


def _turns() -> tuple[list[Row], int]:
    return asyncio.run(turns.rows()), turns.entries_proved[0]


def _streams() -> tuple[list[Row], int]:
    return asyncio.run(streams.rows()), streams.entries_proved[0]


def _durable() -> tuple[list[Row], int]:
    return asyncio.run(durable.rows()), durable.entries_proved[0]


PARTS: dict[str, Callable[[], tuple[list[Row], int]]] = {
    "turns": _turns,
    "crowd": lambda: crowd.rows(max(3, REPS // 2)),
    "streams": _streams,
    "starting": lambda: (starting.rows(max(3, REPS // 2)), 0),
    "durable": _durable,
    "requests": lambda: (requests.rows(), 0),
}


if __name__ == "__main__":
    sys.exit(main())

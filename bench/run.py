"""All benchmarks, one table: `make bench`.

REPS=25 takes more samples; ONLY=turns,durable measures some; PEERS=agno,strands measures peers too.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable

from bench import (
    adapters,
    commands,
    context,
    crowd,
    durable,
    fleet,
    flow,
    idle_context,
    judgement,
    partial,
    peers,
    postgres,
    prefix,
    requests,
    resources,
    search,
    servers,
    starting,
    streams,
    turns,
    vault,
)
from bench.long_tasks import rows as long_tasks
from bench.sampling import REPS
from bench.table import RESULTS, Row, report
from windlass.redaction.redactor import looks_secret

PUBLISHED = """The column *peers* is the span of seven frameworks (pydantic-ai 2.66, openai-agents 0.24, langgraph 1.2, smolagents
1.26, strands-agents 1.62, agno 3.1, google-adk 2.13) over a bare loop of the same work, measured once before with CPython
3.11 on two shared cores; it was not taken in this run. `make bench PEERS=agno,pydantic_ai` measures those two here."""


def main() -> int:
    """Measure, write the table, and say whether every figure is within what is allowed."""
    for name in [name for name in os.environ if looks_secret(name)]:
        del os.environ[name]  # a known secret has a price, which has a row of its own
    only = [name for name in os.environ.get("ONLY", "").split(",") if name]
    asked_peers = [name for name in os.environ.get("PEERS", "").split(",") if name]
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
    if asked_peers:
        rows += (found := peers.rows(asked_peers))
        print("\n".join(row.line() for row in found))
    page = report(rows, REPS, entries, [PUBLISHED, *long_tasks.notes])
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


def _judgement() -> tuple[list[Row], int]:
    return asyncio.run(judgement.rows()), judgement.IDLE.entries_proved


def _flow() -> tuple[list[Row], int]:
    return asyncio.run(flow.rows()), flow.entries_proved[0]


def _context() -> tuple[list[Row], int]:
    cut = asyncio.run(context.rows())
    return cut + asyncio.run(idle_context.rows()), idle_context.IDLE.entries_proved


def _long_tasks() -> tuple[list[Row], int]:
    return asyncio.run(long_tasks.rows()), long_tasks.entries_proved[0]


def _adapters() -> tuple[list[Row], int]:
    return asyncio.run(adapters.rows(max(3, REPS // 2))), 0


PARTS: dict[str, Callable[[], tuple[list[Row], int]]] = {
    "turns": _turns,
    "crowd": lambda: crowd.rows(max(3, REPS // 2)),
    "streams": _streams,
    "partial": lambda: (asyncio.run(partial.rows()), 0),
    "starting": lambda: (starting.rows(max(3, REPS // 2)), 0),
    "durable": _durable,
    "postgres": lambda: (asyncio.run(postgres.rows(max(3, REPS // 2))), 0),
    "fleet": lambda: (asyncio.run(fleet.rows(max(3, REPS // 2))), 0),
    "requests": lambda: (requests.rows(), 0),
    "resources": lambda: (asyncio.run(resources.rows()), 0),
    "adapters": _adapters,
    "prefix": lambda: (prefix.rows(), 0),
    "vault": lambda: (asyncio.run(vault.rows()), 0),
    "judgement": _judgement,
    "flow": _flow,
    "context": _context,
    "commands": lambda: (commands.rows(max(3, REPS // 2)), 0),
    "search": lambda: (search.rows(max(3, REPS // 2)), 0),
    "servers": lambda: (servers.rows(max(3, REPS // 2)), 0),
    "long": _long_tasks,
}


if __name__ == "__main__":
    sys.exit(main())

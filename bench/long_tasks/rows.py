"""The rows of the long tasks, and their own table: what each way costs and what it keeps."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence

from bench.long_tasks.facts import COUNT
from bench.long_tasks.play import Played, play
from bench.long_tasks.provider import BYTES, MODEL
from bench.long_tasks.tasks import TASKS, Task
from bench.long_tasks.ways import ways
from bench.table import Row

CHEAPEST = 1.0  # times the dollars of the cheapest other way that keeps as many facts
entries_proved = [0]
notes: list[str] = []


async def rows(tasks: Sequence[Callable[[], Task]] = TASKS, model: str = MODEL) -> list[Row]:
    """A row for each task: our dollars over those of whoever keeps as much."""
    found: list[Row] = []
    all_played: list[Played] = []
    for make in tasks:
        task = make()
        played = [await play(task, way, model) for way in ways()]
        entries_proved[0] += sum([one.entries for one in played])
        all_played += played
        found.append(_row(played))
    notes[:] = [table(all_played, model)]
    return found


def _row(played: Sequence[Played]) -> Row:
    *others, mine = played
    rival = cheapest(others, mine.kept)
    name = f"{mine.task}: dollars, over the cheapest way that keeps as many facts"
    ratio = mine.bill.dollars / rival.bill.dollars
    return Row(name, ratio, CHEAPEST, _told(mine), f"{rival.way}: {_told(rival)}")


def cheapest(others: Sequence[Played], kept: int) -> Played:
    """Whoever keeps so many facts for the least money. Who leaves nothing out keeps all."""
    return min([one for one in others if one.kept >= kept], key=lambda one: one.bill.dollars)


def _told(one: Played) -> str:
    return f"${one.bill.dollars:.2f}, {one.kept} of {COUNT} facts"


def table(played: Sequence[Played], model: str) -> str:
    """All of it in Markdown."""
    head = (
        f"Long tasks at the prices of {model}: tokens of all requests, what the provider read of "
        "them from its cache, dollars with summaries, facts in sight in the last request and those "
        "one `recall` away, facts that were needed on the way and were gone.\n\n"
        "| task | way | input tokens | cache hits | dollars | in sight | recalled | missed |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    return head + "\n".join([_line(one) for one in played])


def _line(one: Played) -> str:
    bill = one.bill
    share = bill.cached_bytes / BYTES / bill.input_tokens
    cells = (
        one.task,
        one.way,
        f"{bill.input_tokens:,}",
        f"{bill.cached_bytes / 1e6:,.1f} MB ({share:.0%})",
        f"{bill.dollars:.2f}",
        str(one.visible),
        str(one.recalled),
        str(one.missed),
    )
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    for row in asyncio.run(rows(model=sys.argv[1] if len(sys.argv) > 1 else MODEL)):
        print(row.line())
    print(notes[0])

"""What flow control costs: a turn in which it has nothing to decide, and a decision among many values.

The first figure is a turn of a run with an untrusted source and a tool with effects, neither of which is
called, over the same turn with `taint=False`. The second is the decision about one call in a session
that has read 1,000 values, over that in one that has read 10.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import windlass as w
from bench import ours
from bench.proof import prove
from bench.sampling import REPS, TARGET, Work, paired, rounds
from bench.table import Row, micro
from bench.work import DONE, PROMPT, SYSTEM, TOOLS, Script, begin
from windlass.access.flow.decide import Known, decide_call
from windlass.access.flow.records import Record, RecordIndex
from windlass.access.flow.tokens import fold_words
from windlass.access.flow.words import UserWords
from windlass.engine.environment import current_store

TURNS = 100
IDLE_MOST = 1.2
FEW, MANY = 10, 1_000
GROWTH = 2.0
SPAN = 40  # decisions timed together
entries_proved = [0]


@w.tool(side_effect_level="read_only", annotations={"reads_untrusted": True})
async def read_page(url: str) -> str:
    """Read a page of the web."""
    return "news"


@w.tool(annotations={"sends_out": True})
async def send_mail(to: str, subject: str, body: str) -> str:
    """Send a mail."""
    return "sent"


async def rows(reps: int = REPS, target: float = TARGET, turns: int = TURNS) -> list[Row]:
    """The idle turn, and the decision."""
    return [await _idle_row(reps, target, turns), _decision_row(reps)]


async def _idle_row(reps: int, target: float, turns: int) -> Row:
    works = {"off": _recorded(turns, taint=False), "on": _recorded(turns)}
    taken = await rounds(works, reps, target=target)
    pair = paired(taken["on"], taken["off"])
    name = f"flow control on but idle, {turns} turns: over the same without"
    sides = micro(pair.ours / turns), f"without: {micro(pair.bare / turns)}"
    return Row(name, pair.ratio, IDLE_MOST, *sides, (pair.low, pair.high))


def _recorded(turns: int, **options: Any) -> Work:
    add = w.tool(side_effect_level="none")(TOOLS["add"])
    tools: list[Any] = [add, read_page, send_mail]
    settings: dict[str, Any] = {"max_turns": ours.TURNS, **options}
    agent = w.Agent(ours.Fake(), system=SYSTEM, tools=tools, **settings)

    async def once() -> Any:
        begin(Script(turns))
        out = await agent.run(PROMPT)
        assert out.final_text == DONE and out.status == "done", out
        return out

    async def after(results: list[Any]) -> None:
        entries_proved[0] += await prove(current_store(), results, Script(turns))

    return Work(once, after)


def _decision_row(reps: int) -> Row:
    few, many = _build_known(FEW), _build_known(MANY)
    before: list[float] = []
    after: list[float] = []
    _time_decisions(few, FEW)
    _time_decisions(many, MANY)
    for _ in range(reps):
        before.append(_time_decisions(few, FEW))
        after.append(_time_decisions(many, MANY))
    pair = paired(after, before)
    name = f"flow control: a call decided with {MANY:,} tracked values over one with {FEW}"
    sides = micro(pair.ours), f"{FEW}: {micro(pair.bare)}"
    return Row(name, pair.ratio, GROWTH, *sides, (pair.low, pair.high))


def _build_known(values: int) -> Known:
    """Build what a session knows that has read so many addresses, half of them from contacts."""
    records = RecordIndex()
    for at in range(values):
        words = fold_words(f"name Person{at} Lee email person{at}@lee.example number N-{at:05}")
        if at % 2:
            records.add(Record(words, "find_contact", f"c{at}", is_private=True, is_asked=True))
        else:
            records.add(Record(words, "read_page", f"c{at}", trust="untrusted"))
    prompt = (
        "Send person1@lee.example and Person3 a summary of the news by 31 March, 25 euros at most"
    )
    return Known(UserWords([prompt]), UserWords([SYSTEM]), records)


def _time_decisions(known: Known, values: int) -> float:
    """Seconds of one decision."""
    gc.collect()
    clock = time.process_time
    tool = send_mail
    began = clock()
    for at in range(SPAN):
        arguments = {
            "to": f"person{at % values}@lee.example",
            "subject": "The news",
            "body": f"Ask person{(at + 1) % values}@lee.example or N-{at % values:05} about Lee. "
            * 3,
        }
        decision = decide_call(tool.name, tool.parameters, tool.annotations, arguments, known)
        assert decision.values
    return (clock() - began) / SPAN


if __name__ == "__main__":
    for row in asyncio.run(rows()):
        print(row.line())

"""A task played in one way, and what is on record of it looked at afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import windlass as w
from bench.long_tasks.facts import COUNT
from bench.long_tasks.provider import MODEL, RECALL, Bill, Scripted
from bench.long_tasks.tasks import Task
from bench.long_tasks.ways import Way
from bench.proof import CutCorner
from windlass.events import JournalEntry, Replied, ToolResulted
from windlass.messages import Message, ToolResult
from windlass.store.memory import MemoryStore

TURNS = 10_000


class Played(NamedTuple):
    """What a task came to."""

    task: str
    way: str
    bill: Bill
    visible: int  # facts in the last request
    recalled: int  # facts that are not, and that one call of `recall` brings back
    missed: int  # facts that were needed on the way and could not be had
    entries: int

    @property
    def kept(self) -> int:
        """The facts that are still there, in sight or one call away."""
        return self.visible + self.recalled


async def play(task: Task, way: Way, model: str = MODEL) -> Played:
    """Play all visits of a task, then ask for what is no longer in sight."""
    store = MemoryStore()
    scripted = Scripted(task, model)

    @w.tool(side_effect_level="read_only")
    async def look(page: str) -> str:
        """Look at a page."""
        return task.pages[page]

    agent = w.Agent(
        scripted,
        system=task.system,
        tools=[look] if task.pages else [],
        max_turns=TURNS,
        **way.options,
    )
    for visit in task.visits:
        scripted.steps = list(visit.steps)
        out = await agent.run(visit.says, session_id="s", store=store)
        if out.status != "done" or scripted.steps:
            raise CutCorner(f"{task.name}, {way.name}: {out.status}, {out.error}")
    visible = [fact for fact in task.facts if fact.value.encode() in scripted.last]
    entries = list(await store.read("s"))
    await store.verify("s")
    _whole(task, way, scripted, entries)
    bill = scripted.bill
    scripted.bill = Bill()  # what is asked now is asked by the bench
    scripted.exam = [fact for fact in task.facts if fact not in visible]
    back = 0
    if wanted := list(scripted.exam):
        await agent.run("What do you still know?", session_id="s", store=store)
        answers = {e.call_id: e.result.text for e in await store.read("s") if _is_recall(e)}
        back = sum([fact.value in answers.get(f"toolu_{fact.value}", "") for fact in wanted])
    return Played(task.name, way.name, bill, len(visible), back, scripted.missed, len(entries))


def _is_recall(entry: JournalEntry) -> bool:
    return type(entry) is ToolResulted and entry.tool == RECALL


def _whole(task: Task, way: Way, model: Scripted, entries: Sequence[JournalEntry]) -> None:
    """Refuse a task of which anything was left out of the record or of the bill."""
    where = f"{task.name}, {way.name}"
    replies = [entry for entry in entries if type(entry) is Replied]
    own = sum([entry.purpose is None for entry in replies])
    if own != task.steps + model.recalls:
        raise CutCorner(f"{where}: {own} replies on record, not {task.steps} and {model.recalls}")
    paid = sum([entry.cost_usd for entry in replies])
    if abs(paid - model.bill.dollars) > 1e-6 * paid or len(replies) != model.bill.requests:
        raise CutCorner(
            f"{where}: ${paid:.4f} on record, and the bill is ${model.bill.dollars:.4f}"
        )
    words = "\n".join(_words(entries))
    told = [
        fact for fact in task.facts if f"{fact.thing} of the {fact.of} is {fact.value}" in words
    ]
    if len(told) != COUNT:
        raise CutCorner(f"{where}: {len(told)} facts were told, not {COUNT}")


def _words(entries: Sequence[JournalEntry]) -> list[str]:
    found: list[str] = []
    for entry in entries:
        if type(entry) is ToolResulted and entry.tool != RECALL:
            found.append(entry.result.text)
        message = getattr(entry, "message", None)
        if type(message) is Message:
            found += [
                b.text for b in message.content if hasattr(b, "text") and type(b) is not ToolResult
            ]
    return found

"""Spending of a run and the runs under it, read from their journals.

A child's session is named after the call of its parent: `{session}.{call}`, with a number behind it
where a call begins several; or after the run, `{session}.{run}.…`, where no call asked for it. The
sum of a tree is the sum of its journals; a call that was under way when its process ended counts by
its reserve.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.errors import NoSuchSession
from windlass.events import (
    INTERRUPTED,
    CallReserved,
    IterationStart,
    JournalEntry,
    Replied,
    ReplyFailed,
    RunEnded,
    RunStarted,
    ToolIntended,
    ToolResulted,
)
from windlass.identifiers import CallIndex, child_session_id
from windlass.store.base import Store
from windlass.usage import NO_USAGE, Usage


class Spending:
    """The model calls of one run: their usage, and those without a recorded outcome."""

    __slots__ = ("children", "in_flight", "intended", "lost", "progress", "run_id", "usage", "usd")

    def __init__(self) -> None:
        self._begin(None)

    def _begin(self, run_id: str | None) -> None:
        self.run_id = run_id
        self.usage, self.usd = NO_USAGE, 0.0
        self.in_flight: list[CallReserved] = []
        self.lost = False  # a call that ended with its process is settled on record
        self.progress = 0  # replies and results
        self.intended: dict[str, None] = {}  # calls that may have a session of their own
        self.children: dict[str, Spending] = {}  # by session

    def apply(self, entry: JournalEntry) -> None:
        """Read one entry."""
        match entry:
            case Replied() | ReplyFailed():
                self.usage += entry.usage
                self.usd += entry.cost_usd
                self._close(entry.purpose)
                if isinstance(entry, Replied):
                    self.progress += 1
                elif entry.category == INTERRUPTED:
                    self.lost = True
            case CallReserved():
                if entry.again:
                    self._close(entry.purpose)
                if entry.input_tokens or entry.output_tokens or entry.usd:
                    self.in_flight.append(entry)
            case ToolIntended():
                self.intended[entry.call_id] = None
            case ToolResulted() if entry.outcome != INTERRUPTED:
                self.progress += 1
            case RunStarted():
                self._begin(entry.run_id)
            case IterationStart() | RunEnded():  # a run that waited goes on or has ended
                self.in_flight = []
            case _:
                pass

    def _close(self, purpose: str | None) -> None:
        for index, reserved in enumerate(self.in_flight):
            if reserved.purpose == purpose:
                del self.in_flight[index]
                return

    @property
    def tree_usage(self) -> Usage:
        """The tokens of the run, of the calls without an outcome, and of the runs under it."""
        usage = self.usage
        for reserved in self.in_flight:
            usage += Usage(reserved.input_tokens, reserved.output_tokens)
        for child in self.children.values():
            usage += child.tree_usage
        return usage

    @property
    def tree_usd(self) -> float:
        """The dollars of the same."""
        held = sum(reserved.usd for reserved in self.in_flight)
        return self.usd + held + sum(child.tree_usd for child in self.children.values())

    @property
    def tree_progress(self) -> int:
        """Replies and results of the run and of the runs under it."""
        return self.progress + sum(child.tree_progress for child in self.children.values())


def lost_call_entry(reserved: CallReserved) -> ReplyFailed:
    """Build the entry that settles a call which was under way when its process ended."""
    return ReplyFailed(
        INTERRUPTED,
        "the process ended before the reply was on record; what was held back counts as spent",
        reserved.provider,
        reserved.model,
        reserved.purpose,
        Usage(reserved.input_tokens, reserved.output_tokens),
        reserved.usd,
    )


def spending_of(entries: Iterable[JournalEntry]) -> Spending:
    """Sum up what the last run in a journal has spent."""
    spending = Spending()
    for entry in entries:
        spending.apply(entry)
    return spending


async def read_children(store: Store, session_id: str, spending: Spending) -> None:
    """Add what the runs under this one have spent, from their journals."""
    if spending.run_id is None or not (spending.progress or spending.intended):
        return
    of_run = child_session_id(session_id, spending.run_id) + "."
    calls = CallIndex(session_id, spending.intended)
    for child_id in (await store.info(session_id)).child_ids:
        if calls.find(child_id) is None and not child_id.startswith(of_run):
            continue  # a fork, or the child of an earlier run
        try:
            child = spending_of(await store.read(child_id))
        except NoSuchSession:
            continue  # deleted meanwhile
        await read_children(store, child_id, child)
        spending.children[child_id] = child

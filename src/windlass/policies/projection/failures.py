"""Rounds whose calls failed, and what came after them: read from a growing view, each message once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from windlass.loop.run import Run
from windlass.messages import Message, ToolResult
from windlass.models.view import Strand

#: Outcomes that say no more than that a call was wrong. A denial, a timeout and a call that was
#: interrupted stay in sight: the model must not ask again as if nothing had happened.
HARMLESS: Final = ("ok", "error", "retry", "invalid", "unknown_tool", "not_run")


class Round(NamedTuple):
    """A reply with calls, and their results in the message behind it."""

    start: int
    stop: int
    failed: tuple[str, ...]  # names of tools
    worked: tuple[str, ...]
    grave: bool = False  # something happened that must stay in sight

    @property
    def fruitless(self) -> bool:
        """May it go, for all that came of it?"""
        return bool(self.failed) and not self.worked and not self.grave


class Chain(NamedTuple):
    """Fruitless rounds one after the other, and the first round after them that was not."""

    rounds: tuple[Round, ...]
    then: Round | None = None  # None: the model spoke, or nothing came after them yet


def failed(result: ToolResult) -> bool:
    """Did the call come to nothing?"""
    return result.is_error or result.outcome != "ok"


class Failures:
    """The chains of a view, and rounds of which a part failed."""

    def __init__(self) -> None:
        self.strand: Strand | None = None
        self._begin()

    def _begin(self) -> None:
        self.place = 0
        self.chains: list[Chain] = []
        self.mixed: list[Round] = []
        self.open: list[Round] = []

    def upto_now(self, run: Run) -> Failures:
        """Read what is new in the view."""
        items = run.strand.items
        if self.strand is not run.strand or self.place > len(items):
            self.strand = run.strand
            self._begin()
        return self.read(items)

    def read(self, items: Sequence[Message]) -> Failures:
        """Read on."""
        at, size = self.place, len(items)
        while at < size:
            message = items[at]
            if message.role != "assistant":
                at += 1
                continue
            if not self.open and at + 1 < size and _went_well(items[at + 1]):
                at += 2  # most rounds do
                continue
            if not message.tool_calls:
                self._close(None)
                at += 1
                continue
            if at + 1 == size:
                break  # its results are still to come
            found = _round(items, at)
            if found.fruitless:
                self.open.append(found)
            else:
                self._close(found)
                if found.failed and not found.grave:
                    self.mixed.append(found)
            at = found.stop
        self.place = at
        return self

    def _close(self, then: Round | None) -> None:
        if self.open:
            self.chains.append(Chain(tuple(self.open), then))
            self.open = []


def _went_well(answer: Message) -> bool:
    """Are these results, and all of them good?"""
    if answer.role != "tool":
        return False
    for block in answer.content:
        if type(block) is not ToolResult or block.is_error or block.outcome != "ok":
            return False
    return True


def _round(items: Sequence[Message], at: int) -> Round:
    results = [block for block in items[at + 1].content if type(block) is ToolResult]
    answered = items[at + 1].role == "tool" and len(results) == len(items[at].tool_calls)
    bad = tuple([one.name for one in results if failed(one)])
    good = tuple([one.name for one in results if not failed(one)])
    grave = not answered or any(one.outcome not in HARMLESS for one in results)
    # one that begins the view, or goes on with a turn that its provider paused, does not go alone
    alone = at > 0 and items[at - 1].role != "assistant"
    stop = at + 1 if items[at + 1].role == "assistant" else at + 2
    return Round(at, stop, bad, good, grave or not alone)

"""Rounds with failed calls, and what came after: each message is read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from windlass.loop.run import Run
from windlass.messages import Block, Message, Text, ToolResult
from windlass.models.base import Strand
from windlass.policies.projection.edits import Edit, edit

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
        """Whether the round may go, as nothing came of it."""
        return bool(self.failed) and not self.worked and not self.grave


class Chain(NamedTuple):
    """Consecutive fruitless rounds, and the first round after them that was not."""

    rounds: tuple[Round, ...]
    then: Round | None = None  # None: the model spoke, or nothing came after them yet


def is_failure(result: ToolResult) -> bool:
    """Check whether the call failed."""
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
        strand = run.messages.strand
        items = strand.items
        if self.strand is not strand or self.place > len(items):
            self.strand = strand
            self._begin()
        return self.read(items)

    def read(self, items: Sequence[Message]) -> Failures:
        """Read further messages."""
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
    """Check whether these are results, and all of them good."""
    if answer.role != "tool":
        return False
    for block in answer.content:
        if type(block) is not ToolResult or block.is_error or block.outcome != "ok":
            return False
    return True


def _round(items: Sequence[Message], at: int) -> Round:
    results = [block for block in items[at + 1].content if type(block) is ToolResult]
    answered = items[at + 1].role == "tool" and len(results) == len(items[at].tool_calls)
    bad = tuple([one.name for one in results if is_failure(one)])
    good = tuple([one.name for one in results if not is_failure(one)])
    grave = not answered or any(one.outcome not in HARMLESS for one in results)
    # one that begins the view, or goes on with a turn that its provider paused, does not go alone
    alone = at > 0 and items[at - 1].role != "assistant"
    stop = at + 1 if items[at + 1].role == "assistant" else at + 2
    return Round(at, stop, bad, good, grave or not alone)


# `squash_failed_calls`: calls that failed become one short note.


NOTE: Final = "projection"  # the kind of the note
_SAID: Final = 160  # characters of an error that stay
_MANY: Final = 4  # rounds of a row that has no end yet


def squash_failures(
    view: Sequence[Message], failures: Failures, stop: int, keep_last: int, tool: str | None
) -> list[Edit]:
    """Replace the failed rounds before `stop` by notes; `tool` recalls them."""
    rows: list[Sequence[Round]] = [
        chain.rounds for chain in failures.chains if chain.rounds[-1].stop <= stop
    ]
    still = [one for one in failures.open if one.stop <= stop]
    if len(still) >= _MANY:
        rows.append(still)
    edits: list[Edit | None] = []
    for row in rows:
        for group in _adjacent(row):
            start, end = group[0].start, group[-1].stop
            note = Message("user", (Text(_squash_note(view[start:end], tool)),), NOTE)
            edits.append(edit(view, start, end, (note,), end + keep_last))
    for one in failures.mixed:
        if one.stop <= stop:
            at = one.stop - 1
            slim = _shorten_failures(view[at], tool)
            edits.append(edit(view, at, at + 1, (slim,), one.stop + keep_last))
    return sorted(one for one in edits if one is not None)


def _adjacent(row: Sequence[Round]) -> list[list[Round]]:
    """Group rounds that follow each other directly."""
    groups: list[list[Round]] = []
    for one in row:
        if groups and groups[-1][-1].stop == one.start:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _squash_note(messages: Sequence[Message], tool: str | None) -> str:
    results = [b for m in messages for b in m.content if type(b) is ToolResult]
    counted = Counter(result.name for result in results)
    names = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counted.items())
    how = "1 call that failed is" if len(results) == 1 else f"{len(results)} calls that failed are"
    last = results[-1]
    where = f' {tool}(id="{last.id}") shows it.' if tool is not None else ""
    return f"[{how} no longer shown: {names}. The last said: {_shorten_result(last)}{where}]"


def _shorten_result(result: ToolResult) -> str:
    text = " ".join(result.text[: 2 * _SAID].split())
    return text if len(text) <= _SAID else f"{text[: _SAID - 1]}…"


def _shorten_failures(message: Message, tool: str | None) -> Message:
    blocks: list[Block] = []
    for block in message.content:
        if type(block) is ToolResult and is_failure(block) and len(block.text) > 2 * _SAID:
            where = f'; {tool}(id="{block.id}") shows all of it' if tool is not None else ""
            block = msgspec.structs.replace(
                block, content=f"[failed{where}] {_shorten_result(block)}"
            )
        blocks.append(block)
    return msgspec.structs.replace(message, content=tuple(blocks))


# `clean_tool_repair`: a call that failed and was mended is shown as if it had been right at once.


def remove_repaired(view: Sequence[Message], failures: Failures) -> list[Edit]:
    """Remove failed rounds where the next round succeeded with the same tools."""
    edits: list[Edit] = []
    for chain in failures.chains:
        if chain.then is None or not _is_repaired(view, chain):
            continue
        for one in chain.rounds:
            found = edit(view, one.start, one.stop, (), chain.then.stop)
            if found is not None:
                edits.append(found)
    return edits


def _is_repaired(view: Sequence[Message], chain: Chain) -> bool:
    """Check whether every tool that failed worked in the next round; skip unknown tools."""
    then = chain.then
    if then is None or not then.worked:
        return False
    wanted = {
        block.name
        for one in chain.rounds
        for block in view[one.stop - 1].content
        if type(block) is ToolResult and block.outcome != "unknown_tool"
    }
    return wanted <= set(then.worked)

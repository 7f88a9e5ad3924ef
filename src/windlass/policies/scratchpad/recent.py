"""The last messages of a session under fixed names: `turn:N`, in recorded order.

Read from the journal and not from the view: what a compaction took out of sight is still a source.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from windlass.events import (
    IterationEnd,
    JournalEntry,
    Replied,
    Said,
    SessionReset,
    ToolMessage,
    ToolResulted,
)
from windlass.messages import Message, ToolResult
from windlass.policies.scratchpad.pad import Pad, Ref
from windlass.policies.scratchpad.render import BLOCKS, excerpt

_SPARE: Final = 4  # replies that may be dropped from the end
_LISTED: Final = 8  # results of one message that are kept with it


class Recents:
    """The last `most` messages; each entry is read once."""

    def __init__(self, most: int) -> None:
        self.most, self.place, self.count = most, 0, 0
        self._kept: deque[tuple[str, Message]] = deque(maxlen=most + _SPARE)
        self._results: dict[str, ToolResult] = {}

    def up_to(self, entries: Sequence[JournalEntry]) -> list[tuple[str, Message]]:
        """Return the messages after these entries, the oldest first, each with its name."""
        for at in range(self.place, len(entries)):
            self._read(entries[at])
        self.place = len(entries)
        return list(self._kept)[-self.most :] if self.most else []

    def _read(self, entry: JournalEntry) -> None:
        match entry:
            case Said():
                self._add(entry.message)
            case Replied() if entry.purpose is None:
                self._results.clear()
                self._add(entry.message)
            case ToolResulted():
                self._results[entry.call_id] = entry.result
            case ToolMessage():
                shown = entry.shown or {}
                found = [shown.get(id) or self._results.get(id) for id in entry.calls]
                self._add(
                    Message("tool", tuple([result for result in found if result is not None]))
                )
            case IterationEnd(verdict="dropped"):
                self._drop()
            case SessionReset():
                self._kept.clear()
            case _:
                pass

    def _add(self, message: Message) -> None:
        self.count += 1
        self._kept.append((f"turn:{self.count}", message))

    def _drop(self) -> None:
        for one in reversed(self._kept):
            if one[1].role == "assistant":
                self._kept.remove(one)
                return


def refs_of(pad: Pad | None, recent: Sequence[tuple[str, Message]]) -> dict[str, Ref]:
    """Return all that may be cited: the pad's refs, the last messages, and results in them.

    What was known first under a name keeps it: a provider chooses the ids of its calls.
    """
    known = {ref.id: ref for ref in (pad.refs if pad is not None else ())}
    for name, message in recent:
        known.setdefault(name, _ref(name, message))
    for _, message in recent:
        for result in results_in(message):
            made = Ref(result.id, "tool_result", result.name or None, excerpt(result.text) or None)
            known.setdefault(result.id, made)
    return known


def results_in(message: Message) -> list[ToolResult]:
    """Return the results that a message holds."""
    found = [block for block in message.content if isinstance(block, ToolResult) and block.id]
    return found[:BLOCKS]


def with_results(wanted: set[str | None], known: Mapping[str, Ref]) -> set[str | None]:
    """Add the results inside cited messages to the set of cited ids."""
    for id in list(wanted):
        ref = known.get(id) if id is not None else None
        if ref is not None and ref.kind == "tool" and ref.label is not None:
            wanted |= set(ref.label.split(", "))
    return wanted


def _ref(name: str, message: Message) -> Ref:
    if message.role == "tool":  # its results have names and excerpts of their own
        ids = [result.id for result in results_in(message)[:_LISTED]]
        return Ref(name, "tool", ", ".join(ids) or None)
    return Ref(name, message.role, None, excerpt(_words(message)) or None)


def _words(message: Message) -> str:
    calls = ", ".join([call.name for call in message.tool_calls])
    return message.text or (f"calls {calls}" if calls else "")

"""The view: the messages of a session's next request, folded from its journal.

Pure; the same fold serves a live run, a resume and a reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from windlass.errors import Corrupt
from windlass.events import (
    IterationEnd,
    JournalEntry,
    Replied,
    Reshaped,
    Said,
    SessionReset,
    ToolMessage,
    ToolResulted,
)
from windlass.messages import Message, ToolResult


class ViewFold:
    """The view so far: `fold.apply(entry)` for every entry, then read `fold.messages`.

    `messages` only ever grows; whatever else changes the view puts a new list in its place, so
    that a snapshot of the old one stays true. `results` holds what has come back from tools and
    has not joined the view yet.
    """

    __slots__ = ("held", "messages", "open", "results")

    def __init__(self, messages: list[Message] | None = None) -> None:
        self.messages: list[Message] = [] if messages is None else messages
        self.results: dict[str, ToolResult] = {}
        self.open = False  # the last reply's calls have no answer in the view yet
        self.held: list[Message] = []  # added meanwhile; they follow the results

    def hear_held(self) -> None:
        """Append the messages that arrived while calls were open."""
        self.open = False
        if self.held:
            self.messages.extend(self.held)
            self.held = []

    def apply(self, entry: JournalEntry) -> None:
        """Let the entry change the view; most entries do not."""
        change = _CHANGES.get(type(entry))
        if change is not None:
            change(self, entry)

    def apply_all(self, entries: Iterable[JournalEntry]) -> ViewFold:
        """Fold many entries; returns itself."""
        for entry in entries:
            self.apply(entry)
        return self


def messages_of(entries: Iterable[JournalEntry]) -> list[Message]:
    """Return the view after these entries."""
    return ViewFold().apply_all(entries).messages


def whole(messages: Sequence[Message], size: int) -> int:
    """Return the largest size up to `size` at which a view has no open call at its end."""
    size = max(0, min(size, len(messages)))
    while size and messages[size - 1].role == "assistant" and messages[size - 1].tool_calls:
        size -= 1
    return size


def _apply_said(fold: ViewFold, entry: Said) -> None:
    if fold.open:
        fold.held.append(entry.message)
    else:
        fold.messages.append(entry.message)


def _apply_reply(fold: ViewFold, entry: Replied) -> None:
    if entry.purpose is None:
        fold.messages.append(entry.message)
        fold.open = bool(entry.message.tool_calls)


def _apply_result(fold: ViewFold, entry: ToolResulted) -> None:
    result = entry.result
    if result.id != entry.call_id or not result.name:
        result = msgspec.structs.replace(result, id=entry.call_id, name=result.name or entry.tool)
    fold.results[entry.call_id] = result


def _apply_tool_message(fold: ViewFold, entry: ToolMessage) -> None:
    results, shown = fold.results, entry.shown
    blocks: list[ToolResult] = []
    for call_id in entry.calls:
        result = results.pop(call_id, None)
        if shown is not None and call_id in shown:
            result = shown[call_id]
        if result is None:
            raise Corrupt(f"a tool message holds the result of {call_id!r}, which never came")
        blocks.append(result)
    fold.messages.append(Message("tool", tuple(blocks)))
    fold.hear_held()


def _apply_reshape(fold: ViewFold, entry: Reshaped) -> None:
    if not 0 <= entry.start <= entry.stop <= len(fold.messages):
        raise Corrupt(
            f"messages {entry.start} to {entry.stop} of a view of {len(fold.messages)} "
            f"cannot be replaced ({entry.why})"
        )
    before, after = fold.messages[: entry.start], fold.messages[entry.stop :]
    fold.messages = [*before, *entry.messages, *after]
    if fold.open and not (fold.messages and fold.messages[-1].tool_calls):
        fold.hear_held()  # no answer is awaited any more


def _reset(fold: ViewFold, _entry: SessionReset) -> None:
    fold.messages = []
    fold.results.clear()
    fold.held, fold.open = [], False


def _apply_iteration_end(fold: ViewFold, entry: IterationEnd) -> None:
    if entry.verdict != "dropped":
        return
    for index in range(len(fold.messages) - 1, -1, -1):
        if fold.messages[index].role == "assistant":
            fold.messages = fold.messages[:index] + fold.messages[index + 1 :]
            fold.hear_held()
            return


_CHANGES: dict[type, Callable[[ViewFold, Any], None]] = {
    Said: _apply_said,
    Replied: _apply_reply,
    ToolResulted: _apply_result,
    ToolMessage: _apply_tool_message,
    Reshaped: _apply_reshape,
    SessionReset: _reset,
    IterationEnd: _apply_iteration_end,
}

"""A tool that brings back what has left the view: the journal keeps everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from windlass.events import JournalEntry, Replied, Said, SessionReset, ToolResulted
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.policies.compaction.cutting import SUMMARY, said
from windlass.tools.base import Retry, Tool

NAMES: Final = ("recall", "recall_earlier")  # the second where a tool of yours has the first
_PAGE: Final = 16_000  # characters in one answer
_FOUND: Final = 8  # places in one answer
_AROUND: Final = 300  # characters shown around a place
_DESCRIPTION = (
    "Bring back what is no longer shown of this conversation: the whole result of a tool call by its "
    "`id`, or the places where the words of `query` were said or returned. `start` goes on in a long text."
)
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The id of a call whose result left the view."},
        "query": {"type": "string", "description": "A few words to look for."},
        "start": {"type": "integer", "minimum": 0, "description": "The character to begin at."},
    },
    "additionalProperties": False,
}


def recall_tool(entries: Sequence[JournalEntry], name: str = NAMES[0]) -> Tool:
    """The tool over a session's entries, which may go on growing."""

    async def recall(args: dict[str, Any]) -> str | ToolResult:
        if call_id := args.get("id"):
            return _result(entries, call_id, args.get("start", 0))
        if query := args.get("query"):
            return _places(entries, query, name)
        raise Retry("give the id of a call, or words to look for as query")

    return Tool(name, _DESCRIPTION, _PARAMETERS, recall, side_effect_level="none", kind="search")


def _since_reset(entries: Sequence[JournalEntry]) -> Iterator[JournalEntry]:
    """The newest first, up to where somebody wanted all of it forgotten."""
    for entry in reversed(entries):
        if type(entry) is SessionReset:
            return
        yield entry


def _result(entries: Sequence[JournalEntry], call_id: str, start: int) -> str | ToolResult:
    for entry in _since_reset(entries):
        if type(entry) is ToolResulted and entry.call_id == call_id:
            content = entry.result.content
            if not isinstance(content, str) and any(type(part) is not Text for part in content):
                return ToolResult(content=content)
            return _page(entry.result.text, start)
        if type(entry) is Said:  # a history that was handed in has results of its own
            for block in entry.message.content:
                if type(block) is ToolResult and block.id == call_id:
                    return _page(block.text, start)
    raise Retry(f"no call has the id {call_id!r}; look for words with query")


def _page(text: str, start: int) -> str:
    rest = text[start : start + _PAGE]
    left = len(text) - start - len(rest)
    return (
        f"{rest}\n[{left:,} characters more from start={start + len(rest)}]" if left > 0 else rest
    )


def _places(entries: Sequence[JournalEntry], query: str, own: str) -> str:
    """Where the words stand: whole first, else wherever most of them do; the newest first."""
    wanted = list(dict.fromkeys(query.lower().split()))
    found: list[tuple[int, str]] = []
    for where, text in _texts(entries, own):
        low = text.lower()
        at = low.find(query.lower())
        score = len(wanted) + 1
        if at < 0:
            there = [low.find(word) for word in wanted]
            score = sum(place >= 0 for place in there)
            at = next((place for place in there if place >= 0), -1)
        if score:
            start = max(0, at - _AROUND)
            found.append((score, f"{where}:\n{text[start : at + len(query) + _AROUND]}"))
    if not found:
        return f"nothing in the conversation says {query!r}"
    best = sorted(found, key=lambda one: -one[0])[:_FOUND]
    return "\n\n".join(dict.fromkeys(text for _, text in best))


def _texts(entries: Sequence[JournalEntry], own: str) -> Iterator[tuple[str, str]]:
    for entry in _since_reset(entries):
        match entry:
            case ToolResulted() if entry.tool != own:  # what was recalled before is no new place
                yield f"result of {entry.tool}, id={entry.call_id}", entry.result.text
            case Replied(purpose=None):
                yield from _message(entry.message, own)
            case Said():
                yield from _message(entry.message, own)
            case _:
                pass


def _message(message: Message, own: str) -> Iterator[tuple[str, str]]:
    if message.kind == SUMMARY:
        return
    blocks = tuple([b for b in message.content if type(b) is not ToolCall or b.name != own])
    if text := said(Message(message.role, blocks), 1_000_000):
        yield message.role, text

"""A tool that brings back what has left the view: the journal keeps everything."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from windlass.events import JournalEntry, Replied, Said, SessionReset, ToolResulted
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.policies.compaction.cut import SUMMARY, render_message
from windlass.tools.tool import Retry, Tool

NAMES: Final = ("recall", "recall_earlier")  # the second where a tool of yours has the first
_PAGE: Final = 16_000  # characters in one answer
_FOUND: Final = 12  # places in one answer
_AROUND: Final = 200  # characters shown around a place
_SPOTS: Final = 50  # places that are looked at in one text
_DESCRIPTION = (
    "Bring back what is no longer shown of this conversation: the whole result of a tool call by its "
    "`id`, or the places where the words of `query` were said or returned. `start` goes on where an "
    "answer ended."
)
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The id of a call whose result left the view."},
        "query": {"type": "string", "description": "A few words to look for."},
        "start": {
            "type": "integer",
            "minimum": 0,
            "description": "The character, or the place, to begin at.",
        },
    },
    "additionalProperties": False,
}


def recall_tool(entries: Sequence[JournalEntry], name: str = NAMES[0]) -> Tool:
    """Build the tool over a session's entries, which may grow."""

    async def recall(args: dict[str, Any]) -> str | ToolResult:
        if call_id := args.get("id"):
            return _result(entries, call_id, args.get("start", 0))
        if query := args.get("query"):
            return _places(entries, query, name, args.get("start", 0))
        raise Retry("give the id of a call, or words to look for as query")

    tool = copy.copy(_build_tool(name))
    tool.handler = recall
    return tool


@functools.cache
def _build_tool(name: str) -> Tool:
    """Build the tool definition once, not for every run."""

    async def nowhere(args: dict[str, Any]) -> str:
        raise Retry("there is no conversation to look in")

    return Tool(
        name,
        _DESCRIPTION,
        _PARAMETERS,
        nowhere,
        side_effect_level="none",
        kind="search",
        annotations={"tool_class": "session_control", "pinned": True},
    )


def _since_reset(entries: Sequence[JournalEntry]) -> Iterator[JournalEntry]:
    """Yield the entries, the newest first, back to the last reset of the session."""
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


class _Place(NamedTuple):
    score: int
    where: str
    text: str
    at: int

    def render(self, around: int) -> str:
        start = max(0, self.at - _AROUND)
        return f"{self.where}:\n{self.text[start : self.at + around]}"


def _places(entries: Sequence[JournalEntry], query: str, own: str, start: int) -> str:
    """Find the places where all or most of the words stand together."""
    phrase = query.lower()
    wanted = list(dict.fromkeys(phrase.split()))
    once: dict[tuple[int, str], _Place] = {}
    for where, text in _texts(entries, own):
        for score, at in _spots(text.lower(), phrase, wanted):
            place = _Place(score, where, text, at)
            # the same sentence again is not another place
            once.setdefault((score, _sentence(text, at)), place)
    if not once:
        return f"nothing in the conversation says {query!r}"
    found: list[_Place] = []
    for score in sorted({score for score, _ in once}, reverse=True):
        found += _from_both_ends([p for p in once.values() if p.score == score])
    shown = [place.render(len(query) + _AROUND) for place in found[start : start + _FOUND]]
    left = len(found) - start - len(shown)
    if left > 0:
        shown.append(f"[{left:,} places more from start={start + len(shown)}]")
    return "\n\n".join(dict.fromkeys(shown)) or "there are no more places"


def _from_both_ends(places: list[_Place]) -> Iterator[_Place]:
    """Yield places alternately from the newest and the oldest."""
    low, high = 0, len(places) - 1
    while low <= high:
        yield places[low]
        if low < high:
            yield places[high]
        low, high = low + 1, high - 1


def _spots(low: str, phrase: str, wanted: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the best places of a text, scored by how many words are near."""
    if phrase in low:  # better still
        yield from [(2 * len(wanted) + 1, at) for at in _each(low, phrase)]
        return
    found = [(low.count(word), word) for word in wanted if word in low]
    if not found:
        return
    near: list[tuple[int, int]] = []
    for at in _each(low, min(found)[1]):  # the rarest of them
        around, sentence = low[max(0, at - _AROUND) : at + _AROUND], _sentence(low, at)
        near.append((sum((word in around) + (word in sentence) for _, word in found), at))
    best = max(near)[0]
    yield from [spot for spot in near if spot[0] == best]


def _sentence(text: str, at: int) -> str:
    before, after = text[max(0, at - _AROUND) : at], text[at : at + _AROUND]
    begin = max(before.rfind("\n"), before.rfind(". ") + 1)
    ends = [end for end in (after.find("\n"), after.find(". ")) if end >= 0]
    return before[begin + 1 :].lstrip() + after[: min(ends, default=len(after))]


def _each(low: str, word: str) -> Iterator[int]:
    """Yield the places of a word, skipping those that the same excerpt would show."""
    at = low.find(word)
    for _ in range(_SPOTS):
        if at < 0:
            return
        yield at
        at = low.find(word, at + _AROUND)


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
    if text := render_message(Message(message.role, blocks), 1_000_000):
        yield message.role, text

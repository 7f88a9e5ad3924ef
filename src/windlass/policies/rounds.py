"""Rounds of a conversation: where it may be cut, what must stay, and how long it is.

Not a policy. A round is a reply together with the answers to its calls, or a turn that its provider
paused together with what follows: providers refuse the one without the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windlass.events import Replied, RunStarted
from windlass.loop.run import Run
from windlass.messages import Message, Opaque, ToolResult

PINNED: Final = "pinned"  # the kind of a message that must stay in the view


def between(messages: Sequence[Message], at: int) -> bool:
    """Check whether this index is between two rounds."""
    before = messages[at - 1] if at else None
    if before is None or before.role != "assistant":
        return True
    goes_on = at < len(messages) and messages[at].role == "assistant"
    return not before.tool_calls and not goes_on


def round_at(messages: Sequence[Message], at: int) -> int:
    """Return the start of the round that this index is in."""
    while not between(messages, at):
        at -= 1
    return at


def unanswered_start(messages: Sequence[Message]) -> int:
    """Return the start of what the model has not answered yet, with its whole round."""
    at = len(messages)
    while at and messages[at - 1].role != "assistant":
        at -= 1
    if at == len(messages) and at and any(type(b) is Opaque for b in messages[-1].content):
        at -= 1  # a provider that paused its turn needs its own reply back
    return round_at(messages, at)


def first_said(messages: Sequence[Message], *, but: str) -> int | None:
    """Return the index of the first message to the model, the task; skip kind `but`."""
    places = [
        at
        for at, message in enumerate(messages)
        if message.role == "user"
        and message.kind != but
        and all(type(block) is not ToolResult for block in message.content)
    ]
    return next((at for at in places if messages[at].kind is None), places[0] if places else None)


def staying(messages: Sequence[Message], *, but: str) -> frozenset[int]:
    """Return the indexes of the task, of instructions, and of pinned messages."""
    first = first_said(messages, but=but)
    return frozenset(
        at
        for at, message in enumerate(messages)
        if at == first or message.role == "system" or message.kind == PINNED
    )


def estimate_view(run: Run) -> int:
    """Estimate the tokens of the view as `estimate_tokens` does; each message counts once."""
    messages = run.messages
    counted = run.view.count_characters(messages.strand, len(messages))
    return -(-counted // 4)


def under_way(run: Run) -> bool:
    """Check whether the model has replied in this session before this turn."""
    return run.number > 1 or _spoke_before(run)


def _spoke_before(run: Run) -> bool:
    known: bool | None = run.cache.get(_spoke_before)
    if known is None:
        entries = run.entries
        ours = len(entries)
        while ours and type(entries[ours - 1]) is not RunStarted:
            ours -= 1
        known = any(type(e) is Replied and e.purpose is None for e in entries[:ours])
        run.cache[_spoke_before] = known
    return known

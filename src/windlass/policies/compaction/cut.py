"""Cuts of a view: where it may be cut, what must stay, what replaces the rest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from windlass.messages import (
    Block,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from windlass.models.estimates import estimate_messages
from windlass.policies.rounds import PINNED, between, round_at
from windlass.policies.rounds import unanswered_start as fresh

_kind: Callable[[Any], Any] = type  # of a block: a cast would cost more than the look
SUMMARY: Final = "summary"  # the kind of a message that stands for others
BULKY: Final = 2_000  # characters of a result that is worth a reference
_CALLER: Final = (None, "steer", "follow_up", "resume")  # kinds of the caller's messages
_HEAD: Final = 200  # characters that stay of a result
_TOLD: Final = 800  # characters of its lines that look like findings
_TELLING: Final = ("error", "fail", "exception", "panic", "assert")
_LEFT: Final = "[the result of "
_EACH_WORD: Final = 8  # lines looked at for each of them


class Cut(NamedTuple):
    """Messages `start` to `stop` are removed, but for those that are pinned."""

    start: int
    stop: int


def find_pinned(messages: Sequence[Message]) -> frozenset[int]:
    """Return the indexes of the caller's first and last message, instructions and pins."""
    stay: set[int] = set()
    first = last = None
    for at, message in enumerate(messages):
        role = message.role
        if role == "user":
            kind = message.kind
            if kind in _CALLER:
                first, last = at if first is None else first, at
            elif kind == PINNED:
                stay.add(at)
        elif role == "system":
            stay.add(at)
    return frozenset(stay | {at for at in (first, last) if at is not None})


def cut_of(
    messages: Sequence[Message],
    keep_first: int,
    keep_last: int,
    stay: frozenset[int] | None = None,
) -> Cut | None:
    """Return what may go if so many messages are kept at both ends; None for nothing.

    More may be kept, never less: what stays begins and ends with whole rounds, and its end begins
    with something that was said to the model if that is near. `stay` is what is pinned.
    """
    start = min(keep_first, len(messages))
    while not between(messages, start) and start < len(messages):
        start += 1
    stop = max(start, min(len(messages) - keep_last, fresh(messages)))
    near = range(min(stop, len(messages) - 1), max(start, stop - keep_last - 1), -1)
    stop = next((at for at in near if _speaks(messages[at])), stop)
    stop = round_at(messages, stop)
    stay = find_pinned(messages) if stay is None else stay
    while start < stop and start in stay:
        start += 1  # the front of the view stays as it is, and so does what a provider cached of it
    if all(at in stay for at in range(start, stop)):
        return None
    return Cut(start, stop)


def _speaks(message: Message) -> bool:
    return message.role == "user" and message.kind != SUMMARY


def messages_to_archive(
    messages: Sequence[Message], cut: Cut, stay: frozenset[int] | None = None
) -> list[Message]:
    """Return the messages that go."""
    stay = find_pinned(messages) if stay is None else stay
    gone = list(messages[cut.start : cut.stop])
    for at in sorted(stay, reverse=True):
        if cut.start <= at < cut.stop:
            del gone[at - cut.start]
    return gone


def build_replacement(
    messages: Sequence[Message], cut: Cut, summary: str, stay: frozenset[int] | None = None
) -> list[Message]:
    """Build what replaces the cut: the pinned messages and the summary."""
    stay = find_pinned(messages) if stay is None else stay
    kept = [messages[at] for at in sorted(stay) if cut.start <= at < cut.stop]
    return [*kept, Message("user", (Text(summary),), SUMMARY)]


# --------------------------------------------------------------------------- results by reference


def shed(messages: Sequence[Message], cut: Cut, tool: str | None) -> list[Message] | None:
    """Replace bulky results in the cut by references; None if there are none.

    `tool` is the name of the tool that brings them back.
    """
    changed = False
    kept: list[Message] = []
    for message in messages[cut.start : cut.stop]:
        slim = _slim(message, tool)
        changed = changed or slim is not message
        kept.append(slim)
    return kept if changed else None


def shed_until(
    messages: Sequence[Message], cut: Cut, tool: str | None, excess: int
) -> tuple[Cut, list[Message]] | None:
    """Replace bulky results, the oldest first, until `excess` tokens are saved."""
    kept: list[Message] = []
    first = None
    for at in range(cut.start, cut.stop):
        if excess <= 0:
            break
        message = messages[at]
        slim = _slim(message, tool)
        if slim is not message:
            first = at if first is None else first
            excess -= estimate_messages([message]) - estimate_messages([slim])
        kept.append(slim)
    if first is None:
        return None
    kept = kept[first - cut.start :]
    return Cut(first, first + len(kept)), kept


def could_shed(upto: Sequence[int], cut: Cut) -> int:
    """Estimate the characters that references can save in the cut, from message sizes."""
    saved = 0
    before = upto[cut.start - 1] if cut.start else 0
    for after in upto[cut.start : cut.stop]:
        if (weight := after - before) > BULKY:
            saved += weight - _HEAD
        before = after
    return saved


def _slim(message: Message, tool: str | None) -> Message:
    blocks: list[Block] | None = None
    for at, block in enumerate(message.content):
        if type(block) is ToolResult and _is_bulky(block):
            if blocks is None:
                blocks = list(message.content)
            blocks[at] = reference(block, tool)
    return message if blocks is None else msgspec.structs.replace(message, content=tuple(blocks))


def _is_bulky(result: ToolResult) -> bool:
    content = result.content
    if type(content) is str:
        return len(content) > BULKY
    return any(type(part) is not Text for part in content) or len(result.text) > BULKY


def reference(result: ToolResult, tool: str | None) -> ToolResult:
    """Replace a result by its first words, its findings, and how to recall it."""
    text = result.text
    where = f'; {tool}(id="{result.id}") shows it' if tool is not None else ""
    notice = f"{_LEFT}{result.name or 'this call'} left the view: {len(text):,} characters"
    shown = f"{notice}{where}]\n{text[:_HEAD]}" if text else f"{notice}{where}]"
    if findings := _findings(text[_HEAD:]):
        shown = f"{shown}\n[…]\n{findings}"
    return msgspec.structs.replace(result, content=shown)


def is_reference(result: ToolResult) -> bool:
    """Check whether a result is a reference already."""
    content = result.content
    return isinstance(content, str) and content.startswith(_LEFT)


def _findings(text: str) -> str:
    """Return the lines that look like diagnostics, up to a limit."""
    low = text.lower()
    if len(low) != len(text):
        low = text  # a script in which small letters are longer: places must stay places
    places: list[int] = []
    for word in _TELLING:
        at = low.find(word)
        for _ in range(_EACH_WORD):
            if at < 0:
                break
            places.append(at)
            end = low.find("\n", at)
            at = low.find(word, end) if end >= 0 else -1
    if not places:
        return ""
    lines: dict[str, None] = {}
    room = _TOLD
    for at in sorted(places):
        end = text.find("\n", at)
        line = text[text.rfind("\n", 0, at) + 1 : len(text) if end < 0 else end][:200].strip()
        if line and line not in lines:
            room -= len(line)
            if room < 0:
                break
            lines[line] = None
    return "\n".join(lines)


# --------------------------------------------------------------------------- in words


def render_messages(messages: Sequence[Message], room: int, longest: int = 4_000) -> str:
    """Render messages as text of at most about `room` characters, cut in the middle."""
    longest = max(200, min(longest, room // 4))
    head, size = _upto(messages, room // 2, longest)
    rest = messages[len(head) :]
    tail, _ = _upto(rest[::-1], room - size, longest)
    gone = len(rest) - len(tail)
    middle = [f"[{gone} messages left out]"] if gone else []
    return "\n\n".join([part for part in (*head, *middle, *reversed(tail)) if part])


def _upto(messages: Sequence[Message], room: int, longest: int) -> tuple[list[str], int]:
    taken: list[str] = []
    size = 0
    for message in messages:
        part = render_message(message, longest)
        if size + len(part) > room:
            break
        taken.append(part)
        size += len(part)
    return taken, size


def render_message(message: Message, longest: int) -> str:
    """Render one message as text; a long one is cut in the middle."""
    lines: list[str] = []
    content: Any = message.content
    for block in content:
        kind = _kind(block)
        if kind is Text:
            if block.text:
                who = "NOTES SO FAR" if message.kind == SUMMARY else message.role.upper()
                lines.append(f"{who}: {_short(block.text, longest)}")
        elif kind is ToolCall:
            asked = block.raw or _encode(block.arguments).decode()
            lines.append(f"CALL {block.name} ({block.id}): {_short(asked, longest)}")
        elif kind is ToolResult:
            mark = ", failed" if block.is_error else ""
            lines.append(f"RESULT {block.name} ({block.id}{mark}): {_short(block.text, longest)}")
        elif kind is not Thinking:  # thinking alone is no message
            lines.append(f"{message.role.upper()}: [a {kind.__name__.lower()}]")
    return "\n".join(lines)


_encode = msgspec.json.Encoder(enc_hook=str).encode


def _short(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} […{len(text) - 2 * half} characters…] {text[-half:]}"


_MOST, _EACH = 15, 500


def truncate_messages(messages: Sequence[Message]) -> str:
    """Build a summary without a model: the first messages, each cut short."""
    lines = [_shortest(message) for message in messages[:_MOST]]
    if len(messages) > _MOST:
        lines.append(f"... and {len(messages) - _MOST} more")
    return "\n".join(line for line in lines if line)


def _shortest(message: Message) -> str:
    text = " ".join(render_message(message, 2 * _EACH).split())
    return text if len(text) <= _EACH else f"{text[: _EACH - 1]}…"

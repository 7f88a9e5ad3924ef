"""Differences of two requests: which message, which field, and the texts side by side."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.messages import Message, Text, Thinking, ToolCall, ToolResult
from windlass.models.base import Frame, Request

MOST_LINES = 80
MOST_COMPARED = 400  # lines of each side; difflib may take the square of it
_CONTEXT = 3  # lines around a difference
_NUMBERS = re.compile(r"([-+])(\d+)")


class Difference(msgspec.Struct, frozen=True):
    """The first place where a request is not as recorded."""

    where: str
    before: str = ""
    after: str = ""
    entry: int = 0  # that holds the recorded reply
    turn: int = 0
    request: int = 0  # counted from 1

    @property
    def diff(self) -> list[str]:
        """A unified diff of the texts."""
        if not (self.before or self.after):
            return []
        start, before, after = _differing_lines(self.before.splitlines(), self.after.splitlines())
        left_out = sum([max(len(side) - MOST_COMPARED, 0) for side in (before, after)])
        before, after = before[:MOST_COMPARED], after[:MOST_COMPARED]
        lines = list(difflib.unified_diff(before, after, "recorded", "now", lineterm=""))
        lines = [_shift_header(line, start) if line.startswith("@@") else line for line in lines]
        more = max(len(lines) - MOST_LINES, 0) + left_out
        return [*lines[:MOST_LINES], f"… and {more} lines more"] if more else lines


def _differing_lines(before: list[str], after: list[str]) -> tuple[int, list[str], list[str]]:
    """Return the first line number and the lines that differ, with some around them."""
    shortest = min(len(before), len(after))
    start = next((at for at in range(shortest) if before[at] != after[at]), shortest)
    same = range(1, shortest - start + 1)
    end = next((at - 1 for at in same if before[-at] != after[-at]), shortest - start)
    start, end = max(start - _CONTEXT, 0), max(end - _CONTEXT, 0)
    return start, before[start : len(before) - end], after[start : len(after) - end]


def _shift_header(line: str, by: int) -> str:
    """Shift the line numbers in the header of a hunk."""
    return _NUMBERS.sub(lambda found: f"{found[1]}{int(found[2]) + by}", line)


def first_difference(recorded: Request, now: Request) -> Difference | None:
    """Return the first difference, or None when the model would be asked the very same."""
    return (
        _frames(recorded.frame, now.frame)
        or _messages("messages", recorded.messages, now.messages)
        or _messages("tail", recorded.tail, now.tail)
    )


def _frames(recorded: Frame, now: Frame) -> Difference | None:
    if recorded.system != now.system:
        return Difference("the system prompt", recorded.system or "", now.system or "")
    old, new = ({tool.name: tool for tool in frame.tools} for frame in (recorded, now))
    if list(old) != list(new):
        gone, came = [n for n in old if n not in new], [n for n in new if n not in old]
        changes = [f"without {', '.join(gone)}"] if gone else []
        changes += [f"with {', '.join(came)}"] if came else []
        summary = "; ".join(changes) or "in another order"
        return Difference(f"the tools: {summary}", "\n".join(old), "\n".join(new))
    for name, tool in old.items():
        if tool != new[name]:
            for field in tool.__struct_fields__:
                one, two = getattr(tool, field), getattr(new[name], field)
                if one != two:
                    return Difference(f"tool {name!r}, its {field}", _text(one), _text(two))
    before, after = (msgspec.to_builtins(frame.settings) for frame in (recorded, now))
    if before != after:
        changed = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
        return Difference(f"the settings: {', '.join(changed)}", _text(before), _text(after))
    return None


def _messages(what: str, old: Sequence[Message], new: Sequence[Message]) -> Difference | None:
    for index, (one, two) in enumerate(zip(old, new, strict=False)):
        if one is not two and one != two:
            return _message(f"{what}[{index}]", one, two)
    if len(old) > len(new):
        missing = old[len(new)]
        return Difference(
            f"{what}[{len(new)}] ({missing.role}) is on record and not asked now",
            _render_message(missing),
        )
    if len(new) > len(old):
        added = new[len(old)]
        return Difference(
            f"{what}[{len(old)}] ({added.role}) is asked now and not on record",
            "",
            _render_message(added),
        )
    return None


def _message(where: str, old: Message, new: Message) -> Difference:
    if old.role != new.role:
        return Difference(
            f"{where}: the role",
            f"{old.role}\n{_render_message(old)}",
            f"{new.role}\n{_render_message(new)}",
        )
    for index, (one, two) in enumerate(zip(old.content, new.content, strict=False)):
        if one != two:
            place = f"{where} ({old.role}), content[{index}]"
            if type(one) is type(two):
                for field in one.__struct_fields__:
                    before, after = getattr(one, field), getattr(two, field)
                    if before != after:
                        named = f" of {one.name}" if isinstance(one, (ToolCall, ToolResult)) else ""
                        return Difference(f"{place}, {field}{named}", _text(before), _text(after))
            return Difference(place, _text(one), _text(two))
    if len(old.content) != len(new.content):
        many = f"{len(old.content)} blocks on record, {len(new.content)} now"
        return Difference(
            f"{where} ({old.role}): {many}", _render_message(old), _render_message(new)
        )
    return Difference(f"{where} ({old.role}): its kind", str(old.kind), str(new.kind))


def _render_message(message: Message) -> str:
    return "\n".join(_text(block) for block in message.content)


def _text(value: Any) -> str:
    match value:
        case str():
            return value
        case Text() | Thinking():
            return value.text
        case ToolResult():
            return value.text
        case _:
            try:
                plain = msgspec.json.encode(value, order="sorted")
                return msgspec.json.format(plain, indent=2).decode()
            except (TypeError, ValueError, OverflowError, RecursionError):
                return repr(value)

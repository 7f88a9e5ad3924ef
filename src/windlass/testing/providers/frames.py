"""Server-sent events before they are encoded, so that a twist can rewrite them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from windlass.json_types import JsonObject

Data: TypeAlias = JsonObject


class Frame(msgspec.Struct):
    """One event of a stream: its JSON, or plain text such as `[DONE]`.

    `padding` spaces stand before the closing brace, as some providers write them to hide lengths.
    """

    data: Data | str
    event: str | None = None
    padding: int = 0
    newline: str = "\n"
    before: str = ""  # written ahead of the event: a byte order mark, a comment
    split: bool = False  # two data lines for one event


Rewrite: TypeAlias = Callable[[Data], Data]
Reframe: TypeAlias = Callable[[list[Frame]], list[Frame]]


def encode(frame: Frame) -> bytes:
    """Encode the event, with the blank line that ends it."""
    text = frame.data if isinstance(frame.data, str) else msgspec.json.encode(frame.data).decode()
    if frame.padding:
        text = f"{text[:-1]}{' ' * frame.padding}{text[-1]}"
    end = frame.newline
    if frame.split:
        text = text.replace(',"', f',{end}data: "', 1)  # the first comma ends the first field
    name = f"event: {frame.event}{end}" if frame.event else ""
    return f"{frame.before}{name}data: {text}{end}{end}".encode()


def with_crlf(frames: list[Frame]) -> list[Frame]:
    """Write the same events in other ways: CRLF, comments, two data lines."""
    for frame in frames:
        frame.newline, frame.before = "\r\n", ": keep-alive\r\n\r\n"
        frame.split = isinstance(frame.data, dict)
    return frames


def with_mark(frames: list[Frame]) -> list[Frame]:
    """Put a byte order mark before the first event."""
    frames[0].before = "\ufeff"
    return frames

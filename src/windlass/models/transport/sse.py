"""Server-sent events: bytes in any pieces in, whole events out.

Knows lines and fields, nothing of any provider. An event is `(name, data)`; a comment is no event,
and an event whose blank line never came is never handed out.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from windlass.errors import BadReply

ServerEvent: TypeAlias = tuple[str, bytes]

MAX_EVENT: Final = 64 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


class SSEDecoder:
    r"""One stream's decoder: `SSEDecoder().feed(b"data: hi\n\n")` -> `[("", b"hi")]`.

    Lines are only ever cut at ASCII bytes, so a character split between two chunks is whole again
    in `data`, and turning bytes into text is left to the JSON decoder.
    """

    __slots__ = ("_after_cr", "_ends_line", "_fresh", "_limit", "_pending", "_size", "_started")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._pending: list[bytes] = []  # of the unfinished event; joined once, when it ends
        self._size = 0
        self._limit = limit
        self._ends_line = True  # a blank line that opens a chunk ends what is pending
        self._after_cr = False
        self._started = False
        self._fresh = False  # the last chunk ended with an event, and nothing waits

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that this chunk completes."""
        if self._fresh and chunk.endswith(b"\n\n") and chunk.find(b"\r") < 0:
            lines = chunk[:-2].split(b"\n")
            if len(lines) < 3:  # one event, as most chunks are: two have an empty line between them
                event = _event(lines)
                return [event] if event is not None else []
        blocks = self._blocks(chunk)
        self._fresh = self._started and not self._pending and not self._after_cr
        events = [_event(block.split(b"\n")) for block in blocks if block]
        return [event for event in events if event is not None]

    def _blocks(self, chunk: bytes) -> list[bytes]:
        """Return the raw blocks of the events that this chunk completes."""
        if not self._started:
            chunk = self._without_bom(chunk)
        if self._after_cr or b"\r" in chunk:
            chunk = self._one_newline(chunk)
        if not chunk:
            return []
        closes = b"\n\n" in chunk or (self._ends_line and chunk[0] == 10)
        self._ends_line = chunk[-1] == 10
        if not closes:
            self._pending.append(chunk)
            self._size += len(chunk)
            if self._size > self._limit:
                raise BadReply(f"the stream holds an event of more than {self._limit:,} bytes")
            return []
        if self._pending:
            self._pending.append(chunk)
            chunk = b"".join(self._pending)
            self._pending.clear()
            self._size = 0
        *blocks, rest = chunk.split(b"\n\n")
        if rest:
            self._pending.append(rest)
            self._size = len(rest)
        return blocks

    def _without_bom(self, chunk: bytes) -> bytes:
        start = b"".join([*self._pending, chunk])
        self._pending.clear()
        self._size = 0
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._pending.append(start)
            return b""
        self._started = True
        return start.removeprefix(_BOM)

    def _one_newline(self, chunk: bytes) -> bytes:
        # CR, LF and CRLF each end a line. A CR at the end of a chunk ends it at once, without
        # waiting to see whether a LF follows; if one does, it is dropped here.
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            if not chunk:
                self._after_cr = False
                return chunk
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _event(lines: list[bytes]) -> ServerEvent | None:
    last = lines[-1]
    if last.startswith(b"data: "):  # the two shapes that providers write
        if len(lines) == 1:
            return "", last[6:]
        if len(lines) == 2 and lines[0].startswith(b"event: "):
            return lines[0][7:].decode("utf-8", "replace"), last[6:]
    name, data = "", list[bytes]()
    for line in lines:
        field, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return (name, b"\n".join(data)) if data else None

"""JSON lines: bytes in any pieces in, whole lines out.

Knows lines, nothing of any provider. A blank line is a sign of life and no line.
"""

from __future__ import annotations

from windlass.errors import BadReply
from windlass.models.transport.sse import MAX_EVENT, ServerEvent


class LineDecoder:
    r"""One stream's decoder: `LineDecoder().feed(b'{"a":1}\n{"b"')` -> `[("", b'{"a":1}')]`.

    `rest` is the line that has not ended. A JSON text holds no bare line break, so every line is
    whole however its bytes were cut.
    """

    __slots__ = ("_limit", "_pending", "_size")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._pending: list[bytes] = []  # of the unfinished line; joined once, when it ends
        self._size = 0
        self._limit = limit

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the lines that this chunk completes."""
        if not self._pending and chunk.find(b"\n") == len(chunk) - 1:
            line = _bare(chunk[:-1])  # one whole line, as a server sends them
            return [("", line)] if line else []
        if b"\n" not in chunk:
            self._pending.append(chunk)
            self._size += len(chunk)
            if self._size > self._limit:
                raise BadReply(f"the stream holds a line of more than {self._limit:,} bytes")
            return []
        *lines, last = chunk.split(b"\n")
        lines[0] = b"".join([*self._pending, lines[0]])
        self._pending = [last] if last else []
        self._size = len(last)
        return [("", line) for line in map(_bare, lines) if line]

    @property
    def rest(self) -> bytes:
        """The text after the last line break."""
        return _bare(b"".join(self._pending))


def _bare(line: bytes) -> bytes:
    return line.strip(b" \t\r\xef\xbb\xbf")  # of which none can begin or end a JSON value

"""Amazon's event stream: binary frames in any pieces in, whole messages out, checked by their sums.

A frame is its length, the length of its headers, a sum of these two, the headers, the payload and
a sum of it all. Knows nothing of any provider.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct, error
from typing import Any, Final, TypeAlias
from zlib import crc32

from windlass.errors import BadReply

Headers: TypeAlias = dict[str, Any]

MAX_FRAME: Final = 25 * 1024 * 1024  # the protocol allows payloads of 24 MiB
_PRELUDE: Final = Struct(">III")
_SUM: Final = Struct(">I")
_SIZED: Final = Struct(">H")
_LEAST: Final = _PRELUDE.size + _SUM.size
# by type: true and false have no bytes, 6 and 7 say their length first, a time is milliseconds
_FIXED: Final = {
    2: Struct(">b"),
    3: Struct(">h"),
    4: Struct(">i"),
    5: Struct(">q"),
    8: Struct(">q"),
}


class EventStreamDecoder:
    """One stream's decoder: `feed` gives `(name, payload)` of every frame that a chunk completes.

    An event has its own name; an exception is named `exception:…`, and an error `error:…`.
    """

    __slots__ = ("_limit", "_pending", "_size", "_wanted")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._pending: list[bytes] = []  # of the unfinished frame; joined when there is enough
        self._size = 0
        self._limit = limit
        self._wanted = _PRELUDE.size  # bytes until there is something to look at

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """The frames that this chunk completes, named."""
        return [(_named(described), payload) for described, payload in self._split(chunk)]

    def frames(self, chunk: bytes) -> list[tuple[Headers, bytes]]:
        """The frames that this chunk completes, with all their headers."""
        return [(_headers(described), payload) for described, payload in self._split(chunk)]

    def _split(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """Headers and payload of every frame that is whole by now."""
        self._size += len(chunk)
        if self._size < self._wanted:
            self._pending.append(chunk)
            return []
        data = b"".join([*self._pending, chunk]) if self._pending else chunk
        found: list[tuple[bytes, bytes]] = []
        at, size = 0, len(data)
        while size - at >= _PRELUDE.size:
            total, described, told = _PRELUDE.unpack_from(data, at)
            if crc32(data[at : at + 8]) != told:
                raise BadReply("the reply is no event stream, or it was damaged on its way")
            if not _LEAST + described <= total <= self._limit:
                raise BadReply(f"the stream holds a frame of {total:,} bytes")
            if size - at < total:
                break
            end = at + total - 4
            if crc32(data[at:end]) != _SUM.unpack_from(data, end)[0]:
                raise BadReply("a frame of the stream was damaged on its way")
            start = at + _PRELUDE.size
            found.append((data[start : start + described], data[start + described : end]))
            at = end + 4
        rest = data[at:]
        self._pending = [rest] if rest else []
        self._size = len(rest)
        whole = self._size >= _PRELUDE.size
        self._wanted = _PRELUDE.unpack_from(rest)[0] if whole else _PRELUDE.size
        return found


@lru_cache(maxsize=64)
def _named(described: bytes) -> str:
    """The name in these headers. A stream says the same few again and again."""
    return _name(_headers(described))


def _name(headers: Headers) -> str:
    match headers.get(":message-type"):
        case "exception":
            return f"exception:{headers.get(':exception-type', '')}"
        case "error":
            words = headers.get(":error-message") or headers.get(":error-code") or ""
            return f"error:{words}"
        case _:
            return str(headers.get(":event-type", ""))


def _headers(raw: bytes) -> Headers:
    found: Headers = {}
    at = 0
    try:
        while at < len(raw):
            end = at + 1 + raw[at]
            name, kind = raw[at + 1 : end].decode(), raw[end]
            found[name], at = _value(raw, end + 1, kind)
    except (IndexError, ValueError, error):
        raise BadReply("the headers of a frame cannot be read") from None
    return found


def _value(raw: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (0, 1):
        return kind == 0, at
    if kind in (6, 7):
        start = at + _SIZED.size
        end = start + _SIZED.unpack_from(raw, at)[0]
        if end > len(raw):
            raise ValueError(kind)
        return (raw[start:end] if kind == 6 else raw[start:end].decode()), end
    if kind == 9:  # a UUID
        return raw[at : at + 16], at + 16
    if (fixed := _FIXED.get(kind)) is None:
        raise ValueError(kind)
    return fixed.unpack_from(raw, at)[0], at + fixed.size

"""Amazon's event stream: binary frames in any pieces in, checked messages out.

A frame is its length, the length of its headers, a sum of these two, the headers, the payload and
a sum of it all. Knows nothing of any provider.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct, error
from typing import Any, Final, TypeAlias, TypeVar
from zlib import crc32

from windlass.errors import BadReply
from windlass.json_types import JsonObject

Headers: TypeAlias = JsonObject
#: Of a frame: its length, where its payload begins, its headers, the sum up to there, its name.
_Start: TypeAlias = tuple[int, int, bytes, int, str]
_T = TypeVar("_T")

MAX_FRAME: Final = 25 * 1024 * 1024  # the protocol allows payloads of 24 MiB
_PRELUDE: Final = Struct(">III")
_SIZED: Final = Struct(">H")
_HEAD: Final = _PRELUDE.size
_number: Final = int.from_bytes  # high byte first, as all numbers here
_LEAST: Final = _HEAD + 4  # with the sum at its end
_sum_at: Final = Struct(">I").unpack_from
_MOST_KNOWN: Final = 256  # beginnings of frames that a stream may bring again
# by type: true and false have no bytes, 6 and 7 begin with their length, a time is milliseconds
_FIXED: Final = {
    2: Struct(">b"),
    3: Struct(">h"),
    4: Struct(">i"),
    5: Struct(">q"),
    8: Struct(">q"),
}


class EventStreamDecoder:
    """One stream's decoder: `feed` returns `(name, payload)` of every completed frame.

    An event has its own name; an exception is named `exception:…`, and an error `error:…`.
    """

    __slots__ = ("_known", "_limit", "_pending", "_size", "_wanted")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._pending: list[bytes] = []  # of the unfinished frame; joined when there is enough
        self._size = 0
        self._limit = limit
        self._wanted = _HEAD  # bytes until there is something to look at
        self._known: dict[bytes, _Start] = {}  # by their first bytes, of frames read before

    def take(self, chunk: bytes) -> tuple[str, bytes] | None:
        """Return the frame that this chunk is, as Amazon sends them; None: `feed` the chunk."""
        known = self._known.get(chunk[:_HEAD])
        if known is None or self._size:
            return None
        size, start, headers, checksum, name = known
        if len(chunk) != size or not chunk.startswith(headers, _HEAD):
            return None
        payload = chunk[start:-4]
        if crc32(payload, checksum) != _sum_at(chunk, -4)[0]:
            return None
        return name, payload

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """Return the frames that this chunk completes, by event name."""
        alone = self._size == 0
        found = self._split(chunk, _event_name)
        if alone and len(found) == 1 and not self._size and len(self._known) < _MOST_KNOWN:
            [(name, payload)] = found
            start = len(chunk) - 4 - len(payload)
            checksum = crc32(chunk[:start])
            self._known[chunk[:_HEAD]] = len(chunk), start, chunk[_HEAD:start], checksum, name
        return found

    def frames(self, chunk: bytes) -> list[tuple[Headers, bytes]]:
        """Return the frames that this chunk completes, with all their headers."""
        return self._split(chunk, _headers)

    def _split(self, chunk: bytes, read: Callable[[bytes], _T]) -> list[tuple[_T, bytes]]:
        """Return headers, parsed by `read`, and payload of every frame that is now complete."""
        self._size += len(chunk)
        if self._size < self._wanted:
            self._pending.append(chunk)
            return []
        data = b"".join([*self._pending, chunk]) if self._pending else chunk
        found: list[tuple[_T, bytes]] = []
        at, size = 0, len(data)
        wanted = _HEAD
        while size - at >= _HEAD:
            total, described = _sizes(data[at : at + _HEAD])
            if total > self._limit:
                raise BadReply(f"the stream holds a frame of {total:,} bytes")
            if size - at < total:
                wanted = total
                break
            end, start = at + total - 4, at + _HEAD + described
            if crc32(data[at:end]) != _number(data[end : end + 4]):
                raise BadReply("a frame of the stream was damaged on its way")
            found.append((read(data[at + _HEAD : start]), data[start:end]))
            at += total
        self._size, self._wanted = size - at, wanted
        self._pending = [data[at:]] if at < size else []
        return found


@lru_cache(maxsize=512)
def _sizes(prelude: bytes) -> tuple[int, int]:
    """Return the lengths of a frame and of its headers. Cached, as lengths repeat."""
    total, described, checksum = _PRELUDE.unpack(prelude)
    if crc32(prelude[:8]) != checksum:
        raise BadReply("the reply is no event stream, or it was damaged on its way")
    if total < _LEAST + described:
        raise BadReply(f"the stream holds a frame of {total:,} bytes")
    return total, described


@lru_cache(maxsize=64)
def _event_name(described: bytes) -> str:
    """Return the event name in these headers. Cached, as a stream repeats a few names."""
    return _name(_headers(described))


def _name(headers: Headers) -> str:
    match headers.get(":message-type"):
        case "exception":
            return f"exception:{headers.get(':exception-type', '')}"
        case "error":
            message = headers.get(":error-message") or headers.get(":error-code") or ""
            return f"error:{message}"
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

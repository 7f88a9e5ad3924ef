"""Text from whatever a tool returned: always valid UTF-8, never an exception.

What a model reads:

- a string as it is; what JSON writes as a string (a date, a UUID, a Decimal, a path, an enum) bare;
- `None` as `null`: right for "no such customer", and not wrong for "the mail is sent";
- bytes as text when they are UTF-8, else (and inside JSON) as base64;
- everything else as JSON. NaN and infinities inside it become null, as JSON cannot express them;
- what JSON cannot express (a cycle, endless nesting, an object that refuses) as a note in its place;
- what would be written out far larger than it is in memory (the same list in itself a thousand times)
  cut short, with a note.
"""

from __future__ import annotations

import base64
import enum
import json
from collections.abc import (
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    MappingView,
    Sequence,
    Set,
)
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import chain, islice
from pathlib import PurePath
from types import GeneratorType
from typing import Any, cast
from uuid import UUID

import msgspec

from windlass.json_types import is_mapping

# How large a value is once it is written out, each part as often as it is written.
#
# A list that holds one list a thousand times, which holds one list a thousand times, is small in memory
# and has no end on paper. What shares nothing is measured level by level, which is quick; the rest part
# by part, each of them once.


LARGEST = 16 * 1024 * 1024  # characters, about

_NUMBERS = frozenset({int, float, bool, type(None)})
_WORDS = frozenset({str, bytes, bytearray})
_SCALARS = _NUMBERS | _WORDS
_LISTS = frozenset({list, tuple, set, frozenset})
_values = cast("Any", dict).values
_EACH = 4  # characters beside the text of a part


def charge(value: Any, room: int) -> int:
    """Return the room left after the value is written; raise `OverflowError` below 0."""
    kind: type = cast("Any", type(value))
    if kind in _NUMBERS:
        left = room - _EACH
    elif kind in _WORDS:
        left = room - len(value)
    else:
        left = _by_levels(value, room)
        if left is None:
            left = room - _by_parts(value, room)
    if left < 0:
        raise OverflowError("too large to be written out")
    return left


def _by_levels(value: object, room: int) -> int | None:
    """Measure level by level; None where a container stands in more than one place."""
    level: list[Any] = [value]
    seen: set[int] = set()
    while level:
        items = _items(level)
        room -= _EACH * (len(items) + len(level))
        kinds = set(map(type, items))
        if not kinds.isdisjoint(_WORDS):
            room -= sum([len(item) for item in items if type(item) in _WORDS])
        if room < 0 or kinds <= _SCALARS:
            return room
        level = [item for item in items if type(item) not in _SCALARS]
        ids = set(map(id, level))
        if len(ids) < len(level) or not ids.isdisjoint(seen):
            return None
        seen |= ids
    return room


def _items(level: list[Any]) -> list[Any]:
    """Return what is directly inside these containers."""
    if len(level) == 1:
        return _inside(level[0])
    kinds = set(map(type, level))
    if kinds == {dict}:
        values: Iterable[Any] = chain.from_iterable(map(_values, level))
        return [*chain.from_iterable(level), *values]
    if kinds <= _LISTS:
        return list(chain.from_iterable(level))
    return list(chain.from_iterable(map(_inside, level)))


def _inside(value: object) -> list[Any]:
    kind: type = cast("Any", type(value))
    if kind is dict:
        fields = cast("dict[Any, Any]", value)
        return [*fields, *fields.values()]
    if kind in _LISTS:
        return list(cast("Iterable[Any]", value))
    names = fields_of(value)
    return [] if names is None else [*names, *(getattr(value, name, None) for name in names)]


def _by_parts(value: object, room: int) -> int:
    """Measure each container once; one that holds itself exceeds the room."""
    known: dict[int, int] = {}
    stack = [_Measuring(value)]
    while stack:
        top = stack[-1]
        part = next(top.rest, top)
        if part is top:
            stack.pop()
            known[id(top.container)] = top.size
            if stack:
                stack[-1].size += top.size
        elif (size := known.get(id(part))) is not None:
            top.size += size
        else:
            known[id(part)] = room + 1  # until it is measured: inside itself it has no end
            stack.append(_Measuring(part))
        if stack and stack[-1].size > room:
            return room + 1
    return known[id(value)]


class _Measuring:
    __slots__ = ("container", "rest", "size")

    def __init__(self, container: object) -> None:
        items = _inside(container)
        self.container = container
        self.size = _EACH * (len(items) + 1)
        self.size += sum([len(item) for item in items if type(item) in _WORDS])
        self.rest: Iterator[Any] = iter([item for item in items if type(item) not in _SCALARS])


def fields_of(value: object) -> list[str] | None:
    """Return the names of a struct's or dataclass's fields; None for other values."""
    kind = type(value)
    fields = getattr(kind, "__struct_fields__", None)
    if fields is None:
        fields = getattr(kind, "__dataclass_fields__", None)
    return None if fields is None else list(fields)


_DEEPEST = 64  # levels of nesting kept when the quick way gave up
_MOST = 100_000  # values kept when the quick way gave up
_ASKED = 400  # characters that an object counts beside what it is written as
_PLAIN_WORDS = (date, time, timedelta, UUID, Decimal, PurePath)


def to_text(value: object) -> str:
    """Convert a value to the text that a model reads: `to_text({"a": 1})` -> `{"a":1}`.

    It never raises.
    """
    if type(value) is str:
        return clean(value)
    if type(value) is int:
        return _int(value)
    if value is None:
        return "null"
    try:
        return _quick(value)
    except Exception:
        return _slow(value)


def clean(text: str) -> str:
    """Replace lone surrogates by `?`, so that the text always encodes to UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def endless(value: object) -> str | None:
    """Return why a tool's answer cannot be read (a generator, an open file), or None."""
    if isinstance(value, (str, int, float, dict, list, tuple)) or value is None:
        return None
    name = type(value).__name__
    if isinstance(value, (GeneratorType, Iterator)):
        return f"the tool returned a {name}, which can be read only once; return list(…) of it"
    if isinstance(value, AsyncIterable):
        return (
            f"the tool returned {_a(name)}, which only the tool can read; "
            "collect it into a list with `[item async for item in …]` and return that"
        )
    if isinstance(value, Awaitable):
        return f"the tool returned {_a(name)} that nobody awaited; await it and return its value"
    return None


def cap_result(text: str, max_bytes: int, call_id: str = "") -> str:
    """Cut a text to `max_bytes` of UTF-8: head, a marker with the size, and tail.

    The whole text stays in the journal under the call's id, and the marker says so.
    """
    if len(text) * 4 <= max_bytes or (text.isascii() and len(text) <= max_bytes):
        return text
    data = text.encode(errors="replace")
    if len(data) <= max_bytes:
        return text
    where = f"call {call_id}" if call_id else "the call's id"
    notice = f"[…truncated; full result {len(data)} bytes] (it is in the journal under {where})"
    marker = f"\n{notice}\n"
    room = max_bytes - len(marker.encode())
    if room <= 0:
        return _cut(data[: max(max_bytes, 0)])
    tail = room // 3
    head = _cut(data[: room - tail])
    end = _cut(data[len(data) - tail :]) if tail else ""
    return head + marker + end


def _cut(data: bytes) -> str:
    """Decode text after a cut in bytes; halves of characters are dropped."""
    return data.decode(errors="ignore")


def _a(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _quick(value: Any) -> str:
    kind: type = cast("Any", type(value))
    if kind is float:
        return _float(value)
    if kind is bytes or kind is bytearray:
        return _bytes(bytes(value))
    text = msgspec.json.encode(value, enc_hook=_SizeLimit(value)).decode()
    # a date or an enum reads better without the quotes
    return msgspec.json.decode(text, type=str) if text.startswith('"') else text


class _SizeLimit:
    """An `enc_hook` that also counts what is created while encoding."""

    __slots__ = ("left",)

    def __init__(self, value: object) -> None:
        self.left = charge(value, LARGEST)

    def __call__(self, value: object) -> Any:
        made = stand_in(value)
        self.left = charge(made, self.left - _ASKED)  # asking has a price, or it might never end
        return made


def stand_in(value: object) -> Any:
    """Convert what msgspec does not know, as its `enc_hook`."""
    known = _to_jsonable(value)
    if known is not _UNKNOWN:
        return known
    if is_mapping(value):
        return dict(islice(value.items(), _MOST))
    if isinstance(value, (Sequence, Set, MappingView)):
        return list(islice(cast("Iterable[object]", value), _MOST))
    return endless(value) or _safe_str(value)


_UNKNOWN = object()


def _to_jsonable(value: object) -> Any:
    """Convert well-known kinds of objects for JSON; `_UNKNOWN` for others."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {_safe_str(value)}"
    dump: Callable[..., Any] | None = getattr(type(value), "model_dump", None)
    if callable(dump):  # a pydantic model; asked by name so that pydantic is not imported here
        return dump(value, mode="json")
    as_list = getattr(type(value), "tolist", None)
    if callable(as_list):  # arrays and their scalars
        return as_list(value)
    return _UNKNOWN


def _slow(value: object) -> str:
    """Convert slowly and safely: bounded in depth and size, with cycles cut."""
    try:
        tree = _Tree().of(value, 0)
        if isinstance(tree, str):
            return clean(tree)
        return clean(json.dumps(tree, ensure_ascii=False, separators=(",", ":")))
    except Exception as error:
        return f"(a {type(value).__name__} that cannot be shown: {type(error).__name__})"


class _Tree:
    """A walk through a value that always ends."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.left = _MOST
        self.room = LARGEST  # for characters

    def of(self, value: object, depth: int) -> Any:
        self.left -= 1
        if value is None or type(value) is bool:
            return value
        if isinstance(value, enum.Enum):
            return self.of(value.value, depth)
        if isinstance(value, str):
            return self._fitting(str.__str__(value))
        if isinstance(value, int):
            return int(value) if abs(int(value)) < 1 << 1024 else _int(int(value))
        if isinstance(value, float):
            return float(value) if _finite(value) else None
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._fitting(base64.b64encode(cast("bytes", value)).decode())
        if self.left < 0:
            return "(left out: the value is too large)"
        if depth > _DEEPEST:
            return "(left out: nested too deeply)"
        if id(value) in self.open:
            return "(left out: it contains itself)"
        self.open.add(id(value))
        try:
            return self._inside(value, depth + 1)
        except Exception as error:
            return f"(a {type(value).__name__} that cannot be shown: {type(error).__name__})"
        finally:
            self.open.discard(id(value))

    def _fitting(self, text: str) -> str:
        self.room -= len(text)
        return text if self.room >= 0 else "(left out: the value is too large)"

    def _inside(self, value: object, depth: int) -> Any:
        if is_mapping(value):
            pairs = value.items()
            return {self._key(key, depth): self.of(item, depth) for key, item in self._some(pairs)}
        if isinstance(value, (list, tuple, Set)):
            return [self.of(item, depth) for item in self._some(cast("Iterable[Any]", value))]
        fields = fields_of(value)
        if fields is not None:
            return {name: self.of(getattr(value, name, None), depth) for name in fields}
        if isinstance(value, _PLAIN_WORDS):
            return str(msgspec.to_builtins(value, enc_hook=stand_in))
        other = stand_in(value)
        return other if isinstance(other, str) else self.of(other, depth)

    def _some(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if self.left < 0:
                return
            yield item

    def _key(self, key: object, depth: int) -> str:
        plain = self.of(key, depth)
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _safe_str(value: object) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"(a {type(value).__name__} whose text cannot be shown: {type(error).__name__})"


def _int(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # beyond sys.get_int_max_str_digits()
        return hex(value)


def _finite(value: float) -> bool:
    return value - value == 0


def _float(value: float) -> str:
    if _finite(value):
        return repr(value)
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()

"""The messages of a request without copying them: a growing strand, and snapshots of it.

A wire keeps the bytes it made of a strand beside it, so that every message is encoded once however
many requests carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from windlass.messages import Message


class Strand:
    """Messages that only ever grow. Whatever else changes makes a new strand."""

    __slots__ = ("derived", "encoded", "items")

    def __init__(self, items: list[Message] | None = None) -> None:
        self.items: list[Message] = items if items is not None else []
        self.encoded: dict[str, list[bytes]] = {}
        self.derived: dict[str, Strand] | None = None

    def snapshot(self) -> View:
        """The messages as they are now; later ones do not show."""
        return View(self, len(self.items))


class View(Sequence[Message]):
    """The first `size` messages of a strand."""

    __slots__ = ("size", "strand")

    def __init__(self, strand: Strand, size: int) -> None:
        self.strand, self.size = strand, size

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self.size)
            if step < 0:  # a list counts differently when it walks backwards
                start, stop, step = index.indices(self.size)
            return self.strand.items[start:stop:step]
            return self.strand.items[start:stop:step]
        if index < 0:
            index += self.size
        if not 0 <= index < self.size:
            raise IndexError(index)
        return self.strand.items[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self.strand.items[: self.size])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)  # pyright: ignore[reportUnknownArgumentType]

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<View of {self.size} messages>"


def pieces(
    messages: Sequence[Message], key: str, encode: Callable[[Message], bytes]
) -> Sequence[bytes]:
    """The bytes of each message under `key` (a wire and its model), encoding only what is new.

    The list may be longer than `messages` where the strand has grown since; take the first
    `len(messages)`.
    """
    if not isinstance(messages, View):
        return [encode(message) for message in messages]
    done = messages.strand.encoded.setdefault(key, [])
    for message in messages.strand.items[len(done) : messages.size]:
        done.append(encode(message))
    return done


def derive(
    messages: Sequence[Message], key: str, convert: Callable[[Message], Message]
) -> Sequence[Message]:
    """The same messages in another form, each converted once however many requests carry it."""
    if not isinstance(messages, View):
        return [convert(message) for message in messages]
    strand = messages.strand
    if strand.derived is None:
        strand.derived = {}
    other = strand.derived.get(key)
    if other is None:
        other = strand.derived[key] = Strand()
    for message in strand.items[len(other.items) : messages.size]:
        other.items.append(convert(message))
    return View(other, messages.size)

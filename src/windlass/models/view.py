"""The messages of a request without a copy: a growing strand, and snapshots of it.

A wire keeps the bytes it made of a strand beside it, so that every message is encoded once however
many requests carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from windlass.messages import Message, Text


class Strand:
    """A list of messages that only grows. Any other change makes a new strand."""

    __slots__ = ("audited", "derived", "encoded", "items", "weights")

    def __init__(self, items: list[Message] | None = None) -> None:
        self.items: list[Message] = items if items is not None else []
        self.encoded: dict[str, EncodedMessages] = {}
        self.derived: dict[str, Strand] | None = None
        self.audited = 0  # messages in which every call is known to have its result
        self.weights: list[int] = []  # running total of characters, for size estimates

    def append(self, message: Message) -> None:
        """Append a message; text of the user after complete rounds leaves no call to check."""
        if self.audited == len(self.items) and message.role == "user":
            if all([type(block) is Text for block in message.content]):
                self.audited += 1
        self.items.append(message)

    def snapshot(self) -> View:
        """Return the messages as they are now, without later ones."""
        return View(self, len(self.items))

    def drop_last(self) -> Message:
        """Remove the last message, and its encoded bytes."""
        self.encoded.clear()
        self.derived = None
        self.audited = 0
        self.weights = []
        return self.items.pop()


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
            if step < 0:  # a list would read a stop of -1 as its last item
                return self.strand.items[: self.size][index]
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


class EncodedMessages:
    """The bytes of a strand's messages: blocks of 64 joined, and the last few one by one.

    Joining keeps the list short, so that the request of a long run is as quickly put together and
    sent as that of a short one.
    """

    __slots__ = ("blocks", "recent")

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.recent: list[bytes] = []

    def add(self, piece: bytes) -> None:
        """Append the bytes of the next message."""
        if len(self.recent) >= _BLOCK:  # never empty after that: the last piece stays a small one
            self.blocks.append(b"".join(self.recent))
            self.recent = []
        self.recent.append(piece)


_BLOCK = 64


def pieces(
    messages: Sequence[Message], key: str, encode: Callable[[Message], bytes]
) -> list[bytes]:
    """Encode the messages under `key` (a wire and its model); only new ones cost work.

    Several messages may share a piece; joined, the pieces are the messages in their order.
    """
    if not isinstance(messages, View):
        return [encode(message) for message in messages]
    strand, size = messages.strand, messages.size
    done = strand.encoded.get(key)
    if done is None:
        done = strand.encoded[key] = EncodedMessages()
    joined = len(done.blocks) * _BLOCK
    for message in strand.items[joined + len(done.recent) : size]:
        done.add(encode(message))
    joined = len(done.blocks) * _BLOCK
    if size > joined:
        return [*done.blocks, *done.recent[: size - joined]]
    # a snapshot from before the last block was joined
    whole = size // _BLOCK
    return [*done.blocks[:whole], *map(encode, strand.items[whole * _BLOCK : size])]


def encode_in_context(
    messages: Sequence[Message], key: str, encode: Callable[[Sequence[Message], int], bytes]
) -> list[bytes]:
    """Encode messages whose bytes depend on those before them: `encode(all, index)`."""
    if not isinstance(messages, View):
        return [encode(messages, at) for at in range(len(messages))]
    items, size = messages.strand.items, messages.size
    done = messages.strand.encoded.get(key)
    if done is None:
        done = messages.strand.encoded[key] = EncodedMessages()
    for at in range(len(done.blocks) * _BLOCK + len(done.recent), size):
        done.add(encode(items, at))
    joined = len(done.blocks) * _BLOCK
    if size > joined:
        return [*done.blocks, *done.recent[: size - joined]]
    whole = size // _BLOCK
    rest = range(whole * _BLOCK, size)
    return [*done.blocks[:whole], *[encode(items, at) for at in rest]]


def derive(
    messages: Sequence[Message], key: str, convert: Callable[[Message], Message]
) -> Sequence[Message]:
    """Convert each message once, however many requests carry it."""
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

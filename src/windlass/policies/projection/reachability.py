"""`reachability_gc`: results that nothing recent refers to become references.

Roots are the last messages, what is pinned, the scratchpad, and texts of yours. A result is reached
when a root names its call, or a word that its call was made with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from windlass.events import JournalEntry, Replied, Said, ToolMessage
from windlass.loop.run import Run
from windlass.messages import Block, Message, ToolCall, ToolResult
from windlass.models.base import Strand
from windlass.models.estimates import weigh_messages
from windlass.policies.compaction.cut import find_pinned, is_reference, reference
from windlass.policies.projection.edits import Edit, edit
from windlass.policies.projection.failures import is_failure

_TELLING: Final = (4, 200)  # characters of an argument that can name what a result is about


class Roots:
    """The texts and ids in which references to results are looked for."""

    def __init__(self, texts: Sequence[str], ids: frozenset[str] = frozenset()) -> None:
        self.text, self.ids = "\n".join(texts), ids

    def reach(self, result: ToolResult, call: ToolCall | None) -> bool:
        """Check whether anything refers to this result."""
        if result.id in self.ids or (result.id and result.id in self.text):
            return True
        strings = _strings(call.arguments) if call is not None else ()
        low, high = _TELLING
        return any(low <= len(word) <= high and word in self.text for word in strings)


class Bodies:
    """The indexes of results long enough to go: each message is read once."""

    def __init__(self, min_chars: int) -> None:
        self.min_chars = min_chars
        self.strand: Strand | None = None
        self.place, self.found = 0, list[int]()

    def upto_now(self, run: Run) -> Bodies:
        """Read what is new in the view."""
        strand = run.messages.strand
        items = strand.items
        if self.strand is not strand or self.place > len(items):
            self.strand, self.place, self.found = strand, 0, []
        return self.read(items)

    def read(self, items: Sequence[Message]) -> Bodies:
        """Read further messages."""
        for at in range(self.place, len(items)):
            for block in items[at].content:
                if type(block) is ToolResult and _collectable(block, self.min_chars):
                    self.found.append(at)
                    break
        self.place = len(items)
        return self


def collect_unreachable(
    view: Sequence[Message], bodies: Bodies, roots: Roots, stop: int, tool: str | None
) -> list[Edit]:
    """Replace the results before `stop` that nothing refers to by references."""
    edits: list[Edit] = []
    for at in bodies.found:
        if at >= stop:
            break
        message = view[at]
        calls = {call.id: call for call in view[at - 1].tool_calls} if at else {}
        unreached = {
            block.id
            for block in message.content
            if type(block) is ToolResult
            and _collectable(block, bodies.min_chars)
            and not roots.reach(block, calls.get(block.id))
        }
        if not unreached:
            continue
        blocks: list[Block] = [
            _by_reference(block, tool)
            if type(block) is ToolResult and block.id in unreached
            else block
            for block in message.content
        ]
        slim = msgspec.structs.replace(message, content=tuple(blocks))
        found = edit(view, at, at + 1, (slim,))
        if found is not None:
            edits.append(found)
    return edits


def _collectable(result: ToolResult, min_chars: int) -> bool:
    content = result.content
    size = (
        len(content) if isinstance(content, str) else weigh_messages((Message("tool", (result,)),))
    )
    return size >= min_chars and not is_failure(result) and not is_reference(result)


def _by_reference(result: ToolResult, tool: str | None) -> ToolResult:
    """Return the reference, where it is shorter."""
    slim = reference(result, tool)
    smaller = weigh_messages((Message("tool", (slim,)),)) < weigh_messages(
        (Message("tool", (result,)),)
    )
    return slim if smaller else result


def shed_by(view: Sequence[Message], edits: Sequence[Edit]) -> tuple[str, ...]:
    """Return the ids of the calls with results that are now references."""
    return tuple(
        [
            new.id
            for one in edits
            if len(one.messages) == one.stop - one.start
            for message, old in zip(one.messages, view[one.start : one.stop], strict=True)
            for new, was in zip(message.content, old.content, strict=False)
            if type(new) is ToolResult and new is not was
        ]
    )


def roots_of(
    view: Sequence[Message],
    stop: int,
    pad: Any,
    entries: Sequence[JournalEntry],
    texts: Sequence[str],
) -> Roots:
    """Collect the roots: messages from `stop` on, pinned ones, the pad, and your texts."""
    stay = find_pinned(view)
    strings = [*texts]
    for at, message in enumerate(view):
        if at >= stop or at in stay:
            strings += _words(message)
    if pad is None:
        return Roots(strings)
    plain = msgspec.to_builtins(pad)
    named = frozenset(_strings(plain))
    return Roots([*strings, *named], named | _turns(named, entries))


def _words(message: Message) -> Iterator[str]:
    yield message.text
    for block in message.content:
        if type(block) is ToolCall:
            yield from _strings(block.arguments)
        elif type(block) is ToolResult:
            yield block.id
            yield block.text


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[Any, Any]", value).values():
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[Any]", value):
            yield from _strings(item)


def _turns(named: frozenset[str], entries: Sequence[JournalEntry]) -> frozenset[str]:
    """Return the calls in the messages that a pad names `turn:N`, in recorded order."""
    if not any(name.startswith("turn:") for name in named):
        return frozenset()
    found: set[str] = set()
    count = 0
    for entry in entries:
        ids: Sequence[str] = ()
        if type(entry) is ToolMessage:
            ids = entry.calls
        elif type(entry) is Replied and entry.purpose is None:
            ids = [call.id for call in entry.message.tool_calls]
        elif type(entry) is Said:
            ids = [b.id for b in entry.message.content if isinstance(b, (ToolCall, ToolResult))]
        else:
            continue
        count += 1
        if f"turn:{count}" in named:
            found.update(ids)
    return frozenset(found)

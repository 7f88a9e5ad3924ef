"""The pad: goals, open items, facts and sources; its form and its size limit.

A host and a model use the same form: a fact cites its source, and a source is listed. The pad is
small, so that it fits in every request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr, whole_text
from windlass.events import AgentScratchpad

NAME: Final = "scratchpad"  # of the policy, of its memory, and of its model calls
SCHEMA: Final = "agent_scratchpad.v1"
INITIAL: Final = "user:initial"  # the ref that is the task
MOST: Final = 16 * 1024  # bytes of a pad's JSON
_PARTS: Final = ("goals", "open_items", "facts")
_FIELDS: Final = ("schema", *_PARTS, "refs")

Wrong: TypeAlias = Literal["shape", "ref", "size"]


class BadPad(ConfigError):
    """A value that is no scratchpad; `wrong` names its shape, a ref or its size."""

    def __init__(self, words: str, wrong: Wrong = "shape") -> None:
        super().__init__(words)
        self.wrong: Wrong = wrong


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """A goal, an open item or a fact, and its source."""

    text: str
    source_ref: str | None = None


Items: TypeAlias = tuple[Item, ...]


class Ref(msgspec.Struct, frozen=True, omit_defaults=True):
    """A source that can be cited: a message, a tool's result, a document of the host."""

    id: str
    kind: str
    label: str | None = None
    excerpt: str | None = None


class Pad(msgspec.Struct, frozen=True):
    """A working memory: goals, open items, facts, and their sources."""

    schema: str = SCHEMA
    goals: Items = ()
    open_items: Items = ()
    facts: Items = ()
    refs: tuple[Ref, ...] = ()

    @property
    def items(self) -> Iterable[Item]:
        """All items that may cite a source."""
        return (*self.goals, *self.open_items, *self.facts)

    @property
    def counts(self) -> dict[str, int]:
        """The number of items of each kind."""
        return {name: len(getattr(self, name)) for name in (*_PARTS, "refs")}


class Scratch(msgspec.Struct, frozen=True):
    """A session's memory: its pad, and the number of its changes."""

    pad: Pad | None = None
    version: int = 0


def as_data(pad: Pad | None) -> dict[str, Any] | None:
    """Convert the pad to plain data, with lists as in JSON."""
    return None if pad is None else msgspec.json.decode(_encode(pad))


def size_of(pad: Pad) -> int:
    """Return the size of the pad's JSON in bytes."""
    return len(_encode(pad))


def pad_entry(action: Any, state: Scratch, reason: str | None = None) -> AgentScratchpad:
    """Build the entry that records a change of the pad."""
    pad = state.pad or _EMPTY
    size = size_of(state.pad) if state.pad is not None else 0
    return AgentScratchpad(action, state.version, pad.counts, size, reason)


def within(pad: Pad, name: str = "the scratchpad") -> Pad:
    """Check that the pad is not too large, and return it."""
    size = size_of(pad)
    if size > MOST:
        raise BadPad(
            f"{name} is {size:,} bytes of JSON, and {MOST:,} are the most: shorten it", "size"
        )
    return pad


# --------------------------------------------------------------------------- reading one


def read_pad(value: object, name: str = "scratchpad") -> Pad:
    """Parse a pad that a host wrote, or raise `BadPad` with what is wrong."""
    if isinstance(value, Pad):
        value = msgspec.to_builtins(value)
    if not isinstance(value, Mapping):
        raise BadPad(f"{name} is a dict with {', '.join(_FIELDS[1:])}, not {safe_repr(value)}")
    data = cast("Mapping[Any, Any]", value)
    for key in data:
        if key not in _FIELDS:
            raise BadPad(f"{name} has no key {safe_repr(key)}{_hint(key, _FIELDS)}")
    if data.get("schema", SCHEMA) != SCHEMA:
        raise BadPad(f"{name}.schema is {SCHEMA!r}, not {safe_repr(data['schema'])}")
    refs = [_ref(one, f"{name}.refs[{at}]") for at, one in enumerate(_list(data, "refs", name))]
    known = {ref.id for ref in refs}
    if len(known) < len(refs):
        raise BadPad(f"{name}.refs lists an id twice: each ref is listed once", "ref")
    pad = Pad(SCHEMA, *parts(data, name), tuple(refs))
    if INITIAL not in known and any(item.source_ref == INITIAL for item in pad.items):
        pad = msgspec.structs.replace(pad, refs=(Ref(INITIAL, "user"), *pad.refs))
        known.add(INITIAL)
    check_citations(pad, known, name)
    return within(pad, name)


def parts(
    given: Mapping[Any, Any], name: str, *, whole: bool = False
) -> tuple[Items, Items, Items]:
    """Parse goals, open items and facts; with `whole` none may be missing."""
    read: dict[str, Items] = {}
    for part in _PARTS:
        if whole and part not in given:
            raise BadPad(f"{name} has no {part}: give all of {', '.join(_PARTS)}")
        listed = _list(given, part, name)
        read[part] = tuple([_item(one, f"{name}.{part}[{n}]") for n, one in enumerate(listed)])
    return read["goals"], read["open_items"], read["facts"]


def check_citations(pad: Pad, known: Iterable[str], name: str) -> None:
    """Refuse a fact without a source, and any citation of an unknown one."""
    for part in _PARTS:
        for at, item in enumerate(cast("Items", getattr(pad, part))):
            if item.source_ref is None and part == "facts":
                raise BadPad(f"{name}.facts[{at}] has no source_ref: a fact cites a ref", "ref")
            if item.source_ref is not None and item.source_ref not in known:
                raise BadPad(
                    f"{name}.{part}[{at}] cites {safe_repr(item.source_ref)}, which is no known ref"
                    f"{nearest(item.source_ref, known)}",
                    "ref",
                )


def _list(given: Mapping[Any, Any], part: str, name: str) -> Sequence[Any]:
    value = given.get(part)
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise BadPad(f"{name}.{part} is a list, not {safe_repr(value)}")
    return cast("Sequence[Any]", value)


def _item(value: object, name: str) -> Item:
    if isinstance(value, str):
        value = {"text": value}
    fields = _fields(value, name, ("text", "source_ref"))
    text = _text(fields.get("text"), f"{name}.text")
    if text is None:
        raise BadPad(f"{name} has no text")
    return Item(text, _text(fields.get("source_ref"), f"{name}.source_ref"))


def _ref(value: object, name: str) -> Ref:
    if isinstance(value, str):
        value = {"id": value}
    fields = _fields(value, name, ("id", "kind", "label", "excerpt"))
    id, kind, label, excerpt = (
        _text(fields.get(one), f"{name}.{one}") for one in ("id", "kind", "label", "excerpt")
    )
    if id is None:
        raise BadPad(f"{name} has no id")
    return Ref(id, kind or "external", label, excerpt)


def _fields(value: object, name: str, known: tuple[str, ...]) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise BadPad(f"{name} is a dict with {' and '.join(known[:2])}, not {safe_repr(value)}")
    fields = cast("Mapping[Any, Any]", value)
    for key in fields:
        if key not in known:
            raise BadPad(f"{name} has no key {safe_repr(key)}{_hint(key, known)}")
    return fields


def _text(value: object, name: str) -> str | None:
    """Return a stripped text; None for a blank one."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadPad(f"{name} is a text, not {safe_repr(value)}")
    return whole_text(str.__str__(value)).strip() or None


def _hint(key: object, known: Iterable[str]) -> str:
    return nearest(key, known) if isinstance(key, str) else ""


_EMPTY = Pad()
_encode = msgspec.json.Encoder().encode

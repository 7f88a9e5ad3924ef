"""Cache marks of an Anthropic Messages request, set as edits of its encoded bytes.

The marks move from turn to turn and are no part of what is cached, so a message's own bytes stay
what they were and only the copy in this request is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windlass.json_types import JsonObject
from windlass.messages import Message
from windlass.models.base import Settings
from windlass.models.wires.json_values import dumps

LOOK_BACK: Final = 20  # blocks before a mark in which the provider looks for what it has cached
_PLAIN: Final = {"type": "ephemeral"}


def mark_of(settings: Settings, caching: bool) -> JsonObject | None:
    """Return the cache mark to set, or None; `settings.cache` overrides the model's default.

    A `cache_control` in `extra` (one with `ttl` "1h", say) is the mark for every place, as a longer
    life may not stand behind a shorter one.
    """
    own = settings.extra or {}
    if "cache_control" in own:
        return own["cache_control"] or None
    wanted = caching if settings.cache is None else settings.cache
    return _PLAIN if wanted else None


def add_cache_mark(piece: bytes, mark: JsonObject) -> bytes:
    """Set the cache mark on the last block of an encoded message."""
    end = b"}]}," if piece.endswith(b",") else b"}]}"
    return piece.removesuffix(end) + b',"cache_control":' + dumps(mark) + end


def mark_before(body: list[bytes], after: int, mark: JsonObject) -> None:
    """Set the mark on the message that ends `after` bytes before the end of these pieces.

    The comma behind it may be counted with what follows: the last message may have lost its own.
    """
    for at in range(len(body) - 1, -1, -1):
        size = len(body[at])
        if after < size:
            cut = size - after
            body[at] = add_cache_mark(body[at][:cut], mark) + body[at][cut:]
            return
        after -= size


def last_answered(messages: Sequence[Message], skip: int) -> int | None:
    """Return the index of the last message that the previous request already held.

    This is the message before the last reply.
    """
    at = len(messages) - 1
    while at >= skip and messages[at].role != "assistant":
        at -= 1
    while at >= skip and messages[at].role == "assistant":
        at -= 1
    return at if at >= skip else None

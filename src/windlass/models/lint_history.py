"""Check of a saved history: would a provider accept the request that a run would send?

What a run repairs by itself, and what it cannot carry over from another provider, is listed too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final

import msgspec

from windlass.errors import ConfigError
from windlass.messages import Image, Message, Opaque, Origin, Text, Thinking, ToolCall, ToolResult
from windlass.models.base import Request
from windlass.models.history import repair
from windlass.models.wires.base import HttpModel
from windlass.models.wires.rules import Data, Rejected

_NEXT: Final = Message("user", (Text("Continue."),))  # a next user message
_OWN_WORDS: Final = "the request ends in the model's own words"


class Verdict(msgspec.Struct, frozen=True):
    """The verdict of a provider on a history."""

    provider: str
    model: str
    refused: str | None = None  # the provider's reason
    repaired: tuple[str, ...] = ()  # what would be refused, had the run not mended it
    lost: tuple[str, ...] = ()  # what is not sent


def judge(model: HttpModel, request: Request) -> Verdict:
    """Check this request against the rules of the model's provider."""
    messages, problems = repair([*request.messages, *request.tail])
    if messages and messages[-1].role == "assistant":
        messages.append(_NEXT)
    sent = Request(messages, request.frame)
    repaired = [problem for problem in problems if problem != _OWN_WORDS]
    body: Data = {}
    try:
        written = b"".join(model.encode(sent))
        body = msgspec.json.decode(written)
        refused = _request_problem(model, sent, body)
        repaired += _rewrites(model, messages, written.decode())
    except (ConfigError, msgspec.DecodeError) as error:
        refused = str(error)
    lost = tuple(_lost_state(model, messages))
    return Verdict(model.provider, model.name, refused, tuple(repaired), lost)


def _request_problem(model: HttpModel, request: Request, body: Data) -> str | None:
    caps = model.capabilities
    tools = len(request.tools)
    if caps.max_tools is not None and tools > caps.max_tools:
        return f"{tools} tools are offered, and it takes {caps.max_tools} at most"
    if not request.messages:
        return "there is no message in it"
    try:
        import_module(model.rules).check(body, **model.rule_options(body))
    except Rejected as refusal:
        where = f" (at {refusal.param})" if refusal.param else ""
        return f"{refusal.message}{where}"
    return next(_pictures(model, request.messages), None)


def _pictures(model: HttpModel, messages: Sequence[Message]) -> Iterator[str]:
    taken = model.image_types
    for at, block in _blocks(messages):
        if isinstance(block, Image) and not model.capabilities.images:
            yield f"message {at} holds a picture, and the model takes none"
        if not taken:
            continue
        if isinstance(block, Image) and block.url is None and block.media_type not in taken:
            yield f"message {at} holds a picture of the type {block.media_type}, which it does not take"


# --------------------------------------------------------------------------- what changes on the way


def _rewrites(model: HttpModel, messages: Sequence[Message], written: str) -> Iterator[str]:
    """Yield what is rewritten in the request: ids, names, empty messages, images in results."""
    ids: set[str] = set()
    names: set[str] = set()
    media = empty = 0
    for message in messages:
        empty += not any(_says(block) for block in message.content)
        for block in message.content:
            if isinstance(block, ToolCall):
                ids.add(block.id)
                names.add(block.name)
            elif isinstance(block, ToolResult) and not isinstance(block.content, str):
                media += any(not isinstance(part, Text) for part in block.content)
    quoted = '"id"' in written or '"call_id"' in written or '"toolUseId"' in written
    if quoted and (other := sorted(id_ for id_ in ids if _json(id_) not in written)):
        yield f"{_count(len(other), 'call id')} written otherwise, as {other[0]!r}"
    if other := sorted(name for name in names if _json(name) not in written):
        yield f"{_count(len(other), 'tool name')} written otherwise, as {other[0]!r}"
    if empty:
        yield f"{_count(empty, 'empty message')} left out"
    if media and not model.capabilities.media_results and model.moves_result_media:
        yield f"pictures in {_count(media, 'tool result')} follow as the user's"


def _says(block: object) -> bool:
    return not isinstance(block, Text) or bool(block.text.strip())


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _lost_state(model: HttpModel, messages: Sequence[Message]) -> Iterator[str]:
    """Yield the state that is bound to another provider or model and gets dropped."""
    own_origin = Origin(model.provider, model.name)
    thoughts: Counter[str] = Counter()
    native: Counter[str] = Counter()
    for _, block in _blocks(messages):
        origin: Any = getattr(block, "origin", None)
        owner = "an unknown model" if origin is None else f"{origin.provider}:{origin.model}"
        if isinstance(block, Thinking) and origin != own_origin:
            thoughts[owner] += 1
        elif isinstance(block, Opaque) and origin != own_origin:
            native[owner] += 1
    yield from (f"{_count(n, 'thought')} of {who} dropped" for who, n in thoughts.items())
    yield from (f"{_count(n, 'block')} only {who} understands dropped" for who, n in native.items())


def _blocks(messages: Sequence[Message]) -> Iterator[tuple[int, object]]:
    for at, message in enumerate(messages):
        for block in message.content:
            yield at, block
            if isinstance(block, ToolResult) and not isinstance(block.content, str):
                yield from ((at, part) for part in block.content)


def _count(number: int, one: str) -> str:
    return f"{number} {one}{'' if number == 1 else 's'}"

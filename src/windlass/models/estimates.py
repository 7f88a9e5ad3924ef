"""Token estimates of requests and replies, for budgets and providers that do not count.

An estimate is no less than two thirds of what tokenizers with a large vocabulary take.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import ref

import msgspec

from windlass.messages import (
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    characters,
    weigh_text,
)
from windlass.models.base import Frame, Model, Request, Response, Strand, View
from windlass.usage import Usage

log = logging.getLogger("windlass")

#: Counts of fewer tokens than this share of the estimate are no counts.
LEAST_SHARE = 1 / 50
_BYTES = 4 / LEAST_SHARE  # of a request, that cannot be one token
_CALL = 80  # characters around the arguments of a call: 20 tokens
_FEW = 200  # tokens of a reply; fewer are compared with its text
_PICTURE = 4_800  # characters; about 1,200 tokens
_kind: Callable[[Any], Any] = type  # of a block: a cast would cost more than the check
_uncounted: set[tuple[str, str]] = set()  # models that were reported not to count
_frames: dict[int, tuple[ref[Frame], int]] = {}
_encode = msgspec.json.Encoder().encode


def weigh_frame(frame: Frame) -> int:
    """Count the characters of a frame, once for as long as the frame is alive."""
    key = id(frame)
    found = _frames.get(key)
    if found is not None and found[0]() is frame:
        return found[1]
    weight = weigh_text(frame.system) if frame.system else 0
    weight += sum([len(_json(tool)) for tool in frame.tools])
    if frame.settings.schema is not None:
        weight += len(_json(frame.settings.schema))
    _frames[key] = (ref(frame, lambda _gone: _frames.pop(key, None)), weight)
    return weight


def _json(value: object) -> bytes:
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(value).encode("utf-8", "backslashreplace")


def estimate_request(request: Request) -> int:
    """Estimate the tokens of a request: `estimate_request(Request(messages, frame))`."""
    weight = weigh_frame(request.frame) + characters(request.messages) + characters(request.tail)
    return weight // 4 + 1


def estimate_reply(message: Message) -> int:
    """Estimate the tokens of a reply, complete or not."""
    # what a provider's own tools brought is no output of the model
    content = tuple([block for block in message.content if type(block) is not Opaque])
    named = sum([len(call.name) + _CALL for call in message.tool_calls])
    return -(-(characters((Message("assistant", content),)) + named) // 4)


# Estimates of a view, for whoever compacts it.


def estimate_messages(messages: Sequence[Message]) -> int:
    """Estimate the tokens of messages: characters over four."""
    return weigh_messages(messages) // 4


def weigh_messages(messages: Iterable[Message]) -> int:
    """Count the characters of messages, nearly as `characters` does and three times as fast.

    A picture counts as what providers charge for one.
    """
    weights: list[int] = []
    add_weights(weights, messages)
    return weights[-1] if weights else 0


def add_weights(weights: list[int], messages: Iterable[Message]) -> None:
    """Append the running total of characters for each of these messages."""
    total = weights[-1] if weights else 0
    for message in messages:
        content: Any = message.content
        for block in content:
            kind = _kind(block)
            if kind is ToolResult:
                inner = block.content
                total += len(inner) if type(inner) is str else _parts(inner)
            elif kind is ToolCall:
                total += _arguments(block)
            elif kind is Text or kind is Thinking:
                total += len(block.text)
            else:
                total += 64 if kind is Opaque else _PICTURE
        weights.append(total)


def _parts(content: Sequence[Text | Image | Document]) -> int:
    return sum([len(part.text) if isinstance(part, Text) else _PICTURE for part in content])


def _arguments(call: ToolCall) -> int:
    size = 0
    for value in call.arguments.values():
        if type(value) is str:
            size += len(value) + 12
        elif type(value) is int:
            size += 14
        else:
            return characters((Message("assistant", (call,)),))
    return size


def estimate_view(view: View) -> int:
    """Estimate the tokens of all messages of a view's strand; each is counted once."""
    items, weights = view.strand.items, view.strand.weights
    if weights is None:
        weights = view.strand.weights = []
    if len(weights) != len(items):
        add_weights(weights, items[len(weights) :])
    return weights[-1] // 4 if weights else 0


def bound_messages(strand: Strand) -> int:
    """Return how many tokens `estimate_view` gives at most; one step for all new messages."""
    items, (known, tokens) = strand.items, strand.bound
    if known != len(items):
        tokens += _bound_new(items[known:])
        strand.bound = (len(items), tokens)
    return tokens


def _bound_new(messages: list[Message]) -> int:
    try:
        data = _encode(messages)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return weigh_messages(messages) // 4 + 1
    pictures = data.count(b'"image"') + data.count(b'"document"')
    # short arguments weigh up to twice what they are in JSON
    return (2 * len(data) + pictures * _PICTURE) // 4


def estimate_frame(frame: Frame) -> int:
    """Estimate the tokens of a frame without a look at the schemas of its tools."""
    chars = len(frame.system or "") + sum([len(t.description) + 200 for t in frame.tools])
    return chars // 4


# Counts of providers, and what is in their place where they cannot be true.


def fill_usage(model: Model, request: Request, response: Response) -> Response:
    """Estimate the usage of a reply where the model counts nothing; warn once.

    A reply that names its price and no tokens is not a model's: it comes from a cache, for example.
    """
    usage = response.usage
    if usage.input_tokens or usage.output_tokens or usage.cost_usd is not None:
        return response
    return _estimate_missing(model, request, response)


def check_usage(model: Model, request: Request, response: Response, size: int) -> Response:
    """Estimate the usage where the server's counts cannot be true.

    `size` is that of the request, in bytes as sent.

    A server may count nothing, or next to nothing.
    """
    usage = response.usage
    if usage.input_tokens * _BYTES >= size and usage.output_tokens >= _FEW:
        return response
    return _estimate_missing(model, request, response)


def _estimate_missing(model: Model, request: Request, response: Response) -> Response:
    usage = response.usage
    inputs, outputs = estimate_request(request), estimate_reply(response.message)
    lost_input = usage.input_tokens < inputs * LEAST_SHARE
    lost_output = usage.output_tokens < outputs * LEAST_SHARE
    if not (lost_input or lost_output):
        return response
    _say_once(model)
    counted = msgspec.structs.replace(
        usage,
        input_tokens=inputs if lost_input else usage.input_tokens,
        output_tokens=outputs if lost_output else usage.output_tokens,
        estimated=True,
    )
    return msgspec.structs.replace(response, usage=counted)


def usage_of_part(request: Request, part: Response) -> Usage:
    """Return the usage of a reply that broke off: counted if the server did, else estimated."""
    usage = part.usage
    return msgspec.structs.replace(
        usage,
        input_tokens=usage.input_tokens or estimate_request(request),
        output_tokens=max(usage.output_tokens, estimate_reply(part.message)),
        estimated=True,
    )


def usage_of_request(request: Request) -> Usage:
    """Estimate the usage of a request that was sent and brought no reply."""
    return Usage(estimate_request(request), estimated=True)


def _say_once(model: Model) -> None:
    name = (model.provider, model.name)
    if name not in _uncounted:
        _uncounted.add(name)
        log.warning("%s:%s does not count its tokens: they are estimated", *name)

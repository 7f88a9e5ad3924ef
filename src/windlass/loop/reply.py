"""A model's reply, fit for the record: a model of the user's own may answer anything.

What can be mended is mended (half characters, impossible counts), a call whose arguments no JSON
can hold keeps their text in `raw`, and what is no reply at all is a `BadReply`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import msgspec

from windlass import seams
from windlass.errors import BadReply, attribute, safe_repr
from windlass.events import Entry
from windlass.json_types import JsonObject
from windlass.loop.turn import UNNAMED
from windlass.messages import (
    Block,
    Document,
    Image,
    Message,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
)
from windlass.models.base import Aside, Model, Response, StopReason
from windlass.tools.render import clean, to_text
from windlass.usage import NO_USAGE, Usage

log = logging.getLogger("windlass")

_MOST = 2**53  # tokens; who counts further does not count
_MAYBE_TEXT = (type(None), str)
_REASONS = frozenset(get_args(StopReason))
_looked_at: Usage = NO_USAGE  # a model that does not count gives the same each time
_NONE: tuple[object, ...] = ()  # there is one empty tuple
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def accept_reply(response: object, ids: set[str]) -> Response:
    """Return the reply as it can be counted, written and sent back; mostly it is so already.

    Its calls have ids that are not among `ids`, and these are there from now on.
    """
    try:
        if type(response) is Response and (
            response.usage is _looked_at or _possible(response.usage)
        ):
            message, name, native_id = response.message, response.model, response.native_id
            if (
                type(message) is Message
                and message.role == "assistant"
                and type(message.content) is tuple
                and response.stop_reason in _REASONS
                and message.kind is None
                and response.via is None
                and response.shortened is None
                and response.provider is None
                and response.asides is _NONE
                and response.notes is _NONE
                and type(response.attempts) is int
                and (name is None or _is_name(name))
                and (native_id is None or _is_name(native_id))
                and _new(message.content, ids)
            ):
                return response
    except Exception:
        pass  # something in it refuses even to be looked at
    return _assign_call_ids(repair_reply(response), ids)


def _is_name(value: object) -> bool:
    """Tell at a glance whether this is a text that can be written."""
    return type(value) is str and value.isascii()


def _new(content: tuple[Block, ...], ids: set[str]) -> bool:
    """Check quickly whether all of this can be encoded, and whether its calls are new."""
    for block in content:
        if type(block) is ToolCall:
            call_id = block.id
            if _writable(block) and call_id and block.name and call_id not in ids:
                ids.add(call_id)
                continue
        elif type(block) is Text and type(block.text) is str and block.text.isascii():
            continue
        for other in content:
            if other is block:
                return False
            if type(other) is ToolCall:
                ids.discard(other.id)
    return True


def _writable(call: ToolCall) -> bool:
    """Check quickly whether this call can be encoded and decoded again."""
    if call.raw is not None or call.opaque is not None or call.origin is not None:
        return False
    if type(call.id) is str and type(call.name) is str and type(call.arguments) is dict:
        try:
            # Null may have been no number. (`in` takes four times as long as `find`.)
            return _encode(call).find(b"null") < 0
        except (TypeError, ValueError, OverflowError, RecursionError):
            pass
    return False


def writable(call: object) -> bool:
    """Check whether this call can be encoded exactly as it is."""
    try:
        return type(call) is ToolCall and (_writable(call) or _call(call) is call)
    except BadReply:
        return False


def _assign_call_ids(response: Response, ids: set[str]) -> Response:
    """Give every call of the reply an id of its own, and a name."""
    blocks = list(response.message.content)
    for index, block in enumerate(blocks):
        if type(block) is ToolCall:
            call_id = block.id if block.id and block.id not in ids else seams.new_id("call")
            name = block.name or UNNAMED  # providers refuse to read a call without a name again
            if call_id != block.id or name != block.name:
                blocks[index] = msgspec.structs.replace(block, id=call_id, name=name)
            ids.add(call_id)
    message = Message("assistant", tuple(blocks), response.message.kind)
    return msgspec.structs.replace(response, message=message)


def cost_of(model: Model, usage: Usage) -> float | None:
    """Return the model's price for the usage; None when it has none."""
    try:
        cost = model.price(usage)
        if type(cost) is float and 0 <= cost < _MOST:
            return cost
        if isinstance(cast("object", cost), (int, float)) and 0 <= cost < _MOST:
            return float(cost)
        log.warning("%s: %s is no price; it is not counted", safe_repr(model), safe_repr(cost))
    except Exception:
        log.exception("%s: price() failed; nothing is counted", safe_repr(model))
    return None


def attempts_of(error: BaseException) -> int:
    """Return how often the provider was asked in vain."""
    told = attribute(error, "attempts")
    return max(1, _count(int(told))) if told is not None and told.isdecimal() else 1


def _possible(usage: object) -> bool:
    """Check whether it is a Usage in which every count is valid."""
    global _looked_at
    if usage is _looked_at:
        return True
    if type(usage) is not Usage:
        return False
    inputs, outputs = usage.input_tokens, usage.output_tokens
    if not (type(inputs) is int and type(outputs) is int and inputs >= 0 and outputs >= 0):
        return False
    others = usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens
    if not all([type(count) is int and 0 <= count < _MOST for count in others]):
        return False
    usd, gpu = usage.cost_usd, usage.gpu_ms
    if not (type(gpu) is float and 0 <= gpu < _MOST and type(usage.estimated) is bool):
        return False
    if inputs + outputs >= _MOST or not (usd is None or (type(usd) is float and 0 <= usd < _MOST)):
        return False
    _looked_at = usage
    return True


# --------------------------------------------------------------------------- with care


def repair_reply(response: object) -> Response:
    """Check and mend a reply part by part; its ids are left as they are."""
    if not isinstance(response, Response):
        raise _no_reply(response)
    message = cast("object", response.message)
    if not isinstance(message, Message) or type(message.role) is not str:
        raise _no_reply(response)
    if message.role != "assistant":
        raise _no_reply(response)
    if not isinstance(cast("object", message.content), tuple):
        raise _no_reply(response)
    old = cast("tuple[object, ...]", message.content)
    blocks = tuple([_block(block) for block in old])
    kind = _text_or_none(message.kind)
    if kind is not message.kind or any(
        new is not was for new, was in zip(blocks, old, strict=True)
    ):
        message = Message("assistant", blocks, kind)
    reason = cast("object", response.stop_reason)
    return Response(
        message,
        _usage(response.usage),
        cast("Any", clean(reason) if isinstance(reason, str) else "unknown"),
        _text_or_none(response.model),
        _text_or_none(response.native_id),
        _text_or_none(response.provider),
        _text_or_none(response.via),
        _asides(response.asides),
        max(1, _count(response.attempts)),
        _notes(response.notes),
        _text_or_none(response.shortened),
    )


def _notes(notes: object) -> tuple[Entry, ...]:
    given = cast("tuple[object, ...]", notes) if isinstance(notes, tuple) else ()
    return tuple([note for note in given if isinstance(note, Entry)])


def _asides(asides: object) -> tuple[Aside, ...]:
    """Return the asides that can be recorded; others are logged and not counted."""
    kept: list[Aside] = []
    for aside in cast("tuple[object, ...]", asides) if isinstance(asides, tuple) else ():
        try:
            if isinstance(aside, Aside) and isinstance(cast("object", aside.purpose), str):
                paid = float(aside.cost_usd) if 0 <= aside.cost_usd < _MOST else 0.0
                took = float(aside.duration_ms) if 0 <= aside.duration_ms < _MOST else 0.0
                bare = msgspec.structs.replace(aside.response, asides=())
                kept.append(Aside(clean(aside.purpose), repair_reply(bare), paid, took))
        except (BadReply, TypeError, ValueError):
            log.warning("a reply beside the answer is not counted: %s", safe_repr(aside))
    return tuple(kept)


def _no_reply(found: object) -> BadReply:
    return BadReply(
        f"a model must answer a Response with an assistant message, not {safe_repr(found, 200)}"
    )


def _block(block: object) -> Block:
    match block:
        case Text():
            text = _text(block.text, block)
            return block if text is block.text else Text(text)
        case ToolCall():
            return _call(block)
        case Thinking():
            _json(block.opaque, block)
            _origin(block.origin, block)
            text = _text(block.text, block)
            return block if text is block.text else Thinking(text, block.opaque, block.origin)
        case Opaque():
            _json(block.data, block)
            _origin(block.origin, block)
            return block
        case Image() | Document():
            _json(block, block)
            for name in block.__struct_fields__:
                if not isinstance(getattr(block, name), _MAYBE_TEXT):
                    raise _no_block(block)
            return block
        case _:
            raise _no_block(block)


def _call(call: ToolCall) -> ToolCall:
    """Return the call with arguments as a journal and a wire can hold them."""
    _json(call.opaque, call)
    _origin(call.origin, call)
    given_id, raw = cast("object", call.id), cast("object", call.raw)
    call_id = given_id if isinstance(given_id, str) and clean(given_id) is given_id else ""
    name = _text(call.name, call)
    arguments = _arguments(call.arguments)
    if arguments is None:
        raw, arguments = to_text(call.arguments), {}
    elif raw is not None:
        raw = _text(raw, call)
    if call_id is call.id and name is call.name and raw is call.raw and arguments is call.arguments:
        return call
    return ToolCall(call_id, name, arguments, raw, call.opaque, call.origin)


def _arguments(given: object) -> JsonObject | None:
    """Return the arguments, or None for what JSON cannot hold."""
    if not isinstance(given, dict):
        return None
    arguments = cast("dict[Any, Any]", given)
    try:
        try:
            written = _decode(_encode(arguments))
        except UnicodeEncodeError:
            arguments = _whole(arguments)
            written = _decode(_encode(arguments))
        if written == arguments:
            return arguments
        # other than it was: keys that were numbers and tuples read the same; no number is null
        return written if _finite(arguments) else None
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {_whole(k): _whole(v) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in cast("Sequence[Any]", value)]
    return value


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return value - value == 0
    if isinstance(value, Mapping):
        return all(map(_finite, cast("Mapping[Any, Any]", value).values()))
    if isinstance(value, (list, tuple)):
        return all(map(_finite, cast("Sequence[Any]", value)))
    return True


def _text(value: object, block: object) -> str:
    if not isinstance(value, str):
        raise _no_block(block)
    return clean(value)


def _text_or_none(value: object) -> str | None:
    return clean(value) if isinstance(value, str) else None


def _json(value: object, block: object) -> None:
    try:
        _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise _no_block(block) from None


def _origin(value: object, block: object) -> None:
    if value is None and not isinstance(block, Opaque):
        return
    if not isinstance(value, Origin) or clean(f"{value.provider}{value.model}") == "":
        raise _no_block(block)
    _json(value, block)


def _no_block(block: object) -> BadReply:
    return BadReply(
        f"a reply is made of text, thinking and tool calls, not of {safe_repr(block, 200)}"
    )


def _usage(usage: object) -> Usage:
    if usage is None:
        return NO_USAGE
    if not isinstance(usage, Usage):
        raise BadReply(f"the usage of a reply is a Usage, not {safe_repr(usage, 200)}")
    if _possible(usage):
        return usage
    cost = cast("object", usage.cost_usd)
    paid = isinstance(cost, (int, float)) and not isinstance(cost, bool) and 0 <= cost < _MOST
    return Usage(
        _count(usage.input_tokens),
        _count(usage.output_tokens),
        _count(usage.cache_read_tokens),
        _count(usage.cache_write_tokens),
        _count(usage.reasoning_tokens),
        float(cast("float", cost)) if paid else None,
        _amount(usage.gpu_ms),
        usage.estimated is True,
    )


def _amount(value: object) -> float:
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _MOST
    return float(cast("float", value)) if fine else 0.0


def _count(value: object) -> int:
    """Return the value as a count of at least 0."""
    if isinstance(value, float):
        value = int(value) if 0 <= value <= _MOST else 0
    return min(int(value), _MOST) if isinstance(value, int) and value > 0 else 0

"""Results of tools: answers and failures as a model sees them."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, cast, get_args

import msgspec

from windlass.errors import StoreError, whole_text
from windlass.json_types import JsonObject, as_given, is_sequence
from windlass.messages import (
    Document,
    Image,
    Outcome,
    Text,
    ToolCall,
    ToolResult,
    find_media_problem,
)
from windlass.tools.render import clean, endless, to_text

BLOCKS = (Text, Image, Document)
_QUICK = (int, bool, dict, float, type(None))
_OUTCOMES: tuple[object, ...] = get_args(Outcome)
_LONGEST = 8192  # bytes of an error's message
_LONGEST_TRACEBACK = 16_384  # characters; the last frames are kept
_PACKAGE = f"{Path(__file__).resolve().parents[1]}{os.sep}"


def answer(value: Any) -> ToolResult:
    """Build the result for whatever a handler returned.

    A `ToolResult` stays as it is, pictures and documents stay blocks, all else becomes text.
    """
    if type(value) is str:
        return ToolResult(content=clean(value))
    if type(value) in _QUICK:
        return ToolResult(content=to_text(value))
    if isinstance(value, ToolResult):
        return _tidy(value)
    if isinstance(value, BLOCKS):
        return ToolResult(content=(_block(value),))
    if is_sequence(value):
        items = tuple(value)
        if any(isinstance(item, BLOCKS) for item in items):
            return ToolResult(content=tuple(_block(item) for item in items))
    why = endless(value)
    if why is not None:
        close = getattr(value, "close", None)
        if callable(close):  # a coroutine that is not awaited would warn
            close()
        return refusal(why)
    return ToolResult(content=to_text(value))


def failure(error: BaseException) -> ToolResult:
    """Convert an exception to an error result: `TypeName: message`, without a traceback."""
    try:
        message = str(error)
    except Exception:
        message = ""
    if isinstance(error, StoreError) and error.unwritten:  # which names a file or a server
        message = "the store could not write it now; nothing was done"
    name = type(error).__name__
    return refusal(f"{name}: {message}" if message else name)


def format_traceback(error: BaseException) -> str:
    """Format what a handler raised, from the handler's own frames on; never raises."""
    try:
        lines = traceback.format_exception(type(error), error, _skip_own_frames(error))
    except Exception:
        return type(error).__name__
    return _cut("".join(lines))


def format_frames(error: BaseException) -> str:
    """Format where a handler failed and the type of its error, without the error's message."""
    frames = traceback.format_tb(_skip_own_frames(error))
    return _cut("".join(["Traceback (most recent call last):\n", *frames, type(error).__name__]))


def _skip_own_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback from the first frame that is not ours, if there is one."""
    first = error.__traceback__
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        first = first.tb_next
    return first or error.__traceback__


def _cut(text: str) -> str:
    text = whole_text(text.rstrip())
    return text if len(text) <= _LONGEST_TRACEBACK else f"…{text[1 - _LONGEST_TRACEBACK :]}"


def refusal(words: str, outcome: Any = "error") -> ToolResult:
    """Build an error result with this text, cut to a limit."""
    words = clean(words)
    if len(words) * 4 > _LONGEST:
        data = words.encode()
        if len(data) > _LONGEST:
            words = data[: _LONGEST - 3].decode(errors="ignore") + "…"
    return ToolResult(content=words, is_error=True, outcome=outcome)


def timed_out(name: str, effect: str, seconds: float) -> ToolResult:
    """Build the result of a call that was stopped at its time limit."""
    text = f"{name} did not answer within {seconds:g} s and was stopped."
    if effect != "read_only":
        text += " It is not known whether it took effect: check before trying again."
    return ToolResult(content=text, is_error=True, outcome="timeout")


def _block(item: Any) -> Text | Image | Document:
    if isinstance(item, Text):
        text = as_given(item.text)
        safe = clean(text) if isinstance(text, str) else to_text(text)
        return item if safe is text else Text(safe)
    if isinstance(item, (Image, Document)):
        if all(_sendable(getattr(item, name)) for name in item.__struct_fields__):
            problem = find_media_problem(item)
            return item if problem is None else Text(f"(left out: {problem})")
        name = type(item).__name__
        return Text(f"(left out: an {name} is made of text; its data is base64)")
    return Text(to_text(item))


def _sendable(value: object) -> bool:
    return value is None or (isinstance(value, str) and clean(value) is value)


def _tidy(result: ToolResult) -> ToolResult:
    """Normalise a handler's own result; an error without a kind gets the kind "error"."""
    changes: JsonObject = {}
    content = cast("Any", result.content)
    if isinstance(content, str):
        if clean(content) is not content:
            changes["content"] = clean(content)
    elif is_sequence(content):
        changes["content"] = tuple(_block(item) for item in content)
    else:
        changes["content"] = answer(content).content
    failed = as_given(result.is_error) not in (False, 0, None, "")
    if failed is not result.is_error:
        changes["is_error"] = failed
    outcome = as_given(result.outcome)
    if outcome not in _OUTCOMES or (failed and outcome == "ok"):
        changes["outcome"] = "error" if failed else "ok"
    return msgspec.structs.replace(result, **changes) if changes else result


def not_permitted(call: ToolCall, reason: str, receipt: JsonObject | None = None) -> ToolResult:
    """Build the answer to a call that its caller, or its agent, may not make."""
    answer: JsonObject = {"error": "permission_denied", "tool": call.name, "reason": reason}
    if receipt is not None:
        answer["policyDecision"] = receipt
    return ToolResult(call.id, to_text(answer), True, call.name, "denied")

"""Malformed OpenAI answers seen in practice: each twist rewrites a right answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from windlass.testing.providers.frames import (
    Data,
    Frame,
    Reframe,
    Rewrite,
    with_crlf,
    with_mark,
)

Change = Callable[[int, Data], object]


def _calls(answer: Data) -> list[Data]:
    return answer["choices"][0]["message"].get("tool_calls") or []


def _all_calls(change: Change) -> Rewrite:
    """Change every call of a plain answer in place."""

    def rewrite(answer: Data) -> Data:
        for number, call in enumerate(_calls(answer)):
            change(number, call)
        return answer

    return rewrite


def _finish(reason: str | None) -> Rewrite:
    def rewrite(answer: Data) -> Data:
        answer["choices"][0]["finish_reason"] = reason
        return answer

    return rewrite


def _same_id(number: int, call: Data) -> None:
    if "id" in call:
        call["id"] = "call_same"


def _reused_id(number: int, call: Data) -> None:
    if "id" in call:
        call["id"] = str(number)


def _no_id(number: int, call: Data) -> None:
    call.pop("id", None)


def _arguments(write: Callable[[str], Any]) -> Change:
    def change(number: int, call: Data) -> None:
        if "arguments" in call["function"]:
            call["function"]["arguments"] = write(call["function"]["arguments"])

    return change


def _no_arguments(number: int, call: Data) -> None:
    call["function"].pop("arguments", None)


def _without_usage(answer: Data) -> Data:
    return {key: value for key, value in answer.items() if key != "usage"}


def _unknown(answer: Data) -> Data:
    message: Data = answer["choices"][0]["message"]
    message.update(hologram={"shape": [1, 2]}, audio=None, function_call=None)
    return {**answer, "moderation": None, "x_groq": {"id": "req"}}


def _error(_answer: Data) -> Data:
    return {"error": {"message": "Provider returned error", "code": 502}, "user_id": "user"}


def _cut_short(answer: Data) -> Data:
    if calls := _calls(answer):
        text: str = calls[-1]["function"]["arguments"]
        calls[-1]["function"]["arguments"] = text[: len(text) // 2]
    return _finish("length")(answer)


def _twice(text: str) -> str:
    return msgspec.json.encode(text or "{}").decode()


REWRITES: dict[str, Rewrite] = {
    "same_ids": _all_calls(_same_id),
    "reused_ids": _all_calls(_reused_id),
    "no_ids": _all_calls(_no_id),
    "no_usage": _without_usage,
    "unknown_things": _unknown,
    "error_after_200": _error,
    "no_finish": _finish(None),
    "finish_lies": _finish("stop"),
    "finish_empty": _finish(""),
    "no_arguments": _all_calls(_no_arguments),
    "null_arguments": _all_calls(_arguments(lambda _: None)),
    "double_encoded": _all_calls(_arguments(_twice)),
    "object_arguments": _all_calls(_arguments(lambda text: msgspec.json.decode(text))),
    "call_cut_short": _cut_short,
}


def _chunks(frames: list[Frame]) -> list[Data]:
    return [frame.data for frame in frames if isinstance(frame.data, dict)]


def _parts(frames: list[Frame]) -> list[Data]:
    """Return every piece of every call, in the order streamed."""
    choices = [choice for chunk in _chunks(frames) for choice in chunk["choices"]]
    return [part for choice in choices for part in choice["delta"].get("tool_calls", [])]


def _all_parts(change: Change) -> Reframe:
    def reframe(frames: list[Frame]) -> list[Frame]:
        for part in _parts(frames):
            change(part["index"], part)
        return frames

    return reframe


def _index_zero(number: int, part: Data) -> None:
    part["index"] = 0


def _no_index(number: int, part: Data) -> None:
    del part["index"]


def _index_gap(number: int, part: Data) -> None:
    part["index"] = 3 + number * 4


def _whole(frames: list[Frame]) -> list[Frame]:
    """Join each call in one piece, with its arguments."""
    wholes: dict[int, Data] = {}
    for part in _parts(frames):
        if part["index"] in wholes:
            call = wholes[part["index"]]["function"]
            call["arguments"] += part["function"]["arguments"]
        else:
            wholes[part["index"]] = part
    return [frame for frame in frames if _keeps(frame, list(wholes.values()))]


def _keeps(frame: Frame, calls: list[Data]) -> bool:
    if isinstance(frame.data, str) or not frame.data["choices"]:
        return True
    parts: list[Data] = frame.data["choices"][0]["delta"].get("tool_calls", [])
    return not parts or any(parts[0] is call for call in calls)


def _then(first: Reframe, second: Reframe) -> Reframe:
    return lambda frames: second(first(frames))


def _no_usage_frames(frames: list[Frame]) -> list[Frame]:
    for chunk in _chunks(frames):
        chunk.pop("usage", None)
    return [f for f in frames if isinstance(f.data, str) or f.data["choices"]]


def _finishes_with(reason: str | None) -> Reframe:
    def reframe(frames: list[Frame]) -> list[Frame]:
        for chunk in _chunks(frames):
            for choice in chunk["choices"]:
                if choice["finish_reason"] is not None:
                    choice["finish_reason"] = reason
        return frames

    return reframe


def _unknown_frames(frames: list[Frame]) -> list[Frame]:
    """Add a filter report first, a comment, a new event, and new keys everywhere."""
    report: Data = {"choices": [], "created": 0, "id": "", "model": "", "object": ""}
    first = Frame({**report, "prompt_filter_results": [{"prompt_index": 0}]})
    for chunk in _chunks(frames):
        chunk.update(moderation=None, x_groq={"id": "req"})
        for choice in chunk["choices"]:
            choice["delta"]["hologram"] = [1]
    novelty = Frame({"object": "weather.report", "choices": [], "sky": "blue"}, "weather")
    novelty.before = ": OPENROUTER PROCESSING\n\n"
    return [first, frames[0], novelty, *frames[1:]]


def _error_frame(frames: list[Frame]) -> list[Frame]:
    return [*frames[: len(frames) // 2], Frame(_error({}))]


def _error_event(frames: list[Frame]) -> list[Frame]:
    error = {"message": "Failed to call a function.", "code": "tool_use_failed"}
    return [*frames[: len(frames) // 2], Frame({"error": error}, "error")]


def _without_end(frames: list[Frame]) -> list[Frame]:
    """Drop the finish and everything after it."""
    last = next(n for n, f in enumerate(frames) if _is_last(f))
    return frames[:last]


def _is_last(frame: Frame) -> bool:
    if isinstance(frame.data, str):
        return True
    return any(choice["finish_reason"] is not None for choice in frame.data["choices"])


def _cut_frames(frames: list[Frame]) -> list[Frame]:
    """Cut the last call at the token limit: half of its arguments, then a proper end."""
    frames = _finishes_with("length")(frames)
    parts = _parts(frames)
    if not parts:
        return frames
    last = [part for part in parts if part["index"] == parts[-1]["index"]]
    late = last[1 + len(last) // 2 :] or last[1:]
    keep = [part for part in parts if not any(part is one for one in late)]
    return [frame for frame in frames if _keeps(frame, keep)]


REFRAMES: dict[str, Reframe] = {
    "same_ids": _all_parts(_same_id),
    "reused_ids": _all_parts(_reused_id),
    "no_ids": _all_parts(_no_id),
    "no_usage": _no_usage_frames,
    "unknown_things": _unknown_frames,
    "error_after_200": _error_frame,
    "error_event": _error_event,
    "no_end": _without_end,
    "no_last_event": lambda frames: frames[:-1],
    "no_finish": _finishes_with(None),
    "finish_lies": _finishes_with("stop"),
    "finish_empty": _finishes_with(""),
    "index_zero": _all_parts(_index_zero),
    "no_index": _all_parts(_no_index),
    "index_gaps": _all_parts(_index_gap),
    "whole_calls": _whole,
    "no_arguments": _then(_whole, _all_parts(_no_arguments)),
    "null_arguments": _then(_whole, _all_parts(_arguments(lambda _: None))),
    "double_encoded": _then(_whole, _all_parts(_arguments(_twice))),
    "object_arguments": _then(_whole, _all_parts(_arguments(lambda t: msgspec.json.decode(t)))),
    "call_cut_short": _cut_frames,
    "crlf": with_crlf,
    "byte_order_mark": with_mark,
}

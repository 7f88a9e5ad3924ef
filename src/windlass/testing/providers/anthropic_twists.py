"""Malformed Anthropic answers seen in practice: each twist rewrites a right answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, cast

import msgspec

from windlass.testing.providers.frames import (
    Data,
    Frame,
    Reframe,
    Rewrite,
    with_crlf,
    with_mark,
)


def _calls(answer: Data) -> list[Data]:
    return [block for block in answer["content"] if block["type"] == "tool_use"]


def _all_calls(change: Callable[[int, Data], object]) -> Rewrite:
    """Change every call of a plain answer in place."""

    def rewrite(answer: Data) -> Data:
        for number, block in enumerate(_calls(answer)):
            change(number, block)
        return answer

    return rewrite


def _set(**fields: Any) -> Rewrite:
    return lambda answer: {**answer, **fields}


def _drop(key: str) -> Rewrite:
    return lambda answer: {k: v for k, v in answer.items() if k != key}


def _same_id(number: int, block: Data) -> None:
    block["id"] = "toolu_same"


def _reused_id(number: int, block: Data) -> None:
    block["id"] = str(number)


def _no_input(number: int, block: Data) -> None:
    block.pop("input", None)


def _null_input(number: int, block: Data) -> None:
    block["input"] = None


def _string_input(number: int, block: Data) -> None:
    block["input"] = msgspec.json.encode(block["input"]).decode()


def _unknown(answer: Data) -> Data:
    novelty = {"type": "hologram", "shape": [1, 2]}
    return {**answer, "content": [novelty, *answer["content"]], "container": {"id": "c"}, "x": None}


def _error(_answer: Data) -> Data:
    return {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def _cut_short(answer: Data) -> Data:
    if calls := _calls(answer):
        calls[-1]["input"] = {}
    return {**answer, "stop_reason": "max_tokens"}


REWRITES: dict[str, Rewrite] = {
    "same_ids": _all_calls(_same_id),
    "reused_ids": _all_calls(_reused_id),
    "no_usage": _drop("usage"),
    "unknown_things": _unknown,
    "error_after_200": _error,
    "no_finish": _set(stop_reason=None),
    "finish_lies": _set(stop_reason="end_turn"),
    "finish_empty": _set(stop_reason="something_new"),
    "no_arguments": _all_calls(_no_input),
    "null_arguments": _all_calls(_null_input),
    "double_encoded": _all_calls(_string_input),
    "call_cut_short": _cut_short,
}


def _starts(frames: list[Frame]) -> Iterator[Data]:
    """Yield the starts of tool calls."""
    for frame in frames:
        data = cast("Data", frame.data)
        if data["type"] == "content_block_start" and data["content_block"]["type"] == "tool_use":
            yield data


def _all_starts(change: Callable[[int, Data], object]) -> Reframe:
    def reframe(frames: list[Frame]) -> list[Frame]:
        for number, data in enumerate(_starts(frames)):
            change(number, data["content_block"])
        return frames

    return reframe


def _of(frames: list[Frame], kind: str) -> list[Data]:
    found = [cast("Data", frame.data) for frame in frames]
    return [data for data in found if data["type"] == kind]


def _without(*kinds: str) -> Reframe:
    return lambda frames: [frame for frame in frames if frame.event not in kinds]


def _without_usage(frames: list[Frame]) -> list[Frame]:
    for data in _of(frames, "message_start"):
        data["message"].pop("usage")
    for data in _of(frames, "message_delta"):
        data.pop("usage")
    return frames


def _stops_with(reason: str | None) -> Reframe:
    def reframe(frames: list[Frame]) -> list[Frame]:
        for data in _of(frames, "message_delta"):
            data["delta"]["stop_reason"] = reason
        return frames

    return reframe


def _unknown_frames(frames: list[Frame]) -> list[Frame]:
    """Add a new block, a new delta, a new event and new keys everywhere."""
    blocks = len(_of(frames, "content_block_start"))
    at = {"index": blocks}
    block: Data = {"type": "hologram", "shape": []}
    novelty: list[Data] = [
        {"type": "content_block_start", **at, "content_block": block},
        {"type": "content_block_delta", **at, "delta": {"type": "shape_delta", "shape": [1]}},
        {"type": "content_block_stop", **at},
        {"type": "weather_report", "sky": "blue"},
    ]
    for frame in frames:
        cast("Data", frame.data)["x_padding"] = None
    end = next(n for n, frame in enumerate(frames) if frame.event == "message_delta")
    return [*frames[:end], *(Frame(data, str(data["type"])) for data in novelty), *frames[end:]]


def _error_frame(frames: list[Frame]) -> list[Frame]:
    half = frames[: len(frames) // 2]
    return [*half, Frame(_error({}), "error")]


def _arguments(text: Callable[[str], str | None]) -> Reframe:
    """Rewrite the arguments of every call; None leaves the deltas out."""

    def reframe(frames: list[Frame]) -> list[Frame]:
        wholes: dict[int, str] = {data["index"]: "" for data in _starts(frames)}
        for data in _of(frames, "content_block_delta"):
            if data["index"] in wholes:
                wholes[data["index"]] += data["delta"]["partial_json"]
        kept: list[Frame] = []
        for frame in frames:
            data = cast("Data", frame.data)
            if frame.event == "content_block_delta" and data["index"] in wholes:
                if data["delta"]["partial_json"] or (new := text(wholes[data["index"]])) is None:
                    continue
                data = deepcopy(data)
                data["delta"]["partial_json"] = new
                frame = Frame(data, frame.event)
            kept.append(frame)
        return kept

    return reframe


def _cut_frames(frames: list[Frame]) -> list[Frame]:
    """Cut the last call at the token limit: half of its arguments, then a proper end."""
    calls = [data["index"] for data in _starts(frames)]
    if not calls:
        return _stops_with("max_tokens")(frames)
    deltas = [
        frame
        for frame in frames
        if frame.event == "content_block_delta" and cast("Data", frame.data)["index"] == calls[-1]
    ]
    late = deltas[1 + len(deltas) // 2 :] or deltas[1:]
    return _stops_with("max_tokens")([f for f in frames if not any(f is one for one in late)])


REFRAMES: dict[str, Reframe] = {
    "same_ids": _all_starts(_same_id),
    "reused_ids": _all_starts(_reused_id),
    "no_usage": _without_usage,
    "unknown_things": _unknown_frames,
    "error_after_200": _error_frame,
    "no_end": _without("message_delta", "message_stop"),
    "no_last_event": _without("message_stop"),
    "no_finish": _stops_with(None),
    "finish_lies": _stops_with("end_turn"),
    "finish_empty": _stops_with("something_new"),
    "no_arguments": _arguments(lambda _: None),
    "null_arguments": _arguments(lambda _: "null"),
    "double_encoded": _arguments(lambda text: msgspec.json.encode(text or "{}").decode()),
    "call_cut_short": _cut_frames,
    "crlf": with_crlf,
    "byte_order_mark": with_mark,
}

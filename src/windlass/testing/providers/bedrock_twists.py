"""Malformed Bedrock answers seen in practice: each twist rewrites a right answer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.testing.providers.frames import (
    Data,
    Frame,
    Reframe,
    Rewrite,
)

Change = Callable[[int, Data], None]


def _uses(answer: Data) -> list[Data]:
    blocks: list[Data] = answer["output"]["message"]["content"]
    return [block["toolUse"] for block in blocks if "toolUse" in block]


def _all_calls(change: Change) -> Rewrite:
    def rewrite(answer: Data) -> Data:
        for number, use in enumerate(_uses(answer)):
            change(number, use)
        return answer

    return rewrite


def _same_id(_number: int, use: Data) -> None:
    use["toolUseId"] = "tooluse_same"


def _reused_id(number: int, use: Data) -> None:
    use["toolUseId"] = str(number)


def _no_id(_number: int, use: Data) -> None:
    use.pop("toolUseId", None)


def _no_input(_number: int, use: Data) -> None:
    use.pop("input", None)


def _null_input(_number: int, use: Data) -> None:
    if "input" in use:
        use["input"] = None


def _text_input(_number: int, use: Data) -> None:
    use["input"] = msgspec.json.encode(use["input"]).decode()


def _twice(number: int, use: Data) -> None:
    _text_input(number, use)
    _text_input(number, use)


def _without_usage(answer: Data) -> Data:
    return {key: value for key, value in answer.items() if key != "usage"}


def _unknown(answer: Data) -> Data:
    message: Data = answer["output"]["message"]
    message["content"] = [{"hologram": {"shape": [1, 2]}}, *message["content"]]
    return {**answer, "performanceConfig": {"latency": "standard"}, "trace": None}


def _error(_answer: Data) -> Data:
    return {"error": {"message": "the model went away", "code": 500}}


def _stop(word: str | None) -> Rewrite:
    def rewrite(answer: Data) -> Data:
        return {**answer, "stopReason": word}

    return rewrite


def _cut_short(answer: Data) -> Data:
    if uses := _uses(answer):
        text = msgspec.json.encode(uses[-1]["input"]).decode()
        uses[-1]["input"] = text[: len(text) // 2]
    return {**answer, "stopReason": "max_tokens"}


REWRITES: dict[str, Rewrite] = {
    "same_ids": _all_calls(_same_id),
    "reused_ids": _all_calls(_reused_id),
    "no_ids": _all_calls(_no_id),
    "no_usage": _without_usage,
    "unknown_things": _unknown,
    "error_after_200": _error,
    "no_finish": _stop(None),
    "finish_lies": _stop("end_turn"),
    "finish_empty": _stop(""),
    "no_arguments": _all_calls(_no_input),
    "null_arguments": _all_calls(_null_input),
    "double_encoded": _all_calls(_twice),
    "object_arguments": _all_calls(_text_input),  # the other way round: plain, they are an object
    "call_cut_short": _cut_short,
}


def _data(frame: Frame) -> Data:
    assert isinstance(frame.data, dict)
    return frame.data


def _starts(change: Change) -> Reframe:
    def reframe(frames: list[Frame]) -> list[Frame]:
        uses = [_data(f)["start"]["toolUse"] for f in frames if f.event == "contentBlockStart"]
        for number, use in enumerate(uses):
            change(number, use)
        return frames

    return reframe


def _input_of(frame: Frame) -> Data | None:
    return _data(frame).get("delta", {}).get("toolUse")


def _whole(frames: list[Frame]) -> list[Frame]:
    """Join each call's arguments in one piece."""
    first: dict[int, Data] = {}
    out: list[Frame] = []
    for frame in frames:
        piece, at = _input_of(frame), _data(frame).get("contentBlockIndex", 0)
        if piece is not None and at in first:
            first[at]["input"] += piece["input"]
            continue
        if piece is not None:
            first[at] = piece
        out.append(frame)
    return out


def _inputs(change: Change) -> Reframe:
    def reframe(frames: list[Frame]) -> list[Frame]:
        frames = _whole(frames)
        for number, frame in enumerate(frames):
            if (piece := _input_of(frame)) is not None:
                change(number, piece)
        return frames

    return reframe


def _as_object(_number: int, piece: Data) -> None:
    piece["input"] = msgspec.json.decode(piece["input"] or "{}")


def _no_pieces(frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if _input_of(frame) is None]


def _stops_with(word: str | None) -> Reframe:
    def reframe(frames: list[Frame]) -> list[Frame]:
        for frame in frames:
            if frame.event == "messageStop":
                _data(frame)["stopReason"] = word
        return frames

    return reframe


def _gaps(frames: list[Frame]) -> list[Frame]:
    for frame in frames:
        if "contentBlockIndex" in (data := _data(frame)):
            data["contentBlockIndex"] = 3 + 4 * data["contentBlockIndex"]
    return frames


def _unknown_frames(frames: list[Frame]) -> list[Frame]:
    for frame in frames:
        _data(frame)["q"] = {"novel": [1]}
    start = Frame({"start": {"hologram": {}}, "contentBlockIndex": 90}, "contentBlockStart")
    delta = Frame({"delta": {"hologram": [1]}, "contentBlockIndex": 90}, "contentBlockDelta")
    novelty = Frame({"sky": "blue"}, "weatherReport")
    return [frames[0], novelty, start, delta, *frames[1:]]


def _exception(frames: list[Frame]) -> list[Frame]:
    failed = Frame({"message": "the model went away"}, "!modelStreamErrorException")
    return [*frames[: len(frames) // 2], failed]


def _cut_frames(frames: list[Frame]) -> list[Frame]:
    """Cut the last call at the token limit: half of its arguments, then a proper end."""
    frames = _stops_with("max_tokens")(frames)
    pieces = [frame for frame in frames if _input_of(frame) is not None]
    if not pieces:
        return frames
    at = _data(pieces[-1])["contentBlockIndex"]
    last = [frame for frame in pieces if _data(frame)["contentBlockIndex"] == at]
    late = last[1 + len(last) // 2 :] or last[1:]
    return [frame for frame in frames if not any(frame is one for one in late)]


REFRAMES: dict[str, Reframe] = {
    "same_ids": _starts(_same_id),
    "reused_ids": _starts(_reused_id),
    "no_ids": _starts(_no_id),
    "no_usage": lambda frames: [frame for frame in frames if frame.event != "metadata"],
    "unknown_things": _unknown_frames,
    "error_after_200": _exception,
    "no_end": lambda frames: [f for f in frames if f.event not in ("messageStop", "metadata")],
    "no_finish": _stops_with(None),
    "finish_lies": _stops_with("end_turn"),
    "finish_empty": _stops_with(""),
    "index_gaps": _gaps,
    "whole_calls": _whole,
    "no_arguments": _no_pieces,
    "null_arguments": _inputs(_null_input),
    "double_encoded": _inputs(
        lambda _n, p: p.update(input=msgspec.json.encode(p["input"]).decode())
    ),
    "object_arguments": _inputs(_as_object),
    "call_cut_short": _cut_frames,
}

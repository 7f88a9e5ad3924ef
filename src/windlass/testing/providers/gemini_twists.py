"""Malformed Gemini answers seen in practice: each twist rewrites a right answer."""

from __future__ import annotations

from collections.abc import Callable
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

Change = Callable[[int, Data], object]


def _calls(answers: list[Data]) -> list[Data]:
    """Return every call of one answer, or of the chunks of a stream."""
    parts = [part for a in answers for part in a["candidates"][0]["content"]["parts"]]
    return [part["functionCall"] for part in parts if "functionCall" in part]


def _each(change: Change) -> Callable[[list[Data]], None]:
    def all_of(answers: list[Data]) -> None:
        for number, call in enumerate(_calls(answers)):
            change(number, call)

    return all_of


def _set(key: str, value: Any) -> Change:
    return lambda _number, call: call.update({key: value})


def _drop(key: str) -> Change:
    return lambda _number, call: call.pop(key, None)


def _text(_number: int, call: Data) -> None:
    call["args"] = msgspec.json.encode(call["args"]).decode()


def _no_usage(answers: list[Data]) -> None:
    for answer in answers:
        answer.pop("usageMetadata")


def _finish(reason: Any) -> Callable[[list[Data]], None]:
    def end(answers: list[Data]) -> None:
        answers[-1]["candidates"][0]["finishReason"] = reason

    return end


def _lies(answers: list[Data]) -> None:
    if _calls(answers):
        _finish("UNEXPECTED_TOOL_CALL")(answers)


def _cut_short(answers: list[Data]) -> None:
    if calls := _calls(answers):
        calls[-1]["args"] = {}
    _finish("MAX_TOKENS")(answers)


def _unknown(answers: list[Data]) -> None:
    for answer in answers:
        candidate = answer["candidates"][0]
        answer.update(trafficType="ON_DEMAND", weather={"sky": "blue"})
        candidate.update(avgLogprobs=-1.5, safetyRatings=[], citationMetadata=None)
    parts: list[Data] = answers[0]["candidates"][0]["content"]["parts"]
    parts.insert(0, {"hologram": {"shape": [1, 2]}})


_ERROR: Data = {
    "error": {"code": 500, "message": "An internal error has occurred.", "status": "INTERNAL"}
}
_BOTH: dict[str, Callable[[list[Data]], None]] = {
    "same_ids": _each(_set("id", "same")),
    "reused_ids": _each(lambda number, call: call.update(id=str(number))),
    "no_ids": _each(_drop("id")),
    "no_usage": _no_usage,
    "unknown_things": _unknown,
    "finish_lies": _lies,
    "finish_empty": _finish("SOMETHING_NEW"),
    "no_arguments": _each(_drop("args")),
    "null_arguments": _each(_set("args", None)),
    "double_encoded": _each(_text),
    "call_cut_short": _cut_short,
}


def _plain(change: Callable[[list[Data]], None]) -> Rewrite:
    def rewrite(answer: Data) -> Data:
        change([answer])
        return answer

    return rewrite


def _change_frames(change: Callable[[list[Data]], None]) -> Reframe:
    def reframe(frames: list[Frame]) -> list[Frame]:
        change([cast("Data", frame.data) for frame in frames])
        return frames

    return reframe


REWRITES: dict[str, Rewrite] = {
    **{name: _plain(change) for name, change in _BOTH.items()},
    "no_finish": _plain(_finish(None)),
    "error_after_200": lambda _answer: _ERROR,
}
REFRAMES: dict[str, Reframe] = {
    **{name: _change_frames(change) for name, change in _BOTH.items()},
    "error_after_200": lambda frames: [*frames[: len(frames) // 2], Frame(_ERROR)],
    "no_end": lambda frames: frames[:-1],  # there is no other end than a finishReason
    "crlf": with_crlf,
    "byte_order_mark": with_mark,
}

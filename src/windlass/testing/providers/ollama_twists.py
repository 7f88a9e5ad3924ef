"""Malformed Ollama answers seen in practice: each twist rewrites a right answer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.testing.providers.frames import (
    Data,
    Frame,
    Reframe,
    Rewrite,
    with_mark,
)


def _calls(answer: Data) -> list[Data]:
    return answer.get("message", {}).get("tool_calls", [])


def _all_calls(change: Callable[[Data], None]) -> Rewrite:
    """Change every call of an answer in place."""

    def rewrite(answer: Data) -> Data:
        for call in _calls(answer):
            change(call)
        return answer

    return rewrite


def _every(rewrite: Rewrite) -> Reframe:
    def reframe(frames: list[Frame]) -> list[Frame]:
        for frame in frames:
            if isinstance(frame.data, dict):
                frame.data = rewrite(frame.data)
        return frames

    return reframe


def _no_arguments(call: Data) -> None:
    call["function"].pop("arguments")


def _null_arguments(call: Data) -> None:
    call["function"]["arguments"] = None


def _as_text(call: Data) -> None:
    call["function"]["arguments"] = msgspec.json.encode(call["function"]["arguments"]).decode()


def _twice(call: Data) -> None:
    _as_text(call)
    _as_text(call)


def _same_id(call: Data) -> None:
    call["id"] = "call_same"


def _no_usage(answer: Data) -> Data:
    # what a prompt cached as a whole looks like, and one step further
    return {k: v for k, v in answer.items() if k not in ("prompt_eval_count", "eval_count")}


def _reason(word: str | None) -> Rewrite:
    def rewrite(answer: Data) -> Data:
        if "done_reason" in answer:
            answer["done_reason"] = word
        return answer

    return rewrite


def _unknown(answer: Data) -> Data:
    message: Data = {**answer["message"], "hologram": [1]}
    return {**answer, "message": message, "remote_host": "https://elsewhere", "logprobs": None}


def _error(_answer: Data) -> Data:
    return {"error": "an error was encountered while running the model: CUDA error"}


def _error_line(frames: list[Frame]) -> list[Frame]:
    return [*frames[: len(frames) // 2], Frame(_error({}))]


def _with_crlf(frames: list[Frame]) -> list[Frame]:
    for frame in frames:
        frame.newline, frame.before = "\r\n", "\r\n"
    return frames


REWRITES: dict[str, Rewrite] = {
    "same_ids": _all_calls(_same_id),
    "no_usage": _no_usage,
    "unknown_things": _unknown,
    "error_after_200": _error,
    "no_finish": _reason(None),
    "finish_empty": _reason(""),
    "no_arguments": _all_calls(_no_arguments),
    "null_arguments": _all_calls(_null_arguments),
    "double_encoded": _all_calls(_twice),
    "object_arguments": _all_calls(_as_text),  # the other way round: here an object is the rule
}
REFRAMES: dict[str, Reframe] = {
    **{name: _every(rewrite) for name, rewrite in REWRITES.items()},
    "error_after_200": _error_line,
    "no_end": lambda frames: frames[:-1],
    "crlf": _with_crlf,
    "byte_order_mark": with_mark,
}

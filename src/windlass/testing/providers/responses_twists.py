"""Malformed Responses answers seen in practice: each twist rewrites a right answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
ARGUMENTS = "response.function_call_arguments"


def _calls(output: list[Data]) -> Iterator[tuple[int, Data]]:
    return ((at, item) for at, item in enumerate(output) if item.get("type") == "function_call")


def _all_calls(change: Change) -> Rewrite:
    """Change every call of a plain answer in place."""

    def rewrite(answer: Data) -> Data:
        for number, call in _calls(answer["output"]):
            change(number, call)
        return answer

    return rewrite


def _same_id(number: int, call: Data) -> None:
    call["call_id"] = "call_same"


def _reused_id(number: int, call: Data) -> None:
    call["call_id"] = str(number)


def _no_id(number: int, call: Data) -> None:
    call.pop("call_id", None)


def _arguments(write: Callable[[str], Any]) -> Change:
    def change(number: int, call: Data) -> None:
        if call["arguments"]:  # a call that is only announced has none
            call["arguments"] = write(call["arguments"])

    return change


def _no_arguments(number: int, call: Data) -> None:
    call.pop("arguments")


def _twice(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _read(text: str) -> Any:
    return msgspec.json.decode(text)


def _status(value: str | None) -> Rewrite:
    return lambda answer: {**answer, "status": value}


def _without_usage(answer: Data) -> Data:
    return {key: value for key, value in answer.items() if key != "usage"}


def _unknown(answer: Data) -> Data:
    novelty = {"id": "hl_1", "type": "hologram_call", "shape": [1, 2], "status": "completed"}
    for item in answer["output"]:
        item["mood"] = None
    return {**answer, "output": [novelty, *answer["output"]], "moderation": None}


def _to_failed(answer: Data) -> Data:
    error = {"code": "server_error", "message": "The model had an error."}
    return {**answer, "status": "failed", "error": error, "output": [], "usage": None}


def _cut_short(answer: Data) -> Data:
    for item in answer["output"][-1:]:
        if item["type"] == "function_call":
            text: str = item["arguments"]
            item.update(arguments=text[: len(text) // 2], status="incomplete")
    return {
        **answer,
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
    }


REWRITES: dict[str, Rewrite] = {
    "same_ids": _all_calls(_same_id),
    "reused_ids": _all_calls(_reused_id),
    "no_ids": _all_calls(_no_id),
    "no_usage": _without_usage,
    "unknown_things": _unknown,
    "error_after_200": _to_failed,
    "no_finish": _status(None),
    "finish_empty": _status(""),
    "no_arguments": _all_calls(_no_arguments),
    "null_arguments": _all_calls(_arguments(lambda _: None)),
    "double_encoded": _all_calls(_arguments(_twice)),
    "object_arguments": _all_calls(_arguments(_read)),
    "call_cut_short": _cut_short,
}


# --------------------------------------------------------------------------- streams


def _data(frame: Frame) -> Data:
    assert isinstance(frame.data, dict)
    return frame.data


def _items(change: Change) -> Reframe:
    """Change every call wherever it stands in the stream: begun, done, and in the last event."""

    def reframe(frames: list[Frame]) -> list[Frame]:
        for frame in frames:
            data = _data(frame)
            begun: Data = data.get("item", {})
            if begun.get("type") == "function_call":
                change(data["output_index"], begun)
        _change_last(_all_calls(change))(frames)
        return frames

    return reframe


def _change_last(rewrite: Rewrite) -> Reframe:
    """Change the object in the last event, and the event's name with its status."""

    def reframe(frames: list[Frame]) -> list[Frame]:
        data = _data(frames[-1])
        data["response"] = answer = rewrite(data["response"])
        if answer["status"] in ("completed", "incomplete", "failed"):
            data["type"] = frames[-1].event = f"response.{answer['status']}"
        return frames

    return reframe


def _without(*kinds: str) -> Reframe:
    return lambda frames: [f for f in frames if not str(f.event).startswith(kinds)]


def _then(*steps: Reframe) -> Reframe:
    def reframe(frames: list[Frame]) -> list[Frame]:
        for step in steps:
            frames = step(frames)
        return frames

    return reframe


def _change_indexed(change: Callable[[Data], object]) -> Reframe:
    def reframe(frames: list[Frame]) -> list[Frame]:
        for frame in frames:
            if "output_index" in (data := _data(frame)):
                change(data)
        return frames

    return reframe


def _unknown_frames(frames: list[Frame]) -> list[Frame]:
    """Add a new event, a comment, an unannounced item, and new keys everywhere."""
    for frame in frames:
        _data(frame).update(mood=None, obfuscation="xyz")
    novelty = Frame({"type": "response.weather", "sky": "blue"}, "response.weather")
    novelty.before = ": still here\n\n"
    rest = _change_last(_unknown)(frames[1:])
    return [frames[0], novelty, *rest]


def _failed_midway(frames: list[Frame]) -> list[Frame]:
    last = _change_last(_to_failed)(frames)[-1]
    return [*frames[: len(frames) // 2], last]


def _error_event(frames: list[Frame]) -> list[Frame]:
    event = {"type": "error", "message": "Failed to call a function.", "code": "tool_use_failed"}
    return [*frames[: len(frames) // 2], Frame({**event, "param": None}, "error")]


def _cut_frames(frames: list[Frame]) -> list[Frame]:
    """Cut the last call at the token limit: half of its arguments, then a proper end."""
    frames = _change_last(_cut_short)(frames)
    output: list[Data] = _data(frames[-1])["response"]["output"]
    if not output or output[-1]["type"] != "function_call":
        return frames
    last = len(output) - 1
    own = [f for f in frames if _data(f).get("output_index") == last]
    pieces = [f for f in own if f.event == f"{ARGUMENTS}.delta"]
    gone = [*pieces[len(pieces) // 2 :], *(f for f in own if f.event == f"{ARGUMENTS}.done")]
    _data(own[-1])["item"] = output[-1]
    return [f for f in frames if not any(f is one for one in gone)]


EMPTY: Reframe = _change_last(lambda answer: {**answer, "output": []})
REFRAMES: dict[str, Reframe] = {
    "same_ids": _items(_same_id),
    "reused_ids": _items(_reused_id),
    "no_ids": _items(_no_id),
    "no_usage": _change_last(_without_usage),
    "unknown_things": _unknown_frames,
    "error_after_200": _failed_midway,
    "error_event": _error_event,
    "no_end": lambda frames: frames[: len(frames) // 2],
    "no_last_event": lambda frames: frames[:-1],
    "no_finish": _change_last(_status(None)),
    "finish_empty": _change_last(_status("")),
    "index_zero": _then(_change_indexed(lambda data: data.update(output_index=0)), EMPTY),
    "no_index": _change_indexed(lambda data: data.pop("output_index")),
    "index_gaps": _change_indexed(
        lambda data: data.update(output_index=3 + data["output_index"] * 4)
    ),
    "whole_calls": _without(ARGUMENTS),
    "no_arguments": _then(_without(ARGUMENTS), _items(_no_arguments)),
    "null_arguments": _then(_without(ARGUMENTS), _items(_arguments(lambda _: None))),
    "double_encoded": _then(_without(ARGUMENTS), _items(_arguments(_twice))),
    "object_arguments": _then(_without(ARGUMENTS), _items(_arguments(_read))),
    "call_cut_short": _cut_frames,
    "crlf": with_crlf,
    "byte_order_mark": with_mark,
    # below: as llama.cpp, routers and proxies write them
    "empty_output": EMPTY,
    "no_item_done": _then(
        _without("response.output_item.done", f"{ARGUMENTS}.done", "response.content_part"), EMPTY
    ),
    "no_names": _then(_change_indexed(lambda data: _remove_item_id(data)), EMPTY),
    "only_items": _without(ARGUMENTS, "response.output_text", "response.content_part"),
    "only_the_end": lambda frames: frames[-1:],
    "done_marker": lambda frames: [*frames, Frame("[DONE]")],
    "only_a_marker": lambda frames: [*frames[:-1], Frame("[DONE]")],
    "ids_change": _then(_change_indexed(lambda data: _change_item_id(data)), EMPTY),
}


def _change_item_id(data: Data) -> None:
    """Give an item another id in every event, as some proxies do."""
    fresh = f"x_{data['sequence_number']}"
    if "item_id" in data:
        data["item_id"] = fresh
    if "item" in data:
        data["item"]["id"] = fresh


def _remove_item_id(data: Data) -> None:
    """Remove both index and id: only the order identifies an item."""
    for key in ("output_index", "item_id"):
        data.pop(key, None)
    data.get("item", {}).pop("id", None)

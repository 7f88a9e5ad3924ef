"""Completions on servers of OpenAI's shape: `/completions`, Mistral's fim, infill."""

from __future__ import annotations

from typing import Any

from windlass.models.wires.rules import Rejected
from windlass.testing.providers.frames import Data, Frame
from windlass.testing.providers.reply import (
    Asked,
    Reply,
    cut,
    usage_of,
)

PATHS = ("/v1/completions", "/v1/fim/completions", "/infill")
_FINISH = {"max_tokens": "length"}
_STOP_TYPES = {"max_tokens": "limit", "stop_sequence": "word"}


def check(asked: Asked) -> None:
    """Raise `Rejected` for what such a server would refuse."""
    infill = asked.path == "/infill"
    for key in ("input_prefix", "input_suffix") if infill else ("model", "prompt"):
        if not isinstance(asked.json.get(key), str):
            raise Rejected(f"Missing required parameter: '{key}'.", param=key)
    if "messages" in asked.json:
        raise Rejected("Unrecognized request argument supplied: messages")


def plain(asked: Asked, reply: Reply) -> Data:
    """Build the whole text as one object."""
    if asked.path == "/infill":
        return _infill_chunk(asked, reply, reply.text, last=True)
    message = {"role": "assistant", "content": reply.text, "tool_calls": None}
    choice = {"text": reply.text, "logprobs": None} if _is_text(asked) else {"message": message}
    return {
        **_shell(asked),
        "choices": [{"index": 0, **choice, **_end(reply)}],
        **_usage(asked, reply),
    }


def frames(asked: Asked, reply: Reply) -> list[Frame]:
    """Build the text in pieces; llama.cpp's own stream ends with a marked piece."""
    pieces = cut(reply.text)
    if asked.path == "/infill":
        chunks_before = [_infill_chunk(asked, reply, piece, last=False) for piece in pieces]
        return [
            Frame(piece) for piece in [*chunks_before, _infill_chunk(asked, reply, "", last=True)]
        ]
    chunks: list[Data] = [
        {
            **_shell(asked),
            "choices": [
                {"index": 0, "text": piece, "finish_reason": None}
                if _is_text(asked)
                else {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            ],
        }
        for piece in pieces
    ]
    end = {"text": ""} if _is_text(asked) else {"delta": {"content": ""}}
    chunks.append({**_shell(asked), "choices": [{"index": 0, **end, **_end(reply)}]})
    options: Any = asked.json.get("stream_options") or {}
    if not _is_text(asked):
        chunks[-1].update(_usage(asked, reply))
    elif options.get("include_usage"):
        chunks.append({**_shell(asked), "choices": [], **_usage(asked, reply)})
    return [*(Frame(chunk) for chunk in chunks), Frame("[DONE]")]


def _is_text(asked: Asked) -> bool:
    return asked.path == "/v1/completions"


def _shell(asked: Asked) -> Data:
    return {
        "id": f"cmpl-{asked.seed[:24]}",
        "object": "text_completion" if _is_text(asked) else "chat.completion",
        "created": 1_750_000_000,
        "model": asked.json["model"],
    }


def _end(reply: Reply) -> Data:
    return {"finish_reason": _FINISH.get(reply.stop, "stop")}


def _usage(asked: Asked, reply: Reply) -> Data:
    usage = usage_of(asked, reply)
    return {
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
        }
    }


def _infill_chunk(asked: Asked, reply: Reply, text: str, *, last: bool) -> Data:
    if not last:
        return {"index": 0, "content": text, "stop": False}
    usage = usage_of(asked, reply)
    return {
        "index": 0,
        "content": text,
        "stop": True,
        "stop_type": _STOP_TYPES.get(reply.stop, "eos"),
        "tokens_evaluated": usage.input_tokens,
        "tokens_predicted": usage.output_tokens,
    }

"""A fake OpenAI: Chat Completions, plain and streamed, framed as the provider frames them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Literal, TypeAlias

import msgspec

from windlass.json_types import JsonObject
from windlass.testing.providers import openai_completions as completions
from windlass.testing.providers import openai_rules
from windlass.testing.providers.faults import Faults
from windlass.testing.providers.frames import Data, Frame
from windlass.testing.providers.openai_twists import REFRAMES, REWRITES
from windlass.testing.providers.reply import (
    Asked,
    Reply,
    Script,
    cut,
    signature,
    usage_of,
)
from windlass.testing.providers.server import FakeServer, Rejected
from windlass.usage import Usage

CREATED = 1_750_000_000  # an answer must not depend on when it was asked for
FINISH = {"tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
ERRORS: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "Bad request."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", "unsupported_country", "Country, region not supported"),
    404: ("invalid_request_error", "model_not_found", "The model does not exist."),
    405: ("invalid_request_error", "method_not_supported", "Not allowed to use this method."),
    413: ("invalid_request_error", None, "Maximum content size limit exceeded."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    500: ("server_error", None, "The server had an error while processing your request."),
}
CODES: dict[str, tuple[str, str]] = {
    "insufficient_quota": ("insufficient_quota", "You exceeded your current quota."),
    "context_length_exceeded": (
        "invalid_request_error",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in"
        " 130502 tokens. Please reduce the length of the messages.",
    ),
}
Reasoning: TypeAlias = Literal["reasoning_content", "reasoning_details"]


class FakeOpenAI(FakeServer):
    """A fake of OpenAI Chat Completions on a local port (`POST /v1/chat/completions`).

    ```python
    async with FakeOpenAI("hello", faults=[Status(429), None]) as server:
        model = OpenAIChat("gpt-x", api_key="k", base_url=server.url)
    ```
    OpenAI shows no reasoning. A reply with reasoning is written as DeepSeek, vLLM and llama.cpp
    write it, or with `reasoning="reasoning_details"` as OpenRouter does. `also` names further
    request keys that the server accepts. Text completion is at `/v1/completions`,
    `/v1/fim/completions` and `/infill`.
    """

    wire = "openai"
    path = "/v1/chat/completions"
    base = "/v1"
    ping = b": keep-alive\n\n"
    rewrites = REWRITES
    reframes = REFRAMES

    def __init__(
        self,
        script: Script | Reply | str,
        *,
        faults: Faults = None,
        api_key: str | None = None,
        reasoning: Reasoning = "reasoning_content",
        also: Collection[str] = (),
    ) -> None:
        super().__init__(script, faults=faults, api_key=api_key)
        self.reasoning, self.also = reasoning, frozenset(also)

    def serves(self, asked: Asked) -> bool:
        return asked.path == self.path or asked.path in completions.PATHS

    def check(self, asked: Asked) -> None:
        if asked.path in completions.PATHS:
            openai_rules.check_headers(asked.headers, self.api_key)
            return completions.check(asked)
        openai_rules.check(asked, self.api_key, self.also)
        return None

    def plain(self, asked: Asked, reply: Reply) -> Data:
        if asked.path in completions.PATHS:
            return completions.plain(asked, reply)
        message: Data = {"role": "assistant", "content": reply.text or None, "refusal": None}
        message.update(self._thought(reply.thinking, whole=True))
        if reply.tool_calls:
            message["tool_calls"] = _calls(asked, reply)
        if reply.stop == "refusal" and reply.text:
            message.update(content=None, refusal=reply.text)
        message["annotations"] = []
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
        return {
            **_shell(asked, "chat.completion"),
            "choices": [choice],
            "usage": _usage(usage_of(asked, reply)),
        }

    def frames(self, asked: Asked, reply: Reply) -> list[Frame]:
        if asked.path in completions.PATHS:
            return completions.frames(asked, reply)
        deltas = self._deltas(asked, reply)
        choices: list[list[Data]] = [[_choice(delta, None)] for delta in deltas]
        choices.append([_choice({}, _finish(reply))])
        options: Data = asked.json.get("stream_options") or {}
        counted = options.get("include_usage") is True
        shell = _shell(asked, "chat.completion.chunk")
        chunks = [{**shell, "choices": choice} for choice in choices]
        if counted:
            chunks = [{**chunk, "usage": None} for chunk in chunks]
            chunks.append({**shell, "choices": [], "usage": _usage(usage_of(asked, reply))})
        for number, chunk in enumerate(chunks):
            chunk["obfuscation"] = asked.seed[: number * 7 % 15]
        return [*(Frame(chunk) for chunk in chunks), Frame("[DONE]")]

    def error(self, problem: Rejected) -> Data:
        kind, code, message = ERRORS.get(problem.status, ERRORS[500])
        if problem.code in CODES:
            kind, message = CODES[problem.code]
        return {
            "error": {
                "message": problem.message or message,
                "type": kind,
                "param": problem.param,
                "code": problem.code or code,
            }
        }

    def headers(self, asked: Asked) -> dict[str, str]:
        return {
            "x-request-id": f"req_{asked.index:032d}",
            "openai-processing-ms": "7",
            "openai-version": "2020-10-01",
        }

    def _deltas(self, asked: Asked, reply: Reply) -> list[Data]:
        silent = bool(reply.tool_calls) and not reply.text
        opening: Data = {"role": "assistant", "content": None if silent else "", "refusal": None}
        deltas: list[Data] = [opening]
        deltas += [self._thought(piece) for piece in cut(reply.thinking)]
        if reply.thinking and self.reasoning == "reasoning_details":
            deltas.append({"reasoning_details": [_detail("", signature(reply.thinking))]})
        spoken = "refusal" if reply.stop == "refusal" else "content"
        deltas += [{spoken: piece} for piece in cut(reply.text)]
        for index, call in enumerate(_calls(asked, reply)):
            function: Data = call["function"]
            first = {"index": index, **call, "function": {**function, "arguments": ""}}
            pieces = cut(function["arguments"])
            rest = [{"index": index, "function": {"arguments": piece}} for piece in pieces]
            deltas += [{"tool_calls": [part]} for part in (first, *rest)]
        return deltas

    def _thought(self, thinking: str, *, whole: bool = False) -> Data:
        if not thinking:
            return {}
        if self.reasoning == "reasoning_content":
            return {"reasoning_content": thinking}
        signed = signature(thinking) if whole else None
        return {"reasoning": thinking, "reasoning_details": [_detail(thinking, signed)]}


def _shell(asked: Asked, kind: str) -> Data:
    return {
        "id": f"chatcmpl-{asked.seed[:29]}",
        "object": kind,
        "created": CREATED,
        "model": asked.json["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }


def _choice(delta: Data, finish: str | None) -> Data:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _finish(reply: Reply) -> str:
    return FINISH.get(reply.stop, "stop")


def _calls(asked: Asked, reply: Reply) -> list[Data]:
    calls: list[Data] = []
    for number, (name, arguments) in enumerate(reply.tool_calls):
        call_id = hashlib.sha256(f"{asked.seed}:{number}".encode()).hexdigest()[:24]
        function = {"name": name, "arguments": msgspec.json.encode(arguments).decode()}
        calls.append({"id": f"call_{call_id}", "type": "function", "function": function})
    return calls


def _detail(thinking: str, signed: str | None) -> JsonObject:
    return {
        "type": "reasoning.text",
        "text": thinking,
        "signature": signed,
        "format": "anthropic-claude-v1",
        "index": 0,
    }


def _usage(usage: Usage) -> Data:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }

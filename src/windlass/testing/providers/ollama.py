"""A fake Ollama: `/api/chat` and `/api/generate`, plain and by the line, as the server writes them."""

from __future__ import annotations

from typing import cast

import msgspec

from windlass.models.wires.ollama import rules as rules
from windlass.testing.providers.frames import Data, Frame
from windlass.testing.providers.ollama_twists import REFRAMES, REWRITES
from windlass.testing.providers.reply import (
    Asked,
    Reply,
    cut,
    usage_of,
)
from windlass.testing.providers.server import FakeServer, Rejected

GENERATE = "/api/generate"
CREATED = "2026-01-02T03:04:05.000006Z"  # an answer must not depend on when it was asked for
ERRORS = {
    400: "invalid request",
    401: "unauthorized",
    403: "forbidden",
    404: "model 'm' not found",
    429: "too many requests",
    500: "llama runner process has terminated",
    503: "server busy, please try again.  maximum pending requests exceeded",
}
CODES = {
    "context_length_exceeded": "the input length exceeds the context length",
    "insufficient_quota": "you have reached your usage limit: billing",
}


class FakeOllama(FakeServer):
    """A fake of Ollama on a local port (`POST /api/chat`).

    ```python
    async with FakeOllama("hello") as server:
        model = OllamaChat("qwen3", base_url=server.url)
    ```
    Calls have no ids, and `done_reason` is `stop` with calls too. Without `stream` it streams.
    `/api/generate` completes a text by the same script; `inserts` says whether the model has a
    template for a text with a gap.
    """

    inserts = True

    wire = "ollama"
    path = "/api/chat"
    base = ""
    ping = b"\n"
    media = "application/x-ndjson"
    rewrites = REWRITES
    reframes = REFRAMES

    def serves(self, asked: Asked) -> bool:
        return asked.path in (self.path, GENERATE)

    def streams(self, asked: Asked) -> bool:
        return cast("Data", asked.json).get("stream") is not False

    def written(self, frame: Frame) -> bytes:
        data = frame.data if isinstance(frame.data, str) else msgspec.json.encode(frame.data)
        text = data if isinstance(data, str) else data.decode()
        return f"{frame.before}{text}{frame.newline}".encode()

    def check(self, asked: Asked) -> None:
        if self.api_key is not None and asked.headers.get("authorization") != (
            f"Bearer {self.api_key}"
        ):
            raise Rejected("unauthorized", status=401)
        body: Data = asked.json
        if asked.path == GENERATE:
            rules.check_text(body, inserts=self.inserts)
        else:
            rules.check(body)

    def plain(self, asked: Asked, reply: Reply) -> Data:
        if asked.path == GENERATE:
            thought = {"thinking": reply.thinking} if reply.thinking else {}
            return {**_shell(asked), "response": reply.text, **thought, **_end(asked, reply)}
        message: Data = {"role": "assistant", "content": reply.text}
        if reply.thinking:
            message["thinking"] = reply.thinking
        if reply.tool_calls:
            message["tool_calls"] = _asked_for(reply)
        return {**_shell(asked), "message": message, **_end(asked, reply)}

    def frames(self, asked: Asked, reply: Reply) -> list[Frame]:
        pieces: list[Data] = [{"content": "", "thinking": piece} for piece in cut(reply.thinking)]
        pieces += [{"content": piece} for piece in cut(reply.text)]
        pieces += [{"content": "", "tool_calls": [call]} for call in _asked_for(reply)]
        shell = _shell(asked)
        if asked.path == GENERATE:
            texts = [{"response": m.pop("content"), **m, "done": False} for m in pieces]
            ends = {"response": "", **_end(asked, reply)}
            return [Frame({**shell, **line}) for line in [*texts, ends]]
        lines = [{**shell, "message": {"role": "assistant", **m}, "done": False} for m in pieces]
        last = {**shell, "message": {"role": "assistant", "content": ""}, **_end(asked, reply)}
        return [Frame(line) for line in [*lines, last]]

    def error(self, problem: Rejected) -> Data:
        message = CODES.get(problem.code or "") or ERRORS.get(problem.status, ERRORS[500])
        return {"error": problem.message or message}

    def headers(self, asked: Asked) -> dict[str, str]:
        return {}


def _shell(asked: Asked) -> Data:
    return {"model": asked.json["model"], "created_at": CREATED}


def _asked_for(reply: Reply) -> list[Data]:
    return [{"function": {"name": name, "arguments": args}} for name, args in reply.tool_calls]


def _end(asked: Asked, reply: Reply) -> Data:
    usage = usage_of(asked, reply)
    return {
        "done_reason": "length" if reply.stop == "max_tokens" else "stop",
        "done": True,
        "total_duration": 4_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": usage.input_tokens,
        "prompt_eval_duration": 1_000_000,
        "eval_count": usage.output_tokens,
        "eval_duration": 2_000_000,
    }

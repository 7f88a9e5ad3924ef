"""A fake Bedrock: Converse and ConverseStream, with Amazon's frames and checksums."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from struct import pack
from typing import TYPE_CHECKING, cast
from zlib import crc32

import msgspec

from windlass.testing.providers import bedrock_rules
from windlass.testing.providers.bedrock_twists import REFRAMES, REWRITES
from windlass.testing.providers.frames import Data, Frame
from windlass.testing.providers.reply import (
    Asked,
    Reply,
    cut,
    signature,
    usage_of,
)
from windlass.testing.providers.server import FakeServer, Rejected

if TYPE_CHECKING:
    from aiohttp import web

VERBS = ("converse", "converse-stream", "count-tokens")
STOPS = {"refusal": "content_filtered"}
ERRORS: dict[int, tuple[str, str]] = {
    400: ("ValidationException", "The request is not valid."),
    401: ("UnrecognizedClientException", "The security token included in the request is invalid."),
    403: (
        "AccessDeniedException",
        "You don't have access to the model with the specified model ID.",
    ),
    404: ("ResourceNotFoundException", "The model could not be found."),
    405: ("UnknownOperationException", "No such operation."),
    413: ("ValidationException", "The request is too large."),
    429: ("ThrottlingException", "Too many requests, please wait before trying again."),
    503: ("ServiceUnavailableException", "Bedrock is unable to process your request."),
}
CODES = {"context_length_exceeded": "Input is too long for requested model."}


def encode_frame(payload: bytes, **headers: str) -> bytes:
    """Encode one frame of an event stream.

    `encode_frame(b"{}", message_type="event", event_type="ping")`
    """
    described = b"".join(
        pack(">B", len(name) + 1)
        + b":"
        + name.replace("_", "-").encode()
        + b"\x07"
        + pack(">H", len(value.encode()))
        + value.encode()
        for name, value in headers.items()
    )
    prelude = pack(">II", 16 + len(described) + len(payload), len(described))
    frame = prelude + pack(">I", crc32(prelude)) + described + payload
    return frame + pack(">I", crc32(frame))


class FakeBedrock(FakeServer):
    """A fake of Bedrock Converse on a local port (`POST /model/{id}/converse`, also streamed).

    ```python
    async with FakeBedrock("hello") as server:
        model = BedrockConverse("amazon.nova-lite-v1:0", api_key="k", base_url=server.url)
    ```
    """

    wire = "bedrock"
    path = "/model/{id}/converse"
    base = ""
    ping = encode_frame(b"{}", event_type="initial-response", message_type="event")
    media = "application/vnd.amazon.eventstream"
    rewrites = REWRITES
    reframes = REFRAMES

    def serves(self, asked: Asked) -> bool:
        parts = asked.path.split("/")
        return len(parts) >= 4 and parts[1] == "model" and parts[-1] in VERBS

    def streams(self, asked: Asked) -> bool:
        return asked.path.endswith("/converse-stream")

    def written(self, frame: Frame) -> bytes:
        data = frame.data if isinstance(frame.data, str) else msgspec.json.encode(frame.data)
        payload = data.encode() if isinstance(data, str) else data
        name = frame.event or "contentBlockDelta"
        if name.startswith("!"):
            return encode_frame(payload, exception_type=name[1:], message_type="exception")
        kind = "application/json"
        return encode_frame(payload, event_type=name, content_type=kind, message_type="event")

    def check(self, asked: Asked) -> None:
        bedrock_rules.check(asked, self.api_key)

    def plain(self, asked: Asked, reply: Reply) -> Data:
        if bedrock_rules.counting(asked):
            return {"inputTokens": usage_of(asked, reply).input_tokens}
        content: list[Data] = []
        if reply.thinking:
            reasoning = {"text": reply.thinking, "signature": signature(reply.thinking)}
            content.append({"reasoningContent": {"reasoningText": reasoning}})
        if reply.text:
            content.append({"text": reply.text})
        content += [{"toolUse": use} for use in _uses(asked, reply)]
        return {
            "metrics": {"latencyMs": 7},
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": _stop(reply),
            "usage": _usage(asked, reply),
        }

    def frames(self, asked: Asked, reply: Reply) -> list[Frame]:
        frames = [Frame({"role": "assistant"}, "messageStart")]
        for at, block in enumerate(_stream_blocks(asked, reply)):
            for event, data in block:
                frames.append(Frame({"contentBlockIndex": at, **data}, event))
            frames.append(Frame({"contentBlockIndex": at}, "contentBlockStop"))
        frames.append(Frame({"stopReason": _stop(reply)}, "messageStop"))
        end: Data = {"usage": _usage(asked, reply), "metrics": {"latencyMs": 7}}
        frames.append(Frame(end, "metadata"))
        letters = "abcdefghijklmnopqrstuvwxyz"
        for number, frame in enumerate(frames):
            cast("Data", frame.data)["p"] = letters[: number * 7 % 26]
        return frames

    def error(self, problem: Rejected) -> Data:
        message = CODES.get(problem.code or "") or ERRORS.get(problem.status, ("", "Internal."))[1]
        return {"message": problem.message or message}

    def _refusal(self, asked: Asked, problem: Rejected, more: dict[str, str]) -> web.Response:
        kind = ERRORS.get(problem.status, ("InternalServerException", ""))[0]
        named = {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/"}
        return super()._refusal(asked, problem, {**named, **more})

    def headers(self, asked: Asked) -> dict[str, str]:
        return {"x-amzn-requestid": f"00000000-0000-0000-0000-{asked.index:012d}"}


def _stream_blocks(asked: Asked, reply: Reply) -> Iterator[list[tuple[str, Data]]]:
    """Yield the blocks in their pieces. Only a call has a start."""
    if reply.thinking:
        thoughts: list[Data] = [{"text": piece} for piece in cut(reply.thinking)]
        thoughts.append({"signature": signature(reply.thinking)})
        yield [("contentBlockDelta", {"delta": {"reasoningContent": t}}) for t in thoughts]
    if reply.text:
        yield [("contentBlockDelta", {"delta": {"text": piece}}) for piece in cut(reply.text)]
    for use in _uses(asked, reply):
        start = {"toolUseId": use["toolUseId"], "name": use["name"]}
        pieces = ["", *cut(msgspec.json.encode(use["input"]).decode())]
        deltas = [
            ("contentBlockDelta", {"delta": {"toolUse": {"input": piece}}}) for piece in pieces
        ]
        yield [("contentBlockStart", {"start": {"toolUse": start}}), *deltas]


def _uses(asked: Asked, reply: Reply) -> list[Data]:
    uses: list[Data] = []
    for number, (name, arguments) in enumerate(reply.tool_calls):
        mark = hashlib.sha256(f"{asked.seed}:{number}".encode()).hexdigest()[:22]
        uses.append({"toolUseId": f"tooluse_{mark}", "name": name, "input": arguments})
    return uses


def _stop(reply: Reply) -> str:
    return STOPS.get(reply.stop, reply.stop)


def _usage(asked: Asked, reply: Reply) -> Data:
    usage = usage_of(asked, reply)
    fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
    return {
        "inputTokens": fresh,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "cacheReadInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
        "serverToolUsage": {},
    }

"""OpenAI's client on both of its wires, and Mistral's on its own."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec

from bench.sdks.exchange import Ask, Exchange, Heard, Said, Vendor, transport
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses
from windlass.testing.providers import (
    Asked,
    FakeMistral,
    FakeOpenAI,
    FakeResponses,
    Reply,
)
from windlass.testing.providers.frames import Frame
from windlass.testing.providers.reply import cut


class InPieces(FakeMistral):
    """Mistral with its words in as many pieces as elsewhere, where the fake writes two."""

    def frames(self, asked: Asked, reply: Reply) -> list[Frame]:
        """The same stream."""
        found: list[Frame] = []
        for frame in super().frames(asked, reply):
            data: Any = frame.data
            words = data["choices"][0]["delta"].get("content") if isinstance(data, dict) else ""
            for piece in cut(words) or [words]:
                said = msgspec.json.decode(msgspec.json.encode(frame), type=Frame)
                if words:
                    cast("Any", said.data)["choices"][0]["delta"]["content"] = piece
                found.append(said)
        return found


def chat() -> Vendor:
    """Chat Completions."""
    return Vendor(
        "OpenAI Chat Completions",
        "openai",
        lambda fed: OpenAIChat("gpt-4o", api_key="none", transport=fed),
        FakeOpenAI(""),
        lambda _: "/v1/chat/completions",
        _chat,
    )


def responses() -> Vendor:
    """Responses."""
    return Vendor(
        "OpenAI Responses",
        "openai",
        lambda fed: OpenAIResponses("gpt-4o", api_key="none", transport=fed),
        FakeResponses(""),
        lambda _: "/v1/responses",
        _responses,
    )


def mistral() -> Vendor:
    """Mistral's chat."""
    return Vendor(
        "Mistral",
        "mistralai",
        lambda fed: OpenAIChat(
            "mistral-large-latest", provider="mistral", api_key="none", transport=fed
        ),
        InPieces(""),
        lambda _: "/v1/chat/completions",
        _mistral,
    )


def _client(given: Exchange) -> Any:
    import httpx2
    import openai as sdk

    http = httpx2.AsyncClient(transport=transport(given, httpx2))
    return sdk.AsyncOpenAI(api_key="none", http_client=http, max_retries=0)


def _chat(given: Exchange) -> Ask:
    client = _client(given)
    body = {name: value for name, value in given.body.items() if name != "stream"}

    async def whole() -> Heard:
        return _completion(await client.chat.completions.create(**body))

    async def streamed() -> Heard:
        pieces = 0
        async with client.chat.completions.stream(**body) as stream:
            async for event in stream:
                pieces += event.type == "content.delta" and event.delta != ""
            return _completion(await stream.get_final_completion(), pieces)

    return streamed if given.streamed else whole


def _mistral(given: Exchange) -> Ask:
    import httpx
    from mistralai.client import Mistral

    http = httpx.AsyncClient(transport=transport(given, httpx))
    client: Any = Mistral(api_key="none", async_client=http)
    body = {name: value for name, value in given.body.items() if name != "stream"}

    async def whole() -> Heard:
        return _completion(await client.chat.complete_async(**body))

    async def streamed() -> Heard:
        return await _chunks(await client.chat.stream_async(**body))

    return streamed if given.streamed else whole


def _completion(reply: Any, pieces: int = 1) -> Heard:
    message, usage = reply.choices[0].message, reply.usage
    calls = tuple((c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls)
    said = Said(message.content, calls, usage.prompt_tokens, usage.completion_tokens)
    return Heard(said, pieces)


async def _chunks(stream: Any) -> Heard:
    texts: list[str] = []
    calls: dict[int, tuple[str, list[str]]] = {}
    read = wrote = 0
    async for event in stream:
        chunk = event.data
        if chunk.usage:
            read, wrote = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
        for choice in chunk.choices:
            if choice.delta.content:
                texts.append(choice.delta.content)
            for call in choice.delta.tool_calls or ():
                _, pieces = calls.setdefault(call.index, (call.function.name, []))
                pieces.append(call.function.arguments or "")
    made = tuple((name, json.loads("".join(pieces))) for name, pieces in calls.values())
    return Heard(Said("".join(texts), made, read, wrote), len(texts))


def _responses(given: Exchange) -> Ask:
    client = _client(given)
    body = {name: value for name, value in given.body.items() if name != "stream"}

    def read(reply: Any, pieces: int) -> Heard:
        calls = [c for c in reply.output if c.type == "function_call"]
        made = tuple((call.name, json.loads(call.arguments)) for call in calls)
        usage = reply.usage
        said = Said(reply.output_text, made, usage.input_tokens, usage.output_tokens)
        return Heard(said, pieces)

    async def whole() -> Heard:
        return read(await client.responses.create(**body), 1)

    async def streamed() -> Heard:
        pieces = 0
        async with client.responses.stream(**body) as stream:
            async for event in stream:
                pieces += event.type == "response.output_text.delta"
            return read(await stream.get_final_response(), pieces)

    return streamed if given.streamed else whole

"""Anthropic's client, and Amazon's for Bedrock."""

from __future__ import annotations

import json
from typing import Any, cast

from bench.sdks.exchange import Ask, Exchange, Heard, Said, Vendor, transport
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.testing.providers import FakeAnthropic, FakeBedrock

NOVA = "amazon.nova-lite-v1:0"


def anthropic() -> Vendor:
    """Messages."""
    return Vendor(
        "Anthropic Messages",
        "anthropic",
        lambda fed: AnthropicMessages("claude-opus-4-7", api_key="none", transport=fed),
        FakeAnthropic(""),
        lambda _: "/v1/messages",
        _anthropic,
    )


def _anthropic(given: Exchange) -> Ask:
    import anthropic as sdk
    import httpx2

    http = httpx2.AsyncClient(transport=transport(given, httpx2))
    client: Any = sdk.AsyncAnthropic(api_key="none", http_client=http, max_retries=0)
    body = {name: value for name, value in given.body.items() if name != "stream"}

    def read(reply: Any, pieces: int) -> Heard:
        texts = [block.text for block in reply.content if block.type == "text"]
        calls = [(b.name, b.input) for b in reply.content if b.type == "tool_use"]
        usage = reply.usage
        said = Said("".join(texts), tuple(calls), usage.input_tokens, usage.output_tokens)
        return Heard(said, pieces)

    async def whole() -> Heard:
        return read(await client.messages.create(**body), 1)

    async def streamed() -> Heard:
        pieces = 0
        async with client.messages.stream(**body) as stream:
            async for _ in stream.text_stream:
                pieces += 1
            return read(await stream.get_final_message(), pieces)

    return streamed if given.streamed else whole


def bedrock() -> Vendor:
    """Converse, signed by neither side: a signature costs both the same, being botocore's."""
    return Vendor(
        "Bedrock Converse",
        "botocore",
        lambda fed: BedrockConverse(NOVA, api_key="none", region="us-east-1", transport=fed),
        FakeBedrock(""),
        lambda streamed: f"/model/{NOVA}/converse{'-stream' if streamed else ''}",
        _bedrock,
    )


class _Raw:
    """The body of an answer as urllib3 would hand it out."""

    def __init__(self, given: Exchange) -> None:
        self.chunks = given.chunks

    def stream(self, *_: Any, **__: Any) -> Any:
        return iter(self.chunks)

    def read(self, *_: Any) -> bytes:
        return b"".join(self.chunks)

    def close(self) -> None:
        pass


def _bedrock(given: Exchange) -> Ask:
    import botocore.config
    import botocore.session
    from botocore import UNSIGNED
    from botocore.awsrequest import AWSResponse

    session = botocore.session.get_session()
    config = botocore.config.Config(signature_version=UNSIGNED, retries={"total_max_attempts": 1})
    client: Any = session.create_client("bedrock-runtime", region_name="us-east-1", config=config)

    def answer(request: Any, **_: Any) -> Any:
        if not request.body.endswith(b"}"):
            raise AssertionError("half a request")
        return AWSResponse(request.url, 200, cast("Any", given.headers), _Raw(given))

    client.meta.events.register("before-send.bedrock-runtime.*", answer)
    body = given.body

    async def whole() -> Heard:
        reply = client.converse(modelId=NOVA, **body)
        content = reply["output"]["message"]["content"]
        texts = [block["text"] for block in content if "text" in block]
        uses = [block["toolUse"] for block in content if "toolUse" in block]
        calls = tuple((use["name"], use["input"]) for use in uses)
        usage = reply["usage"]
        said = Said("".join(texts), calls, usage["inputTokens"], usage["outputTokens"])
        return Heard(said, len(texts))

    async def streamed() -> Heard:
        texts: list[str] = []
        calls: list[tuple[str, list[str]]] = []
        usage: Any = {}
        for event in client.converse_stream(modelId=NOVA, **body)["stream"]:
            if "contentBlockDelta" in event:
                delta = event["contentBlockDelta"]["delta"]
                if "text" in delta:
                    texts.append(delta["text"])
                else:
                    calls[-1][1].append(delta["toolUse"]["input"])
            elif "contentBlockStart" in event:
                calls.append((event["contentBlockStart"]["start"]["toolUse"]["name"], []))
            elif "metadata" in event:
                usage = event["metadata"]["usage"]
        made = tuple((name, json.loads("".join(pieces))) for name, pieces in calls)
        said = Said("".join(texts), made, usage["inputTokens"], usage["outputTokens"])
        return Heard(said, len(texts))

    return streamed if given.streamed else whole

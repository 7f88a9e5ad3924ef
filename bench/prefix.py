"""How much of a request the provider has seen before: the beginning it shares with the one before it.

A whole run goes through each wire with default options; the answers come from the fakes, which also
refuse what the provider would refuse.
"""

from __future__ import annotations

import asyncio
import os.path
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

import windlass as w
from bench.proof import CutCorner
from bench.sdks.exchange import Exchange, FedReply
from bench.table import Row
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.base import HttpModel
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.gemini.vertex import VertexGenerate
from windlass.models.wires.ollama.model import OllamaChat
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses
from windlass.testing.providers import (
    Asked,
    FakeAnthropic,
    FakeBedrock,
    FakeGemini,
    FakeMistral,
    FakeOllama,
    FakeOpenAI,
    FakeResponses,
    FakeServer,
    FakeVertex,
    Reply,
    Script,
    conversation,
)

TURNS, SHARED = 100, 0.99
# 5 kB, as an agent's prompt with its tools is: a mark that moves to the last message counts against it
SYSTEM = "You are a clerk who files what comes in and answers from the files. " * 80


class Wire(NamedTuple):
    """A wire, made for a transport, and who answers over it."""

    name: str
    model: Callable[[Any], HttpModel]
    fake: Callable[[Script], FakeServer]


WIRES = (
    Wire(
        "Anthropic Messages",
        lambda t: AnthropicMessages("claude-opus-4-7", api_key="k", transport=t),
        FakeAnthropic,
    ),
    Wire(
        "Bedrock Converse, Claude",
        lambda t: BedrockConverse(
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            api_key="k",
            region="us-east-1",
            transport=t,
        ),
        FakeBedrock,
    ),
    Wire(
        "OpenAI Chat Completions",
        lambda t: OpenAIChat("gpt-4o", api_key="k", transport=t),
        FakeOpenAI,
    ),
    Wire(
        "OpenAI Responses",
        lambda t: OpenAIResponses("gpt-5", api_key="k", transport=t),
        FakeResponses,
    ),
    Wire(
        "OpenRouter, Claude",
        lambda t: OpenAIChat(
            "anthropic/claude-sonnet-4.5", provider="openrouter", api_key="k", transport=t
        ),
        lambda script: FakeOpenAI(script, reasoning="reasoning_details", also=["cache_control"]),
    ),
    Wire(
        "Mistral",
        lambda t: OpenAIChat("mistral-large-latest", provider="mistral", api_key="k", transport=t),
        FakeMistral,
    ),
    Wire(
        "Gemini generateContent",
        lambda t: GeminiGenerate("gemini-3-flash-preview", api_key="k", transport=t),
        FakeGemini,
    ),
    Wire(
        "Vertex",
        lambda t: VertexGenerate("gemini-3-flash-preview", token="t", project="p", transport=t),
        FakeVertex,
    ),
    Wire("Ollama chat", lambda t: OllamaChat("qwen3", transport=t), FakeOllama),
)


class Answering:
    """A transport that lets a fake answer, and keeps every body that was sent."""

    def __init__(self, fake: FakeServer) -> None:
        self.fake = fake
        self.bodies: list[bytes] = []

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Sequence[bytes] = (),
        *,
        connect: float = 10.0,
    ) -> FedReply:
        """Have the request checked, and answer it."""
        sent, fake, at = b"".join(body), self.fake, urlsplit(url)
        lower = {name.lower(): value for name, value in headers.items()}
        json = msgspec.json.decode(sent)
        asked = Asked(len(self.bodies), method, at.path, lower, sent, json, 0, at.query)
        fake.check(asked)
        self.bodies.append(sent)
        reply = fake.script(json, lower)
        chunks = tuple(fake.written(frame) for frame in fake.frames(asked, reply))
        return FedReply(Exchange(w.Request(()), json, fake.media, chunks, True))

    async def aclose(self) -> None:
        """Nothing is open."""


@w.tool(side_effect_level="read_only")
async def find(topic: str, page: int = 1) -> str:
    """Find what the files say about a topic."""
    return f"Page {page} about {topic}: nothing of note."


@w.tool
async def keep(topic: str, words: str) -> str:
    """Put words into the files, under a topic."""
    return f"kept {len(words)} characters"


def rows(turns: int = TURNS) -> list[Row]:
    """A row for each wire: what is lost of a request's beginning, at worst."""
    return [asyncio.run(_row(wire, turns)) for wire in WIRES]


async def _row(wire: Wire, turns: int) -> Row:
    shares = await shared(wire, turns)
    worst, mean = min(shares), statistics.fmean(shares)
    name = (
        f"{wire.name}, {turns} turns: bytes of a request that do not begin the next one, at worst"
    )
    ours = f"{worst:.2%} do, {mean:.2%} on average"
    return Row(name, (1 - worst) * 100, (1 - SHARED) * 100, ours, unit="%")


async def shared(wire: Wire, turns: int) -> list[float]:
    """For each request but the first, the share of the one before with which it begins."""
    replies: list[Reply | str] = []
    for turn in range(turns - 1):
        topic = f"topic {turn % 7} – ü"
        asks = ("keep", {"topic": topic, "words": "as found " * 5}) if turn % 3 else None
        calls = (asks or ("find", {"topic": topic, "page": turn}),)
        replies.append(Reply(f"Step {turn}.", tool_calls=calls))
    transport = Answering(wire.fake(conversation(*replies, "All is filed.")))
    out = await w.agent_loop(
        "File what came in today.",
        SYSTEM,
        model=wire.model(transport),
        tools=[find, keep],
        max_iterations=turns,
    )
    if out.status != "done" or len(transport.bodies) != turns:
        raise CutCorner(f"{wire.name}: {out.status} after {len(transport.bodies)}: {out.error}")
    return [
        len(os.path.commonprefix([before, sent])) / len(before)
        for before, sent in zip(transport.bodies, transport.bodies[1:], strict=False)
    ]


if __name__ == "__main__":
    for row in rows():
        print(row.line())

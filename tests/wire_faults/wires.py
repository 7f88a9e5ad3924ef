"""The wires side by side: a fake server, and the model that talks to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from windlass.models.base import Emit, Model, Request, Response
from windlass.models.registry.scope import ENDPOINTS
from windlass.models.transport.base import Timeouts
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.gemini.vertex import VertexGenerate
from windlass.models.wires.ollama.model import OllamaChat
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses
from windlass.testing.providers import (
    FakeAnthropic,
    FakeAzure,
    FakeBedrock,
    FakeGemini,
    FakeMistral,
    FakeOllama,
    FakeOpenAI,
    FakeResponses,
    FakeServer,
    FakeVertex,
    Faults,
    Reply,
    applies,
)

TEXT = "Ich sehe nach – Zürich 🌦"
CALLS = [
    ("lookup", {"order": "№ 7", "deep": {"a": [1, 2.5, None, True], "b": "ü\n\"'"}}),
    ("now", {}),
    ("lookup", {"order": "8", "why": "a longer reason than the others have"}),
]
REPLY = Reply(TEXT, tool_calls=CALLS)
WIRES = {
    "anthropic": (FakeAnthropic, AnthropicMessages),
    "openai": (FakeOpenAI, OpenAIChat),
    "responses": (FakeResponses, OpenAIResponses),
    "ollama": (FakeOllama, OllamaChat),
    "gemini": (FakeGemini, GeminiGenerate),
    "vertex": (FakeVertex, VertexGenerate),
    "bedrock": (FakeBedrock, BedrockConverse),
    "azure": (FakeAzure, partial(OpenAIChat, provider="azure")),
    "mistral": (FakeMistral, partial(OpenAIChat, provider="mistral")),
}


def possible(name: str, wire: str, *, stream: bool) -> bool:
    """Check whether the fault makes sense there."""
    if (name, wire, stream) == ("call_cut_short", "mistral", True):
        return False  # its calls come whole
    kind: Any = WIRES[wire][0]
    return applies(name, kind.wire, stream=stream)


def fake_of(wire: str, script=REPLY, *, faults: Faults = None) -> FakeServer:
    return WIRES[wire][0](script, faults=faults, api_key="k")


def model_of(wire: str, server: FakeServer, *, hurried: bool = False, stream: bool = True):
    """Build a model with ample timeouts, or one that is hurried.

    Hurried, a stream is given up for its silence long before its time is over, and a plain reply,
    which shows no progress, when its time is over.
    """
    times = Timeouts()
    if hurried:
        times = Timeouts(idle=0.15, total=3.0) if stream else Timeouts(total=0.15)
    kind: Any = WIRES[wire][1]
    if hurried and wire == "ollama":
        # a server of one's own may take its time to begin, so this one is somebody else's
        elsewhere = msgspec.structs.replace(ENDPOINTS[wire], key_env=("SOME_API_KEY",))
        kind = partial(kind, endpoint=elsewhere)
    return kind("m-1", api_key="k", base_url=server.url, timeouts=times)


class Moody(Model):
    """Impatient with the calls that will stall, and patient with all others.

    A right answer may then take as long as a busy machine needs, and a stall costs no time.
    """

    remote = True

    def __init__(
        self, wire: str, server: FakeServer, stream: bool, stalls: Callable[[Request], bool]
    ) -> None:
        self.patient = model_of(wire, server, stream=stream)
        self.hurried = model_of(wire, server, hurried=True, stream=stream)
        self.provider, self.name, self.stalls = self.patient.provider, self.patient.name, stalls

    async def respond(self, request: Request, emit: Emit) -> Response:
        return await (self.hurried if self.stalls(request) else self.patient).respond(request, emit)

"""The two wires side by side: a fake server, and the model that talks to it."""

from __future__ import annotations

from windlass.models.transport import Timeouts
from windlass.models.wires.anthropic import AnthropicMessages
from windlass.models.wires.openai_chat import OpenAIChat
from windlass.testing.fakes import FakeAnthropic, FakeOpenAI, FakeServer, Faults, Reply

TEXT = "Ich sehe nach – Zürich 🌦"
CALLS = [
    ("lookup", {"order": "№ 7", "deep": {"a": [1, 2.5, None, True], "b": "ü\n\"'"}}),
    ("now", {}),
    ("lookup", {"order": "8", "why": "a longer reason than the others have"}),
]
REPLY = Reply(TEXT, tool_calls=CALLS)


def fake_of(wire: str, script=REPLY, *, faults: Faults = None) -> FakeServer:
    return (FakeAnthropic if wire == "anthropic" else FakeOpenAI)(
        script, faults=faults, api_key="k"
    )


def model_of(wire: str, server: FakeServer, *, hurried: bool = False, stream: bool = True):
    """A model with time for everything, or one whose patience ends at once.

    Hurried, a stream is given up for its silence alone and a plain reply for its length, so a
    silence that nobody watched would show as a long wait.
    """
    times = Timeouts()
    if hurried:
        times = Timeouts(idle=0.05, total=30.0) if stream else Timeouts(total=0.05)
    kind = AnthropicMessages if wire == "anthropic" else OpenAIChat
    return kind("m-1", api_key="k", base_url=server.url, timeouts=times)

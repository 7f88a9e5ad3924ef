"""Fake model providers on a loopback port, true to the wire, with faults of real ones.

```python
script = conversation(Reply(tool_calls=[("add", {"a": 1, "b": 2})]), "3")
async with FakeAnthropic(script, faults=[Status(529), None]) as server:
    model = AnthropicMessages("claude-x", api_key="k", base_url=server.url)
    …
    assert not server.refused
```
A script is a pure function of the request, so a request that is tried again gets the same answer.
"""

from windlass.testing.providers.anthropic import FakeAnthropic
from windlass.testing.providers.bedrock import FakeBedrock
from windlass.testing.providers.faults import (
    FAULTS,
    Body,
    Fault,
    Faults,
    Hangup,
    Headers,
    Pieces,
    Silence,
    Status,
    Twist,
    applies,
)
from windlass.testing.providers.gemini import FakeGemini, FakeVertex
from windlass.testing.providers.ollama import FakeOllama
from windlass.testing.providers.openai import FakeOpenAI
from windlass.testing.providers.openai_azure import FakeAzure
from windlass.testing.providers.openai_mistral import FakeMistral
from windlass.testing.providers.reply import (
    Asked,
    Reply,
    Script,
    conversation,
)
from windlass.testing.providers.responses import FakeResponses
from windlass.testing.providers.server import FakeServer, Rejected

__all__ = [
    "FAULTS",
    "Asked",
    "Body",
    "FakeAnthropic",
    "FakeAzure",
    "FakeBedrock",
    "FakeGemini",
    "FakeMistral",
    "FakeOllama",
    "FakeOpenAI",
    "FakeResponses",
    "FakeServer",
    "FakeVertex",
    "Fault",
    "Faults",
    "Hangup",
    "Headers",
    "Pieces",
    "Rejected",
    "Reply",
    "Script",
    "Silence",
    "Status",
    "Twist",
    "applies",
    "conversation",
]

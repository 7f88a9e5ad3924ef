"""pydantic-ai on the scripted work."""
# pyright: reportMissingImports=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.usage import RequestUsage, UsageLimits

from bench.peers.measuring import main
from bench.work import DONE, PROMPT, SYSTEM, TOOLS, Script, begin, script_now

NO_LIMIT = UsageLimits(request_limit=None)
USAGE = RequestUsage(input_tokens=10, output_tokens=5)


class Scripted(Model):
    """Answers from the current script."""

    model_name = "scripted"
    system = "scripted"

    async def request(self, *_: Any, **__: Any) -> ModelResponse:
        calls = script_now().calls_next()
        if calls is None:
            return ModelResponse(parts=[TextPart(DONE)], usage=USAGE)
        asked = [ToolCallPart(name, arguments, id) for id, name, arguments in calls]
        return ModelResponse(parts=asked, usage=USAGE)


def build() -> Any:
    """An agent with the one tool."""
    return Agent(Scripted(), instructions=SYSTEM, tools=[TOOLS["add"]])


async def run(agent: Any, script: Script) -> None:
    """One run to its end."""
    begin(script)
    assert (await agent.run(PROMPT, usage_limits=NO_LIMIT)).output == DONE


if __name__ == "__main__":
    main(build, run)

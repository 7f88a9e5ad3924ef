"""agno on the scripted work."""
# pyright: reportMissingImports=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

from bench.peers.measuring import main
from bench.work import DONE, PROMPT, SYSTEM, TOOLS, Script, begin, script_now


@dataclass
class Scripted(Model):
    """Answers from the current script."""

    id: str = "scripted"

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        calls = script_now().calls_next()
        if calls is None:
            return ModelResponse(role="assistant", content=DONE)
        asked = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in calls
        ]
        return ModelResponse(role="assistant", tool_calls=asked)

    async def ainvoke(self, *_: Any, **__: Any) -> ModelResponse:
        return self.invoke()

    def invoke_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def ainvoke_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **_: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response


def build() -> Any:
    """An agent with the one tool."""
    return Agent(model=Scripted(), tools=[TOOLS["add"]], instructions=SYSTEM, telemetry=False)


async def run(agent: Any, script: Script) -> None:
    """One run to its end."""
    begin(script)
    assert (await agent.arun(PROMPT)).content == DONE


if __name__ == "__main__":
    main(build, run)

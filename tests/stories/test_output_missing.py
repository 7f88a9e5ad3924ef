"""A run without an answer says so: `out.output` raises, with the error and what to do about it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, kept
from windlass.testing import call, scripted
from windlass.testing.providers import FakeAnthropic

README_LINE = """
import windlass as w
agent = w.Agent("anthropic:claude-sonnet-4-5", budget=w.Budget(usd=0.50))
print(agent.run_sync("What is 19 + 23?").output)
"""


def missing(out: w.AgentResult[Any]) -> w.OutputMissing:
    with pytest.raises(w.OutputMissing) as raised:
        _ = out.output
    return raised.value


async def test_output_of_a_wrong_key_raises_the_error_and_its_fix():
    model = scripted(w.AuthFailed("invalid x-api-key", provider="anthropic", model="claude-x"))
    out = await w.Agent(model).run("go", session_id="s")
    error = missing(out)
    assert (error.status, error.session_id) == ("provider_error", "s")
    assert error.error == out.error and error.error["category"] == "auth"
    assert error.fix == "check the key; `windlass models doctor anthropic:claude-x` tries it"
    assert str(error) == f"the run ended as provider_error (auth): invalid x-api-key; {error.fix}"
    assert repr(out) == "<AgentResult provider_error after 0 turns: auth: invalid x-api-key>"
    await kept(out, model)


@pytest.mark.parametrize("status", ["suspended", "provider_error", "failed", "cancelled"])
async def test_output_of_a_run_that_did_not_end_well_raises_though_there_is_text(status: str):
    class Breaks(w.Policy[None]):
        async def after_turn(self, run: w.Run, turn: Any) -> None:
            if status == "failed" and run.iteration == 2:
                raise RuntimeError("broken policy")

    brake = w.Abort()

    def second(request: w.Request) -> Any:
        match status:
            case "suspended":
                return call("ask")
            case "provider_error":
                return w.BadRequest("no")
            case "cancelled":
                brake.abort("enough")
                return asyncio.sleep(3600)
            case _:
                return "well"

    ask = w.Tool(name="ask", description="Ask somebody.")
    model = scripted(["Let me see.", call("add", a=1, b=2)], second)
    agent = w.Agent(model, tools=[add, ask], policies=[Breaks()], abort=brake)
    out = await agent.run("go", session_id="s")
    assert out.status == status
    assert out.final_text == ("well" if status == "failed" else "Let me see.")
    error = missing(out)
    assert error.status == status and error.error == out.error
    assert error.fix and str(error).endswith(error.fix)
    if status == "suspended":
        assert "out.pending" in error.fix and "agent.resume('s'" in error.fix
    await kept(out, model)


async def test_output_of_a_run_that_a_limit_stopped_is_the_text_it_came_to():
    model = scripted(["So far: 3.", call("add", a=1, b=2)], call("add", a=1, b=2))
    out = await w.Agent(model, tools=[add], max_turns=2).run("go")
    assert (out.status, out.output) == ("budget_exhausted", "So far: 3.")
    await kept(out, model)


async def test_output_of_a_run_that_a_limit_stopped_without_text_names_the_limit():
    model = scripted(call("add", a=1, b=2))
    out = await w.Agent(model, tools=[add], max_turns=1).run("go")
    error = missing(out)
    assert "budget_exhausted (max_iterations) without a text" in str(error)
    assert "raise max_turns" in error.fix and error.error is None
    await kept(out, model)


async def test_output_of_a_run_that_said_nothing_raises():
    model = scripted(call("add", a=1, b=2), then="")
    out = await w.Agent(model, tools=[add]).run("go")
    assert (out.status, out.final_text) == ("done", "")
    assert "without a text" in str(missing(out)) and "answer in words" in missing(out).fix


async def test_output_that_is_false_is_an_answer():
    out = await w.Agent(scripted("0"), output=int).run("go")
    assert out.output == 0


async def test_repr_shows_the_error_and_what_was_said():
    model = scripted(["Let me see.", call("add", a=1, b=2)], w.BadRequest("no " * 200))
    out = await w.Agent(model, tools=[add]).run("go")
    assert repr(out).startswith("<AgentResult provider_error after 1 turns: bad_request: no no")
    assert repr(out).endswith("said 'Let me see.'>") and len(repr(out)) < 320
    loop = await w.agent_loop("go", model=scripted(w.BadRequest("no")))
    assert repr(loop) == "<LoopResult provider_error after 0 turns: bad_request: no>"


@pytest.mark.usefixtures("reachable")
async def test_the_readme_line_with_a_wrong_key_ends_with_the_error():
    async with FakeAnthropic("42", api_key="right") as server:
        env = {**os.environ, "ANTHROPIC_API_KEY": "wrong-key", "ANTHROPIC_BASE_URL": server.url}
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", README_LINE],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert "OutputMissing: the run ended as provider_error (auth): invalid x-api-key" in last
    assert "ANTHROPIC_API_KEY" in last and "wrong-key" not in done.stderr

"""A reply may ask for so many calls; those after them are answered and not run."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from tests.stories.judge_helpers import DONE
from windlass.events import ToolCallReady, ToolDecided, ToolIntended, ToolResulted
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import ToolCall, ToolResult
from windlass.models.base import Emit
from windlass.testing import call, scripted

WORDS = "Not run: too many calls in one reply (limit {})."


def counting(effect: str = "workspace_write") -> tuple[w.Tool, list[int]]:
    ran: list[int] = []

    async def add(args: dict[str, Any]) -> str:
        ran.append(args["n"])
        return str(args["n"])

    shape = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return w.Tool("add", "Add.", shape, handler=add, side_effect_level=effect), ran


def asking(count: int) -> list[Any]:
    return [call("add", n=n) for n in range(count)]


class Streaming(w.Model):
    """Announces each call while it writes, in any order, and then says "ok"."""

    def __init__(self, announced: list[ToolCall], asked: list[ToolCall]) -> None:
        self.announced, self.asked, self.requests = announced, asked, []

    async def respond(self, request: w.Request, emit: Emit) -> w.Response:
        self.requests.append(request)
        if len(self.requests) > 1:
            return w.Response(w.Message("assistant", "ok"), w.Usage(1, 1))
        for one in self.announced:
            emit(ToolCallReady(one))
        return w.Response(w.Message("assistant", tuple(self.asked)), w.Usage(1, 1), "tool_use")


class Asked(Policy[None]):
    """Remembers which calls it was asked about."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    async def before_tool(self, run: Run, call: ToolCall) -> None:
        self.ids.append(call.arguments["n"])


def results_in(request: Any) -> list[ToolResult]:
    return [block for block in request.messages[-1].content if isinstance(block, ToolResult)]


@pytest.mark.parametrize("concurrent", [1, 4])
async def test_calls_after_the_limit_are_answered_and_not_run(concurrent: int):
    tool, ran = counting()
    asked, model = Asked(), scripted(asking(300), "ok")
    agent = w.Agent(model, tools=[tool], max_concurrent_tools=concurrent, policies=[asked])
    out = await agent.run("go")
    await kept(out, model)
    assert out.status == "done" and sorted(ran) == list(range(128)) == asked.ids
    results = results_in(model.requests[1])
    assert len(results) == len({one.id for one in results}) == 300
    assert {one.text for one in results[128:]} == {WORDS.format(128)}
    assert all(one.outcome == "not_run" and one.is_error for one in results[128:])
    assert [one.text for one in results[:128]] == [str(n) for n in range(128)]


async def test_as_many_as_the_limit_all_run():
    tool, ran = counting()
    model = scripted(asking(128), "ok")
    await w.Agent(model, tools=[tool]).run("go")
    assert sorted(ran) == list(range(128))
    assert {one.outcome for one in results_in(model.requests[1])} == {"ok"}


@pytest.mark.parametrize("door", ["agent", "agent_loop", "agent_turn", "generate", "run"])
async def test_every_entry_point_takes_the_limit(door: str):
    tool, ran = counting()
    model = scripted(asking(5), "ok", DONE)
    match door:
        case "agent":
            await w.Agent(model, tools=[tool], max_calls_per_reply=2).run("go")
        case "run":
            await w.Agent(model, tools=[tool]).run("go", max_calls_per_reply=2)
        case "agent_loop":
            await w.agent_loop("go", model=model, tools=[tool], max_calls_per_reply=2)
        case "agent_turn":
            await w.agent_turn("go", model=model, tools=[tool], max_calls_per_reply=2)
        case _:
            async with w.Runtime(store="memory:") as scope:
                await scope.models.generate("go", model=model, tools=[tool], max_calls_per_reply=2)
    assert sorted(ran) == [0, 1]
    assert [one.text for one in results_in(model.requests[1])[2:]] == [WORDS.format(2)] * 3


async def test_calls_written_as_text_count_too():
    tool, ran = counting()
    line = '<tool_call>{{"name": "add", "arguments": {{"n": {}}}}}</tool_call>'
    model = scripted("\n".join([line.format(n) for n in range(200)]), "ok")
    out = await w.agent_loop("go", model=model, tools=[tool], tool_format="text")
    assert out.status == "done" and ran == list(range(128))
    assert model.requests[1].messages[-1].text.count(WORDS.format(128)) == 72


@pytest.mark.parametrize("late", [False, True])
async def test_reads_that_start_early_keep_the_limit(late: bool):
    """Also where the calls were announced in another order than they stand in the reply."""
    tool, ran = counting("read_only")
    calls = [ToolCall(f"c{n}", "add", {"n": n}) for n in range(6)]
    model = Streaming(calls[::-1] if late else calls, calls)
    out = await w.Agent(model, tools=[tool], max_calls_per_reply=3).run("go")
    await kept(out, model)
    results = results_in(model.requests[1])
    assert [one.id for one in results] == [one.id for one in calls]
    assert [one.outcome for one in results] == ["ok"] * 3 + ["not_run"] * 3
    assert sum([type(one) is ToolResulted for one in out.entries]) == 6
    assert out.status == "done" and {0, 1, 2} <= set(ran)
    if not late:
        assert ran == [0, 1, 2]


async def test_a_run_that_is_taken_up_again_answers_them_once():
    """The rest was answered before anybody was asked: approval does not bring it back."""
    tool, ran = counting()
    model = scripted(asking(4), "ok")
    agent = w.Agent(
        model,
        tools=[tool],
        max_calls_per_reply=2,
        approval_policy={"rules": [{"ask": "add"}]},
    )
    out = await agent.run("go")
    assert out.status == "suspended" and not ran and len(out.pending) == 2
    refused = [one for one in out.entries if type(one) is ToolResulted]
    assert [one.outcome for one in refused] == ["not_run"] * 2
    await w.approve(*[one.id for one in await w.approvals()])
    out = await agent.resume(out.session_id)
    await kept(out, model)
    assert out.status == "done" and ran == [0, 1]
    decided = {one.call_id for one in out.entries if type(one) in (ToolDecided, ToolIntended)}
    assert not decided & {one.call_id for one in refused}
    assert [one.outcome for one in results_in(model.requests[1])] == ["ok"] * 2 + ["not_run"] * 2

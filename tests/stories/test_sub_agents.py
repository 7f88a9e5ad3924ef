"""Sub-agents: agents as tools, tasks for a child with one result, artifacts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.events import Replied
from windlass.testing import call, scripted

PATHS = {
    "type": "object",
    "properties": {"paths": {"type": "array", "items": {"type": "string"}}},
    "required": ["paths"],
}


@w.tool(side_effect_level="read_only")
async def search(what: str) -> str:
    """Search."""
    return f"found {what}"


@w.tool
async def write(text: str) -> str:
    """Write."""
    return "written"


def ask(run: Any) -> Any:
    """Make a tool that hands its task to `run(ctx, task)`."""

    @w.tool
    async def delegate(ctx: w.ToolContext[None], task: str) -> str:
        """Delegate."""
        results.append(await run(ctx, task))
        return results[-1].summary or "nothing"

    results: list[Any] = []
    delegate_results[delegate.name] = results
    return delegate


delegate_results: dict[str, list[Any]] = {}


async def test_agents_are_tools_with_their_name_and_description():
    billing = w.Agent(scripted("you owe 5"), name="billing", description="Knows invoices.")
    model = scripted(call("billing", task="What is due?"), "5 are due")
    out = await w.Agent(model, agents=[billing]).run("go")
    assert out.output == "5 are due"
    [spec] = model.requests[0].tools
    assert (spec.name, spec.description) == ("billing", "Knows invoices.")
    [child] = out.children
    assert (child.name, child.call_id) == ("billing", out.tool_calls[0].id)
    assert child.session_id.startswith(out.session_id)
    assert child.usage.total_tokens == out.usage.total_tokens - out.own_usage.total_tokens


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        ("billing", "a list of Agents"),
        ([scripted("x")], "a list of Agents"),
        ([w.Agent("mock")], "needs a name"),
        ([w.Agent("mock", name="a"), w.Agent("mock", name="a")], "two agents named 'a'"),
    ],
)
async def test_what_is_no_list_of_named_agents_is_refused(agents: Any, words: str):
    with pytest.raises(w.ConfigError, match=words):
        w.Agent("mock", agents=agents)


@pytest.mark.parametrize("way", ["agents", "sub_agent_run", "fan_out"])
async def test_callback_of_a_sub_agent_is_told_its_events(way: str):
    seen: list[w.Event] = []
    child = w.Agent(scripted("found"), name="child", on_event=seen.append)

    @w.tool(name="child")
    async def delegate(ctx: w.ToolContext[None], task: str) -> str:
        """Hand a task on."""
        if way == "fan_out":
            return (await w.fan_out(child, [task], parent=ctx)).outputs[0]
        model, told = scripted("found"), seen.append
        return (await w.sub_agent_run(task, parent=ctx, model=model, on_event=told)).summary

    given: dict[str, Any] = {"agents": [child]} if way == "agents" else {"tools": [delegate]}
    out = await w.Agent(scripted(call("child", task="x"), "ok"), **given).run("go")
    assert out.output == "ok"
    assert [event.message.text for event in seen if isinstance(event, Replied)] == ["found"]


async def test_agent_and_tool_of_one_name_are_refused():
    other = w.Agent("mock", name="search")
    with pytest.raises(w.ConfigError, match="search"):
        await w.Agent(scripted("x"), tools=[search], agents=[other]).run("go")


async def test_envelope_of_a_child_by_itself():
    model = scripted(call("search", what="x"), "it is in a.py")
    result = await w.sub_agent_run(
        "Find x.", model=model, tools=[search, write], allowed_tools=["search"]
    )
    assert (result.ok, result.summary, result.error, result.status) == (
        True,
        "it is in a.py",
        None,
        "done",
    )
    assert {tool.name for tool in model.requests[0].tools} == {"search", "artifact_write"}
    assert (result.artifacts, result.evidence_added, result.budget_exceeded) == ((), 0, False)
    assert result.tokens_used > 0 and result["session_id"] == result.session_id
    assert result.transcript["messages"]


async def test_value_that_is_asked_for():
    model = scripted('{"paths": ["a.py"]}')
    result = await w.sub_agent_run("Find.", {"returns": {"schema": PATHS}}, model=model)
    assert result.ok and result.data == {"paths": ["a.py"]}
    assert result.summary == '{"paths":["a.py"]}'
    wrong = await w.sub_agent_run("Find.", returns={"schema": PATHS}, model=scripted("no idea"))
    assert not wrong.ok and wrong.data is None and wrong.error is not None


async def test_call_that_the_narrowed_scope_rejects():
    model = scripted(call("write", text="x"), "well")
    result = await w.sub_agent_run(
        "Go.", model=model, tools=[search, write], allowed_tools=["search"]
    )
    assert not result.ok and result.error is not None
    assert (result.error.category, result.error.tool) == ("permission_denied", "write")
    model = scripted(call("write", text="x"), "well")
    result = await w.sub_agent_run(
        "Go.", model=model, tools=[write], permissions={"deny": ["write"]}
    )
    assert result.error is not None and result.error.category == "permission_denied"


async def test_token_budget_that_is_used_up():
    model = scripted("a long answer")
    result = await w.sub_agent_run("Go.", model=model, token_budget=100_000)
    assert result.ok and not result.budget_exceeded
    model = scripted(
        *[call("search", what=str(n)) for n in range(9)], "end", usage=w.Usage(400, 100)
    )
    result = await w.sub_agent_run("Go.", model=model, tools=[search], token_budget=2000)
    assert not result.ok and result.budget_exceeded and result.tokens_used <= 2000


async def test_failure_of_the_child_is_in_the_result():
    result = await w.sub_agent_run("Go.", model=scripted(w.AuthFailed("no key")))
    assert result.error is not None
    assert (result.ok, result.error.category, result.status) == (False, "auth", "provider_error")


async def test_artifacts_reach_the_parent_and_the_parents_transcript_stays_clean():
    child = scripted(
        call("artifact_write", title="patch", text="--- a", kind="patch"),
        call("artifact_write", title="patch", text="--- b", kind="patch"),
        call("artifact_write", title="counts", data={"n": 2}),
        "done",
    )
    delegate = ask(lambda ctx, task: w.sub_agent_run(task, parent=ctx, model=child))
    model = scripted(call("delegate", task="fix it"), "fixed")
    out = await w.Agent(model, tools=[search, delegate]).run("go")
    [result] = delegate_results["delegate"]
    assert [(a.kind, a.title, a.text, a.data) for a in result.artifacts] == [
        ("patch", "patch", "--- b", None),
        ("note", "counts", None, {"n": 2}),
    ]
    assert result.evidence_added == 2 and result.artifacts[0].session_id == result.session_id
    assert [message.role for message in out.all_messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert "artifact_write" not in str(out.all_messages)
    # it has the tools of the run, and its session lies under that of the run
    assert {tool.name for tool in child.requests[0].tools} == {
        "search",
        "delegate",
        "artifact_write",
    }
    assert result.session_id.startswith(out.session_id + ".")
    assert [one.session_id for one in out.children] == [result.session_id]


async def test_rules_and_budget_of_the_parent_hold():
    child = scripted(call("write", text="x"), "well")
    delegate = ask(lambda ctx, task: w.sub_agent_run(task, parent=ctx, model=child))
    model = scripted(call("delegate", task="write it"), "ok")
    await w.Agent(model, tools=[write, delegate], permissions={"deny": ["write"]}).run("go")
    [result] = delegate_results["delegate"]
    assert result.error is not None and result.error.category == "permission_denied"


async def test_call_that_is_cut_goes_on_with_the_same_children(tmp_path: Path):
    """A keyed tool that runs again finds the children that have ended, and asks for none twice."""
    waits = asyncio.Event()

    @w.tool(keyed=True)
    async def delegate(ctx: w.ToolContext[None]) -> str:
        """Delegate."""
        one = await w.sub_agent_run("one", parent=ctx, model=first)
        if not waits.is_set():
            waits.set()
            await asyncio.Event().wait()
        two = await w.sub_agent_run("two", parent=ctx, model=second)
        return f"{one.summary} {two.summary}"

    first, second = scripted("1"), scripted("2")
    agent = w.Agent(scripted(call("delegate"), "end"), tools=[delegate])
    async with w.Runtime(store=f"sqlite:///{tmp_path / 'runs.db'}"):
        run = asyncio.ensure_future(agent.run("go", session_id="s", on_cancel="park"))
        await waits.wait()
        run.cancel()
        await asyncio.wait({run})
        out = await agent.resume("s")
        assert out.tool_calls[0].result == "1 2"
        assert (len(first.requests), len(second.requests)) == (1, 1)
        assert [one.session_id for one in out.children] == ["s.call_1.0", "s.call_1.1"]


def test_request_shows_what_would_run():
    request = w.sub_agent_request(
        "Find.", tools=[search, write], allowed_tools=["search"], token_budget=9, system="Be brief."
    )
    assert (request.task, request.tools) == ("Find.", ("search", "artifact_write"))
    assert request.options == {"token_budget": 9, "system": "Be brief."}


@pytest.mark.parametrize(
    ("task", "more", "words"),
    [
        ("  ", {}, "not blank"),
        (7, {}, "not blank"),
        ("x", {"allowed_tools": ["serch"]}, "serch"),
        ("x", {"allowed_tools": "search"}, "a list of names"),
        ("x", {"returns": {"shema": {}}}, "shema"),
        ("x", {"returns": {"schema": PATHS}, "schema": PATHS}, "give one of them"),
        ("x", {"background": 5}, "background"),
        ("x", {"parent": "me"}, "ToolContext"),
        ("x", {"max_turn": 3}, "max_turn"),
    ],
)
async def test_mistakes_are_named_before_anything_runs(task: Any, more: Any, words: str):
    model = scripted("x")
    with pytest.raises(w.ConfigError, match=words):
        await w.sub_agent_run(task, model=model, tools=[search], **more)
    assert not model.requests

"""Runs that wait: for the host, for a decision, for a tool that said "later"."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    note,
    written,
)
from windlass.events import InboxTaken, RunResumed, Suspended, ToolDecided
from windlass.testing import call, scripted

ask_host = w.Tool(
    "ask_host",
    "Ask the person at the keyboard.",
    {"type": "object", "properties": {"question": {"type": "string"}}},
)


class Approval(w.Policy[None]):
    """Every note wants a yes."""

    async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Suspend | None:
        return w.Suspend(f"may {call.name} run?") if call.name == "note" else None


# --------------------------------------------------------------------------- tools of the host


async def test_a_tool_without_a_handler_parks_the_run():
    model = scripted(call("ask_host", question="which?"), "Blue it is.")
    agent = w.Agent(model, tools=[ask_host])
    out = await agent.run("go", session_id="s")
    assert out.status == "suspended"
    [pending] = out.pending
    assert (pending.name, pending.arguments) == ("ask_host", {"question": "which?"})
    with pytest.raises(w.Suspended) as caught:
        out.raise_for_status()
    assert caught.value.session_id == "s"
    out = await agent.resume("s", results={pending.id: "blue"})
    assert (out.status, out.output, out.pending) == ("done", "Blue it is.", [])
    assert out.tool_calls[0].result == "blue"
    await kept(out, model)


async def test_the_loop_parks_too():
    out = await w.agent_loop("go", model=scripted(call("ask_host")), tools=[ask_host])
    assert (out.status, out.pending[0].name) == ("suspended", "ask_host")


async def test_the_others_of_the_batch_run_before_the_run_parks():
    model = scripted([call("add", a=1, b=1), call("ask_host"), call("note", text="x")], "ok")
    agent = w.Agent(model, tools=[add, ask_host, note])
    out = await agent.run("go", session_id="s")
    assert [record.name for record in out.tool_calls] == ["add", "note"]
    assert [call.name for call in out.pending] == ["ask_host"]
    out = await agent.resume("s", results={out.pending[0].id: {"n": 3}})
    [answer] = [m for m in out.all_messages if m.role == "tool"]
    assert [block.name for block in answer.content] == ["add", "ask_host", "note"]
    assert json.loads(answer.content[1].text) == {"n": 3}
    await kept(out, model)


async def test_a_result_may_be_an_error():
    agent = w.Agent(scripted(call("ask_host"), "ok"), tools=[ask_host])
    out = await agent.run("go", session_id="s")
    answer = w.ToolResult(content="nobody there", is_error=True, outcome="error")
    out = await agent.resume("s", results={out.pending[0].id: answer})
    assert (out.tool_calls[0].outcome, out.tool_calls[0].result) == ("error", "nobody there")


async def test_two_calls_may_be_answered_one_after_the_other():
    model = scripted([call("ask_host", question="a"), call("ask_host", question="b")], "ok")
    agent = w.Agent(model, tools=[ask_host])
    out = await agent.run("go", session_id="s")
    first, second = out.pending
    out = await agent.resume("s", results={first.id: "A"})
    assert (out.status, [p.id for p in out.pending]) == ("suspended", [second.id])
    out = await agent.resume("s", results={second.id: "B"})
    assert out.status == "done"
    assert [record.result for record in out.tool_calls] == ["A", "B"]
    await kept(out, model)


async def test_a_result_for_no_open_call_is_an_error_that_names_those_open():
    agent = w.Agent(scripted(call("ask_host"), "ok"), tools=[ask_host])
    out = await agent.run("go", session_id="s")
    with pytest.raises(w.ConfigError, match=out.pending[0].id):
        await agent.resume("s", results={"nope": 1})
    out = await agent.resume("s", results={out.pending[0].id: 1})
    assert out.status == "done"


async def test_a_decision_for_no_open_call_is_an_error_too():
    agent = w.Agent(scripted(call("note", text="x"), "ok"), tools=[note], policies=[Approval()])
    out = await agent.run("go", session_id="s")
    with pytest.raises(w.ConfigError, match=out.pending[0].id):
        await agent.resume("s", decisions={"nope": w.Allow()})
    assert (await agent.resume("s", decisions={out.pending[0].id: True})).status == "done"


async def test_another_runtime_on_the_same_file_may_answer(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/agents.db"
    async with w.Runtime(store=url, environ={}):
        out = await w.Agent(scripted(call("ask_host")), tools=[ask_host]).run("go", session_id="s")
        waiting = out.pending[0].id
    async with w.Runtime(store=url, environ={}):
        model = scripted("Blue.")
        out = await w.Agent(model, tools=[ask_host]).resume("s", results={waiting: "blue"})
        assert (out.status, out.output) == ("done", "Blue.")
        assert any(isinstance(e, RunResumed) for e in out.entries)
        await kept(out)


async def test_an_answer_left_in_the_inbox_is_taken_on_resume():
    agent = w.Agent(scripted(call("ask_host"), "ok"), tools=[ask_host])
    out = await agent.run("go", session_id="s")
    await out._run.store.post("s", "result", {out.pending[0].id: "from afar"})
    out = await agent.resume("s")
    assert (out.status, out.tool_calls[0].result) == ("done", "from afar")


async def test_a_resume_without_an_answer_stays_parked():
    model = scripted(call("ask_host"), "ok")
    agent = w.Agent(model, tools=[ask_host])
    out = await agent.run("go", session_id="s")
    again = await agent.resume("s")
    assert (again.status, [p.id for p in again.pending]) == ("suspended", [out.pending[0].id])
    assert len(model.requests) == 1


async def test_an_answer_is_on_record_before_it_is_used():
    """Whoever gave it will not give it twice: a crash must not lose it."""
    agent = w.Agent(scripted(call("ask_host"), "ok"), tools=[ask_host])
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", results={out.pending[0].id: "blue"})
    [taken] = [e for e in out.entries if isinstance(e, InboxTaken)]
    assert "blue" in str(taken.payload)
    before_its_use = out.entries[: list(out.entries).index(taken) + 1]
    async with w.Runtime(store="memory:", environ={}) as runtime:
        await written(runtime.store, "s", before_its_use)
        again = await w.Agent(scripted("ok"), tools=[ask_host]).resume("s")
        assert (again.status, again.tool_calls[0].result) == ("done", "blue")


async def test_a_decision_is_on_record_before_it_is_used():
    agent = w.Agent(scripted(call("note", text="x"), "ok"), tools=[note], policies=[Approval()])
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", decisions={out.pending[0].id: w.Deny("no", by=w.Caller("ann"))})
    [taken] = [e for e in out.entries if isinstance(e, InboxTaken)]
    before_its_use = out.entries[: list(out.entries).index(taken) + 1]
    async with w.Runtime(store="memory:", environ={}) as runtime:
        await written(runtime.store, "s", before_its_use)
        again = await w.Agent(scripted("ok"), tools=[note], policies=[Approval()]).resume("s")
        assert (again.status, again.tool_calls[0].result) == ("done", "Denied: no")


# --------------------------------------------------------------------------- decisions


async def test_a_call_that_asks_waits_for_a_yes():
    model = scripted(call("note", text="x"), "Noted.")
    agent = w.Agent(model, tools=[note], policies=[Approval()])
    out = await agent.run("go", session_id="s")
    assert (out.status, out.pending[0].reason) == ("suspended", "may note run?")
    out = await agent.resume("s", decisions={out.pending[0].id: w.Allow(by=w.Caller("ann"))})
    assert (out.status, out.tool_calls[0].outcome) == ("done", "ok")
    decided = [e for e in out.entries if isinstance(e, ToolDecided)]
    assert [e.action for e in decided] == ["ask", "allow"]
    assert "ann" in decided[-1].rule
    await kept(out, model)


async def test_a_no_is_told_to_the_model():
    model = scripted(call("note", text="x"), "Then not.")
    agent = w.Agent(model, tools=[note], policies=[Approval()])
    out = await agent.run("go", session_id="s")
    out = await agent.resume(
        "s", decisions={out.pending[0].id: w.Deny("too late", by=w.Caller("ann"))}
    )
    record = out.tool_calls[0]
    assert (record.outcome, record.result) == ("denied", "Denied: too late")
    [denied] = [e for e in out.entries if isinstance(e, ToolDecided) and e.action == "deny"]
    assert "ann" in denied.rule
    await kept(out, model)


async def test_every_call_is_asked_before_any_runs():
    ran: list[str] = []

    @w.tool
    async def act(name: str) -> str:
        ran.append(name)
        return name

    class AskSecond(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Suspend | None:
            return w.Suspend("sure?") if call.arguments["name"] == "b" else None

    model = scripted([call("act", name="a"), call("act", name="b")], "ok")
    agent = w.Agent(model, tools=[act], policies=[AskSecond()])
    out = await agent.run("go", session_id="s")
    assert (out.status, ran) == ("suspended", [])
    asked = next(p for p in out.pending if p.arguments == {"name": "b"})
    out = await agent.resume("s", decisions={asked.id: True})
    assert (out.status, ran) == ("done", ["a", "b"])
    await kept(out, model)


async def test_a_decision_may_come_through_the_inbox():
    agent = w.Agent(scripted(call("note", text="x"), "ok"), tools=[note], policies=[Approval()])
    out = await agent.run("go", session_id="s")
    await out._run.store.post("s", "decision", {out.pending[0].id: {"action": "allow"}})
    assert (await agent.resume("s")).tool_calls[0].outcome == "ok"


async def test_a_recorded_decision_is_used_once():
    """Of two notes the yes was for one."""
    model = scripted(call("note", text="a"), call("note", text="b"), "ok")
    agent = w.Agent(model, tools=[note], policies=[Approval()])
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", decisions={out.pending[0].id: True})
    assert (out.status, out.pending[0].arguments) == ("suspended", {"text": "b"})


# --------------------------------------------------------------------------- tools that say "later"


async def test_a_keyed_tool_may_park_its_call_and_runs_again_under_its_key():
    keys: list[str] = []
    ready = False

    @w.tool(keyed=True)
    async def order(ctx: w.ToolContext[None], item: str) -> Any:
        keys.append(ctx.idempotency_key)
        return "delivered" if ready else w.Parked("on its way", {"parcel": 7})

    model = scripted([call("order", item="x"), call("add", a=1, b=1)], "Here.")
    agent = w.Agent(model, tools=[order, add])
    out = await agent.run("go", session_id="s")
    assert (out.status, out.stop_reason) == ("suspended", "on its way")
    assert [record.name for record in out.tool_calls] == ["add"]
    [parked] = [e for e in out.entries if isinstance(e, Suspended)]
    assert parked.conditions == {"parcel": 7}
    ready = True
    out = await agent.resume("s")
    assert (out.status, out.output) == ("done", "Here.")
    assert len(keys) == 2 and len(set(keys)) == 1
    await kept(out, model)


async def test_only_a_keyed_tool_may_park():
    @w.tool
    async def order() -> Any:
        return w.Parked("later")

    out = await w.agent_loop("go", model=scripted(call("order"), "ok"), tools=[order])
    assert (out.status, out.tool_calls[0].outcome) == ("done", "error")
    assert "keyed" in out.tool_calls[0].result


async def test_a_parked_child_parks_its_parent_and_goes_on_later():
    child = w.Agent(scripted(call("ask_host"), "It is blue."), tools=[ask_host], name="painter")
    parent = w.Agent(scripted(call("painter", task="colour?"), "Blue."), tools=[child.as_tool()])
    out = await parent.run("go", session_id="p")
    assert out.status == "suspended"
    [parked] = [e for e in out.entries if isinstance(e, Suspended)]
    assert parked.conditions is not None
    inner = await child.resume(
        parked.conditions["session_id"], results={parked.conditions["calls"][0]: "blue"}
    )
    assert inner.status == "done"
    out = await parent.resume("p")
    assert (out.status, out.output) == ("done", "Blue.")
    assert out.tool_calls[0].result == "It is blue."


# --------------------------------------------------------------------------- waiting between turns


async def test_a_run_may_be_parked_and_woken_through_its_inbox():
    async with w.Runtime(store="memory:", environ={}) as runtime:
        await w.agent_session_open("s")
        await runtime.store.post("s", "suspend", {"reason": "lunch"})
        model = scripted("Hello.")
        agent = w.Agent(model)
        out = await agent.run("go", session_id="s")
        assert (out.status, out.stop_reason, len(model.requests)) == ("suspended", "lunch", 0)
        await runtime.store.post("s", "resume", "back again")
        out = await agent.resume("s")
        assert (out.status, out.output) == ("done", "Hello.")
        assert [m.text for m in model.requests[0].messages] == ["go", "back again"]
        await kept(out, model)


async def test_an_ended_run_stays_ended():
    model = scripted("Done.")
    agent = w.Agent(model)
    first = await agent.run("go", session_id="s")
    again = await agent.resume("s")
    assert (again.status, again.stop_reason, again.output) == ("done", "natural", "Done.")
    assert again.run_id == first.run_id
    assert len(model.requests) == 1
    assert (await agent.run("more", session_id="s", model=scripted("More."))).output == "More."


async def test_resuming_what_never_ran_says_so():
    with pytest.raises(w.NoSuchSession, match="nowhere"):
        await w.Agent(scripted()).resume("nowhere")
    await w.agent_session_open("fresh")
    with pytest.raises(w.NoSuchSession, match="prompt"):
        await w.Agent(scripted()).resume("fresh")

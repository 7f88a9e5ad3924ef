"""Stories of workers: agents in the background that a handle reaches from anywhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass as w
from windlass import seams
from windlass.engine.active_runs import under_way
from windlass.engine.environment import current_environment
from windlass.events import Replied, ToolResulted, WorkerStopped, WorkerUpdate
from windlass.testing import call, scripted
from windlass.triggers.api import publish_event
from windlass.triggers.fire import fire_due
from windlass.workers import drive

ran: list[str] = []


@w.tool(side_effect_level="read_only")
async def search(what: str) -> str:
    """Search the repository."""
    ran.append(f"search {what}")
    return "config.py:3"


@w.tool(side_effect_level="workspace_write")
async def write(path: str) -> str:
    """Write a file."""
    ran.append(f"write {path}")
    return "written"


@pytest.fixture(autouse=True)
def nothing_ran():
    ran.clear()


def node(*script: Any, **more: Any) -> dict[str, Any]:
    """Build a node whose model says these things."""
    return {"model_policy": {"model": scripted(*script)}, **more}


def gate(name: str = "hold") -> tuple[w.Tool, asyncio.Event, asyncio.Event]:
    """Build a tool that waits until it may return; the events say that it began, and let it go."""
    begun, free = asyncio.Event(), asyncio.Event()

    @w.tool(name=name, side_effect_level="read_only")
    async def hold() -> str:
        """Wait."""
        begun.set()
        await free.wait()
        return "held"

    return hold, begun, free


async def until_asked(worker: w.Worker) -> None:
    """Wait until the run of the worker knows that it is to park."""
    [run] = [one.run for one in under_way if one.run.session_id == worker.id]
    while not run.journal.mail:
        await seams.sleep(0)


# --------------------------------------------------------------------------- spawn and wait


async def test_worker_runs_in_the_background_and_is_waited_for():
    worker = await w.spawn_agent(
        {"name": "research-pass", "task": "Draft a summary", "node": node("Here it is.")}
    )
    assert (worker.name, worker.task, worker.mode, worker.status) == (
        "research-pass",
        "Draft a summary",
        "node",
        "running",
    )
    done = await w.wait_agent(worker)
    assert (done.id, done.status, done.text) == (worker.id, "completed", "Here it is.")
    assert w.worker_result(done)["ok"] is True
    assert w.worker_request(done)["task"] == "Draft a summary"
    assert w.worker_provenance(done)["worker_id"] == worker.id
    assert [one.task for one in done.history] == ["Draft a summary"]


async def test_several_workers_are_waited_for_in_the_order_given():
    workers = [await w.spawn_agent({"task": f"t{n}", "node": node(f"a{n}")}) for n in range(3)]
    done = await w.wait_agent([one.id for one in workers])
    assert [one.text for one in done] == ["a0", "a1", "a2"]
    listed = await w.list_agents()
    assert {one.id for one in listed} == {one.id for one in workers}
    assert {one.status for one in listed} == {"completed"}


async def test_worker_that_is_carried_awaits_another_task():
    worker = await w.spawn_agent({"task": "one", "node": node("1", "2"), "carry": {}})
    first = await w.wait_agent(worker)
    assert first.status == "awaiting"
    again = await w.send_input(worker, "two")
    assert (again.id, again.status) == (worker.id, "running")
    second = await w.wait_agent(again)
    assert second.text == "2"
    assert [(one.number, one.task) for one in second.history] == [(1, "one"), (2, "two")]


@pytest.mark.parametrize(
    ("mode", "seen", "sessions"),
    [
        ("inherit", ["one", "1", "two"], 1),
        ("fork", ["one", "1", "two"], 2),
        ("reset", ["two"], 2),
        ("compact", ["one", "1", "two"], 1),
    ],
)
async def test_carry_says_what_the_next_task_begins_with(mode: str, seen: list[str], sessions: int):
    model = scripted("1", "2", "3")
    config = {"task": "one", "node": {"model_policy": {"model": model}}}
    worker = await w.spawn_agent({**config, "carry": {"transcript_mode": mode}})
    first = await w.wait_agent(worker)
    second = await w.wait_agent(await w.send_input(worker, "two"))
    assert (second.id, second.text) == (worker.id, "2")
    assert [message.text for message in model.requests[1].messages] == seen
    assert len({first.session_id, second.session_id}) == sessions
    if mode == "fork":
        assert second.transcript["metadata"]["parent_transcript_id"] == first.session_id
        assert second.transcript["id"] != first.transcript["id"]
    third = await w.wait_agent(await w.send_input(worker, "three"))
    assert [one.task for one in third.history] == ["one", "two", "three"]


async def test_compact_shortens_a_long_conversation_before_the_next_task():
    model = scripted(*[call("search", what=str(n)) for n in range(6)], "found", "2")
    config = {"task": "one", "node": {"model_policy": {"model": model}, "tools": [search]}}
    worker = await w.spawn_agent({**config, "carry": {"transcript_mode": "compact"}})
    first = await w.wait_agent(worker)
    assert len(first.transcript["messages"]) < 14
    await w.wait_agent(await w.send_input(worker, "two"))
    assert len(model.requests[-1].messages) < len(model.requests[-2].messages)
    assert model.requests[-1].messages[-1].text == "two"


@pytest.mark.parametrize(
    ("mode", "told"), [("inherit", ["given", "made"]), ("reset", ["given"]), ("none", [])]
)
async def test_carry_says_which_artifacts_the_next_task_is_told_of(mode: str, told: list[str]):
    model = scripted(call("artifact_write", title="made", text="x", kind="note"), "1", "2")
    worker = await w.spawn_agent(
        {
            "task": "one",
            "node": {"model_policy": {"model": model}},
            "artifacts": [{"title": "given", "text": "y"}],
            "carry": {"transcript_mode": "reset", "artifact_mode": mode},
        }
    )
    first = await w.wait_agent(worker)
    assert "given" in model.requests[0].messages[0].text
    assert "made" in [one.title for one in first.artifacts]
    await w.wait_agent(await w.send_input(worker, "two"))
    text = model.requests[-1].messages[0].text
    assert [title for title in ("given", "made") if f'"{title}"' in text] == told


async def test_result_artifact_leaves_out_transcript_and_artifacts():
    worker = await w.spawn_agent(
        {
            "task": "one",
            "node": node(
                call("artifact_write", title="t", text="x"),
                "fin",
                output_contract={"output_kinds": ["summary"]},
            ),
            "execution": {"env": {"MODE": "fast"}},
        }
    )
    done = await w.wait_agent(worker)
    payload = done.result.data["payload"]
    assert {"transcript", "artifacts"}.isdisjoint(payload)
    assert (payload["text"], payload["status"]) == ("fin", "done")
    assert payload["execution"] == {"env": {"MODE": "fast"}}
    assert payload["request"]["task"] == "one"
    assert set(payload["artifact_ids"]) == {
        one.id for one in done.artifacts if one.kind != "worker_result"
    }
    assert [one.text for one in done.artifacts if one.kind == "summary"] == ["fin"]


async def test_worker_that_fails_says_why():
    broken = w.ModelError("no")
    worker = await w.spawn_agent({"task": "one", "node": node(broken)})
    done = await w.wait_agent(worker)
    assert done.status == "failed"
    assert done.error is not None


async def test_verify_node_answers_with_a_verdict():
    verdict = '{"pass": false, "reason": "two tests fail"}'
    worker = await w.spawn_agent({"task": "check", "node": node(verdict, kind="verify")})
    done = await w.wait_agent(worker)
    assert done.data == {"pass": False, "reason": "two tests fail"}
    assert w.worker_verification_steps(done) == [
        {"task": "check", "pass": False, "reason": "two tests fail"}
    ]
    assert w.worker_workflow_stages(done)[0]["status"] == "completed"


async def test_accessors_read_the_answer():
    schema = {"type": "object", "properties": {"questions": {"type": "array"}, "actions": {}}}
    answer = '{"questions": ["why?"], "actions": ["fix it"]}'
    worker = await w.spawn_agent(
        {"task": "look", "node": node(answer), "options": {"schema": schema}}
    )
    done = await w.wait_agent(worker)
    assert w.worker_research_questions(done) == ["why?"]
    assert w.worker_action_items(done) == ["fix it"]


async def test_node_begins_with_a_transcript():
    first = await w.agent_loop("What is 1+1?", model=scripted("2"))
    model = scripted("It was 2.")
    worker = await w.spawn_agent(
        {
            "task": "What did you say?",
            "node": {"model_policy": {"model": model}, "mode": "llm"},
            "transcript": first.transcript,
        }
    )
    await w.wait_agent(worker)
    assert [m.text for m in model.requests[0].messages] == [
        "What is 1+1?",
        "2",
        "What did you say?",
    ]


# --------------------------------------------------------------------------- suspend and resume


async def test_worker_is_suspended_between_turns_and_goes_on():
    hold, begun, free = gate()
    model = scripted(call("hold"), "finished")
    worker = await w.spawn_agent(
        {"task": "go", "node": {"model_policy": {"model": model}, "tools": [hold]}}
    )
    await begun.wait()
    parking = asyncio.create_task(w.suspend_agent(worker, "the freeze begins"))
    await until_asked(worker)
    assert not parking.done()
    free.set()
    parked = await parking
    assert parked.status == "suspended"
    assert parked.suspension.reason == "the freeze begins"
    assert parked.suspension.initiator == "parent"
    assert parked.suspension.snapshot_ref == worker.id
    assert len(model.requests) == 1
    assert (await w.wait_agent(worker)).status == "suspended"
    running = await w.resume_agent(parked, "The freeze is over.")
    assert running.status == "running"
    done = await w.wait_agent(worker)
    assert (done.status, done.text) == ("completed", "finished")
    request = model.requests[1]
    texts = [message.text for message in (*request.messages, *request.tail)]
    assert any("The freeze is over." in text for text in texts)
    assert any("the freeze begins" in text for text in texts)


async def test_worker_suspends_itself_and_is_woken_by_an_event():
    waits = {"on_event": "build.finished"}
    model = scripted(
        call("agent_await_resumption", reason="the build runs", conditions=waits), "built"
    )
    worker = await w.spawn_agent({"task": "go", "node": {"model_policy": {"model": model}}})
    parked = await w.wait_agent(worker)
    assert (parked.status, parked.suspension.initiator) == ("suspended", "self")
    assert parked.suspension.reason == "the build runs"
    assert parked.suspension.conditions == {"on_event": {"name": "build.finished"}}
    await publish_event("build.finished", {"ok": True})
    await fire_due(current_environment().store)
    done = await w.wait_agent(worker)
    assert (done.status, done.text) == ("completed", "built")


async def test_worker_goes_on_from_a_snapshot_in_another_store(tmp_path):
    asked = call("agent_await_resumption", reason="the build runs", conditions={"timeout": "1h"})
    async with w.Runtime(store="memory:"):
        model = scripted(asked)
        worker = await w.spawn_agent(
            {"task": "Deploy.", "node": {"model_policy": {"model": model}}}
        )
        parked = await w.wait_agent(worker)
        path = await w.save_snapshot(parked.suspension.snapshot_ref, tmp_path / "worker.json")
        (tmp_path / "handle.json").write_bytes(msgspec.json.encode(parked.to_dict()))
        known = await w.resume_agent(path, options={"model": model})
        assert known.id == worker.id
        await w.close_agent(known)
    async with w.Runtime(store="memory:"):
        with pytest.raises(w.NoSuchSession, match="save_snapshot"):
            await w.resume_agent(tmp_path / "handle.json")
        with pytest.raises(w.NoSuchSession):
            await w.resume_agent(path, caller=w.Caller("eve", tenant="t"))
        again = await w.resume_agent(str(path), "It is up.", options={"model": scripted("Done.")})
        done = await w.wait_agent(again)
        assert (done.id, done.status, done.text) == (worker.id, "completed", "Done.")
        assert "Deploy." in str(done.transcript)
    async with w.Runtime(store="memory:"):
        out = await w.agent_loop("go", model=scripted(asked), session_id="no-worker")
        path = await w.save_snapshot(out.handle, tmp_path / "loop.json")
        with pytest.raises(w.NoSuchSession, match="no worker"):
            await w.resume_agent(path)


def build_naps():
    """Build a graph of two nodes that wait for an event each, side by side."""

    def nap(event):
        return call("agent_await_resumption", reason="night", conditions={"on_event": event})

    nodes = {
        "begin": {"mode": "llm", "model": scripted("go")},
        "one": {"await_resumption": True, "model": scripted(nap("dawn"), "one is up")},
        "two": {"await_resumption": True, "model": scripted(nap("noon"), "two is up")},
    }
    edges = [{"from": "begin", "to": name} for name in ("one", "two")]
    return {"name": "naps", "entry": "begin", "nodes": nodes, "edges": edges}


async def test_worker_goes_on_with_the_node_whose_condition_holds():
    worker = await w.spawn_agent({"task": "Sleep.", "graph": build_naps()})
    assert (await w.wait_agent(worker)).status == "suspended"
    await publish_event("dawn")
    half = await w.wait_agent(worker)
    assert half.status == "suspended"
    assert [one.id for one in await w.trigger_list()] == [f"resume:on_event:{worker.id}.w1.3"]
    await publish_event("noon")
    done = await w.wait_agent(worker)
    assert (done.status, done.data) == ("completed", {"one": "one is up", "two": "two is up"})


async def test_worker_goes_on_with_the_sub_agent_whose_condition_holds():
    asked = call("agent_await_resumption", reason="night", conditions={"on_event": "dawn"})
    inner = w.Agent(scripted(asked, "up"), name="inner", await_resumption=True)
    model = scripted(call("inner", task="Sleep."), "all are up")
    node = {"model_policy": {"model": model}, "tools": [inner.as_tool()]}
    worker = await w.spawn_agent({"task": "Sleep.", "node": node})
    assert (await w.wait_agent(worker)).status == "suspended"
    assert (await w.wait_agent(worker)).status == "suspended"
    await publish_event("dawn")
    done = await w.wait_agent(worker)
    assert (done.status, done.text) == ("completed", "all are up")


@pytest.mark.parametrize("end", ["close", "stop", "graceful", "graph"])
async def test_conditions_of_a_worker_end_with_it(end):
    asked = call("agent_await_resumption", reason="night", conditions={"on_event": "dawn"})
    config = {"node": {"model_policy": {"model": scripted(asked, "Handed over.")}}}
    if end == "graph":
        config = {"graph": build_naps()}
    worker = await w.spawn_agent({"task": "Sleep.", **config})
    await w.wait_agent(worker)
    assert await w.trigger_list() != []
    if end in ("close", "graph"):
        await w.close_agent(worker)
    else:
        await w.agent_stop(worker, {"graceful": end == "graceful"})
    assert await w.trigger_list() == []


async def test_conditions_of_the_config_hold_for_a_suspension_that_names_none():
    hold, begun, free = gate()
    worker = await w.spawn_agent(
        {
            "task": "go",
            "node": node(call("hold"), "finished", tools=[hold]),
            "options": {"resume_when": {"timeout": "5m"}},
        }
    )
    await begun.wait()
    parking = asyncio.create_task(w.suspend_agent(worker))
    await until_asked(worker)
    free.set()
    assert (await parking).suspension.conditions == {"timeout": 300.0}
    with pytest.raises(w.ConfigError, match="WL-SUS-002"):
        await w.suspend_agent(worker, "x", {"conditions": {"timeout": "soon"}})
    with pytest.raises(w.ConfigError, match=r"options\.resume_when\.timeout"):
        wrong = {"resume_when": {"timeout": "soon"}}
        await w.spawn_agent({"task": "go", "node": node("x"), "options": wrong})


async def test_resume_without_the_transcript_begins_with_a_summary():
    hold, begun, free = gate()
    model = scripted(call("hold"), "finished")
    worker = await w.spawn_agent(
        {"task": "go", "node": {"model_policy": {"model": model}, "tools": [hold]}}
    )
    await begun.wait()
    parking = asyncio.create_task(w.suspend_agent(worker, "later"))
    await until_asked(worker)
    free.set()
    await parking
    await w.resume_agent(worker, "Only the tests.", False)
    done = await w.wait_agent(worker)
    assert done.text == "finished"
    summary, news = model.requests[1].messages[:2]
    assert "hold" in summary.text and "go" in summary.text
    assert news.text == "Only the tests."
    assert [one.number for one in done.history] == [1]


async def test_what_cannot_be_done_to_a_worker_is_a_typed_error():
    hold, begun, free = gate()
    config = {"task": "go", "node": node(call("hold"), "a", "b", tools=[hold])}
    worker = await w.spawn_agent(config)
    await begun.wait()
    with pytest.raises(w.ConfigError, match="still running"):
        await w.send_input(worker, "more")
    free.set()
    await w.wait_agent(worker)
    with pytest.raises(w.ConfigError, match="send_input"):
        await w.resume_agent(worker)
    with pytest.raises(w.ConfigError, match="not blank"):
        await w.send_input(worker, " ")
    await w.close_agent(worker)
    with pytest.raises(w.ConfigError, match="is over"):
        await w.send_input(worker, "more")
    with pytest.raises(w.NoSuchSession, match="no worker 'nobody'"):
        await w.wait_agent("nobody")
    await w.agent_loop("hi", model=scripted("ho"), session_id="plain")
    with pytest.raises(w.NoSuchSession, match="no worker 'plain'"):
        await w.wait_agent("plain")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"node": {}}, "needs a task"),
        ({"task": "x"}, "needs a node or a graph"),
        ({"task": "x", "node": {}, "carry": {"resume_workflow": False}}, "goes with a graph"),
        ({"task": "x", "node": {}, "graph": {"nodes": {"a": {}}}}, "a node or a graph"),
        ({"task": " ", "node": {}}, "not blank"),
        ({"task": "x", "node": {}, "tool": []}, "did you mean 'tools'"),
        ({"task": "x", "node": {"knd": "stage"}}, "did you mean 'kind'"),
        ({"task": "x", "node": {"kind": "stages"}}, "stage"),
        ({"task": "x", "node": {}, "carry": {"transcript": "fork"}}, "transcript_mode"),
        ({"task": "x", "node": {}, "carry": {"transcript_mode": "keep"}}, "inherit"),
        ({"task": "x", "node": {}, "execution": {"worktre": {}}}, "did you mean 'worktree'"),
        ({"task": "x", "node": {}, "execution": {"env": {"API_TOKEN": "x"}}}, "secret"),
        ({"task": "x", "node": {}, "execution": {"cwd": "/no/such/folder"}}, "no folder"),
        ({"task": "x", "node": {}, "options": {"session_id": "s"}}, "session of its own"),
        ({"task": "x", "node": {}, "options": {"max_iteration": 3}}, "max_iterations"),
        ({"task": "x", "node": {}, "artifacts": [{"title": "t"}]}, "either text or data"),
        ({"task": "x", "node": {}, "tools": ["no_such"]}, "no_such"),
        ("x", "takes a dict"),
    ],
)
async def test_bad_config_is_refused_before_anything_runs(config: Any, words: str):
    if isinstance(config, dict) and "node" in config:
        config["node"].setdefault("model_policy", {"model": scripted("x")})
    with pytest.raises(w.ConfigError, match=words):
        await w.spawn_agent(config)
    assert await w.list_agents() == []


# --------------------------------------------------------------------------- stop


async def test_graceful_stop_leaves_the_handoff_of_the_model():
    hold, begun, free = gate()
    handoff = (
        '{"goal": "go", "done": ["held"], "open": ["tests"], "files": ["a.py"],'
        ' "questions": ["why?"], "next_step": "run the tests"}'
    )
    model = scripted(call("hold"), handoff)
    worker = await w.spawn_agent(
        {"task": "go", "node": {"model_policy": {"model": model}, "tools": [hold]}}
    )
    await begun.wait()
    stopping = asyncio.create_task(w.agent_stop(worker, {"graceful": True, "reason": "enough"}))
    await until_asked(worker)
    free.set()
    stop = await stopping
    assert stop.status == stop.worker.status == "stopped"
    assert stop.handoff.kind == "handoff"
    assert stop.handoff.data["next_step"] == "run the tests"
    assert stop.handoff.data["written_by"] == "model"
    assert stop.handoffs == (stop.handoff,)
    assert len(model.requests) == 2
    assert w.worker_research_questions(stop.worker) == ["why?"]
    entries = await current_environment().store.read(worker.id)
    kinds = [type(entry) for entry in entries]
    assert kinds[-1] is WorkerStopped
    again = await w.agent_stop(worker, {"graceful": True})
    assert again.handoff == stop.handoff
    assert len(model.requests) == 2


async def test_graceful_stop_reads_the_journal_where_the_model_fails():
    hold, begun, free = gate()
    model = scripted(call("hold"), w.ModelError("gone"))
    worker = await w.spawn_agent(
        {"task": "go", "node": {"model_policy": {"model": model}, "tools": [hold]}}
    )
    await begun.wait()
    stopping = asyncio.create_task(w.agent_stop(worker, {"graceful": True}))
    await until_asked(worker)
    free.set()
    stop = await stopping
    assert stop.status == "stopped"
    assert stop.handoff.data["written_by"] == "journal"
    assert stop.handoff.data["goal"] == "go"
    assert any("hold" in line for line in stop.handoff.data["done"])


async def test_stop_that_was_cut_off_is_finished_by_the_next_one(monkeypatch: pytest.MonkeyPatch):
    hold, begun, free = gate()
    handoff = (
        '{"goal": "go", "done": [], "open": [], "files": [], "questions": [], "next_step": "x"}'
    )
    model = scripted(call("hold"), handoff)
    worker = await w.spawn_agent(
        {"task": "go", "node": {"model_policy": {"model": model}, "tools": [hold]}}
    )
    await begun.wait()

    async def die(*_: Any, **__: Any) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr("windlass.workers.stop.end_worker", die)
        stopping = asyncio.create_task(w.agent_stop(worker, {"graceful": True}))
        await until_asked(worker)
        free.set()
        with pytest.raises(asyncio.CancelledError):
            await stopping
    assert (await w.wait_agent(worker)).status == "suspended"
    for again in (w.resume_agent(worker), w.send_input(worker, "more"), w.suspend_agent(worker)):
        with pytest.raises(w.ConfigError, match="agent_stop again"):
            await again
    stop = await w.agent_stop(worker, {"graceful": True})
    assert (stop.status, stop.handoff.data["next_step"]) == ("stopped", "x")
    assert len(model.requests) == 2


async def test_hard_stop_and_close_cancel_at_once():
    for end in (w.agent_stop, w.close_agent):
        hold, begun, _ = gate()
        worker = await w.spawn_agent({"task": "go", "node": node(call("hold"), tools=[hold])})
        await begun.wait()
        await end(worker)
        found = await w.wait_agent(worker)
        assert (found.status, found.is_closed, found.handoff) == ("cancelled", True, None)


async def test_closing_a_finished_worker_keeps_its_result():
    worker = await w.spawn_agent({"task": "go", "node": node("a"), "carry": {}})
    assert (await w.wait_agent(worker)).status == "awaiting"
    closed = await w.close_agent(worker)
    assert (closed.status, closed.text, closed.is_closed) == ("completed", "a", True)
    assert (await w.close_agent(worker)).status == "completed"


# --------------------------------------------------------------------------- parents


def spawner(config: dict[str, Any], made: list[w.Worker], *, waits: bool = True) -> w.Tool:
    """Build a tool that spawns a worker for its run."""

    @w.tool(keyed=True)
    async def delegate(ctx: w.ToolContext[None]) -> str:
        """Hand the task to a worker."""
        worker = await w.spawn_agent(config, parent=ctx)
        made.append(worker)
        if not waits:
            return worker.id
        done = await w.wait_agent(worker)
        made.append(done)
        return done.text

    return delegate


async def test_worker_has_the_tools_and_rules_of_its_parent():
    made: list[w.Worker] = []
    model = scripted(call("search", what="x"), call("write", path="/etc/passwd"), "tried")
    delegate = spawner({"task": "look", "node": {"model_policy": {"model": model}}}, made)
    agent = w.Agent(
        scripted(call("delegate"), "ok"),
        tools=[search, write, delegate],
        policy={"side_effect_level": "network", "tools": ["search", "delegate"]},
    )
    out = await agent.run("go")
    assert out.status == "done"
    assert ran == ["search x"]
    denied = [e for e in await _entries(made[-1]) if type(e) is ToolResulted and e.tool == "write"]
    assert '"error":"permission_denied"' in denied[0].result.text.replace(" ", "")
    assert made[-1].parent_session_id == out.session_id
    assert w.worker_provenance(made[-1])["tool"] == "delegate"


@pytest.mark.parametrize(
    "asked",
    [
        {"tools": ["search", "write"]},
        {"tools": ["search"], "node": {"tools": ["bash"]}},
        {"tools": ["search", "bash"], "options": {"tool_preset": "full"}},
        {"options": {"tool_preset": "full"}},
        {"policy": {"tools": ["*"]}},
    ],
)
async def test_worker_cannot_ask_for_more_tools_than_its_parent_has(
    asked: dict[str, Any], tmp_path: Any
):
    made: list[w.Worker] = []
    tries = (call("write", path="x"), call("bash", command=f"touch {tmp_path}/x"), "tried")
    model = scripted(*tries)
    own = {**asked.get("node", {}), "model_policy": {"model": model}}
    delegate = spawner({"task": "look", **asked, "node": own}, made)
    agent = w.Agent(
        scripted(call("delegate"), "ok"),
        tools=[search, delegate],
        policy={"tools": ["search", "delegate", "artifact_write"]},
    )
    await agent.run("go")
    assert ran == []
    assert not (tmp_path / "x").exists()
    assert made[-1].status == "completed"


async def test_call_of_a_tool_that_was_not_given_is_denied_in_a_structured_way():
    made: list[w.Worker] = []
    model = scripted(call("write", path="x"), "tried")
    config = {"task": "t", "tools": ["search"], "node": {"model_policy": {"model": model}}}
    delegate = spawner(config, made)
    await w.Agent(scripted(call("delegate"), "ok"), tools=[search, write, delegate]).run("go")
    offered = {tool.name for tool in model.requests[0].tools}
    assert offered == {"search", "artifact_write", "agent_await_resumption"}
    [denied] = [e for e in await _entries(made[-1]) if type(e) is ToolResulted]
    told = denied.result.text.replace(" ", "")
    assert '"error":"permission_denied"' in told and '"tool":"write"' in told and "reason" in told
    assert ran == []


async def test_rules_of_the_parent_hold_when_the_worker_goes_on_without_it():
    made: list[w.Worker] = []
    hold, begun, free = gate()
    model = scripted(call("hold"), call("write", path="x"), "tried")
    config = {"task": "t", "node": {"model_policy": {"model": model}}}
    delegate = spawner(config, made, waits=False)
    agent = w.Agent(
        scripted(call("delegate"), "ok"),
        tools=[search, write, hold, delegate],
        policy={"tools": ["search", "delegate", "hold"]},
    )
    await agent.run("go", session_id="parent")
    await begun.wait()
    parking = asyncio.create_task(w.suspend_agent(made[0]))
    await until_asked(made[0])
    free.set()
    await parking
    _forget(made[0])
    await w.resume_agent(
        made[0], options={"model": model, "tools": [search, write, hold, delegate]}
    )
    done = await w.wait_agent(made[0])
    assert (done.status, done.text) == ("completed", "tried")
    assert ran == []


async def test_events_of_workers_reach_those_who_watch_the_parent():
    made: list[w.Worker] = []
    seen: list[Any] = []
    delegate = spawner({"task": "t", "node": node("a")}, made)
    agent = w.Agent(scripted(call("delegate"), "ok"), tools=[delegate])
    await agent.run("go", on_event=seen.append)
    updates = [event.status for event in seen if isinstance(event, WorkerUpdate)]
    assert updates == ["running", "completed"]
    assert any(isinstance(event, w.ChildEvent) for event in seen)


async def test_events_of_a_worker_reach_its_own_callback():
    seen: list[Any] = []
    config = {"task": "t", "node": node("a"), "options": {"on_event": seen.append}}
    await w.wait_agent(await w.spawn_agent(config))
    updates = [event.status for event in seen if isinstance(event, WorkerUpdate)]
    assert updates == ["running", "completed"]
    assert [event.message.text for event in seen if isinstance(event, Replied)] == ["a"]


async def test_worker_has_the_tools_of_its_options():
    config = {"task": "t", "node": node(call("search", what="x"), "found")}
    done = await w.wait_agent(await w.spawn_agent({**config, "options": {"tools": [search]}}))
    assert (done.status, done.text, ran) == ("completed", "found", ["search x"])


async def test_worker_that_goes_on_in_another_process_has_the_deps_that_are_given_again():
    seen: list[Any] = []
    hold, begun, free = gate()

    @w.tool(side_effect_level="read_only")
    async def look(ctx: w.ToolContext[Any]) -> str:
        """Look."""
        seen.append(ctx.deps)
        return "seen"

    model = scripted(call("look"), call("hold"), call("look"), "done")
    config = {"task": "t", "node": {"model_policy": {"model": model}, "tools": [look, hold]}}
    worker = await w.spawn_agent(config, deps="a database")
    await begun.wait()
    parking = asyncio.create_task(w.suspend_agent(worker))
    await until_asked(worker)
    free.set()
    await parking
    _forget(worker)
    given: dict[str, Any] = {"model": model, "tools": [look, hold]}
    with pytest.raises(w.ConfigError, match="deps"):
        await w.resume_agent(worker, options=given)
    await w.resume_agent(worker, options={**given, "deps": "another connection"})
    assert (await w.wait_agent(worker)).status == "completed"
    assert seen == ["a database", "another connection"]


async def test_graceful_stop_folds_the_handoffs_of_children():
    made: list[w.Worker] = []
    hold, begun, free = gate()
    inner = {"task": "inner", "node": node(call("hold"), w.ModelError("x"), tools=[hold])}
    delegate = spawner(inner, made, waits=False)
    outer, outer_begun, outer_free = gate("outer_hold")
    model = scripted(call("delegate"), call("outer_hold"), w.ModelError("y"))
    worker = await w.spawn_agent(
        {"task": "outer", "node": {"model_policy": {"model": model}, "tools": [delegate, outer]}}
    )
    await begun.wait()
    await outer_begun.wait()
    stopping = asyncio.create_task(w.agent_stop(worker, {"graceful": True}))
    await until_asked(worker)
    free.set()
    outer_free.set()
    stop = await stopping
    [child] = stop.children
    assert child.worker.id == made[0].id
    assert child.status == "stopped"
    assert [one.data["goal"] for one in stop.handoffs] == ["outer", "inner"]


# --------------------------------------------------------------------------- workflows


def two_stages(*first: Any, tools: Any = None) -> dict[str, Any]:
    """Build a graph of two nodes."""
    act: dict[str, Any] = {"kind": "stage", "model": scripted(*first)}
    if tools is not None:
        act["tools"] = tools
    return {
        "name": "pair",
        "entry": "act",
        "nodes": {"act": act, "sum_up": {"kind": "stage", "model": scripted("summed up", "twice")}},
        "edges": [{"from": "act", "to": "sum_up"}],
    }


async def test_worker_runs_a_workflow():
    graph = two_stages("acted", "acted again")
    worker = await w.spawn_agent(
        {"task": "Do both.", "graph": graph, "options": {"max_steps": 6}, "carry": {}}
    )
    assert worker.mode == "graph"
    done = await w.wait_agent(worker)
    assert (done.status, done.text) == ("awaiting", "summed up"), done.error
    stages = w.worker_workflow_stages(done)
    assert [(one["name"], one["status"]) for one in stages] == [("act", "done"), ("sum_up", "done")]
    again = await w.wait_agent(await w.send_input(worker, "Once more."))
    assert again.text == "twice"
    assert [one.task for one in again.history] == ["Do both.", "Once more."]


async def test_worker_with_a_workflow_is_suspended_between_turns_of_its_steps():
    hold, begun, free = gate()
    graph = two_stages(call("hold"), "acted", tools=[hold])
    worker = await w.spawn_agent({"task": "Do both.", "graph": graph})
    await begun.wait()
    parking = asyncio.create_task(w.suspend_agent(worker, "later"))
    [step] = [one.run for one in under_way if one.run.session_id != worker.id]
    while not step.journal.mail:
        await seams.sleep(0)
    free.set()
    assert (await parking).status == "suspended"
    await w.resume_agent(worker)
    done = await w.wait_agent(worker)
    assert (done.status, done.text) == ("completed", "summed up"), done.error


async def test_workflow_of_a_worker_is_bound_by_the_rules_of_its_parent():
    made: list[w.Worker] = []
    graph = two_stages(call("write", path="x"), call("search", what="y"), "acted")
    delegate = spawner({"task": "t", "graph": graph}, made)
    agent = w.Agent(
        scripted(call("delegate"), "ok"),
        tools=[search, write, delegate],
        policy={"tools": ["search", "delegate"]},
    )
    out = await agent.run("go", session_id="s")
    assert out.tool_calls[0].result == "summed up", made[-1].error
    assert ran == ["search y"]


async def test_workflow_of_a_worker_has_the_tools_that_were_named():
    graph = two_stages(
        call("write", path="x"), call("search", what="y"), "acted", tools=[search, write]
    )
    worker = await w.spawn_agent({"task": "t", "graph": graph, "tools": ["search"]})
    done = await w.wait_agent(worker)
    assert done.text == "summed up", done.error
    assert ran == ["search y"]


async def test_stopped_workflow_says_which_steps_are_over():
    hold, begun, free = gate()
    graph = two_stages("acted")
    graph["nodes"]["sum_up"] = {"model": scripted(call("hold"), "x"), "tools": [hold]}
    worker = await w.spawn_agent({"task": "Do both.", "graph": graph})
    await begun.wait()
    stopping = asyncio.create_task(w.agent_stop(worker, {"graceful": True}))
    [step] = [one.run for one in under_way if one.run.session_id != worker.id]
    while not step.journal.mail:
        await seams.sleep(0)
    free.set()
    stop = await stopping
    assert stop.status == "stopped"
    assert stop.handoff.data["done"] == ["act: acted"]
    assert "sum_up" in stop.handoff.data["open"]


# --------------------------------------------------------------------------- background sub-agents


async def test_background_sub_agent_is_a_worker():
    worker = await w.sub_agent_run("Find it.", model=scripted("found", "again"), background=True)
    assert (worker.mode, worker.status) == ("sub_agent", "running")
    done = await w.wait_agent(worker)
    assert (done.status, done.text) == ("completed", "found")
    assert w.worker_request(done)["task"] == "Find it."
    again = await w.wait_agent(await w.send_input(done, "Once more."))
    assert again.text == "again"
    assert (await w.close_agent(again)).is_closed


async def test_background_sub_agent_takes_its_options_as_a_dict():
    options = {"model": scripted("found"), "background": True, "tools": [search, write]}
    worker = await w.sub_agent_run("Find it.", {**options, "allowed_tools": ["search"]})
    done = await w.wait_agent(worker)
    assert done.config["tools"] == ["search", "artifact_write"]
    with pytest.raises(w.ConfigError, match="session of its own"):
        await w.sub_agent_run("x", model=scripted("y"), background=True, session_id="s")


async def test_background_sub_agent_has_the_store_the_caller_and_the_deps_that_it_is_given(
    tmp_path: Path,
):
    seen: list[Any] = []

    @w.tool(side_effect_level="read_only")
    async def look(ctx: w.ToolContext[Any]) -> str:
        """Look."""
        seen.append((ctx.caller.user, ctx.deps))
        return "seen"

    store, ann = f"sqlite:///{tmp_path / 'own.db'}", w.Caller("ann", tenant="acme")
    worker = await w.sub_agent_run(
        "Find it.",
        model=scripted(call("look"), "found"),
        tools=[look],
        background=True,
        store=store,
        caller=ann,
        deps="db",
    )
    done = await w.wait_agent(worker, store=store, caller=ann)
    assert (done.status, done.text, seen) == ("completed", "found", [("ann", "db")])
    with pytest.raises(w.NoSuchSession):
        await w.agent_session_read(worker.session_id)


# --------------------------------------------------------------------------- lifecycle tools


async def test_model_pauses_resumes_and_stops_its_workers():
    made: list[w.Worker] = []
    hold, begun, free = gate()
    again, _, _ = gate("again")
    config = {"task": "t", "node": node(call("hold"), call("again"), tools=[hold, again])}
    delegate = spawner(config, made, waits=False)

    script = iter(
        [
            lambda: call("delegate"),
            lambda: call("subagent_pause", handle=made[0].id, reason="wait"),
            lambda: call("subagent_resume", handle=made[0].id, input="go on"),
            lambda: call("subagent_stop", handle=made[0].id, graceful=False),
            lambda: "done",
        ]
    )

    async def next_reply(request: Any) -> Any:
        if made and not free.is_set():
            await begun.wait()
            letting.append(asyncio.create_task(let_go()))
        return next(script)()

    letting: list[asyncio.Task[None]] = []

    async def let_go() -> None:
        await until_asked(made[0])
        free.set()

    agent = w.Agent(scripted(*[next_reply] * 5), tools=[delegate], subagents=True)
    out = await agent.run("go")
    assert out.status == "done", out.error
    results = {one.name: one.result for one in out.tool_calls}
    assert '"suspended"' in results["subagent_pause"]
    assert '"running"' in results["subagent_resume"]
    assert '"cancelled"' in results["subagent_stop"]


async def test_model_cannot_reach_the_workers_of_another_session():
    stranger = await w.spawn_agent({"task": "t", "node": node("a", "b"), "carry": {}})
    await w.wait_agent(stranger)
    agent = w.Agent(
        scripted(call("subagent_stop", handle=stranger.id), "done"), subagent_tools=True
    )
    out = await agent.run("go")
    assert "no worker that this agent has spawned" in out.tool_calls[0].result
    assert (await w.wait_agent(stranger)).status == "awaiting"


def test_lifecycle_tools_are_added_to_a_registry():
    names = ["subagent_pause", "subagent_resume", "subagent_stop"]
    registry = w.agent_lifecycle_tools(None, {"subagents": True})
    assert [name for name in registry.names() if name.startswith("subagent_")] == names
    own = w.tool_registry()
    assert w.agent_lifecycle_tools(own) is own
    assert not [name for name in own.names() if name.startswith("subagent_")]
    with pytest.raises(w.ConfigError, match="subagents"):
        w.agent_lifecycle_tools(None, {"subagent": True})


# --------------------------------------------------------------------------- the Runtime


async def test_runtime_that_closes_parks_its_workers(tmp_path: Any):
    hold, begun, _ = gate()
    place = f"sqlite:///{tmp_path}/w.db"
    async with w.Runtime(store=place):
        worker = await w.spawn_agent({"task": "t", "node": node(call("hold"), tools=[hold])})
        await begun.wait()
    free = asyncio.Event()

    @w.tool(name="hold", side_effect_level="read_only")
    async def hold_again() -> str:
        """Wait."""
        free.set()
        return "held"

    async with w.Runtime(store=place):
        [found] = await w.list_agents()
        assert (found.id, found.status) == (worker.id, "suspended")
        with pytest.raises(w.ConfigError, match="model, the tool hold"):
            await w.resume_agent(worker.id)
        await w.resume_agent(worker.id, options={"model": scripted("end"), "tools": [hold_again]})
        done = await w.wait_agent(worker.id)
        assert (done.status, done.text) == ("completed", "end")
        assert free.is_set()


async def test_caller_cannot_reach_the_worker_of_another_tenant():
    ann, eve = w.Caller("ann", tenant="acme"), w.Caller("eve", tenant="evil")
    worker = await w.spawn_agent({"task": "t", "node": node("secret", "b")}, caller=ann)
    done = await w.wait_agent(worker, caller=ann)
    assert done.text == "secret"
    for reach in (w.wait_agent, w.close_agent, w.agent_stop, w.suspend_agent, w.resume_agent):
        with pytest.raises(w.NoSuchSession):
            await reach(worker.id, caller=eve)
    with pytest.raises(w.NoSuchSession):
        await w.send_input(worker.id, "more", caller=eve)
    assert await w.list_agents(caller=eve) == []
    assert [one.id for one in await w.list_agents(caller=ann)] == [worker.id]


async def test_metadata_of_a_session_cannot_claim_to_be_a_worker():
    with pytest.raises(w.ConfigError, match="windlass_worker"):
        await w.agent_session_open("s", metadata={"windlass_worker": {"id": "s"}})


def _forget(worker: w.Worker) -> None:
    """Have this process know no more of a worker than another one would."""
    from windlass.workers.live import live_workers

    environment = current_environment()
    live_workers(environment).forget(environment.store, worker.id)


async def _entries(worker: w.Worker) -> list[Any]:
    return await current_environment().store.read(worker.session_id)


async def test_resume_while_the_end_of_a_task_is_put_on_record_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
):
    """Between the end of a run and the record of it the session is free, and the task is done."""
    reached, go, settle = asyncio.Event(), asyncio.Event(), drive.settle

    async def settle_later(*args: Any) -> None:
        reached.set()
        await go.wait()
        await settle(*args)

    monkeypatch.setattr(drive, "settle", settle_later)
    model = scripted("First.", then="Too often.")
    async with w.Runtime(store="memory:"):
        worker = await w.spawn_agent({"task": "one", "node": {"model_policy": {"model": model}}})
        await reached.wait()
        await w.resume_agent(worker)
        go.set()
        done = await w.wait_agent(worker)
        assert (done.status, done.text, len(model.requests)) == ("completed", "First.", 1)

"""Graphs of stages: order, conditions, joins, loops, verdicts, retries, transcripts, artifacts, parks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass as w
from windlass.testing import call, run_virtual, scripted
from windlass.toolbox.sandbox import levels


def answer(request: w.Request) -> str:
    """Say which node is asked, by its system prompt."""
    return f"{request.system or 'node'} has read {len(request.messages)}"


def chain(*ids: str, **node: Any) -> dict[str, Any]:
    """Describe a graph whose nodes follow each other."""
    return {
        "name": "chain",
        "nodes": {one: {"mode": "llm", "system": one, **node} for one in ids},
        "edges": [{"from": a, "to": b} for a, b in zip(ids, ids[1:], strict=False)],
    }


def prompts(model: Any) -> dict[str, str]:
    """Return the last message that each node was given, by its system prompt."""
    return {request.system: request.messages[-1].text for request in model.requests}


async def test_nodes_run_in_order_and_read_what_was_before():
    model = scripted(then=answer)
    result = await w.workflow_execute("Say hello.", chain("a", "b", "c"), [], {"model": model})
    assert (result.status, result.output) == ("done", "c has read 1")
    assert [(step.name, step.status) for step in result.steps] == [
        ("a", "done"),
        ("b", "done"),
        ("c", "done"),
    ]
    assert prompts(model)["a"] == "Say hello."
    assert prompts(model)["c"] == "Say hello.\n\n## Result of b\nb has read 1"
    assert result.usage.input_tokens == 30 and len(result.children) == 3
    session = await w.sessions.agent_session_read(result.session_id)
    assert session.messages[-1].text == "c has read 1"
    assert set(session.child_ids) == {step.session_id for step in result.steps}


def test_branches_run_side_by_side_and_a_join_waits_for_all():
    began: dict[str, float] = {}

    class Slow(w.Model):
        provider, name = "slow", "slow"

        async def respond(self, request: w.Request, emit: Any) -> w.Response:
            node = request.system or ""
            began[node] = asyncio.get_running_loop().time()
            await asyncio.sleep({"b": 5, "b2": 1}.get(node, 2))
            return w.Response(w.Message("assistant", node.upper()), w.Usage(1, 1))

    nodes = {one: {"mode": "llm", "system": one} for one in ("a", "b", "b2", "c", "end")}
    edges = [("a", "b"), ("a", "c"), ("b", "b2"), ("b2", "end"), ("c", "end")]
    graph = {"entry": "a", "nodes": nodes, "edges": [{"from": a, "to": b} for a, b in edges]}

    async def main() -> Any:
        return await w.workflow_execute("go", graph, None, model=Slow())

    result = run_virtual(main())
    assert began["b"] == began["c"] and began["end"] - began["b"] == 6
    assert [step.name for step in result.steps].count("end") == 1
    last = result.steps[-1]
    assert {result.steps[number - 1].name for number in last.sources} == {"b2", "c"}


@pytest.mark.parametrize(
    "when",
    [
        lambda step: step.data["score"] > 3,
        {"field": "data.score", "equals": 5},
        {"field": "score", "in": [4, 5]},
        {"field": "score", "exists": True},
    ],
)
async def test_edge_is_followed_only_when_its_condition_holds(when: Any):
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}}
    graph = w.workflow_graph(
        {
            "entry": "rate",
            "nodes": {
                "rate": {"mode": "llm", "schema": schema},
                "good": {"mode": "llm"},
                "bad": {"mode": "llm"},
            },
            "edges": [
                {"from": "rate", "to": "good", "when": when},
                {"from": "rate", "to": "bad", "when": {"field": "text", "equals": "never"}},
            ],
        }
    )
    result = await graph.run("Rate it.", model=scripted('{"score": 5}', "well done"))
    assert [step.name for step in result.steps] == ["rate", "good"]
    assert result.outputs == {"rate": {"score": 5}, "good": "well done"}


async def test_condition_that_raises_fails_the_workflow_by_name():
    def broken(step: w.WorkflowStep) -> bool:
        raise KeyError("score")

    graph = chain("a", "b")
    graph["edges"][0]["when"] = broken
    result = await w.workflow_execute("x", graph, model=scripted("hi"))
    assert (result.status, result.stop_reason) == ("failed", "step")
    assert "condition to 'b'" in result.error["message"] and "KeyError" in result.error["message"]


def test_loop_ends_when_verify_passes_and_max_steps_bounds_it():
    spec = {
        "entry": "draft",
        "nodes": {
            "draft": {"mode": "llm"},
            "check": {"kind": "verify", "mode": "llm", "judge": "Is it polite?"},
            "ship": {"mode": "llm"},
        },
        "edges": [
            {"from": "draft", "to": "check"},
            {"from": "check", "to": "draft", "on": "fail"},
            {"from": "check", "to": "ship", "on": "pass"},
        ],
    }
    said = ['{"verdict": "fail", "reason": "rude"}', '{"verdict": "pass", "reason": "fine"}']
    model = scripted("v1", said[0], "v2", said[1], "shipped")
    result = asyncio.run(w.workflow_execute("Write.", spec, model=model))
    assert result.output == "shipped"
    assert [step.key for step in result.steps] == [
        "draft#1",
        "check#1",
        "draft#2",
        "check#2",
        "ship#1",
    ]
    assert "fail: rude" in model.requests[2].messages[-1].text
    assert "Is it polite?" in model.requests[1].messages[-1].text

    def rude(request: w.Request) -> str:
        return said[0] if "verdict" in request.messages[-1].text else "draft"

    bounded = asyncio.run(
        w.workflow_execute("x", spec, [], {"model": scripted(then=rude), "max_steps": 6})
    )
    assert (bounded.status, bounded.stop_reason, len(bounded.steps)) == (
        "budget_exhausted",
        "max_steps",
        6,
    )


async def test_verify_by_schema_and_failure_without_an_edge():
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    graph = {
        "entry": "a",
        "nodes": {"a": {"mode": "llm"}, "v": {"kind": "verify", "schema": schema}},
        "edges": [{"from": "a", "to": "v"}],
    }
    passed = await w.workflow_execute("x", graph, model=scripted('{"n": 1}'))
    assert (passed.status, passed.steps[-1].verdict) == ("done", "pass")
    failed = await w.workflow_execute("x", graph, model=scripted('{"n": "one"}'))
    assert (failed.status, failed.stop_reason) == ("failed", "verify")
    assert "v did not pass: a: n:" in failed.error["message"]
    with pytest.raises(w.WindlassError, match="failed"):
        failed.raise_for_status()


async def test_verify_by_command_under_the_rules_of_bash(tmp_path: Any):
    graph = {
        "entry": "a",
        "nodes": {"a": {"mode": "llm"}, "v": {"kind": "verify", "command": "test -e done.txt"}},
        "edges": [{"from": "a", "to": "v"}],
    }
    given: dict[str, Any] = {"workspace": str(tmp_path), "sandbox": "none"}
    failed = await w.workflow_execute("x", graph, model=scripted("hi"), **given)
    assert (failed.steps[-1].verdict, failed.steps[-1].reason) == ("fail", "[exit code 1]")
    (tmp_path / "done.txt").write_text("")
    passed = await w.workflow_execute("x", graph, model=scripted("hi"), **given)
    assert (passed.status, passed.output["verdict"]) == ("done", "pass")
    denied = await w.workflow_execute(
        "x", graph, model=scripted("hi"), permissions={"deny": ["bash"]}, **given
    )
    assert (denied.status, denied.steps[-1].error["category"]) == ("failed", "denied")


async def test_verify_by_command_in_the_sandbox_that_is_given(tmp_path: Any):
    graph = {"nodes": {"v": {"kind": "verify", "command": 'test "$MODE" = fast'}}}
    for mode, verdict in (("fast", "pass"), ("slow", "fail")):
        sandbox = {"level": "none", "variables": {"MODE": mode}}
        result = await w.workflow_execute(
            "x", graph, model=scripted("hi"), workspace=str(tmp_path), sandbox=sandbox
        )
        assert result.steps[-1].verdict == verdict


async def test_verify_by_command_is_refused_where_its_sandbox_cannot_be_had(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(levels, "landlock_abi", lambda: 2)
    graph = {"nodes": {"v": {"kind": "verify", "command": "true"}}}
    given: dict[str, Any] = {"model": scripted("hi"), "workspace": str(tmp_path)}
    with pytest.raises(w.ConfigError, match="ABI 3 is needed"):
        await w.workflow_execute("x", graph, **given)
    result = await w.workflow_execute("x", graph, sandbox="none", **given)
    assert result.steps[-1].verdict == "pass"


async def test_run_of_a_graph_is_kept_in_the_store_that_is_given(tmp_path: Any):
    store = f"sqlite:///{tmp_path / 'own.db'}"
    given: dict[str, Any] = {"session_id": "kept", "store": store}
    await w.workflow_execute("x", chain("a"), model=scripted("1"), **given)
    again = await w.workflow_graph(chain("a")).resume("kept", model=scripted(), store=store)
    assert again.status == "done"
    with pytest.raises(w.NoSuchSession):
        await w.agent_session_read("kept")


async def test_retries_feed_the_error_back():
    graph = {"nodes": {"a": {"mode": "llm", "retries": 2, "schema": {"type": "object"}}}}
    model = scripted("no JSON", '{"ok": true}')
    result = await w.workflow_execute("x", graph, model=model)
    assert [(step.attempt, step.status) for step in result.steps] == [(1, "failed"), (2, "done")]
    assert (
        "The attempt before this one failed:\nthe answer does not fit"
        in model.requests[1].messages[-1].text
    )
    never = await w.workflow_execute("x", graph, model=scripted(then="words"))
    assert (never.status, len(never.steps)) == ("failed", 3)
    assert never.error["step"] == "a"


@pytest.mark.parametrize(
    ("mode", "count"), [("reset", 1), ("inherit", 3), ("fork", 3), ("compact", 3)]
)
async def test_transcript_of_the_node_before(mode: str, count: int):
    graph = chain("a", "b")
    graph["nodes"]["b"]["transcript"] = mode
    model = scripted(then=answer)
    result = await w.workflow_execute("Say hello.", graph, model=model)
    seen = model.requests[-1].messages
    assert len(seen) == count
    assert ("Result of a" in seen[-1].text) is (mode == "reset")
    forked = (await w.sessions.agent_session_read(result.steps[-1].session_id)).entries[1].metadata
    found = (forked or {}).get("parent_transcript_id")
    assert found == (result.steps[0].session_id if mode == "fork" else None)


async def test_artifacts_go_in_and_out_by_kind():
    graph = {
        "entry": "a",
        "nodes": {
            "a": {
                "system": "a",
                "output_contract": {"output_kinds": ["summary", "patch"]},
                "retries": 1,
            },
            "b": {"mode": "llm", "system": "b", "artifacts": {"in": ["patch"]}},
            "c": {"kind": "subagent", "mode": "llm", "system": "c", "task": "Only this."},
        },
        "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}],
    }
    patch = call("artifact_write", title="fix", text="+1 -1", kind="patch")
    model = scripted("forgot it", patch, "all done", "read it", "alone")
    given = [{"title": "spec", "kind": "spec", "text": "Be kind."}]
    result = await w.workflow_execute("Do it.", graph, given, {"model": model})
    assert result.status == "done", result.error
    assert {one.kind for one in result.artifacts} == {"summary", "patch"}
    assert "## spec (spec)\nBe kind." in model.requests[0].messages[-1].text
    assert "no artifact of kind patch" in model.requests[1].messages[-1].text
    read = prompts(model)["b"]
    assert "## fix (patch)\n+1 -1" in read and "spec" not in read
    assert prompts(model)["c"] == "The task as a whole: Do it.\n\nOnly this."


async def test_node_of_an_agent_and_rules_of_the_workflow_bind_it():
    written: list[str] = []

    @w.tool
    async def write(text: str) -> str:
        """Write."""
        written.append(text)
        return "ok"

    def build() -> dict[str, Any]:
        agent = w.Agent(scripted(call("write", text="x"), "done"), tools=[write], name="writer")
        return {"nodes": {"w": {"kind": "subagent", "agent": agent}}}

    free = await w.workflow_execute("x", build())
    assert (free.output, written) == ("done", ["x"])
    bound = await w.workflow_execute("x", build(), permissions={"deny": ["write"]})
    assert written == ["x"] and bound.status == "done"
    log = await w.audit_query(session=bound.steps[0].session_id)
    assert "denied" in {entry.outcome for entry in log.entries}


async def test_node_with_a_model_of_its_own_takes_no_connection_of_the_defaults():
    graph = chain("a", "b")
    graph["nodes"]["b"]["model"] = scripted("own")
    options = {"provider": "mock", "model": "mock", "api_key": "secret"}
    result = await w.workflow_execute("x", graph, [], options)
    assert result.outputs["a"].startswith("Mock reply") and result.output == "own"


async def test_one_budget_for_all_nodes():
    model = scripted(then="x" * 40, usage=w.Usage(100, 50))
    graph = chain(*"abcdefgh")
    result = await w.workflow_execute(
        "x", graph, model=model, budget=w.Budget(tokens=450), max_tokens=60
    )
    assert (result.status, result.stop_reason) == ("budget_exhausted", "tokens")
    assert len(model.requests) in (2, 3)
    caller = w.Caller("ann", tenant="acme")
    mine = await w.workflow_execute(
        "x", chain("a"), model=scripted("hi"), caller=caller, session_id="s"
    )
    child = await w.sessions.agent_session_read(mine.steps[0].session_id, caller=caller)
    assert child.messages[-1].text == "hi"
    with pytest.raises(w.NoSuchSession):
        await w.sessions.agent_session_read("s", caller=w.Caller("bob", tenant="other"))


def build_asking(log: list[str]) -> w.WorkflowGraph:
    """Build two branches that each need an approval, and a join."""

    @w.tool(requires_approval=True)
    async def pay(what: str) -> str:
        """Pay."""
        log.append(what)
        return f"paid {what}"

    def paying(name: str) -> dict[str, Any]:
        return {
            "system": name,
            "tools": [pay],
            "model": scripted(call("pay", what=name), f"{name} ok"),
        }

    nodes: dict[str, Any] = {
        "a": {"mode": "llm", "model": scripted(then="begin")},
        "left": paying("left"),
        "right": paying("right"),
    }
    nodes["slow"] = {"mode": "llm", "model": scripted("slow ok")}
    nodes["end"] = {"mode": "llm", "model": scripted("the end")}
    edges = [
        ("a", "left"),
        ("a", "right"),
        ("a", "slow"),
        ("left", "end"),
        ("right", "end"),
        ("slow", "end"),
    ]
    spec = {
        "name": "pays",
        "entry": "a",
        "nodes": nodes,
        "edges": [{"from": a, "to": b} for a, b in edges],
    }
    return w.workflow_graph(spec)


async def test_workflow_parks_with_the_calls_of_its_nodes_and_goes_on():
    log: list[str] = []
    graph = build_asking(log)
    parked = await graph.run("Pay all.", session_id="p")
    assert parked.status == "suspended" and "left" in (parked.stop_reason or "")
    assert sorted((one.path[0], one.name) for one in parked.pending) == [
        ("left", "pay"),
        ("right", "pay"),
    ]
    assert next(step for step in parked.steps if step.name == "slow").status == "done"
    listed = await w.approvals()
    assert {one.session_id for one in listed} == {one.session_id for one in parked.pending}
    same = await graph.run("Pay all.", session_id="p")
    assert same.status == "suspended" and len(same.pending) == 2 and log == []

    with pytest.raises(w.ConfigError, match="2 open calls are meant"):
        await graph.resume("p", decisions={"call_1": True})
    with pytest.raises(w.ConfigError, match="no open call 'nope'"):
        await graph.resume("p", decisions={"nope": True})
    first = next(one for one in parked.pending if one.path == ("left",))
    half = await graph.resume("p", decisions={first.id: w.Allow()})
    assert half.status == "suspended" and log == ["left"]
    [other] = half.pending
    [waiting] = await w.approvals()
    assert waiting.session_id == other.session_id
    await w.approve(waiting.id)
    done = await graph.resume("p")
    assert (done.status, done.output, log) == ("done", "the end", ["left", "right"])
    again = await graph.resume("p")
    assert again.output == "the end" and log == ["left", "right"]


async def test_denied_call_and_a_result_of_the_host():
    host = w.Tool("look", "Look.", {"where": {"type": "string"}}, None)
    model = scripted(
        call("look", where="here"), lambda request: f"saw {request.messages[-1].content[0].text}"
    )
    graph = w.workflow_graph({"name": "hosted", "nodes": {"a": {"tools": [host], "model": model}}})
    parked = await graph.run("Look.", session_id="h")
    [pending] = parked.pending
    done = await graph.resume("h", results={pending.id: "a cat"})
    assert done.output == "saw a cat"

    log: list[str] = []
    graph = build_asking(log)
    parked = await graph.run("Pay all.", session_id="d")
    done = await graph.resume("d", decisions={one.id: w.Deny("no") for one in parked.pending})
    assert done.status == "done" and log == []


async def test_node_that_suspends_itself_parks_the_workflow_until_it_is_resumed():
    log: list[str] = []

    @w.tool(requires_approval=True)
    async def pay(what: str) -> str:
        """Pay."""
        log.append(what)
        return "paid"

    waits = call("agent_await_resumption", reason="the shop opens at nine")
    nodes = {
        "begin": {"mode": "llm", "model": scripted("go")},
        "wait": {"tools": [pay], "model": scripted(waits, "it is nine")},
        "pay": {"tools": [pay], "model": scripted(call("pay", what="Ann"), "paid")},
    }
    edges = [{"from": "begin", "to": "wait"}, {"from": "begin", "to": "pay"}]
    graph = w.workflow_graph({"name": "shop", "entry": "begin", "nodes": nodes, "edges": edges})
    parked = await graph.run("Buy.", session_id="shop")
    assert parked.status == "suspended" and [one.path[0] for one in parked.pending] == ["pay"]
    # an answer to one step does not wake the other
    half = await graph.resume("shop", decisions={parked.pending[0].id: True})
    assert (half.status, log, half.pending) == ("suspended", ["Ann"], [])
    assert {step.name: step.status for step in half.steps}["wait"] == "running"
    done = await graph.resume("shop")
    assert done.output == {"wait": "it is nine", "pay": "paid"}


BAD: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda g: g.update(node={}), "a graph has no key 'node'; did you mean 'nodes'"),
    (lambda g: g.update(entry="z"), "entry names 'z', which no node is"),
    (lambda g: g.update(nodes={}), "at least one"),
    (
        lambda g: g["nodes"]["a"].update(knd="stage"),
        "node 'a' has no key 'knd'; did you mean 'kind'",
    ),
    (lambda g: g["nodes"]["a"].update(kind="stge"), "did you mean 'stage'"),
    (lambda g: g["nodes"]["a"].update(transcript="keep"), "transcript is one of"),
    (lambda g: g["nodes"]["a"].update(retries=-1), "retries is a number of at least 0"),
    (lambda g: g["nodes"]["a"].update(command="ls"), "for a node of kind"),
    (lambda g: g["nodes"]["a"].update(mode="llm", tools=[answer]), "without tools"),
    (
        lambda g: g["nodes"]["b"].update(kind="verify", judge="Is it good?", tools=[answer]),
        "verifies by judge: it takes no tools",
    ),
    (lambda g: g["nodes"]["a"].update(model_policy={"modle": "x"}), "did you mean 'model'"),
    (lambda g: g["nodes"]["a"].update(output_contract={"kinds": []}), "has no key 'kinds'"),
    (lambda g: g["nodes"]["a"].update(context={"output": "all"}), "did you mean 'outputs'"),
    (
        lambda g: g["nodes"]["b"].update(context={"outputs": ["aa"]}),
        "node 'b': context.outputs names 'aa', which no node is; did you mean 'a'",
    ),
    (lambda g: g["nodes"]["a"].update(session_id="x"), "has no key 'session_id'"),
    (lambda g: g["nodes"].update(lost={}), "nothing leads to 'lost'"),
    (lambda g: g["edges"].append({"from": "b", "to": "a"}), "has no bound"),
    (lambda g: g["edges"].append({"from": "a", "to": "a"}), "has no bound"),
    (lambda g: g["edges"].append({"from": "a"}), "leads nowhere"),
    (
        lambda g: g["edges"].append({"from": "a", "to": "bb"}),
        "names 'bb', which no node is; did you mean 'b'",
    ),
    (lambda g: g["edges"].append({"from": [], "to": "b"}), "names [], which no node is"),
    (lambda g: g["edges"][0].update(on="pass"), "on is for edges of a verify node"),
    (lambda g: g["edges"][0].update(when="x"), "when is a function"),
    (lambda g: g["edges"][0].update(when={"field": "x"}), "one of equals, in, exists"),
    (lambda g: g["edges"][0].update(whn=1), "did you mean 'when'"),
]


@pytest.mark.parametrize(("spoil", "words"), BAD, ids=[words[:30] for _, words in BAD])
def test_wrong_graph_is_refused_before_anything_runs(spoil: Any, words: str):
    spec = {"nodes": {"a": {}, "b": {}}, "entry": "a", "edges": [{"from": "a", "to": "b"}]}
    w.workflow_graph(spec)
    spoil(spec)
    with pytest.raises(w.ConfigError) as caught:
        w.workflow_graph(spec)
    assert words in str(caught.value)


async def test_wrong_input_is_refused_before_anything_runs():
    model = scripted()
    for task, artifacts, options, words in (
        ("", [], {}, "a task is a text"),
        ("x", [{"title": "t"}], {}, "either text or data"),
        ("x", [{"titel": "t", "text": ""}], {}, "did you mean 'title'"),
        ("x", [], {"max_step": 3}, "max_steps"),
        ("x", [], {"max_steps": 0}, "max_steps"),
        ("x", [], {"messages": []}, "has no option 'messages'"),
    ):
        with pytest.raises(w.ConfigError, match=words):
            await w.workflow_execute(task, chain("a"), artifacts, {"model": model, **options})
    wrong = chain("a", "b")
    wrong["nodes"]["b"]["tool_format"] = "wrong"
    with pytest.raises(w.ConfigError, match="tool_format"):
        await w.workflow_execute("x", wrong, model=model)
    assert model.requests == []


async def test_changed_graph_is_named_and_the_session_stays():
    log: list[str] = []
    graph = build_asking(log)
    parked = await graph.run("Pay all.", session_id="c")
    nodes = {name: node for name, node in graph.nodes.items() if name != "left"}
    gone = w.WorkflowGraph(
        "pays", "a", nodes, [e for e in graph.edges if "left" not in (e.source, e.target)]
    )
    with pytest.raises(w.WorkflowChanged, match="no node 'left' any more") as caught:
        await gone.resume("c")
    assert caught.value.step == "left"
    with pytest.raises(w.ConfigError, match="is no run of the workflow"):
        await w.workflow_graph({"name": "other", "nodes": {"a": {}}}).resume("c", model=scripted())
    done = await graph.resume("c", decisions={one.id: True for one in parked.pending})
    assert done.status == "done"


async def test_killed_run_on_the_same_session_goes_on_and_another_input_is_refused():
    started = asyncio.Event()

    async def hang(request: w.Request) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    graph = chain("a", "b")
    task = asyncio.create_task(
        w.workflow_execute(
            "x", graph, model=scripted("one", hang), session_id="k", on_cancel="park"
        )
    )
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    model = scripted("two")
    done = await w.workflow_graph(graph).resume("k", model=model)
    assert done.output == "two" and [step.name for step in done.steps] == ["a", "b"]
    abort = w.Abort()
    abort.abort("enough")
    ended = await w.workflow_execute("x", graph, model=scripted(), session_id="q", abort=abort)
    assert (ended.status, ended.stop_reason) == ("cancelled", "enough")


async def test_events_of_nodes_are_shown_by_name():
    seen: list[tuple[str, ...]] = []

    def look(event: w.Event) -> None:
        if isinstance(event, w.ChildEvent):
            seen.append(event.path)

    await w.workflow_execute("x", chain("a", "b"), model=scripted("1", "2"), on_event=look)
    assert {("a",), ("b",)} <= set(seen)


def test_pictures():
    graph = w.workflow_graph(chain("a", "b<script>".replace("<script>", "")))
    result = asyncio.run(graph.run("x", model=scripted("1", "2")))
    text = w.workflow_draw(graph)
    assert text == "chain\n  ○ a (stage)\n    └──> b\n  ○ b (stage)"
    assert "● b (stage)  done" in w.workflow_draw(graph, result)
    mermaid = w.workflow_draw(graph, format="mermaid")
    assert mermaid == 'flowchart TD\n    n0["a"]\n    n1["b"]\n    n0 --> n1'
    page = w.workflow_draw(graph, result, format="html")
    assert page.startswith("<!doctype html>") and "<svg" in page and "done" in page
    with pytest.raises(w.ConfigError, match="format is one of"):
        w.workflow_draw(graph, format="png")  # pyright: ignore[reportArgumentType]


_JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from("ab")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["nodes", "edges", "entry", "from", "to", "on", "when", "a", "b", "kind", "tools"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(nodes=_JUNK, edges=_JUNK, entry=_JUNK)
def test_any_junk_is_a_graph_or_a_config_error(nodes: Any, edges: Any, entry: Any):
    try:
        graph = w.workflow_graph({"nodes": nodes, "edges": edges, "entry": entry})
    except w.ConfigError:
        return
    assert w.workflow_draw(graph) and w.workflow_draw(graph, format="html")

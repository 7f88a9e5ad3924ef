"""Whoever watches tool calls: receipts, telemetry, handoffs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    broken,
    kept,
    note,
    results,
)
from tests.stories.tool_helpers import both, look, write
from windlass.testing import call, run_virtual, scripted


async def test_an_audit_sink_has_a_receipt_for_every_call():
    receipts: list[dict[str, Any]] = []
    model = scripted([call("look", path="a"), call("write", path="b"), call("nope")], "ok")
    agent = w.Agent(
        model,
        tools=[look, write],
        audit_sink=receipts.append,
        consent=lambda asked: asked.kind == "read",
    )
    out = await agent.run("go", session_id="s", caller=w.Caller("ann"))
    by_tool = {record["tool"]: record for record in receipts}
    assert set(by_tool) == {"look", "write", "nope"} and len(receipts) == 3
    first = by_tool["look"]
    assert first["event"] == "tool_call" and first["session_id"] == "s"
    assert (first["arguments"], first["action"], first["rule"], first["attempt"]) == (
        {"path": "a"},
        "allow",
        "Consent",
        1,
    )
    assert (first["caller"], first["outcome"], first["ok"], first["result"]) == (
        "ann",
        "ok",
        True,
        "contents of a",
    )
    assert first["digest"] and first["iteration"] == 1 and first["run_id"] == out._run.run_id
    assert (by_tool["write"]["action"], by_tool["write"]["outcome"]) == ("deny", "denied")
    assert by_tool["nope"]["outcome"] == "unknown_tool"


async def test_a_receipt_is_whole_after_a_resume_and_holds_no_secrets():
    receipts: list[dict[str, Any]] = []
    async with w.Runtime(store="memory:", environ={}, secrets=("hunter22",)):
        model = scripted(call("write", path="hunter22"), "ok")
        agent = w.Agent(
            model, tools=[write], consent=lambda asked: "ask", audit_sink=receipts.append
        )
        out = await agent.run("go", session_id="s")
        assert not receipts
        await agent.resume("s", decisions={out.pending[0].id: True})
    [record] = receipts
    assert (record["action"], record["rule"]) == ("allow", "Consent:approved")
    assert "hunter22" not in str(record) and record["arguments"]


async def test_telemetry_tells_names_and_times_but_no_words():
    told: list[dict[str, Any]] = []
    await both(telemetry=told.append)
    assert [(one["event"], one["tool"]) for one in told] == [
        ("tool_call_started", "look"),
        ("tool_call_finished", "look"),
        ("tool_call_started", "write"),
        ("tool_call_finished", "write"),
    ]
    assert told[1]["outcome"] == "ok" and told[1]["duration_ms"] >= 0
    assert "contents" not in str(told) and "arguments" not in told[0]


async def test_whoever_is_told_of_a_call_cannot_change_it():
    def spoil(record: dict[str, Any]) -> None:
        (record.get("arguments") or {})["path"] = "spoiled"
        for waiting in record.get("pending", ()):
            waiting["arguments"]["path"] = "spoiled"

    def spoil_turn(turn: Any) -> None:
        for one in turn.dispatch or ():
            one["arguments"]["path"] = "spoiled"

    model = scripted([call("look", path="a"), call("write", path="b")], "ok", "fine")
    agent = w.Agent(
        model,
        tools=[look, write],
        audit_sink=spoil,
        handoff_sink=spoil,
        telemetry=spoil,
        post_turn_callback=spoil_turn,
        consent=lambda asked: asked.name == "look" or "ask",
    )
    out = await agent.run("go", session_id="s")
    waiting = [one.id for one in out.pending if one.name == "write"]
    out = await agent.resume("s", decisions={waiting[0]: True})
    assert "spoiled" not in str(model.requests) and "spoiled" not in str(list(out.entries))
    await kept(out, model)


async def test_a_handoff_sink_hears_of_work_that_is_left_to_others():
    told: list[dict[str, Any]] = []
    agent = w.Agent(
        scripted(call("write", path="b"), "ok"),
        tools=[write],
        consent=lambda asked: "ask",
        handoff_sink=told.append,
    )
    out = await agent.run("go", session_id="s")
    [record] = told
    assert (record["event"], record["status"], record["reason"]) == (
        "handoff",
        "suspended",
        "may write run?",
    )
    assert record["pending"] == [
        {"id": out.pending[0].id, "name": "write", "arguments": {"path": "b"}}
    ]
    await agent.resume("s", decisions={out.pending[0].id: True})
    assert len(told) == 1  # it ended as done
    await w.agent_loop(
        "go",
        model=scripted(then="talk"),
        loop_until_done=True,
        max_nudges=0,
        handoff_sink=told.append,
    )
    assert (told[-1]["status"], told[-1]["text"], told[-1]["pending"]) == ("stuck", "talk", [])


async def test_a_tool_of_the_kind_handoff_is_told():
    @w.tool(kind="handoff")
    async def page(who: str) -> str:
        """Page somebody."""
        return f"paged {who}"

    told: list[dict[str, Any]] = []
    model = scripted(call("page", who="Ann"), "ok")
    await w.agent_loop("go", model=model, tools=[page], handoff_sink=told.append)
    [record] = told
    assert (record["event"], record["tool"], record["arguments"], record["result"]) == (
        "handoff",
        "page",
        {"who": "Ann"},
        "paged Ann",
    )


async def test_a_sink_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture):
    def sink(record: Any) -> None:
        raise RuntimeError("full")

    async def slow(record: Any) -> None:
        raise RuntimeError("full")

    for broken_sink in (sink, slow):
        out = await both(audit_sink=broken_sink, telemetry=broken_sink, handoff_sink=broken_sink)
        assert out.status == "done"
    assert "the run goes on" in caplog.text


async def test_the_layers_of_a_caller_watch_as_the_options_do():
    told: dict[str, list[Any]] = {"a": [], "t": [], "h": []}
    caller = w.compose(
        [
            w.with_audit_sink(told["a"].append),
            w.with_telemetry(told["t"].append),
            w.with_handoff_sink(told["h"].append),
            w.with_rate_limit(max_calls=1),
            w.with_dry_run(tools=["look"]),
        ]
    )(w.default_tool_caller())
    model = scripted([call("look", path="a"), call("write", path="b")], "ok")
    out = await w.agent_loop(
        "go", model=model, tools=[look, write], tool_caller=caller, max_iterations=1
    )
    assert [record.outcome for record in out.tool_calls] == ["ok", "denied"]
    assert out.tool_calls[0].result.startswith("Dry run")
    assert len(told["a"]) == 2 and len(told["t"]) == 3 and len(told["h"]) == 1


def audited(**options: Any) -> tuple[list[float], list[float]]:
    """When the model was asked, and when receipts were handed over, with a slow sink."""
    asked: list[float] = []
    handed: list[float] = []

    async def main() -> Any:
        clock = asyncio.get_running_loop().time
        start = clock()

        async def sink(record: Any) -> None:
            await asyncio.sleep(10)
            handed.append(clock() - start)

        def reply(request: w.Request) -> Any:
            asked.append(clock() - start)
            return call("add", a=1, b=1) if len(asked) < 3 else "ok"

        out = await w.agent_loop(
            "go", model=scripted(then=reply), tools=[add], audit_sink=sink, **options
        )
        assert out.status == "done"

    run_virtual(main())
    return [round(t) for t in asked], [round(t) for t in handed]


def test_the_next_turn_waits_for_the_receipts_of_the_last():
    assert audited() == ([0, 10, 20], [10, 20])


def test_with_prefetch_the_next_turn_begins_at_once_and_the_run_waits_at_its_end():
    assert audited(prefetch_next_turn=True) == ([0, 0, 0], [10, 20])


def test_a_cancel_does_not_wait_for_a_slow_sink():
    async def main() -> Any:
        async def sink(record: Any) -> None:
            await asyncio.sleep(3600)

        abort = w.Abort()
        asyncio.get_running_loop().call_later(1, abort.abort, "enough")
        out = await w.agent_loop(
            "go",
            model=scripted(then=call("add", a=1, b=1)),
            tools=[add],
            audit_sink=sink,
            abort=abort,
        )
        return out, asyncio.get_running_loop().time()

    out, at = run_virtual(main())
    assert (out.status, out.llm.iterations) == ("cancelled", 1) and at < 1_000 + 2


async def test_middleware_reaches_tools_that_a_search_finds():
    @w.tool(defer_loading=True)
    async def rare(path: str) -> str:
        """Rare tool for paths."""
        return f"rare {path}"

    told: list[Any] = []
    model = scripted(
        call("__windlass_tool_search", query="rare paths"), call("rare", path="x"), "ok"
    )
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[add, rare],
        tool_search="bm25",
        dry_run={"tools": ["rare"]},
        audit_sink=told.append,
    )
    assert results(out)["rare"][1].startswith("Dry run"), results(out)
    assert [one["tool"] for one in told] == ["__windlass_tool_search", "rare"]


async def test_tools_stay_what_they_were_to_the_model():
    plain, wrapped = scripted("x"), scripted("x")
    await w.agent_loop("go", model=plain, tools=[add, note, broken])
    await w.agent_loop(
        "go",
        model=wrapped,
        tools=[add, note, broken],
        tool_retries=2,
        dry_run=True,
        tool_caller=lambda asked, next: next(asked),
        consent=lambda asked: True,
    )
    assert plain.requests[0].frame == wrapped.requests[0].frame

"""The model suspends its own run: `agent_await_resumption`, and what resumes it."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, kept, note, results, said
from windlass import seams
from windlass.engine.environment import current_environment, current_store
from windlass.events import Replied, Suspended
from windlass.replay.replay import recorded_runs, replay_run
from windlass.store.codec import decode
from windlass.testing import call, scripted
from windlass.triggers.fire import fire_due

NAME = "agent_await_resumption"


def names(request: w.Request) -> list[str]:
    return [spec.name for spec in request.tools]


def wait(reason: str = "the build runs", **conditions: Any) -> Any:
    arguments = {"reason": reason, **({"conditions": conditions} if conditions else {})}
    return call(NAME, **arguments)


async def resume(model: Any, session: str = "s", **options: Any) -> Any:
    return await w.Agent(model, **options).resume(session)


async def test_await_resumption_parks_the_run_with_all_its_fields():
    model = scripted(wait(timeout="2h", on_event="build.*"))
    out = await w.agent_loop("go", model=model, session_id="s")
    assert (out.status, out.reason, out.initiator) == ("suspended", "the build runs", "self")
    assert out.conditions == {"timeout": 7200.0, "on_event": {"name": "build.*"}}
    assert out.iterations_completed == 1 and out.pending == []
    assert out.handle is not None and (out.handle.session_id, out.handle.status) == (
        "s",
        "suspended",
    )
    assert out.to_dict()["handle"]["run_id"] == out.run_id
    await kept(out, model)


async def test_finished_run_has_no_suspension():
    out = await w.agent_loop("go", model=scripted("done"))
    assert out.status == "done"
    fields = (out.handle, out.reason, out.initiator, out.conditions, out.iterations_completed)
    assert fields == (None,) * 5 and "handle" not in out.to_dict()


async def test_nothing_else_of_the_reply_is_dispatched_and_the_reason_is_heard():
    batch = [call("note", text="x"), wait("Ann must look"), call("add", a=1, b=2)]
    model = scripted(batch, "Done.")
    out = await w.agent_loop("go", model=model, tools=[note, add], session_id="s")
    assert out.status == "suspended" and out.conditions is None
    assert {name: outcome for name, (outcome, _) in results(out).items()} == {
        "note": "not_run",
        NAME: "ok",
        "add": "not_run",
    }
    out = await resume(model, tools=[note, add])
    assert out.status == "done"
    assert any("Ann must look" in text for text in said(model.requests[1])[1:])
    await kept(out, model)


@pytest.mark.parametrize(
    "conditions, path",
    [
        ({"timeout": "soon"}, "conditions.timeout"),
        ({"timeot": 5}, "did you mean 'timeout'?"),
        ({"trigger": {"kind": "timer", "at": "2001-01-01T00:00:00Z"}}, "conditions.trigger.at"),
        ({"trigger": {"kind": "timer", "cron": "0 0 30 2 *"}}, "conditions.trigger.cron"),
    ],
)
async def test_bad_conditions_are_told_to_the_model_and_the_loop_goes_on(
    conditions: Any, path: str
):
    model = scripted([wait(**conditions), call("note", text="x")], "Done.")
    out = await w.agent_loop("go", model=model, tools=[note])
    assert out.status == "done" and results(out)["note"][0] == "ok"
    outcome, text = results(out)[NAME]
    assert outcome == "invalid" and path in text and "WL-SUS-002" in text
    await kept(out, model)


async def test_reason_is_required():
    out = await w.agent_loop("go", model=scripted(call(NAME), "Done."))
    assert out.status == "done" and results(out)[NAME][0] == "invalid"


async def test_tool_is_offered_by_loops_and_on_request():
    model = scripted("a", "b", "c", "d", "e")
    await w.agent_loop("go", model=model, tools=[note])
    await w.agent_loop("go", model=model, tools=[note], await_resumption=False)
    await w.Agent(model, tools=[note]).run("go")
    wanting: Any = {"tools": [note], "await_resumption": True}
    await w.Agent(model, **wanting).run("go")
    await w.Agent(model, **wanting, disallowed_tools=[NAME]).run("go")
    offered = [names(request) for request in model.requests]
    assert offered == [["note", NAME], ["note"], ["note"], ["note", NAME], ["note"]]


async def test_agent_turn_offers_the_tool():
    judge = {"model": scripted('{"verdict": "done", "reasoning": "fine"}')}
    model = scripted("Done. ##DONE##")
    await w.agent_turn("go", model=model, judge=judge, tools=[note])
    assert names(model.requests[0]) == ["note", NAME]


async def test_loop_without_tools_stays_one():
    model = scripted("Done.")
    out = await w.agent_loop("go", model=model)
    assert names(model.requests[0]) == [NAME]
    assert (out.status, out.tools.mode, out.tools.calls) == ("done", "none", [])
    off = scripted("Done.")
    await w.agent_loop("go", model=off, await_resumption=False)
    assert names(off.requests[0]) == []
    agent = scripted("Done.")
    await w.Agent(agent).run("go")
    assert names(agent.requests[0]) == []
    words = scripted("Done.", native_tools=False)
    plain = await w.agent_loop("go", "Be brief.", model=words, await_resumption=True)
    assert plain.tools.mode == "none"
    assert words.requests[0].tools == () and words.requests[0].system == "Be brief."


async def test_forced_choice_of_a_tool_and_typed_answer_are_left_alone():
    model = scripted("a", '{"a": 1}')
    await w.agent_loop("go", model=model, tools=[note], tool_choice="required")
    await w.agent_loop("go", model=model, schema={"type": "object"}, await_resumption=True)
    assert [NAME in names(request) for request in model.requests] == [False, False]


async def test_text_format_has_the_tool_among_the_others():
    model = scripted("Done.", native_tools=False)
    out = await w.agent_loop("go", model=model, tools=[note])
    assert out.tools.mode == "text" and NAME in (model.requests[0].system or "")


async def test_timeout_that_has_passed_resumes_with_the_condition():
    out = await w.agent_loop("go", model=scripted(wait(timeout="2h")), session_id="s")
    assert out.status == "suspended"
    store, now = current_store(), seams.now()
    assert await fire_due(store, now + 7000) is not None
    assert await store.inbox("s") == []
    assert await fire_due(store, now + 7300) is None
    assert await fire_due(store, now + 9999) is None
    [item] = await store.inbox("s")
    assert item.kind == "resume" and item.payload["initiator"] == "triggered"
    assert item.payload["condition"] == "timeout" and 90 < item.payload["late"] < 110
    model = scripted("Done.")
    out = await resume(model)
    assert out.status == "done"
    heard = said(model.requests[0])
    assert any("timeout" in text for text in heard) and any("build runs" in t for t in heard)


async def test_first_condition_that_holds_ends_the_others():
    await w.agent_loop("go", model=scripted(wait(timeout=60, on_event="b*")), session_id="s")
    await w.publish_event("a")
    assert await current_store().inbox("s") == []
    await w.publish_event("build.finished")
    await fire_due(current_store(), seams.now() + 100)
    [item] = await current_store().inbox("s")
    assert item.payload["condition"] == "on_event" and "build.finished" in item.payload["message"]
    assert await w.trigger_list() == []


async def test_session_that_goes_on_by_hand_forgets_its_conditions():
    await w.agent_loop("go", model=scripted(wait(timeout=60)), session_id="s")
    assert [row.id for row in await w.trigger_list()] == ["resume:timeout:s"]
    out = await resume(scripted("Done."))
    assert out.status == "done" and await w.trigger_list() == []
    await fire_due(current_store(), seams.now() + 100)
    assert await current_store().inbox("s") == []


async def test_function_checks_a_request():
    request = w.agent_await_resumption("wait", {"timeout": "90s"})
    assert request.to_dict() == {"reason": "wait", "conditions": {"timeout": 90.0}}
    with pytest.raises(w.InvalidCondition) as caught:
        w.agent_await_resumption("wait", {"on_event": {"nam": "x"}})
    assert (caught.value.code, caught.value.path) == ("WL-SUS-002", "conditions.on_event.nam")
    with pytest.raises(w.ConfigError):
        w.agent_await_resumption("  ")


async def test_replay_of_a_run_that_suspended_itself_matches():
    async with current_environment() as runtime:
        model = scripted(call("note", text="x"), [call("note", text="y"), wait("Ann")])
        out = await w.agent_loop("go", model=model, tools=[note], session_id="s")
        entries = await runtime.store.read("s")
    (run,) = recorded_runs(entries)
    again = await replay_run("s", entries, run, runtime)
    assert out.status == again.status == "suspended" and again.difference is None


async def test_park_with_conditions_is_whole_after_every_row(tmp_path: Any):
    path = str(tmp_path / "s.db")
    async with w.Runtime(store=path):
        batch = [call("note", text="y"), wait("Ann", timeout=60)]
        model = scripted(call("note", text="x"), batch)
        out = await w.agent_loop("go", model=model, tools=[note], session_id="s")
        assert out.status == "suspended"
        rows = await current_store().rows("s")
    for size in range(2, len(rows) + 1):
        entries = [entry for row in rows[:size] for entry in decode(row.payload, "s", row.seq)]
        async with w.Runtime(store="memory:"):
            store = current_store()
            journal = await store.open("s")
            for entry in entries[1:]:
                journal.append(entry)
            await journal.close()
            replies = [] if any(type(e) is Suspended for e in entries) else [batch]
            if sum(type(e) is Replied for e in entries) == 0:
                replies = [call("note", text="x"), batch]
            elif sum(type(e) is Replied for e in entries) == 2:
                replies = []
            model = scripted(*replies, "Done.")
            again = await w.Agent(model, tools=[note], await_resumption=True).resume("s")
            if again.status == "suspended":  # it was cut before the park
                assert [row.id for row in await w.trigger_list()] == ["resume:timeout:s"]
                again = await resume(scripted("Done."), tools=[note])
            assert again.status == "done" and await w.trigger_list() == []
            texts = [r.result for r in again.tool_calls if r.name == "note" and r.outcome == "ok"]
            assert len(texts) <= 1

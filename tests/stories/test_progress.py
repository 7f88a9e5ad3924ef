"""A tool with which the model says how far it is."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    results,
    said,
)
from windlass.events import ProgressReported
from windlass.testing import call, scripted

TASKS = [
    {"content": "read", "status": "completed", "priority": "high"},
    {"content": "write", "status": "in_progress"},
]


def reports(out: Any) -> list[ProgressReported]:
    return [entry for entry in out.entries if type(entry) is ProgressReported]


async def test_what_the_model_reports_is_an_event():
    seen: list[Any] = []
    model = scripted(
        call("agent_progress", message="Reading."),
        [call("agent_progress", entries=TASKS), call("add", a=1, b=2)],
        call("agent_progress", message="Nearly.", entries=TASKS),
        "ok",
    )
    out = await w.agent_loop(
        "go", model=model, tools=[add], progress_tool=True, on_event=seen.append
    )
    assert reports(out) == [
        ProgressReported("Reading."),
        ProgressReported(None, tuple(TASKS)),
        ProgressReported("Nearly.", tuple(TASKS)),
    ]
    assert [e for e in seen if type(e) is ProgressReported] == reports(out)
    assert "progress_reported" in [event["kind"] for event in out.trace["events"]]
    assert results(out)["agent_progress"] == ("ok", "Noted.")
    await kept(out, model)


async def test_the_tool_is_offered_only_when_it_is_asked_for():
    for value in (False, None):
        model = scripted("x")
        await w.agent_loop(
            "go", model=model, tools=[add], await_resumption=False, progress_tool=value
        )
        assert [tool.name for tool in model.requests[0].tools] == ["add"]
        assert model.requests[0].system is None


async def test_the_system_prompt_mentions_it():
    model = scripted("x")
    await w.agent_loop(
        "go", "Be brief.", model=model, tools=[add], await_resumption=False, progress_tool=True
    )
    first = model.requests[0]
    assert [tool.name for tool in first.tools] == ["add", "agent_progress"]
    assert first.system is not None
    assert first.system.startswith("Be brief.\n\n") and "agent_progress" in first.system


@pytest.mark.parametrize(
    "given",
    [
        {
            "name": "tell",
            "description": "Tell Ann.",
            "system_prompt_nudge": "Tell her with {name}.",
        },
        w.ProgressTool(
            name="tell", description="Tell Ann.", system_prompt_nudge="Tell her with {name}."
        ),
    ],
    ids=["dict", "typed"],
)
async def test_it_has_a_name_and_words_of_your_own(given: Any):
    model = scripted(call("tell", message="half"), "ok")
    out = await w.Agent(model, tools=[add], progress_tool=given).run("go")
    tool = model.requests[0].tools[-1]
    assert (tool.name, tool.description) == ("tell", "Tell Ann.")
    assert model.requests[0].system == "Tell her with tell."
    assert [report.message for report in reports(out)] == ["half"]


@pytest.mark.parametrize("nudge", [None, False, ""])
async def test_the_nudge_may_be_left_out(nudge: Any):
    model = scripted("x")
    await w.agent_loop("go", model=model, progress_tool={"system_prompt_nudge": nudge})
    assert model.requests[0].system is None


async def test_a_report_of_nothing_and_a_wrong_one_are_sent_back():
    model = scripted(
        call("agent_progress"),
        call("agent_progress", message="  "),
        call("agent_progress", entries=[{"content": "x", "status": "maybe"}]),
        "ok",
    )
    out = await w.agent_loop("go", model=model, tools=[add], progress_tool=True)
    assert [record.outcome for record in out.tool_calls] == ["retry", "retry", "invalid"]
    assert reports(out) == []


async def test_arguments_that_were_mended_are_what_is_reported():
    model = scripted(call("agent_progress", message="x", entries=TASKS[0]), "ok")
    out = await w.agent_loop("go", model=model, progress_tool=True, tool_arg_validation="lenient")
    assert reports(out) == [ProgressReported("x", (TASKS[0],))]


async def test_it_does_not_change_how_a_run_ends():
    """Without tools of its own the loop waits for the sentinel, whatever the runtime offers."""
    model = scripted(call("agent_progress", message="half"), "It is 3.", "It is 3. ##DONE##")
    out = await w.agent_loop("go", model=model, progress_tool=True, loop_until_done=True)
    assert (out.status, out.stop_reason, out.tools.mode) == ("done", "sentinel", "none")
    assert [report.message for report in reports(out)] == ["half"]


async def test_a_model_without_native_tools_writes_its_reports():
    model = scripted(
        '<tool_call>{"name": "agent_progress", "arguments": {"message": "half"}}</tool_call>',
        "3",
        native_tools=False,
    )
    out = await w.agent_loop("go", model=model, progress_tool=True)
    assert [report.message for report in reports(out)] == ["half"]
    assert "tool_result" in said(model.requests[1])[-1]


async def test_it_may_be_demanded():
    model = scripted(call("agent_progress", message="x"), "ok")
    choice = {"name": "agent_progress"}
    await w.agent_loop("go", model=model, progress_tool=True, tool_choice=choice, max_iterations=1)
    assert model.requests[0].settings.tool_choice == choice


async def test_a_name_that_is_taken_is_refused():
    with pytest.raises(w.ConfigError, match="progress_tool another name"):
        await w.agent_loop("go", model=scripted("x"), tools=[add], progress_tool={"name": "add"})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "progress_tool"),
        ("yes", "progress_tool"),
        ({"nme": "x"}, "'name'"),
        ({"name": "a b"}, "progress_tool.name"),
        ({"name": 3}, "progress_tool.name"),
        ({"description": ""}, "progress_tool.description"),
        ({"system_prompt_nudge": 3}, "progress_tool.system_prompt_nudge"),
    ],
)
async def test_an_impossible_value_is_refused(value: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop("go", model=model, progress_tool=value)
    assert not model.requests


async def test_a_report_is_made_once_however_the_run_went_on():
    from tests.stories.helpers import written
    from windlass.engine.environment import current_store

    model = scripted([call("agent_progress", message="half"), call("add", a=1, b=1)], "ok")
    whole = await w.Agent(model, tools=[add], progress_tool=True).run("go", session_id="s")
    store = current_store()
    entries = list(await store.read("s"))
    first = next(at for at, e in enumerate(entries) if type(e).__name__ == "Replied")
    for cut in range(first + 1, len(entries) - 1):
        await written(store, f"cut-{cut}", entries[:cut])
        agent = w.Agent(scripted("ok"), tools=[add], progress_tool=True)
        out = await agent.resume(f"cut-{cut}")
        whole_run = [e for e in await store.read(f"cut-{cut}") if type(e) is ProgressReported]
        at_the_end = type(entries[cut - 1]) is ProgressReported  # one append with what follows
        assert out.status == "done" and (whole_run == reports(whole) or at_the_end), cut

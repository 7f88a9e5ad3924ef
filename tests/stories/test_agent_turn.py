"""One request, done to the end: a judge must agree that it is done."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept, note
from tests.stories.judge_helpers import DONE, MORE, verdict
from windlass.agents.agent_turn import GUIDANCE
from windlass.testing import call, scripted


async def test_a_request_is_worked_on_until_the_judge_agrees():
    model = scripted(call("note", text="x"), "draft", MORE, "final", DONE)
    out = await w.agent_turn("write it", model=model, tools=[note])
    assert (out.status, out.stop_reason, out.final_text) == ("done", "natural", "final")
    assert out.visible_text == "draft\nfinal"
    assert out.done_judge["invocations"] == 2
    await kept(out, model)


async def test_the_turns_in_short():
    model = scripted(["Look: ", call("note", text="x"), call("note", text="y")], "final", DONE)
    out = await w.agent_turn("go", model=model, tools=[note])
    first, second = out.iterations
    assert (first.iteration, first.started, first.ended) == (1, True, True)
    assert (first.tool_count, first.prose_chars) == (2, 6)
    assert (second.iteration, second.tool_count, second.prose_chars) == (2, 0, 5)


async def test_the_judgements_in_short():
    model = scripted("##DONE##", MORE, "##DONE##", DONE)
    out = await w.agent_turn("go", model=model)
    first, second = out.judge_decisions
    assert (first.iteration, first.verdict) == (1, "continue")
    assert (first.reasoning, first.next_step) == ("tests are missing", "write the tests")
    assert first.judge_duration_ms >= 0 and first.trigger is None
    assert (second.iteration, second.verdict) == (2, "done")


async def test_a_stalled_turn_says_who_called_the_judge():
    again = call("note", text="x")
    out = await w.agent_turn(
        "go",
        model=scripted(again, again, DONE),
        tools=[note],
        stall_diagnostics={"threshold": 2},
        judge={"cadence": {"when": "stalled"}},
    )
    assert out.judge_decisions[0].trigger == "stalled"
    assert out.stop_reason == "stalled_done_judge"


async def test_a_turn_that_broke_off_has_not_ended():
    out = await w.agent_turn("go", model=scripted(then=w.Overloaded("busy")))
    assert out.status == "provider_error"
    [only] = out.iterations
    assert (only.started, only.ended, only.tool_count, only.prose_chars) == (
        True,
        False,
        None,
        None,
    )


async def test_it_comes_with_guidance_beside_the_system_prompt():
    model = scripted("##DONE##", DONE)
    await w.agent_turn("go", model=model, system="Be brief.")
    system = model.requests[0].system or ""
    assert system.startswith("Be brief.") and GUIDANCE in system and "##DONE##" in system
    model = scripted("ok", DONE)
    await w.agent_turn("go", model=model, tools=[note])
    assert (model.requests[0].system or "").startswith(GUIDANCE)
    assert "Keep working until the task is complete" in (model.requests[0].system or "")


@pytest.mark.parametrize("name", ["judge", "done_judge"])
@pytest.mark.parametrize("value", [True, {}, {"system": "Strict."}, w.DoneJudge(system="Strict.")])
async def test_the_judge_may_be_changed_under_either_name(name: str, value: Any):
    model = scripted("##DONE##", DONE)
    out = await w.agent_turn("go", model=model, **{name: value})
    assert out.status == "done"
    if value not in (True, {}):
        assert model.requests[1].system == "Strict."


@pytest.mark.parametrize("name", ["judge", "done_judge", "loop_until_done"])
@pytest.mark.parametrize("value", [None, False])
async def test_it_cannot_do_without(name: str, value: Any):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match="agent_turn needs"):
        await w.agent_turn("go", {name: value}, model=model)
    assert not model.requests


@pytest.mark.parametrize("options", [{}, {"tools": [note], "tool_format": "text"}])
async def test_without_native_tools_there_must_be_a_word_for_done(options: dict[str, Any]):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match="done_sentinel"):
        await w.agent_turn("go", model=model, done_sentinel=None, **options)
    assert not model.requests
    model = scripted("ok", DONE)
    out = await w.agent_turn("go", model=model, tools=[note], done_sentinel=None)
    assert out.status == "done"


async def test_both_names_at_once_are_too_many():
    with pytest.raises(w.ConfigError, match="give one"):
        await w.agent_turn("go", model=scripted(), judge=True, done_judge=True)


async def test_unknown_options_are_named():
    with pytest.raises(w.ConfigError, match="agent_turn has no option 'done_juge'.*done_judge"):
        await w.agent_turn("go", model=scripted(), done_juge=True)


async def test_options_may_come_as_a_dict():
    model = scripted("##DONE##", verdict("done"))
    out = await w.agent_turn("go", {"model": model, "max_iterations": 3})
    assert out.status == "done"


async def test_the_result_as_plain_data():
    out = await w.agent_turn("go", model=scripted("##DONE##", DONE))
    plain = out.to_dict()
    assert plain["iterations"] == [
        {"iteration": 1, "started": True, "ended": True, "tool_count": 0, "prose_chars": 8}
    ]
    assert plain["judge_decisions"][0]["verdict"] == "done"
    assert out["judge_decisions"][0]["verdict"] == "done"


async def test_caps_and_limits_end_it_like_any_loop():
    def talk(request: w.Request) -> Any:
        return MORE if request.tools and request.tools[0].name == "give_verdict" else "##DONE##"

    out = await w.agent_turn("go", model=scripted(then=talk), judge={"max_invocations": 1})
    assert (out.status, out.stop_reason) == ("verify_capped", "done_judge_cap_reached")
    out = await w.agent_turn("go", model=scripted(then=talk), max_iterations=2)
    assert out.status == "budget_exhausted" and len(out.iterations) == 2

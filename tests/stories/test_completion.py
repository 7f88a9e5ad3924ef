"""When a loop ends: naturally, on the sentinel, or because the model only talks."""

from __future__ import annotations

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    broken,
    kept,
    said,
)
from windlass.testing import call, scripted


async def test_without_loop_until_done_the_first_reply_without_calls_ends_the_run():
    model = scripted(call("add", a=1, b=2), "3")
    out = await w.agent_loop("1 + 2?", model=model, tools=[add])
    assert (out.status, out.stop_reason, out.final_text) == ("done", "natural", "3")
    await kept(out, model)


async def test_native_tools_a_text_reply_is_the_natural_end():
    model = scripted(call("add", a=1, b=2), "3")
    out = await w.agent_loop("1 + 2?", model=model, tools=[add], loop_until_done=True)
    assert (out.status, out.stop_reason, out.llm.iterations) == ("done", "natural", 2)
    await kept(out, model)


async def test_native_tools_have_no_sentinel_unless_one_is_given():
    model = scripted("I would write ##DONE## here.")
    out = await w.agent_loop("go", model=model, tools=[add], loop_until_done=True)
    assert out.stop_reason == "natural"
    assert "##DONE##" in out.visible_text
    assert "##DONE##" not in (model.requests[0].system or "")


async def test_native_tools_a_blank_reply_is_no_end():
    model = scripted(" ", "Here.")
    out = await w.agent_loop("go", model=model, tools=[add], loop_until_done=True)
    assert (out.status, out.llm.iterations, out.final_text) == ("done", 2, "Here.")
    await kept(out, model)


async def test_no_tools_the_bare_sentinel_ends_the_loop():
    model = scripted("Working.", "Finished. ##DONE##")
    out = await w.agent_loop("go", model=model, loop_until_done=True)
    assert (out.status, out.stop_reason, out.llm.iterations) == ("done", "sentinel", 2)
    assert "##DONE##" in (model.requests[0].system or "")
    await kept(out, model)


async def test_no_tools_text_alone_is_no_end():
    model = scripted("one", "two", "##DONE##")
    out = await w.agent_loop("go", model=model, loop_until_done=True)
    assert out.llm.iterations == 3


async def test_text_tools_the_sentinel_counts_only_in_a_done_block():
    model = scripted("##DONE##", "<done>##DONE##</done>")
    out = await w.agent_loop(
        "go", model=model, tools=[add], tool_format="text", loop_until_done=True
    )
    assert (out.status, out.stop_reason, out.llm.iterations) == ("done", "sentinel", 2)
    await kept(out, model, text=True)


async def test_no_sentinel_without_loop_until_done():
    model = scripted("##DONE##")
    out = await w.agent_loop("go", model=model)
    assert (out.stop_reason, out.visible_text) == ("natural", "##DONE##")


async def test_an_explicit_sentinel_makes_plain_text_no_end_in_native_mode():
    model = scripted("Almost.", "All done. FIN")
    out = await w.agent_loop(
        "go", model=model, tools=[add], loop_until_done=True, done_sentinel="FIN"
    )
    assert (out.stop_reason, out.llm.iterations, out.final_text) == ("sentinel", 2, "All done.")
    await kept(out, model)


async def test_an_explicit_sentinel_works_without_loop_until_done():
    out = await w.agent_loop("go", model=scripted("ok FIN"), done_sentinel="FIN")
    assert (out.stop_reason, out.final_text) == ("sentinel", "ok")


async def test_done_sentinel_none_means_none():
    model = scripted("##DONE##", "##DONE##")
    out = await w.agent_loop(
        "go", model=model, loop_until_done=True, done_sentinel=None, max_nudges=1
    )
    assert out.status == "stuck"


@pytest.mark.parametrize("empty", ["", "  ", 3])
async def test_an_empty_sentinel_is_an_error_before_any_call(empty: object):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match="done_sentinel"):
        await w.agent_loop("go", model=model, done_sentinel=empty)
    assert not model.requests


async def test_the_sentinel_is_taken_out_of_visible_text_and_kept_in_text():
    out = await w.agent_loop("go", model=scripted("One. ##DONE##"), loop_until_done=True)
    assert (out.visible_text, out.text) == ("One.", "One. ##DONE##")


async def test_the_done_block_is_taken_out_of_visible_text():
    model = scripted("Bye. <done>##DONE##</done>")
    out = await w.agent_loop(
        "go", model=model, tools=[add], tool_format="text", loop_until_done=True
    )
    assert (out.visible_text, out.final_text) == ("Bye.", "Bye.")


async def test_a_reply_of_the_sentinel_alone_leaves_the_answer_before_it():
    model = scripted("42.", "FIN")
    out = await w.agent_loop(
        "go", model=model, tools=[add], loop_until_done=True, done_sentinel="FIN"
    )
    assert (out.final_text, out.visible_text) == ("42.", "42.")


async def test_visible_text_is_accumulated_and_final_text_is_the_last_answer():
    model = scripted("one", "two ##DONE##")
    out = await w.agent_loop("go", model=model, loop_until_done=True)
    assert (out.visible_text, out.final_text) == ("one\ntwo", "two")


async def test_a_sentinel_beside_calls_counts_after_they_ran():
    model = scripted(["FIN", call("add", a=1, b=1)])
    out = await w.agent_loop(
        "go", model=model, tools=[add], loop_until_done=True, done_sentinel="FIN"
    )
    assert (out.status, out.stop_reason, out.tools.successful) == ("done", "sentinel", ["add"])
    await kept(out, model)


async def test_text_only_turns_are_nudged_in_words_that_fit_the_mode():
    plain = scripted("hm", "##DONE##")
    await w.agent_loop("go", model=plain, loop_until_done=True)
    assert "##DONE##" in said(plain.requests[1])[-1]
    written = scripted("hm", "<done>##DONE##</done>")
    await w.agent_loop("go", model=written, tools=[add], tool_format="text", loop_until_done=True)
    assert "<done>##DONE##</done>" in said(written.requests[1])[-1]
    native = scripted(" ", "ok")
    await w.agent_loop("go", model=native, tools=[add], loop_until_done=True)
    assert "##DONE##" not in said(native.requests[1])[-1]
    assert native.requests[1].messages[-1].kind == "nudge"


async def test_the_nudge_says_what_it_was_told_to():
    model = scripted("hm", "##DONE##")
    out = await w.agent_loop("go", model=model, loop_until_done=True, nudge="Get on with it.")
    assert said(model.requests[1])[-1] == "Get on with it."
    await kept(out, model)


async def test_no_nudge_where_the_end_is_natural():
    model = scripted(call("add", a=1, b=1), "2")
    await w.agent_loop("go", model=model, tools=[add], loop_until_done=True, nudge="NUDGE")
    assert all("NUDGE" not in said(request) for request in model.requests)


@pytest.mark.parametrize("allowed", [0, 1, 3])
async def test_n_nudges_allow_n_plus_one_turns_of_talk(allowed: int):
    model = scripted(then="talk")
    out = await w.agent_loop("go", model=model, loop_until_done=True, max_nudges=allowed)
    assert (out.status, out.stop_reason) == ("stuck", "max_nudges")
    assert out.llm.iterations == allowed + 1
    await kept(out, model)


async def test_eight_nudges_are_the_default():
    out = await w.agent_loop("go", model=scripted(then="talk"), loop_until_done=True)
    assert (out.status, out.llm.iterations) == ("stuck", 9)


async def test_stuck_is_on_the_record():
    seen: list[w.Event] = []
    await w.agent_loop(
        "go", model=scripted(then="talk"), loop_until_done=True, max_nudges=1, on_event=seen.append
    )
    from windlass.events import FeedbackInjected, LoopStuck

    assert [e.nudges for e in seen if isinstance(e, LoopStuck)] == [1]
    assert [e.feedback for e in seen if isinstance(e, FeedbackInjected)] == ["nudge"]


async def test_any_call_starts_the_count_again_even_one_that_failed():
    model = scripted("a", call("broken"), "b", call("nowhere"), "c", "##DONE##")
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[broken],
        loop_until_done=True,
        max_nudges=1,
        done_sentinel="##DONE##",
    )
    assert (out.status, out.llm.iterations) == ("done", 6)
    await kept(out, model)


async def test_the_sentinel_beats_stuck_on_the_boundary_turn():
    model = scripted("talk", "##DONE##")
    out = await w.agent_loop("go", model=model, loop_until_done=True, max_nudges=1)
    assert (out.status, out.stop_reason) == ("done", "sentinel")


async def test_persistent_is_an_old_name():
    with pytest.warns(DeprecationWarning, match="loop_until_done"):
        out = await w.agent_loop("go", model=scripted("a", "##DONE##"), persistent=True)
    assert (out.status, out.stop_reason) == ("done", "sentinel")


async def test_an_agent_is_done_at_its_first_answer():
    model = scripted(call("add", a=2, b=2), "4")
    out = await w.Agent(model, tools=[add]).run("2 + 2?")
    assert (out.status, out.stop_reason, out.output) == ("done", "natural", "4")
    await kept(out, model)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("iterations", "llm.iterations"),
        ("duration_ms", "llm.duration_ms"),
        ("tools_used", "tools.calls"),
        ("successful_tools", "tools.successful"),
        ("rejected_tools", "tools.rejected"),
        ("tool_calling_mode", "tools.mode"),
    ],
)
async def test_old_result_names_say_what_they_are_now(old: str, new: str):
    out = await w.agent_loop("go", model=scripted("x"))
    with pytest.raises(AttributeError, match=f"result.{new}"):
        getattr(out, old)


async def test_the_mode_is_on_the_result():
    async def mode(**options: object) -> str:
        return (await w.agent_loop("go", model=scripted("x"), **options)).tools.mode

    assert await mode(tools=[add]) == "native"
    assert await mode(tools=[add], tool_format="text") == "text"
    text_only = scripted("x", native_tools=False)
    assert (await w.agent_loop("go", model=text_only, tools=[add])).tools.mode == "text"

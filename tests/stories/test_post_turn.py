"""A function after every turn: what it is told, and everything it may answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    broken,
    kept,
    kinds,
    said,
    written,
)
from windlass.engine.environment import current_store
from windlass.events import CallReserved, Framed, IterationEnd, Remembered, RunEnded
from windlass.loop.requests import requests_of
from windlass.testing import call, scripted


async def looped(model: Any, callback: Any, **options: Any) -> Any:
    options.setdefault("tools", [add])
    out = await w.agent_loop("go", model=model, post_turn_callback=callback, **options)
    if out.status != "failed":
        await kept(out, model)
    return out


# --------------------------------------------------------------------------- what it is told


async def test_it_is_told_everything_about_the_turn():
    seen: list[Any] = []
    model = scripted(
        [w.Text("I try both."), call("add", a=1, b=2), call("broken"), call("nope")], "Bye."
    )
    out = await looped(model, seen.append, tools=[add, broken], session_id="s")
    first, last = seen
    assert (first.session_id, first.iteration, first.has_tool_calls) == ("s", 0, True)
    assert [one["name"] for one in first.dispatch] == ["add", "broken", "nope"]
    assert first.dispatch[0]["arguments"] == {"a": 1, "b": 2}
    assert first.tool_count == 3 and first.text == first.visible_text == "I try both."
    assert [(r.tool_name, r.ok, r.status) for r in first.tool_results] == [
        ("add", True, "ok"),
        ("broken", False, "error"),
        ("nope", False, "unknown_tool"),
    ]
    assert first.tool_results[0].rendered_result == "3" and first.tool_results[0].error is None
    assert first.tool_results[1].error == "ValueError: out of order"
    assert first.successful_tool_names == ["add"] == first.session_successful_tools
    assert first.rejected_tool_names == ["broken", "nope"]
    assert set(first.session_rejected_tools) == {"broken", "nope"}
    assert (last.iteration, last.has_tool_calls, last.dispatch) == (1, False, None)
    assert (last.tool_results, last.tool_count, last.successful_tool_names) == ([], 0, [])
    assert last.session_successful_tools == ["add"] and last.text == "Bye."
    assert out.status == "done"


async def test_visible_text_has_no_sentinel():
    seen: list[Any] = []
    await looped(scripted("It is 3. ##DONE##"), seen.append, tools=[], loop_until_done=True)
    assert (seen[0].text, seen[0].visible_text) == ("It is 3. ##DONE##", "It is 3.")


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("tool_names", "turn.successful_tool_names"),
        ("session_tools_used", "turn.session_successful_tools"),
        ("consecutive_single_tool_turns", "turn.tool_count"),
        ("tool_reslts", "'tool_results'"),
    ],
)
async def test_an_old_name_names_its_successor(name: str, instead: str):
    out = await looped(scripted("x"), lambda turn: getattr(turn, name))
    assert out.status == "failed" and instead in out.error["message"]


async def test_an_old_name_of_a_result_too():
    out = await looped(
        scripted(call("add", a=1, b=1), "x"), lambda turn: turn.tool_results[0].rejected
    )
    assert out.status == "failed" and "use not .ok" in out.error["message"]


# --------------------------------------------------------------------------- what it answers


@pytest.mark.parametrize("answer", [None, "", False, {}, {"message": None}, {"stop": False}])
async def test_no_answer_has_no_effect(answer: Any):
    model = scripted(call("add", a=1, b=1), "ok")
    out = await looped(model, lambda turn: answer)
    assert (out.status, out.stop_reason, len(model.requests)) == ("done", "natural", 2)
    assert "feedback_injected" not in kinds(out)


async def test_a_text_is_said_to_the_model_after_the_results():
    model = scripted(call("add", a=1, b=1), "ok")
    out = await looped(model, lambda turn: "Now sum up." if turn.has_tool_calls else None)
    assert said(model.requests[1]) == ["go", "2", "Now sum up."]
    assert model.requests[1].messages[-1].kind == "post_turn"
    assert out.status == "done"


async def test_true_stops_the_run_after_the_turn():
    model = scripted(call("add", a=1, b=1), "never")
    out = await looped(model, lambda turn: True)
    assert (out.status, out.stop_reason, out.llm.iterations) == ("done", "post_turn_stop", 1)
    assert out.tools.successful == ["add"]


async def test_a_stop_has_a_reason_and_its_message_lands_in_the_transcript():
    model = scripted(call("add", a=1, b=1), "never")
    answer = {"stop": True, "stop_reason": "enough", "message": "That was it."}
    out = await looped(model, lambda turn: answer)
    assert (out.status, out.stop_reason, len(model.requests)) == ("done", "enough", 1)
    assert out.all_messages[-1].text == "That was it."


async def test_a_stop_skips_the_gates():
    def refuse(*_: Any) -> str:
        raise AssertionError("nobody asks")

    model = scripted("finished")
    out = await looped(model, lambda turn: {"stop": True}, verify_completion=refuse)
    assert (out.status, out.stop_reason) == ("done", "post_turn_stop")


async def test_a_reason_without_a_stop_means_nothing():
    out = await looped(scripted("ok"), lambda turn: {"stop_reason": "x"})
    assert out.stop_reason == "natural"


async def test_it_may_be_async():
    async def callback(turn: Any) -> Any:
        await asyncio.sleep(0)
        return {"stop": True, "stop_reason": "async"}

    assert (await looped(scripted("x"), callback)).stop_reason == "async"


@pytest.mark.parametrize(
    "answer", ["More, please.", {"message": "More."}, {"llm_options": {"seed": 1}}]
)
async def test_a_natural_end_outranks_a_message_and_options(answer: Any):
    model = scripted(call("add", a=1, b=1), "All done.", "never")
    out = await looped(model, lambda turn: answer, loop_until_done=True)
    assert (out.status, out.stop_reason, out.llm.iterations) == ("done", "natural", 2)


async def test_a_veto_outranks_a_natural_end():
    answers = iter([{"veto": True, "message": "Not yet."}, None])
    model = scripted("All done.", "Now it is.")
    out = await looped(model, lambda turn: next(answers))
    assert (out.status, out.final_text, out.llm.iterations) == ("done", "Now it is.", 2)
    assert said(model.requests[1])[-1] == "Not yet."
    ends = [e for e in out.entries if type(e) is IterationEnd]
    assert (ends[0].verdict, ends[0].reason) == ("keep_going", "post_turn_callback")


async def test_a_budget_outranks_a_veto():
    out = await looped(scripted(then="again"), lambda turn: {"veto": True}, max_iterations=3)
    assert (out.status, out.llm.iterations) == ("budget_exhausted", 3)


async def test_where_a_sentinel_is_wanted_a_message_stands_for_the_nudge():
    model = scripted("hm", "It is 3. ##DONE##")
    out = await looped(model, lambda turn: "Go on.", tools=[], loop_until_done=True)
    assert said(model.requests[1]) == ["go", "Go on."] or said(model.requests[1])[-1] == "Go on."
    assert out.stop_reason == "sentinel"


async def test_llm_options_hold_for_the_rest_of_the_run():
    model = scripted(call("add", a=1, b=1), call("add", a=1, b=2), "ok")

    def callback(turn: Any) -> Any:
        return {"llm_options": {"tool_choice": "none", "seed": 7}} if turn.iteration == 0 else None

    out = await looped(model, callback, temperature=0.5)
    chosen = [
        (r.settings.tool_choice, r.settings.seed, r.settings.temperature) for r in model.requests
    ]
    assert chosen == [(None, None, 0.5), ("none", 7, 0.5), ("none", 7, 0.5)]
    assert any(type(e) is Framed and e.why == "post_turn_callback" for e in out.entries)


async def test_the_documents_example_ends():
    def finalize_after_read(turn: Any) -> Any:
        if "add" in turn.session_successful_tools:
            return {"message": "Answer now.", "llm_options": {"tool_choice": "none"}}
        return ""

    model = scripted(call("add", a=1, b=1), "It is 2.")
    out = await looped(model, finalize_after_read, loop_until_done=True)
    assert (out.status, out.final_text, out.llm.iterations) == ("done", "It is 2.", 2)


async def test_next_options_are_merged_for_the_rest_of_the_run():
    model = scripted(call("add", a=1, b=1), call("add", a=1, b=2), call("add", a=1, b=3), "never")

    def callback(turn: Any) -> Any:
        if turn.iteration == 0:
            return {"next_options": {"max_iterations": 3, "seed": 4, "_private": 1}}
        return None

    out = await looped(model, callback, temperature=0.5)
    assert (out.status, out.llm.iterations) == ("budget_exhausted", 3)
    assert [r.settings.seed for r in model.requests] == [None, 4, 4]
    assert model.requests[-1].settings.temperature == 0.5
    [memory] = [e for e in out.entries if type(e) is Remembered and e.policy == "PostTurn"]
    assert memory.value["options"] == {"max_iterations": 3, "seed": 4}


async def test_next_options_may_change_the_system_prompt_and_switch_behaviour_on():
    model = scripted(call("add", a=1, b=1), call("add", a=2, b=1), "hm", "ok")

    def callback(turn: Any) -> Any:
        if turn.iteration == 0:
            changes = {"system": "Be curt.", "rate_limit": {"max_calls": 1}}
            return {"next_options": changes}
        return None

    out = await looped(model, callback, system="Be kind.")
    assert [r.system for r in model.requests] == ["Be kind.", "Be curt.", "Be curt."]
    assert [record.outcome for record in out.tool_calls] == ["ok", "denied"]


async def test_a_profile_may_be_changed():
    model = scripted(then=call("add", a=1, b=1))
    out = await looped(
        model, lambda turn: {"next_options": {"profile": "verifier"}}, profile="researcher"
    )
    assert (out.status, out.llm.iterations) == ("budget_exhausted", 5)


async def test_a_budget_that_comes_later_is_kept():
    usage = {"input_tokens": 100, "output_tokens": 10}
    model = scripted(then=call("add", a=1, b=1), usage=usage)
    out = await looped(model, lambda turn: {"next_options": {"token_budget": 300}})
    assert (out.status, out.stop_reason) == ("budget_exhausted", "tokens")
    assert out.usage.total_tokens <= 330


@pytest.mark.parametrize("limit", [{"tokens": 100_000}, {"usd": 1.0}])
async def test_a_model_that_is_switched_under_a_budget_is_paid_from_it(limit: dict[str, Any]):
    model = scripted(call("add", a=1, b=1), "never")
    async with w.Runtime():
        w.llm_mock(text="From the other.")
        agent = w.Agent(
            model,
            tools=[add],
            budget=w.Budget(**limit),
            post_turn_callback=lambda turn: {"next_options": {"model": "mock:other"}},
        )
        out = await agent.run("go")
    assert (out.status, out.output, out.turns) == ("done", "From the other.", 2)
    assert [e.model for e in out.entries if type(e) is CallReserved] == [model.name, "other"]


async def test_an_agent_takes_its_own_names():
    model = scripted(then=call("add", a=1, b=1))
    agent = w.Agent(
        model, tools=[add], post_turn_callback=lambda turn: {"next_options": {"max_turns": 2}}
    )
    out = await agent.run("go")
    assert (out.status, out.turns) == ("budget_exhausted", 2)


async def test_changes_add_up():
    model = scripted(call("add", a=1, b=1), call("add", a=2, b=1), "ok")

    def callback(turn: Any) -> Any:
        return {"next_options": {"seed": turn.iteration} if turn.iteration else {"top_p": 0.5}}

    await looped(model, callback)
    chosen = [(r.settings.seed, r.settings.top_p) for r in model.requests]
    assert chosen == [(None, None), (None, 0.5), (1, 0.5)]


# --------------------------------------------------------------------------- what goes wrong


async def test_what_it_raises_ends_the_run_on_record():
    def callback(turn: Any) -> Any:
        raise RuntimeError("my mistake")

    model = scripted(call("add", a=1, b=1), "never")
    out = await looped(model, callback)
    assert (out.status, len(model.requests)) == ("failed", 1)
    assert "my mistake" in out.error["message"]
    assert type(out.entries[-1]) is RunEnded
    with pytest.raises(w.WindlassError, match="RuntimeError") as caught:
        out.raise_for_status()
    assert "my mistake" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (3, "a text, a bool, a dict or None"),
        (["stop"], "a text, a bool, a dict or None"),
        ({"mesage": "x"}, "'message'"),
        ({"message": 3}, "message is a text"),
        ({"stop": "no"}, "stop is True or False"),
        ({"veto": 1}, "veto is True or False"),
        ({"stop": True, "stop_reason": 3}, "stop_reason is a text"),
        ({"next_options": 3}, "next_options is a dict"),
        ({"next_options": {"max_iteration": 3}}, "'max_iterations'"),
        ({"next_options": {"max_iterations": 0}}, "max_iterations is a whole number"),
        ({"next_options": {"tools": [add]}}, "must be plain data"),
        ({"next_options": {"session_id": "x"}}, "session_id is settled"),
        ({"next_options": {"llm_transcript_dir": "x"}}, "llm_transcript_dir is settled"),
        ({"next_options": {3: 3}}, ""),
        ({"llm_options": {"temprature": 1}}, "'temperature'"),
        ({"llm_options": {"temperature": 9}}, "temperature"),
    ],
    ids=str,
)
async def test_a_wrong_answer_says_what_is_wrong_with_it(answer: Any, words: str):
    out = await looped(scripted(call("add", a=1, b=1), "never"), lambda turn: answer)
    assert out.status == "failed" and words in out.error["message"]


@pytest.mark.parametrize("value", [3, "x", [print]])
async def test_an_impossible_callback_is_refused(value: Any):
    with pytest.raises(w.ConfigError, match="post_turn_callback is a function"):
        await w.agent_loop("go", model=scripted("x"), post_turn_callback=value)


# --------------------------------------------------------------------------- and after a crash


def _changing(turn: Any) -> Any:
    if turn.iteration == 0:
        return {
            "message": "Faster.",
            "next_options": {"max_turns": 9, "system": "Be curt.", "progress_tool": True},
            "llm_options": {"seed": 3},
        }
    if turn.iteration == 2:
        return {"llm_options": {"seed": 4}, "next_options": {"rate_limit": {"max_calls": 3}}}
    return None


class Pure(w.Model):
    """Answers by how many turns it has had."""

    provider, name = "pure", "pure"

    def __init__(self) -> None:
        self.requests: list[w.Request] = []

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.requests.append(w.Request(tuple(request.messages), request.frame, request.tail))
        turn = sum(message.role == "assistant" for message in request.messages)
        usage = w.Usage(10, 5)
        if turn >= 5:
            return w.Response(w.Message("assistant", "all done"), usage)
        asked = w.ToolCall(f"c{turn}", "add", {"a": turn, "b": 1})
        return w.Response(w.Message("assistant", (asked,)), usage, "tool_use")


async def test_changed_options_survive_a_kill_at_every_entry():
    def agent(model: w.Model) -> w.Agent[Any, Any]:
        return w.Agent(
            model,
            system="Be kind.",
            tools=[add],
            post_turn_callback=_changing,
            consent=lambda asked: True,
            max_turns=4,
        )

    whole = await agent(Pure()).run("go", session_id="whole")
    assert whole.status == "done", whole.stop_reason
    store = current_store()
    entries = list(await store.read("whole"))
    wanted = [(list(r.messages), r.frame, r.tail) for r in requests_of(entries)]
    assert len(wanted) == 6 and wanted[-1][1].settings.seed == 4
    assert [tool.name for tool in wanted[-1][1].tools] == ["add", "agent_progress"]
    first = next(at for at, e in enumerate(entries) if type(e).__name__ == "IterationStart")
    for cut in range(first + 1, len(entries) - 1):  # the verdict and the end are one append
        name = f"cut-{cut}"
        await written(store, name, entries[:cut])
        out = await agent(Pure()).resume(name)
        assert out.status == "done", (cut, out.status, out.error)
        again = [(list(r.messages), r.frame, r.tail) for r in requests_of(await store.read(name))]
        assert again == wanted, f"killed after {entries[cut - 1]!r:.80}"
        await kept(out)

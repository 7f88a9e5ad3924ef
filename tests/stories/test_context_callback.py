"""A function says before each call what the model is shown; what is recorded stays."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    note,
    said,
    written,
)
from windlass.engine.environment import current_environment, current_store
from windlass.events import Framed, IterationStart, Replied
from windlass.loop.requests import requests_of
from windlass.messages import Message, Text, ToolResult
from windlass.replay.replay import recorded_runs, replay_run
from windlass.testing import call, scripted


async def looped(model: Any, callback: Any, name: str = "context_callback", **options: Any) -> Any:
    out = await w.agent_loop(
        "Add things.", "Be brief.", model=model, tools=[add, note], **{name: callback}, **options
    )
    await kept(out, model)
    return out


def three() -> Any:
    return scripted(call("add", a=1, b=2), call("note", text="three"), "done")


def hide_old_assistant_turns(ctx: Any) -> Any:
    """The example of the document."""
    kept, latest = [], None
    for message in ctx.visible_messages:
        if message.role == "assistant":
            latest = message
        else:
            kept.append(message)
    return {"messages": [*kept, latest] if latest is not None else kept}


# --------------------------------------------------------------------------- what it is given


async def test_it_is_told_everything_about_the_call():
    seen: list[Any] = []
    model = three()
    await looped(model, seen.append)
    assert [ctx.iteration for ctx in seen] == [0, 1, 2]
    first, last = seen[0], seen[-1]
    assert first.system == "Be brief." and [m.text for m in first.messages] == ["Add things."]
    assert first.latest_tool_result is None and first.latest_visible_assistant_message is None
    assert [m.role for m in last.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert last.visible_messages == last.recorded_messages == last.messages
    assert last.recent_visible_messages == last.recent_recorded_messages == last.messages
    assert last.latest_visible_user_message == last.latest_recorded_user_message == "Add things."
    assert last.latest_visible_assistant_message == last.latest_recorded_assistant_message == ""
    assert last.latest_tool_result == last.latest_recorded_tool_result == "noted three"
    assert "__getattr__" and not hasattr(last, "mesages")
    with pytest.raises(AttributeError, match="'messages'"):
        _ = last.mesages


async def test_recorded_is_also_what_has_left_the_view():
    seen: list[Any] = []
    model = scripted(then=lambda request: _many(request, 12))
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[note],
        context_callback=seen.append,
        compaction="truncate",
        compact_threshold=60,
        compact_keep_last=2,
    )
    last = seen[-1]
    assert len(last.visible_messages) < len(last.recorded_messages) == 25
    assert last.visible_messages == list(model.requests[-1].messages)
    assert last.recorded_messages[1].tool_calls and last.recorded_messages[2].role == "tool"
    assert last.recent_recorded_messages == last.recorded_messages[-10:]
    assert out.status == "done"


def _many(request: w.Request, turns: int) -> Any:
    results = [b for m in request.messages for b in m.content if isinstance(b, ToolResult)]
    done = int(results[-1].text.split()[-1]) if results else 0
    return "done" if done >= turns else call("note", text=f"step {done + 1}")


async def test_the_lists_are_its_own():
    def callback(ctx: Any) -> None:
        ctx.messages.clear()
        ctx.recorded_messages.clear()

    model = three()
    out = await looped(model, callback)
    assert len(model.requests[-1].messages) == 5 and len(out.all_messages) == 6


# --------------------------------------------------------------------------- what it may answer


async def test_none_changes_nothing():
    model = three()
    out = await looped(model, lambda ctx: None)
    assert all(e.rewritten is None for e in out.entries if type(e) is Replied)


@pytest.mark.parametrize("name", ["context_callback", "context_filter"])
async def test_a_list_is_shown_in_place_of_the_view_for_that_call(name: str):
    model = three()
    out = await looped(model, lambda ctx: ctx.messages[:1] if ctx.iteration == 2 else None, name)
    assert [len(r.messages) for r in model.requests] == [1, 3, 1]
    assert len(out.all_messages) == 6, "what is recorded is kept"


async def test_an_async_function_answers_dicts():
    async def callback(ctx: Any) -> Any:
        return [
            {"role": "user", "content": "Only this."},
            {"role": "user", "content": [{"type": "text", "text": "And this."}]},
        ]

    model = scripted("ok")
    out = await looped(model, callback)
    assert said(model.requests[0]) == ["Only this.", "And this."]
    assert out.all_messages[0].text == "Add things."


async def test_the_system_is_another_for_that_call():
    model = three()
    out = await looped(model, lambda ctx: {"system": "Shout."} if ctx.iteration == 1 else {})
    assert [r.system for r in model.requests] == ["Be brief.", "Shout.", "Be brief."]
    assert [len(r.messages) for r in model.requests] == [1, 3, 5]
    assert len([e for e in out.entries if type(e) is Framed]) == 2


async def test_an_empty_system_is_none_at_all():
    model = three()
    await looped(model, lambda ctx: {"system": ""})
    assert [r.system for r in model.requests] == [None] * 3


async def test_the_same_system_every_turn_is_put_on_record_once():
    model = three()
    out = await looped(model, lambda ctx: {"system": "Shout."})
    frames = [r.frame for r in model.requests]
    assert frames[0] is frames[1] is frames[2]
    assert len([e for e in out.entries if type(e) is Framed]) == 2  # the plan's, and this


async def test_both_at_once():
    model = three()
    await looped(model, lambda ctx: {"messages": ctx.messages[:1], "system": "Shout."})
    assert [(len(r.messages), r.system) for r in model.requests] == [(1, "Shout.")] * 3


async def test_whoever_lets_everything_stand_costs_nothing():
    model = three()
    out = await looped(model, lambda ctx: {"messages": ctx.visible_messages})
    assert all(e.rewritten is None for e in out.entries if type(e) is Replied)


@pytest.mark.parametrize(
    "options",
    [
        {"context_callback": lambda ctx: _hushed(ctx.messages)},
        {"transcript_projection": {"policy": "custom", "project": lambda m, c: _hushed(m)}},
        {"message_decorator": lambda m, c: _hushed([m])[0]},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_what_is_hidden_is_hidden_from_the_last_word_too(options: dict[str, Any]):
    model = scripted(call("note", text="hush"), "As far as I know.")
    out = await w.agent_loop(
        "go", model=model, tools=[note], max_iterations=1, closing_answer=True, **options
    )
    assert out.status == "budget_exhausted" and out.final_text == "As far as I know."
    assert "hush" not in "".join(said(model.requests[-1])) and len(model.requests) == 2
    await kept(out, model)


def _hushed(messages: list[Message]) -> list[Message]:
    """Without what the tool said."""
    return [
        m
        if m.role != "tool"
        else Message("tool", tuple([ToolResult(b.id, "***", name=b.name) for b in m.content]))  # type: ignore[union-attr]
        for m in messages
    ]


# --------------------------------------------------------------------------- calls keep their results


async def test_the_documents_example_keeps_results_beside_their_calls():
    model = three()
    await looped(model, hide_old_assistant_turns)
    last = model.requests[-1].messages
    assert [m.role for m in last] == ["user", "user", "assistant", "tool"]
    assert last[1].text == "[the result of add]\n3" and last[3].content[0].text == "noted three"


async def test_a_result_that_was_hidden_comes_back_with_its_call():
    model = three()
    await looped(model, lambda ctx: [m for m in ctx.messages if m.role != "tool"])
    assert [m.role for m in model.requests[-1].messages] == ["user", "assistant", "tool"] + [
        "assistant",
        "tool",
    ]
    assert said(model.requests[-1]) == ["Add things.", "3", "noted three"]


async def test_a_request_does_not_end_in_the_models_own_words():
    model = scripted("half", "done")
    callback = lambda ctx: ctx.messages[:2] if ctx.iteration else None  # noqa: E731
    out = await w.agent_loop(
        "go", model=model, context_callback=callback, loop_until_done=True, max_iterations=2
    )
    assert [m.role for m in model.requests[1].messages] == ["user", "assistant", "user"]
    await kept(out, model)


async def test_the_same_call_twice_is_one():
    model = three()
    await looped(model, lambda ctx: [*ctx.messages, *ctx.messages[1:]])
    ids = [c.id for m in model.requests[-1].messages for c in m.tool_calls]
    assert len(ids) == len(set(ids)) == 2


async def test_a_call_that_was_made_up_has_a_result():
    made = Message("assistant", (w.ToolCall("mine", "add", {"a": 1, "b": 1}),))
    model = scripted("ok")
    await looped(model, lambda ctx: [*ctx.messages, made])
    assert model.requests[0].messages[-1].content[0].id == "mine"


# --------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("text", "a list of messages, a dict with messages and system, or None"),
        (3, "a list of messages"),
        ([], "left no message"),
        ({"messages": []}, "left no message"),
        ([{"role": "user", "content": " "}], "left no message"),
        ([{"role": "system", "content": "Be kind."}], "left no message"),
        ({"messages": "x"}, "a list of messages"),
        ({"mesages": []}, "'messages'"),
        ({"system": 3}, "system is a text"),
        ({"system": "\ud800"}, "plain data"),
        ([{"role": "usr", "content": "x"}], "'user'"),
        ([{"content": "x"}], "one of system, user, assistant, tool"),
        ([{"role": "user", "contents": "x"}], "'content'"),
        ([{"role": "user", "content": 3}], "text or blocks"),
        ([{"role": "user", "content": {"type": "txt"}}], "text or blocks"),
        (["x"], "a Message or a dict with role and content"),
        ([{"role": "user", "content": [w.ToolCall("a", "add", {})]}], "holds a tool call"),
        ([{"role": "assistant", "content": [ToolResult("a", "x")]}], "holds a tool result"),
        ([Message("user", (Text("\ud800"),))], "plain data"),
    ],
    ids=str,
)
async def test_a_wrong_answer_says_what_is_wrong_with_it(answer: Any, words: str):
    out = await w.agent_loop("go", model=scripted("never"), context_callback=lambda ctx: answer)
    assert out.status == "failed" and words in out.error["message"]
    assert "context_callback" in out.error["message"]


async def test_what_it_raises_ends_the_run_on_record():
    def callback(ctx: Any) -> Any:
        raise RuntimeError("my mistake")

    model = scripted("never")
    out = await w.agent_loop("go", model=model, context_callback=callback)
    assert (out.status, len(model.requests)) == ("failed", 0)
    assert "my mistake" in out.error["message"]


async def test_giving_both_names_is_refused():
    with pytest.raises(w.ConfigError, match="are the same: give one"):
        await w.agent_loop("go", model=scripted("x"), context_callback=print, context_filter=print)


@pytest.mark.parametrize("name", ["context_callback", "context_filter"])
async def test_what_is_no_function_is_refused(name: str):
    with pytest.raises(w.ConfigError, match=f"{name} is a function"):
        await w.agent_loop("go", model=scripted("x"), **{name: "x"})


# --------------------------------------------------------------------------- on the record


async def test_what_was_sent_is_on_record_as_what_is_new_in_it():
    """A thousand turns do not write the whole conversation a thousand times."""
    hidden = Message("user", (Text("Remember: be kind."),))
    model = scripted(then=lambda request: _many(request, 30))
    out = await looped(model, lambda ctx: [hidden, *ctx.messages], max_iterations=40)
    replies = [e for e in out.entries if type(e) is Replied]
    assert len(replies) == 31 and all(e.rewritten is not None for e in replies)
    assert [len(e.rewritten or ()) for e in replies[1:]] == [2] * 30
    assert [e.same for e in replies] == [0, *range(2, 62, 2)]


async def test_what_is_made_anew_every_turn_and_is_the_same_is_written_once():
    model = scripted(then=lambda request: _many(request, 20))
    out = await looped(model, hide_old_assistant_turns, max_iterations=40)
    replies = [e for e in out.entries if type(e) is Replied]
    assert max(len(e.rewritten or ()) for e in replies) == 3 and replies[-1].same == 19


class Pure(w.Model):
    """Answers by how many turns it has had."""

    provider, name = "pure", "pure"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        results = [m for m in request.messages if m.role == "tool"]
        turn = int(results[-1].content[0].text) if results else 0
        if turn >= 5:
            return w.Response(w.Message("assistant", "all done"), w.Usage(10, 5))
        asked = w.ToolCall(f"c{turn}", "add", {"a": turn, "b": 1})
        return w.Response(w.Message("assistant", (asked,)), w.Usage(10, 5), "tool_use")


async def test_a_run_killed_at_every_entry_sends_the_same_and_replay_asks_nobody():
    def agent() -> w.Agent[Any, Any]:
        return w.Agent(
            Pure(),
            system="Be kind.",
            tools=[add],
            context_callback=lambda ctx: {
                "messages": ctx.messages[:1] + ctx.messages[-2:] if ctx.iteration > 1 else None,
                "system": "Turn " + "x" * ctx.iteration,
            },
        )

    whole = await agent().run("go", session_id="whole")
    assert whole.status == "done", whole.stop_reason
    store = current_store()
    entries = list(await store.read("whole"))
    wanted = [(list(r.messages), r.frame, r.tail) for r in requests_of(entries)]
    assert [len(m) for m, _, _ in wanted] == [1, 3, 3, 3, 3, 3]
    first = next(at for at, e in enumerate(entries) if type(e) is IterationStart)
    for cut in range(first + 1, len(entries) - 1):
        name = f"cut-{cut}"
        await written(store, name, entries[:cut])
        out = await agent().resume(name)
        assert out.status == "done", (cut, out.status, out.error)
        again = [(list(r.messages), r.frame, r.tail) for r in requests_of(await store.read(name))]
        assert again == wanted, f"killed after {entries[cut - 1]!r:.80}"
        await kept(out)


@pytest.mark.parametrize(
    "options",
    [
        {"context_callback": hide_old_assistant_turns},
        {"message_decorator": lambda m, c: {"role": m.role, "content": [*m.content, Text("!")]}},
        {"timestamp_messages": True},
        {"transcript_projection": {"policy": "custom", "project": lambda m, c: m[-2:]}},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_a_replay_sends_the_same_and_calls_nobody(options: dict[str, Any]):
    options = {"context_callback": None, **options}
    out = await w.agent_loop("go", model=three(), tools=[add, note], **options)
    entries = await current_store().read(out.session_id)
    (run,) = recorded_runs(entries)
    done = await replay_run(out.session_id, entries, run, current_environment())
    assert done.difference is None and (done.requests, done.status) == (3, "done")

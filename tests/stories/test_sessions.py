"""Sessions: going on with one, cutting and forking it, and who may write to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    note,
    said,
    written,
)
from windlass.events import IterationStart, ReplyFailed, ToolIntended
from windlass.messages import Opaque, Origin
from windlass.testing import call, run_virtual, scripted


async def test_a_session_goes_on_where_it_ended():
    await w.Agent(scripted("Hello Ann.")).run("I am Ann.", session_id="s")
    model = scripted("You are Ann.")
    out = await w.Agent(model).run("Who am I?", session_id="s")
    assert said(model.requests[0]) == ["I am Ann.", "Hello Ann.", "Who am I?"]
    assert [m.text for m in out.messages] == ["You are Ann."]
    assert len(out.all_messages) == 4
    await kept(out)


async def test_agent_loop_and_agent_share_sessions():
    await w.agent_loop("one", model=scripted("1"), session_id="s")
    model = scripted("2")
    out = await w.agent_loop("two", model=model, session_id="s")
    assert said(model.requests[0]) == ["one", "1", "two"]
    assert out.session_id == "s"


async def test_without_a_name_every_run_is_a_session_of_its_own():
    agent = w.Agent(scripted(then="x"))
    one, two = await agent.run("a"), await agent.run("b")
    assert one.session_id != two.session_id
    assert [m.text for m in two.all_messages] == ["b", "x"]


async def test_a_session_survives_its_process(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/s.db"
    async with w.Runtime(store=url, environ={}):
        await w.Agent(scripted("Hello Ann.")).run("I am Ann.", session_id="s")
    async with w.Runtime(store=url, environ={}):
        model = scripted("Ann.")
        out = await w.Agent(model).run("Who am I?", session_id="s")
        assert said(model.requests[0]) == ["I am Ann.", "Hello Ann.", "Who am I?"]
        await kept(out)


async def test_a_store_may_be_named_for_one_run(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/s.db"
    async with w.Runtime(environ={}, store="memory:"):
        await w.agent_loop("go", model=scripted("x"), session_id="a", store=url)
        await w.Agent(scripted("x"), store=url).run("go", session_id="b")
        await w.Agent(scripted("x")).run("go", session_id="c", store=url)
        assert await w.agent_session_list() == []
    async with w.Runtime(store=url, environ={}):
        assert {info.id for info in await w.agent_session_list()} == {"a", "b", "c"}


async def test_store_none_is_the_runtimes_own(tmp_path: Path):
    async with w.Runtime(store=f"sqlite:///{tmp_path}/s.db", environ={}):
        await w.agent_loop("go", model=scripted("x"), session_id="a", store=None)
        assert [info.id for info in await w.agent_session_list()] == ["a"]


# --------------------------------------------------------------------------- open calls


async def test_a_new_prompt_answers_open_calls_first():
    host = w.Tool("ask", "Ask.", {})
    await w.Agent(scripted([call("add", a=1, b=1), call("ask")]), tools=[add, host]).run(
        "go", session_id="s"
    )
    model = scripted("fine")
    out = await w.Agent(model, tools=[add, host]).run(
        "never mind", session_id="s", on_pending="discard"
    )
    messages = model.requests[0].messages
    assert [m.role for m in messages] == ["user", "assistant", "tool", "user"]
    assert [block.outcome for block in messages[2].content] == ["ok", "not_run"]
    await kept(out)


async def test_a_reply_that_paused_is_not_answered_for_after_a_crash_either():
    searching = Opaque(Origin("scripted", "m"), {"type": "server_tool_use"})
    paused = w.Response(w.Message("assistant", (searching,)), stop_reason="pause_turn")

    whole = scripted(paused, "Found.")
    out = await w.Agent(whole).run("Look.")
    assert [m.role for m in whole.requests[1].messages] == ["user", "assistant"]
    cut = max(at for at, e in enumerate(out.entries) if type(e) is IterationStart) + 1
    async with w.Runtime(store="memory:", environ={}) as runtime:
        await written(runtime.store, "s", out.entries[:cut])
        again = scripted("Found.")
        await w.Agent(again).resume("s")
        assert again.requests[0].messages == whole.requests[1].messages


async def test_a_call_of_a_killed_run_is_answered_with_its_outcome_unknown():
    first = await w.agent_loop("go", model=scripted(call("note", text="x"), "ok"), tools=[note])
    cut = next(i for i, e in enumerate(first.entries) if isinstance(e, ToolIntended)) + 1
    async with w.Runtime(store="memory:", environ={}) as runtime:
        await written(runtime.store, "s", first.entries[:cut])
        model = scripted("fine")
        out = await w.Agent(model, tools=[note]).run("are you there?", session_id="s")
        [answer] = [m for m in model.requests[0].messages if m.role == "tool"]
        assert answer.content[0].outcome == "interrupted"
        assert "unknown" in answer.content[0].text
        assert out.status == "done"


async def test_words_held_for_after_the_answer_are_heard():
    class Speaks(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Suspend:
            run.say("by the way", "aside")
            return w.Suspend("later")

    await w.Agent(scripted(call("note", text="x")), tools=[note], policies=[Speaks()]).run(
        "go", session_id="s"
    )
    model = scripted("ok")
    out = await w.Agent(model, tools=[note]).run("next", session_id="s", on_pending="discard")
    assert said(model.requests[0])[-2:] == ["by the way", "next"]
    await kept(out)


# --------------------------------------------------------------------------- one writer


def test_two_runs_at_once_on_one_session_are_refused():
    async def story() -> None:
        agent = w.Agent(scripted(then="x", delay=10))
        first = asyncio.ensure_future(agent.run("one", session_id="s"))
        await asyncio.sleep(1)
        with pytest.raises(w.Locked, match="'s'.*run is under way.*another session_id"):
            await agent.run("two", session_id="s")
        with pytest.raises(w.Locked, match="'s'"):
            await agent.resume("s")
        assert (await first).status == "done"
        assert (await agent.run("three", session_id="s")).status == "done"

    run_virtual(story())


async def test_a_run_that_could_not_begin_leaves_the_session_free():
    await w.Agent(scripted("x")).run("go", session_id="s")
    with pytest.raises(w.ConfigError):
        await w.Agent(scripted("x")).run([{"role": "nobody", "content": "x"}], session_id="s")
    assert (await w.Agent(scripted("x")).run("again", session_id="s")).status == "done"


async def test_a_failed_model_call_leaves_the_session_usable():
    out = await w.Agent(scripted(then=w.ServerError("oops"))).run("go", session_id="s")
    assert (out.status, out.stop_reason) == ("provider_error", "server_error")
    assert any(isinstance(e, ReplyFailed) for e in out.entries)
    model = scripted("fine")
    out = await w.Agent(model).run("again", session_id="s")
    assert said(model.requests[0]) == ["go", "again"]
    await kept(out, None)


# --------------------------------------------------------------------------- the functions


async def test_open_is_idempotent_and_a_session_can_be_read():
    first = await w.agent_session_open("s")
    assert (first.id, first.messages) == ("s", [])
    await w.Agent(scripted("hi")).run("hello", session_id="s")
    again = await w.agent_session_open("s")
    assert [m.text for m in again.messages] == ["hello", "hi"]
    assert [m.text for m in (await w.agent_session_read("s")).messages] == ["hello", "hi"]


async def test_reset_empties_the_view_and_keeps_the_record():
    await w.Agent(scripted("hi")).run("hello", session_id="s")
    await w.agent_session_reset("s")
    session = await w.agent_session_read("s")
    assert session.messages == [] and len(session.entries) > 5
    model = scripted("who?")
    out = await w.Agent(model).run("it is me", session_id="s")
    assert said(model.requests[0]) == ["it is me"]
    await kept(out)


async def test_trim_keeps_whole_rounds():
    agent = w.Agent(scripted("a", call("add", a=1, b=1), "b"), tools=[add])
    await agent.run("one", session_id="s")
    await agent.run("two", session_id="s")
    assert await w.agent_session_trim("s", 2) == 1, "a result may not lose its call"
    model = scripted("c")
    out = await w.Agent(model, tools=[add]).run("three", session_id="s")
    assert said(model.requests[0]) == ["b", "three"]
    await kept(out)


async def test_a_fork_goes_its_own_way():
    await w.Agent(scripted("hi")).run("hello", session_id="s")
    fork = await w.agent_session_fork("s", "f")
    assert (fork.parent_id, fork.root_id) == ("s", "s")
    assert (await w.agent_session_read("s")).child_ids == ("f",)
    model = scripted("left")
    out = await w.Agent(model).run("go left", session_id="f")
    assert said(model.requests[0]) == ["hello", "hi", "go left"]
    assert len((await w.agent_session_read("s")).messages) == 2
    await kept(out)


async def test_a_fork_may_begin_earlier():
    await w.Agent(scripted("1", "2")).run("one", session_id="s")
    await w.Agent(scripted("2")).run("two", session_id="s")
    fork = await w.agent_session_fork_at("s", 2, "f")
    assert [m.text for m in fork.messages] == ["one", "1"]
    assert fork.branch_at == 2
    model = scripted("other")
    out = await w.Agent(model).run("instead", session_id="f")
    assert said(model.requests[0]) == ["one", "1", "instead"]
    await kept(out)


async def test_close_removes_it():
    await w.agent_session_open("s")
    assert await w.agent_session_close("s") is True
    assert await w.agent_session_close("s") is False
    with pytest.raises(w.NoSuchSession):
        await w.agent_session_read("s")


async def test_the_list_shows_the_latest_first():
    await w.agent_session_open("a")
    await w.Agent(scripted("x")).run("b", session_id="b")
    infos = await w.agent_session_list()
    assert {info.id for info in infos} == {"a", "b"}
    assert next(info.status for info in infos if info.id == "b") == "done"


# --------------------------------------------------------------------------- transcripts


async def test_a_transcript_is_the_session_as_plain_data():
    model = scripted(["Adding.", call("add", a=1, b=2)], "3")
    out = await w.agent_loop("1+2?", model=model, tools=[add], session_id="s")
    transcript = out.transcript
    assert set(transcript) == {
        "id",
        "messages",
        "events",
        "summary",
        "metadata",
        "scratchpad",
        "scratchpad_version",
    }
    assert transcript["id"] == "s"
    assert [m["role"] for m in transcript["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    kinds = [event["kind"] for event in w.transcript_events(transcript)]
    for kind in ("message", "tool_intent", "tool_execution", "tool_result", "provider_payload"):
        assert kind in kinds
    visible = w.transcript_render_visible(transcript)
    assert "1+2?" in visible and "Adding." in visible and "tool_intent" not in visible
    assert "tool_intent" in w.transcript_render_full(transcript)


async def test_a_forked_transcript_names_its_parent():
    await w.Agent(scripted("hi")).run("hello", session_id="s")
    fork = await w.agent_session_fork("s", "f")
    assert fork.transcript["metadata"]["parent_transcript_id"] == "s"
    assert "transcript_fork" in [e["kind"] for e in fork.transcript["events"]]

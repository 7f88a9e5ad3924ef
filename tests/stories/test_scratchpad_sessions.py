"""The scratchpad is the session's: it outlives runs, is edited from outside, and survives what kills them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept, said, written
from tests.stories.scratchpad_helpers import (
    HOUSE,
    LIE,
    TASK,
    actions,
    asked,
    busy,
    fact,
    note,
    plain,
    ran,
    recited,
    reorganisations,
    reorganizes,
    steps,
    told,
    written_anew,
)
from windlass.engine.environment import current_environment
from windlass.events import (
    AgentScratchpad,
    InboxTaken,
    Remembered,
    Replied,
    ReplyFailed,
    SessionOpened,
)
from windlass.messages import ToolResult
from windlass.models.base import Request
from windlass.replay.replay import recorded_runs, replay_run
from windlass.testing import ScriptedModel, call, scripted
from windlass.usage import Usage

# --------------------------------------------------------------------------- the session's


async def test_the_pad_outlives_the_run_and_forks_inherit_it():
    async with current_environment():
        await w.agent_loop(TASK, model=busy(4), tools=[note], scratchpad=True, session_id="s")
        pad = await w.agent_session_scratchpad("s")
        assert pad is not None and pad["goals"][0]["text"] == "a house"
        session = await w.agent_session_read("s")
        assert (session.scratchpad, session.scratchpad_version) == (pad, 2)
        assert session.transcript["scratchpad"] == pad
        model = scripted("ok")
        again = await w.agent_loop("Go on.", model=model, scratchpad=True, session_id="s")
        assert "a house" in (recited(model.requests[0]) or "") and not told(again)[2:]
        fork = await w.agent_session_fork("s", "f")
        assert (fork.scratchpad, fork.scratchpad_version) == (pad, 2)
        early = await w.agent_session_fork_at("s", 3, "g")
        assert early.scratchpad is not None and early.scratchpad_version == 1
        await w.agent_session_set_scratchpad("f", {"goals": ["a hut"]})
        assert await w.agent_session_scratchpad("s") == pad, "a fork's pad is its own"


async def test_a_session_at_rest_is_edited_at_once():
    async with current_environment():
        await w.agent_session_open("s")
        assert await w.agent_session_scratchpad("s") is None
        assert await w.agent_session_set_scratchpad("s", {"goals": ["a boat"]}) == 1
        session = await w.agent_session_read("s")
        assert [type(e) for e in session.entries[1:]] == [InboxTaken, Remembered, AgentScratchpad]
        model = scripted("ok")
        out = await w.agent_loop(TASK, model=model, scratchpad=True, session_id="s")
        words = recited(model.requests[0]) or ""
        assert "- a boat" in words and TASK not in words, "what was set is not begun anew"
        assert await w.agent_session_clear_scratchpad("s") == 2
        assert await w.agent_session_scratchpad("s") is None
        assert (await w.agent_session_read("s")).transcript["scratchpad"] is None
        out = await w.agent_loop(TASK, model=scripted("ok"), scratchpad=True, session_id="s")
        assert out.transcript["scratchpad_version"] == 3
        assert out.transcript["scratchpad"]["goals"][0]["text"] == TASK
        assert out.transcript["metadata"]["agent_scratchpad"]["action"] == "init"


async def test_a_run_at_work_takes_an_edit_before_its_next_request():
    versions: list[Any] = []

    @w.tool
    async def edit(ctx: w.ToolContext[None], text: str) -> str:
        """Edit the pad from outside."""
        version = await w.agent_session_set_scratchpad(ctx.session_id, {"goals": [text]})
        pad = await w.agent_session_scratchpad(ctx.session_id)
        session = await w.agent_session_read(ctx.session_id)
        versions.append((version, pad and pad["goals"][0]["text"], session.scratchpad_version))
        return "done"

    async with current_environment():
        model = scripted(call("edit", text="a barn"), call("edit", text="a mill"), "the end")
        out = await w.agent_loop(TASK, model=model, tools=[edit], scratchpad=True)
        assert versions == [(2, "a barn", 2), (3, "a mill", 3)], "who writes reads it at once"
        assert TASK in (recited(model.requests[0]) or "")
        assert "- a barn" in (recited(model.requests[1]) or "")
        assert "- a mill" in (recited(model.requests[2]) or "")
        assert actions(out) == [("init", 1), ("set", 2), ("set", 3)]
        await kept(out, model)


async def test_an_edit_of_the_last_turn_is_on_record_with_the_run():
    async with current_environment() as runtime:

        async def reply(request: Request) -> str:
            await w.agent_session_set_scratchpad("s", {"goals": ["a mill"]})
            return "the end"

        out = await w.agent_loop(TASK, model=scripted(reply), scratchpad=True, session_id="s")
        assert out.transcript["scratchpad"]["goals"] == [{"text": "a mill"}]
        assert not await runtime.store.inbox("s")
        await kept(out)


async def test_a_run_without_a_scratchpad_leaves_the_edit_for_the_next():
    async with current_environment():

        async def reply(request: Request) -> str:
            await w.agent_session_set_scratchpad("s", {"goals": ["a mill"]})
            return "the end"

        await w.agent_loop(TASK, model=scripted(reply), session_id="s")
        assert (await w.agent_session_read("s")).scratchpad_version == 1
        model = scripted("ok")
        await w.agent_loop(TASK, model=model, scratchpad=True, session_id="s")
        assert "- a mill" in (recited(model.requests[0]) or "")


async def test_cleared_in_a_run_it_stays_away_until_it_is_written_anew():
    @w.tool
    async def forget(ctx: w.ToolContext[None]) -> str:
        """Clear the pad."""
        return str(await w.agent_session_clear_scratchpad(ctx.session_id))

    def reply(request: Request) -> Any:
        if reorganizes(request):
            return written_anew(facts=[fact("cleared", "turn:1")])
        results = sum(m.role == "tool" for m in request.messages)
        return (
            ["", call("forget"), call("note", text="step 1"), call("note", text="step 2")][
                results + 1
            ]
            if results < 3
            else "the end"
        )

    model = scripted(then=reply)
    out = await w.agent_loop(TASK, model=model, tools=[note, forget], scratchpad=True)
    assert [recited(r) is None for r in asked(model)] == [False, True, True, False]
    assert actions(out) == [("init", 1), ("clear", 2), ("reorganize", 3)]
    await kept(out, model)


async def test_an_edit_of_an_old_version_is_a_conflict():
    async with current_environment():
        await w.agent_session_open("s")
        assert (
            await w.agent_session_set_scratchpad("s", {"goals": ["a"]}, {"expected_version": 0})
            == 1
        )
        with pytest.raises(w.Conflict, match="version 1, not 0: read it again"):
            await w.agent_session_set_scratchpad("s", {"goals": ["b"]}, {"expected_version": 0})
        with pytest.raises(w.Conflict):
            await w.agent_session_clear_scratchpad("s", {"expected_version": 7})
        assert (
            await w.agent_session_set_scratchpad("s", {"goals": ["c"]}, {"expected_version": 1})
            == 2
        )
        pad = await w.agent_session_scratchpad("s")
        assert pad is not None and pad["goals"] == [{"text": "c"}]


async def test_an_edit_that_comes_too_late_is_refused_on_the_record():
    """A run changes the pad between the post and the taking."""
    async with current_environment() as runtime:

        async def reply(request: Request) -> Any:
            if reorganizes(request):
                edit = {"goals": ["late"]}
                await w.agent_session_set_scratchpad("s", edit, {"expected_version": 1})
                return HOUSE
            return "the end" if steps(request) > 3 else call("note", text="step")

        out = await w.agent_loop(
            TASK, model=scripted(then=reply), tools=[note], scratchpad=True, session_id="s"
        )
        assert actions(out) == [("init", 1), ("reorganize", 2), ("refused", 2)], told(out)
        entry = next(e for e in out.entries if type(e) is InboxTaken)
        assert entry.payload["pad"]["goals"] == [{"text": "late"}], "what was meant is not lost"
        await runtime.store.post("s", "memory", {"policy": "scratchpad", "pad": {"gaols": 1}})
        await runtime.store.post("s", "memory", {"policy": "another"})
        model = scripted("ok")
        out = await w.agent_loop("go", model=model, scratchpad=True, session_id="s")
        assert out.status == "done" and actions(out)[-1] == ("refused", 2)
        assert "goals" in (told(out)[-1].reason or "")


async def test_two_edits_at_once_do_not_lose_one_another():
    async with current_environment():
        await w.agent_session_open("s")

        async def one(name: str) -> str:
            try:
                await w.agent_session_set_scratchpad(
                    "s", {"goals": [name]}, {"expected_version": 0}
                )
            except w.Conflict:
                return ""
            return name

        won = [name for name in await asyncio.gather(*map(one, "abcde")) if name]
        pad = await w.agent_session_scratchpad("s")
        assert len(won) == 1 and pad is not None and pad["goals"] == [{"text": won[0]}]
        await asyncio.gather(
            *(w.agent_session_set_scratchpad("s", {"goals": [name]}) for name in "abcde")
        )
        assert (await w.agent_session_read("s")).scratchpad_version == 6


async def test_two_runs_at_once_have_a_pad_each():
    async with current_environment():
        agent = w.Agent(busy(4), tools=[note], scratchpad=True)
        outs = await asyncio.gather(agent.run("a roof"), agent.run("a wall"))
    for out, task in zip(outs, ("a roof", "a wall"), strict=True):
        own = next(e for e in out.entries if type(e) is Remembered and e.policy == "scratchpad")
        assert own.value["pad"]["goals"][0]["text"] == task


BAD_PADS: list[tuple[Any, str]] = [
    (3, "a dict with goals"),
    ({"gaols": []}, "goals"),
    ({"goals": "x"}, "goals is a list"),
    ({"goals": [3]}, r"goals\[0\]"),
    ({"goals": [{"text": ""}]}, r"goals\[0\] has no text"),
    ({"goals": [{"text": "x", "ref": "y"}]}, "no key 'ref'"),
    ({"facts": ["x"]}, "a fact cites a ref"),
    ({"facts": [fact("x", "y")]}, "no known ref"),
    ({"goals": [fact("x", "y")]}, "'y'"),
    ({"schema": "v9"}, "schema"),
    ({"facts": [fact("x", "ticket:12")], "refs": [{"id": "ticket:1"}]}, "did you mean 'ticket:1'"),
    ({"refs": [{"kind": "x"}]}, r"refs\[0\] has no id"),
    ({"refs": ["a", "a"]}, "twice"),
    ({"refs": [{"id": 3}]}, "a text"),
    ({"refs": [{"id": "a", "labl": "x"}]}, "label"),
    ({"goals": ["x" * 17_000]}, "16,384 are the most"),
]


@pytest.mark.parametrize(("pad", "words"), BAD_PADS)
async def test_a_pad_that_cannot_be_is_refused_before_anything_happens(pad: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop(TASK, model=model, scratchpad={"initial": pad})
    assert not model.requests
    async with current_environment() as runtime:
        await w.agent_session_open("s")
        with pytest.raises(w.ConfigError, match=words):
            await w.agent_session_set_scratchpad("s", pad)
        assert not await runtime.store.inbox("s")


async def test_sessions_and_options_that_are_none_are_refused():
    async with current_environment():
        for use in (
            w.agent_session_scratchpad("s"),
            w.agent_session_clear_scratchpad("s"),
            w.agent_session_set_scratchpad("s", {}),
        ):
            with pytest.raises(w.NoSuchSession):
                await use
        await w.agent_session_open("s")
        for options, words in (
            ({"expected": 1}, "expected_version"),
            ({"expected_version": "1"}, "whole"),
            (3, "a dict"),
        ):
            with pytest.raises(w.ConfigError, match=words):
                await w.agent_session_clear_scratchpad("s", options)  # pyright: ignore[reportArgumentType]


# --------------------------------------------------------------------------- with everything else


async def test_no_secret_gets_into_the_pad():
    secret = "hunter2hunter2"
    hidden = "".join(f"\\u{ord(letter):04x}" for letter in secret)
    pad = written_anew(facts=[fact("SECRET", "user:initial")]).replace("SECRET", hidden)
    async with w.Runtime(store="memory:", environ={}, secrets=(secret,)) as runtime:
        model = busy(4, pad)
        out = await w.agent_loop(
            f"{TASK} {secret}",
            model=model,
            tools=[note],
            session_id="s",
            scratchpad={"initial": {"goals": [f"use {secret}", fact("x", "user:initial")]}},
        )
        await w.agent_session_set_scratchpad("s", {"goals": [f"and {secret}"]})
        assert out.status == "done" and actions(out)[-1] == ("reorganize", 2)
        rows = await runtime.store.rows("s")
        assert secret not in str([row.payload for row in rows]) + str(out.transcript)
        assert all(secret not in text for r in model.requests for text in said(r))
        assert "[redacted]" in str(await w.agent_session_scratchpad("s"))


async def test_it_goes_with_compaction():
    model = busy(30, usage=Usage(10, 5))

    def reply(request: Request) -> Any:
        if reorganizes(request):
            return HOUSE
        if not request.tools and "Write the notes." in request.messages[-1].text:
            return "NOTES"
        last = [b for m in request.messages for b in m.content if isinstance(b, ToolResult)]
        done = int(last[-1].text.split()[-1]) + 1 if last else 1
        return "the end" if done > 30 else call("note", text=f"step {done}")

    model = scripted(then=reply)
    out = await ran(model, {"reorganize_every": 10}, compact_threshold=60)
    assert sum(type(e).__name__ == "Compacted" for e in out.entries) >= 2
    numbers = [e.version for e in told(out)]
    assert numbers[0] == 1
    assert all(recited(r) for r in model.requests if r.tools and not reorganizes(r))


async def test_what_it_cites_stays_visible_where_the_rest_is_collected():
    pages = "lorem ipsum " * 200

    @w.tool(side_effect_level="none")
    async def page(n: int) -> str:
        """Read a page."""
        return f"page {n}: {pages}"

    def reply(request: Request) -> Any:
        if reorganizes(request):
            return written_anew(facts=[fact("the second page matters", "turn:5")])
        done = sum(m.role == "tool" for m in request.messages)
        return "the end" if done >= 16 else call("page", n=done + 1)

    model = scripted(then=reply)
    out = await w.agent_loop(
        TASK,
        model=model,
        tools=[page],
        transcript_projection={"policy": "reachability_gc"},
        scratchpad={"reorganize_every": 4},
    )
    assert out.status == "done", out.error
    whole = [text[:7] for text in said(asked(model)[-1]) if pages in text]
    assert "page 2:" in whole and "page 1:" not in whole
    await kept(out, model)


async def test_turns_are_counted_over_the_session_and_not_over_the_view():
    seen: list[str] = []

    def pad(request: Request) -> str:
        seen.append(request.messages[0].text.splitlines()[-1])
        return HOUSE if len(seen) == 1 else written_anew(facts=[fact("x", "turn:3")])

    model = busy(6, pad)
    out = await ran(model, {"max_recent_messages": 4})
    assert '"turn:7"' in seen[0] and '"turn:13"' in seen[1] and '"turn:9"' not in seen[1]
    assert actions(out)[1] == ("rejected", 1), "turn:3 was out of sight, and not in the pad yet"


async def test_a_dropped_reply_is_no_source():
    class Drops(w.Policy[None]):
        async def after_reply(self, run: w.Run, turn: w.Turn) -> Any:
            return w.KeepGoing("no", drop=True) if run.iteration == 1 else None

    model = scripted("bad words", call("note", text="step 1"), HOUSE, "the end")
    out = await w.agent_loop(
        TASK, model=model, tools=[note], policies=[Drops()], scratchpad={"reorganize_every": 2}
    )
    assert out.status == "done", out.error
    (request,) = reorganisations(model)
    assert (
        "bad words" not in request.messages[0].text and '"turn:2"' not in request.messages[0].text
    )


async def test_reset_forgets_what_may_be_cited():
    async with w.Runtime(store="memory:", environ={}):
        await w.agent_loop(TASK, model=busy(1), tools=[note], session_id="s")
        await w.agent_session_reset("s")
        model = busy(3)
        await w.agent_loop("anew", model=model, tools=[note], session_id="s", scratchpad=True)
        question = reorganisations(model)[0].messages[0].text
        assert TASK not in question and '"turn:5"' in question and '"turn:4"' not in question


async def test_replayed_from_the_record_alone():
    async with w.Runtime(store="memory:", environ={}) as runtime:
        out = await w.agent_loop(TASK, model=busy(7), tools=[note], scratchpad=True, session_id="s")
        entries = await runtime.store.read("s")
    (run,) = recorded_runs(entries)
    again = await replay_run("s", entries, run, runtime)
    assert out.status == again.status == "done" and again.difference is None
    assert (again.requests, again.left_out) == (8, 2)


async def test_replay_of_a_call_to_an_unknown_tool_names_the_tools_of_turns_only():
    async with current_environment() as runtime:
        model = scripted(call("look"), "done", call("give_verdict", verdict="done", reasoning="ok"))
        out = await w.agent_loop(
            TASK, model=model, tools=[note], done_judge=True, loop_until_done=True, session_id="s"
        )
        entries = await runtime.store.read("s")
    (run,) = recorded_runs(entries)
    again = await replay_run("s", entries, run, runtime)
    assert out.status == again.status == "done" and again.difference is None


# --------------------------------------------------------------------------- killed


@pytest.mark.parametrize("pad", [HOUSE, "no", LIE, w.BadRequest("x")])
@pytest.mark.parametrize("options", [{}, {"reorganize_every": 1, "schema_retries": 2}])
async def test_killed_anywhere_it_goes_on_with_the_same_requests(pad: Any, options: dict[str, Any]):
    def agent() -> tuple[w.Agent[Any, Any], ScriptedModel]:
        model = busy(5, pad)
        return w.Agent(model, tools=[note], max_turns=30, scratchpad=options), model

    whole, model = agent()
    out = await whole.run(TASK)
    assert out.status == "done"
    sent = list(model.requests)
    entries = [e for e in out.entries if type(e) is not SessionOpened]
    begin = next(at for at, e in enumerate(entries) if type(e) is Remembered)
    for cut in range(begin, len(entries) - 1):
        if type(entries[cut - 1]) is Remembered and type(entries[cut]) is AgentScratchpad:
            continue  # what is remembered and the word on it are one row of the journal
        made = sum(type(e) in (Replied, ReplyFailed) for e in entries[:cut])
        async with w.Runtime(store="memory:", environ={}) as runtime:
            await written(runtime.store, "s", entries[:cut])
            again, model = agent()
            resumed = await again.resume("s")
            assert resumed.status == "done"
            assert [plain(r) for r in model.requests] == [plain(r) for r in sent[made:]], (
                entries[cut - 1],
            )
            assert actions(resumed) == actions(out), entries[cut - 1]
            assert resumed.transcript["scratchpad"] == out.transcript["scratchpad"]


async def test_an_edit_is_taken_once_however_often_the_run_is_killed():
    async with w.Runtime(store="memory:", environ={}) as runtime:

        async def reply(request: Request) -> Any:
            if steps(request) == 1:
                await runtime.store.post(
                    "s", "memory", {"policy": "scratchpad", "pad": {"goals": ["a mill"]}}
                )
            return "the end" if steps(request) > 1 else call("note", text="step")

        out = await w.agent_loop(
            TASK, model=scripted(then=reply), tools=[note], session_id="s", scratchpad=True
        )
    entries = [e for e in out.entries if type(e) is not SessionOpened]
    at = next(i for i, e in enumerate(entries) if type(e) is InboxTaken)
    assert [type(e) for e in entries[at : at + 3]] == [InboxTaken, Remembered, AgentScratchpad]
    async with w.Runtime(store="memory:", environ={}) as runtime:
        await written(runtime.store, "s", entries[:at])
        await runtime.store.post(
            "s", "memory", {"policy": "scratchpad", "pad": {"goals": ["a mill"]}}
        )
        model = scripted(then="the end")
        agent = w.Agent(model, tools=[note], scratchpad=True)
        resumed = await agent.resume("s")
        assert resumed.status == "done" and not await runtime.store.inbox("s")
        assert actions(resumed) == [("init", 1), ("set", 2)]


async def test_a_parked_run_is_edited_and_goes_on_with_the_edit():
    class Parks(w.Policy[None]):
        async def before_turn(self, run: w.Run) -> Any:
            return w.Suspend("wait") if run.iteration == 1 and not resumed else None

    resumed: list[bool] = []
    async with w.Runtime(store="memory:", environ={}):
        model = scripted(call("note", text="step 1"), "the end")
        agent = w.Agent(model, tools=[note], scratchpad=True, policies=[Parks()])
        out = await agent.run(TASK, session_id="s")
        assert out.status == "suspended"
        assert await w.agent_session_set_scratchpad("s", {"goals": ["a mill"]}) == 2
        resumed.append(True)
        again = await agent.resume("s")
        assert again.status == "done"
        assert "- a mill" in (recited(model.requests[1]) or "")


async def test_it_is_taken_up_on_disk(tmp_path: Any):
    async with w.Runtime(store=f"sqlite:///{tmp_path}/a.db", environ={}):
        await w.agent_loop(TASK, model=busy(4), tools=[note], scratchpad=True, session_id="s")
        assert await w.agent_session_set_scratchpad("s", {"goals": ["a mill"]}) == 3
    async with w.Runtime(store=f"sqlite:///{tmp_path}/a.db", environ={}):
        pad = await w.agent_session_scratchpad("s")
        assert pad is not None and pad["goals"] == [{"text": "a mill"}]
        model = scripted("ok")
        out = await w.agent_loop("go", model=model, scratchpad=True, session_id="s")
        assert "- a mill" in (recited(model.requests[0]) or "")
        await kept(out)

"""What failed, or nobody refers to any more, leaves the view at whole rounds; the journal keeps it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

import windlass as w
from tests.stories.helpers import kept, said, written
from windlass.engine.environment import current_store
from windlass.events import (
    IterationStart,
    Projected,
    Remembered,
    Replied,
    Reshaped,
    ToolResulted,
)
from windlass.loop.requests import requests_of
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.testing import call, scripted
from windlass.usage import Usage

TASK = "Find the total."
PAGE = "lorem ipsum " * 300  # about 900 tokens
LONG = "Traceback (most recent call last):\n" + "  File x, line 1\n" * 40 + "KeyError: 'total'"


@w.tool(side_effect_level="none")
async def look(n: int) -> str:
    """Look at a page: a long one."""
    return f"page {n}: fact-{n} is {n * 7}.\n" + PAGE


@w.tool(side_effect_level="none")
async def find(path: str) -> str:
    """Find a file; only those that begin with src are there."""
    if not path.startswith("src"):
        raise ValueError(f"{path} not found\n{LONG}")
    return f"{path}: " + PAGE


@w.tool(side_effect_level="none")
async def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


@w.tool
async def deny() -> ToolResult:
    """Is never allowed."""
    return ToolResult(content="denied: " + LONG, is_error=True, outcome="denied")


async def ran(model: Any, projection: Any, **options: Any) -> Any:
    out = await w.agent_loop(
        TASK,
        model=model,
        tools=[look, find, note, deny],
        max_iterations=90,
        transcript_projection=projection,
        compaction=False,
        **options,
    )
    assert out.status == "done", out.error
    await kept(out, model)
    return out


def projections(out: Any) -> list[Projected]:
    return [entry for entry in out.entries if type(entry) is Projected]


def roles(request: w.Request) -> str:
    return "".join(message.role[0] for message in request.messages)


def names(request: w.Request) -> list[str]:
    return [c.arguments.get("path", c.name) for m in request.messages for c in m.tool_calls]


# --------------------------------------------------------------------------- clean_tool_repair


async def test_a_call_that_was_mended_is_shown_as_if_it_had_been_right_at_once():
    model = scripted(
        call("find", path="a"), call("find", path="b"), call("find", path="src/c"), "done"
    )
    out = await ran(model, "clean_tool_repair")
    assert [roles(r) for r in model.requests] == ["u", "uat", "uatat", "uat"]
    assert names(model.requests[2]) == ["a", "b"], "a failure is seen once"
    assert names(model.requests[3]) == ["src/c"]
    (only,) = projections(out)
    assert (only.policy, only.removed, only.shed) == ("clean_tool_repair", 4, ())
    assert only.estimated_tokens_after < only.estimated_tokens_before
    assert {e.why for e in out.entries if type(e) is Reshaped} == {"transcript_projection"}
    assert len([e for e in out.entries if type(e) is ToolResulted]) == 3, "the journal keeps all"


async def test_what_left_the_view_can_be_recalled():
    model = scripted(
        call("find", path="a"),
        call("find", path="src/c"),
        lambda r: call("recall", query="a not found"),
        "done",
    )
    await ran(model, {"policy": "clean_tool_repair"})
    assert "recall" in [tool.name for tool in model.requests[0].tools], "from the beginning"
    assert "a not found" not in "".join(said(model.requests[2]))
    assert "a not found" in said(model.requests[3])[-1]


async def test_arguments_that_did_not_fit_and_a_wrong_name_are_mended_too():
    model = scripted(call("fnd", path="src/c"), call("find"), call("find", path="src/c"), "done")
    await ran(model, "clean_tool_repair")
    assert names(model.requests[-1]) == ["src/c"]


async def test_what_somebody_said_in_between_stays():
    model = scripted(call("find", path="a"), call("find", path="src/c"), "done")
    await ran(
        model,
        "clean_tool_repair",
        post_turn_callback=lambda turn: "Look in src." if turn.iteration == 0 else None,
    )
    assert roles(model.requests[-1]) == "uuat" and "Look in src." in said(model.requests[-1])


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        ([call("find", path="a"), call("note", text="x")], "uatat"),  # it went another way
        ([call("deny"), call("deny"), call("note", text="x")], "uatatat"),  # must stay in sight
        ([call("find", path="a")], "uat"),
    ],
    ids=["other tool", "denied", "not mended"],
)
async def test_a_failure_that_was_not_mended_stays(steps: list[Any], last: str):
    model = scripted(*steps, "done")
    out = await ran(model, "clean_tool_repair")
    assert roles(model.requests[-1]) == last and not projections(out)


async def test_a_model_that_spoke_in_between_did_not_mend_it():
    model = scripted(call("find", path="a"), "It is not there.", "##DONE##")
    out = await w.agent_loop(
        TASK,
        model=model,
        tools=[find],
        transcript_projection="clean_tool_repair",
        loop_until_done=True,
        done_sentinel="##DONE##",
    )
    assert not projections(out)


async def test_a_round_of_which_a_part_worked_stays():
    both = [call("find", path="a"), call("find", path="src/b")]
    model = scripted(both, call("find", path="src/a"), "done")
    out = await ran(model, "clean_tool_repair")
    assert roles(model.requests[-1]) == "uatat" and not projections(out)


# --------------------------------------------------------------------------- squash_failed_calls


async def test_failed_calls_become_one_short_note():
    steps = [call("find", path="a"), call("find", path="b"), call("note", text="x")]
    model = scripted(*steps, call("note", text="y"), "done")
    out = await ran(model, "squash_failed_calls")
    assert roles(model.requests[3]) == "uatatat", "the last four messages stay as they are"
    last = model.requests[4]
    assert roles(last) == "uuatat"
    assert last.messages[1].kind == "projection"
    text = last.messages[1].text
    assert text.startswith("[2 calls that failed are no longer shown: find ×2. The last said: ")
    assert "b not found" in text and 'recall(id="call_2") shows it.]' in text and len(text) < 400
    assert projections(out)[0].removed == 3


async def test_the_model_sees_a_failure_at_least_once():
    model = scripted(call("find", path="a"), call("note", text="x"), "done")
    await ran(model, {"policy": "squash_failed_calls", "keep_last": 0})
    assert "a not found" in said(model.requests[1])[-1]
    assert roles(model.requests[2]) == "uuat"


async def test_of_a_round_that_partly_failed_the_errors_become_short():
    both = [call("find", path="a"), call("note", text="fine")]
    model = scripted(both, call("note", text="x"), "done")
    out = await ran(model, {"policy": "squash_failed_calls", "keep_last": 0})
    results = model.requests[-1].messages[2].content
    assert (
        results[0].is_error and len(results[0].text) < 300 and "[failed; recall(" in results[0].text
    )
    assert results[1].text == "noted fine" and projections(out)[0].shed == ("call_1",)


async def test_a_row_that_does_not_end_is_squashed_when_it_is_long():
    model = scripted(*[call("find", path=f"x{n}") for n in range(9)], "done")
    await ran(model, {"policy": "squash_failed_calls", "keep_last": 2})
    assert len(model.requests[-1].messages) < 12


async def test_what_is_short_already_stays():
    @w.tool
    async def no() -> str:
        """Fails."""
        raise ValueError("no")

    model = scripted(call("no"), call("note", text="x"), call("note", text="y"), "done")
    out = await w.agent_loop(
        TASK, model=model, tools=[no, note], transcript_projection="squash_failed_calls"
    )
    assert not projections(out) and roles(model.requests[-1]) == "uatatat"


# --------------------------------------------------------------------------- summary_prefix


def chatty(turns: int) -> Any:
    def reply(request: w.Request) -> Any:
        done = sum(1 for m in request.messages for b in m.content if isinstance(b, ToolResult))
        found = [t for t in said(request) if t.startswith("page ")]
        at = int(found[-1].split(":")[0].split()[1]) + 1 if found else 1
        return "done" if at > turns or done > 80 else (Text(f"Now page {at}."), call("look", n=at))

    return scripted(then=reply)


async def test_the_older_part_is_shown_as_notes_that_nobody_wrote():
    model = chatty(12)
    out = await ran(model, "summary_prefix")
    assert all(e.purpose is None for e in out.entries if type(e) is Replied), "nobody was asked"
    last = model.requests[-1]
    assert last.messages[0].text == TASK and last.messages[1].kind == "summary"
    notes = last.messages[1].text
    assert notes.startswith("[Notes on what is no longer shown; recall(query=…) finds it]")
    assert "- you: Now page 1." in notes and "Calls: look ×" in notes
    assert len(notes) <= 6_500
    changed = len(projections(out))
    assert 0 < changed <= 4, "rarely: it gathers two thousand tokens first"
    assert len(last.messages) >= 10


async def test_notes_keep_what_earlier_notes_said():
    model = chatty(30)
    await ran(model, {"policy": "summary_prefix", "keep_last": 2, "min_tokens": 1_000})
    notes = model.requests[-1].messages[1].text
    assert notes.count("[Notes on") == 1
    assert "- you: Now page 1." in notes and "- you: Now page 27." in notes


async def test_notes_in_your_words():
    model = chatty(8)
    await ran(model, {"policy": "summary_prefix", "keep_last": 2, "summary": "Pages were read."})
    assert model.requests[-1].messages[1].text.endswith("]\n\nPages were read.")


async def test_reminders_and_failures_are_in_the_notes():
    model = scripted(call("find", path="a"), *[call("look", n=n) for n in range(1, 6)], "done")
    await ran(
        model,
        {"policy": "summary_prefix", "keep_last": 2, "min_tokens": 500},
        post_turn_callback=lambda turn: "Mind the prices." if turn.iteration == 0 else None,
    )
    notes = "".join(m.text for m in model.requests[-1].messages if m.kind == "summary")
    assert "- post_turn: Mind the prices." in notes and "find ×1 (1 failed)" in notes


async def test_pinned_messages_stay_word_for_word():
    model = chatty(8)
    pinned = Message("user", (Text("NEVER touch prod. " * 30),), "pinned")
    out = await w.agent_loop(
        [Message("user", TASK), pinned],
        model=model,
        tools=[look],
        compaction=False,
        transcript_projection={"policy": "summary_prefix", "keep_last": 2},
    )
    assert projections(out) and pinned.text in said(model.requests[-1])


# --------------------------------------------------------------------------- reachability_gc


def results(request: w.Request) -> dict[str, str]:
    return {b.id: b.text for m in request.messages for b in m.content if isinstance(b, ToolResult)}


def gone(request: w.Request) -> list[str]:
    return [i for i, text in results(request).items() if text.startswith("[the result of")]


async def test_results_that_nothing_recent_refers_to_leave_by_reference():
    model = scripted(*[call("find", path=f"src/{n}.py") for n in range(7)], "done")
    out = await ran(model, {"policy": "reachability_gc", "keep_last": 4})
    assert not gone(model.requests[4]) and gone(model.requests[5]) == ["call_1", "call_2", "call_3"]
    (only,) = projections(out)
    assert only.shed == ("call_1", "call_2", "call_3") and only.removed == 0
    assert only.estimated_tokens_before - only.estimated_tokens_after > 2_000
    assert roles(model.requests[-1]) == "u" + "at" * 7, "calls and results stay in their places"
    assert 'recall(id="call_1") shows it' in results(model.requests[-1])["call_1"]


async def test_a_result_that_something_recent_names_stays():
    steps = [call("find", path=f"src/{n}.py") for n in range(4)]
    again = (Text("Back to src/1.py, see call_3."), call("note", text="x"))
    model = scripted(*steps, again, "done")
    await ran(model, {"policy": "reachability_gc", "keep_last": 2})
    assert gone(model.requests[-1]) == ["call_1", "call_4"]


async def test_texts_of_yours_are_roots():
    model = scripted(*[call("find", path=f"src/{n}.py") for n in range(5)], "done")
    await ran(model, {"policy": "reachability_gc", "keep_last": 2, "roots": ["keep src/2.py"]})
    assert gone(model.requests[-1]) == ["call_1", "call_2", "call_4"]


async def test_it_looks_at_whole_windows_of_turns():
    model = scripted(*[call("look", n=n) for n in range(9)], "done")
    out = await ran(
        model, {"policy": "reachability_gc", "keep_last": 2, "window_turns": 3, "min_tokens": 1}
    )
    first = next(at for at, r in enumerate(model.requests) if gone(r))
    assert first == 3 and len(projections(out)) == 3
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        moved = list(after.messages[: len(before.messages)]) != list(before.messages)
        assert moved <= (len(after.messages) // 2 % 3 == 0), "the prefix moves at windows only"


@pytest.mark.parametrize("key", ["min_chars", "min_tokens"])
async def test_too_little_stays(key: str):
    model = scripted(*[call("look", n=n) for n in range(6)], "done")
    out = await ran(model, {"policy": "reachability_gc", "keep_last": 2, key: 20_000})
    assert not projections(out)


async def test_failures_are_still_evidence():
    steps = [call("find", path="a"), *[call("look", n=n) for n in range(5)]]
    model = scripted(*steps, "done")
    await ran(model, {"policy": "reachability_gc", "keep_last": 2})
    assert "call_1" not in gone(model.requests[-1]) and "call_2" in gone(model.requests[-1])


class Pad(msgspec.Struct, frozen=True):
    pad: dict[str, Any] | None = None
    version: int = 0


class FakeScratchpad(w.Policy[Pad]):
    """As much of a scratchpad as a projection looks at; `versions[turn]` is set before that turn."""

    memory = Pad
    keeps = "session"

    def __init__(self, versions: dict[int, list[str]]) -> None:
        self.versions = versions

    @property
    def name(self) -> str:
        return "scratchpad"

    async def before_turn(self, run: Any) -> None:
        refs = self.versions.get(run.iteration)
        if refs is not None:
            pad = {"refs": [{"id": ref, "kind": "tool"} for ref in refs], "facts": []}
            run.remember(self, Pad(pad, run.recall(self).version + 1))


async def test_the_scratchpad_is_root_and_write_barrier():
    versions = {0: ["user:initial"], 6: ["call_2", "turn:7"]}
    model = scripted(*[call("look", n=n) for n in range(8)], "done")
    out = await ran(
        model,
        {"policy": "reachability_gc", "keep_last": 2, "window_turns": 1},
        policies=[FakeScratchpad(versions)],
    )
    assert not any(gone(r) for r in model.requests[:6]), "the pad has not changed since"
    assert gone(model.requests[6]) == ["call_1", "call_4", "call_5"]  # turn:7 is call_3's result
    assert gone(model.requests[-1]) == gone(model.requests[6])
    assert len(projections(out)) == 1
    told = [e for e in out.entries if type(e) is Remembered and e.policy == "transcript_projection"]
    assert [e.value["version"] for e in told] == [1, 2, 2]


async def test_with_a_scratchpad_what_it_cites_stays():
    pad = {"goals": [], "open_items": [], "refs": []}
    pad["facts"] = [{"text": "page 2 matters", "source_ref": "call_2"}]

    def reply(request: w.Request) -> Any:
        if "scratchpad of an assistant" in (request.system or ""):
            return json.dumps(pad)
        turn = len(request.messages) // 2
        return "done" if turn >= 6 else call("look", n=turn + 1)

    model = scripted(then=reply)
    out = await ran(
        model,
        {"policy": "reachability_gc", "keep_last": 2},
        scratchpad={"reorganize_every": 4},
    )
    own = [r for r in model.requests if "scratchpad of an assistant" not in (r.system or "")]
    assert [gone(r) for r in own] == [[]] * 4 + [["call_1", "call_3"]] * 3
    assert len(projections(out)) == 1 and all(r.tail for r in own), "recited all the while"


# --------------------------------------------------------------------------- custom


async def test_a_function_of_yours_says_what_each_call_shows():
    told: list[Any] = []

    def project(messages: list[Message], context: Any) -> Any:
        told.append(context)
        return [messages[0], *messages[-2:]] if len(messages) > 3 else messages

    model = scripted(*[call("note", text=str(n)) for n in range(4)], "done")
    out = await ran(model, {"policy": "custom", "project": project})
    assert [roles(r) for r in model.requests] == ["u", "uat", "uat", "uat", "uat"]
    assert [context.iteration for context in told] == [0, 1, 2, 3, 4]
    assert told[0].session_id == out.session_id and told[0].system is None
    assert 0 < told[0].estimated_tokens < told[-1].estimated_tokens
    assert len(out.all_messages) == 10 and not projections(out)
    with pytest.raises(AttributeError, match="'iteration'"):
        _ = told[0].iterations


async def test_what_it_tears_apart_is_put_together():
    async def project(messages: list[Message], context: Any) -> Any:
        return [message for message in messages if message.role != "assistant"]

    model = scripted(call("note", text="x"), "done")
    await ran(model, {"policy": "custom", "projector": project})
    assert said(model.requests[-1]) == [TASK, "[the result of note]\nnoted x"]


@pytest.mark.parametrize("answer", [None, [], "x", [3]], ids=str)
async def test_a_wrong_answer_ends_the_run(answer: Any):
    out = await w.agent_loop(
        TASK,
        model=scripted("never"),
        transcript_projection={"policy": "custom", "project": lambda messages, context: answer},
    )
    assert out.status == "failed" and "transcript_projection.project" in out.error["message"]


# --------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("clean_tool_repairs", "did you mean 'clean_tool_repair'"),
        ("raw", "is one of"),
        (True, "is a dict or a TranscriptProjection"),
        ({}, "needs a policy"),
        ({"keep_last": 3}, "needs a policy"),
        ({"policy": "custom"}, "needs a function as project"),
        ({"policy": "custom", "project": "x"}, "project is a function"),
        ({"policy": "clean_tool_repair", "keep_last": 3}, "means nothing to 'clean_tool_repair'"),
        ({"policy": "squash_failed_calls", "roots": ["x"]}, "means nothing to"),
        ({"policy": "summary_prefix", "summary": ""}, "a text that is not empty"),
        ({"policy": "reachability_gc", "window_turns": 0}, "window_turns is a whole number"),
        ({"policy": "reachability_gc", "min_chars": -1}, "min_chars is a whole number"),
        ({"policy": "reachability_gc", "min_char": 1}, "'min_chars'"),
        ({"policy": "custom", "project": print, "projector": print}, "are the same: give one"),
    ],
    ids=str,
)
async def test_what_is_impossible_is_refused(value: Any, words: str):
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop("go", model=scripted("x"), transcript_projection=value)


async def test_the_typed_form():
    model = scripted(call("find", path="a"), call("find", path="src/c"), "done")
    await ran(model, w.TranscriptProjection(policy="clean_tool_repair", min_tokens=100_000))
    assert roles(model.requests[-1]) == "uatat", "too little to be worth it"


# --------------------------------------------------------------------------- what it costs


class Priced(w.Model):
    """A model whose provider keeps the prompt in its cache."""

    provider, name, context_window = "priced", "priced", 1_000_000

    def __init__(self, reply: Any, *, cached: bool) -> None:
        self.reply, self.cached = reply, cached
        self.requests: list[w.Request] = []

    def price(self, usage: Usage) -> float:
        read, write = usage.cache_read_tokens, usage.cache_write_tokens
        return (usage.input_tokens - read - write + read * 0.1 + write * 1.25) / 1e6

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.requests.append(w.Request(tuple(request.messages), request.frame, request.tail))
        size = w.estimate_tokens(list(request.messages))
        usage = Usage(size, 5, cache_read_tokens=size - 1 if self.cached else 0)
        answer = self.reply(request)
        if isinstance(answer, str):
            return w.Response(Message("assistant", answer), usage)
        return w.Response(Message("assistant", (answer,)), usage, "tool_use")


def forgetful(request: w.Request) -> Any:
    """One mistake at the beginning, long pages after it."""
    turn = sum(m.role == "assistant" for m in request.messages)
    if turn >= 8:
        return "done"
    name, arguments = ("find", {"path": "a"}) if turn == 0 else ("look", {"n": turn})
    return ToolCall(f"c{len(request.messages)}-{turn}", name, arguments)


@pytest.mark.parametrize("cached", [True, False])
async def test_a_cached_prefix_is_not_broken_for_a_little(cached: bool):
    model = Priced(forgetful, cached=cached)
    out = await w.agent_loop(
        TASK,
        model=model,
        tools=[find, look],
        compaction=False,
        transcript_projection={"policy": "squash_failed_calls", "keep_last": 4},
    )
    assert out.status == "done"
    # two hundred tokens leave, and a page of nine hundred behind them would be sent anew
    assert bool(projections(out)) is not cached


async def test_right_behind_the_mistake_nothing_cached_is_lost():
    def reply(request: w.Request) -> Any:
        turn = sum(m.role == "assistant" for m in request.messages)
        found = "src" in "".join(said(request))
        path = "a" if turn == 0 else "src/b"
        return "done" if found else ToolCall(f"c{turn}", "find", {"path": path})

    model = Priced(reply, cached=True)
    out = await w.agent_loop(
        TASK, model=model, tools=[find], compaction=False, transcript_projection="clean_tool_repair"
    )
    (only,) = projections(out)
    assert only.cache_usd == 0 and only.saves_usd > 0
    assert roles(model.requests[-1]) == "uat"


async def test_a_little_is_not_taken_out_of_a_long_view():
    """What leaves must be an eighth of what is sent anew for it."""
    model = scripted(
        call("find", path="a"),
        call("note", text="x"),
        *[call("look", n=n) for n in range(12)],
        "done",
    )
    out = await ran(model, {"policy": "squash_failed_calls", "keep_last": 12})
    assert not projections(out)


async def test_with_compaction_there_is_one_recall():
    model = chatty(20)
    out = await w.agent_loop(
        TASK,
        model=model,
        tools=[look],
        compact_threshold=6_000,
        session_id="both",
        transcript_projection={"policy": "reachability_gc", "keep_last": 4},
    )
    assert out.status == "done"
    again = scripted("ok")
    await w.agent_loop(
        "more",
        model=again,
        tools=[look],
        session_id="both",
        transcript_projection="reachability_gc",
    )
    for request in (*model.requests, *again.requests):
        offered = [tool.name for tool in request.tools]
        assert len(offered) == len(set(offered)), offered


# --------------------------------------------------------------------------- and after a crash


class Pure(w.Model):
    """Answers by the newest result it is shown."""

    provider, name = "pure", "pure"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        turn = 0
        for message in request.messages:
            for one in message.tool_calls:
                turn = max(turn, int(one.id[1:]))
        turn += 1
        if turn > 11:
            return w.Response(w.Message("assistant", "all done"), w.Usage(10, 5))
        path = f"{turn}" if turn % 4 == 1 else f"src/{turn}.py"
        asked = w.ToolCall(f"c{turn}", "find", {"path": path})
        return w.Response(w.Message("assistant", (asked,)), w.Usage(10, 5), "tool_use")


@pytest.mark.parametrize(
    "projection",
    [
        "clean_tool_repair",
        {"policy": "squash_failed_calls", "keep_last": 2},
        {"policy": "summary_prefix", "keep_last": 2, "min_tokens": 1_500},
        {"policy": "reachability_gc", "keep_last": 2, "window_turns": 3},
        {"policy": "custom", "project": lambda messages, context: messages[:1] + messages[-4:]},
    ],
    ids=lambda p: p if isinstance(p, str) else p["policy"],
)
async def test_killed_at_every_entry_it_sends_the_same(projection: Any):
    def agent() -> w.Agent[Any, Any]:
        return w.Agent(Pure(), tools=[find], transcript_projection=projection, max_turns=20)

    whole = await agent().run("go", session_id="whole")
    assert whole.status == "done", whole.error
    store = current_store()
    entries = list(await store.read("whole"))
    wanted = [(list(r.messages), r.frame, r.tail) for r in requests_of(entries)]
    assert (
        projection
        if isinstance(projection, dict) and "project" in projection
        else projections(whole)
    )
    first = next(at for at, e in enumerate(entries) if type(e) is IterationStart)
    for cut in range(first + 1, len(entries) - 1):
        if type(entries[cut - 1]) in (Reshaped, Projected):
            continue  # what a projection does is one row of the journal
        name = f"cut-{cut}"
        await written(store, name, entries[:cut])
        out = await agent().resume(name)
        assert out.status == "done", (cut, out.status, out.error)
        again = [(list(r.messages), r.frame, r.tail) for r in requests_of(await store.read(name))]
        assert again == wanted, f"killed after {entries[cut - 1]!r:.80}"
        await kept(out)

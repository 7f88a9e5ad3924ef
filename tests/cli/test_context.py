"""`windlass context`: what the model saw in a turn, to the letter, and what it did not."""

from __future__ import annotations

import asyncio
import io
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass as w
from windlass.cli.console import ConsoleOutput
from windlass.cli.context import draw_context, spread
from windlass.events import JournalEntry, Projected, SkillNarrowed, SkillScopeTools
from windlass.messages import Message, Text, ToolSpec
from windlass.replay.context import read_request_context
from windlass.testing import call, scripted
from windlass.trace.context import (
    SHARES,
    Context,
    LeftOut,
    ModelCallSummary,
    pieces_of,
    together,
    tokens_of,
)
from windlass.trace.format import cells

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e[bold red]x[/] 東京 :smile: \u2028\x00\r\x9b31m"
STORE = "sqlite:///s.db"
JUDGED = '{"verdict": "done", "reasoning": "fine", "next_step": ""}'


@w.tool(side_effect_level="none")
def page(n: int) -> str:
    """Read a page."""
    return f"Page {n}. " + "All work and no play. " * 200


@w.tool(side_effect_level="none")
def look(what: str) -> str:
    """Look at something."""
    return f"{what} is there"


def reader(pages: int) -> Any:
    def reply(request: w.Request) -> Any:
        text = request.messages[-1].text
        if "Write the notes." in text or "\n\nConversation:\n" in text:
            return "notes were taken"
        last = [b.text for m in request.messages for b in m.content if isinstance(b, w.ToolResult)]
        done = max([int(n) for t in last for n in re.findall(r"Page (\d+)\.", t)], default=0)
        return "I have read it." if done >= pages else call("page", n=done + 1)

    return scripted(then=reply)


def make(*runs: dict[str, Any], session: str = "s") -> list[Any]:
    """Runs on a session that the command will find."""
    outs: list[Any] = []

    async def inside() -> None:
        async with w.Runtime(store=STORE, environ={}):
            for options in runs:
                options = {"task": "Read the manual.", **options}
                outs.append(await w.agent_loop(options.pop("task"), session_id=session, **options))

    asyncio.run(inside())
    return outs


def shown(windlass: Any, *args: str) -> list[str]:
    return windlass("context", "s", "--store", STORE, *args).stdout.splitlines()


def data(windlass: Any, *args: str) -> dict[str, Any]:
    return json.loads(windlass("context", "s", "--store", STORE, "--json", *args).stdout)


def row(lines: list[str], words: str) -> str:
    return next(line for line in lines if words in line)


def number(line: str) -> int:
    return int(line[20:29].replace(",", ""))


def same(found: dict[str, Any], sent: w.Request) -> bool:
    request = {
        "system": sent.system,
        "tools": sent.tools,
        "settings": sent.settings,
        "messages": list(sent.messages),
        "tail": sent.tail,
    }
    return found["request"] == json.loads(msgspec.json.encode(request))


# --------------------------------------------------------------------------- what it saw


class Remind(w.Policy[None]):
    async def before_turn(self, run: w.Run) -> None:
        run.say(f"it is turn {run.iteration + 1}", "clock", ttl=1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"system": "Be brief.", "temperature": 0.5},
        {"compact_threshold": 2_500, "compact_keep_last": 2},
        {"context_strategy": {"type": "sliding-window", "max_turns": 2}},
        {"context_strategy": {"type": "summarize", "max_tokens": 2_000}},
        {"context_strategy": {"type": "custom", "compress": lambda ms, n: [ms[0], *ms[-2:]]}},
        {"policies": [Remind()], "tool_result_max_bytes": 300},
    ],
)
def test_every_request_is_as_it_was_sent(windlass: Any, options: dict[str, Any]):
    model = reader(7)
    (out,) = make({"model": model, "tools": [page, look], **options})
    assert out.status == "done"
    sent = iter(model.requests)
    for turn in range(1, 9):
        calls = len(data(windlass, "--turn", str(turn))["calls"])
        for which in range(1, calls + 1):
            found = data(windlass, "--turn", str(turn), "--call", str(which))
            assert same(found, next(sent)), f"turn {turn}, call {which}"
            parts = found["parts"]
            assert found["estimated_tokens"]["total"] == sum(p["tokens"] for p in parts)
            assert [p["number"] for p in parts if p["number"]] == [
                n + 1 for n in range(len(found["request"]["messages"]))
            ]
    assert next(sent, None) is None


def test_tools_in_writing_are_shown_as_they_were_written(windlass: Any):
    model = scripted('<tool_call>{"name": "look", "arguments": {"what": "x"}}</tool_call>', "fine")
    make({"model": model, "tools": [look], "tool_format": "text"})
    assert same(data(windlass), model.requests[-1])
    lines = shown(windlass)
    assert "tools written into the prompt" in lines[3] and "tool_call" in row(lines, "2 assistant")


def test_parts_have_their_tokens(windlass: Any):
    make(
        {
            "model": reader(2),
            "tools": [page, look],
            "await_resumption": False,
            "system": "Be brief. " * 40,
            "max_tokens": 99,
        }
    )
    lines = shown(windlass)
    assert lines[0] == "s"
    assert "scripted:scripted" in lines[1] and "turn 3 of 3" in lines[1]
    assert re.fullmatch(r"about [\d,]+ tokens · the provider counted 10", lines[2])
    assert lines[3] == "max_tokens 99"
    assert number(row(lines, "  system")) == 100
    frame, view = number(row(lines, "frame")), number(row(lines, "view  "))
    assert f"about {frame + view:,} tokens" in lines[2]
    assert number(row(lines, "  tools")) + 100 == frame
    assert "5 messages" in row(lines, "view  ") and "2 tools" in row(lines, "  tools")
    assert "Read a page." in row(lines, "    page") and "page(n=2)" in row(lines, "4 assistant")
    assert number(row(lines, "5 tool")) == tokens_of([Message("tool", page(2))])  # pyright: ignore


def test_the_bar_is_the_whole_request(windlass: Any):
    make({"model": reader(3), "tools": [page], "system": "Be brief. " * 100})
    lines = shown(windlass, "--width", "80")
    bar = next(line for line in lines if line and set(line) <= set("STuarn!"))
    assert len(bar) == 80 and bar == "".join(sorted(bar, key="STuarn!".index))
    assert bar.count("r") > bar.count("S") > bar.count("u") >= 1
    legend = " ".join(lines[lines.index(bar) + 1 :][:2])
    assert "S system 250" in legend and "r results" in legend


def test_the_tail_is_of_this_request_alone(windlass: Any):
    make({"model": reader(2), "tools": [page], "policies": [Remind()]})
    lines = shown(windlass, "--turn", "2")
    assert "1 message for this request alone" in row(lines, "tail  ")
    assert "it is turn 2" in row(lines, "  clock")


def test_what_the_provider_counted_stands_beside(windlass: Any):
    usage = w.Usage(input_tokens=4_321, output_tokens=5, cache_read_tokens=4_000)
    make({"model": scripted("hi", usage=usage), "tools": [page]})
    assert "counted 4,321, 4,000 from its cache" in shown(windlass)[2]
    assert data(windlass)["counted"]["cache_read_tokens"] == 4_000


# --------------------------------------------------------------------------- which one


def test_runs_turns_and_calls_are_chosen(windlass: Any):
    make({"model": reader(2), "tools": [page]}, {"task": "And now?", "model": scripted("So.")})
    assert "run 2 of 2 · turn 1 of 1" in shown(windlass)[1]
    assert "run 1 of 2 · turn 3 of 3" in shown(windlass, "--run", "1")[1]
    assert "run 1 of 2 · turn 2 of 3" in shown(windlass, "--run", "-2", "--turn", "-2")[1]
    assert data(windlass, "--run", "1", "--turn", "1")["turn"] == 1


def test_a_judge_has_a_context_of_its_own(windlass: Any):
    make({"model": scripted("I am done.", JUDGED), "tools": [look], "done_judge": True})
    lines = shown(windlass)
    assert lines[-1] == (
        "calls of this turn (--call N): 1 the turn itself, shown here · 2 done_judge"
    )
    lines = shown(windlass, "--call", "2")
    assert "asked for done_judge" in lines[1] and "I am done." in row(lines, "1 user")
    assert not any("LEFT OUT" in line for line in lines)
    assert data(windlass, "--call", "-1")["purpose"] == "done_judge"


def test_an_agent_that_was_called_has_a_session_of_its_own(windlass: Any):
    child = w.Agent(scripted("sub done"), name="kid", system="You are the kid.")
    tool = child.as_tool("kid", "Ask the kid.")
    make({"model": scripted(call("kid", task="do it"), "ok"), "tools": [tool]})
    sessions = json.loads(windlass("sessions", "list", "--store", STORE, "--json").stdout)
    (kid,) = [each["id"] for each in sessions if each["id"] != "s"]
    lines = windlass("context", kid, "--store", STORE).stdout.splitlines()
    assert lines[1].startswith("kid: scripted") and "You are the kid." in row(lines, "  system")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--turn", "9"), "--turn 9: run 1 has turns 1 to 3"),
        (("--turn", "-4"), "turns 1 to 3"),
        (("--turn", "0"), "turns 1 to 3"),
        (("--run", "2"), "--run 2: the session has 1"),
        (("--run", "0"), "the session has 1"),
        (("--call", "2"), "--call 2: turn 3 has 1"),
        (("--call", "0"), "turn 3 has 1"),
        (("--turn", "x"), "--turn"),
        (("--width", "9"), "--width"),
    ],
)
def test_what_is_not_there_is_said(windlass: Any, args: tuple[str, ...], words: str):
    make({"model": reader(2), "tools": [page]})
    done = windlass("context", "s", "--store", STORE, *args, code=2)
    assert words in done.stderr and "Traceback" not in done.stderr


def test_a_call_that_failed_left_no_request(windlass: Any):
    def reply(request: w.Request) -> Any:
        raise w.errors.ServerError("the house burns")

    make({"model": scripted(then=reply)})
    done = windlass("context", "s", "--store", STORE, code=2)
    assert "no model has answered" in done.stderr
    make({"model": scripted("hi")}, {"model": scripted(then=reply)})
    done = windlass("context", "s", "--store", STORE, "--run", "-1", code=2)
    assert "the house burns" in done.stderr
    assert "turn 1 of 1" in shown(windlass)[1], "the last run that has something to show"


def test_a_session_that_is_not_there(windlass: Any):
    make({"model": scripted("hi")})
    assert "no session 'zz'" in windlass("context", "zz", "--store", STORE, code=1).stderr


# --------------------------------------------------------------------------- what it did not


def left(windlass: Any, why: str, *args: str) -> dict[str, Any]:
    found = [each for each in data(windlass, *args)["left_out"] if each["why"] == why]
    return found[-1]


def test_what_was_compacted(windlass: Any):
    make({"model": reader(6), "tools": [page], "compact_threshold": 3_000, "compact_keep_last": 2})
    line = row(shown(windlass), "  compaction")
    assert "in a shorter form" in line and "threshold, hybrid" in "".join(shown(windlass))
    entry = left(windlass, "compaction")
    assert entry["what"] == "shorter" and entry["tokens"] > entry["instead"] > 0
    assert entry["detail"] == "threshold, hybrid" and entry["turn"] > 1
    assert not data(windlass, "--turn", "1")["left_out"]


def test_a_summary_says_how_many_it_stands_for(windlass: Any):
    strategy = {"type": "summarize", "max_tokens": 3_000}
    make({"model": reader(5), "tools": [page], "context_strategy": strategy})
    first, *others = [each for each in data(windlass)["left_out"] if each["why"] == "summary"]
    assert (first["what"], first["gone"], first["put"]) == ("messages", 2, 1) and others
    gone = 2 * (1 + len(others))
    assert f"{gone} messages, 1 in their place" in row(shown(windlass), "  summary  ")


def test_a_window_is_told_once(windlass: Any):
    strategy = {"type": "sliding-window", "max_turns": 2}
    make({"model": reader(9), "tools": [page], "context_strategy": strategy})
    line = row(shown(windlass), "  window  ")
    assert "14 messages, 1 in their place · turns 4 to 10" in line
    per_round = tokens_of([Message("tool", page(1))])  # pyright: ignore
    assert 7 * per_round - 20 <= number(line) <= 7 * (per_round + 20)
    full = [line for line in shown(windlass, "--full") if line.startswith("  window  ")]
    assert len(full) == 7


def test_results_that_were_shown_in_part(windlass: Any):
    make({"model": reader(2), "tools": [page], "tool_result_max_bytes": 400})
    line = row(shown(windlass), "  trimmed result")
    assert "2 results of page, shown in part · turns 1 to 2" in line
    assert number(line) > 1_500


def test_a_reply_that_was_dropped(windlass: Any):
    def judge(verdict: str) -> str:
        words = {"verdict": verdict, "reasoning": "r", "critique": "not like this", "confidence": 1}
        return json.dumps(words)

    model = scripted(call("look", what="x"), judge("revise"), "another way", judge("pass"))
    make({"model": model, "tools": [look], "step_judge": {}})
    lines = shown(windlass)
    assert "1 message · turn 1" in row(lines, "  dropped reply") and "step_judge" in "".join(lines)


def test_a_reset_is_told(windlass: Any):
    async def inside() -> None:
        async with w.Runtime(store=STORE, environ={}):
            await w.agent_loop("one", model=scripted("two"), session_id="s")
            await w.agent_session_reset("s")
            await w.agent_loop("three", model=scripted("four"), session_id="s")

    asyncio.run(inside())
    assert "2 messages" in row(shown(windlass), "  reset")


class Forget(w.Policy[None]):
    """Shows one request less than there is."""

    async def before_model(self, run: w.Run, request: w.Request) -> w.Request:
        frame = msgspec.structs.replace(request.frame, tools=request.tools[:1])
        if run.iteration == 0:
            return request
        return w.Request(tuple(request.messages[:1]), frame, request.tail)


def test_what_one_request_did_not_show(windlass: Any):
    make(
        {
            "model": scripted(call("look", what="x"), "end"),
            "tools": [page, look],
            "await_resumption": False,
            "policies": [Forget()],
        }
    )
    lines = shown(windlass)
    assert "2 messages · turn 2" in row(lines, "  rewritten")
    assert "1 tool: look" in row(lines, "  not offered")
    assert "LEFT OUT" not in "".join(shown(windlass, "--turn", "1"))


def test_what_was_put_in_other_words(windlass: Any):
    make(
        {
            "model": scripted(call("look", what="x"), "end"),
            "tools": [look],
            "timestamp_messages": True,
        }
    )
    line = row(shown(windlass), "  rewritten")
    assert "2 messages in other words · turn 2" in line and "+4" in line


class Narrow(w.Policy[None]):
    """Hides tools and says why, as those do that come with the options."""

    async def before_model(self, run: w.Run, request: w.Request) -> w.Request:
        if run.iteration == 0:
            return request
        if run.iteration == 1:
            run.note(SkillNarrowed(1, ("look",), ("page",), "unused", {}))
            run.note(SkillScopeTools("s", "reading", ("page",), ("page",), ("later",)))
        frame = msgspec.structs.replace(request.frame, tools=request.tools[:1])
        return msgspec.structs.replace(request, frame=frame)


def test_why_a_tool_was_not_on_offer(windlass: Any):
    @w.tool
    def later(n: int) -> str:
        """Later."""
        return "later"

    make({"model": reader(3), "tools": [page, look, later], "policies": [Narrow()]})
    lines = shown(windlass)
    assert "1 tool: look · unused, since turn 2" in row(lines, "  narrowed")
    assert "1 tool: later · reading, since turn 2" in row(lines, "  hidden by a skill")


def test_what_a_projection_took_out(windlass: Any):
    class Project(w.Policy[None]):
        async def before_turn(self, run: w.Run) -> None:
            if run.iteration == 2:
                run.reshape((1, 3), (), "transcript_projection")
                run.note(Projected("squash_failed_calls", 9, 3, 2))

    make({"model": reader(3), "tools": [page], "policies": [Project()]})
    assert "2 messages · turn 2 · squash_failed_calls" in row(shown(windlass), "  projection")


# --------------------------------------------------------------------------- how it looks


def test_a_long_view_is_folded(windlass: Any):
    history = [Message("user" if n % 2 == 0 else "assistant", f"word {n}") for n in range(60)]
    make({"model": scripted("end"), "messages": history})
    lines = shown(windlass)
    assert "45 messages more; --full lists them" in row(lines, "messages more") and len(lines) < 40
    assert "word 59" in "".join(lines) and "word 30" not in "".join(lines)
    full = shown(windlass, "--full")
    assert "       word 30" in full and not any("--full" in line for line in full)


def test_hostile_words_do_nothing(windlass: Any):
    @w.tool(side_effect_level="none")
    def evil(what: str) -> str:
        """Evil."""
        return HOSTILE

    make(
        {
            "task": HOSTILE,
            "system": HOSTILE,
            "tools": [evil],
            "model": scripted(call("evil", what=HOSTILE), "end"),
        }
    )
    for args in ((), ("--full",), ("--json",), ("--width", "60")):
        text = windlass("context", "s", "--store", STORE, *args).stdout
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text), args
    assert "[bold red]x[/]" in "".join(shown(windlass)), "it is shown as it was written"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def painted(context: Context, width: int, *, fancy: bool, full: bool = False) -> list[str]:
    paper = ConsoleOutput(Screen() if fancy else io.StringIO())
    lines = draw_context(context, width, paper=paper, full=full)
    return ["".join(p if isinstance(p, str) else p[0] for p in line) for line in lines]


WORDS = st.one_of(st.text(max_size=60), st.sampled_from([HOSTILE, "東京" * 60, "a" * 5_000, ""]))


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    roles = st.sampled_from(["user", "assistant", "tool", "system"])
    messages = [
        Message(draw(roles), (Text(draw(WORDS)),), draw(st.one_of(st.none(), WORDS)))  # pyright: ignore
        for _ in range(draw(st.integers(0, 50)))
    ]
    tools = [ToolSpec(draw(WORDS), draw(WORDS), {}) for _ in range(draw(st.integers(0, 3)))]
    tail = [Message("user", (Text(draw(WORDS)),), "clock") for _ in range(draw(st.integers(0, 2)))]
    left_out = [
        LeftOut(
            draw(WORDS),
            draw(st.sampled_from(["messages", "shorter", "reworded", "results", "tools"])),  # pyright: ignore
            draw(st.integers(0, 99)),
            draw(st.integers(0, 10**7)),
            draw(st.integers(0, 9)),
            3,
            (draw(WORDS),),
            1,
            draw(st.integers(0, 3)),
            draw(WORDS),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    return Context(
        session_id=draw(WORDS),
        run=1,
        runs=2,
        turn=1,
        turns=1,
        call=1,
        calls=(ModelCallSummary(1, None, "m"), ModelCallSummary(2, draw(WORDS), "m", draw(WORDS))),
        agent=draw(WORDS),
        provider="p",
        model=draw(WORDS),
        purpose=draw(st.one_of(st.none(), WORDS)),
        settings={"stop": draw(WORDS)},
        pieces=tuple(pieces_of(draw(WORDS), tools, messages, tail)),
        left_out=tuple(left_out),
        usage=w.Usage(3, 4, cache_read_tokens=2),
    )


@settings(max_examples=40, deadline=None)
@given(context=contexts(), width=st.integers(60, 200), fancy=st.booleans(), full=st.booleans())
def test_any_context_fits_its_columns(context: Context, width: int, fancy: bool, full: bool):
    for line in painted(context, width, fancy=fancy, full=full):
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e]", line)
        assert full or cells(line) <= width, line
    assert len(together(context.left_out)) <= len(context.left_out)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=len(SHARES)), st.integers(60, 300))
def test_a_bar_is_as_wide_as_it_should_be(sizes: list[int], width: int):
    cells_ = spread(sizes, width)
    assert sum(cells_) == width and min(cells_) >= 1
    for one, two in zip(sorted(zip(sizes, cells_, strict=True)), sorted(cells_), strict=True):
        assert abs(one[1] - two) <= 1, "who is larger is not shorter"


def test_how_much_of_the_window_it_is():
    pieces = tuple(pieces_of("x" * 80_000, (), [Message("user", "hello")], ()))
    context = Context(
        session_id="s",
        run=1,
        runs=1,
        turn=1,
        turns=1,
        call=1,
        calls=(),
        agent=None,
        provider="anthropic",
        model="claude-sonnet-4-5",
        purpose=None,
        settings={},
        pieces=pieces,
        left_out=(),
    )
    lines = painted(context, 100, fancy=False)
    assert lines[2] == "about 20,002 tokens, 10% of a window of 200k"


def test_colours_only_where_there_are_some(monkeypatch: pytest.MonkeyPatch):
    pieces = tuple(pieces_of("system prompt", (), [Message("user", "hello")], ()))
    context = Context(
        session_id="s",
        run=1,
        runs=1,
        turn=1,
        turns=1,
        call=1,
        calls=(),
        agent=None,
        provider="p",
        model="m",
        purpose=None,
        settings={},
        pieces=pieces,
        left_out=(),
    )
    monkeypatch.setattr(ConsoleOutput, "can_write", lambda _paper, _letters: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert any("█" * 60 in line for line in painted(context, 80, fancy=True))
    assert not any("█" in line for line in painted(context, 80, fancy=False))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("█" in line for line in painted(context, 80, fancy=True))


# --------------------------------------------------------------------------- from a journal alone


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_turn_of_any_run(choose: st.DataObject):
    """What it tells is what `requests_of` rebuilds, whatever the strategy."""
    kind = choose.draw(st.sampled_from(["sliding-window", "summarize", "none"]))
    options: dict[str, Any] = {}
    if kind == "sliding-window":
        options = {"context_strategy": {"type": kind, "max_turns": choose.draw(st.integers(1, 4))}}
    elif kind == "summarize":
        tokens = choose.draw(st.integers(1, 5_000))
        options = {"context_strategy": {"type": kind, "max_tokens": tokens}}
    model = reader(5)

    async def inside() -> list[JournalEntry]:
        async with w.Runtime(store="memory:", environ={}) as runtime:
            out = await w.agent_loop("go", model=model, tools=[page], **options)
            return list(await runtime.store.read(out.session_id))

    entries = asyncio.run(inside())
    turn = choose.draw(st.integers(1, 6))
    found = read_request_context("s", entries, turn=turn)
    own = [r for r in model.requests if "\n\nConversation:\n" not in r.messages[-1].text]
    assert list(found.request.messages) == list(own[turn - 1].messages)
    assert found.request.frame == own[turn - 1].frame

"""A conversation is kept short in the manner of a runner: a window, a summary, a function of yours."""

from __future__ import annotations

import re
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept, said, written
from windlass.events import (
    Compacted,
    HistoryRepaired,
    IterationStart,
    Replied,
    ReplyFailed,
    Reshaped,
    Said,
    SessionOpened,
    ToolResulted,
)
from windlass.messages import Image, Message, Text, ToolCall, ToolResult
from windlass.testing import ScriptedModel, call, scripted

TASK = "Count the apples. Never the pears."
NOTICE = "[Earlier conversation history truncated — {} turn(s) removed]"
DOORS = ["Agent", "agent_loop"]


@w.tool(side_effect_level="none")
async def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


def is_summary(request: w.Request) -> bool:
    return "\n\nConversation:\n" in request.messages[-1].text


def steps(request: w.Request) -> int:
    found = [int(n) for text in said(request) for n in re.findall(r"noted step (\d+)", text)]
    return max(found, default=0)


def busy(turns: int, notes: Any = "apples were counted", **more: Any) -> ScriptedModel:
    """A model that calls a tool so many times; what it says follows from the request alone."""

    def reply(request: w.Request) -> Any:
        if is_summary(request):
            return notes
        done = steps(request) + 1
        return "the end" if done > turns else call("note", text=f"step {done}")

    return scripted(then=reply, **more)


async def ran(model: ScriptedModel, door: str = "Agent", **options: Any) -> Any:
    if door == "Agent":
        out = await w.Agent(model, tools=[note], max_turns=40, **options).run(TASK)
    else:
        out = await w.agent_loop(TASK, model=model, tools=[note], **options)
    assert out.status == "done" and out.text.endswith("the end"), out.error
    await kept(out, model)
    return out


def asked(model: ScriptedModel) -> list[w.Request]:
    return [request for request in model.requests if not is_summary(request)]


def summaries(model: ScriptedModel) -> list[w.Request]:
    return [request for request in model.requests if is_summary(request)]


def views(out: Any) -> list[Reshaped]:
    return [entry for entry in out.entries if type(entry) is Reshaped]


def window(turns: int) -> dict[str, Any]:
    return {"type": "sliding-window", "max_turns": turns}


def summarize(tokens: int, **more: Any) -> dict[str, Any]:
    return {"type": "summarize", "max_tokens": tokens, **more}


def custom(compress: Any) -> dict[str, Any]:
    return {"type": "custom", "compress": compress}


# --------------------------------------------------------------------------- the window


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", [window(2), w.SlidingWindow(max_turns=2)])
async def test_a_window_shows_the_task_and_the_last_turns(door: str, form: Any):
    model = busy(9)
    out = await ran(model, door, context_strategy=form)
    words = [said(request) for request in model.requests]
    assert words[2] == [TASK, "noted step 1", "noted step 2"], "two turns fit"
    assert words[3] == [TASK, NOTICE.format(1), "noted step 2", "noted step 3"]
    assert words[-1] == [TASK, NOTICE.format(7), "noted step 8", "noted step 9"]
    assert all(len(request.messages) <= 6 for request in model.requests)
    assert {view.why for view in views(out)} == {"window"}


async def test_the_result_has_all_messages_however_many_were_cut():
    out = await ran(busy(9), context_strategy=window(1))
    assert [m.role for m in out.messages] == ["assistant", "tool"] * 9 + ["assistant"]
    results = [block.text for m in out.messages for block in m.content if hasattr(block, "outcome")]
    assert results == [f"noted step {n}" for n in range(1, 10)]
    assert len(out.tool_calls) == 9


async def test_the_journal_keeps_everything():
    out = await ran(busy(9), context_strategy=window(1))
    results = [e.result.text for e in out.entries if type(e) is ToolResulted]
    assert results == [f"noted step {n}" for n in range(1, 10)]


@pytest.mark.parametrize("turns", [0, -1, -(2**63)])
async def test_a_window_of_nothing_is_off(turns: int):
    model = busy(9)
    out = await ran(model, context_strategy=window(turns))
    assert len(model.requests[-1].messages) == 19 and not views(out)


async def test_a_window_that_is_off_leaves_compaction_on():
    model = busy(30)
    out = await ran(model, context_strategy=window(0), compact_threshold=100, compaction="truncate")
    assert any(type(e) is Compacted for e in out.entries)


async def test_a_call_never_loses_its_result():
    """Whatever stands between rounds: `kept` looks at every request."""

    class Nag(w.Policy[None]):
        async def before_turn(self, run: w.Run) -> None:
            if run.iteration % 3 == 2:
                run.say("go on", "nag")

    for turns in range(1, 5):
        model = busy(14)
        await ran(model, context_strategy=window(turns), policies=[Nag()])
        most = max(len(request.messages) for request in model.requests)
        assert most <= 2 * turns + 1 + 2, "a round at the edge stays whole, and no more"


async def test_what_has_no_answer_yet_is_never_cut():
    class Chatty(w.Policy[None]):
        async def before_turn(self, run: w.Run) -> None:
            if run.iteration == 2:
                for number in range(5):
                    run.say(f"word {number}", "nag")

    model = busy(4)
    await ran(model, context_strategy=window(1), policies=[Chatty()])
    assert said(model.requests[2])[-5:] == [f"word {number}" for number in range(5)]


async def test_instructions_and_what_is_pinned_stay():
    old = [
        Message("user", "hello"),
        Message("assistant", "hi"),
        Message("user", "Budget: 12 apples.", "pinned"),
        Message("assistant", "ok"),
        Message("system", "Be kind."),
        Message("user", "so"),
        Message("assistant", "yes"),
    ]
    model = busy(4)
    await w.agent_loop(TASK, model=model, tools=[note], messages=old, context_strategy=window(1))
    words = said(model.requests[-1])
    assert words == ["hello", "Budget: 12 apples.", "Be kind.", NOTICE.format(6), "noted step 4"]


async def test_the_first_turn_is_asked_with_all_of_it():
    old = [Message("user" if n % 2 == 0 else "assistant", f"m{n}") for n in range(20)]
    model = busy(2)
    await w.agent_loop(TASK, model=model, tools=[note], messages=old, context_strategy=window(2))
    assert len(model.requests[0].messages) == 21
    assert said(model.requests[1])[:2] == ["m0", NOTICE.format(9)]


async def test_a_chat_is_one_conversation():
    """Runs of one turn each, on one session: the window slides from the second on."""
    model = scripted(then=lambda r: "ok")
    agent = w.Agent(model, context_strategy=window(2))
    session = (await w.agent_session_open("chat")).id
    for number in range(6):
        out = await agent.run(f"question {number}", session_id=session)
    assert said(model.requests[0]) == ["question 0"]
    assert said(model.requests[-1]) == [
        "question 0",
        NOTICE.format(3),
        "ok",
        "question 4",
        "ok",
        "question 5",
    ]
    assert [m.text for m in out.messages] == ["ok"], "what is new is what this run added"


async def test_a_session_that_was_reset_counts_anew():
    model = scripted(then=lambda r: "ok")
    session = (await w.agent_session_open("chat")).id
    for number in range(6):
        await w.agent_loop(
            f"q{number}", model=model, session_id=session, context_strategy=window(1)
        )
    await w.agent_session_reset(session)
    for number in range(3):
        await w.agent_loop(
            f"p{number}", model=model, session_id=session, context_strategy=window(1)
        )
    assert said(model.requests[-1]) == ["p0", NOTICE.format(1), "ok", "p2"]


# --------------------------------------------------------------------------- the summary


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", [summarize(25), w.Summarize(max_tokens=25)])
async def test_the_older_half_becomes_a_summary(door: str, form: Any):
    model = busy(9)
    out = await ran(model, door, context_strategy=form)
    first = next(at for at, r in enumerate(model.requests) if is_summary(r))
    before, question, after = model.requests[first - 1 : first + 2]
    assert before.messages[0].text == after.messages[0].text == TASK
    assert after.messages[1].text == "[Conversation summary]\napples were counted"
    assert (after.messages[1].role, after.messages[1].kind) == ("user", "summary")
    grown = len(before.messages) + 2  # a round came on top
    old = (grown - 1) // 2 // 2 * 2
    assert len(after.messages) == grown - old + 1
    assert question.tools == () and "noted step 1" in question.messages[0].text
    assert question.settings.stream is False and question.system == before.system
    assert {view.why for view in views(out)} == {"summary"}


async def test_its_tokens_count():
    plain, model = busy(9), busy(9)
    one = await ran(plain, context_strategy=window(0))
    two = await ran(model, context_strategy=summarize(25))
    calls = [e for e in two.entries if type(e) is Replied]
    assert len(calls) == len(model.requests) == 10 + len(summaries(model)) > 10
    assert one.usage.total_tokens and two.turns == one.turns == 10, "no turn was taken by it"
    phases: list[str | None] = []
    agent = w.Agent(busy(9), tools=[note], context_strategy=summarize(25))
    await agent.run(TASK, on_trace=lambda event: phases.append(event.phase))
    assert phases.count("summary") == len(summaries(model))


async def test_below_the_limit_nothing_happens():
    model = busy(9)
    await ran(model, context_strategy=summarize(10_000))
    assert not summaries(model) and len(model.requests[-1].messages) == 19


async def test_the_limit_is_an_estimate_of_characters_over_four():
    def model() -> ScriptedModel:
        return busy(3)

    await ran(probe := model(), context_strategy=summarize(10_000))
    size = w.estimate_tokens(list(probe.requests[2].messages))
    await ran(at := model(), context_strategy=summarize(size))
    await ran(above := model(), context_strategy=summarize(size - 1))
    assert not any(is_summary(r) for r in at.requests[:3])
    assert is_summary(above.requests[2])


async def test_fewer_than_four_messages_are_left_alone():
    model = busy(1)
    await ran(model, context_strategy=summarize(1))
    assert not summaries(model)


@pytest.mark.parametrize("nothing", ["", "  \n"])
async def test_an_empty_summary_says_so(nothing: str):
    model = busy(5, notes=nothing)
    await ran(model, context_strategy=summarize(25))
    assert any("[Conversation summary unavailable]" in said(r) for r in asked(model))
    assert not any("[Conversation summary]" in text for r in asked(model) for text in said(r))


async def test_another_model_may_write_it():
    writer, model = scripted(then=lambda r: "by another"), busy(6)
    strategy = summarize(25, summary_model=writer)
    out = await w.Agent(
        model, tools=[note], context_strategy=strategy, temperature=0.3, max_tokens=900
    ).run(TASK)
    assert out.status == "done" and not summaries(model) and writer.requests
    assert any("[Conversation summary]\nby another" in said(r) for r in model.requests)
    settings = writer.requests[0].settings
    assert (settings.temperature, settings.max_tokens) == (0.3, 900)


async def test_the_settings_are_those_of_the_run_but_for_tools():
    model = busy(6)
    out = await w.Agent(
        model,
        system="Be brief.",
        tools=[note],
        context_strategy=summarize(25),
        temperature=0.3,
        tool_choice="auto",
    ).run(TASK)
    assert out.status == "done"
    question = summaries(model)[0]
    assert (question.settings.temperature, question.settings.tool_choice) == (0.3, None)
    assert (question.system, question.tools) == ("Be brief.", ())


async def test_a_summary_that_cannot_be_written_loses_nothing():
    def reply(request: w.Request) -> Any:
        if is_summary(request):
            raise w.errors.ServerError("down")
        done = steps(request) + 1
        return "the end" if done > 4 else call("note", text=f"step {done}")

    model = scripted(then=reply)
    out = await w.agent_loop(TASK, model=model, tools=[note], context_strategy=summarize(5))
    assert out.status == "done" and not views(out)
    assert len(model.requests[-1].messages) == 9
    failed = [e for e in out.entries if type(e) is ReplyFailed]
    assert {e.purpose for e in failed} == {"summary"} and len(failed) == 3, "once in a turn"


async def test_a_budget_that_is_spent_ends_the_run_and_not_the_history():
    model = busy(20)
    out = await w.agent_loop(
        TASK,
        model=model,
        tools=[note],
        context_strategy=summarize(25),
        budget={"tokens": 3_000},
        llm_options={"max_tokens": 40},
    )
    assert out.status in ("budget_exhausted", "done")
    await kept(out, model)


async def test_the_same_half_is_never_summarised_twice():
    """The session's record has the answer to that very question."""
    model = busy(4)
    session = (await w.agent_session_open("s")).id
    for _ in range(2):
        out = await w.agent_loop(
            TASK, model=model, tools=[note], session_id=session, context_strategy=summarize(10)
        )
        assert out.status == "done"
        await w.agent_session_reset(session)
    texts = [r.messages[0].text for r in summaries(model)]
    assert texts and len(texts) == len(set(texts)), "the second run found them all on record"
    assert len(views(out)) == len(texts), "and used them"


async def test_a_summary_alone_is_not_summarised_again():
    big = "x" * 4_000

    @w.tool(side_effect_level="none")
    async def look(n: int) -> str:
        """Look."""
        return f"noted step {n} {big}"

    def reply(request: w.Request) -> Any:
        if is_summary(request):
            return "short"
        return "the end" if steps(request) >= 5 else call("look", n=steps(request) + 1)

    model = scripted(then=reply)
    out = await w.agent_loop(TASK, model=model, tools=[look], context_strategy=summarize(50))
    assert out.status == "done"
    for request in summaries(model):
        assert '"role":"assistant"' in request.messages[0].text


async def test_pictures_are_not_written_out():
    data = "iVBORw0KGgo" * 200
    old = [
        Message("user", "look"),
        Message("assistant", "yes"),
        Message("user", (Text("this one"), Image(data))),
        Message("assistant", "I see"),
    ]
    model = busy(3)
    await w.agent_loop(TASK, model=model, tools=[note], messages=old, context_strategy=summarize(5))
    words = summaries(model)[0].messages[0].text
    assert data[:40] not in words and "this one" in words and "image/png" in words


# --------------------------------------------------------------------------- your own


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("waits", [False, True])
async def test_a_function_says_what_the_model_sees(door: str, waits: bool):
    seen: list[tuple[list[Message], int]] = []

    def compress(messages: list[Message], tokens: int) -> list[Message]:
        seen.append((list(messages), tokens))
        return [messages[0], Message("user", f"{len(messages)} so far"), *messages[-2:]]

    async def later(messages: list[Message], tokens: int) -> list[Message]:
        return compress(messages, tokens)

    model = busy(4)
    form = w.CustomStrategy(compress=later) if waits else custom(compress)
    out = await ran(model, door, context_strategy=form)
    assert len(seen) == 4, "before every turn but the first"
    assert all(tokens == w.estimate_tokens(messages) for messages, tokens in seen)
    assert said(model.requests[-1]) == [TASK, "6 so far", "noted step 4"]
    assert {view.why for view in views(out)} == {"custom"}


async def test_what_it_leaves_as_it_is_changes_nothing():
    model = busy(4)
    out = await ran(model, context_strategy=custom(lambda messages, tokens: messages))
    assert not views(out) and len(model.requests[-1].messages) == 9


async def test_it_may_answer_dicts():
    def compress(messages: list[Message], tokens: int) -> Any:
        return ({"role": "user", "content": "noted step 9"},)

    model = busy(9)
    await ran(model, context_strategy=custom(compress))
    assert said(model.requests[1]) == ["noted step 9"]


async def test_calls_that_it_tears_from_their_results_are_mended():
    model = busy(4)
    out = await w.Agent(
        model, tools=[note], context_strategy=custom(lambda messages, tokens: messages[-3:])
    ).run(TASK)
    assert out.status == "done"
    await kept(out, model)
    problems = [e for e in out.entries if type(e) is HistoryRepaired]
    assert problems and "answers no call" in problems[0].problems[0]


def _ring() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    "answer",
    [
        [{"role": "user", "content": _ring()}],
        None,
        [],
        (),
        "text",
        3,
        ["text"],
        [3],
        [None],
        {"role": "user"},
        [{"content": "x"}],
        [{"role": "boss", "content": "x"}],
        [{"role": "user", "content": 3}],
        [Message("user", (ToolCall("c", "n", {"x": object()}),))],
    ],
)
async def test_anything_else_fails_the_run(answer: Any):
    model = busy(4)
    out = await w.agent_loop(
        TASK, model=model, tools=[note], context_strategy=custom(lambda messages, tokens: answer)
    )
    assert out.status == "failed" and len(model.requests) == 1
    assert "context_strategy.compress" in (out.error or {})["message"]


async def test_results_without_their_calls_are_nothing():
    model = busy(4)
    out = await w.agent_loop(
        TASK, model=model, tools=[note], context_strategy=custom(lambda messages, n: messages[-1:])
    )
    assert out.status == "failed" and "leaves nothing" in (out.error or {})["message"]


async def test_its_own_error_fails_the_run():
    def compress(messages: Any, tokens: int) -> Any:
        raise ZeroDivisionError("no")

    out = await w.agent_loop(TASK, model=busy(4), tools=[note], context_strategy=custom(compress))
    assert out.status == "failed" and "no" in (out.error or {})["message"]


# --------------------------------------------------------------------------- in place of compaction


@pytest.mark.parametrize("strategy", [window(2), summarize(9_000), custom(lambda m, n: m)])
async def test_a_strategy_takes_the_place_of_compaction(strategy: dict[str, Any]):
    def reply(request: w.Request) -> Any:
        done = steps(request) + 1
        return "the end" if done > 6 else call("note", text=f"step {done} " + "x" * 40_000)

    model = scripted(then=reply)
    model.context_window = 50_000
    out = await w.agent_loop(
        TASK, model=model, tools=[note], await_resumption=False, context_strategy=strategy
    )
    assert not any(type(e) is Compacted for e in out.entries)
    assert all(tool.name == "note" for r in model.requests for tool in r.tools)


@pytest.mark.parametrize("off", [{"compaction": False}, {"compact_strategy": "none"}])
async def test_compaction_may_be_off_in_words(off: dict[str, Any]):
    model = busy(5)
    await ran(model, context_strategy=window(1), **off)
    assert len(model.requests[-1].messages) == 4


# --------------------------------------------------------------------------- options

_BAD: list[tuple[Any, str]] = [
    ("sliding-window", "a dict with a type"),
    (True, "a dict"),
    (3, "a dict"),
    ([], "a dict"),
    ({}, "has no type"),
    ({"max_turns": 3}, "has no type"),
    ({"type": "sliding_window", "max_turns": 3}, "sliding-window"),
    ({"type": None}, "type"),
    ({"type": "sliding-window"}, "needs max_turns"),
    (window("3"), "max_turns"),  # pyright: ignore[reportArgumentType]
    (window(1.5), "max_turns"),
    (window(True), "max_turns"),  # pyright: ignore[reportArgumentType]
    ({**window(3), "maxTurns": 3}, "max_turns"),
    ({**window(3), "max_tokens": 3}, "'summarize'"),
    ({"type": "summarize"}, "needs max_tokens"),
    (summarize(0), "max_tokens"),
    (summarize(9, summary_model=""), "summary_model"),
    (summarize(9, summary_model=3), "summary_model"),
    (summarize(9, compress=print), "'custom'"),
    (summarize(9, summary="x"), "summary_model"),
    ({"type": "custom"}, "needs compress"),
    (custom(None), "compress"),
    (custom("x"), "function"),
    (summarize(9, summary_model="nobody:nothing"), "nobody"),
    (w.Summarize(max_tokens=0), "max_tokens"),
]


@pytest.mark.parametrize(("strategy", "words"), _BAD)
async def test_what_cannot_be_is_refused_before_any_call(strategy: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop("go", model=model, context_strategy=strategy)
    with pytest.raises(w.ConfigError, match="context_strategy"):
        await w.Agent(model, context_strategy=strategy).run("go")
    assert not model.requests


@pytest.mark.parametrize(
    "also", [{"compaction": True}, {"compact_threshold": 9}, {"auto_compact": {"keep_last_n": 2}}]
)
async def test_two_ways_at_once_are_refused(also: dict[str, Any]):
    with pytest.raises(w.ConfigError, match="context_strategy and compaction"):
        await w.agent_loop("go", model=scripted("x"), context_strategy=window(2), **also)


async def test_none_is_nothing():
    model = busy(9)
    out = await ran(model, context_strategy=None)
    assert not views(out)


# --------------------------------------------------------------------------- killed anywhere


def _compress(messages: list[Message], tokens: int) -> list[Message]:
    """Never twice the same on its own answer: it must not be asked again in a turn."""
    return [messages[0], Message("user", f"{len(messages)} / {tokens}"), *messages[-2:]]


@pytest.mark.parametrize(
    "strategy",
    [window(1), window(3), summarize(12), summarize(40), custom(_compress), custom(lambda m, n: m)],
)
async def test_killed_anywhere_it_goes_on_with_the_same_requests(strategy: dict[str, Any]):
    def agent() -> tuple[w.Agent[Any, Any], ScriptedModel]:
        model = busy(9)
        return w.Agent(model, tools=[note], max_turns=30, context_strategy=strategy), model

    whole, model = agent()
    out = await whole.run(TASK)
    assert out.status == "done"
    sent = list(model.requests)
    entries = [e for e in out.entries if type(e) is not SessionOpened]
    begin = next(at for at, e in enumerate(entries) if type(e) is IterationStart)
    for cut in range(begin, len(entries) - 1):
        if type(entries[cut]) is Reshaped and type(entries[cut - 1]) is not IterationStart:
            continue  # what a strategy remembers and does is one row of the journal
        replies = sum(type(e) is Replied for e in entries[:cut])
        async with w.Runtime(store="memory:", environ={}) as runtime:
            await written(runtime.store, "s", entries[:cut])
            again, model = agent()
            resumed = await again.resume("s")
            assert resumed.status == "done"
            ours = [(list(r.messages), r.frame, r.tail) for r in model.requests]
            theirs = [(list(r.messages), r.frame, r.tail) for r in sent[replies:]]
            assert ours == theirs, entries[cut - 1]


async def test_what_was_said_is_in_the_journal_word_for_word():
    out = await ran(busy(9), context_strategy=window(1))
    heard = [e.message for e in out.entries if type(e) is Said]
    assert [m.text for m in heard] == [TASK]
    assert not any(isinstance(b, ToolResult) for m in heard for b in m.content)

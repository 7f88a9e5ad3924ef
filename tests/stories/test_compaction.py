"""What a long run no longer needs leaves the view, on the record; the journal keeps everything."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept, own_tools, said, written
from windlass.events import (
    Compacted,
    Event,
    FeedbackInjected,
    IterationStart,
    Noted,
    Replied,
    ReplyFailed,
    Reshaped,
    SessionOpened,
    ToolResulted,
    TranscriptCompacted,
)
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.testing import ScriptedModel, call, scripted
from windlass.usage import Usage

TASK = "Find the total. Never touch prod."
NOTES = "NOTES: steps were taken"
PAGE = "lorem ipsum " * 300  # about 900 tokens


@w.tool(side_effect_level="none")
async def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


@w.tool(side_effect_level="none")
async def look(n: int) -> str:
    """Look at a page: a long one."""
    return f"page {n}: fact-{n} is {n * 7}.\n" + PAGE


def is_summary(request: w.Request) -> bool:
    return "the notes that take the place" in (request.system or "") or (
        "Write the notes." in request.messages[-1].text
    )


def steps(request: w.Request) -> int:
    """How many steps the last result tells of."""
    for message in reversed(request.messages):
        for block in message.content:
            found = _STEP.search(block.text) if isinstance(block, ToolResult) else None
            if found is not None:
                return int(found[1])
    return 0


_STEP = re.compile(r"(?:noted step|page) (\d+)")


def busy(turns: int, tool: str = "note", notes: Any = NOTES, **options: Any) -> ScriptedModel:
    """A model that calls a tool so many times, and writes notes when it is asked to.

    What it says follows from the request alone, so that another can go on in its place.
    """

    def reply(request: w.Request) -> Any:
        if is_summary(request):
            return notes
        done = steps(request) + 1
        if done > turns:
            return "the end"
        return call("note", text=f"step {done}") if tool == "note" else call("look", n=done)

    return scripted(then=reply, **options)


def compactions(out: Any) -> list[Compacted]:
    return [entry for entry in out.entries if type(entry) is Compacted]


def asked(model: ScriptedModel) -> list[w.Request]:
    """The requests of the loop itself."""
    return [request for request in model.requests if not is_summary(request)]


def summaries(model: ScriptedModel) -> list[w.Request]:
    return [request for request in model.requests if is_summary(request)]


async def ran(model: ScriptedModel, **options: Any) -> w.LoopResult:
    out = await w.agent_loop(TASK, model=model, tools=[note, look], **options)
    assert out.status == "done" and out.final_text == "the end"
    await kept(out, model)
    return out


# --------------------------------------------------------------------------- strategies


async def test_a_long_run_is_summarised_and_goes_on():
    model = busy(40)
    out = await ran(model, compact_threshold=100)
    first = compactions(out)[0]
    assert (first.reason, first.strategy, first.engine_strategy) == ("threshold", "hybrid", "llm")
    assert first.estimated_tokens_before >= 100 > first.estimated_tokens_after
    sent = asked(model)[-1]
    assert sent.messages[0].text == TASK, "the task stays word for word"
    assert NOTES in sent.messages[1].text
    assert (sent.messages[1].role, sent.messages[1].kind) == ("user", "summary")
    assert all(len(request.messages) <= 40 for request in asked(model))


@pytest.mark.parametrize(
    "off",
    [
        {"compaction": False},
        {"compaction": "none"},
        {"compaction": {"strategy": "none"}},
        {"auto_compact": False},
        {"compact_strategy": "none"},
    ],
)
async def test_it_can_be_off(off: dict[str, Any]):
    model = busy(60, "look")
    out = await w.agent_loop(TASK, model=model, tools=[look], max_iterations=61, **off)
    assert not compactions(out) and not summaries(model)
    assert len(model.requests[-1].messages) == 121


async def test_by_default_a_view_of_48000_tokens_is_too_long():
    model = busy(60, "look", notes="unused")
    model.context_window = 1_000_000
    out = await w.agent_loop(TASK, model=model, tools=[look], max_iterations=61)
    assert out.status == "done"
    (only,) = compactions(out)
    assert (only.strategy, only.engine_strategy, only.threshold) == ("hybrid", "references", 48_000)
    assert 48_000 <= only.estimated_tokens_before < 55_000
    assert only.estimated_tokens_after < 24_000
    await kept(out, model)


async def test_truncate_asks_nobody():
    model = busy(40)
    out = await ran(model, compact_threshold=200, compaction="truncate", compact_keep_last=2)
    first = compactions(out)[0]
    assert (first.strategy, first.engine_strategy, first.cost_usd) == ("truncate", "truncate", 0)
    assert not summaries(model)
    view = next(e for e in out.entries if type(e) is Reshaped).messages[0].text
    assert "noted step 1" in view and f"... and {first.archived - 15} more" in view


async def test_summarize_middle_keeps_both_ends():
    model = busy(30)
    out = await ran(
        model,
        compact_threshold=150,
        compact_strategy="summarize_middle",
        compact_keep_first=3,
        compact_keep_last=4,
    )
    (first, *_) = compactions(out)
    assert (first.strategy, first.engine_strategy) == ("summarize_middle", "llm")
    at = next(i for i, r in enumerate(asked(model)) if any(m.kind == "summary" for m in r.messages))
    before, after = asked(model)[at - 1].messages, asked(model)[at].messages
    assert list(after[:3]) == list(before[:3]) and NOTES in after[3].text
    kept_last = [m.text or m.content[0] for m in after[4:]]
    assert len(kept_last) == 4


async def test_summarize_all_keeps_the_task_and_what_is_new():
    model = busy(20)
    out = await ran(model, compact_threshold=100, compaction="summarize_all")
    assert compactions(out)[0].strategy == "summarize_all"
    at = next(i for i, r in enumerate(asked(model)) if any(m.kind == "summary" for m in r.messages))
    sent = asked(model)[at].messages
    assert [m.role for m in sent] == ["user", "user", "assistant", "tool"]
    assert sent[0].text == TASK and sent[1].kind == "summary"


async def test_a_function_writes_the_summary():
    seen: list[Any] = []

    def callback(archived: list[Message], reminders: list[Message], policy: Any) -> Any:
        seen.append((archived, reminders, policy))
        return {"summary": f"resume with {policy.mode} over {len(archived)} messages"}

    model = busy(9)
    out = await ran(
        model,
        compact_threshold=1,
        compact_strategy="custom",
        auto_compact={"policy": w.compact_for_bug_fix_resumption({"author": "host"})},
        compact_callback=callback,
    )
    first = compactions(out)[0]
    assert (first.strategy, first.engine_strategy) == ("custom", "custom")
    assert (first.instruction_mode, first.instruction_source) == ("bug_fix_resumption", "host")
    assert first.compaction_policy and first.compaction_policy["author"] == "host"
    archived, reminders, policy = seen[0]
    assert isinstance(archived[0], Message) and reminders == []
    assert isinstance(policy, w.CompactionPolicy)
    words = [text for request in asked(model) for text in said(request)]
    assert any(f"over {len(archived)} messages" in text for text in words)
    assert not summaries(model)


@pytest.mark.parametrize("answer", ["in one word", {"summary": "in one word"}])
async def test_the_function_may_wait_and_answer_in_two_forms(answer: Any):
    async def callback(archived: Any, reminders: Any, policy: Any) -> Any:
        return answer

    model = busy(12)
    await ran(model, compact_threshold=1, compact_callback=callback)
    assert any("in one word" in text for text in said(asked(model)[-1]))


@pytest.mark.parametrize("answer", [None, "", {"summary": None}, {}])
async def test_a_function_that_says_nothing_leaves_the_short_form(answer: Any):
    model = busy(12)
    out = await ran(model, compact_threshold=1, compact_callback=lambda a, r, p: answer)
    assert compactions(out)[0].engine_strategy == "truncate"
    assert any("noted step 1" in text for text in said(asked(model)[-1]))


@pytest.mark.parametrize("answer", [3, {"summery": "x"}, {"summary": 3}])
async def test_a_function_that_says_something_else_fails_the_run(answer: Any):
    out = await w.agent_loop(
        TASK,
        model=busy(12),
        tools=[note],
        compact_threshold=1,
        compact_callback=lambda a, r, p: answer,
    )
    assert out.status == "failed" and "compact_callback" in (out.error or {})["message"]


async def test_the_function_sees_the_reminders():
    class Clock(w.Policy[None]):
        async def before_turn(self, run: w.Run) -> None:
            run.say("it is Tuesday", "time", ttl=1)

    seen: list[str] = []

    def callback(archived: Any, reminders: list[Message], policy: Any) -> str:
        seen.extend(message.text for message in reminders)
        return "short"

    model = busy(12)
    await w.agent_loop(
        TASK,
        model=model,
        tools=[note],
        compact_threshold=1,
        compact_callback=callback,
        policies=[Clock()],
    )
    assert set(seen) == {"it is Tuesday"}


# --------------------------------------------------------------------------- where it is cut


async def test_the_rest_begins_where_somebody_spoke():
    history = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two " * 100},
        {"role": "user", "content": "three"},
        {"role": "assistant", "content": "four"},
        {"role": "user", "content": "five"},
    ]
    archived: list[Message] = []

    def callback(gone: list[Message], reminders: Any, policy: Any) -> str:
        archived.extend(gone)
        return "short"

    model = scripted("end")
    await w.agent_loop(
        "go",
        model=model,
        messages=history,
        compact_threshold=1,
        compact_keep_last=2,
        compact_callback=callback,
    )
    assert [m.text for m in archived] == ["two " * 100], "what was said first stays, word for word"
    words = said(model.requests[0])
    assert words[0] == "one" and "short" in words[1] and words[2:] == ["three", "four", "five"]


async def test_what_the_caller_said_last_stays_word_for_word():
    model = busy(30)
    session = (await w.agent_session_open("s")).id
    await w.agent_loop("An old question.", model=scripted("An old answer."), session_id=session)
    out = await w.agent_loop(
        TASK, model=model, tools=[note], session_id=session, compact_threshold=100
    )
    assert compactions(out)
    words = said(asked(model)[-1])
    assert "An old question." in words and TASK in words
    assert "An old answer." not in words
    await kept(out)


async def test_pinned_messages_stay():
    pinned = Message("user", "Budget: 12 apples.", "pinned")
    old = [Message("user", "hello"), Message("assistant", "hi"), pinned, Message("assistant", "ok")]
    model = busy(20)
    await w.agent_loop(TASK, model=model, tools=[note], messages=old, compact_threshold=100)
    words = said(asked(model)[-1])
    assert "Budget: 12 apples." in words and NOTES in " ".join(words)


async def test_a_call_never_loses_its_result():
    model = busy(30)
    for last in range(8):
        await ran(model, compact_threshold=60, compact_keep_last=last)
        model = busy(30)


# --------------------------------------------------------------------------- results by reference


async def test_bulky_results_leave_before_prose_and_can_be_recalled():
    def reply(request: w.Request) -> Any:
        text = " ".join(said(request))
        if "fact-2 is 14" in text and "left the view" in text and "recalled" not in text:
            ids = [c.id for m in request.messages for c in m.tool_calls if c.arguments == {"n": 2}]
            if ids and not _recalled(request):
                return call("recall", id=ids[0])
        return "the end" if steps(request) >= 14 else call("look", n=steps(request) + 1)

    model = scripted(then=reply)
    out = await w.agent_loop(TASK, model=model, tools=[look], compact_threshold=6_000)
    assert out.status == "done"
    (first, *_) = compactions(out)
    assert first.engine_strategy == "references" and first.archived == 0 and first.shed > 500
    assert first.cost_usd == 0, "nobody had to write anything"
    view = next(e for e in out.entries if type(e) is Reshaped).messages
    old = [b for m in view for b in m.content if isinstance(b, ToolResult)]
    assert "left the view" in old[0].text and f'recall(id="{old[0].id}")' in old[0].text
    assert "fact-1 is 7" in old[0].text, "its beginning stays"
    back = [e for e in out.entries if type(e) is ToolResulted and e.tool == "recall"]
    assert back and "fact-2 is 14" in back[0].result.text and PAGE[:3000] in back[0].result.text
    await kept(out, model)


def _recalled(request: w.Request) -> bool:
    return any(c.name == "recall" for m in request.messages for c in m.tool_calls)


async def test_lines_that_look_like_findings_stay():
    @w.tool
    async def build() -> str:
        """Build it."""
        return "compiling\n" * 400 + "ERROR: undefined symbol frob\n" + "linking\n" * 400

    model = scripted(*[call("build")] * 8, "the end")
    out = await w.agent_loop(TASK, model=model, tools=[build], compact_threshold=10_000)
    first = next(e for e in out.entries if type(e) is Reshaped)
    results = [b.text for m in first.messages for b in m.content if isinstance(b, ToolResult)]
    assert all("ERROR: undefined symbol frob" in text for text in results if "left" in text)
    assert "left the view" in results[0] and len(results[0]) < 600


async def test_recall_looks_for_words():
    def reply(request: w.Request) -> Any:
        if is_summary(request):
            return "nothing much"
        if not _recalled(request) and any(m.kind == "summary" for m in request.messages):
            return call("recall", query="noted step 3")
        return "the end" if _recalled(request) else call("note", text=f"step {steps(request) + 1}")

    model = scripted(then=reply)
    out = await w.agent_loop(TASK, model=model, tools=[note], compact_threshold=100)
    found = next(e for e in out.entries if type(e) is ToolResulted and e.tool == "recall")
    assert "noted step 3" in found.result.text and "result of note, id=" in found.result.text
    await kept(out, model)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"id": "nope"}, "no call has the id"), ({}, "give the id"), ({"query": "zzz"}, "nothing in")],
)
async def test_recall_says_what_it_cannot_find(arguments: dict[str, Any], words: str):
    def reply(request: w.Request) -> Any:
        if is_summary(request):
            return "nothing much"
        if _recalled(request):
            return "the end"
        if any(m.kind == "summary" for m in request.messages):
            return ToolCall("", "recall", arguments)
        return call("note", text=f"step {steps(request) + 1}")

    out = await w.agent_loop(TASK, model=scripted(then=reply), tools=[note], compact_threshold=100)
    found = next(e for e in out.entries if type(e) is ToolResulted and e.tool == "recall")
    assert words in found.result.text


async def test_a_tool_of_yours_keeps_its_name():
    @w.tool
    async def recall(what: str) -> str:
        """Yours."""
        return "yours"

    model = busy(30)
    await w.agent_loop(
        TASK, model=model, tools=[note, recall], await_resumption=False, compact_threshold=100
    )
    names = [tool.name for tool in asked(model)[-1].tools]
    assert names == ["note", "recall", "recall_earlier"]


async def test_recall_can_be_denied():
    model = busy(30)
    agent = w.Agent(
        model, tools=[note], disallowed_tools=["recall"], compact_threshold=100, max_turns=40
    )
    out = await agent.run(TASK)
    assert compactions(out)
    assert [tool.name for tool in asked(model)[-1].tools] == ["note"]


async def test_a_reset_session_recalls_nothing():
    session = (await w.agent_session_open("s")).id
    await w.agent_loop(TASK, model=busy(30), tools=[note], session_id=session, compact_threshold=50)
    await w.agent_session_reset(session)
    model = scripted(call("recall", query="step 3"), "the end")
    out = await w.agent_loop("go", model=model, tools=[note], session_id=session, compaction=True)
    found = next(e for e in out.entries if type(e) is ToolResulted and e.tool == "recall")
    assert "nothing in the conversation" in found.result.text


@pytest.mark.parametrize("name", ["compaction", "auto_compact"])
async def test_keep_last_n_messages_stay(name: str):
    model = busy(30)
    await ran(model, compact_threshold=150, **{name: {"keep_last_n": 4}})
    at = next(i for i, r in enumerate(asked(model)) if any(m.kind == "summary" for m in r.messages))
    assert len(asked(model)[at].messages) == 2 + 4


async def test_where_calls_are_written_as_text():
    def reply(request: w.Request) -> Any:
        if is_summary(request):
            return NOTES
        done = len(re.findall("noted", " ".join(said(request))))
        if done >= 9 and NOTES in " ".join(said(request)):
            return "the end"
        return '<tool_call>{"name": "note", "arguments": {"text": "x"}}</tool_call>'

    model = scripted(then=reply, native_tools=False)
    out = await w.agent_loop(TASK, model=model, tools=[note], compact_threshold=150)
    assert out.status == "done" and compactions(out)
    assert "recall" in (asked(model)[-1].system or ""), "it is taught the new tool too"
    await kept(out, model, text=True)


async def test_a_model_without_tools_is_not_given_one():
    history = [Message(role, f"{n} " * 40) for n in range(10) for role in ("user", "assistant")]
    model = scripted("notes", "the end", native_tools=False)
    out = await w.agent_loop(
        TASK, model=model, messages=[*history, Message("user", "go")], compact_threshold=100
    )
    assert compactions(out) and not model.requests[-1].tools and not model.requests[-1].system
    model = scripted("notes", "the end")
    out = await w.agent_loop(
        TASK, model=model, messages=[*history, Message("user", "go")], compact_threshold=100
    )
    assert [tool.name for tool in own_tools(model.requests[-1])] == ["recall"]
    await kept(out, model)


async def test_a_secret_in_a_summary_is_not_written_down():
    async with w.Runtime(store="memory:", environ={}, secrets=("hunter2hunter2",)):
        model = busy(30, notes="the key is hunter2hunter2")
        out = await w.agent_loop(TASK, model=model, tools=[note], compact_threshold=100)
        assert compactions(out)
        assert "hunter2hunter2" not in repr(out.entries)
        assert "hunter2hunter2" not in repr([list(r.messages) for r in model.requests])


# --------------------------------------------------------------------------- instructions


def told(model: ScriptedModel) -> str:
    return summaries(model)[0].system or ""


DOORS = pytest.mark.parametrize("name", ["compaction", "auto_compact"])


@DOORS
async def test_instructions_are_added_to_the_rules_and_stay_with_the_host(name: str):
    policy = {
        "instructions": "Keep the apples.",
        "preserve": ["pears"],
        "drop": ["plums"],
        "author": "ann",
        "mode": "fruit",
    }
    model = busy(30)
    out = await ran(model, compact_threshold=100, **{name: {"policy": policy}})
    assert "Keep the apples." in told(model) and "every condition" in told(model)
    assert "- pears" in told(model) and "- plums" in told(model)
    assert not any("apples" in text for request in asked(model) for text in said(request))
    first = compactions(out)[0]
    assert (first.instruction_mode, first.instruction_source) == ("fruit", "ann")
    assert first.compaction_policy is not None
    assert first.compaction_policy["instructions"] == "Keep the apples."


@DOORS
async def test_instructions_may_stand_in_place_of_the_rules(name: str):
    policy = w.compaction_policy(instructions="Only apples.", extend_default_instructions=False)
    model = busy(30)
    out = await ran(model, compact_threshold=100, **{name: {"compaction_policy": policy}})
    assert "Only apples." in told(model) and "every condition" not in told(model)
    first = compactions(out)[0]
    assert (first.instruction_mode, first.instruction_source) == ("replace", "caller")


@DOORS
@pytest.mark.parametrize("scope", ["model_visible", "summary", "transcript"])
async def test_instructions_are_copied_into_the_summary_where_their_scope_says_so(
    name: str, scope: str
):
    model = busy(30)
    policy = w.CompactionPolicy(instructions="Keep the apples.", scope=scope)
    await ran(model, compact_threshold=100, **{name: {"policy": policy}})
    assert any("apples" in text for text in said(asked(model)[-1]))


@pytest.mark.parametrize(
    "make",
    [
        w.compact_for_bug_fix_resumption,
        w.compact_retaining_current_plan,
        w.compact_preserving_test_failures,
    ],
)
def test_the_helpers_make_policies(make: Any):
    policy = make(author="host", preserve=["my own"], mode="other")
    assert (policy.author, policy.mode, policy.scope) == ("host", "other", "host")
    assert policy.preserve[-1] == "my own" and len(policy.preserve) > 2 and policy.instructions
    assert make() == make({}) != make({"author": "x"})
    with pytest.raises(w.ConfigError, match="'author'"):
        make(autor="x")
    with pytest.raises(w.ConfigError, match="dict"):
        make("host")


# --------------------------------------------------------------------------- the writer


async def test_the_writer_gets_no_tools_and_its_tokens_count():
    model = busy(20, usage=Usage(10, 5))
    out = await ran(model, compact_threshold=100)
    (request, *_) = summaries(model)
    assert request.tools == () and "noted step 1" in request.messages[0].text
    own = [e for e in out.entries if type(e) is Replied and e.purpose == "compaction"]
    assert len(own) == len(summaries(model)) >= 1
    assert out.llm.input_tokens == 10 * len(model.requests)
    assert out.llm.iterations == len(asked(model))


@pytest.mark.parametrize("notes", [w.BadRequest("down"), "", "  "])
async def test_a_writer_that_fails_leaves_the_short_form(notes: Any):
    model = busy(20, notes=notes)
    out = await w.agent_loop(TASK, model=model, tools=[note], compact_threshold=120)
    assert out.status == "done"
    assert compactions(out)[0].engine_strategy == "truncate"
    failed = [e for e in out.entries if type(e) is ReplyFailed]
    assert len(failed) == (len(summaries(model)) if isinstance(notes, Exception) else 0)


async def test_a_summary_longer_than_what_it_stands_for_is_cut_down():
    model = busy(30, notes="words " * 5_000)
    out = await ran(model, compact_threshold=170, compact_keep_last=2)
    first = compactions(out)[0]
    assert first.engine_strategy == "llm" and first.estimated_tokens_after < 170
    assert all(len(text) < 700 for text in said(asked(model)[-1]))


async def test_no_turn_is_compacted_again_until_it_has_grown():
    model = busy(60)
    out = await w.agent_loop(
        TASK, model=model, tools=[note], compact_threshold=30, max_iterations=61
    )
    done = compactions(out)
    assert done[0].shortfall is not None, "ten messages alone are more than that"
    for one, next_ in zip(done, done[1:], strict=False):
        assert next_.estimated_tokens_before >= 1.25 * one.estimated_tokens_after
    assert len(done) < 20
    await kept(out, model)


async def test_a_run_says_once_why_nothing_can_be_done():
    model = scripted(*[call("note", text=f"step {n}") for n in range(3)], "the end")
    out = await w.agent_loop("x" * 400, model=model, tools=[note], compact_threshold=50)
    notes = [e for e in out.entries if type(e) is Noted and e.name == "compaction_stopped"]
    assert len(notes) == 1 and notes[0].data["threshold"] == 50
    assert not compactions(out)
    await kept(out, model)


async def test_a_budget_that_has_no_room_for_a_summary_does_not_keep_it_from_happening():
    model = busy(20, usage=Usage(10, 5))
    out = await w.agent_loop(
        TASK, model=model, tools=[note], compact_threshold=100, token_budget=200
    )
    assert out.status == "budget_exhausted"
    await kept(out, model)


async def test_a_caller_that_is_told_its_turn_is_told_all_the_same():
    model = busy(30)
    out = await w.agent_loop(
        TASK,
        model=model,
        tools=[note],
        await_resumption=False,
        compact_threshold=100,
        llm_caller=w.with_logging(),
    )
    assert out.status == "done" and compactions(out)
    assert [tool.name for tool in asked(model)[-1].tools] == ["note", "recall"]
    await kept(out, model)


# --------------------------------------------------------------------------- windows and overflow


async def test_a_small_window_lowers_the_threshold():
    model = busy(12, "look")
    model.context_window = 8_000
    out = await w.agent_loop(TASK, model=model, tools=[look])
    assert out.status == "done"
    first = compactions(out)[0]
    assert first.reason == "window" and first.threshold <= 6_000
    assert all(w.estimate_tokens(list(r.messages)) < 8_000 for r in model.requests)
    await kept(out, model)


async def test_the_providers_own_count_is_believed():
    model = busy(20, usage=Usage(90_000, 500))
    model.context_window = 100_000
    out = await w.agent_loop(TASK, model=model, tools=[note], max_tokens=10_000)
    assert compactions(out)[0].reason == "window"
    await kept(out, model)


def narrow(model: ScriptedModel, most: int) -> ScriptedModel:
    """The model refuses what is longer than so many tokens."""
    then = model.then

    def reply(request: w.Request) -> Any:
        if w.estimate_tokens(list(request.messages)) > most:
            return w.ContextOverflow("too long")
        assert callable(then)
        return then(request)

    model.then = reply
    return model


async def test_an_overflow_is_mended_in_the_middle_of_a_run():
    model = narrow(busy(12, "look"), 5_000)
    out = await w.agent_loop(TASK, model=model, tools=[look], compaction=True)
    assert out.status == "done", out.error
    done = compactions(out)
    assert done[0].reason == "overflow"
    assert len([one for one in done if one.reason == "overflow"]) == 1, "it has learnt its limit"
    await kept(out, model)


async def test_an_overflow_of_prose_is_mended_too():
    model = narrow(busy(40), 300)
    out = await w.agent_loop(TASK, model=model, tools=[note], compaction=True)
    assert out.status == "done", out.error
    assert compactions(out)[0].reason == "overflow"
    await kept(out, model)


async def test_what_cannot_be_made_smaller_fails_at_once():
    model = scripted(then=w.ContextOverflow("too long"))
    out = await w.agent_loop(TASK, model=model)
    assert out.status == "provider_error" and len(model.requests) == 1
    history = [Message("user", "a" * 9_000), Message("assistant", "b" * 9_000)]
    model = scripted(then=lambda r: "notes" if is_summary(r) else w.ContextOverflow("too long"))
    out = await w.agent_loop(TASK, model=model, messages=history, compact_keep_last=0)
    assert out.status == "provider_error" and len(asked(model)) == 2
    await kept(out, model)


# --------------------------------------------------------------------------- prices


class Priced(ScriptedModel):
    """Three dollars a million, a tenth of it from the cache, a quarter more into it."""

    def price(self, usage: Usage) -> float:
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        dollars = fresh * 3 + usage.cache_read_tokens * 0.3 + usage.cache_write_tokens * 3.75
        return (dollars + usage.output_tokens * 15) / 1_000_000


def priced(model: ScriptedModel) -> ScriptedModel:
    model.__class__ = Priced
    return model


async def test_each_compaction_says_what_it_costs_and_saves():
    model = priced(busy(40, usage=Usage(1_000, 5, cache_read_tokens=900)))
    out = await ran(model, compact_threshold=100)
    first, second = compactions(out)[:2]
    own = next(e for e in out.entries if type(e) is Replied and e.purpose == "compaction")
    assert first.cost_usd == own.cost_usd > 0
    assert first.cache_usd > 0 and first.saves_usd > 0
    assert second.cache_usd < first.cache_usd, "the first brings a tool, and the frame is new too"


async def test_a_cached_view_waits_until_a_summary_pays():
    """At 48,000 tokens there is room; the summary costs what some turns would save."""

    def agent(read: int) -> ScriptedModel:
        turn = iter(range(1, 10_000))

        def reply(request: w.Request) -> Any:
            n = next(turn)
            return NOTES if is_summary(request) else [Text("x" * 16_000), call("note", text=str(n))]

        model = priced(scripted(then=reply, usage=Usage(50_000, 5, cache_read_tokens=read)))
        model.context_window = 400_000
        return model

    outs = [
        await w.agent_loop(TASK, model=agent(read), tools=[note], max_iterations=30)
        for read in (0, 49_000)
    ]
    at_once, later = (compactions(out)[0] for out in outs)
    assert at_once.estimated_tokens_before < 56_000 < later.estimated_tokens_before < 200_000


async def test_a_chat_looks_at_prices_by_the_turns_of_its_session():
    """Every run of it is one turn: that is not how long it will go on."""

    async def first_cut(read: int) -> tuple[Compacted, int]:
        session = (await w.agent_session_open(f"chat-{read}")).id
        usage = Usage(50_000, 5, cache_read_tokens=read)
        model = priced(
            scripted(then=lambda r: NOTES if is_summary(r) else "x" * 8_000, usage=usage)
        )
        model.context_window = 1_000_000
        for turn in range(1, 120):
            out = await w.agent_loop("y" * 8_000, model=model, session_id=session)
            if done := compactions(out):
                return done[0], turn
        raise AssertionError("it was never cut")

    (at_once, early), (later, late) = await first_cut(0), await first_cut(49_000)
    assert at_once.estimated_tokens_before < 56_000 < later.estimated_tokens_before < 400_000
    assert early < late < 100


# --------------------------------------------------------------------------- on the record


async def test_it_is_an_event_as_it_happens_and_in_the_transcript():
    seen: list[Event] = []
    model = busy(30)
    out = await ran(model, compact_threshold=100, on_event=seen.append)
    live = [event for event in seen if type(event) is TranscriptCompacted]
    assert len(live) == len(compactions(out)) >= 1
    told_ = [e for e in out.transcript["events"] if e["kind"] == "compaction"][0]["data"]
    assert {
        "reason",
        "strategy",
        "engine_strategy",
        "estimated_tokens_before",
        "estimated_tokens_after",
        "instruction_mode",
        "instruction_source",
        "compaction_policy",
    } <= set(told_)
    assert (live[0].reason, live[0].estimated_tokens_after) == (
        told_["reason"],
        told_["estimated_tokens_after"],
    )
    assert NOTES in out.transcript["summary"]
    json.dumps(out.transcript)


async def test_the_journal_keeps_everything():
    out = await ran(busy(30), compact_threshold=100)
    results = [e.result.text for e in out.entries if type(e) is ToolResulted]
    assert [f"noted step {n}" for n in range(1, 31)] == [r for r in results if "noted" in r]


@pytest.mark.parametrize(
    "options",
    [
        {"compact_threshold": 60},
        {"compact_threshold": 3_000, "tool": "look"},
        {"narrow": 200, "turns": 22},
        {"narrow": 4_000, "tool": "look"},
        {"usage": Usage(90_000, 500), "turns": 16},
    ],
)
async def test_killed_anywhere_it_goes_on_with_the_same_requests(options: dict[str, Any]):
    tool, most = options.get("tool", "note"), options.get("narrow")
    threshold = options.get("compact_threshold")

    def agent() -> tuple[w.Agent[Any, Any], ScriptedModel]:
        model = busy(options.get("turns", 14), tool, usage=options.get("usage", Usage(10, 5)))
        if most is not None:
            narrow(model, most)
        if "usage" in options:  # the provider's own count fills the window
            model.context_window = 100_000
        return w.Agent(
            model, tools=[note, look], max_turns=30, compact_threshold=threshold, compaction=True
        ), model

    whole, model = agent()
    out = await whole.run(TASK)
    assert out.status == "done" and compactions(out)
    sent = list(model.requests)
    entries = [e for e in out.entries if type(e) is not SessionOpened]
    begin = next(at for at, e in enumerate(entries) if type(e) is IterationStart)
    for cut in range(begin, len(entries) - 1):
        if type(entries[cut - 1]) in (Reshaped, Compacted):
            continue  # what a compaction does is one row of the journal
        replies = sum(type(e) is Replied for e in entries[:cut])
        async with w.Runtime(store="memory:", environ={}) as runtime:
            await written(runtime.store, "s", entries[:cut])
            again, model = agent()
            resumed = await again.resume("s")
            assert resumed.status == "done"
            ours = [r for r in model.requests if _answered(r, most)]
            theirs = [r for r in sent if _answered(r, most)][replies:]
            assert [_plain(r) for r in ours] == [_plain(r) for r in theirs], entries[cut - 1]


def _answered(request: w.Request, most: int | None) -> bool:
    return most is None or w.estimate_tokens(list(request.messages)) <= most


def _plain(request: w.Request) -> Any:
    return list(request.messages), request.frame, request.tail


# --------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compaction": "hybird"}, "hybrid"),
        ({"compaction": 3}, "compaction"),
        ({"compaction": {"strategy": "x"}}, "compaction.strategy"),
        ({"compaction": {"keep_lastn": 1}}, "keep_last_n"),
        ({"compaction": {"keep_last_n": -1}}, "keep_last_n"),
        ({"compaction": {"policy": {"instruction": "x"}}}, "instructions"),
        ({"compaction": {"policy": 3}}, "policy"),
        ({"compaction": {"policy": {}, "compaction_policy": {}}}, "the same"),
        ({"compact_threshold": 0}, "compact_threshold"),
        ({"compact_threshold": "1"}, "threshold"),
        ({"compact_keep_first": -1}, "compact_keep_first"),
        ({"compact_keep_last": 1.5}, "keep_last"),
        ({"compact_strategy": "custom"}, "compact_callback"),
        ({"compact_callback": 3}, "function"),
        ({"compact_strategy": "hybrid", "compact_callback": print}, "custom"),
        ({"compaction": "hybrid", "compact_strategy": "truncate"}, "different"),
        ({"compaction": {"keep_last_n": 1}, "compact_keep_last": 2}, "different"),
        ({"compaction": False, "compact_threshold": 9}, "off"),
        ({"compaction": {"strategy": "none", "keep_last_n": 3}}, "off"),
        ({"auto_compact": "often"}, "often"),
        ({"compact_treshold": 3}, "compact_threshold"),
    ],
)
async def test_what_cannot_be_is_refused_before_any_call(options: dict[str, Any], words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop(TASK, model=model, **options)
    assert not model.requests


@pytest.mark.parametrize(
    "same",
    [
        {"compaction": True},
        {"auto_compact": True},
        {"compaction": {}},
        {"compaction": {"strategy": "hybrid", "keep_last_n": 10}},
        {"compaction": w.Compaction(strategy="hybrid")},
        {"auto_compact": {"strategy": "hybrid"}},
        {"compact_strategy": "hybrid", "compact_keep_last": 10},
    ],
)
async def test_the_default_in_other_words(same: dict[str, Any]):
    default, other = busy(30), busy(30)
    await ran(default, compact_threshold=100)
    await ran(other, compact_threshold=100, **same)
    assert [_plain(r) for r in default.requests] == [_plain(r) for r in other.requests]


async def test_words_that_policies_say_are_summarised_like_all_others():
    class Nag(w.Policy[None]):
        async def before_turn(self, run: w.Run) -> None:
            run.say("go on", "nag")

    model = busy(20)
    out = await w.agent_loop(
        TASK, model=model, tools=[note], compact_threshold=150, policies=[Nag()]
    )
    assert out.status == "done" and compactions(out)
    nags = sum(type(e) is FeedbackInjected for e in out.entries)
    assert said(asked(model)[-1]).count("go on") < nags
    await kept(out, model)

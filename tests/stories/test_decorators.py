"""Messages are shown with something added; each is decorated once, and what is stored is as it was."""

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
from windlass import seams
from windlass.engine.environment import current_store
from windlass.events import Compacted, Decorated, IterationStart, Replied, Reshaped
from windlass.loop.requests import requests_of
from windlass.messages import Image, Message, Text, ToolResult
from windlass.models.base import View
from windlass.testing import call, scripted


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as a list of one number that a test may move."""
    time = [1_700_000_000.0]  # 2023-11-14T22:13:20Z
    monkeypatch.setattr(seams, "now", lambda: time[0])
    return time


def three() -> Any:
    return scripted(call("add", a=1, b=2), call("note", text="three"), "done")


async def looped(model: Any, **options: Any) -> Any:
    out = await w.agent_loop("Add things.", model=model, tools=[add, note], **options)
    await kept(out, model)
    return out


def numbered(message: Message, context: Any) -> Message:
    """Every text with the place of its message."""
    blocks = [
        Text(f"#{context.index} {b.text}") if isinstance(b, Text) else b for b in message.content
    ]
    return Message(message.role, tuple(blocks), message.kind)


# --------------------------------------------------------------------------- message_decorator


async def test_each_message_is_decorated_once_and_told_about(clock: list[float]):
    asked: list[tuple[str, Any]] = []

    def decorator(message: Message, context: Any) -> Any:
        clock[0] += 60
        asked.append((message.role, context))

    out = await looped(three(), message_decorator=decorator)
    assert [role for role, _ in asked] == ["user", "assistant", "tool", "assistant", "tool"]
    assert [context.index for _, context in asked] == [0, 1, 2, 3, 4]
    assert [context.iteration for _, context in asked] == [0, 1, 1, 2, 2]
    assert {context.session_id for _, context in asked} == {out.session_id}
    assert asked[0][1].timestamp == "2023-11-14T22:13:20Z"
    assert asked[1][1].timestamp == asked[2][1].timestamp == "2023-11-14T22:14:20Z"
    with pytest.raises(AttributeError, match="'session_id'"):
        _ = asked[0][1].sesion_id


async def test_what_it_answers_is_shown_and_not_stored():
    model = three()
    out = await looped(model, message_decorator=numbered)
    assert [m.text for m in model.requests[-1].messages][0] == "#0 Add things."
    assert out.all_messages[0].text == "Add things."


async def test_an_async_decorator_answers_dicts():
    async def decorator(message: Message, context: Any) -> Any:
        return {"role": "user", "content": message.text.upper()} if message.role == "user" else None

    model = three()
    await looped(model, message_decorator=decorator)
    assert said(model.requests[-1]) == ["ADD THINGS.", "3", "noted three"]


async def test_the_kind_of_a_message_stays():
    kinds: list[str | None] = []

    def decorator(message: Message, context: Any) -> Any:
        if message.role == "user":
            kinds.append(message.kind)
            return {"role": "user", "content": message.text + "!"}
        return None

    model = scripted("half", "<done>##DONE##</done>")
    await w.agent_loop("go", model=model, loop_until_done=True, message_decorator=decorator)
    assert [m.kind for m in model.requests[-1].messages if m.role == "user"] == kinds
    assert kinds[-1] == "nudge"


async def test_the_prompts_beginning_stays_the_same_from_turn_to_turn():
    times: list[int] = []

    def decorator(message: Message, context: Any) -> Any:
        times.append(1)
        return numbered(message, context)

    model = scripted(then=lambda request: _many(request, 30))
    out = await looped(model, message_decorator=decorator, max_iterations=40)
    assert len(times) == 61
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert list(after.messages[: len(before.messages)]) == list(before.messages)
        assert type(after.messages) is View and after.messages.strand is before.messages.strand
    replies = [e for e in out.entries if type(e) is Replied]
    assert [len(e.rewritten or ()) for e in replies] == [1, *[2] * 30], (
        "only what is new is written"
    )
    assert [len(e.times) for e in out.entries if type(e) is Decorated] == [1, *[2] * 30]


def _many(request: w.Request, turns: int) -> Any:
    results = [b for m in request.messages for b in m.content if isinstance(b, ToolResult)]
    done = int(results[-1].text.split()[-1]) if results else 0
    return "done" if done >= turns else call("note", text=f"step {done + 1}")


async def test_after_a_compaction_only_what_is_new_is_decorated():
    asked: list[str] = []

    def decorator(message: Message, context: Any) -> Any:
        asked.append(message.text or f"{message.role} {message.content[0].id}")  # type: ignore[union-attr]
        return numbered(message, context)

    model = scripted(then=lambda request: _many(request, 12))
    out = await looped(
        model,
        message_decorator=decorator,
        compaction="truncate",
        compact_threshold=60,
        compact_keep_last=2,
    )
    summaries = [text for text in asked if text.startswith("[Notes")]
    assert summaries and len(asked) == len(set(asked)) == 25 + len(summaries)
    assert model.requests[-1].messages[0].text == "#0 Add things."
    assert out.status == "done"


async def test_what_a_callback_made_up_is_decorated_too_and_once():
    asked: list[str] = []

    def decorator(message: Message, context: Any) -> Any:
        if message.role == "user":
            asked.append(message.text)
            return {"role": "user", "content": f"{message.text} ({len(asked)})"}
        return None

    model = three()
    await looped(
        model,
        message_decorator=decorator,
        context_callback=lambda ctx: [{"role": "user", "content": "Be kind."}, *ctx.messages],
    )
    assert asked == ["Add things.", "Be kind."]
    assert said(model.requests[-1]) == ["Be kind. (2)", "Add things. (1)", "3", "noted three"]


async def test_a_budget_counts_what_is_shown():
    model = three()
    out = await looped(model, message_decorator=numbered, token_budget=100_000)
    assert out.status == "done"


async def test_a_later_run_of_the_session_asks_only_for_what_is_new():
    asked: list[str] = []

    def decorator(message: Message, context: Any) -> Any:
        asked.append(message.text)
        return numbered(message, context)

    first = await w.Agent(scripted("hello"), message_decorator=decorator).run("hi")
    model = scripted("again")
    await w.Agent(model, message_decorator=decorator).run("back", session_id=first.session_id)
    assert asked == ["hi", "hello", "back"]
    assert said(model.requests[0]) == ["#0 hi", "#1 hello", "#2 back"]
    plain = scripted("plain")
    await w.Agent(plain, timestamp_messages=False).run("and?", session_id=first.session_id)
    assert said(plain.requests[0])[0] == "hi", "what is off is off"


# --------------------------------------------------------------------------- timestamp_messages


async def test_messages_are_shown_with_their_time(clock: list[float]):
    @w.tool
    async def wait() -> str:
        """Wait an hour."""
        clock[0] += 3600
        return "waited"

    model = scripted(call("wait"), "done")
    out = await w.agent_loop("go", model=model, tools=[wait], timestamp_messages=True)
    assert said(model.requests[-1]) == [
        "[2023-11-14T22:13:20Z] go",
        "[2023-11-14T23:13:20Z] waited",
    ]
    assert out.all_messages[0].text == "go" and out.all_messages[2].content[0].text == "waited"
    await kept(out, model)


async def test_the_models_own_words_go_back_as_it_said_them(clock: list[float]):
    model = scripted("half", "<done>##DONE##</done>")
    await w.agent_loop("go", model=model, loop_until_done=True, timestamp_messages=True)
    assert model.requests[-1].messages[1].text == "half"


async def test_pictures_have_a_time_too(clock: list[float]):
    model = scripted("nice")
    await w.agent_loop(
        Message("user", (Image(url="http://x/y.png"),)), model=model, timestamp_messages=True
    )
    assert model.requests[0].messages[0].text == "[2023-11-14T22:13:20Z] "


async def test_a_result_of_several_parts_has_one_time(clock: list[float]):
    @w.tool
    async def look() -> ToolResult:
        """Look."""
        return ToolResult(content=(Text("a roof"), Image(url="http://x/y.png")))

    model = scripted(call("look"), "done")
    await w.agent_loop("go", model=model, tools=[look], timestamp_messages=True)
    content = model.requests[-1].messages[2].content[0].content
    assert [type(part) for part in content] == [Text, Text, Image]


async def test_off_by_itself():
    model = three()
    await looped(model, timestamp_messages=False)
    assert said(model.requests[0]) == ["Add things."]


async def test_a_decorator_and_the_time(clock: list[float]):
    model = three()
    await looped(model, timestamp_messages=True, message_decorator=numbered)
    assert model.requests[-1].messages[0].text == "[2023-11-14T22:13:20Z] #0 Add things."


async def test_what_was_said_before_anybody_looked_has_the_time_it_was_stored(clock: list[float]):
    agent = w.Agent(scripted("hello"))
    first = await agent.run("hi")
    clock[0] += 86_400
    model = scripted("again")
    await w.Agent(model, timestamp_messages=True).run("back", session_id=first.session_id)
    assert said(model.requests[0]) == [
        "[2023-11-14T22:13:20Z] hi",
        "hello",
        "[2023-11-15T22:13:20Z] back",
    ]


# --------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (3, "a Message or a dict"),
        ({"role": "assistant", "content": "x"}, "give it back with its role"),
        ({"role": "user", "content": [ToolResult("x", "y")]}, "the ids of its results"),
        ({"role": "usr", "content": "x"}, "'user'"),
        ({"role": "user", "content": "\ud800"}, "plain data"),
    ],
    ids=str,
)
async def test_a_wrong_answer_says_what_is_wrong_with_it(answer: Any, words: str):
    out = await w.agent_loop("go", model=scripted("never"), message_decorator=lambda m, c: answer)
    assert out.status == "failed" and words in out.error["message"]


@pytest.mark.parametrize("role", ["assistant", "tool"])
async def test_calls_and_results_stay(role: str):
    def decorator(message: Message, context: Any) -> Any:
        return {"role": role, "content": "gone"} if message.role == role else None

    out = await w.agent_loop("go", model=three(), tools=[add], message_decorator=decorator)
    assert (
        out.status == "failed" and "its tool calls, the ids of its results" in out.error["message"]
    )


async def test_what_it_raises_ends_the_run_on_record():
    def decorator(message: Message, context: Any) -> Any:
        raise RuntimeError("my mistake")

    out = await w.agent_loop("go", model=scripted("never"), message_decorator=decorator)
    assert out.status == "failed" and "my mistake" in out.error["message"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"message_decorator": "x"}, "message_decorator is a function"),
        ({"timestamp_messages": "yes"}, "timestamp_messages is True or False"),
    ],
    ids=str,
)
async def test_what_is_impossible_is_refused(options: Any, words: str):
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop("go", model=scripted("x"), **options)


# --------------------------------------------------------------------------- and after a crash


class Pure(w.Model):
    """Answers by how many turns it has had."""

    provider, name = "pure", "pure"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        calls = [call for message in request.messages for call in message.tool_calls]
        turn = int(calls[-1].id[1:]) + 1 if calls else 0
        if turn >= 4:
            return w.Response(w.Message("assistant", "all done"), w.Usage(10, 5))
        asked = w.ToolCall(f"c{turn}", "add", {"a": turn, "b": 1})
        return w.Response(w.Message("assistant", (asked,)), w.Usage(10, 5), "tool_use")


@pytest.mark.parametrize(
    "options",
    [
        {"compaction": False},
        {"compaction": "truncate", "compact_threshold": 25, "compact_keep_last": 2},
    ],
    ids=["whole", "compacted"],
)
async def test_killed_at_every_entry_it_sends_the_same_and_asks_nobody_again(
    clock: list[float], options: dict[str, Any]
):
    asked: list[tuple[str, int]] = []

    def agent() -> w.Agent[Any, Any]:
        def decorator(message: Message, context: Any) -> Any:
            asked.append((message.role, context.index))
            return numbered(message, context)

        return w.Agent(
            Pure(), tools=[add], message_decorator=decorator, timestamp_messages=True, **options
        )

    whole = await agent().run("go", session_id="whole")
    assert whole.status == "done", whole.stop_reason
    store = current_store()
    entries = list(await store.read("whole"))
    wanted = [(list(r.messages), r.frame, r.tail) for r in requests_of(entries)]
    everybody = list(asked)
    first = next(at for at, e in enumerate(entries) if type(e) is IterationStart)
    assert any(type(e) is Compacted for e in entries) is bool(options["compaction"])
    for cut in range(first + 1, len(entries) - 1):
        if type(entries[cut - 1]) in (Reshaped, Compacted):
            continue  # what a compaction does is one row of the journal
        name = f"cut-{cut}"
        asked.clear()
        clock[0] += 0.001  # the same second: what is stored now is stamped like what was
        await written(store, name, entries[:cut])
        out = await agent().resume(name)
        assert out.status == "done", (cut, out.status, out.error)
        again = [(list(r.messages), r.frame, r.tail) for r in requests_of(await store.read(name))]
        assert again == wanted, f"killed after {entries[cut - 1]!r:.80}"
        told = sum(len(e.times) for e in entries[:cut] if type(e) is Decorated)
        if not options["compaction"]:
            assert asked == everybody[told:], "what is on record is not asked again"
        assert asked == everybody[len(everybody) - len(asked) :]
        await kept(out)


async def test_a_decorated_message_keeps_its_time_when_the_run_goes_on_a_day_later(
    clock: list[float],
):
    def agent() -> w.Agent[Any, Any]:
        return w.Agent(Pure(), tools=[add], timestamp_messages=True)

    await agent().run("go", session_id="whole")
    store = current_store()
    entries = list(await store.read("whole"))
    cut = next(at for at, e in enumerate(entries) if type(e) is Decorated) + 1
    clock[0] += 86_400
    await written(store, "later", entries[:cut])
    await agent().resume("later")
    sent = requests_of(await store.read("later"))
    assert said(sent[-1])[:2] == ["[2023-11-14T22:13:20Z] go", "[2023-11-15T22:13:20Z] 1"]


async def test_tools_in_words_are_decorated_before_they_are_written_as_text(clock: list[float]):
    model = scripted(
        '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>',
        "<done>##DONE##</done>",
        native_tools=False,
    )
    out = await w.agent_loop(
        "go", model=model, tools=[add], loop_until_done=True, timestamp_messages=True
    )
    assert out.status == "done"
    assert "[2023-11-14T22:13:20Z] 3" in said(model.requests[-1])[-1]
    await kept(out, model, text=True)

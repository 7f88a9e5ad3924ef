"""The view is a fold of the journal."""

import pytest

from windlass.errors import Corrupt
from windlass.events import (
    InboxTaken,
    IterationEnd,
    IterationStart,
    Noted,
    Replied,
    Reshaped,
    SessionReset,
    ToolMessage,
    ToolResulted,
)
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.store.view import ViewFold, messages_of, whole
from windlass.testing.store_pieces import user
from windlass.usage import Usage


def reply(text="", *calls, purpose=None):
    blocks = (Text(text), *(ToolCall(call, "t", {}) for call in calls))
    stop = "tool_use" if calls else "end_turn"
    return Replied(Message("assistant", blocks), Usage(), stop, "mock", "m", 0, "f", purpose)


def done(call, text="ok"):
    return ToolResulted(call, "t", "ok", ToolResult(call, text, name="t"))


def texts(entries):
    return [(m.role, m.text or [b.text for b in m.content]) for m in messages_of(entries)]


def test_messages_append_and_results_join_in_the_order_asked():
    entries = [
        user("go"),
        IterationStart(1),
        reply("x", "a", "b"),
        done("b", "B"),
        done("a", "A"),
        ToolMessage(("a", "b")),
        IterationEnd(1, "keep_going"),
        reply("end"),
    ]
    assert texts(entries) == [
        ("user", "go"),
        ("assistant", "x"),
        ("tool", ["A", "B"]),
        ("assistant", "end"),
    ]


def test_what_the_model_sees_may_differ_from_what_the_tool_said():
    shown = {"a": ToolResult("a", "cut", name="t")}
    entries = [reply("x", "a", "b"), done("a", "long"), done("b"), ToolMessage(("a", "b"), shown)]
    assert texts(entries)[1] == ("tool", ["cut", "ok"])


def test_a_result_without_an_id_gets_its_calls():
    entries = [reply("x", "a"), ToolResulted("a", "t", "ok", ToolResult(content="1"))]
    view = messages_of([*entries, ToolMessage(("a",))])
    assert view[-1] == Message("tool", (ToolResult("a", "1", name="t"),))


def test_calls_for_a_purpose_are_not_part_of_the_view():
    assert texts([user("go"), reply("yes", purpose="judge"), Noted("x")]) == [("user", "go")]


def test_a_dropped_reply_leaves_what_was_said_after_it():
    entries = [user("go"), reply("bad"), user("try again"), IterationEnd(1, "dropped")]
    assert texts(entries) == [("user", "go"), ("user", "try again")]


def test_what_is_said_while_calls_are_open_is_heard_after_their_results():
    entries = [reply("x", "a"), user("hurry"), InboxTaken("i", "steer"), done("a")]
    assert texts(entries) == [("assistant", "x")]
    assert texts([*entries, ToolMessage(("a",))])[1:] == [("tool", ["ok"]), ("user", "hurry")]


def test_reshaping_and_resetting():
    entries = [user(str(n)) for n in range(5)]
    cut = Reshaped(1, 4, (Message("user", (Text("summary"),), "summary"),), "compaction")
    assert [text for _, text in texts([*entries, cut])] == ["0", "summary", "4"]
    assert texts([*entries, SessionReset(), user("new")]) == [("user", "new")]


def test_a_snapshot_stays_true_when_the_view_changes_its_past():
    fold = ViewFold().apply_all([user("a"), reply("b")])
    before = fold.messages
    for entry in (IterationEnd(1, "dropped"), Reshaped(0, 1, (), "trim"), SessionReset()):
        kept, copy = fold.messages, list(fold.messages)
        fold.apply(entry)
        assert fold.messages is not kept and kept == copy
    assert len(before) == 2


@pytest.mark.parametrize(
    "entry",
    [
        ToolMessage(("nobody",)),
        Reshaped(0, 9, (), "x"),
        Reshaped(2, 1, (), "x"),
        Reshaped(-1, 1, (), "x"),
    ],
)
def test_entries_that_do_not_fit_are_corrupt(entry):
    with pytest.raises(Corrupt):
        messages_of([user("a"), user("b"), entry])


def test_a_view_is_cut_at_whole_rounds():
    view = messages_of([user("go"), reply("x", "a"), done("a"), ToolMessage(("a",)), reply("end")])
    assert [whole(view, size) for size in range(6)] == [0, 1, 1, 3, 4, 4]

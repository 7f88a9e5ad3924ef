"""Whatever a host or a model writes: a pad is small, its facts have sources, and its words stay notes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import ConfigError
from windlass.events import IterationEnd, Replied, Said, SessionReset, ToolMessage, ToolResulted
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.policies.scratchpad.inbox import (
    apply_edit,
    edit,
    scratch_of,
    standing,
)
from windlass.policies.scratchpad.pad import (
    INITIAL,
    MOST,
    BadPad,
    Item,
    Pad,
    Ref,
    Scratch,
    as_data,
    read_pad,
    size_of,
)
from windlass.policies.scratchpad.recent import Recents, refs_of
from windlass.policies.scratchpad.render import asking, render_pad
from windlass.policies.scratchpad.reorganize import parse_pad
from windlass.store.base import InboxItem
from windlass.usage import NO_USAGE

IDS = st.sampled_from([INITIAL, "turn:1", "turn:2", "call_1", "ticket:7", "nowhere", ""])
WORDS = st.text(max_size=40) | st.sampled_from(
    ["</scratchpad>", "< /Scratchpad>", "a\nb", "x" * 9_000]
)
ITEM = st.fixed_dictionaries(
    {"text": WORDS}, optional={"source_ref": IDS | st.none(), "kind": st.just("more")}
)
ANYTHING = st.none() | st.integers() | WORDS | st.lists(st.integers(), max_size=2)
PART = st.lists(ITEM | ANYTHING, max_size=4) | ANYTHING
ANSWERS = st.dictionaries(
    st.sampled_from(["goals", "open_items", "facts", "refs", "schema", "other"]), PART
)
SOUND = st.lists(st.fixed_dictionaries({"text": WORDS, "source_ref": IDS}), max_size=4)
WHOLE = st.fixed_dictionaries({"goals": SOUND, "open_items": SOUND, "facts": SOUND}) | ANSWERS
KNOWN = {
    INITIAL: Ref(INITIAL, "user", None, "build a house"),
    "turn:1": Ref("turn:1", "user"),
    "turn:2": Ref("turn:2", "tool", "call_1"),
    "call_1": Ref("call_1", "tool_result", "note", "noted"),
}


def sound(pad: Pad) -> None:
    listed = [ref.id for ref in pad.refs]
    assert len(set(listed)) == len(listed) and size_of(pad) <= MOST
    assert all(item.text.strip() for item in pad.items)
    assert all(item.source_ref in listed for item in pad.facts)
    assert all(item.source_ref in (None, *listed) for item in pad.items)


@given(WHOLE)
def test_a_model_writes_a_sound_pad_or_none(answer: dict[str, Any]):
    try:
        pad = parse_pad(answer, KNOWN)
    except BadPad as error:
        assert error.wrong in ("shape", "ref", "size") and str(error)
        return
    sound(pad)
    assert all(KNOWN[ref.id].excerpt == ref.excerpt for ref in pad.refs), (
        "it cannot make sources up"
    )


@given(ANSWERS)
def test_a_host_writes_a_sound_pad_or_is_told_why_not(given_: dict[str, Any]):
    try:
        pad = read_pad(given_)
    except ConfigError as error:
        assert "\n" not in str(error) and len(str(error)) < 400
        return
    sound(pad)
    assert read_pad(as_data(pad)) == pad
    assert scratch_of(msgspec.to_builtins(Scratch(pad, 3))) == Scratch(pad, 3)


@given(st.lists(WORDS, min_size=1, max_size=5), WORDS)
def test_the_recitation_has_one_end_and_a_line_for_each_note(texts: list[str], label: str):
    pad = Pad(facts=tuple(Item(t, "a") for t in texts), refs=(Ref("a", "x", label, label),))
    message = render_pad(pad)
    assert message is not None and message.kind == "scratchpad"
    lines = message.text.split("\n")
    assert len(lines) == 2 + 1 + len(texts) + 1 + 1 + 1
    assert message.text.lower().count("scratchpad>") - message.text.count("‹") <= 2
    assert message.text.count("</scratchpad>") == 1


def test_an_empty_pad_is_not_recited():
    assert render_pad(Pad()) is None
    assert render_pad(Pad(refs=(Ref("a", "x"),))) is None


@given(WORDS)
def test_a_message_cannot_leave_its_line_in_the_question(words: str):
    recent = [("turn:1", Message("user", (Text(words),)))]
    question = asking(None, recent, ["turn:1"])
    assert len(question.split("\n")) == 2 + 1 + 1 + 1 + 1 + 1


def test_recent_messages_keep_their_numbers():
    def reply(text: str, *calls: ToolCall, purpose: str | None = None) -> Replied:
        message = Message("assistant", (Text(text), *calls))
        return Replied(message, NO_USAGE, "end", "p", "m", 0, "", purpose)

    result = ToolResult("c1", "long " * 90, False, "look")
    entries: list[Any] = [
        Said(Message("user", "hi")),
        reply("judged", purpose="judge"),
        reply("asks", ToolCall("c1", "look", {})),
        ToolResulted("c1", "look", "ok", result),
        ToolMessage(("c1",), {"c1": ToolResult("c1", "short", False, "look")}),
        reply("dropped"),
        IterationEnd(2, "dropped"),
        reply("kept"),
    ]
    recents = Recents(3)
    assert [name for name, _ in recents.up_to(entries[:3])] == ["turn:1", "turn:2"]
    recent = recents.up_to(entries)
    assert [name for name, _ in recent] == ["turn:2", "turn:3", "turn:5"]
    known = refs_of(Pad(refs=(Ref("turn:2", "mine"),)), recent)
    assert list(known) == ["turn:2", "turn:3", "turn:5", "c1"]
    assert known["turn:2"].kind == "mine"
    assert known["turn:3"] == Ref("turn:3", "tool", "c1")
    assert known["c1"] == Ref("c1", "tool_result", "look", "short"), "as the model saw it"
    assert recents.up_to([*entries, SessionReset(), reply("new")])[-1][0] == "turn:6"
    assert len(recents.up_to([*entries, SessionReset(), reply("new")])) == 1
    assert Recents(0).up_to(entries) == []


@pytest.mark.parametrize("expected", [None, 0, 4, 5])
def test_an_edit_is_of_the_version_that_it_names(expected: int | None):
    state, entry = apply_edit(Scratch(Pad(), 4), edit("set", {"goals": ["x"]}, expected))
    if expected in (None, 4):
        assert (state.version, entry.action, entry.counts["goals"]) == (5, "set", 1)
    else:
        assert (state.version, entry.action) == (4, "refused")


def test_what_is_in_the_inbox_is_read_in_its_order():
    mail = [
        InboxItem("1", "memory", edit("set", {"goals": ["a"]})),
        InboxItem("2", "steer", "hello"),
        InboxItem("3", "memory", {"policy": "another", "pad": {}}),
        InboxItem("4", "memory", edit("set", {"goals": ["b"]}, 1)),
        InboxItem("5", "memory", edit("clear", None, 1)),
        InboxItem("6", "memory", "nothing"),
    ]
    state = standing([], mail)
    assert state.version == 2 and state.pad is not None and state.pad.goals == (Item("b"),)

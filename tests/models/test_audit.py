"""The rule of one result for each call: what breaks it is named, and any history can be mended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.messages import Message, Opaque, Origin, Text, ToolCall, ToolResult
from windlass.models.base import Model, Request, Response, Strand, silent
from windlass.models.history import Auditing, audit, repair


def asks(*ids: str) -> Message:
    return Message("assistant", tuple(ToolCall(id, "f", {}) for id in ids))


def answers(*ids: str) -> Message:
    return Message("tool", tuple(ToolResult(id, "r") for id in ids))


USER = Message("user", "hi")
SAYS = Message("assistant", "hello")


def test_what_is_right() -> None:
    assert audit([USER]) == []
    assert audit([]) == []
    assert audit([USER, asks("a", "b"), answers("b", "a"), SAYS, USER]) == []
    assert audit([USER, SAYS], tail=[USER]) == []
    mixed = Message("user", (ToolResult("a", "r"), Text("and")))
    assert audit([USER, asks("a"), mixed]) == []


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ([USER, asks("a")], "'a' has no result"),
        ([USER, asks("a"), USER], "'a' has no result"),
        ([USER, asks("a"), SAYS, answers("a")], "'a' has no result"),
        ([USER, asks("a", "b"), answers("a")], "'b' has no result"),
        ([USER, answers("a")], "answers no call"),
        ([USER, asks("a"), answers("a", "x")], "'x' answers no call"),
        ([USER, asks("a"), answers("a", "a")], "two results"),
        ([USER, asks("a"), answers("a"), asks("a"), answers("a")], "used twice"),
        ([USER, asks("a", "a"), answers("a")], "used twice"),
        ([USER, SAYS], "own words"),
        ([answers("a"), USER], "answers no call"),
    ],
)
def test_what_is_wrong(history: list[Message], words: str) -> None:
    problems = audit(history)
    assert any(words in problem for problem in problems), problems
    mended, found = repair(history)
    assert found == problems and audit(mended) == []


def test_a_paused_turn_may_end_the_request() -> None:
    paused = Message("assistant", (Opaque(Origin("anthropic", "m"), {"type": "server_tool_use"}),))
    assert audit([USER, paused]) == []


def test_only_what_is_new_is_looked_at() -> None:
    strand = Strand([USER, asks("old"), USER, asks("a"), answers("a")])
    view = strand.snapshot()
    assert audit(view, 3) == []
    assert len(audit(view)) == 1
    strand.items += [asks("b"), USER]
    assert audit(strand.snapshot(), 5) == ["message 5: call 'b' has no result"]
    assert audit(strand.snapshot(), 6) == ["message 5: call 'b' has no result"]


def test_ids_are_remembered_across_looks() -> None:
    seen: set[str] = set()
    history = [USER, asks("a"), answers("a")]
    assert audit(history, seen=seen) == []
    history += [asks("a"), answers("a")]
    assert audit(history, 3) == []
    assert audit(history, 3, seen=seen) == ["message 3: call id 'a' is used twice"]


def test_mending_says_what_nobody_knows() -> None:
    mended, _ = repair([USER, asks("a", "b"), answers("b"), USER])
    results = mended[2].content
    assert [r.id for r in results if isinstance(r, ToolResult)] == ["a", "b"]
    assert isinstance(results[0], ToolResult)
    assert results[0].outcome == "interrupted" and results[0].is_error
    assert isinstance(results[1], ToolResult) and results[1].content == "r"


blocks = st.sampled_from(["a", "b", "c", ""])
messages = st.one_of(
    st.lists(blocks, max_size=3).map(
        lambda ids: Message("assistant", (Text("t"), *asks(*ids).content))
    ),
    st.lists(blocks, max_size=3).map(lambda ids: answers(*ids)),
    st.lists(blocks, max_size=2).map(
        lambda ids: Message("user", (*answers(*ids).content, Text("u")))
    ),
)


@given(st.lists(messages, max_size=10))
def test_any_history_can_be_mended(history: list[Message]) -> None:
    mended, problems = repair(history)
    assert audit(mended) == []
    assert repair(mended) == (mended, [])
    assert repair(history)[0] == mended
    if not problems:
        assert mended == history
    words = [m.text for m in history if m.text]
    assert [m.text for m in mended if m.text and m.kind != "repair"] == words


class Parrot(Model):
    async def respond(self, request: Request, emit: object) -> Response:
        return Response(Message("assistant", "hi"))


async def test_a_model_that_refuses_a_broken_request() -> None:
    model = Auditing(Parrot())
    assert (await model.respond(Request([USER]), silent)).message.text == "hi"
    with pytest.raises(AssertionError, match="'a' has no result"):
        await model.respond(Request([USER, asks("a")]), silent)

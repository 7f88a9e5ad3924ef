"""Any history, any projection: what is left is a shorter request that every provider takes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass as w
from tests.models.test_any_history import DOORS
from tests.policies.compaction.test_any_view import EXAMPLES, VIEWS, legal, stays
from windlass import seams
from windlass.events import Projected, Reshaped, Said
from windlass.loop.requests import requests_of
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.models.estimates import weigh_messages
from windlass.models.history import audit
from windlass.policies.compaction.cut import find_pinned, fresh
from windlass.policies.projection.edits import WORTH, Edit, choose_edits
from windlass.policies.projection.failures import Failures, remove_repaired, squash_failures
from windlass.policies.projection.prefix import summarize_prefix
from windlass.policies.projection.reachability import (
    Bodies,
    Roots,
    collect_unreachable,
    roots_of,
    shed_by,
)
from windlass.policies.view_rewrite import whole
from windlass.store.view import messages_of
from windlass.testing import scripted

OUTCOMES = ["ok", "error", "retry", "invalid", "unknown_tool", "denied", "timeout", "interrupted"]
KINDS = ["clean_tool_repair", "squash_failed_calls", "summary_prefix", "reachability_gc"]


@pytest.fixture(autouse=True, scope="module")
def _strict() -> Iterator[None]:
    before, seams.strict = seams.strict, True
    yield
    seams.strict = before


@st.composite
def stumbling(draw: st.DrawFn) -> list[Message]:
    """A history in which calls fail, and are mended or not."""
    messages = [Message("user", "Sort the apples. Never the pears.")]
    for number in range(draw(st.integers(0, 12))):
        match draw(st.sampled_from(["round", "round", "round", "chat", "nag", "notes"])):
            case "round":
                messages += draw(rounds(number))
            case "chat":
                messages += [Message("user", "q " * 40), Message("assistant", "a " * 40)]
            case "notes":
                messages.append(Message("user", "[Notes] so far", "summary"))
            case _:
                kind = draw(st.sampled_from(["nag", "pinned", "steer", None]))
                messages.append(Message("user", "go on", kind))
    if messages[-1].role == "assistant":
        messages.append(Message("user", "and now?"))
    return messages


@st.composite
def rounds(draw: st.DrawFn, number: int) -> list[Message]:
    names = draw(st.lists(st.sampled_from(["add", "look"]), min_size=1, max_size=3))
    calls = [
        ToolCall(f"r{number}_{n}", name, {"path": f"src/{n}.py"}) for n, name in enumerate(names)
    ]
    results: list[ToolResult] = []
    for one in calls:
        outcome = draw(st.sampled_from(OUTCOMES))
        size = draw(st.sampled_from([0, 10, 400, 3_000]))
        text = "it was so: " * (size // 11 + 1)
        results.append(
            ToolResult(one.id, text[:size], outcome != "ok", one.name, outcome=outcome)  # type: ignore[arg-type]
        )
    words = (Text("Let me see."),) if draw(st.booleans()) else ()
    return [Message("assistant", (*words, *calls)), Message("tool", tuple(results))]


ALL = st.one_of(stumbling(), VIEWS)


def proposed(kind: str, view: Sequence[Message], keep: int, least: int) -> list[Edit]:
    stop = max(0, min(len(view) - keep, fresh(view)))
    failures = Failures().read(view)
    match kind:
        case "clean_tool_repair":
            return remove_repaired(view, failures)
        case "squash_failed_calls":
            return squash_failures(view, failures, stop, keep, "recall")
        case "summary_prefix":
            return summarize_prefix(view, keep, least, None, "recall")
        case _:
            return collect_unreachable(
                view, Bodies(300).read(view), roots_of(view, stop, None, (), ()), stop, "recall"
            )


def made(view: Sequence[Message], edits: Sequence[Edit]) -> list[Message]:
    new = list(view)
    for one in reversed(edits):
        new[one.start : one.stop] = one.messages
    return new


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    messages=ALL,
    keep=st.integers(0, 8),
    least=st.integers(0, 500),
    wire=st.sampled_from(sorted(DOORS)),
)
def test_any_projection_leaves_a_shorter_legal_view(
    kind: str, messages: list[Message], keep: int, least: int, wire: str
) -> None:
    before = list(messages)
    edits = proposed(kind, messages, keep, least)
    assert [one.start for one in edits] == sorted({one.start for one in edits})
    assert all(a.stop <= b.start for a, b in zip(edits, edits[1:], strict=False))
    for part in {tuple(edits), tuple(choose_edits(messages, edits, fresh(messages), least))}:
        view = made(messages, part)
        assert not audit(view)
        stays(messages, view)
        legal(view, wire)
        assert weigh_messages(view) == weigh_messages(messages) - sum(one.saved for one in part)
        assert not part or weigh_messages(view) < weigh_messages(messages)
        assert all(one.stop <= fresh(messages) for one in part), "what is new stays"
        seen = {b.id for m in view for b in m.content if isinstance(b, ToolResult)}
        assert set(shed_by(messages, part)) <= seen
    assert messages == before
    grave = [
        b.id
        for m in messages
        for b in m.content
        if isinstance(b, ToolResult) and b.outcome in ("denied", "timeout", "interrupted")
    ]
    if kind in ("clean_tool_repair", "squash_failed_calls"):
        left = {
            b.id: b for m in made(messages, edits) for b in m.content if isinstance(b, ToolResult)
        }
        assert set(grave) <= set(left), "what must not be asked again stays in sight"


@settings(max_examples=EXAMPLES, deadline=None)
@given(messages=stumbling(), cut=st.integers(0, 30))
def test_reading_in_two_goes_is_reading_at_once(messages: list[Message], cut: int):
    once, twice = Failures().read(messages), Failures()
    twice.read(messages[:cut])
    twice.read(messages)
    assert (once.chains, once.open, once.mixed) == (twice.chains, twice.open, twice.mixed)


@settings(max_examples=EXAMPLES, deadline=None)
@given(messages=stumbling(), least=st.integers(0, 2_000))
def test_what_is_chosen_is_worth_it(messages: list[Message], least: int):
    begin = fresh(messages)
    edits = proposed("squash_failed_calls", messages, 0, 0)
    part = choose_edits(messages, edits, begin, least)
    if part:
        saved = sum(one.saved for one in part)
        anew = weigh_messages(messages[part[0].start : begin]) - saved
        assert saved // 4 >= least and saved * WORTH >= anew
        assert list(part) == edits[-len(part) :]


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(messages=ALL, wire=st.sampled_from(sorted(DOORS)), data=st.data(), tail=st.booleans())
def test_whatever_a_function_leaves_is_made_whole(
    messages: list[Message], wire: str, data: st.DataObject, tail: bool
) -> None:
    some = data.draw(st.lists(st.sampled_from(messages), min_size=1, max_size=12))
    after = (Message("user", "Mind the pears."),) if tail else ()
    view = list(whole(some, messages, after))
    assert not audit(view, tail=after)
    called = {call.id for message in view for call in message.tool_calls}
    assert called == {call.id for message in some for call in message.tool_calls}
    for message in some:
        if message.role == "user":
            assert message in view
    assert list(whole(view, messages, after)) == view, "what is whole stays as it is"
    if any(m.text.strip() and m.role != "system" for m in some):  # else it is refused
        legal([*view, *after], wire)


@settings(max_examples=EXAMPLES, deadline=None)
@given(messages=ALL, kind=st.sampled_from(KINDS), wire=st.sampled_from(sorted(DOORS)))
def test_any_run_keeps_the_journal(messages: list[Message], kind: str, wire: str) -> None:
    out, model, entries = asyncio.run(_run(messages, kind))
    assert out.status == "done", out.error
    view = list(model.requests[-1].messages)
    assert not audit(view)
    stays(messages, view)
    legal(view, wire)
    assert [e.message for e in entries if type(e) is Said] == messages
    assert messages_of(entries)[:-1] == view
    assert [list(r.messages) for r in requests_of(entries)] == [view]
    assert weigh_messages(view) <= weigh_messages(messages)
    assert any(type(e) is Reshaped for e in entries) == any(type(e) is Projected for e in entries)


async def _run(messages: list[Message], kind: str) -> Any:
    model = scripted(then="ok")
    async with w.Runtime(store="memory:", environ={}) as runtime:
        out = await w.agent_loop(
            "go", model=model, messages=messages, transcript_projection=kind, compaction=False
        )
        entries = list(await runtime.store.read(out.session_id))
        await runtime.store.verify(out.session_id)
    return out, model, entries


def test_a_root_reaches_by_id_and_by_telling_words():
    result = ToolResult("c1", "x", name="look")
    call = ToolCall("c1", "look", {"path": "src/a.py", "deep": {"also": ["docs/b.md", "abc"]}})
    assert Roots(["see c1"]).reach(result, None)
    assert Roots([], frozenset({"c1"})).reach(result, None)
    assert Roots(["read src/a.py"]).reach(result, call)
    assert Roots(["read docs/b.md"]).reach(result, call)
    assert not Roots(["abc"]).reach(result, call), "too short to tell anything"
    assert not Roots(["src/b.py"]).reach(result, call)
    assert find_pinned([Message("user", "x")]) == {0}

"""Any history, any strategy, any budget: what is left is a request that every provider takes."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass as w
from tests.models.test_any_history import DOORS, TOOLS, asked_of, histories, turns
from windlass import seams
from windlass.events import Compacted, JournalEntry, Noted, Replied, Said
from windlass.loop.requests import requests_of
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.models.base import Frame, Request, Settings
from windlass.models.estimates import estimate_messages
from windlass.models.history import audit
from windlass.policies.compaction.cut import (
    Cut,
    build_replacement,
    cut_of,
    find_pinned,
    fresh,
    messages_to_archive,
    render_messages,
    shed,
    shed_until,
    truncate_messages,
)
from windlass.store.view import messages_of
from windlass.testing import scripted
from windlass.testing.providers import Rejected

EXAMPLES = int(os.environ.get("WINDLASS_EXAMPLES", "30"))
TASK = Message("user", "Sort the apples. Never the pears.")


@pytest.fixture(autouse=True, scope="module")
def _strict() -> Iterator[None]:
    before, seams.strict = seams.strict, True
    yield
    seams.strict = before


@st.composite
def bulky(draw: st.DrawFn, number: int) -> list[Message]:
    """A round whose results may be very long."""
    calls = [ToolCall(f"b{number}_{n}", "add", {"a": n}) for n in range(draw(st.integers(1, 3)))]
    sizes = [draw(st.sampled_from([0, 5, 1_999, 2_001, 9_000])) for _ in calls]
    lines = draw(st.sampled_from(["lorem ipsum\n", "ü 東京 ", "ERROR: no\n"]))
    results = [
        ToolResult(c.id, (lines * (n // len(lines) + 1))[:n], False, c.name)
        for c, n in zip(calls, sizes, strict=True)
    ]
    words = (Text("Let me look."),) if draw(st.booleans()) else ()
    return [Message("assistant", (*words, *calls)), Message("tool", tuple(results))]


@st.composite
def long_histories(draw: st.DrawFn) -> list[Message]:
    """What a session may hold before a request: legal, and of any length."""
    middle: list[Message] = []
    for number in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(["bulky", "any", "chat", "nag"]))
        if kind == "bulky":
            middle += draw(bulky(number))
        elif kind == "any":
            middle += draw(turns(number, 30))
        elif kind == "chat":
            middle += [
                Message("user", f"q{number} " * 50),
                Message("assistant", f"a{number} " * 50),
            ]
        else:
            middle.append(
                Message("user", "go on", draw(st.sampled_from(["nag", "pinned", "steer"])))
            )
    end = [] if middle and middle[-1].role == "tool" else [Message("user", "and now?")]
    return [TASK, *middle, *end]


VIEWS = st.one_of(long_histories(), histories(30))


def legal(messages: list[Message], wire: str) -> None:
    """One provider's own rules."""
    server, model = DOORS[wire]
    frame = Frame("Be brief.", TOOLS, Settings(max_tokens=9_000))
    asked = asked_of(model, Request(messages, frame))
    try:
        server.check(asked)
    except Rejected as problem:
        pytest.fail(f"{wire} refuses it: {problem.message}\n{json.dumps(asked.json)[:3_000]}")


def stays(messages: list[Message], view: list[Message]) -> None:
    """Whatever is pinned is there, word for word and in its order."""
    at = -1
    for place in sorted(find_pinned(messages)):
        at = next(
            (i for i in range(at + 1, len(view)) if view[i] == messages[place]),
            len(view),
        )
        assert at < len(view), f"{messages[place]!r:.80} is gone"


@pytest.mark.parametrize("wire", DOORS)
@settings(max_examples=EXAMPLES)
@given(messages=VIEWS, first=st.integers(0, 12), last=st.integers(0, 12))
def test_any_cut_leaves_a_legal_view(
    wire: str, messages: list[Message], first: int, last: int
) -> None:
    cut = cut_of(messages, first, last)
    if cut is None:
        return
    assert first <= cut.start < cut.stop <= fresh(messages) <= len(messages)
    assert len(messages) - cut.stop >= min(last, len(messages))
    new = build_replacement(messages, cut, "a summary")
    view = [*messages[: cut.start], *new, *messages[cut.stop :]]
    assert not audit(view)
    stays(messages, view)
    legal(view, wire)
    assert len(messages_to_archive(messages, cut)) + len(new) - 1 == cut.stop - cut.start
    before = list(messages)
    slim = shed(messages, cut, "recall")
    if slim is not None:
        view = [*messages[: cut.start], *slim, *messages[cut.stop :]]
        assert estimate_messages(view) < estimate_messages(messages) and not audit(view)
        stays(messages, view)
        legal(view, wire)
        assert shed(view, cut, "recall") is None, "what is a reference stays one"
    assert messages == before


@settings(max_examples=EXAMPLES * 2)
@given(messages=VIEWS, excess=st.integers(0, 20_000), room=st.integers(0, 9_000))
def test_what_is_put_in_words_has_its_bounds(messages: list[Message], excess: int, room: int):
    assert len(truncate_messages(messages)) <= 15 * 501 + 40
    longest = 4 * 200 + 60
    assert len(render_messages(messages, room)) <= room + len(messages) * 2 + longest
    found = shed_until(messages, Cut(0, len(messages)), None, excess)
    if found is not None:
        cut, slim = found
        view = [*messages[: cut.start], *slim, *messages[cut.stop :]]
        assert (
            not audit(view)
            and len(view) == len(messages)
            and estimate_messages(view) < estimate_messages(messages)
        )


async def _run(messages: list[Message], options: dict[str, Any], window: int | None) -> Any:
    def reply(request: w.Request) -> Any:
        return "notes" if "Write the notes." in request.messages[-1].text else "ok"

    model = scripted(then=reply)
    model.context_window = window
    async with w.Runtime(store="memory:", environ={}) as runtime:
        out = await w.agent_loop("go", model=model, messages=messages, **options)
        entries = list(await runtime.store.read(out.session_id))
        await runtime.store.verify(out.session_id)
    return out, model, entries


def said_why(entries: list[JournalEntry]) -> bool:
    told = any(type(e) is Noted and e.name == "compaction_stopped" for e in entries)
    return told or any(type(e) is Compacted and e.shortfall for e in entries)


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(
    messages=VIEWS,
    strategy=st.sampled_from(
        ["truncate", "summarize_middle", "summarize_all", "hybrid", "custom", "none"]
    ),
    threshold=st.integers(1, 4_000),
    first=st.integers(0, 4),
    last=st.one_of(st.none(), st.integers(0, 6)),
    window=st.one_of(st.none(), st.integers(500, 6_000)),
    wire=st.sampled_from(sorted(DOORS)),
)
def test_any_run_sends_what_fits_or_says_why_not(
    messages: list[Message],
    strategy: str,
    threshold: int,
    first: int,
    last: int | None,
    window: int | None,
    wire: str,
) -> None:
    options: dict[str, Any] = {"compact_strategy": strategy}
    if strategy != "none":
        options |= {"compact_threshold": threshold, "compact_keep_first": first}
        options |= {"compact_keep_last": last}
    if strategy == "custom":
        options["compact_callback"] = lambda archived, reminders, policy: f"{len(archived)} gone"
    out, model, entries = asyncio.run(_run(messages, options, window))
    assert out.status == "done", out.error
    sent = [r for r in model.requests if "Write the notes." not in r.messages[-1].text]
    assert len(sent) == 1
    view = list(sent[0].messages)
    assert not audit(view)
    stays(messages, view)
    legal(view, wire)
    if strategy == "none":
        assert view == messages and not any(type(e) is Compacted for e in entries)
    elif estimate_messages(view) >= threshold:
        assert said_why(entries)
    heard = [e.message for e in entries if type(e) is Said]
    assert heard == messages, "the journal keeps everything"
    assert messages_of(entries)[:-1] == view
    rebuilt = requests_of(entries)
    assert [list(r.messages) for r in rebuilt] == [list(r.messages) for r in model.requests]
    assert all(type(e) is not Replied or e.purpose in (None, "compaction") for e in entries)

"""Any history, any context strategy, any size: what is sent is a request that every provider takes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass as w
from tests.models.test_any_history import DOORS, histories
from tests.policies.compaction.test_any_view import legal, long_histories
from windlass import seams
from windlass.events import Replied, Said, ToolResulted
from windlass.loop.requests import requests_of
from windlass.messages import Message
from windlass.models.history import audit
from windlass.policies.context_strategy.custom import find_changed_span
from windlass.policies.context_strategy.summary import older_half
from windlass.policies.context_strategy.window import WINDOW, plan_slide
from windlass.policies.rounds import between, first_said, staying, unanswered_start
from windlass.store.view import messages_of
from windlass.testing import call, scripted

EXAMPLES = int(os.environ.get("WINDLASS_EXAMPLES", "30"))
VIEWS = st.one_of(long_histories(), histories(30))


@pytest.fixture(autouse=True, scope="module")
def _strict() -> Iterator[None]:
    before, seams.strict = seams.strict, True
    yield
    seams.strict = before


@w.tool(side_effect_level="none")
async def add(a: int) -> str:
    """Add."""
    return f"sum {a}"


@pytest.mark.parametrize("wire", DOORS)
@settings(max_examples=EXAMPLES)
@given(messages=VIEWS, turns=st.integers(1, 8))
def test_any_window_is_legal(wire: str, messages: list[Message], turns: int) -> None:
    before = list(messages)
    slide = plan_slide(messages, 2 * turns)
    assert messages == before
    if slide is None:
        return
    view = [*messages[: slide.start], *slide.messages, *messages[slide.stop :]]
    assert not audit(view)
    legal(view, wire)
    stay = staying(messages, but=WINDOW)
    assert [m for m in view if m in [messages[at] for at in stay]], "the task is there"
    first = first_said(messages, but=WINDOW)
    assert first is None or messages[first] in view
    assert slide.stop <= unanswered_start(messages) and between(messages, slide.stop)
    left = [m for m in view if m.kind != WINDOW]
    assert len(left) - len(stay) >= 2 * turns, "never less than asked for"
    assert plan_slide(view, 2 * turns) is None, "once is enough"


@pytest.mark.parametrize("wire", DOORS)
@settings(max_examples=EXAMPLES)
@given(messages=VIEWS)
def test_any_older_half_is_legal(wire: str, messages: list[Message]) -> None:
    half = older_half(messages)
    if half is None:
        return
    note = Message("user", "[Conversation summary]", "summary")
    view = [*messages[: half.start], *half.kept, note, *messages[half.stop :]]
    assert not audit(view) and not audit([*half.old, Message("user", "?")])
    legal(view, wire)
    first = first_said(messages, but="summary")
    assert first is not None and view[first] == messages[first]
    assert len(half.old) + len(half.kept) == half.stop - half.start
    assert half.stop <= unanswered_start(messages)


@settings(max_examples=EXAMPLES * 3)
@given(old=st.lists(st.integers(0, 2), max_size=8), new=st.lists(st.integers(0, 2), max_size=8))
def test_a_change_is_the_span_that_differs(old: list[int], new: list[int]) -> None:
    one, two = ([Message("user", str(n)) for n in each] for each in (old, new))
    start, stop, put = find_changed_span(one, two)
    assert [*one[:start], *put, *one[stop:]] == two
    assert (one == two) == (start == stop and not put)


def _strategy(kind: str, size: int) -> dict[str, Any]:
    match kind:
        case "sliding-window":
            return {"type": kind, "max_turns": size % 9}
        case "summarize":
            return {"type": kind, "max_tokens": size}
        case _:
            return {
                "type": "custom",
                "compress": lambda messages, tokens: messages[-2 - size % 9 :],
            }


async def _run(messages: list[Message], strategy: dict[str, Any]) -> Any:
    asked = 0

    def reply(request: w.Request) -> Any:
        nonlocal asked
        if "\n\nConversation:\n" in request.messages[-1].text:
            return "in short"
        asked += 1
        return "ok" if asked > 4 else call("add", a=asked)

    model = scripted(then=reply)
    async with w.Runtime(store="memory:", environ={}) as runtime:
        out = await w.agent_loop(
            "go", model=model, tools=[add], messages=messages, context_strategy=strategy
        )
        entries = list(await runtime.store.read(out.session_id))
        await runtime.store.verify(out.session_id)
    return out, model, entries


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(
    messages=VIEWS,
    kind=st.sampled_from(["sliding-window", "summarize", "custom"]),
    size=st.integers(1, 3_000),
    wire=st.sampled_from(sorted(DOORS)),
)
def test_any_run_sends_what_everybody_takes(
    messages: list[Message], kind: str, size: int, wire: str
) -> None:
    out, model, entries = asyncio.run(_run(messages, _strategy(kind, size)))
    assert out.status == "done", out.error
    main = [r for r in model.requests if "\n\nConversation:\n" not in r.messages[-1].text]
    assert len(main) == 5
    first = first_said(messages, but="")
    for request in main:
        assert not audit(request.messages)
        legal(list(request.messages), wire)
        assert kind == "custom" or first is None or messages[first] in request.messages
    assert list(main[0].messages) == messages, "the first turn is asked with all of it"
    heard = [e.message for e in entries if type(e) is Said]
    assert heard == messages, "the journal keeps everything"
    assert [e.result.text for e in entries if type(e) is ToolResulted] == [
        f"sum {n}" for n in range(1, 5)
    ]
    assert messages_of(entries)[:-1] == list(main[-1].messages)
    rebuilt = requests_of(entries)
    assert [list(r.messages) for r in rebuilt] == [list(r.messages) for r in model.requests]
    assert all(type(e) is not Replied or e.purpose in (None, "summary") for e in entries)

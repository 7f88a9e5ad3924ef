"""Any history, any mixture of what shapes a view, any budget: every request of a run is a legal one."""

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
from tests.models.test_any_history import DOORS, asked_of, turns
from tests.policies.compaction.test_any_view import TASK, bulky, said_why
from windlass import seams
from windlass.events import JournalEntry, Replied, Said, ToolResulted
from windlass.loop.requests import requests_of
from windlass.messages import Message
from windlass.models.base import Request
from windlass.models.estimates import estimate_messages
from windlass.models.history import audit
from windlass.testing import ScriptedModel, call, scripted
from windlass.testing.providers import Rejected

EXAMPLES = int(os.environ.get("WINDLASS_EXAMPLES", "30"))
ORDERS = Message("user", "Never touch the pears.", "pinned")


@pytest.fixture(autouse=True, scope="module")
def _strict() -> Iterator[None]:
    before, seams.strict = seams.strict, True
    yield
    seams.strict = before


@w.tool(side_effect_level="none")
async def look(n: int, size: int) -> str:
    """Look at a page; some pages are missing."""
    if n % 3 == 2:
        raise ValueError(f"no page {n}")
    return f"page {n} " + "lorem ipsum " * size


def thinned(context: Any) -> list[Any]:
    """A filter of somebody who does not know which messages belong together."""
    messages = context.visible_messages
    return [one for at, one in enumerate(messages) if at == 0 or at % 5 or at > len(messages) - 3]


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """A session that was long before this run: its task, what is pinned, and rounds of any kind."""
    middle: list[Message] = []
    kinds = st.sampled_from(["bulky", "any", "chat", "steer"])
    for number, kind in enumerate(draw(st.lists(kinds, min_size=4, max_size=14))):
        if kind == "bulky":
            middle += draw(bulky(number))
        elif kind == "any":
            middle += draw(turns(number, 30))
        elif kind == "chat":
            asked, said = Message("user", f"q{number} " * 50), Message("assistant", "a " * 90)
            middle += [asked, said]
        else:
            middle.append(Message("user", "go on", draw(st.sampled_from(["nag", "steer"]))))
    return [TASK, ORDERS, *middle, Message("user", "and now?")]


CUTS = st.one_of(
    st.builds(
        lambda strategy, threshold, last: {
            "compact_strategy": strategy,
            "compact_threshold": threshold,
            "compact_keep_last": last,
        },
        st.sampled_from(["truncate", "summarize_middle", "summarize_all", "hybrid"]),
        st.sampled_from([1, 200, 800, 2_500]),
        st.one_of(st.none(), st.integers(0, 6)),
    ),
    st.builds(
        lambda turns: {"context_strategy": {"type": "sliding-window", "max_turns": turns}},
        st.integers(1, 6),
    ),
    st.builds(
        lambda most: {"context_strategy": {"type": "summarize", "max_tokens": most}},
        st.integers(1, 3_000),
    ),
)
PROJECTIONS = st.sampled_from(
    [
        None,
        "clean_tool_repair",
        {"policy": "squash_failed_calls", "keep_last": 0},
        {"policy": "summary_prefix", "keep_last": 2, "min_tokens": 100},
        {"policy": "reachability_gc", "keep_last": 2, "min_tokens": 1, "window_turns": 1},
    ]
)
SHAPES = st.fixed_dictionaries(
    {"transcript_projection": PROJECTIONS},
    optional={
        "context_filter": st.just(thinned),
        "message_decorator": st.just(lambda message, ctx: None),
        "timestamp_messages": st.booleans(),
        "scratchpad": st.sampled_from([True, {"reorganize_every": 0}, {"reorganize_every": 1}]),
        "skills": st.just([{"name": "look", "description": "look at pages", "prompt": "Look."}]),
        "tool_surface_narrowing": st.booleans(),
        "on_session_start": st.sampled_from([None, "It is Tuesday."]),
    },
)


def busy(turns: int, size: int) -> ScriptedModel:
    """Looks at so many pages, and writes a few words for whoever asks for a summary."""
    made = iter(range(1_000))

    def reply(request: w.Request) -> Any:
        if not any(tool.name == "look" for tool in request.tools):
            return "a few words"
        at = next(made)
        return "the end" if at >= turns else call("look", n=at, size=size)

    return scripted(then=reply)


async def ran(
    messages: list[Message], model: ScriptedModel, options: dict[str, Any]
) -> tuple[Any, list[JournalEntry]]:
    async with w.Runtime(store="memory:", environ={}) as runtime:
        out = await w.agent_loop("go", model=model, messages=messages, tools=[look], **options)
        entries = list(await runtime.store.read(out.session_id))
        await runtime.store.verify(out.session_id)
    return out, entries


def legal(request: Request, wire: str) -> None:
    """One provider's own rules, for the request as it was."""
    server, model = DOORS[wire]
    asked = asked_of(model, request)
    try:
        server.check(asked)
    except Rejected as problem:
        pytest.fail(f"{wire} refuses it: {problem.message}\n{json.dumps(asked.json)[:3_000]}")


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(
    history=histories(),
    cut=CUTS,
    shape=SHAPES,
    pages=st.integers(4, 12),
    size=st.sampled_from([1, 300]),
    window=st.one_of(st.none(), st.integers(2_000, 9_000)),
    wire=st.sampled_from(sorted(DOORS)),
)
def test_any_run_sends_legal_requests_and_keeps_its_journal(
    history: list[Message],
    cut: dict[str, Any],
    shape: dict[str, Any],
    pages: int,
    size: int,
    window: int | None,
    wire: str,
) -> None:
    model = busy(pages, size)
    model.context_window = window
    out, entries = asyncio.run(ran(history, model, {**cut, **shape}))
    assert out.status == "done", out.error
    replies = [entry for entry in entries if type(entry) is Replied]
    assert len(replies) == len(model.requests)
    filtered = "context_filter" in shape
    for reply, request in zip(replies, model.requests, strict=True):
        assert not audit(list(request.messages), tail=request.tail)
        legal(request, wire)
        if reply.purpose is None and not filtered:
            words = "\n".join(message.text for message in request.messages)
            assert TASK.text in words and ORDERS.text in words
    threshold = cut.get("compact_threshold")
    if threshold is not None and not filtered:
        last = estimate_messages(list(model.requests[-1].messages))
        assert last < max(threshold, 100) * 1.25 or said_why(entries)
    assert [e.message for e in entries if type(e) is Said][: len(history)] == history
    seen = [e.result.text for e in entries if type(e) is ToolResulted and e.tool == "look"]
    assert len(seen) == pages and all("page" in text for text in seen)
    rebuilt = requests_of(entries)
    assert [_plain(r) for r in rebuilt] == [_plain(r) for r in model.requests]


def _plain(request: Request) -> Any:
    return list(request.messages), request.frame, request.tail

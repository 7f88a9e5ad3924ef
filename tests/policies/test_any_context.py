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
from tests.models.test_any_history import DOORS, asked_of, histories
from tests.policies.compaction.test_any_view import TASK, long_histories, said_why
from windlass import seams
from windlass.events import JournalEntry, Replied, Said, ToolResulted
from windlass.loop.replay import requests_of
from windlass.messages import Message
from windlass.models.audit import audit
from windlass.models.base import Request
from windlass.policies.compaction.cutting import tokens
from windlass.testing import ScriptedModel, call, scripted
from windlass.testing.fakes import Rejected

EXAMPLES = int(os.environ.get("WINDLASS_EXAMPLES", "30"))
VIEWS = st.one_of(long_histories(), histories(30))
ORDERS = "Never touch the pears."


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


CUTS = st.one_of(
    st.just(dict[str, Any]()),
    st.builds(
        lambda strategy, threshold, last: {
            "compact_strategy": strategy,
            "compact_threshold": threshold,
            "compact_keep_last": last,
        },
        st.sampled_from(["truncate", "summarize_middle", "summarize_all", "hybrid"]),
        st.integers(1, 3_000),
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
SHAPES = st.fixed_dictionaries(
    {},
    optional={
        "transcript_projection": st.sampled_from(
            ["clean_tool_repair", "squash_failed_calls", "summary_prefix", "reachability_gc"]
        ),
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
    messages=VIEWS,
    cut=CUTS,
    shape=SHAPES,
    turns=st.integers(0, 9),
    size=st.sampled_from([1, 300]),
    window=st.one_of(st.none(), st.integers(2_000, 9_000)),
    wire=st.sampled_from(sorted(DOORS)),
)
def test_any_run_sends_legal_requests_and_keeps_its_journal(
    messages: list[Message],
    cut: dict[str, Any],
    shape: dict[str, Any],
    turns: int,
    size: int,
    window: int | None,
    wire: str,
) -> None:
    model = busy(turns, size)
    model.context_window = window
    pin = Message("user", ORDERS, "pinned")
    history = [messages[0], pin, *messages[1:]] if messages[0] == TASK else messages
    out, entries = asyncio.run(ran(history, model, {**cut, **shape}))
    assert out.status == "done", out.error
    replies = [entry for entry in entries if type(entry) is Replied]
    assert len(replies) == len(model.requests)
    for reply, request in zip(replies, model.requests, strict=True):
        assert not audit(list(request.messages), tail=request.tail)
        legal(request, wire)
        if reply.purpose is None and history is not messages and "context_filter" not in shape:
            words = "\n".join(message.text for message in request.messages)
            assert TASK.text in words and ORDERS in words
    last = list(model.requests[-1].messages)
    threshold = cut.get("compact_threshold")
    if threshold is not None and "context_filter" not in shape and tokens(last) >= 1.25 * threshold:
        assert said_why(entries)
    assert [e.message for e in entries if type(e) is Said][: len(history)] == history
    pages = [e.result.text for e in entries if type(e) is ToolResulted and e.tool == "look"]
    assert len(pages) == turns and all("page" in text for text in pages)
    rebuilt = requests_of(entries)
    assert [_plain(r) for r in rebuilt] == [_plain(r) for r in model.requests]


def _plain(request: Request) -> Any:
    return list(request.messages), request.frame, request.tail

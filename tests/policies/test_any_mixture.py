"""Any mixture of everything that decides what the model sees, cut anywhere: legal, whole, the same again.

`test_any_context.py` has any history and any budget; here is any set of options beside each other,
with functions that do as they like, and a run that is taken up from any row of its journal.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass as w
from tests.models.test_any_history import DOORS
from tests.policies.compaction.test_any_view import said_why
from tests.policies.test_any_context import legal, thinned
from tests.stories.helpers import written
from tests.stories.judge_helpers import sent_as
from windlass import seams
from windlass.events import CallReserved, JournalEntry, Replied, RunStarted, ToolResulted
from windlass.loop.requests import requests_of
from windlass.messages import Message, Text
from windlass.models.estimates import estimate_messages
from windlass.models.history import audit
from windlass.testing import ScriptedModel, scripted

EXAMPLES = int(os.environ.get("WINDLASS_EXAMPLES", "30"))
TASK = "Read the pages. Never touch the pears."
_decode = msgspec.json.Decoder(list[JournalEntry]).decode


@pytest.fixture(autouse=True, scope="module")
def _strict() -> Iterator[None]:
    before = seams.strict, seams.now
    seams.strict, seams.now = True, lambda: 1_700_000_000.0
    yield
    seams.strict, seams.now = before


@w.tool(side_effect_level="none")
async def page(n: int, size: int) -> str:
    """Read a page; some pages are missing."""
    if n % 4 == 3:
        raise ValueError(f"there is no page {n}")
    return f"page {n}: " + "apples and plums " * size


@w.tool(side_effect_level="none")
async def atlas(place: str) -> str:
    """Look a place up, in words that are long enough to be worth leaving out of a request."""
    return f"{place} is by the brook"


@w.tool(keyed=True)
async def note(ctx: w.ToolContext[None], text: str) -> str:
    """Note something, and be reminded of it."""
    ctx.remind(w.system_reminder(text, ttl=2))
    return "noted"


TOOLS = [page, atlas, note]


def answered(turns: int, size: int) -> Any:
    """What the model says, by what it is shown: calls of all tools, a pad, a summary."""

    def reply(request: w.Request) -> Any:
        calls = [call.id for m in request.messages for call in m.tool_calls]
        seen = max([int(one[1:]) for one in calls if one[0] == "c"], default=0)
        if "scratchpad of an assistant" in (request.system or ""):
            return json.dumps(
                {
                    "goals": [{"text": TASK, "source_ref": "user:initial"}],
                    "open_items": [],
                    "facts": [],
                    "refs": [],
                }
            )
        if not request.tools:
            return "a few words"
        turn = seen + 1
        if turn > turns:
            return "the end"
        name, arguments = (
            ("atlas", {"place": f"wall {turn}"})
            if turn % 7 == 6
            else ("note", {"text": f"mind {turn % 3}"})
            if turn % 5 == 2
            else ("page", {"n": turn, "size": size})
        )
        return w.ToolCall(f"c{turn}", name, arguments)

    return reply


# --------------------------------------------------------------------------- everything, drawn


def _titled(message: Message, context: w.DecorationContext) -> Message:
    blocks = [
        Text(f"({context.index}) {b.text}") if type(b) is Text else b for b in message.content
    ]
    return Message(message.role, tuple(blocks), message.kind)


def _kindly(ctx: w.ContextInfo) -> Any:
    made = {"role": "user", "content": "Be kind."}
    if ctx.iteration % 3 == 0:
        return {"messages": [made, *ctx.messages], "system": f"{ctx.system or ''} Calm."}
    return {"system": "Hurry."} if ctx.iteration % 3 == 1 else None


def _newest(messages: list[Message], *rest: Any) -> list[Message]:
    return [messages[0], *messages[-5:]] if len(messages) > 9 else messages


def compactions(draw: st.DrawFn) -> dict[str, Any]:
    match draw(st.sampled_from(["none", "built in", "function", "strategy"])):
        case "none":
            return {"compaction": False}
        case "built in":
            return {
                "compact_strategy": draw(
                    st.sampled_from(["truncate", "summarize_middle", "summarize_all", "hybrid"])
                ),
                "compact_threshold": draw(st.sampled_from([300, 800, 2_000])),
                "compact_keep_first": draw(st.integers(0, 3)),
                "compact_keep_last": draw(st.one_of(st.none(), st.integers(0, 6))),
            }
        case "function":
            wrote = lambda gone, due, policy: {"summary": f"{len(gone)} gone"}  # noqa: E731
            return {"compact_callback": wrote, "compact_threshold": 600}
        case _:
            return {
                "context_strategy": draw(
                    st.sampled_from(
                        [
                            {"type": "sliding-window", "max_turns": 3},
                            {"type": "summarize", "max_tokens": 600},
                            {"type": "custom", "compress": _newest},
                        ]
                    )
                )
            }


SHIP = {
    "name": "ship",
    "description": "pages",
    "prompt": "Slowly.",
    "allowed_tools": ["page", "note"],
}
READ = {"name": "read", "description": "read orchard", "when_to_use": "pears", "prompt": "Aloud."}
OTHERS = st.fixed_dictionaries(
    {},
    optional={
        "transcript_projection": st.sampled_from(
            [
                "clean_tool_repair",
                {"policy": "squash_failed_calls", "keep_last": 1},
                {"policy": "summary_prefix", "keep_last": 3, "min_tokens": 150},
                {"policy": "reachability_gc", "keep_last": 2, "min_tokens": 1, "min_chars": 100},
                {"policy": "custom", "project": _newest},
            ]
        ),
        "context_callback": st.sampled_from([_kindly, thinned]),
        "message_decorator": st.just(_titled),
        "timestamp_messages": st.just(True),
        "scratchpad": st.sampled_from([True, {"reorganize_every": 2}, {"reorganize_every": 0}]),
        "skills": st.sampled_from([[SHIP], [READ], [SHIP, READ]]),
        "tool_surface_narrowing": st.sampled_from(
            [True, {"window_turns": 2}, {"window_turns": 1, "mode": "aggressive"}]
        ),
        "on_session_start": st.sampled_from(
            ["Be brief.", [w.system_reminder("Tuesday.", ttl=2), "No pears."]]
        ),
        "prompts": st.just({"agent.hidden_tools": {"text": "Away: {tools}."}}),
        "system": st.just("You read."),
        "closing_answer": st.just(True),
        "max_token_budget": st.integers(60, 400),
    },
)


@st.composite
def mixtures(draw: st.DrawFn) -> dict[str, Any]:
    """Options of context, two at least."""
    options = {**compactions(draw), **draw(OTHERS.filter(lambda chosen: len(chosen) > 1))}
    if "skills" in options and draw(st.booleans()):
        options["skill_match"] = {"sticky": draw(st.booleans()), "top_n": draw(st.integers(1, 2))}
    return options


async def ran(
    model: ScriptedModel, options: dict[str, Any], before: list[JournalEntry] | None = None
) -> tuple[Any, list[JournalEntry], list[list[JournalEntry]]]:
    async with w.Runtime(store="memory:", environ={}) as runtime:
        agent = w.Agent(model, tools=TOOLS, max_turns=40, **options)
        if before is None:
            out = await agent.run(TASK, session_id="s")
        else:
            await written(runtime.store, "s", before)
            out = await agent.resume("s")
        rows = [_decode(row.payload) for row in await runtime.store.rows("s")]
        await runtime.store.verify("s")
    return out, [entry for row in rows for entry in row], rows


@settings(max_examples=EXAMPLES * 3, deadline=None)
@given(
    options=mixtures(),
    turns=st.integers(5, 16),
    size=st.sampled_from([1, 60]),
    window=st.one_of(st.none(), st.integers(1_500, 9_000)),
    wire=st.sampled_from(sorted(DOORS)),
    cut=st.floats(0, 1),
)
def test_any_mixture_is_legal_whole_and_the_same_from_any_row(
    options: dict[str, Any], turns: int, size: int, window: int | None, wire: str, cut: float
) -> None:
    def made() -> ScriptedModel:
        model = scripted(then=answered(turns, size))
        model.context_window = window
        return model

    model = made()
    out, entries, rows = asyncio.run(ran(model, options))
    spent = "max_token_budget" in options
    assert out.status == "done" or (spent and out.status == "budget_exhausted"), out.error
    filtered = options.get("context_callback") is thinned
    for reply, request in zip(
        [e for e in entries if type(e) is Replied], model.requests, strict=True
    ):
        assert not audit(list(request.messages), tail=request.tail)
        legal(request, wire)
        if reply.purpose is None and not filtered:
            assert any(TASK in message.text for message in request.messages)
    threshold = options.get("compact_threshold")
    if (
        threshold is not None
        and not spent
        and not {"message_decorator", "timestamp_messages", "context_callback"} & set(options)
    ):
        last = estimate_messages(list(model.requests[-1].messages))
        assert last < max(threshold, 100) * 1.25 or said_why(entries)
    results = [e.call_id for e in entries if type(e) is ToolResulted]
    assert len(results) == len(set(results)), "the journal keeps every result"
    assert len(results) >= turns or out.status != "done"
    sent = [sent_as(request) for request in model.requests]
    assert [sent_as(request) for request in requests_of(entries)] == sent

    first = next(at for at, row in enumerate(rows) if any(type(e) is RunStarted for e in row))
    place = first + 1 + int(cut * (len(rows) - first - 2))
    before = [entry for row in rows[:place] for entry in row]
    again = made()
    rest, _, _ = asyncio.run(ran(again, options, before))
    met = sum(type(entry) is Replied for entry in before)
    where = f"row {place} of {len(rows)}, after {before[-1]!r:.100}"
    if type(before[-1]) is CallReserved:  # what was held back for the reply is spent too
        assert rest.usage.total_tokens > out.usage.total_tokens or rest.status != out.status, where
        return
    assert [sent_as(request) for request in again.requests] == sent[met:], where
    assert rest.final_text == out.final_text and rest.usage == out.usage
    assert (rest.status, rest.stop_reason) == (out.status, out.stop_reason)

"""A session that has everything in it: long, parallel, judged, parked, failing, hostile."""

from __future__ import annotations

import random

from windlass.events import (
    CheckRan,
    FeedbackInjected,
    IterationEnd,
    IterationStart,
    JournalEntry,
    JudgeDecision,
    LoopControlDecision,
    Replied,
    RunEnded,
    RunResumed,
    RunStarted,
    Said,
    SessionOpened,
    StallWarning,
    StepJudgeDecision,
    Suspended,
    ToolIntended,
    ToolMessage,
    ToolResulted,
)
from windlass.messages import Message, Outcome, Text, Thinking, ToolCall, ToolResult
from windlass.trace.build import Append
from windlass.usage import Usage

HOSTILE = '</script><img src=x onerror="owned=1">\u202e\u2028<svg/onload=owned=1>\'"-->'
TOOLS = ("look_up", "search_orders", "refund")


def long_session(turns: int) -> list[Append]:
    """Build the rows of a run of so many turns."""
    rng, at = random.Random(7), 1_700_000_000.0
    rows = [
        Append(
            at,
            [
                SessionOpened("orders"),
                RunStarted("r1", "agent_loop", "local", "anthropic", "claude-sonnet-4-5", "clerk"),
                Said(Message("user", f"Settle all open orders. {HOSTILE}")),
            ],
        )
    ]
    for number in range(1, turns + 1):
        rows.append(Append(at, [IterationStart(number)]))
        at = _turn(rows, rng, at, number, number == turns)
        if number == turns // 2:
            at = _parked(rows, at)
    rows.append(Append(at, [RunEnded("r1", "done")]))
    return rows


def _turn(rows: list[Append], rng: random.Random, at: float, number: int, last: bool) -> float:
    took = rng.uniform(0.8, 4.0)
    calls = [] if last else _calls(rng, number)
    blocks = (Thinking("Let me think about it."), Text(f"Step {number}: next order."), *calls)
    size = 1200 + 300 * number
    usage = Usage(size, rng.randint(40, 400), cache_read_tokens=size * 4 // 5 if number > 1 else 0)
    reply = Replied(
        Message("assistant", blocks),
        usage,
        "tool_use" if calls else "end_turn",
        "anthropic",
        "claude-sonnet-4-5",
        1,
        "f",
        cost_usd=usage.input_tokens * 1e-6 + usage.output_tokens * 15e-6,
        duration_ms=took * 1000,
        attempts=3 if number % 41 == 0 else 1,
    )
    at += took
    intents: list[JournalEntry] = [ToolIntended(c.id, c.name, "read_only") for c in calls]
    rows.append(Append(at, [reply, *intents]))
    ends: list[tuple[float, ToolResulted]] = []
    for call in calls:
        spent = rng.uniform(0.05, 3.0)
        outcome: Outcome = "error" if rng.random() < 0.08 else "ok"
        words = (
            "RuntimeError: the index is offline" if outcome == "error" else "59.90 EUR paid\n" * 4
        )
        if number % 50 == 3:
            words = HOSTILE + "x" * 50_000
        result = ToolResult(call.id, words, outcome != "ok", call.name, outcome)
        ends.append((at + spent, ToolResulted(call.id, call.name, outcome, result, spent * 1000)))
    for end, entry in sorted(ends, key=lambda pair: pair[0]):
        rows.append(Append(end, [entry]))
        at = end
    decided = _decisions(number)
    if number % 15 == 0 or last:
        asked = Replied(
            Message("assistant", '{"verdict": "continue"}'),
            Usage(900, 60),
            "end_turn",
            "anthropic",
            "claude-haiku-4-5",
            1,
            "f",
            purpose="done_judge",
            cost_usd=0.0012,
            duration_ms=700,
        )
        at += 0.7
        verdict = "done" if last else "continue"
        why = "every order is settled" if last else "orders are still open"
        decided = [asked, JudgeDecision("orders", number, "done_judge", verdict, why), *decided]
    if calls:
        decided = [ToolMessage(tuple(call.id for call in calls)), *decided]
    ended = IterationEnd(number, "finish" if last else "keep_going", "natural" if last else None)
    rows.append(Append(at, [*decided, ended]))
    return at


def _calls(rng: random.Random, number: int) -> list[ToolCall]:
    return [
        ToolCall(
            f"c{number}_{n}",
            rng.choice(TOOLS),
            {"order": f"A-{number} ", "note": HOSTILE if number % 50 == 3 else "as agreed"},
        )
        for n in range(rng.choice((1, 1, 2, 3)))
    ]


def _decisions(number: int) -> list[JournalEntry]:
    match number % 40:
        case 5:
            return [
                StallWarning(number, "look_up", 3, 3, "d", "s"),
                FeedbackInjected("stall", "Try another way."),
            ]
        case 11:
            return [
                StepJudgeDecision("orders", number, "revise", "the refund is too large", HOSTILE)
            ]
        case 19:
            return [CheckRan(number, "ledger balances", number > 100, "2 rows differ", 12.0)]
        case 33:
            return [LoopControlDecision(number, "extend", 200, 220, "progress is good")]
        case _:
            return []


def _parked(rows: list[Append], at: float) -> float:
    """Add a wait of two days for an approval."""
    rows.append(
        Append(at, [Suspended("approval", "turn"), RunEnded("r1", "suspended", "approval")])
    )
    at += 2 * 86400
    rows.append(Append(at, [RunResumed("r1", "open")]))
    return at

"""What stories about judgement share: verdicts as a judge gives them, and runs cut short everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

import windlass as w
from tests.stories.helpers import written
from windlass.events import IterationStart, JournalEntry, Replied, RunStarted, Said
from windlass.policies.judges.step import StepJudging
from windlass.policies.turn_limit.policy import LoopControl
from windlass.testing import call
from windlass.testing.script import ScriptedModel

_decode = msgspec.json.Decoder(list[JournalEntry]).decode


@w.tool(side_effect_level="none")
async def look(text: str) -> str:
    """Look something up: it may be done again."""
    return f"seen {text}"


def verdict(word: str, reasoning: str = "", next_step: str = "") -> w.ToolCall:
    """Build the verdict of a judge of ends."""
    return call("give_verdict", verdict=word, reasoning=reasoning, next_step=next_step)


DONE = verdict("done", "all there")
MORE = verdict("continue", "tests are missing", "write the tests")


def step(word: str, critique: str = "", confidence: float = 0.9) -> w.ToolCall:
    """Build the verdict of a judge of steps."""
    return call(
        "give_verdict", verdict=word, reasoning="because", critique=critique, confidence=confidence
    )


def of(out: Any, kind: type) -> list[Any]:
    """Return the run's entries of this kind."""
    return [entry for entry in out.entries if type(entry) is kind]


def asides(out: Any, purpose: str) -> list[Replied]:
    """Return the replies to a policy's own calls."""
    return [entry for entry in of(out, Replied) if entry.purpose == purpose]


def is_judged(request: w.Request) -> bool:
    """Check whether the request is a judge's."""
    return any(tool.name == "give_verdict" for tool in request.tools)


def kind_counts(entries: Any) -> dict[str, int]:
    """Count the entries of each kind that counts something."""
    counted = (
        "JudgeDecision",
        "CheckRan",
        "StepJudgeDecision",
        "LoopControlDecision",
        "StallWarning",
        "LoopDetected",
        "LoopStuck",
        "NativeToolFallback",
        "NativeToolRejected",
        "FeedbackInjected",
        "Replied",
        "ToolResulted",
        "IterationStart",
    )
    names = [type(entry).__name__ for entry in entries]
    return {name: names.count(name) for name in counted if name in names}


def fields_of(out: Any) -> dict[str, Any]:
    """Return what must be the same however often the process was killed."""
    fields = msgspec.to_builtins(out._outcome.fields)
    return {
        "status": out.status,
        "stop_reason": out.stop_reason,
        "usage": out.usage,
        "fields": _timeless(fields),
        "said": [message.text for message in out.all_messages],
        "counts": kind_counts(out.entries),
    }


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if not k.endswith("_ms")}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


async def from_every_place(
    make: Callable[[], tuple[w.Agent[Any, Any], ScriptedModel]], *, by_entry: bool = False
) -> Any:
    """Cut the journal of a run at each row and go on: the same requests, and the same end.

    With `by_entry` also where no store would cut it: after each entry of judgement. `make` makes the agent anew; its model answers by what it is asked, not by how often.
    """
    agent, whole = make()
    first = await agent.run("go", session_id="whole")
    store = first._run.store
    expected, sent = fields_of(first), [sent_as(r) for r in whole.requests]
    rows = [_decode(row.payload) for row in await store.rows("whole")]
    if by_entry:
        rows = [[entry] for row in rows for entry in row]
    for cut in range(1, len(rows)):
        before = [entry for row in rows[:cut] for entry in row]
        if not any(type(entry) is RunStarted for entry in before):
            continue
        if by_entry and not _judgement(before[-1]):
            continue
        await written(store, f"cut-{cut}", before)
        agent, model = make()
        out = await agent.resume(f"cut-{cut}")
        where = f"cut {cut} after {before[-1]!r:.120}"
        answered = sum(type(entry) is Replied for entry in before)
        if type(before[-1]) is IterationStart and _counts_turns(first, out):
            # the reply that was waited for was a turn too: there is one less after it
            assert [sent_as(r) for r in model.requests][:1] == sent[answered:][
                : len(model.requests)
            ][:1]
            continue
        assert [sent_as(r) for r in model.requests] == sent[answered:], where
        assert fields_of(out) == expected, where
    return first


def _counts_turns(*outs: Any) -> bool:
    """Check whether the number of turns left matters in one of the runs."""
    return any(
        out._run.ledger.iterations >= (out._run.ledger.limits.iterations or 99)
        or any(isinstance(p, (LoopControl, StepJudging)) for p in out._run.plan.policies)
        for out in outs
    )


def _judgement(entry: JournalEntry) -> bool:
    """Check whether a policy of judgement recorded the entry by itself."""
    if type(entry) is Replied:
        return entry.purpose is not None
    if type(entry) is Said:
        return entry.message.kind not in (None, "nudge")
    return type(entry).__name__ in (
        "JudgeDecision",
        "StepJudgeDecision",
        "LoopControlDecision",
        "StallWarning",
        "LoopDetected",
        "LoopStuck",
        "NativeToolRejected",
    )


_MADE_UP = re.compile(rb"\bcall_[0-9a-f]{6,}")


def sent_as(request: w.Request) -> bytes:
    """Encode the request as sent, with generated ids numbered."""
    sent = msgspec.json.encode(
        [list(request.messages), request.frame, list(request.tail)], order="deterministic"
    )
    known: dict[bytes, bytes] = {}
    return _MADE_UP.sub(lambda m: known.setdefault(m[0], b"call-%d" % len(known)), sent)

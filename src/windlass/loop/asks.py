"""An ask is about one call exactly as it would run: what was approved is what runs, once.

Several policies may ask about one call: they make one question, which one answer settles. It is bound
to a digest of the session, the call, the tool as it was, the arguments that would run, who calls, what
each policy looked at, and how long an answer holds. The digest is made again when the call runs; an
answer to anything else is no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass import seams
from windlass.events import IterationStart, ToolDecided
from windlass.loop.answers import Decision
from windlass.loop.plan import digest_of
from windlass.loop.run import Run
from windlass.loop.verdict import Ask, Suspend
from windlass.messages import ToolCall
from windlass.tools.base import Tool


class Source(NamedTuple):
    """A policy that asks about a call; `by` has answered it at once."""

    rule: str
    ask: Suspend
    by: str | None = None

    @property
    def about(self) -> dict[str, Any] | None:
        """What the policy looked at."""
        return self.ask.about if isinstance(self.ask, Ask) else None

    def as_data(self, *, bound: bool = True) -> dict[str, Any]:
        """The source as the journal keeps it; `bound` with what the answer is bound to."""
        told: dict[str, Any] = {"rule": self.rule, "reason": self.ask.reason}
        if bound and self.about is not None:
            told["about"] = self.about
        if isinstance(self.ask, Ask) and self.ask.receipt is not None:
            told["receipt"] = self.ask.receipt
        if self.by is not None:
            told["by"] = self.by
        return told


def sources_of(known: ToolDecided) -> list[Source]:
    """Who asked, by a question on record. Those of an older version have one source."""
    if not known.asks:
        ask = Ask(known.reason or "may it run?", receipt=known.receipt)
        return [Source(known.rule, ask)]
    return [
        Source(
            one["rule"],
            Ask(one["reason"], about=one.get("about"), receipt=one.get("receipt")),
            one.get("by"),
        )
        for one in known.asks
    ]


def unanswered(sources: Iterable[Source]) -> list[Source]:
    """Those that nobody has answered at once."""
    return [source for source in sources if source.by is None]


def question(run: Run, call: ToolCall, tool: Tool, sources: Sequence[Source]) -> ToolDecided:
    """The question, for the record."""
    asking = unanswered(sources)
    asks = [source.ask for source in asking]
    lasting = [a.expires_in for a in asks if isinstance(a, Ask) and a.expires_in is not None]
    until = seams.now() + min(lasting) if lasting else None
    return ToolDecided(
        call.id,
        tool.name,
        "ask",
        rule_of(asking),
        run.caller_name,
        digest_of(call.arguments),
        reason_of(asking),
        call.arguments,
        binding(run, call, tool, _abouts(sources), until),
        until,
        receipt_of(asking),
        tuple([source.as_data() for source in sources]),
    )


def rule_of(sources: Iterable[Source]) -> str:
    """The policies that ask, in one word."""
    return " + ".join([source.rule for source in sources])


def reason_of(sources: Iterable[Source]) -> str:
    """All that is asked, in one line."""
    return "; ".join(dict.fromkeys([source.ask.reason for source in sources]))


def receipt_of(sources: Sequence[Source]) -> dict[str, Any] | None:
    """The receipt of the question; that of several has each of theirs in `decisions`."""
    receipts = [
        source.ask.receipt
        for source in sources
        if isinstance(source.ask, Ask) and source.ask.receipt is not None
    ]
    if len(sources) == 1 or not receipts:
        return receipts[0] if receipts else None
    rules = " + ".join([str(one.get("rule")) for one in receipts])
    why = "; ".join(dict.fromkeys([str(one.get("rationale")) for one in receipts]))
    return {"action": "ask", "rule": rules, "rationale": why, "decisions": receipts}


def _abouts(sources: Iterable[Source]) -> list[tuple[str, dict[str, Any] | None]]:
    return [(source.rule, source.about) for source in sources]


def binding(run: Run, call: ToolCall, tool: Tool, about: object, until: float | None) -> str:
    """The digest of all that an answer is about."""
    who = run.caller
    bound = (run.session_id, call.id, version(tool), call.arguments)
    return digest_of((*bound, who.user, who.tenant, sorted(who.roles), about, until))


def version(tool: Tool) -> str:
    """What a tool is: another schema, other words or another effect make it another tool."""
    facts = {name: tool.annotations[name] for name in sorted(tool.annotations)}
    return digest_of((msgspec.to_builtins(tool.spec), tool.effect, repr(facts)))


def unfit(
    run: Run, call: ToolCall, tool: Tool, sources: Sequence[Source], verdict: Decision
) -> str | None:
    """Why a yes does not hold for the call as it would run now; None: it does."""
    known = question_of(run, call.id)
    if known is None or known.ask is None:
        return "nobody was asked about this call"
    if verdict.ask is not None and verdict.ask != known.ask:
        return "the approval is for another call"
    if known.expires_at is not None and seams.now() > known.expires_at:
        return "the approval has expired"
    # what an older version asked is bound to what its one policy looked at
    about = _abouts(sources) if known.asks else sources[0].about
    if binding(run, call, tool, about, known.expires_at) != known.ask:
        return "the call is no longer what was approved (its arguments, its tool or its caller)"
    return None


def merge_sources(known: ToolDecided | None, asking: Mapping[str, Source]) -> list[Source]:
    """Who asks now, and who asked before: a question stands though nobody here would put it."""
    if known is None:
        return list(asking.values())
    before = [asking.get(source.rule, source) for source in sources_of(known)]
    rules = {source.rule for source in before}
    return before + [source for source in asking.values() if source.rule not in rules]


def question_of(run: Run, call_id: str) -> ToolDecided | None:
    """The last question about a call of the turn under way."""
    for entry in reversed(run.journal.entries):
        if type(entry) is ToolDecided and entry.call_id == call_id:
            return entry if entry.action == "ask" else None
        if type(entry) is IterationStart:
            break
    return None


def parked_by(run: Run, rule: str, call_id: str) -> bool:
    """Has somebody answered the question that this policy parked the call with?"""
    if call_id not in run.answers:
        return False
    known = question_of(run, call_id)
    return known is not None and rule in [one.rule for one in unanswered(sources_of(known))]


def answered_before(run: Run, rule: str, call: ToolCall) -> str | None:
    """Who answered this policy at once, before others parked the call as it is now."""
    known = question_of(run, call.id) if call.id in run.answers else None
    if known is None or known.digest != digest_of(call.arguments):
        return None
    return next((one.by for one in sources_of(known) if one.rule == rule), None)

"""An ask is about one call exactly as it would run: what was approved is what runs, once.

Several policies may ask about one call: they make one question, which one answer settles. It is bound
to a digest of the session, the call, the tool as it was, the arguments that would run, who calls, what
each policy looked at, and how long an answer holds. The digest is made again when the call runs; an
answer to anything else is no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from windlass import seams
from windlass.detach import detach
from windlass.events import IterationStart, ToolDecided
from windlass.json_types import JsonObject
from windlass.loop.plan import digest_of
from windlass.loop.resume_input import Decision
from windlass.loop.run import Run
from windlass.loop.verdict import Ask, Suspend
from windlass.messages import ToolCall
from windlass.tools.tool import Tool


class Source(msgspec.Struct, frozen=True):
    """A policy that asks about a call; `by` has answered it at once."""

    rule: str
    ask: Suspend
    by: str | None = None

    @property
    def about(self) -> JsonObject | None:
        """What the policy checked."""
        return self.ask.about if isinstance(self.ask, Ask) else None

    def as_data(self, *, bound: bool = True) -> JsonObject:
        """Return the source as the journal keeps it; `bound` with what the answer is bound to."""
        told: JsonObject = {"rule": self.rule, "reason": self.ask.reason}
        if bound and self.about is not None:
            told["about"] = self.about
        if bound and isinstance(self.ask, Ask) and self.ask.expires_in is not None:
            told["expires_in"] = self.ask.expires_in
        if isinstance(self.ask, Ask) and self.ask.receipt is not None:
            told["receipt"] = self.ask.receipt
        if self.by is not None:
            told["by"] = self.by
        return detach(told)  # whoever asked may still hold them


def sources_of(known: ToolDecided) -> list[Source]:
    """List who asked, by a question on record; one of an older version has one source."""
    if not known.asks:
        ask = Ask(known.reason or "may it run?", receipt=known.receipt)
        return [Source(known.rule, ask)]
    return [
        Source(
            one["rule"],
            Ask(
                one["reason"],
                about=one.get("about"),
                receipt=one.get("receipt"),
                expires_in=one.get("expires_in"),
            ),
            one.get("by"),
        )
        for one in known.asks
    ]


def unanswered_sources(sources: Iterable[Source]) -> list[Source]:
    """List the sources that nobody has answered at once."""
    return [source for source in sources if source.by is None]


def question(
    run: Run,
    call: ToolCall,
    tool: Tool,
    sources: Sequence[Source],
    again: str | None = None,
    diff: str | None = None,
) -> ToolDecided:
    """Build the question for the record; `again` tells why an earlier answer does not count."""
    asking = unanswered_sources(sources)
    reason = reason_of(asking)
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
        reason if again is None else f"{reason} (asked again: {again})",
        call.arguments,
        binding(run, call, tool, _abouts(sources), until),
        until,
        detach(receipt_of(asking)),
        tuple([source.as_data() for source in sources]),
        diff=diff,
    )


def rule_of(sources: Iterable[Source]) -> str:
    """Join the names of the policies that ask."""
    return " + ".join([source.rule for source in sources])


def reason_of(sources: Iterable[Source]) -> str:
    """Join all that is asked in one line."""
    return "; ".join(dict.fromkeys([source.ask.reason for source in sources]))


def receipt_of(sources: Sequence[Source]) -> JsonObject | None:
    """Build the receipt of the question; that of several has each of theirs in `decisions`."""
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


def _abouts(sources: Iterable[Source]) -> list[tuple[str, JsonObject | None]]:
    return [(source.rule, source.about) for source in sources]


def binding(run: Run, call: ToolCall, tool: Tool, about: object, until: float | None) -> str:
    """Compute the digest of all that an answer is about."""
    who = run.caller
    bound = (run.session_id, call.id, version(tool), call.arguments)
    return digest_of((*bound, who.user, who.tenant, sorted(who.roles), about, until))


def version(tool: Tool) -> str:
    """Compute what identifies a tool: its schema, its words and its effect."""
    facts = {name: tool.annotations[name] for name in sorted(tool.annotations)}
    return digest_of((msgspec.to_builtins(tool.spec), tool.effect, repr(facts)))


class RecordedAnswer(msgspec.Struct, frozen=True):
    """A recorded answer to the question of these sources; `unfit` tells why it does not count."""

    verdict: Decision
    sources: list[Source]
    unfit: str | None


EXPIRED: Final = "the approval has expired"


def find_answer(
    run: Run,
    call: ToolCall,
    tool: Tool,
    asking: Mapping[str, Source],
    given: Mapping[str, Decision],
) -> RecordedAnswer | None:
    """Find the answer that counts for the call as it would run now, else the last one.

    An answer that does not count comes with the reason.

    A call that is no longer as it was is asked about again. The answer to the earlier question stays
    good for the call as it was: whoever goes on with that one needs no other.
    """
    last: RecordedAnswer | None = None
    for known in _questions(run, call.id):
        verdict = given.get(known.ask or "")
        if verdict is None:
            continue
        sources = merge_sources(known, asking)
        why = _unfit(run, call, tool, known, asking) if verdict.allowed else None
        if why is None:
            return RecordedAnswer(verdict, sources, None)
        last = last or RecordedAnswer(verdict, sources, why)
    return last


def standing_question(
    run: Run, call: ToolCall, tool: Tool, asking: Mapping[str, Source]
) -> ToolDecided | None:
    """Find the last question about the call, if it is still the one to ask."""
    last = question_of(run, call.id)
    if last is None or last.ask is None or _unfit(run, call, tool, last, asking) is not None:
        return None
    return last


def _questions(run: Run, call_id: str) -> Iterator[ToolDecided]:
    """Iterate over the questions about a call of the turn under way, the last first."""
    for entry in reversed(run.journal.entries):
        if type(entry) is ToolDecided and entry.call_id == call_id and entry.action == "ask":
            yield entry
        if type(entry) is IterationStart:
            break


def _unfit(
    run: Run, call: ToolCall, tool: Tool, known: ToolDecided, asking: Mapping[str, Source]
) -> str | None:
    """Return why a yes to this question does not hold for the call as it is now, or None."""
    if known.expires_at is not None and seams.now() > known.expires_at:
        return EXPIRED
    before = {source.rule for source in unanswered_sources(sources_of(known))}
    new = [
        source.rule for source in unanswered_sources(asking.values()) if source.rule not in before
    ]
    if new:
        return f"{' and '.join(new)} had not asked"
    sources = merge_sources(known, asking)
    # what an older version asked is bound to what its one policy looked at
    about = _abouts(sources) if known.asks else sources[0].about
    if binding(run, call, tool, about, known.expires_at) != known.ask:
        return f"the call is no longer what was approved ({_changes(run, call, known)})"
    return None


def _changes(run: Run, call: ToolCall, known: ToolDecided) -> str:
    """Describe what is different from when the call was asked about."""
    if known.digest != digest_of(call.arguments):
        return "its arguments"
    if known.caller != run.caller_name:
        return "its caller"
    return "its session, its tool, its caller's roles or what the rule looked at"


def merge_sources(known: ToolDecided | None, asking: Mapping[str, Source]) -> list[Source]:
    """Merge the sources of now and before: a question stands until it is answered."""
    if known is None:
        return list(asking.values())
    before = [asking.get(source.rule, source) for source in sources_of(known)]
    rules = {source.rule for source in before}
    return before + [source for source in asking.values() if source.rule not in rules]


def question_of(run: Run, call_id: str) -> ToolDecided | None:
    """Find the last question about a call of the turn under way."""
    for entry in reversed(run.journal.entries):
        if type(entry) is ToolDecided and entry.call_id == call_id:
            return entry if entry.action == "ask" else None
        if type(entry) is IterationStart:
            break
    return None


def parked_by(run: Run, rule: str, call_id: str) -> bool:
    """Check whether the question that this policy parked the call with is answered."""
    if call_id not in run.calls.answers:
        return False
    known = question_of(run, call_id)
    return known is not None and rule in [one.rule for one in unanswered_sources(sources_of(known))]


def answered_before(run: Run, rule: str, call: ToolCall) -> str | None:
    """Find who answered this policy at once, before others parked the call as it is now."""
    known = question_of(run, call.id) if call.id in run.calls.answers else None
    if known is None or known.digest != digest_of(call.arguments):
        return None
    return next((one.by for one in sources_of(known) if one.rule == rule), None)

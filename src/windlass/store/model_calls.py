"""Records of model calls: one row for each, whoever made it and however it ended.

A row has the facts of the call in the journal, without content. It outlives the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias, TypedDict, cast

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.events import JournalEntry, Replied, ReplyFailed, RunStarted
from windlass.json_types import JsonObject
from windlass.usage import Usage


class ModelCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cost record of one model call: caller, model, tokens, dollars, outcome.

    ```python
    for call in await store.calls(tenant="acme", since=yesterday):
        print(call.model, call.input_tokens, call.cost_usd, call.outcome)
    ```
    """

    at: float  # when it went on the record
    provider: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    gpu_ms: float = 0.0
    cost_usd: float = 0.0
    latency_ms: float = 0.0
    attempts: int = 1
    tool_calls: int = 0  # that the reply asks for
    outcome: str = "ok"  # or the category of the error; "reserved": an estimate, under way or lost
    purpose: str | None = None  # of a call beside the turns: "judge", "shadow", …
    via: str | None = None  # "cache", "fallback", "escalation"; "estimated" may follow
    door: str | None = None  # agent_loop, agent, llm_call, …
    tenant: str | None = None
    caller: str | None = None
    request: str | None = None
    conversation: str | None = None
    session: str | None = None
    run: str | None = None

    @property
    def estimated(self) -> bool:
        """Whether tokens and dollars are an estimate, because the provider reported none."""
        return self.via is not None and ESTIMATED in self.via.split(",")

    @property
    def usage(self) -> Usage:
        """Its tokens."""
        return Usage(
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.reasoning_tokens,
            None,
            self.gpu_ms,
            self.estimated,
        )


#: The outcome of a call that is under way, or whose process has ended before its reply was stored.
RESERVED: Final = "reserved"


class SpendingLimit(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls from a time on may use together, by the books of a store."""

    since: float  # epoch seconds
    tokens: int | None = None
    usd: float | None = None

    def allows(self, tokens: int, usd: float, call: ModelCall) -> bool:
        """Is there room for the call beside what is on the books already?"""
        if self.tokens is not None:
            if tokens + call.input_tokens + call.output_tokens > self.tokens:
                return False
        # sums of fractions leave crumbs
        return self.usd is None or usd + call.cost_usd <= self.usd + 1e-9


class ReservedCall(NamedTuple):
    """The place of a reserved call on the books."""

    number: int
    at: float


class ReserveAnswer(NamedTuple):
    """Where a call was reserved, or None; and what is on the books beside it."""

    place: ReservedCall | None
    tokens: int
    usd: float


#: Stands in the column `via` where tokens are an estimate.
ESTIMATED: Final = "estimated"


def via_of(via: str | None, usage: Usage) -> str | None:
    """Combine how a reply was obtained with the mark for estimates: `"fallback,estimated"`."""
    if not usage.estimated:
        return via
    return ESTIMATED if via is None else f"{via},{ESTIMATED}"


class Which(TypedDict, total=False):
    """Filters of calls: `since`, `until` (epoch seconds), tenant, model and so on."""

    since: float | None
    until: float | None
    tenant: str | None
    caller: str | None
    request: str | None
    conversation: str | None
    session: str | None
    run: str | None
    provider: str | None
    model: str | None


def check_filters(which: Which) -> JsonObject:
    """Check the filters of a query; those that are None are left out."""
    asked: JsonObject = {}
    for name, value in cast("dict[str, object]", which).items():
        if name not in Which.__optional_keys__:
            raise ConfigError(
                f"calls are not chosen by {name!r}{nearest(name, Which.__optional_keys__)}"
            )
        if value is None:
            continue
        timed = name in ("since", "until")
        if not isinstance(value, (int, float) if timed else str) or isinstance(value, bool):
            kind = "a time in seconds" if timed else "a text"
            raise ConfigError(f"{name} is {kind}, not {safe_repr(value)}")
        asked[name] = value
    return asked


def among(calls: Iterable[ModelCall], which: Which) -> list[ModelCall]:
    """Filter calls, the oldest first."""
    asked = check_filters(which)
    since, until = asked.pop("since", None), asked.pop("until", None)
    found = [
        call
        for call in calls
        if (since is None or call.at >= since)
        and (until is None or call.at < until)
        and all([getattr(call, name) == value for name, value in asked.items()])
    ]
    return sorted(found, key=lambda call: call.at)


# --------------------------------------------------------------------------- from a journal

#: A call without the text of its entry.
Slip: TypeAlias = tuple[
    float, RunStarted | None, Usage, str, str, float, float, int, int, str | None, str | None, str
]  # at, run, usage, provider, model, cost, latency, attempts, calls, purpose, via, outcome


def slips_in(entries: Sequence[JournalEntry], ends: Sequence[float]) -> list[Slip]:
    """Return the calls of a journal; `ends` has the end and the time of each row.

    What stands in the first row was copied from the session it was forked from, and is on the
    books there.
    """
    found: list[Slip] = []
    run: RunStarted | None = None
    copied, size, row = ends[0], ends[-2], 0
    for index, entry in enumerate(entries):
        if isinstance(entry, RunStarted):
            run = entry
        elif isinstance(entry, (Replied, ReplyFailed)) and copied <= index < size:
            while ends[row] <= index:
                row += 2
            found.append(_slip(entry, run, ends[row + 1]))
    return found


def slips_of(kept: Iterable[JournalEntry], at: float) -> list[Slip]:
    """Return the calls among the kept entries of a journal, all with this time."""
    found: list[Slip] = []
    run: RunStarted | None = None
    for entry in kept:
        if isinstance(entry, RunStarted):
            run = entry
        elif isinstance(entry, (Replied, ReplyFailed)):
            found.append(_slip(entry, run, at))
    return found


def _slip(entry: Replied | ReplyFailed, run: RunStarted | None, at: float) -> Slip:
    if isinstance(entry, Replied):
        calls = len(entry.message.tool_calls)
        return (
            at,
            run,
            entry.usage,
            entry.provider,
            entry.model,
            entry.cost_usd,
            entry.duration_ms,
            entry.attempts,
            calls,
            entry.purpose,
            via_of(entry.via, entry.usage),
            "ok",
        )
    return (
        at,
        run,
        entry.usage,
        entry.provider,
        entry.model,
        entry.cost_usd,
        entry.duration_ms,
        entry.attempts,
        0,
        entry.purpose,
        via_of(None, entry.usage),
        entry.category,
    )


def calls_of(slips: Iterable[Slip], session: str) -> list[ModelCall]:
    """Build the rows of these calls."""
    return [_call(slip, session) for slip in slips]


def _call(slip: Slip, session: str) -> ModelCall:
    at, run, usage, provider, model, cost, took, attempts, calls, purpose, via, outcome = slip
    return ModelCall(
        at=at,
        provider=provider,
        model=model,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        gpu_ms=usage.gpu_ms,
        cost_usd=cost,
        latency_ms=took,
        attempts=attempts,
        tool_calls=calls,
        outcome=outcome,
        purpose=purpose,
        via=via,
        session=session,
        **({} if run is None else _facts(run)),
    )


def _facts(run: RunStarted) -> dict[str, str | None]:
    return {
        "door": run.door,
        "tenant": run.tenant,
        "caller": run.caller,
        "request": run.request_id,
        "conversation": run.conversation_id,
        "run": run.run_id,
    }

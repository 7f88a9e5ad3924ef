"""What the model saw in one call of a session, read from the journal alone.

`read_request_context(session_id, entries)` is the last turn; the request is rebuilt as `requests_of` does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from windlass.errors import ConfigError
from windlass.events import (
    Compacted,
    Framed,
    IterationEnd,
    IterationStart,
    JournalEntry,
    Projected,
    Replied,
    ReplyFailed,
    Reshaped,
    RunStarted,
    SessionReset,
    SkillNarrowed,
    SkillScopeTools,
    TaintAdded,
    ToolMessage,
)
from windlass.loop.plan import frame_of
from windlass.loop.requests import requests_of
from windlass.messages import Message, ToolResult, ToolSpec
from windlass.models.base import Request
from windlass.models.wrappers.text_tools import as_text
from windlass.replay.replay import RecordedRun, recorded_runs
from windlass.store.view import ViewFold
from windlass.trace.context import (
    Context,
    LeftOut,
    ModelCallSummary,
    describe_replacement,
    of_tools,
    pieces_of,
    tokens_of,
)


class RequestContext(msgspec.Struct, frozen=True):
    """One request: its parts, and the request itself."""

    context: Context
    request: Request


def read_request_context(
    session_id: str,
    entries: Sequence[JournalEntry],
    *,
    run: int | None = None,
    turn: int | None = None,
    call: int | None = None,
) -> RequestContext:
    """Rebuild what the model saw: in the last turn, or in the one given, counted from 1.

    Negative numbers count from the end. `call` is one of several calls of the turn.
    """
    runs = recorded_runs(entries)
    chosen = _run(runs, entries, run)
    turns = _turns(entries, chosen)
    number = _turn(turns, chosen, turn)
    at, which = _call(entries, turns[number], number, call)
    reply = cast("Replied", entries[at])
    request = requests_of(entries[: at + 1])[-1]
    begun = chosen.begun
    same_model = (reply.provider, reply.model) == (begun.provider, begun.model)
    written = (begun.metadata or {}).get("mode") == "text" and (reply.purpose is None or same_model)
    left_out = _left_out(entries, at, request)
    shown = as_text(request) if written else request
    context = Context(
        session_id=session_id,
        run=chosen.number,
        runs=len(runs),
        turn=number,
        turns=max(turns),
        call=which,
        calls=_calls(entries, turns[number]),
        agent=begun.name,
        provider=reply.provider,
        model=reply.model,
        purpose=reply.purpose,
        settings=msgspec.to_builtins(shown.settings),
        pieces=tuple(
            pieces_of(
                shown.system,
                shown.tools,
                shown.messages,
                shown.tail,
                _read_origins(entries[:at]),
            )
        ),
        left_out=tuple(left_out),
        written=written and bool(request.tools),
        usage=reply.usage,
    )
    return RequestContext(context, shown)


def _read_origins(entries: Sequence[JournalEntry]) -> dict[str, tuple[str, ...]]:
    """Read what flow control recorded of tools: whose results are untrusted, private or secret."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        if type(entry) is TaintAdded:
            known = found.setdefault(entry.tool, set())
            known.update(entry.results)
            if "reads_untrusted" in entry.labels:
                known.add("untrusted")
            if "reads_private" in entry.labels and "secret" not in known:
                known.add("private")
    return {tool: tuple(sorted(known)) for tool, known in found.items() if known}


# --------------------------------------------------------------------------- which one


def _run(
    runs: Sequence[RecordedRun], entries: Sequence[JournalEntry], number: int | None
) -> RecordedRun:
    if not runs or not any(type(entry) is Replied for entry in entries):
        raise ConfigError("no model has answered in this session yet: there is nothing to see")
    if number is None:
        with_calls = [run for run in runs if _answers(entries, run)]
        return (with_calls or runs)[-1]
    if number == 0 or not -len(runs) <= number <= len(runs):
        raise ConfigError(f"--run {number}: the session has {len(runs)}, counted from 1")
    return runs[number - 1 if number > 0 else number]


def _answers(entries: Sequence[JournalEntry], run: RecordedRun) -> bool:
    return any(type(entry) is Replied for entry in entries[run.start : run.stop])


def _turns(entries: Sequence[JournalEntry], run: RecordedRun) -> dict[int, list[int]]:
    """Return the indexes of the model calls of each turn; 0 is before the first."""
    turns: dict[int, list[int]] = {}
    number = 0
    for at in range(run.start, run.stop):
        entry = entries[at]
        if type(entry) is IterationStart:
            number = entry.number
        elif type(entry) in (Replied, ReplyFailed):
            turns.setdefault(number, []).append(at)
    return turns


def _turn(turns: dict[int, list[int]], run: RecordedRun, number: int | None) -> int:
    if not turns:
        raise ConfigError(f"run {run.number} has no model call on record")
    numbers = sorted(turns)
    if number is None:
        return numbers[-1]
    if number in turns:
        return number
    if number < 0 and -number <= len(numbers):
        return numbers[number]
    raise ConfigError(f"--turn {number}: run {run.number} has {_reach(numbers)}")


def _reach(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"only turn {numbers[0]}"
    return f"turns {numbers[0]} to {numbers[-1]}"


def _call(
    entries: Sequence[JournalEntry], places: Sequence[int], turn: int, number: int | None
) -> tuple[int, int]:
    """Return the index of the call in the journal, and its number in the turn."""
    if number is None:
        found = [at for at in places if type(entries[at]) is Replied]
        own = [at for at in found if cast("Replied", entries[at]).purpose is None]
        if not found:
            raise ConfigError(f"turn {turn}: {_describe_failure(entries[places[-1]])}")
        at = (own or found)[-1]
        return at, places.index(at) + 1
    if number == 0 or not -len(places) <= number <= len(places):
        raise ConfigError(f"--call {number}: turn {turn} has {len(places)}, counted from 1")
    at = places[number - 1 if number > 0 else number]
    if type(entries[at]) is ReplyFailed:
        raise ConfigError(f"--call {number}: {_describe_failure(entries[at])}")
    return at, places.index(at) + 1


def _describe_failure(entry: JournalEntry) -> str:
    failed = cast("ReplyFailed", entry)
    return (
        f"the call failed ({failed.category}: {failed.message}), and only requests that were "
        "answered are on record"
    )


def _calls(entries: Sequence[JournalEntry], places: Sequence[int]) -> tuple[ModelCallSummary, ...]:
    calls: list[ModelCallSummary] = []
    for number, at in enumerate(places, 1):
        entry = cast("Replied | ReplyFailed", entries[at])
        failed = entry.category if isinstance(entry, ReplyFailed) else None
        calls.append(
            ModelCallSummary(number, entry.purpose, f"{entry.provider}:{entry.model}", failed)
        )
    return tuple(calls)


# --------------------------------------------------------------------------- what is not there


class _Walk:
    """A walk through the journal up to a request: what left the view, and why."""

    def __init__(self) -> None:
        self.fold = ViewFold()
        self.run = self.turn = 0
        self.left_out: list[LeftOut] = []
        self.trims: list[tuple[ToolResult, LeftOut]] = []
        self.frames: dict[str, tuple[ToolSpec, ...]] = {}
        self.offered: dict[str, ToolSpec] = {}  # tools that this run had on offer at some time
        self.hidden: dict[str, tuple[str, str]] = {}  # why some of them are not, and since when

    def go(self, entry: JournalEntry) -> None:
        """Read the next entry."""
        match entry:
            case RunStarted():
                self.run, self.turn, self.offered = self.run + 1, 0, {}
            case IterationStart():
                self.turn = entry.number
            case Reshaped():
                self._note_reshape(entry)
            case Compacted():
                self._add_detail("compaction", f"{entry.reason}, {entry.strategy}")
            case Projected():
                self._add_detail("projection", entry.policy)
            case Replied() if entry.purpose is None:
                self._on_offer(entry.frame)
            case SessionReset():
                gone = self.fold.messages
                self.left_out = [LeftOut("reset", "messages", len(gone), tokens_of(gone))]
            case IterationEnd() if entry.verdict == "dropped":
                self._note_dropped_reply(entry)
            case ToolMessage():
                self._note_trimmed_results(entry)
            case Framed():
                self.frames[entry.digest] = frame_of(entry).tools
                if entry.why == "start":
                    self._on_offer(entry.digest)
            case SkillNarrowed():
                self._note_hidden_tools(entry.removed_tools, ("narrowed", entry.reason))
            case SkillScopeTools():
                self._note_hidden_tools(entry.hidden, ("hidden by a skill", entry.name))
            case _:
                pass
        self.fold.apply(entry)

    def _note_reshape(self, entry: Reshaped) -> None:
        gone = self.fold.messages[entry.start : entry.stop]
        change = describe_replacement(gone, entry.messages, entry.why, run=self.run, turn=self.turn)
        if change is not None:
            self.left_out.append(change)

    def _add_detail(self, why: str, detail: str) -> None:
        """Add a note to the change that it is about."""
        if self.left_out and why in self.left_out[-1].why:
            self.left_out[-1] = msgspec.structs.replace(self.left_out[-1], detail=detail)

    def _note_hidden_tools(self, tools: Sequence[str], why: tuple[str, str]) -> None:
        reason, detail = why
        for name in tools:
            self.hidden[name] = reason, f"{detail}, since turn {max(1, self.turn)}"

    def _on_offer(self, frame: str) -> None:
        for tool in self.frames.get(frame, ()):
            self.offered.setdefault(tool.name, tool)

    def _note_dropped_reply(self, entry: IterationEnd) -> None:
        reply = next((m for m in reversed(self.fold.messages) if m.role == "assistant"), None)
        if reply is not None:
            size = tokens_of([reply])
            note = LeftOut("dropped reply", "messages", 1, size, run=self.run, turn=self.turn)
            self.left_out.append(msgspec.structs.replace(note, detail=entry.reason or ""))

    def _note_trimmed_results(self, entry: ToolMessage) -> None:
        for call_id, result in (entry.shown or {}).items():
            whole = self.fold.results.get(call_id)
            if whole is None:
                continue
            full, left = (tokens_of([Message("tool", (each,))]) for each in (whole, result))
            if left < full:
                note = LeftOut(
                    "trimmed result",
                    "results",
                    1,
                    full,
                    1,
                    left,
                    (whole.name or result.name or call_id,),
                    self.run,
                    self.turn,
                )
                self.trims.append((result, note))


def _left_out(entries: Sequence[JournalEntry], at: int, request: Request) -> list[LeftOut]:
    reply = cast("Replied", entries[at])
    walk = _Walk()
    for entry in entries[:at]:
        walk.go(entry)
    if reply.purpose is not None:
        return []  # calls beside the turn have their own messages
    found = list(walk.left_out)
    seen_results = [b for m in request.messages for b in m.content if type(b) is ToolResult]
    found += [note for result, note in walk.trims if result in seen_results]
    if reply.rewritten is not None:
        view = walk.fold.messages
        change = describe_replacement(
            view, list(request.messages), "rewritten", turn=walk.turn, run=walk.run
        )
        if change is not None:
            found.append(change)
    return [*found, *_tools(walk, request)]


def _tools(walk: _Walk, request: Request) -> list[LeftOut]:
    shown = {tool.name for tool in request.tools}
    found: list[LeftOut] = []
    missing: dict[tuple[str, str], list[ToolSpec]] = {}
    for name, tool in walk.offered.items():
        if name not in shown:
            missing.setdefault(walk.hidden.get(name, ("not offered", "")), []).append(tool)
    found += [of_tools(why, tools, detail) for (why, detail), tools in missing.items()]
    deferred = [tool for tool in request.tools if tool.defer_loading]
    if deferred:
        found.append(of_tools("deferred", deferred, "until a search finds them"))
    return found

"""From a journal to its trace: when everything began and ended.

A row's time is when it was handed to the store, and the kernel hands on what it has right before a
model call and right before tools start. So a reply began when the row before it was written, a tool
when its intent was; how long they took is on record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from windlass.events import (
    IterationStart,
    JournalEntry,
    Noted,
    Replied,
    ReplyFailed,
    RunEnded,
    RunResumed,
    RunStarted,
    Said,
    SessionOpened,
    ToolDecided,
    ToolIntended,
    ToolMessage,
    ToolResulted,
)
from windlass.json_types import as_list, as_object
from windlass.messages import Thinking, ToolCall
from windlass.trace.marks import said_by
from windlass.trace.model import (
    OPEN,
    Bar,
    Mark,
    Part,
    Picture,
    StepState,
    Turn,
)

LATEST = 2.5e11  # epoch seconds; a journal with other times is wrong, and is drawn all the same
LONGEST = 1e7  # seconds of one call
SLACK = 0.005  # seconds that clocks and disks may disagree by


class Append(NamedTuple):
    """One append: its time, and its entries."""

    at: float
    entries: Sequence[JournalEntry]


def picture_of(
    session_id: str,
    rows: Sequence[Append],
    children: Mapping[str, Sequence[Picture]] | None = None,
    *,
    forks: tuple[str, ...] = (),
) -> Picture:
    """Build the trace of a session; `children` are those of called agents, by call id.

    Those of no call, such as simulated users that are asked after a turn, are under the empty id.
    """
    reader = _Reader(session_id, children or {})
    for row in rows:
        reader.take(row)
    return reader.finish(forks)


class _Reader:
    """One pass over the rows. Times are epoch seconds until the end."""

    def __init__(self, session_id: str, children: Mapping[str, Sequence[Picture]]) -> None:
        self.session_id, self.children = session_id, children
        self.opened: SessionOpened | None = None
        self.parts: list[Part] = []
        self.number = 0  # entries so far
        self.before: float | None = None  # the row before
        self.cursor = 0.0  # how far the row has come
        self.true = True  # its times are those of a live run
        self.asked: dict[str, ToolCall] = {}
        self.changed: dict[str, ToolDecided] = {}
        self.begun: dict[str, tuple[float, ToolIntended, int]] = {}
        self.asking: float | None = None  # a turn has begun without a reply

    def take(self, row: Append) -> None:
        """Place the entries of one append."""
        row = Append(min(max(row.at, 0.0), LATEST), row.entries)
        work = sum(_seconds(entry) for entry in row.entries if not _beside(entry))
        start = row.at if self.before is None else min(self.before, row.at)
        self.true = work <= row.at - start + SLACK or _in_parallel(row.entries, self.begun)
        self.cursor = start if self.true else row.at - work
        for entry in row.entries:
            self._place(entry, row.at)
            self.number += 1
        self.before = row.at

    def _place(self, entry: JournalEntry, at: float) -> None:
        match entry:
            case SessionOpened():
                self.opened = entry
            case RunStarted():
                self._begin(entry, at)
            case IterationStart():
                self.cursor = at if self.true else self.cursor
                self._turns().append(Turn(entry.number, self.cursor, self.cursor, [], []))
                self.asking = self.cursor
            case Replied():
                self._read_reply(entry)
            case ReplyFailed():
                self._add(self._model_bar(entry, entry.category, entry.message))
            case ToolDecided():
                if entry.arguments is not None:
                    self.changed[entry.call_id] = entry
            case ToolIntended():
                when = at if self.true and not entry.eager else self.cursor
                self.begun[entry.call_id] = (when, entry, self.number)
            case ToolResulted():
                self._read_result(entry, at)
            case ToolMessage():
                pass
            case Said():
                self._read_message(entry)
            case RunResumed():
                self.cursor = at if self.true else self.cursor
                if self.parts:  # it was parked, and is under way again
                    part = self.parts[-1]
                    part.status = part.stop_reason = part.error = None
            case Noted():
                self._read_note(entry, at)
            case _:
                pass
        mark = said_by(entry)
        if mark is not None:
            self._mark(Mark(mark.kind, mark.text, self.cursor, self.number, mark.tone, mark.detail))
        if isinstance(entry, RunEnded):
            self._end(entry)

    # ----------------------------------------------------------------- runs and turns

    def _begin(self, entry: RunStarted, at: float) -> None:
        self._add_open_bars()
        self.cursor = at if self.true else self.cursor
        self.parts.append(
            Part(
                len(self.parts) + 1,
                entry.run_id,
                entry.door,
                entry.caller,
                entry.provider,
                entry.model,
                self.cursor,
                self.cursor,
                entry.name,
                turns=[Turn(0, self.cursor, self.cursor, [], [])],
                steps=[],
            )
        )

    def _turns(self) -> list[Turn]:
        if not self.parts:  # a journal that was seeded, or made by hand
            nobody = Part(1, "", "", "", "", "", self.cursor, self.cursor)
            nobody.turns = [Turn(0, self.cursor, self.cursor, [], [])]
            self.parts.append(nobody)
        return self.parts[-1].turns

    def _end(self, entry: RunEnded) -> None:
        if self.parts:
            part = self.parts[-1]
            part.status, part.stop_reason = entry.status, entry.stop_reason
            part.error = str((entry.error or {}).get("message") or "") or None
        self.asking = None
        if entry.status != "suspended":
            self._add_open_bars()

    def _read_message(self, entry: Said) -> None:
        message = entry.message
        if self.parts and message.role == "user" and not self.parts[-1].prompt and message.text:
            if len(self.parts[-1].turns) == 1:
                self.parts[-1].prompt = message.text
                return
        if message.kind is None and message.text:
            self._mark(Mark("said", f"{message.role}: {message.text}", self.cursor, self.number))

    def _read_note(self, entry: Noted, at: float) -> None:
        """Keep how far the steps of a workflow are."""
        if entry.name not in ("workflow_step_begun", "workflow_step_ended") or not self.parts:
            return
        data, steps = as_object(entry.data), self.parts[-1].steps
        if entry.name == "workflow_step_begun":
            number = data.get("number")
            number = number if isinstance(number, int) else len(steps) + 1
            steps[:] = [one for one in steps if one.number != number]
            steps.append(StepState(number, str(data.get("name")), str(data.get("kind"))))
            return
        # The note stands before the result of the step's call, which ended when the row was written.
        self.cursor = max(self.cursor, at) if self.true else self.cursor
        for step in steps:
            if step.number == data.get("number"):
                step.status = str(data.get("status"))
                step.verdict = str(data["verdict"]) if data.get("verdict") else None
                step.edges = tuple([str(edge) for edge in as_list(data.get("edges"))])

    # ----------------------------------------------------------------- bars

    def _read_reply(self, entry: Replied) -> None:
        for call in entry.message.tool_calls:
            self.asked[call.id] = call
        bar = self._model_bar(entry, "ok", entry.message.text)
        bar.stop_reason, bar.via = entry.stop_reason, entry.via
        bar.asks = tuple(call.name for call in entry.message.tool_calls)
        bar.thought = "".join(b.text for b in entry.message.content if isinstance(b, Thinking))
        self._add(bar)

    def _model_bar(self, entry: Replied | ReplyFailed, outcome: str, words: str) -> Bar:
        start, took = self.cursor, _seconds(entry)
        if not _beside(entry):
            self.cursor = start + took
            self.asking = None
        return Bar(
            "aside" if entry.purpose else "model",
            entry.model,
            start,
            start + took,
            self.number,
            outcome,
            entry.provider,
            entry.purpose,
            usage=entry.usage,
            cost_usd=entry.cost_usd,
            attempts=entry.attempts,
            answer=words,
        )

    def _read_result(self, entry: ToolResulted, at: float) -> None:
        took = _seconds(entry)
        begun = self.begun.pop(entry.call_id, None)
        if begun is not None and begun[0] <= at:
            start = begun[0] if not (begun[1].eager and self.true) else min(begun[0], at - took)
            end = min(start + took, at)
            self.cursor = max(self.cursor, end)
        else:
            start, end = self.cursor, self.cursor + took
            self.cursor = end
        outcome = entry.outcome
        if outcome == "ok" and entry.result.is_error:
            outcome = "error"
        self._add(self._tool_bar(entry.call_id, entry.tool, start, end, outcome, begun, entry))

    def _tool_bar(
        self,
        call_id: str,
        tool: str,
        start: float,
        end: float,
        outcome: str,
        begun: tuple[float, ToolIntended, int] | None,
        entry: ToolResulted | None,
    ) -> Bar:
        asked, changed = self.asked.get(call_id), self.changed.get(call_id)
        arguments = changed.arguments if changed is not None else asked and asked.arguments
        if asked is not None and asked.raw is not None:
            arguments = asked.raw
        intent = begun[1] if begun is not None else None
        return Bar(
            "tool",
            tool,
            start,
            end,
            self.number if entry is not None or begun is None else begun[2],
            outcome,
            attempts=intent.attempt if intent is not None else 1,
            call_id=call_id,
            effect=intent.effect if intent is not None else None,
            eager=intent is not None and intent.eager,
            arguments=arguments,
            answer=entry.result.text if entry is not None else "",
            children=tuple(self.children.get(call_id, ())),
            traceback=(entry.traceback or "") if entry is not None else "",
        )

    def _add_open_bars(self) -> None:
        """Add bars for what has no recorded end: it is running, or the process died."""
        if self.asking is not None and self.parts:
            part = self.parts[-1]
            self._add(
                Bar("model", part.model, self.asking, self.asking, self.number, OPEN, part.provider)
            )
            self.asking = None
        for call_id, begun in list(self.begun.items()):
            when, intent, _ = begun
            self._add(self._tool_bar(call_id, intent.tool, when, when, OPEN, begun, None))
        self.begun.clear()

    def _add_aside(self, child: Picture) -> None:
        """Add the bar of a run that worked for this one without a call, in the turn of its time."""
        turns = [turn for part in self.parts for turn in part.turns]
        begun = [turn for turn in turns if turn.start <= child.zero] or turns[:1]
        if begun:
            name = next((part.name for part in child.parts if part.name), "agent")
            end = child.zero + max([part.end for part in child.parts], default=0.0)
            bar = Bar("aside", name, child.zero, end, self.number, purpose=name, children=(child,))
            begun[-1].bars.append(bar)

    def _add(self, bar: Bar) -> None:
        turn = self._turns()[-1]
        turn.bars.append(bar)

    def _mark(self, mark: Mark) -> None:
        self._turns()[-1].marks.append(mark)

    # ----------------------------------------------------------------- the end

    def finish(self, forks: tuple[str, ...]) -> Picture:
        """Put everything on one axis that begins at zero."""
        self._add_open_bars()
        for child in self.children.get("", ()):
            self._add_aside(child)
        zero = min((start for part in self.parts for start in _starts(part)), default=self.cursor)
        for part in self.parts:
            for turn in part.turns:
                _shift(turn, zero)
            part.start -= zero
            part.end = max([part.start, *(turn.end for turn in part.turns)])
            part.turns = [turn for turn in part.turns if turn.number or turn.bars or turn.marks]
        opened = self.opened
        return Picture(
            self.session_id,
            zero,
            self.parts,
            self.number,
            opened.parent_id if opened is not None else None,
            opened.branch_at if opened is not None else None,
            forks,
        )


def _starts(part: Part) -> list[float]:
    return [part.start, *(bar.start for turn in part.turns for bar in turn.bars)]


def _shift(turn: Turn, zero: float) -> None:
    turn.start -= zero
    for bar in turn.bars:
        bar.start, bar.end = bar.start - zero, bar.end - zero
        for child in bar.children:
            shift(child, child.zero - zero)
            bar.end = max(bar.end, bar.start)
    for mark in turn.marks:
        mark.at -= zero
    ends = [turn.start, *(bar.end for bar in turn.bars), *(mark.at for mark in turn.marks)]
    turn.end = max(ends)


def shift(picture: Picture, seconds: float) -> None:
    """Move a trace along the axis: a called agent's onto that of its caller."""
    picture.zero -= seconds
    for part in picture.parts:
        part.start, part.end = part.start + seconds, part.end + seconds
        for turn in part.turns:
            turn.start, turn.end = turn.start + seconds, turn.end + seconds
            for mark in turn.marks:
                mark.at += seconds
            for bar in turn.bars:
                bar.start, bar.end = bar.start + seconds, bar.end + seconds
                for child in bar.children:
                    shift(child, seconds)


def _seconds(entry: JournalEntry) -> float:
    if isinstance(entry, (Replied, ReplyFailed, ToolResulted)):
        return min(max(entry.duration_ms / 1000, 0.0), LONGEST)
    return 0.0


_BESIDE = frozenset(
    {"shadow", "escalated", "empty_completion", "failed_attempt"}
)  # within the time of the reply they stand beside


def _beside(entry: JournalEntry) -> bool:
    return isinstance(entry, (Replied, ReplyFailed)) and entry.purpose in _BESIDE


def _in_parallel(
    entries: Sequence[JournalEntry], begun: Mapping[str, tuple[float, ToolIntended, int]]
) -> bool:
    """Check whether these entries hold results of calls that began in an earlier row."""
    return any(type(entry) is ToolResulted and entry.call_id in begun for entry in entries)

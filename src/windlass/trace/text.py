"""The trace as lines of text: turns as rows, bars on a time axis, costs at the side.

`draw(picture, 80)` gives lines made of pieces, each with a style. In plain letters where the
terminal has no others. Whatever models and tools wrote is cleaned and cut before it is drawn.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from windlass.trace.axis import Axis, axis_of, ticks
from windlass.trace.format import (
    cells,
    clean,
    count,
    duration,
    fit,
    format_fine_duration,
    literal,
    money,
    pad,
    short,
)
from windlass.trace.model import (
    RUNNING,
    UNENDED,
    WAITING,
    Bar,
    Mark,
    Part,
    Picture,
    Turn,
    cached_share,
)
from windlass.trace.progress import WORDS, describe_rest, group_steps
from windlass.usage import Usage

Piece: TypeAlias = "str | tuple[str, str]"
Line: TypeAlias = tuple[Piece, ...]

NARROWEST = 60
SIDE = 26  # tokens, cache and cost
UNFOLDED = 40  # turns that are drawn whole
TRACEBACK = 8  # lines of it, at the end
_PATH = re.compile(r'File "([^"]*)"')
KEPT = 8  # turns at either end of a fold
DEPTH = 4  # of agents in agents
STEPS = 40  # of a workflow that are listed; the rest is counted
GOOD = ("done", "idle")


class Pens(NamedTuple):
    """The characters to draw with."""

    model: str
    aside: str
    tool: str
    failed: str
    open: str
    mark: str
    tick: str
    rule: str
    dots: str
    tree: str
    dot: str
    done: str
    waits: str
    runs: str


FINE = Pens("█", "▒", "▄", "×", "▷", "◆", "┴", "─", "…", "│", "·", "●", "◇", "◐")
PLAIN = Pens("=", "~", "#", "x", ">", "*", "+", "-", "..", "|", "-", "*", "?", ">")

_STYLES = {"model": "cyan", "aside": "magenta", "tool": "green"}
_TONES = {"plain": "dim", "good": "green", "warn": "yellow", "bad": "red"}


def draw(
    picture: Picture,
    width: int,
    *,
    fine: bool = True,
    full: bool = False,
    only: Sequence[Part] | None = None,
    turns: tuple[int, int] | None = None,
) -> Iterator[Line]:
    """Yield the lines of the trace. Long runs are folded unless `full`."""
    parts = list(picture.parts if only is None else only)
    if turns is not None:
        parts = [_within(part, turns) for part in parts]
    easel = _Easel(axis_of(parts), max(width, NARROWEST), FINE if fine else PLAIN, full)
    for line in (*_head(picture, parts, easel.width), ("",)):
        yield easel.simple(line)
    if not parts:
        yield easel.simple((("nothing has run in this session yet", "dim"),))
        return
    if any(turn.bars or turn.marks for part in parts for turn in part.turns):
        yield from map(easel.simple, easel.ruler())
    for part in parts:
        yield from map(easel.simple, _part(easel, part, len(picture.parts)))
    yield ("",)
    yield from map(easel.simple, easel.legend())


def _within(part: Part, turns: tuple[int, int]) -> Part:
    kept = [turn for turn in part.turns if turns[0] <= turn.number <= turns[1]]
    return msgspec.structs.replace(part, turns=kept)


# --------------------------------------------------------------------------- head


def _head(picture: Picture, parts: Sequence[Part], width: int) -> Iterator[Line]:
    totals = picture.totals
    status = _status(parts[-1]) if parts else "empty"
    tone = "green" if status in GOOD else "yellow"
    yield ((fit(picture.session_id, 60), "bold"), "  ", (fit(status, 40), tone))
    if parts:
        part = parts[-1]
        who = f"{part.name}: " if part.name else ""
        model = f"{part.provider}:{part.model}" if part.model else "no model"
        yield ((f"{fit(who + model, 70)} · {_date(picture.zero)}", "dim"),)
        share = cached_share(totals.usage)
        usage = totals.usage
        facts = [
            count(totals.turns, "turn"),
            count(totals.tool_calls, "tool call"),
            f"{short(usage.input_tokens)} in, {short(usage.output_tokens)} out",
            f"{share:.0%} cached" if share else "",
            money(totals.cost_usd),
            duration(sum(_work(part) for part in picture.parts)),
            f"{totals.failed} failed" if totals.failed else "",
        ]
        yield from _wrap_facts([fact for fact in facts if fact], width)
    if picture.parent_id:
        kept = "" if picture.branch_at is None else f" after {count(picture.branch_at, 'message')}"
        relation = "forked from" if picture.branch_at is not None else "called by"
        yield ((f"{relation} {fit(picture.parent_id, 60)}{kept}", "dim"),)
    if picture.forks:
        yield ((f"forks: {fit(', '.join(picture.forks), 70)}", "dim"),)


def _date(at: float) -> str:
    try:
        return f"{datetime.datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S %Z}"
    except (ValueError, OverflowError, OSError):
        return "at no known time"


def _wrap_facts(facts: Sequence[str], width: int) -> Iterator[Line]:
    line = ""
    for fact in facts:
        longer = f"{line} · {fact}" if line else fact
        if line and cells(longer) > width:
            yield (line,)
            longer = fact
        line = longer
    yield (line,)


def _status(part: Part) -> str:
    if part.status is None:
        return "running" if part.under_way else "unfinished"
    good = part.status in GOOD or not part.stop_reason
    return part.status if good else f"{part.status} ({part.stop_reason})"


def _work(part: Part) -> float:
    return axis_of([part]).length


# --------------------------------------------------------------------------- runs and turns


def _part(easel: _Easel, part: Part, many: int, indent: str = "") -> Iterator[Line]:
    if many > 1 or indent:
        name = part.name or part.model or part.door
        title = f"{indent}run {part.number}: {fit(name, 40)}, {_status(part)}"
        yield ((fit(title, easel.width), "bold"),)
    if part.prompt:
        yield ((fit(f"{indent}asked: {part.prompt}", easel.width), "dim"),)
    yield from _steps(easel, part, indent)
    if easel.full:
        shown: list[Turn | list[Turn]] = [*part.turns]
    else:
        shown = _fold_turns(part.turns)
    for item in shown:
        if isinstance(item, list):
            yield from _fold(easel, item, indent)
        else:
            yield from _turn(easel, item, indent)
    if part.status is None and not part.under_way:
        yield ((f"{indent}(no end on record: it is under way, or its process died)", "yellow"),)


_STEP_STYLES = {"done": "green", "failed": "red"}


def _steps(easel: _Easel, part: Part, indent: str) -> Iterator[Line]:
    """Draw how far the steps of a workflow are."""
    groups = list(group_steps(part.steps))
    pens = easel.pens
    marks = {"done": pens.done, "failed": pens.failed, WAITING: pens.waits, RUNNING: pens.runs}
    for group in groups[:STEPS]:
        style = _STEP_STYLES.get(group.status, "yellow")
        then = f", then {', '.join(group.edges)}" if group.edges else ""
        kind = f" ({group.kind})  "
        words = fit(f"{group.words}{then}", easel.width)
        mark = marks.get(group.status, pens.open)
        yield (f"{indent}  ", (mark, style), f" {fit(group.name, 40)}{kind}", (words, style))
    if len(groups) > STEPS:
        yield ((f"{indent}  {pens.dots} {describe_rest(len(groups) - STEPS)}", "dim"),)


def _fold_turns(turns: Sequence[Turn]) -> list[Turn | list[Turn]]:
    """Fold long stretches of uneventful turns into one line."""
    if len(turns) <= UNFOLDED:
        return [*turns]
    last = len(turns) - KEPT
    notable = [n for n, turn in enumerate(turns) if KEPT <= n < last and turn.notable]
    keep = set(notable[: UNFOLDED - 2 * KEPT])
    shown: list[Turn | list[Turn]] = []
    for number, turn in enumerate(turns):
        if number < KEPT or number >= last or number in keep:
            shown.append(turn)
        elif shown and isinstance(shown[-1], list):
            shown[-1].append(turn)
        else:
            shown.append([turn])
    return [item[0] if isinstance(item, list) and len(item) == 1 else item for item in shown]


def _fold(easel: _Easel, turns: list[Turn], indent: str) -> Iterator[Line]:
    start, end = turns[0].start, max(turn.end for turn in turns)
    calls = sum(bar.kind == "tool" for turn in turns for bar in turn.bars)
    failed = sum(bar.failed for turn in turns for bar in turn.bars)
    dots = easel.pens.dots
    label = easel.label(indent, f"{dots} {turns[0].number} to {turns[-1].number}", "")
    summary = f"{count(len(turns), 'turn')}, {count(calls, 'call')}"
    if failed:
        summary += f", {failed} failed"
    usage = sum((turn.usage for turn in turns[1:]), turns[0].usage)
    cost = sum(turn.cost_usd for turn in turns)
    yield easel.row(label, start, end, (easel.pens.rule, "dim"), summary, easel.costs(usage, cost))


_EXPLAINED = ("asks", "denied", "never", "allowed", "answered")  # marks of decisions


def _turn(easel: _Easel, turn: Turn, indent: str) -> Iterator[Line]:
    head = f"turn {turn.number}" if turn.number else ""
    things: list[tuple[float, int, Bar | Mark]] = [
        *((bar.start, bar.entry, bar) for bar in turn.bars),
        *((mark.at, mark.entry, mark) for mark in turn.marks),
    ]
    things.sort(key=lambda thing: (thing[0], thing[1]))
    for _, _, thing in things:
        if isinstance(thing, Mark):
            yield easel.mark(easel.label(indent, head, thing.kind), thing)
            if thing.kind in _EXPLAINED and thing.detail:
                yield from easel.explain(thing.detail)
        else:
            name = thing.name if thing.kind == "tool" else thing.purpose or "model"
            yield easel.bar(easel.label(indent, head, name), thing)
            if thing.traceback:
                yield from easel.explain(_last_lines(thing.traceback, easel))
            for child in thing.children:
                yield from _child(easel, child, indent)
        head = ""
    if not things:
        yield ((f"{indent}{head}", ""),)


def _last_lines(traceback: str, easel: _Easel) -> str:
    """Return the end of a traceback, where the error is; all of it in a full drawing."""
    lines = [_PATH.sub(_shorten_path, line) for line in traceback.splitlines()]
    if not easel.full and len(lines) > TRACEBACK:
        lines = [f"{easel.pens.dots} --full shows all", *lines[-TRACEBACK:]]
    return "\n".join(lines)


def _shorten_path(found: re.Match[str]) -> str:
    folder, _, file = found[1].rpartition("/")
    return f'File "{folder.rpartition("/")[2]}/{file}"' if folder else found[0]


def _child(easel: _Easel, picture: Picture, indent: str) -> Iterator[Line]:
    deeper = f"{indent}{easel.pens.tree} "
    if len(indent) >= 2 * DEPTH:
        yield ((f"{deeper}more: windlass trace {fit(picture.session_id, 50)}", "dim"),)
        return
    for part in picture.parts:
        yield from _part(easel, part, 1, deeper)


# --------------------------------------------------------------------------- lines


class _Easel:
    """The drawing area: the axis, and the widths of its columns."""

    def __init__(self, axis: Axis, width: int, pens: Pens, full: bool) -> None:
        self.axis, self.width, self.pens, self.full = axis, width, pens, full
        self.left = 20 if width < 100 else 28
        self.room = width - self.left - SIDE - 2

    def label(self, indent: str, head: str, name: str) -> str:
        """Build the label of a row, exactly as wide as its column."""
        begin = indent + (f"{head:<8} " if name else head)
        return begin + pad(name, max(0, self.left - 1 - cells(begin)))

    def column(self, moment: float) -> int:
        """Return the column of a moment."""
        if self.axis.length <= 0:
            return 0
        return min(self.room - 1, int(self.axis.place_of(moment) / self.axis.length * self.room))

    def ruler(self) -> Iterator[Line]:
        """Yield the scale, with the heads of the columns at the side."""
        labels, rule = [" "] * self.room, [self.pens.rule] * self.room
        free = 0
        for place in ticks(self.axis, max(3, self.room // 9)):
            at = 0
            if self.axis.length > 0:
                at = min(self.room - 1, int(place / self.axis.length * self.room))
            text = duration(self.axis.work_seconds(place)) if place else "0"
            if at >= free and at + len(text) <= self.room:
                labels[at : at + len(text)] = text
                free = at + len(text) + 2
                rule[at] = self.pens.tick
        side = f"{'tokens':>12} {'cache':>5} {'cost':>7}"
        yield (" " * self.left, ("".join(labels), "dim"), "  ", (side, "dim"))
        yield (" " * self.left, ("".join(rule), "dim"))

    def costs(self, usage: object, usd: float) -> str:
        """Format tokens, cache share and dollars, in their columns."""
        if not isinstance(usage, Usage) or not (usage.total_tokens or usd):
            return ""
        share = cached_share(usage)
        cached = f"{share:.0%}" if share is not None and usage.cache_read_tokens else ""
        tokens = f"{short(usage.input_tokens)}+{short(usage.output_tokens)}"
        return f"{tokens:>12} {cached:>5} {money(usd) if usd else '':>7}"

    def bar(self, label: str, bar: Bar) -> Line:
        """Draw a model or tool call."""
        unended = bar.outcome in UNENDED
        pen = self.pens.failed if bar.failed else self.pens.open if unended else ""
        pen = pen or getattr(self.pens, bar.kind)
        style = "red" if bar.failed else "yellow" if unended else _STYLES[bar.kind]
        notes = [] if unended and not bar.seconds else [format_fine_duration(bar.seconds)]
        if bar.outcome != "ok":
            notes.append(_outcome(bar.outcome))
        if bar.attempts > 1:
            notes.append(
                f"{bar.attempts} attempts" if bar.kind != "tool" else f"try {bar.attempts}"
            )
        if bar.via:
            notes.append(f"by {bar.via}")
        if bar.kind == "tool" and bar.failed and bar.answer:
            notes.append(bar.answer)
        if bar.kind != "tool" and bar.failed:
            notes.append(bar.answer)
        side = self.costs(bar.usage, bar.cost_usd)
        if bar.kind == "tool" and not bar.failed and bar.arguments:
            notes.append(_brief(bar.arguments))
        note = f" {self.pens.dot} ".join(notes)
        return self.row(label, bar.start, bar.end, (pen, style), note, side)

    def row(
        self, label: str, start: float, end: float, pen: tuple[str, str], words: str, side: str
    ) -> Line:
        """Draw a label, a bar with text beside it, and the costs."""
        first = self.column(start)
        length = max(1, self.column(end) - first)
        length = min(length, self.room - first)
        after = self.room - first - length - 1
        drawn = (pen[0] * length)[:length]
        head: Line = (label, " ")
        if not side:
            after += SIDE + 2
        brief = words.split(f" {self.pens.dot} ")[0]
        if max(after, first - 1) < cells(brief) and length > cells(brief) + 4:
            rest = length - cells(brief) - 4
            inside = (
                (pen[0] * 2 + " ", pen[1]),
                (brief, "dim"),
                (" " + pen[0] * (rest + 1), pen[1]),
            )
            pieces: Line = (" " * first, *inside, " " * max(0, after + 1))
        elif cells(words) <= after or after >= first - 1 or after >= 24:
            tail = pad(words, max(0, after))
            pieces = (" " * first, (drawn, pen[1]), " ", (tail, "dim"))
        else:
            space = padded_left(fit(words, first - 1), first - 1)
            rest = " " * (self.room - first - length)
            pieces = ((space, "dim"), " ", (drawn, pen[1]), rest)
        return (*head, *pieces, *((("  " + side, ""),) if side else ()))

    def explain(self, detail: str) -> Iterator[Line]:
        """Draw the lines that explain a decision: its values, and where they come from."""
        for line in detail.splitlines():
            text = fit(clean(line), self.room + SIDE)
            yield ((self.label("", "", ""), ""), "   ", (text, "dim"))

    def mark(self, label: str, mark: Mark) -> Line:
        """Draw a decision at its moment."""
        at, style = self.column(mark.at), _TONES[mark.tone]
        whole = self.room + SIDE + 2
        after = whole - at - 2
        head: Line = ((label, style), " ")
        if cells(fit(mark.text, whole)) <= after or after >= at:
            return (*head, " " * at, (self.pens.mark, style), " ", (fit(mark.text, after), style))
        text = padded_left(fit(mark.text, at - 1), at - 1)
        return (*head, (text, style), " ", (self.pens.mark, style))

    def legend(self) -> Iterator[Line]:
        """Yield the legend, and the time that was left out."""
        pens = self.pens
        yield (
            (
                f"{pens.model} model  {pens.aside} judges, asides  {pens.tool} tool  "
                f"{pens.failed} failed  {pens.open} no end on record  {pens.mark} decision",
                "dim",
            ),
        )
        waited = sum(cut.end - cut.start for cut in self.axis.cuts)
        if waited:
            many = count(len(self.axis.cuts), "wait")
            yield ((f"{many} of {duration(waited)} in all cut from the axis", "dim"),)

    def simple(self, line: Line) -> Line:
        """Adapt the line to the terminal, without trailing spaces."""
        pieces = [piece if isinstance(piece, tuple) else (piece, "") for piece in line]
        room = self.width
        for at, (text, style) in enumerate(pieces):
            if cells(text) > room:
                pieces[at:] = [(fit(text, room), style)]
                break
            room -= cells(text)
        if self.pens is PLAIN:
            pieces = [(_ascii(text), style) for text, style in pieces]
        while pieces and not pieces[-1][0].rstrip():
            pieces.pop()
        if pieces:
            pieces[-1] = (pieces[-1][0].rstrip(), pieces[-1][1])
        return tuple(text if not style else (text, style) for text, style in pieces) or ("",)


def padded_left(text: str, width: int) -> str:
    """Align the text to the right of so many columns."""
    return " " * max(0, width - cells(text)) + text


def _outcome(outcome: str) -> str:
    return WORDS.get(outcome) or outcome.replace("_", " ")


def _brief(arguments: object) -> str:
    """Format arguments briefly: the values alone."""
    if isinstance(arguments, dict):
        values = [literal(value) for value in arguments.values()][:6]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return fit(", ".join(values), 60)
    return fit(str(arguments), 60)


_LETTERS = str.maketrans({"·": "-", "…": "~", "→": ">", "–": "-", "—": "-", "’": "'"})


def _ascii(text: str) -> str:
    """Replace characters that are not ASCII, at the same width."""
    if text.isascii():
        return text
    text = text.translate(_LETTERS)
    return "".join(char if char.isascii() else "?" * cells(char) for char in text)

"""What a trace has to tell line by line: calls that begin and end, decisions, and steps of a workflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.cli.live.displays import News
from windlass.trace.format import fit, format_fine_duration, literal
from windlass.trace.model import RUNNING, UNENDED, WAITING, Bar, Part, Picture

WIDTH = 160


def list_news(
    picture: Picture, parts: Sequence[Part] | None = None, path: str = ""
) -> Iterator[News]:
    """Yield all that is in the trace, with the sessions below; `path` names the calls around it."""
    for part in picture.parts if parts is None else parts:
        begin = (picture.session_id, part.number)
        for turn in part.turns:
            for bar in turn.bars:
                yield from _bar_news(begin, bar, path)
            for mark in turn.marks:
                text = f"{path}{mark.kind}: {mark.text}"
                yield News((begin, mark.entry, mark.kind), mark.at, fit(text, WIDTH))


def _bar_news(begin: object, bar: Bar, path: str) -> Iterator[News]:
    name = bar.name if bar.kind == "tool" else bar.purpose or "model"
    below = [child.session_id for child in bar.children]
    key = (begin, bar.call_id or (below[0] if below else bar.entry))
    shown = f"{path}{fit(name, 60)}"
    if bar.outcome in UNENDED:
        if bar.kind == "tool":
            yield News((key, "begins"), bar.start, f"{shown}: begins")
        if bar.outcome == WAITING:
            yield News((key, WAITING), bar.end, f"{shown}: waits")
    else:
        facts = [format_fine_duration(bar.seconds)]
        facts += [bar.outcome.replace("_", " "), bar.answer] if bar.failed else []
        if bar.kind == "tool" and not bar.failed and bar.arguments:
            facts.append(literal(bar.arguments))
        yield News((key, "ended"), bar.end, fit(f"{shown}: {' · '.join(facts)}", WIDTH))
    for child in bar.children:
        yield from list_news(child, path=f"{path}{fit(name, 60)} > ")


def list_step_news(picture: Picture) -> Iterator[News]:
    """Yield how far the steps of a workflow are: `plan: running`, `plan: done, then pay`."""
    for part in picture.parts:
        times = {
            (bar.call_id or "").rpartition(".")[2]: bar for turn in part.turns for bar in turn.bars
        }
        for step in part.steps:
            bar = times.get(str(step.number))
            start = bar.start if bar is not None else 0.0
            name, key = fit(step.name, 60), (part.run_id, step.number)
            yield News((key, RUNNING), start, f"{name}: running")
            if step.status != RUNNING:
                then = f", then {', '.join(step.edges)}" if step.edges else ""
                words = "waits" if step.status == WAITING else step.verdict or step.status
                end = bar.end if bar is not None else start
                yield News((key, step.status), end, fit(f"{name}: {words}{then}", WIDTH))

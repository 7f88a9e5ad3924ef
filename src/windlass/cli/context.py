"""`windlass context`: what the model saw in one turn, and what was left out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from windlass.cli.console import out
from windlass.cli.main import debug_option
from windlass.cli.options import json_option, store_option
from windlass.cli.store_location import on_session
from windlass.json_types import JsonObject
from windlass.models.registry.prices import lookup
from windlass.replay.context import read_request_context
from windlass.trace.context import FRAME, SHARES, VIEW, together
from windlass.trace.format import cells, clean, count, fit, literal, short, tokens

if TYPE_CHECKING:
    from windlass.cli.console import ConsoleOutput, Part
    from windlass.replay.context import RequestContext
    from windlass.store.base import Store
    from windlass.trace.context import Context, Piece, Share

UNFOLDED = 40  # messages that are listed one by one
KEPT = 8  # of them at either end of a fold
_STYLES: dict[str, str] = {
    "system": "magenta",
    "tools": "blue",
    "user": "green",
    "assistant": "cyan",
    "results": "yellow",
    "notes": "red",
    "tail": "white",
}
_LETTERS: dict[str, str] = {
    "system": "S",
    "tools": "T",
    "user": "u",
    "assistant": "a",
    "results": "r",
    "notes": "n",
    "tail": "!",
}


@click.command()
@click.argument("session")
@store_option
@click.option(
    "--turn",
    type=int,
    metavar="N",
    help="The turn, counted from 1; -1 is the last, as is the default.",
)
@click.option(
    "--run",
    type=int,
    metavar="N",
    help="The run of the session, counted from 1; default: the last.",
)
@click.option(
    "--call",
    type=int,
    metavar="N",
    help="One of several model calls of the turn: a judge's, a summary's.",
)
@click.option("--full", is_flag=True, help="Do not fold a long view, and do not cut long text.")
@click.option(
    "--width",
    type=click.IntRange(min=60, max=1000),
    metavar="N",
    help="Columns to draw in; default: those of the terminal.",
)
@json_option
@debug_option
def context(
    session: str,
    store: str | None,
    turn: int | None,
    run: int | None,
    call: int | None,
    full: bool,
    width: int | None,
    as_json: bool,
) -> None:
    """Show what the model saw in a turn of SESSION: frame, view and tail, with tokens.

    Below it stands what the model did not see, and why: what was compacted, cut, trimmed, dropped
    or not on offer. Tokens are estimates; the provider's own count of the whole stands beside them.
    """

    async def look(home: Store, session_id: str) -> RequestContext:
        entries = await home.read(session_id)
        return read_request_context(session_id, entries, run=run, turn=turn, call=call)

    found = on_session(store, session, look)
    if as_json:
        out().json(as_data(found))
        return
    paper = out()
    columns = width or (paper.width if paper.fancy else 100)
    for line in draw_context(found.context, columns, paper=paper, full=full):
        paper.line(*line)


def as_data(found: RequestContext) -> JsonObject:
    """Convert everything to data, uncut, with the request itself."""
    context, request = found.context, found.request
    shares: dict[str, tuple[Share, ...]] = {"frame": FRAME, "view": VIEW, "tail": ("tail",)}
    sizes = {name: sum(p.tokens for p in context.of(*of)) for name, of in shares.items()}
    facts: JsonObject = {
        name: getattr(context, name)
        for name in ("session_id", "run", "turn", "call", "agent", "provider", "model", "purpose")
    }
    data: JsonObject = {
        **facts,
        "calls": context.calls,
        "estimated_tokens": {"total": context.tokens, **sizes},
        "counted": context.usage,
        "parts": context.pieces,
        "left_out": context.left_out,
        "request": {
            "system": request.system,
            "tools": request.tools,
            "settings": request.settings,
            "messages": list(request.messages),
            "tail": request.tail,
        },
    }
    return msgspec.to_builtins(data)


# --------------------------------------------------------------------------- drawing


def draw_context(
    context: Context, width: int, *, paper: ConsoleOutput, full: bool = False
) -> Iterator[tuple[Part, ...]]:
    """Yield the lines of the output."""
    coloured = paper.fancy and not os.environ.get("NO_COLOR") and paper.can_write("█")
    yield from _head(context, width)
    yield ("",)
    yield from _bar(context, width, coloured)
    yield ("",)
    yield from _table(context, width, full)
    if context.left_out:
        yield ("",)
        yield from _missing(context, width, full)
    if len(context.calls) > 1:
        yield ("",)
        yield from _others(context, width)


def _head(context: Context, width: int) -> Iterator[tuple[Part, ...]]:
    run = f"run {context.run} of {context.runs} · " if context.runs > 1 else ""
    purpose = f" · asked for {context.purpose}" if context.purpose else ""
    where = f"{run}turn {context.turn} of {context.turns}{purpose}"
    yield ((fit(context.session_id, width), "bold"),)
    agent = f"{context.agent}: " if context.agent else ""
    yield ((fit(f"{agent}{context.provider}:{context.model} · {where}", width), "dim"),)
    facts = [f"about {tokens(context.tokens)}{_of_window(context)}"]
    usage = context.usage
    if usage.input_tokens:
        cached = f", {usage.cache_read_tokens:,} from its cache" if usage.cache_read_tokens else ""
        facts.append(f"the provider counted {usage.input_tokens:,}{cached}")
    for line in _lines(facts, width):
        yield (fit(line, width),)
    settings = [f"{name} {_plain(literal(value))}" for name, value in context.settings.items()]
    if context.written:
        settings.append("tools written into the prompt")
    if settings:
        yield ((fit(" · ".join(settings), width), "dim"),)


def _of_window(context: Context) -> str:
    """Describe the share of the model's window, where the catalogue knows it."""
    known = lookup(context.provider, context.model)
    if known is None or not known.context_window:
        return ""
    window = known.context_window
    return f", {_percent(context.tokens, window)} of a window of {short(window)}"


def _plain(value: str) -> str:
    return value.strip('"')


def _bar(context: Context, width: int, coloured: bool) -> Iterator[tuple[Part, ...]]:
    """Yield one bar of the whole request, and the meaning of its colours."""
    sizes = {share: sum(p.tokens for p in context.of(share)) for share in SHARES}
    sizes = {share: size for share, size in sizes.items() if size}
    if not sizes:
        return
    cells = spread(list(sizes.values()), width)
    yield tuple(
        ("█" * n, _STYLES[share]) if coloured else _LETTERS[share] * n
        for share, n in zip(sizes, cells, strict=True)
    )
    total, line, used = sum(sizes.values()), list[Any](), 0
    for share, size in sizes.items():
        text = f" {share} {short(size)} {_percent(size, total)}"
        if used and used + len(text) + 3 > width:
            yield tuple(line)
            line, used = [], 0
        mark = ("█", _STYLES[share]) if coloured else _LETTERS[share]
        line += ["  " if used else "", mark, text]
        used += len(text) + (3 if used else 1)
    yield tuple(line)


def spread(sizes: Sequence[int], width: int) -> list[int]:
    """Divide the cells of a bar; every part that is not empty gets one."""
    total = sum(sizes)
    cells = [max(1, size * width // total) for size in sizes]
    while sum(cells) > width and max(cells) > 1:
        cells[cells.index(max(cells))] -= 1
    missing = max(0, width - sum(cells))
    by_rest = sorted(range(len(sizes)), key=lambda n: -(sizes[n] * width % total))
    for step in range(missing):
        cells[by_rest[step % len(by_rest)]] += 1
    return cells


def _percent(size: int, total: int) -> str:
    share = 100 * size / total if total else 0
    return f"{share:.0f}%" if share >= 0.5 or not size else "<1%"


_PART, _NUMBER, _SHARE = 20, 9, 7  # columns


def _row(
    part: str, size: str, share: str, text: str, width: int, style: str = "", rest: str = ""
) -> tuple[Part, ...]:
    name = fit(clean(part).lstrip(), _PART - 1 - _indent(part))
    name = " " * _indent(part) + name
    name += " " * (_PART - cells(name))
    numbers = f"{size:>{_NUMBER}}{share:>{_SHARE if share else 0}}  "
    shown = fit(text, width - _PART - len(numbers)) if text else ""
    return (name, style), (f"{numbers}{shown}".rstrip(), rest)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _table(context: Context, width: int, full: bool) -> Iterator[tuple[Part, ...]]:
    total = context.tokens
    yield _row("PART", "TOKENS", "SHARE", "WHAT", width, "bold", "bold")
    tools, view = context.of("tools"), context.of(*VIEW)
    frame = context.of(*FRAME)
    yield _sum("frame", frame, total, "" if frame else "no system prompt, no tools", width)
    for piece in context.of("system"):
        yield from _line(piece, "  system", total, width, full)
    if tools:
        yield _row("  tools", *_numbers(tools, total), count(len(tools), "tool"), width)
    for piece in tools:
        yield from _line(piece, f"    {piece.label}", total, width, full)
    yield _sum("view", view, total, count(len(view), "message"), width)
    yield from _view(view, total, width, full)
    if tail := context.of("tail"):
        words = f"{count(len(tail), 'message')} for this request alone"
        yield _sum("tail", tail, total, words, width)
        for piece in tail:
            yield from _line(piece, f"  {piece.label}", total, width, full)


def _view(view: Sequence[Piece], total: int, width: int, full: bool) -> Iterator[tuple[Part, ...]]:
    folded = range(KEPT, len(view) - KEPT) if len(view) > UNFOLDED and not full else range(0)
    for at, piece in enumerate(view):
        if at in folded:
            if at == KEPT:
                rest = [view[n] for n in folded]
                words = f"{count(len(rest), 'message')} more; --full lists them"
                yield _row("     …", *_numbers(rest, total), words, width, "dim", "dim")
            continue
        yield from _line(piece, f"  {piece.number:>4} {piece.label}", total, width, full)


def _sum(
    name: str, pieces: Sequence[Piece], total: int, words: str, width: int
) -> tuple[Part, ...]:
    return _row(name, *_numbers(pieces, total), words, width, "bold", "bold")


def _numbers(pieces: Sequence[Piece], total: int) -> tuple[str, str]:
    size = sum(piece.tokens for piece in pieces)
    return f"{size:,}", _percent(size, total)


def _line(
    piece: Piece, name: str, total: int, width: int, full: bool
) -> Iterator[tuple[Part, ...]]:
    size, share = _numbers([piece], total)
    style = _STYLES[piece.share]
    origin = f"[{', '.join(piece.origin)}] " if piece.origin else ""
    yield _row(name, size, share, origin if full else f"{origin}{piece.text}", width, style)
    for line in clean(piece.text).expandtabs(4).splitlines() if full else ():
        yield (f"       {line}",)


def _missing(context: Context, width: int, full: bool) -> Iterator[tuple[Part, ...]]:
    """Yield what the model did not see, with the tokens saved for each reason."""
    yield _row("LEFT OUT", "TOKENS", "", "WHAT", width, "bold", "bold")
    # turn by turn where all is wanted, else one line for each reason
    groups = [[each] for each in context.left_out] if full else [context.left_out]
    for group in groups:
        for each in together(group):
            why = each.why.removeprefix("transcript_").replace("_", " ")
            name = f"  {why}"
            size = f"{each.tokens:,}" if each.tokens >= 0 else f"+{-each.tokens:,}"
            for words in _lines(each.words, width - _PART - _NUMBER - 2):
                yield _row(name, size, "", words, width)
                name = size = ""


def _lines(words: Sequence[str], room: int) -> Iterator[str]:
    """Join facts into as few lines as fit."""
    line = ""
    for fact in words:
        longer = f"{line} · {fact}" if line else fact
        if line and cells(longer) > room:
            yield line
            longer = fact
        line = longer
    yield line


def _others(context: Context, width: int) -> Iterator[tuple[Part, ...]]:
    told: list[str] = []
    for call in context.calls:
        words = call.purpose or "the turn itself"
        words += f", failed ({call.failed})" if call.failed else ""
        words += ", shown here" if call.number == context.call else ""
        told.append(f"{call.number} {words}")
    yield ((fit(f"calls of this turn (--call N): {' · '.join(told)}", width), "dim"),)

"""The trace as one HTML page: no network, no fonts, nothing but what is in it.

What models and tools wrote is data in the page, never markup: the script puts it there as text.
Without scripts the page shows the same picture as lines of text.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from windlass.json_types import JsonObject
from windlass.trace.axis import Axis, axis_of
from windlass.trace.format import clean, literal, size
from windlass.trace.model import (
    Bar,
    Mark,
    Part,
    Picture,
    Turn,
)
from windlass.trace.progress import StepGroup, group_steps
from windlass.trace.text import draw

LONGEST = 20_000  # characters of one text in a page
ALL_TEXTS = 6_000_000  # of all of them; a long run keeps less of each
SHORTEST = 240
PLAIN_WIDTH = 118
MOST_STEPS = 200  # of a workflow, each by name


def page(
    picture: Picture,
    parts: Sequence[Part] | None = None,
    *,
    title: str = "",
    live: float | None = None,
) -> str:
    """Build the page: `Path("run.html").write_text(page(picture))`.

    With `live`, the moment at which it is written, the page loads itself again: a newer version is to come.
    """
    shown = list(picture.parts if parts is None else parts)
    style, script, csp = _static_parts()
    heading = escape(clean(title or f"{picture.session_id} · Windlass trace")[:200])
    plain = "\n".join(
        "".join(piece if isinstance(piece, str) else piece[0] for piece in line)
        for line in draw(picture, PLAIN_WIDTH, only=shown)
    )
    return _PAGE.format(
        csp=csp,
        title=heading,
        style=style,
        script=script,
        data=_as_json({**_Cutter(picture).data(shown), "live": live}),
        refresh=_REFRESH if live is not None else "",
        plain=escape(plain),
    )


def to_iframe(picture: Picture, parts: Sequence[Part] | None = None, *, height: int = 480) -> str:
    """Build the page in a sandboxed frame for a notebook, with text as a fallback."""
    inside = escape(page(picture, parts), quote=True)
    return (
        f'<iframe sandbox="allow-scripts" referrerpolicy="no-referrer" loading="lazy" '
        f'title="Windlass trace" width="100%" height="{height}" '
        f'style="border:1px solid #8884;border-radius:6px" srcdoc="{inside}"></iframe>'
    )


# The script loads the page again with care; without scripts the browser does.
_REFRESH = '<noscript><meta http-equiv="refresh" content="3"></noscript>\n'

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{csp}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
{refresh}<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main id="app"><pre class="plain">{plain}</pre></main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


@functools.cache
def _static_parts() -> tuple[str, str, str]:
    """Return style and script, and the policy that allows these two and nothing else."""
    here = files("windlass.trace")
    style = here.joinpath("page.css").read_text("utf-8")
    script = here.joinpath("page.js").read_text("utf-8")
    csp = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return style, script, csp


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _as_json(value: Any) -> str:
    """Encode JSON so that no HTML parser misreads it."""
    text = msgspec.json.encode(value).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


# --------------------------------------------------------------------------- the data of a page


class _Cutter:
    """Plain data for the script, with long texts cut and their size noted."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        bars = sum(1 for _ in picture.bars(nested=True)) or 1
        self.most = max(SHORTEST, min(LONGEST, ALL_TEXTS // (2 * bars)))
        self.axis = Axis(0.0, 0.0, [])

    def data(self, parts: Sequence[Part]) -> JsonObject:
        """Build all data that the page shows."""
        picture, totals = self.picture, self.picture.totals
        self.axis = axis_of(parts)
        return {
            "session": clean(picture.session_id)[:200],
            "zero": picture.zero,
            "start": self.axis.start,
            "places": self.axis.places,
            "length": self.axis.length,
            "parent": picture.parent_id,
            "branch": picture.branch_at,
            "forks": list(picture.forks)[:50],
            "totals": {
                "turns": totals.turns,
                "models": totals.model_calls,
                "tools": totals.tool_calls,
                "failed": totals.failed,
                "usage": _usage(totals.usage),
                "usd": totals.cost_usd,
            },
            "runs": [self._part(part) for part in parts],
        }

    def _part(self, part: Part) -> JsonObject:
        return {
            "n": part.number,
            "id": part.run_id,
            "name": part.name,
            "door": part.door,
            "caller": part.caller,
            "model": f"{part.provider}:{part.model}" if part.model else "",
            "status": part.status,
            "why": part.stop_reason,
            "error": self._cut(part.error or ""),
            "prompt": self._cut(part.prompt),
            "live": part.under_way,
            "steps": [self._step(group) for group in group_steps(part.steps)][:MOST_STEPS],
            "turns": [self._turn(turn) for turn in part.turns],
        }

    def _step(self, group: StepGroup) -> JsonObject:
        return {
            "name": _visible(group.name[:200]),
            "kind": _visible(group.kind[:60]),
            "o": group.status,
            "words": _visible(group.words[:200]),
            "then": [_visible(edge[:200]) for edge in group.edges[:20]],
        }

    def _turn(self, turn: Turn) -> JsonObject:
        return {
            "n": turn.number,
            "bars": [self._bar(bar) for bar in turn.bars],
            "marks": [self._mark(mark) for mark in turn.marks],
        }

    def _bar(self, bar: Bar) -> JsonObject:
        data: JsonObject = {
            "k": bar.kind,
            "name": _visible(bar.name[:200]),
            "a": _round_seconds(self.axis.place_of(bar.start)),
            "b": _round_seconds(self.axis.place_of(bar.end)),
            "s": _round_seconds(bar.start),
            "ms": round(bar.seconds * 1000, 3),
            "e": bar.entry,
            "o": bar.outcome,
        }
        for key, value in (
            ("provider", bar.provider),
            ("purpose", bar.purpose),
            ("stop", bar.stop_reason),
            ("tries", bar.attempts if bar.attempts > 1 else None),
            ("via", bar.via),
            ("call", _visible(bar.call_id or "")),
            ("effect", bar.effect),
            ("eager", bar.eager or None),
            ("usd", bar.cost_usd or None),
            ("usage", _usage(bar.usage)),
            ("args", None if bar.arguments is None else self._cut(_pretty(bar.arguments))),
            ("text", self._cut(bar.answer)),
            ("thought", self._cut(bar.thought)),
            ("traceback", self._cut(bar.traceback)),
            ("asks", [_visible(name[:200]) for name in bar.asks[:50]]),
        ):
            if value:
                data[key] = value
        if bar.children:
            data["child"] = [self._part(part) for child in bar.children for part in child.parts]
            data["childId"] = ", ".join([child.session_id for child in bar.children])
        return data

    def _mark(self, mark: Mark) -> JsonObject:
        data: JsonObject = {
            "k": _visible(mark.kind[:60]),
            "text": self._cut(mark.text),
            "a": _round_seconds(self.axis.place_of(mark.at)),
            "s": _round_seconds(mark.at),
            "e": mark.entry,
            "tone": mark.tone,
        }
        if mark.detail:
            data["detail"] = self._cut(mark.detail)
        return data

    def _cut(self, text: str) -> str:
        if len(text) > self.most:
            whole = size(len(text.encode("utf-8", "replace")))
            text = f"{text[: self.most]}\n… cut: {whole} in all"
        return _visible(text)


_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def _visible(text: str) -> str:
    """Replace invisible and direction-changing characters by their code points."""
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def _pretty(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return literal(arguments)


def _usage(usage: Any) -> list[int] | None:
    counts = [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    ]
    return counts if any(counts) else None


def _round_seconds(seconds: float) -> float:
    return round(seconds, 6)

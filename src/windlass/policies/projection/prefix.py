"""`summary_prefix`: notes on the older part of the view, made without a model.

They are made of what is on record: earlier summaries, what users asked, what the runtime reminded
of, the first text of each reply, and how often which tool was called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from windlass.messages import Message, ToolResult
from windlass.models.estimates import estimate_messages, weigh_messages
from windlass.policies.compaction.cut import SUMMARY, build_replacement, cut_of, messages_to_archive
from windlass.policies.projection.edits import Edit, edit
from windlass.policies.projection.failures import is_failure

_ROOM: Final = 6_000  # characters of the notes
_HEAD: Final = "[Notes on what is no longer shown"
_USER, _MODEL, _REMINDER = 400, 160, 200  # characters of each


def summarize_prefix(
    view: Sequence[Message], keep_last: int, least: int, summary: str | None, tool: str | None
) -> list[Edit]:
    """Propose one edit if at least `least` tokens are new in what can go, else none."""
    cut = cut_of(view, 0, keep_last)
    if cut is None:
        return []
    gone = messages_to_archive(view, cut)
    if estimate_messages([message for message in gone if message.kind != SUMMARY]) < least:
        return []
    notes = _notes(gone, summary, tool)
    found = edit(view, cut.start, cut.stop, build_replacement(view, cut, notes))
    return [] if found is None else [found]


def _notes(gone: Sequence[Message], summary: str | None, tool: str | None) -> str:
    where = f"; {tool}(query=…) finds it" if tool is not None else ""
    parts = [f"{_HEAD}{where}]"]
    if summary is not None:
        return "\n\n".join([*parts, summary])
    room = max(200, min(_ROOM, weigh_messages(gone) // 2))
    earlier = "\n\n".join([_bare(m.text) for m in gone if m.kind == SUMMARY])
    if earlier:
        parts.append(earlier[: room // 2])
    lines = list(_lines(gone))
    left = room - sum(map(len, parts))
    kept: list[str] = []
    for line in reversed(lines):
        left -= len(line)
        if left < 0:
            kept.append("[…]")
            break
        kept.append(line)
    if kept:
        parts.append("\n".join(reversed(kept)))
    if calls := _calls(gone):
        parts.append(calls)
    return "\n\n".join(parts)


def _bare(text: str) -> str:
    """Strip the heading of earlier notes."""
    first, _, rest = text.partition("\n\n")
    return rest if first.startswith(_HEAD) else text


def _lines(gone: Sequence[Message]) -> Iterator[str]:
    for message in gone:
        text = " ".join(message.text.split())
        if not text or message.kind == SUMMARY:
            continue
        if message.role == "assistant":
            yield f"- you: {_short(text, _MODEL)}"
        elif message.kind is None:
            yield f"- {message.role}: {_short(text, _USER)}"
        else:
            yield f"- {message.kind}: {_short(text, _REMINDER)}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _calls(gone: Sequence[Message]) -> str:
    results = [b for m in gone for b in m.content if type(b) is ToolResult]
    counted, bad = (
        Counter(r.name for r in results),
        Counter(r.name for r in results if is_failure(r)),
    )
    lines = [
        f"{name} ×{n}" + (f" ({bad[name]} failed)" if bad[name] else "")
        for name, n in counted.most_common(12)
    ]
    return f"Calls: {', '.join(lines)}" if lines else ""

"""`squash_failed_calls`: calls that failed become one short note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.messages import Block, Message, Text, ToolResult
from windlass.policies.projection.edits import Edit, edit
from windlass.policies.projection.failures import Failures, Round, failed

NOTE: Final = "projection"  # the kind of the note
_SAID: Final = 160  # characters of an error that stay
_MANY: Final = 4  # rounds of a row that has no end yet


def squashed(
    view: Sequence[Message], failures: Failures, stop: int, keep_last: int, tool: str | None
) -> list[Edit]:
    """The failed rounds before `stop`, each row of them one note; `tool` brings them back."""
    rows: list[Sequence[Round]] = [
        chain.rounds for chain in failures.chains if chain.rounds[-1].stop <= stop
    ]
    still = [one for one in failures.open if one.stop <= stop]
    if len(still) >= _MANY:
        rows.append(still)
    edits: list[Edit | None] = []
    for row in rows:
        for group in _adjacent(row):
            start, end = group[0].start, group[-1].stop
            note = Message("user", (Text(_noted(view[start:end], tool)),), NOTE)
            edits.append(edit(view, start, end, (note,), end + keep_last))
    for one in failures.mixed:
        if one.stop <= stop:
            at = one.stop - 1
            slim = _shortened(view[at], tool)
            edits.append(edit(view, at, at + 1, (slim,), one.stop + keep_last))
    return sorted(one for one in edits if one is not None)


def _adjacent(row: Sequence[Round]) -> list[list[Round]]:
    """Rounds between which nobody spoke."""
    groups: list[list[Round]] = []
    for one in row:
        if groups and groups[-1][-1].stop == one.start:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _noted(messages: Sequence[Message], tool: str | None) -> str:
    results = [b for m in messages for b in m.content if type(b) is ToolResult]
    counted = Counter(result.name for result in results)
    names = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counted.items())
    how = "1 call that failed is" if len(results) == 1 else f"{len(results)} calls that failed are"
    last = results[-1]
    where = f' {tool}(id="{last.id}") shows it.' if tool is not None else ""
    return f"[{how} no longer shown: {names}. The last said: {_said(last)}{where}]"


def _said(result: ToolResult) -> str:
    text = " ".join(result.text[: 2 * _SAID].split())
    return text if len(text) <= _SAID else f"{text[: _SAID - 1]}…"


def _shortened(message: Message, tool: str | None) -> Message:
    blocks: list[Block] = []
    for block in message.content:
        if type(block) is ToolResult and failed(block) and len(block.text) > 2 * _SAID:
            where = f'; {tool}(id="{block.id}") shows all of it' if tool is not None else ""
            block = msgspec.structs.replace(block, content=f"[failed{where}] {_said(block)}")
        blocks.append(block)
    return msgspec.structs.replace(message, content=tuple(blocks))

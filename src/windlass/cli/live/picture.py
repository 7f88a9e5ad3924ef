"""The trace of a stored session, with those that work for it, and how it is drawn in lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from windlass import seams
from windlass.cli.console import ConsoleOutput
from windlass.errors import NoSuchSession
from windlass.events import JournalEntry, Replied, RunStarted, ToolIntended
from windlass.identifiers import CallIndex, child_session_id
from windlass.store.codec import decode
from windlass.trace.build import Append, picture_of
from windlass.trace.progress import label_unended
from windlass.trace.text import draw

if TYPE_CHECKING:
    from windlass.store.base import SessionInfo, Store
    from windlass.trace.model import Part, Picture
    from windlass.trace.text import Line

DEPTH = 4  # agents called by agents called by …


async def read_picture(store: Store, session_id: str) -> Picture:
    """Build the trace of a session, with the agents it called."""
    return await _read(store, await store.info(session_id), DEPTH)


def _find_called(
    session_id: str, entries: Sequence[JournalEntry], below: Sequence[str]
) -> dict[str, str]:
    """Find the sessions that work for this one, each with its call; an empty id where it has none."""
    replies = [entry for entry in entries if isinstance(entry, Replied)]
    asked = [one.id for e in replies for one in e.message.tool_calls]
    # the steps of a workflow are recorded as calls too, without a reply that asks for them
    asked += [entry.call_id for entry in entries if isinstance(entry, ToolIntended)]
    calls = CallIndex(session_id, asked)
    runs = [
        child_session_id(session_id, entry.run_id) + "."
        for entry in entries
        if isinstance(entry, RunStarted)
    ]
    found: dict[str, str] = {}
    for child_id in sorted(below, key=lambda one: (len(one), one)):
        call_id = calls.find(child_id)
        if call_id is None and child_id.startswith(tuple(runs)):
            call_id = ""
        if call_id is not None:
            found[child_id] = call_id
    return found


async def _read(store: Store, info: SessionInfo, depth: int) -> Picture:
    session_id, below = info.id, info.child_ids
    rows = [
        Append(row.at, decode(row.payload, session_id, row.seq))
        for row in await store.rows(session_id)
    ]
    called = _find_called(session_id, [entry for row in rows for entry in row.entries], below)
    children: dict[str, list[Picture]] = {}
    if depth > 0:
        for child_id, call_id in called.items():
            try:
                picture = await _read(store, await store.info(child_id), depth - 1)
            except NoSuchSession:
                continue  # deleted since
            children.setdefault(call_id, []).append(picture)
    forks = tuple([one for one in below if one not in called])
    picture = picture_of(session_id, rows, children, forks=forks)
    label_unended(picture, alive=info.alive, now=seams.now())
    return picture


class Drawing(NamedTuple):
    """What of a session is drawn in lines, and how."""

    number: int | None
    width: int | None
    full: bool
    turns: tuple[int, int] | None

    def select(self, picture: Picture) -> list[Part]:
        """Return the runs that are drawn."""
        return _select_parts(picture, self.number)

    def lines(self, picture: Picture, paper: ConsoleOutput) -> list[Line]:
        """Draw the session for this output."""
        columns = self.width or (paper.width if paper.fancy else 100)
        fine = paper.fancy and paper.can_write("█▒▄◆")
        only = self.select(picture)
        full, turns = self.full, self.turns
        return list(draw(picture, columns, fine=fine, full=full, only=only, turns=turns))


def _select_parts(picture: Picture, number: int | None) -> list[Part]:
    if number is None:
        return picture.parts
    runs = len(picture.parts)
    if not runs or number == 0 or not -runs <= number <= runs:
        there = f"it has {runs}, counted from 1" if runs else "it has never run"
        raise click.UsageError(f"--run {number}: there is no such run of the session; {there}")
    return [picture.parts[number - 1 if number > 0 else number]]

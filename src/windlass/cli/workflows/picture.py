"""The picture of a workflow with a run of it: how far its steps are, once or while it is under way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from windlass.cli.console import out
from windlass.cli.live.displays import FileDisplay, LineDisplay, TerminalDisplay
from windlass.cli.live.follower import Display, follow_session
from windlass.cli.live.news import list_step_news
from windlass.cli.live.picture import read_picture
from windlass.cli.live.screen import Line
from windlass.cli.redaction import secrets_here
from windlass.cli.text import clean
from windlass.errors import ConfigError
from windlass.files import write_private
from windlass.store.base import Store
from windlass.trace.model import OPEN, WAITING, Picture
from windlass.workflows import draw as pictures
from windlass.workflows.execute import WorkflowGraph
from windlass.workflows.functions import Workflow
from windlass.workflows.steps import WorkflowStep, read_steps
from windlass.workflows.task import draw_flow

_WORDS = {OPEN: pictures.UNFINISHED, WAITING: pictures.WAITING}


class FlowProgress(NamedTuple):
    """A run of a workflow: its steps, and the trace of its session."""

    steps: Sequence[WorkflowStep]
    trace: Picture


async def read_progress(store: Store, session_id: str) -> FlowProgress:
    """Read the steps of a run, with what became of those that have no end on record."""
    steps = read_steps(await store.read(session_id))
    picture = await read_picture(store, session_id)
    known = {one.number: one.status for part in picture.parts[-1:] for one in part.steps}
    shown: list[WorkflowStep] = []
    for step in steps:
        status = known.get(step.number, step.status)
        if not step.is_over:
            step = msgspec.structs.replace(step, status=_WORDS.get(status, status))
        shown.append(step)
    return FlowProgress(shown, picture)


def show_flow(
    flow: WorkflowGraph | Workflow,
    steps: Sequence[WorkflowStep],
    format: str,
    *,
    live: bool = False,
) -> str:
    """Draw a workflow without the secrets that are known here."""
    return secrets_here().text(draw_flow(flow, steps, format, live=live))


def write_picture(file: str, text: str) -> int:
    """Put the picture in the place of the file at once, and return its size."""
    folder = os.path.dirname(os.path.abspath(file))
    if not os.path.isdir(folder):
        raise ConfigError(f"--output {file}: there is no folder {folder}")
    content = f"{text}\n".encode()
    try:
        write_private(file, content, linked_folders=True)
    except OSError as error:
        raise ConfigError(f"--output {file}: {error.strerror}") from None
    return len(content)


def follow_flow(
    flow: WorkflowGraph | Workflow,
    session: str,
    store: str | None,
    format: str,
    output: str | None,
) -> None:
    """Draw a run of the workflow again and again, until it ends or parks."""
    paper = out()

    def draw_lines(seen: FlowProgress) -> list[Line]:
        return [(clean(line),) for line in show_flow(flow, seen.steps, "text").splitlines()]

    def write(seen: FlowProgress, live: bool) -> int:
        return write_picture(output or "", show_flow(flow, seen.steps, format, live=live))

    display: Display[FlowProgress]
    if output is not None:
        display = FileDisplay(output, write)
    elif paper.fancy:
        display = TerminalDisplay(paper, draw_lines)
    else:
        display = LineDisplay(paper, lambda seen: list_step_news(seen.trace), draw_lines)
    follow_session(store, session, read_progress, display)

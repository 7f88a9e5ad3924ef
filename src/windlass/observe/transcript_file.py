"""The transcript file of a run, `llm_transcript.jsonl`: what the model saw and wrote.

Lines have a `type` and the session they belong to. `run` has the model; `frame` what stood
before the messages; `message` is a message as the model saw it; `view` replaces all of them so far;
`response` is what a reply was and cost. One file may hold many sessions: each line is one write.
A sink: what it cannot write is logged, and the run goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, cast

import msgspec

from windlass import seams
from windlass.errors import ConfigError
from windlass.events import (
    Event,
    Framed,
    JournalEntry,
    Replied,
    RunEnded,
    RunResumed,
    RunStarted,
)
from windlass.files import open_private
from windlass.loop.run import Run
from windlass.loop.sinks import Watcher
from windlass.messages import Message
from windlass.options.checks import optional, text
from windlass.options.group import Option, OptionGroup
from windlass.store.view import ViewFold

FILE: Final = "llm_transcript.jsonl"


class TranscriptFileOptions(OptionGroup, frozen=True, kw_only=True):
    """Transcript files."""

    llm_transcript_dir: Annotated[
        str | None, Option(optional(text), scope="start", in_file=False)
    ] = None
    """The folder for `llm_transcript.jsonl`; None: no file."""


def transcript_in(folder: str) -> Callable[[Run], Watcher]:
    """Make a function that lets a run write its transcript in the folder, which is created."""

    def make(run: Run) -> Watcher:
        path = Path(folder).expanduser() / FILE
        try:
            os.close(open_private(path, append=True, make_folders=True))
        except (OSError, ValueError) as error:
            raise ConfigError(f"llm_transcript_dir {folder!r} cannot be written: {error}") from None
        return Watcher(TranscriptFile(run, path).look)

    return make


class TranscriptFile:
    """The writer of one run's lines."""

    def __init__(self, run: Run, path: Path) -> None:
        self.run, self.path = run, path
        self.fold = ViewFold().apply_all(run.journal.entries)
        messages = self.fold.messages
        self.written: list[Message] | None = None if messages else messages  # what the file has
        self.size = 0  # and how much of it
        self.sent: tuple[Message, ...] = ()  # the last request that was not the view

    def look(self, event: Event) -> None:
        """Write what an event adds; before each reply the messages it answers."""
        match event:
            case RunStarted() | RunResumed():
                model = self.run.model
                self._write(
                    "run", provider=model.provider, model=model.name, door=self.run.plan.door
                )
            case Framed():
                tools = [tool.get("name") for tool in event.tools]
                self._write("frame", system=event.system, tools=tools, settings=event.settings)
            case Replied():
                self._reply(event)
            case _:
                pass
        self.fold.apply(cast("JournalEntry", event))  # what is only live changes nothing
        if type(event) is RunEnded:
            self._catch_up()

    def _reply(self, event: Replied) -> None:
        if event.purpose is None:
            self._catch_up()
            if event.rewritten is not None:
                self.sent = (*self.sent[: event.same], *event.rewritten)
                self._write("request", messages=self.sent)
        self._write(
            "response",
            purpose=event.purpose,
            provider=event.provider,
            model=event.model,
            message=event.message,
            usage=event.usage,
            stop_reason=event.stop_reason,
            cost_usd=event.cost_usd,
            duration_ms=event.duration_ms,
        )

    def _catch_up(self) -> None:
        """Write the part of the view that the file lacks."""
        messages = self.fold.messages
        if self.written is not messages:  # a list only grows: another one is another view
            self._write("view", messages=messages)
            self.written, self.size = messages, len(messages)
        for message in messages[self.size :]:
            self._write("message", message=message)
        self.size = len(messages)

    def _write(self, kind: str, **fields: Any) -> None:
        run = self.run
        line = {"type": kind, "session_id": run.session_id, "run_id": run.run_id}
        line |= {"iteration": run.number, "at": seams.now(), **fields}
        data = msgspec.json.encode(line) + b"\n"
        descriptor = open_private(self.path, append=True)
        try:
            os.write(descriptor, data)  # one write: lines of several runs do not mix
        finally:
            os.close(descriptor)

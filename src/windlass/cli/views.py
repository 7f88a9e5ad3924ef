"""Views of a run as it happens: plain text, a terminal with a status line, or JSON lines.

Standard output carries the model's words, standard error everything about them, so that an answer
can be piped on while its progress is still seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from windlass import seams
from windlass.cli import text as words
from windlass.cli.console import (
    ConsoleOutput,
    Part,
    err,
    out,
    to_rich_text,
)
from windlass.cli.text import clean, clean_piece, json_text, one_line, shown_call
from windlass.events import (
    AnswerDelta,
    BudgetExhausted,
    ChildEvent,
    Event,
    FeedbackInjected,
    HistoryRepaired,
    IterationStart,
    Replied,
    ReplyFailed,
    StreamRestarted,
    Suspended,
    TextDelta,
    ThinkingDelta,
    ToolCallStarted,
    ToolCallUpdate,
    ToolResulted,
    as_dict,
)
from windlass.json_types import JsonObject, is_mapping

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from windlass.redaction.redactor import RedactingStream, Redactor

NOTE_WIDTH = 110  # of a short line, where the terminal has room for it


class View:
    """A view of a run that shows nothing: for `--json`."""

    def __call__(self, event: Event) -> None:
        """Show an event."""

    def note(self, *parts: Part, always: bool = False) -> None:
        """Show a line about the run; `always` is for quiet commands too."""

    def begin(self) -> None:
        """Begin to show a run."""

    def end(self) -> None:
        """End the output, and leave the terminal as it was."""


class JsonLines(View):
    """Every event as one line of JSON."""

    def __call__(self, event: Event) -> None:
        self.write(as_dict(event))

    def write(self, value: JsonObject) -> None:
        """Write one line."""
        sys.stdout.write(json_text(value, indent=False) + "\n")
        sys.stdout.flush()


class Plain(View):
    """Text as it arrives; calls and results as short lines."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.answer, self.progress = out(), err()
        self.quiet = quiet
        self.streamed = False  # something of this reply was shown already
        self.at_start = True  # of a line

    def __call__(self, event: Event) -> None:
        match event:
            case TextDelta():
                self.words(event.text)
            case StreamRestarted():
                self.close_line()
                self.streamed = False
                self.note(
                    (f"  the connection broke ({one_line(event.reason, 60)}): once more", "dim")
                )
            case Replied() if event.purpose is None:
                if not self.streamed and event.message.text:
                    self.words(event.message.text)
                self.close_line()
                self.streamed = False
            case _:
                parts = short_line(event, min(NOTE_WIDTH, self.progress.width) - 4)
                if parts is not None:
                    self.close_line()
                    self.note(*parts)

    def words(self, text: str) -> None:
        """Show a piece of the answer."""
        shown = clean_piece(text)
        if shown:
            self.streamed = True
            self.at_start = shown.endswith("\n")
            self.answer.file.write(shown)
            self.answer.file.flush()

    def close_line(self) -> None:
        """End an unfinished line."""
        if not self.at_start:
            self.answer.file.write("\n")
            self.answer.file.flush()
            self.at_start = True

    def note(self, *parts: Part, always: bool = False) -> None:
        """Show a line about the run, on standard error."""
        if always or not self.quiet:
            self.progress.line(*parts)

    def end(self) -> None:
        """End the line of the answer."""
        self.close_line()


class Terminal(Plain):
    """The same on a terminal, above a status line of turns, tokens, cost and time."""

    def __init__(self, paper: ConsoleOutput | None = None) -> None:
        super().__init__()
        self.answer = paper or self.answer
        self.partial = ""  # the line that is still being written
        self.turn = self.tokens = 0
        self.cost = 0.0
        self.doing = "thinking"
        self.at_work: dict[str, str] = {}  # the tools that have not answered yet, by call
        self.started = seams.monotonic()
        self._live: Live | None = None

    def begin(self) -> None:
        """Show the status line."""
        from rich.live import Live

        self.started = seams.monotonic()
        self.turn = self.tokens = 0
        self.cost, self.doing = 0.0, "thinking"
        self._live = Live(
            console=self.answer.console,
            get_renderable=self._bottom,
            refresh_per_second=10,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="visible",
        )
        self._live.start()

    def end(self) -> None:
        """Take the status line away."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        self.close_line()

    def __call__(self, event: Event) -> None:
        match event:
            case IterationStart():
                self.turn, self.doing = event.number, "thinking"
                self.at_work.clear()
            case Replied():
                self.tokens += event.usage.total_tokens
                self.cost += event.cost_usd
            case ToolCallStarted():
                self.doing = self.at_work[event.call_id] = clean(event.name)
            case ToolResulted():
                self.at_work.pop(event.call_id, None)
                self.doing = next(reversed(self.at_work.values()), "thinking")
            case ThinkingDelta():
                self.doing = "thinking"
            case TextDelta():
                self.doing = "writing"
            case _:
                pass
        super().__call__(event)

    def words(self, text: str) -> None:
        """Print whole lines above the status line, and keep the rest in it."""
        shown = clean_piece(text)
        self.streamed = self.streamed or bool(shown)
        *whole, self.partial = (self.partial + shown).split("\n")
        for line in whole:
            self.answer.console.print(to_rich_text(line))
        self.at_start = not self.partial

    def close_line(self) -> None:
        """Print the unfinished line."""
        partial, self.partial = self.partial, ""
        self.at_start = True
        if partial:
            self.answer.console.print(to_rich_text(partial))

    def note(self, *parts: Part, always: bool = False) -> None:
        """Show a line about the run, on the same terminal."""
        self.answer.console.print(to_rich_text(*parts), soft_wrap=True)

    def _bottom(self) -> RenderableType:
        from rich.console import Group
        from rich.spinner import Spinner

        facts = [f"turn {max(1, self.turn)}", words.tokens(self.tokens), words.money(self.cost)]
        facts.append(words.duration(seams.monotonic() - self.started))
        status = f"{self.doing}…  {' · '.join(facts)}  (Ctrl-C stops)"
        self._spinner = getattr(self, "_spinner", None) or Spinner("dots", style="cyan")
        self._spinner.update(text=to_rich_text((status, "dim")))
        return Group(to_rich_text(self.partial), self._spinner) if self.partial else self._spinner


def short_line(event: Event, width: int) -> tuple[Part, ...] | None:
    """Format an event as one short line; None if it is not worth one."""
    match event:
        case ChildEvent():
            inner = short_line(event.event, width - 4)
            where = clean(" › ".join(event.path))
            return None if inner is None else ((f"  {where}", "dim"), *inner)
        case ToolCallStarted():
            return ("  ", ("→", "cyan"), f" {shown_call(event.name, event.arguments, width)}")
        case ToolResulted():
            return _result(event, width)
        case ToolCallUpdate() if event.progress is not None:
            return ((f"    {one_line(_progress_words(event.progress), width)}", "dim"),)
        case ReplyFailed():
            return ("  ", ("!", "red"), f" the model failed: {one_line(event.message, 300)}")
        case BudgetExhausted():
            used = f"{event.used:g} of {event.allowed:g}"
            return ("  ", ("!", "yellow"), f" the limit on {event.limit} is reached: {used}")
        case FeedbackInjected():
            return ((f"  · {one_line(f'{event.feedback}: {event.text}', width)}", "dim"),)
        case HistoryRepaired():
            return (("  · the history was mended before it was sent", "dim"),)
        case Suspended():
            return ("  ", ("‖", "yellow"), f" parked: {one_line(event.reason, width - 8)}")
        case _:
            return None


def _progress_words(progress: object) -> str:
    """Say what a tool reports: what a command wrote, how far a server is, or the value as it is."""
    if not is_mapping(progress):
        return str(progress)
    output, done, total = (progress.get(name) for name in ("output", "progress", "total"))
    if isinstance(output, str):
        return output.strip()
    if done is None:
        return str(progress)
    counted = f"{done:g}" if isinstance(done, (int, float)) else str(done)
    if isinstance(total, (int, float)):
        counted = f"{counted} of {total:g}"
    message = progress.get("message")
    return counted if message is None else f"{counted}: {message}"


def _result(event: ToolResulted, width: int) -> tuple[Part, ...]:
    text = event.result.text
    if event.outcome == "ok" and not event.result.is_error:
        return ("  ", ("←", "green"), (f" {one_line(f'{event.tool}: {text}', width)}", "dim"))
    return ("  ", ("✗", "red"), f" {one_line(f'{event.tool}: {event.outcome}: {text}', width)}")


# --------------------------------------------------------------------------- which one


def view_for(*, as_json: bool, stream: bool, quiet: bool) -> View:
    """Choose the view that fits where the output goes."""
    if as_json:
        return JsonLines() if stream else View()
    both = out().fancy and err().fancy
    return Terminal() if both and not quiet else Plain(quiet=quiet)


class Redacting:
    """A view behind a redactor: no secret reaches it, even one that streams in two pieces.

    Entries come redacted from the run; what streams does not.
    """

    def __init__(self, view: View, redactor: Callable[[], Redactor | None]) -> None:
        self._view, self._redactor = view, redactor
        self._streams: dict[type[TextDelta] | type[ThinkingDelta], RedactingStream] = {}

    def __call__(self, event: Event) -> None:
        redactor = self._redactor()
        if isinstance(event, AnswerDelta):
            return  # the whole answer is shown when it has come
        if redactor is None:
            self._view(event)
        elif isinstance(event, (TextDelta, ThinkingDelta)):
            stream = self._streams.get(type(event))
            if stream is None:
                stream = self._streams[type(event)] = redactor.stream()
            if shown := stream.feed(event.text):
                self._view(type(event)(shown))
        else:
            if isinstance(event, (Replied, ReplyFailed, StreamRestarted)):
                self.flush()
            self._view(redactor.value(event))

    def flush(self) -> None:
        """Show what was held back: the reply is over."""
        for kind, stream in self._streams.items():
            if rest := stream.flush():
                self._view(kind(rest))
        self._streams.clear()

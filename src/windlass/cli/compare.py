"""The recorded requests of a session, sent to another model: its replies beside those on record."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.cli import text as words
from windlass.cli.console import ConsoleOutput, out
from windlass.engine.environment import Environment
from windlass.engine.model import with_retries
from windlass.engine.model_options import ModelOptions
from windlass.errors import BudgetExceeded, ModelError
from windlass.events import IterationStart, JournalEntry, Replied
from windlass.json_types import JsonObject
from windlass.llm.scope import ask_once
from windlass.loop.ledger import Budget, Ledger
from windlass.loop.requests import requests_of
from windlass.messages import Message
from windlass.models.base import Model, Request, Response, Settings, silent
from windlass.models.registry.providers import resolve
from windlass.models.wrappers.text_tools import TextTools
from windlass.replay.replay import entry_number
from windlass.trace.format import pad

# What means the same to every model; the rest was chosen for the one on record.
_COMMON = ("max_tokens", "temperature", "top_p", "stop", "tool_choice", "task_kind")


class Comparison(msgspec.Struct):
    """One recorded reply, and that of the other model."""

    entry: int
    turn: int
    recorded: Replied
    reply: Response | None = None
    error: str | None = None
    cost_usd: float = 0.0

    @property
    def same_calls(self) -> bool:
        """Whether it makes the same calls."""
        return self.reply is not None and _calls(self.reply.message) == _calls(
            self.recorded.message
        )

    @property
    def same_text(self) -> bool:
        """Whether its text is the same."""
        return (
            self.reply is not None and self.reply.text.strip() == self.recorded.message.text.strip()
        )


async def compare(
    session_id: str,
    entries: Sequence[JournalEntry],
    name: str,
    first: int | None,
    max_usd: float,
    *,
    as_json: bool,
) -> int:
    """Send every recorded request to the other model; return 1 on failure."""
    start = 0 if first is None else entry_number(entries, first)
    asked = [one for one in _recorded_requests(entries) if one[0].entry >= start]
    model = _fitting(resolve(name, None))
    model.check()
    done: list[Comparison] = []
    stopped: str | None = None
    async with Environment(store="memory:", budget=Budget(usd=max_usd)) as scope:
        for compared, request in asked:
            stopped = await _ask(model, request, compared, scope.ledger)
            if stopped is not None:
                break
            done.append(compared)
    await model.aclose()
    total = sum(one.cost_usd for one in done)
    if as_json:
        out().json(_document(session_id, name, done, len(asked), stopped, total))
    else:
        _report(out(), name, done, len(asked), stopped, total)
    return 1 if stopped is not None or any(one.error for one in done) else 0


def _recorded_requests(entries: Sequence[JournalEntry]) -> list[tuple[Comparison, Request]]:
    """Return every turn's request and recorded reply, without those of policies."""
    found: list[tuple[Comparison, Request]] = []
    requests = iter(requests_of(entries))
    turn = 0
    for number, entry in enumerate(entries):
        if type(entry) is IterationStart:
            turn = entry.number
        elif type(entry) is Replied:
            request = next(requests)
            if entry.purpose is None:
                found.append((Comparison(number, turn, entry), request))
    return found


def _fitting(model: Model) -> Model:
    """Wrap the model as a run would; one without native tools reads them as text."""
    if not model.native_tools:
        return TextTools(with_retries(model, ModelOptions()))
    return with_retries(model, ModelOptions())


async def _ask(model: Model, request: Request, compared: Comparison, books: Ledger) -> str | None:
    """Ask once within the budget; return why not, when it leaves no room."""
    settings = request.settings
    kept = {
        name: getattr(settings, name) for name in _COMMON if getattr(settings, name) is not None
    }
    frame = msgspec.structs.replace(request.frame, settings=Settings(stream=False, **kept))
    request = msgspec.structs.replace(request, frame=frame)
    before = books.usd
    try:
        compared.reply = await ask_once(model, request, silent)
    except BudgetExceeded:
        return f"--max-usd {books.limits.usd:g} leaves no room for more"
    except ModelError as error:
        compared.error = f"{error.category}: {error}"
    compared.cost_usd = books.usd - before  # also of what came before it failed
    return None


# --------------------------------------------------------------------------- telling


def _report(
    paper: ConsoleOutput,
    name: str,
    done: Sequence[Comparison],
    asked: int,
    stopped: str | None,
    usd: float,
) -> None:
    room = max(24, (min(paper.width, 160) - 5) // 2)
    for one in done:
        verdict, tone = _verdict(one)
        place = f"turn {one.turn}, journal entry {one.entry}"
        paper.line((place, "bold"), ": ", (verdict, tone))
        if one.reply is None or (one.same_calls and one.same_text):
            continue
        left, right = _lines(one.recorded.message, room), _lines(one.reply.message, room)
        who = f"{one.recorded.provider}:{one.recorded.model}"
        pairs = [(words.one_line(who, room), words.one_line(name, room))]
        for n in range(max(len(left), len(right))):
            pairs.append((left[n] if n < len(left) else "", right[n] if n < len(right) else ""))
        for at, (a, b) in enumerate(pairs):
            paper.line(("  " + _pad(a, room) + " | " + b, "dim" if at == 0 else ""))
    calls = sum(one.same_calls for one in done)
    texts = sum(one.same_text for one in done)
    summary = f"{len(done)} of {words.count(asked, 'request')} sent to {name}"
    paper.line(
        f"{words.clean(summary)}: the same calls {calls} times, the same words {texts} times"
    )
    before = sum(one.recorded.cost_usd for one in done)
    paper.line((f"{words.money(usd)} now, {words.money(before)} on record", "dim"))
    if stopped is not None:
        paper.line((f"stopped: {stopped}", "yellow"))


def _verdict(one: Comparison) -> tuple[str, str]:
    if one.error is not None:
        return f"failed: {words.one_line(one.error, 200)}", "red"
    if one.same_calls and one.same_text:
        return "the same", "green"
    if one.same_calls:
        return (
            "the same calls, other words" if _calls(one.recorded.message) else "other words"
        ), ""
    return "other calls", "yellow"


def _calls(message: Message) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in message.tool_calls]


def _lines(message: Message, room: int) -> list[str]:
    """Format a reply in a column: its text, then its calls."""
    lines: list[str] = []
    for line in words.clean(message.text[:4000]).splitlines():
        lines += textwrap.wrap(line, room) or [""]
    lines = lines[:12] + (["…"] if len(lines) > 12 else [])
    lines += [words.shown_call(call.name, call.arguments, room) for call in message.tool_calls]
    return lines


def _pad(text: str, room: int) -> str:
    return pad(text, room) if text.strip() else " " * room


def _document(
    session_id: str,
    name: str,
    done: Sequence[Comparison],
    asked: int,
    stopped: str | None,
    usd: float,
) -> JsonObject:
    return {
        "session_id": session_id,
        "model": name,
        "requests": asked,
        "sent": len(done),
        "cost_usd": usd,
        "stopped": stopped,
        "replies": [
            {
                "entry": one.entry,
                "turn": one.turn,
                "same_calls": one.same_calls,
                "same_text": one.same_text,
                "error": one.error,
                "cost_usd": one.cost_usd,
                "recorded": msgspec.to_builtins(one.recorded.message),
                "reply": None if one.reply is None else msgspec.to_builtins(one.reply.message),
            }
            for one in done
        ],
    }

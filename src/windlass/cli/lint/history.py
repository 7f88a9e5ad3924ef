"""Saved histories: whether each provider would take them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from windlass.cli.console import out
from windlass.cli.lint.registry import known_provider
from windlass.cli.store_location import find_place, match
from windlass.cli.text import one_line
from windlass.errors import ConfigError, NoSuchSession
from windlass.events import JournalEntry
from windlass.files import LARGEST_EXPORT, read_regular
from windlass.json_types import is_list, is_object
from windlass.loop.plan import frame_of
from windlass.loop.requests import last_frame
from windlass.messages import Message, ToolSpec, as_messages
from windlass.models.base import Frame, Request
from windlass.models.lint_history import Verdict, judge
from windlass.models.registry import prices
from windlass.models.registry.providers import resolve
from windlass.models.registry.scope import ENDPOINTS
from windlass.models.wires.base import HttpModel
from windlass.store.view import messages_of


def judge_history(request: Request, providers: Sequence[str]) -> Iterator[Verdict]:
    """Check by the rules of each provider whether it would accept a history."""
    for given in providers or ENDPOINTS:
        provider, _, name = given.partition(":")
        known_provider(provider)
        endpoint = ENDPOINTS[provider]
        listed = prices.models().get(provider)
        name = name or endpoint.default_model or (listed[0].name if listed else "any-model")
        model = resolve(name, provider, api_key="none", environ=_PLACES)
        if isinstance(model, HttpModel):
            yield msgspec.structs.replace(judge(model, request), provider=provider)


# variables that some providers require; no request is sent here
_PLACES = {
    "GOOGLE_CLOUD_PROJECT": "p",
    "GOOGLE_CLOUD_LOCATION": "global",
    "AWS_REGION": "us-east-1",
    "AZURE_OPENAI_ENDPOINT": "https://example.openai.azure.com",
}


def print_verdicts(found: list[Verdict], as_json: bool) -> int:
    """Print the verdict of each provider; return the exit code."""
    paper = out()
    if as_json:
        paper.json({"verdicts": msgspec.to_builtins(found)})
    width = max((len(f"{it.provider}:{it.model}") for it in found), default=0)
    for verdict in [] if as_json else found:
        who = f"{verdict.provider}:{verdict.model}".ljust(width)
        if verdict.refused is None:
            paper.line(f"{who}  ", ("taken", "green"))
        else:
            paper.line(f"{who}  ", ("refused", "red"), f" because {one_line(verdict.refused)}")
        for note in verdict.repaired:
            paper.line((f"  repaired on the way: {one_line(note)}", "dim"))
        for note in verdict.lost:
            paper.line((f"  not sent: {one_line(note)}", "dim"))
    return 1 if any(verdict.refused for verdict in found) else 0


def read_session(session: str, store: str | None) -> Request:
    """Read the next request of a stored session."""
    place = find_place(store)
    if not place.exists:
        raise NoSuchSession(f"no session {session!r}: nothing is kept in {place.shown}")

    async def entries() -> Sequence[Any]:
        held = place.open(read_only=True)
        try:
            return await held.read(await match(held, session))
        finally:
            await held.aclose()

    return _request(asyncio.run(entries()))


def _request(entries: Sequence[Any]) -> Request:
    """Build the next request of a session."""
    last = last_frame(entries)
    return Request(messages_of(entries), Frame() if last is None else frame_of(last))


def read_history_file(file: str) -> Request:
    """Read a history from a file: a transcript, a list of messages, or a journal."""
    try:
        data = read_regular(file, LARGEST_EXPORT)
    except OSError as error:
        raise ConfigError(f"--transcript {file}: {error.strerror}") from None
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            lines = [line for line in data.splitlines() if line.strip()]
            return _request([msgspec.json.decode(line, type=JournalEntry) for line in lines])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"--transcript {file}: neither a transcript (JSON) nor a journal (JSON lines): {error}"
            ) from None
    return _from_plain(value, file)


def _from_plain(value: Any, file: str) -> Request:
    fields = value if is_object(value) else {"messages": value}
    said = fields.get("messages")
    try:
        if not is_list(said):
            raise TypeError("there is no list of messages in it")
        messages = [
            msgspec.convert(one, Message) if _has_blocks(one) else as_messages(one)[0]
            for one in said
        ]
        tools = msgspec.convert(fields.get("tools") or [], list[ToolSpec])
    except (msgspec.ValidationError, TypeError, ValueError, IndexError, KeyError) as error:
        raise ConfigError(f"--transcript {file}: {error}") from None
    if not tools:  # an export names no tools, but the calls
        called = dict.fromkeys(call.name for message in messages for call in message.tool_calls)
        tools = [ToolSpec(name, name, {"type": "object", "properties": {}}) for name in called]
    system = fields.get("system")
    return Request(messages, Frame(system if isinstance(system, str) else None, tuple(tools)))


def _has_blocks(one: Any) -> bool:
    return is_object(one) and isinstance(one.get("content"), list)

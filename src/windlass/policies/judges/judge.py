"""A model as a judge: it reads the conversation as text and answers in a fixed form.

Not a policy. Whatever comes back is read for the object in it; a reply that is on record is not asked
for again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from windlass import seams
from windlass.errors import whole_text
from windlass.loop.run import Run
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.models.base import Frame, Model, Request, Settings
from windlass.models.json_text import json_values
from windlass.models.structured_output import asking, can_force_call, means_of
from windlass.options.prompts import Words, text_of
from windlass.policies.facts import tally

_TOOL = "give_verdict"
_LONGEST = 4_000  # characters of one block; of a long one, its beginning and its end
_ROUND = 30_000  # of one message with all its blocks
_MOST = 120_000  # of all messages
_SETTINGS = Settings(max_tokens=4_096, stream=False, task_kind="judge")


async def consult(
    run: Run, system: Words, schema: dict[str, Any], purpose: str, model: Model | None = None
) -> tuple[dict[str, Any], float]:
    """Ask the judge about the conversation; return its answer and the milliseconds taken."""
    tries = 1 + (run.plan.metadata or {}).get("schema_retries", 0)
    known = tally(run).asides.get(purpose)
    if known is not None:  # it answered, and the process ended before that was used
        verdict = parse_verdict(known.message, schema)
        if verdict or tries == 1:
            return verdict, known.duration_ms
    question = Message("user", (Text(f"The conversation:\n\n{render_conversation(run.messages)}"),))
    request = Request((question,), _frame(model or run.model, await text_of(system), schema))
    started = seams.monotonic()
    verdict: dict[str, Any] = {}
    while not verdict and tries:  # a judge that cannot be understood is asked once more
        verdict = parse_verdict((await run.ask(request, purpose, model)).message, schema)
        tries -= 1
    return verdict, (seams.monotonic() - started) * 1000


def _frame(judge: Model, system: str, schema: dict[str, Any]) -> Frame:
    frame, caps = Frame(system, (), _SETTINGS), judge.capabilities
    means = means_of(caps, frame, schema)
    return asking(frame, means, schema, _TOOL, force=can_force_call(caps, frame))


def parse_verdict(message: Message, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the first object in a judge's reply that has a key of the form, else nothing."""
    for value in _values(message):
        if isinstance(value, dict) and not schema["properties"].keys().isdisjoint(value):
            return cast("dict[str, Any]", value)
    return {}


def _values(message: Message) -> Iterator[Any]:
    for call in message.tool_calls:
        if call.raw is None:
            yield call.arguments
        else:
            yield from json_values(call.raw)
    yield from json_values(message.text)


def words(answer: dict[str, Any], name: str) -> str | None:
    """Return a text of the answer, or None."""
    value = answer.get(name)
    return shorten_text(whole_text(value.strip())) or None if isinstance(value, str) else None


def render_conversation(messages: Sequence[Message]) -> str:
    """Render a conversation as text; a very long one is cut in the middle."""
    parts = [shorten_text(_render_message(message), _ROUND) for message in messages]
    if sum(map(len, parts)) > _MOST and len(parts) > 2:
        room = _MOST - len(parts[0])
        kept: list[str] = []
        for part in reversed(parts[1:]):
            room -= len(part)
            if room < 0:
                break
            kept.append(part)
        gone = len(parts) - 1 - len(kept)
        parts = [parts[0], f"[{gone} messages left out]", *reversed(kept)]
    return "\n\n".join(part for part in parts if part)


def _render_message(message: Message) -> str:
    lines: list[str] = []
    for block in message.content:
        match block:
            case Text(text):
                lines.append(f"{message.role.upper()}: {shorten_text(text)}")
            case ToolCall(_, name, arguments):
                written = msgspec.json.encode(arguments, enc_hook=str).decode()
                lines.append(f"CALL {name}: {shorten_text(written)}")
            case ToolResult():
                mark = " (failed)" if block.is_error else ""
                lines.append(f"RESULT {block.name}{mark}: {shorten_text(block.text)}")
            case _:
                pass  # a judge reads text, calls and results, not thinking or images
    return "\n".join(lines)


def shorten_text(text: str, most: int = _LONGEST) -> str:
    """Cut a long text in the middle."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} […{len(text) - most} characters…] {text[-half:]}"

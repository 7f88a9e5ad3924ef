"""A model as a judge: it is shown the conversation in words and answers in a fixed form.

Not a policy. A judge is asked by the best means its model has: an own schema, a forced tool, or a
plain request for JSON; whatever comes back is read for the object in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from windlass import seams
from windlass.loop.run import Run
from windlass.messages import Message, Text, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Model, Request, Response, Settings

_TOOL = "give_verdict"
_LONGEST = 4_000  # characters of one message; of a long one, its beginning and its end
_MOST = 120_000  # characters of all
_SETTINGS = Settings(max_tokens=2_048, stream=False)


async def consult(
    run: Run, system: str, schema: dict[str, Any], purpose: str, model: Model | None = None
) -> tuple[dict[str, Any], float]:
    """What the judge says of the conversation so far, and the milliseconds it took."""
    judge = model or run.model
    question = Message("user", (Text(f"The conversation:\n\n{rendered(run.messages)}"),))
    request = Request((question,), _frame(judge, system, schema))
    started = seams.monotonic()
    response = await run.ask(request, purpose, model)
    return spoken(response), (seams.monotonic() - started) * 1000


def _frame(judge: Model, system: str, schema: dict[str, Any]) -> Frame:
    match judge.capabilities.structured[0]:
        case "schema":
            return Frame(system, (), msgspec.structs.replace(_SETTINGS, schema=schema))
        case "tool" if judge.native_tools:
            tool = ToolSpec(_TOOL, "Give your verdict.", schema)
            choice: dict[str, Any] = {"name": _TOOL}
            return Frame(system, (tool,), msgspec.structs.replace(_SETTINGS, tool_choice=choice))
        case _:
            form = msgspec.json.encode(schema).decode()
            asks = f"Answer with one JSON object of this schema and nothing else:\n{form}"
            return Frame(f"{system}\n\n{asks}", (), _SETTINGS)


def spoken(response: Response) -> dict[str, Any]:
    """The object in a judge's reply; nothing where there is none."""
    for call in response.message.tool_calls:
        if call.raw is None:
            return call.arguments
    return _object(response.text)


def _object(text: str) -> dict[str, Any]:
    start, stop = text.find("{"), text.rfind("}")
    if start < 0 or stop < start:
        return {}
    try:
        value = msgspec.json.decode(text[start : stop + 1])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def words(answer: dict[str, Any], name: str) -> str | None:
    """A text of the answer, if it has one."""
    value = answer.get(name)
    return value.strip() or None if isinstance(value, str) else None


def rendered(messages: Sequence[Message]) -> str:
    """A conversation in words; of a very long one the beginning and the end."""
    parts = [_said(message) for message in messages]
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


def _said(message: Message) -> str:
    lines: list[str] = []
    for block in message.content:
        match block:
            case Text(text):
                lines.append(f"{message.role.upper()}: {_short(text)}")
            case ToolCall(_, name, arguments):
                written = msgspec.json.encode(arguments, enc_hook=str).decode()
                lines.append(f"CALL {name}: {_short(written)}")
            case ToolResult():
                mark = " (failed)" if block.is_error else ""
                lines.append(f"RESULT {block.name}{mark}: {_short(block.text)}")
            case _:
                pass  # a judge hears what was said and done, not what was thought or shown
    return "\n".join(lines)


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]} […{len(text) - _LONGEST} characters…] {text[-half:]}"

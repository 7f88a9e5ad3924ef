"""A summary of the older half of a long view, by a model in one call without tools.

The same half is never summarised twice: the question that was asked is on the record beside its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, ClassVar, Final

import msgspec

from windlass.errors import BudgetExceeded, ModelError
from windlass.events import Replied
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import (
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from windlass.models.base import Frame, Model, Request, Settings
from windlass.policies.rounds import (
    estimate_view,
    first_said,
    round_at,
    staying,
    unanswered_start,
    under_way,
)

SUMMARY: Final = "summary"  # why the view changes, what the model is asked for, the message's kind
_HEAD: Final = "[Conversation summary]"
_NONE: Final = "[Conversation summary unavailable]"
_ASKED: Final = (
    "Below is the older part of a conversation, one message a line. Write a summary that will stand in "
    "its place.\n"
    "- Keep what the user wants, the limits they set, and what was decided.\n"
    "- Keep the results of tools that still matter, and questions that are open.\n"
    "- Short bullet points. Nothing that is not in the conversation."
)
_FEWEST: Final = 4  # messages of a view that is worth it


class LastLook(msgspec.Struct, frozen=True):
    """The last turn in which the view was checked; once in a turn is enough."""

    turn: int = 0


class Half(msgspec.Struct, frozen=True):
    """Messages `start` to `stop` of the view: those that stay, and those to summarise."""

    start: int
    stop: int
    kept: tuple[Message, ...]
    old: tuple[Message, ...]


class Summarizing(Policy[LastLook]):
    """A policy that summarises the older half above `most` tokens, perhaps with `model`."""

    memory = LastLook
    brief: ClassVar[bool] = True

    def __init__(self, most: int, model: Model | None = None) -> None:
        self.most, self.model = most, model
        self.models = () if model is None else (model,)

    @property
    def name(self) -> str:
        return "summarize"

    async def before_model(self, run: Run, request: Request) -> Request:
        """Summarise from the second turn on, where the view is too long."""
        if len(run.messages) < _FEWEST or estimate_view(run) <= self.most or not under_way(run):
            return request
        looked: LastLook = run.recall(self)
        if looked.turn == run.number:
            return request  # the process ended before the model answered, or it is asked again
        half = older_half(run.messages)
        if half is None:
            return request
        text = await self._summary(run, half.old)
        run.remember(self, LastLook(run.number))
        if text is None:
            return request
        summary = Message("user", (Text(f"{_HEAD}\n{text}" if text else _NONE),), SUMMARY)
        run.reshape((half.start, half.stop), (*half.kept, summary), SUMMARY)
        return msgspec.structs.replace(request, messages=run.messages)

    async def _summary(self, run: Run, old: Sequence[Message]) -> str | None:
        """Return the summary; None if no model could write one."""
        lines = b"\n".join([_encode(to_summary_input(message)) for message in old]).decode()
        question = Message("user", (Text(_ASKED), Text(f"\n\nConversation:\n{lines}")))
        known = _find_earlier_reply(run, question)
        if known is not None:
            return known.message.text.strip()
        frame = Frame(run.frame.system, (), _settings(run, self.model))
        try:
            reply = await run.ask(Request((question,), frame), SUMMARY, self.model)
        except (ModelError, BudgetExceeded):
            return None  # on record
        return reply.text.strip()


def older_half(messages: Sequence[Message]) -> Half | None:
    """Return the older half of the messages after the task, in whole rounds, or None."""
    first = first_said(messages, but=SUMMARY)
    if first is None:
        return None
    stay = staying(messages, but=SUMMARY)
    rest = [at for at in range(first + 1, len(messages)) if at not in stay]
    size = max(2, len(rest) // 2)
    edge = rest[size] if size < len(rest) else len(messages)
    stop = round_at(messages, min(edge, unanswered_start(messages)))
    places = [at for at in rest if at < stop]
    if all(messages[at].kind == SUMMARY for at in places):
        return None  # also where there are none; a summary of a summary is useless
    start = places[0]
    kept = tuple([messages[at] for at in range(start, stop) if at in stay])
    return Half(start, stop, kept, tuple([messages[at] for at in places]))


def to_summary_input(message: Message) -> dict[str, Any]:
    """Convert a message for the summary: no thinking, and digests instead of media."""
    blocks: list[Any] = []
    for block in message.content:
        match block:
            case Text(text):
                blocks.append({"text": text})
            case ToolCall(_, name, arguments):
                blocks.append({"call": name, "arguments": block.raw or arguments})
            case ToolResult():
                failed = {"failed": True} if block.is_error else {}
                blocks.append({"result_of": block.name, **failed, "content": _content(block)})
            case Image() | Document():
                blocks.append(_describe_media(block))
            case Thinking() | Opaque():
                pass
    return {"role": message.role, "content": blocks}


def _content(result: ToolResult) -> Any:
    if isinstance(result.content, str):
        return result.content
    return [
        part.text if isinstance(part, Text) else _describe_media(part) for part in result.content
    ]


def _describe_media(part: Image | Document) -> dict[str, str]:
    """Describe media by type and digest, so that different ones never look equal."""
    digest = blake2b((part.url or part.data or "").encode(), digest_size=8).hexdigest()
    return {type(part).__name__.lower(): f"{part.media_type} {digest}"}


def _find_earlier_reply(run: Run, question: Message) -> Replied | None:
    """Find the recorded reply to this very question, in any run of the session."""
    for entry in reversed(run.entries):
        if type(entry) is Replied and entry.purpose == SUMMARY and entry.rewritten == (question,):
            return entry
    return None


def _settings(run: Run, other: Model | None) -> Settings:
    """Return the run's settings, without tools and the form of its answers.

    Settings such as thinking and penalties are meant for the run's own model.
    """
    own = run.frame.settings
    if other is not None:
        return Settings(max_tokens=own.max_tokens, temperature=own.temperature, stream=False)
    return msgspec.structs.replace(
        own,
        tool_choice=None,
        parallel_tool_calls=None,
        tool_search=None,
        interleaved_thinking=None,
        schema=None,
        response_format=None,
        stop=None,
        stream=False,
    )


def _hook(value: object) -> str:
    return str(value)  # a custom model may give what is no JSON


_encode = msgspec.json.Encoder(enc_hook=_hook).encode

"""The pad rewritten by a model that must cite its sources; unproven items are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from windlass.errors import Timeout
from windlass.events import AgentScratchpad, JournalEntry, Replied, ReplyFailed
from windlass.loop.run import Run
from windlass.messages import Message, Text
from windlass.models.base import Emit, Frame, Holding, Model, Request, Response, Settings
from windlass.models.structured_output import asking as asking_for
from windlass.models.structured_output import can_force_call, means_of
from windlass.options.prompts import Words, text_of
from windlass.policies.judges.judge import parse_verdict
from windlass.policies.scratchpad.pad import (
    INITIAL,
    MOST,
    NAME,
    SCHEMA,
    BadPad,
    Pad,
    Ref,
    check_citations,
    parts,
    size_of,
    within,
)
from windlass.policies.scratchpad.recent import with_results
from windlass.policies.scratchpad.render import (
    SYSTEM,
    again,
    asking,
    excerpt,
)

_TOOL: Final = "write_scratchpad"
_SETTINGS: Final = Settings(max_tokens=8_192, temperature=0.0, stream=False, task_kind="scratchpad")
PATIENCE: Final = 120.0  # seconds for an answer, where the loop sets no time for its own
_DONE: Final = frozenset({"reorganize", "rejected", "failed"})


def _items(words: str, *, sourced: bool) -> dict[str, Any]:
    source = {"type": "string"} if sourced else {"type": ["string", "null"]}
    return {
        "type": "array",
        "description": words,
        "items": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "source_ref": source},
            "required": ["text", "source_ref"],
            "additionalProperties": False,
        },
    }


FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "goals": _items("What is still wanted.", sourced=False),
        "open_items": _items("What is not done yet.", sourced=False),
        "facts": _items("What later steps must know, each with its source.", sourced=True),
        "refs": {
            "type": "array",
            "description": "Sources worth keeping that nothing above cites; usually none.",
            "items": {
                "type": "object",
                "properties": {"id": {"type": "string"}, "label": {"type": "string"}},
                "required": ["id", "label"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["goals", "open_items", "facts", "refs"],
    "additionalProperties": False,
}


class InTime(Holding):
    """A model with a time limit, so that reorganising does not delay the run."""

    def __init__(self, model: Model, seconds: float) -> None:
        super().__init__(model)
        self.seconds = seconds

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the answer, or raise `Timeout`."""
        try:
            async with asyncio.timeout(self.seconds):
                return await self.model.respond(request, emit)
        except TimeoutError as error:
            raise Timeout(f"no scratchpad within {self.seconds:g} seconds") from error


class Past(NamedTuple):
    """The recorded steps of the reorganisation that is due now."""

    over: bool  # it came to an end, good or bad
    replies: list[Replied]  # paid for, the oldest first
    failed: str | None  # how the last call went wrong


def past_of(entries: Sequence[JournalEntry]) -> Past:
    """Return what was done since the last reply of the working model."""
    replies: list[Replied] = []
    failed: str | None = None
    for entry in reversed(entries):
        if type(entry) is Replied:
            if entry.purpose is None:
                break
            if entry.purpose == NAME:
                replies.insert(0, entry)
        elif type(entry) is AgentScratchpad and entry.action in _DONE:
            return Past(True, [], None)
        elif type(entry) is ReplyFailed and entry.purpose == NAME and not replies:
            failed = failed or entry.message
    return Past(False, replies, failed)


async def rewrite_pad(
    run: Run,
    pad: Pad | None,
    recent: Sequence[tuple[str, Message]],
    known: Mapping[str, Ref],
    retries: int,
    model: Model | None,
    system: Words = SYSTEM,
) -> Pad:
    """Have a model rewrite the pad, or raise `BadPad`; recorded replies are reused."""
    replies = iter(past_of(run.entries).replies)
    question = asked = asking(pad, recent, known)
    writer = InTime(model or run.model, run.frame.settings.timeout or PATIENCE)
    wrong: BadPad | None = None
    for _ in range(1 + retries):
        reply = next(replies, None)
        message = reply.message if reply is not None else None
        if message is None:
            request = Request(
                (Message("user", (Text(asked),)),), _frame(writer, await text_of(system))
            )
            message = (await run.ask(request, NAME, writer)).message
        try:
            return parse_pad(parse_verdict(message, FORM), known)
        except BadPad as error:
            wrong = error
            if error.wrong != "shape":
                break  # it was understood, and is not true
            asked = again(question, str(error))
    assert wrong is not None
    raise wrong


def _frame(model: Model, system: str) -> Frame:
    frame, caps = Frame(system, (), _SETTINGS), model.capabilities
    return asking_for(
        frame, means_of(caps, frame, FORM), FORM, _TOOL, force=can_force_call(caps, frame)
    )


def parse_pad(answer: Mapping[str, Any], known: Mapping[str, Ref]) -> Pad:
    """Parse the pad in an answer; sources keep their known content."""
    if not answer:
        raise BadPad("there is no scratchpad in the answer")
    given = {name: _without_extras(answer[name]) for name in FORM["properties"] if name in answer}
    pad = Pad(SCHEMA, *parts(given, NAME, whole=True), ())
    check_citations(pad, known, NAME)
    labels = _parse_refs(answer.get("refs"), known)
    wanted = {item.source_ref for item in pad.items} | labels.keys() | {INITIAL}
    wanted = with_results(wanted, known)
    kept = [ref for id, ref in known.items() if id in wanted]
    refs = [
        msgspec.structs.replace(ref, label=excerpt(labels[ref.id]))
        if ref.label is None and labels.get(ref.id)
        else ref
        for ref in kept
    ]
    return _fit_pad(msgspec.structs.replace(pad, refs=tuple(refs)))


def _fit_pad(pad: Pad) -> Pad:
    """Shorten the sources of a pad that is too large."""
    if size_of(pad) > MOST:
        bare = [msgspec.structs.replace(ref, excerpt=None) for ref in pad.refs]
        pad = msgspec.structs.replace(pad, refs=tuple(bare))
    if size_of(pad) > MOST:
        needed = {item.source_ref for item in pad.items} | {INITIAL}
        refs = [msgspec.structs.replace(r, label=None) for r in pad.refs if r.id in needed]
        pad = msgspec.structs.replace(pad, refs=tuple(refs))
    return within(pad)


def _without_extras(value: Any) -> Any:
    """Keep only the known fields of items; a model may add its own."""
    if not isinstance(value, list):
        return value
    fields = ("text", "source_ref")
    return [
        {name: one[name] for name in fields if name in one} if isinstance(one, dict) else one
        for one in cast("list[Any]", value)
    ]


def _parse_refs(value: Any, known: Mapping[str, Ref]) -> dict[str, str]:
    """Parse the refs that an answer lists, with its labels."""
    found: dict[str, str] = {}
    if value is None:
        return found
    if not isinstance(value, list):
        raise BadPad(f"{NAME}.refs is a list")
    for at, one in enumerate(cast("list[Any]", value)):
        fields = cast("dict[str, Any]", one) if isinstance(one, dict) else {"id": one}
        id, label = fields.get("id"), fields.get("label")
        if not isinstance(id, str):
            raise BadPad(f"{NAME}.refs[{at}] has no id")
        if id not in known:
            raise BadPad(f"{NAME}.refs[{at}] is {id[:80]!r}, which is no known ref", "ref")
        found[id] = label if isinstance(label, str) else ""
    return found

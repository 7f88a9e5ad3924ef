"""The rule of every request: each tool call has exactly one result, in the next message.

Providers refuse a history that breaks it, for good; so it is looked at before a request leaves.
`audit` lists the problems of new messages, `repair` repairs a whole history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.errors import TestBroken
from windlass.json_types import JsonObject
from windlass.messages import Block, Message, Opaque, Text, ToolCall, ToolResult
from windlass.models.base import Emit, Model, Request, Response

INTERRUPTED = "interrupted: the outcome of this call is unknown"
#: The mark of a call that was written as text; bound to no provider, so it is never echoed.
WRITTEN: Final[JsonObject] = {"written_as_text": True}


def is_text_call(call: ToolCall) -> bool:
    """Check whether the model wrote this call as text."""
    return call.origin is None and call.opaque == WRITTEN


def audit(
    messages: Sequence[Message],
    start: int = 0,
    *,
    tail: Sequence[Message] = (),
    seen: set[str] | None = None,
) -> list[str]:
    """List the problems of the messages from `start` on, sent with `tail` after them.

    `seen` collects the call ids across several looks, so that one used again is noticed however
    long ago it was used; without it an id must be unique among the messages looked at.
    """
    problems: list[str] = []
    seen = set() if seen is None else seen
    waiting: list[str] = []
    if start:
        waiting = [call.id for call in messages[start - 1].tool_calls]
    at = start
    for message in messages[start:] if start else messages:
        if waiting or message.role != "assistant":
            _answers(message, at, waiting, problems)
            waiting = []
        if message.role == "assistant":
            for block in message.content:
                if type(block) is ToolCall:
                    if block.id in seen:
                        problems.append(f"message {at}: call id {block.id!r} is used twice")
                    seen.add(block.id)
                    waiting.append(block.id)
        at += 1
    problems.extend(f"message {at - 1}: call {call!r} has no result" for call in waiting)
    last = tail[-1] if tail else messages[-1] if at else None
    if last is not None and last.role == "assistant" and not waiting and not _is_paused(last):
        problems.append("the request ends in the model's own words")
    return problems


def _answers(message: Message, at: int, waiting: list[str], problems: list[str]) -> None:
    answered: set[str] = set()
    for block in message.content:
        if type(block) is ToolResult:
            if block.id not in waiting:
                problems.append(f"message {at}: the result {block.id!r} answers no call before it")
            elif block.id in answered:
                problems.append(f"message {at}: call {block.id!r} has two results")
            answered.add(block.id)
    if len(answered) < len(waiting):
        problems.extend(
            f"message {at - 1}: call {call!r} has no result"
            for call in waiting
            if call not in answered
        )


def _is_paused(message: Message) -> bool:
    """Check whether a provider paused this turn, and so wants it back unchanged and last."""
    return any(type(block) is Opaque for block in message.content)


def repair(messages: Sequence[Message]) -> tuple[list[Message], list[str]]:
    """Repair a history so that `audit` finds nothing; return also the problems it had.

    A call without result is answered "interrupted"; a result without call, or a second one, goes;
    an id used again gets a new one together with its result.
    """
    problems = audit(messages)
    if not problems:
        return list(messages), []
    mended: list[Message] = []
    used: set[str] = set()
    waiting: list[tuple[str, ToolCall]] = []  # the id as it was, and the call as it is
    for message in messages:
        results = [block for block in message.content if type(block) is ToolResult]
        others = tuple([block for block in message.content if type(block) is not ToolResult])
        if waiting:
            mended.append(Message("tool", _results_in_order(waiting, results)))
            waiting = []
        if message.role == "assistant":
            message, waiting = _with_unique_ids(Message("assistant", others, message.kind), used)
            mended.append(message)
        elif others:
            role = "user" if message.role == "tool" else message.role
            mended.append(Message(role, others, message.kind))
    if waiting:
        mended.append(Message("tool", _results_in_order(waiting, [])))
    if mended and mended[-1].role == "assistant" and not _is_paused(mended[-1]):
        mended.append(Message("user", (Text("Continue."),), "repair"))
    return mended, problems


def _results_in_order(
    waiting: list[tuple[str, ToolCall]], results: list[ToolResult]
) -> tuple[ToolResult, ...]:
    answers: list[ToolResult] = []
    for was, call in waiting:
        found = next((result for result in results if result.id == was), None)
        if found is None:
            answers.append(ToolResult(call.id, INTERRUPTED, True, call.name, outcome="interrupted"))
        else:
            results.remove(found)
            answers.append(msgspec.structs.replace(found, id=call.id))
    return tuple(answers)


def _with_unique_ids(
    message: Message, used: set[str]
) -> tuple[Message, list[tuple[str, ToolCall]]]:
    blocks: list[Block] = []
    calls: list[tuple[str, ToolCall]] = []
    for block in message.content:
        if type(block) is ToolCall:
            was, number = block.id, 2
            if not was or was in used:
                # by counting, so that mending the same history again gives the same bytes
                while f"{was or 'call'}_{number}" in used:
                    number += 1
                block = msgspec.structs.replace(block, id=f"{was or 'call'}_{number}")
            used.add(block.id)
            calls.append((was, block))
        blocks.append(block)
    return Message(message.role, tuple(blocks), message.kind), calls


class Auditing(Model):
    """A model for tests that refuses broken requests: `Auditing(scripted("hi"))`."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.provider, self.name = model.provider, model.name
        self.native_tools, self.context_window = model.native_tools, model.context_window
        self.secrets, self.address = model.secrets, model.address

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Check the request, then call the model."""
        problems = audit(request.messages, tail=request.tail)
        if problems:
            raise TestBroken(f"the request breaks I1: {'; '.join(problems)}")
        return await self.model.respond(request, emit)

    async def aclose(self) -> None:
        """Close the model's connections."""
        await self.model.aclose()

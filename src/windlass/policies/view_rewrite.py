"""Messages that a function of yours put in place of the view: parsed and repaired.

Not a policy. What makes no sense is refused; what a provider would refuse is mended, because a
function that hides messages does not have to know which of them belong together.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args

import msgspec

from windlass.detach import detach
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.loop.plan import check_storable
from windlass.loop.run import Run
from windlass.messages import Block, Message, Role, Text, ToolCall, ToolResult, as_blocks
from windlass.models.history import audit, repair

ROLES: Final = cast("tuple[str, ...]", get_args(Role))
_KEYS: Final = ("role", "content", "kind")
_HIDDEN: Final = "[not shown]"  # the result of an invented call


def read(run: Run, answer: object, who: str) -> tuple[Message, ...]:
    """Parse the messages of an answer, or raise `ConfigError`; `who` names its source."""
    if isinstance(answer, (str, bytes, Mapping, Message)) or not isinstance(answer, Sequence):
        raise ConfigError(
            f"{who} answers a list of messages, not {safe_repr(cast('object', answer))}"
        )
    messages = tuple([_message(run, item, who) for item in cast("Sequence[object]", answer)])
    if not any(_says_something(message) for message in messages):
        raise ConfigError(f"{who} left no message: no provider answers a request without one")
    return messages


def lend(run: Run, messages: Sequence[Message]) -> list[Message]:
    """Copy the messages for a function of yours, as far as they are mutable."""
    lent: _LentCopies = run.cache.setdefault(_LentCopies, _LentCopies())
    return [lent.copy_of(message) for message in messages]


def take_back(run: Run, answer: object) -> object:
    """Replace copies in the answer by the original messages."""
    if not isinstance(answer, (list, tuple)):
        return answer
    lent: _LentCopies = run.cache.setdefault(_LentCopies, _LentCopies())
    several = cast("Sequence[object]", answer)
    return [lent.originals.get(id(item), (item, item))[1] for item in several]


class _LentCopies:
    """Copies of messages and their originals, by id; both are held, so that ids stay valid."""

    __slots__ = ("copies", "originals")

    def __init__(self) -> None:
        self.copies: dict[int, tuple[Message, Message]] = {}
        self.originals: dict[int, tuple[Message, Message]] = {}

    def copy_of(self, message: Message) -> Message:
        if message.role != "assistant":
            return message  # nothing in it can be changed
        known = self.copies.get(id(message))
        if known is None:
            made = detach(message)
            known = self.copies[id(message)] = (message, made)
            if made is not message:
                self.originals[id(made)] = (made, message)
        return known[1]


def is_unchanged(answer: object, view: Sequence[Message]) -> bool:
    """Check whether the view was left as it is, so that nothing is encoded again."""
    if not isinstance(answer, (list, tuple)):
        return False
    several = cast("Sequence[object]", answer)
    return len(several) == len(view) and all(map(operator.is_, several, view))


def _says_something(message: Message) -> bool:
    if message.role == "system":
        return False  # instructions alone are no request
    return any(type(block) is not Text or block.text.strip() for block in message.content)


def message_in(run: Run, item: object, who: str, kind: str | None = None) -> Message:
    """Parse one message, as it was given or from a dict with `role` and `content`."""
    if isinstance(item, Message):
        message = item
    elif isinstance(item, Mapping):
        fields = cast("Mapping[Any, Any]", item)
        for key in fields:
            if key not in _KEYS:
                raise ConfigError(
                    f"{who}: a message has no {safe_repr(key)}{nearest(str(key), _KEYS)}"
                )
        message = Message(
            fields.get("role", ""), _blocks(fields.get("content"), who), fields.get("kind", kind)
        )
    else:
        raise ConfigError(
            f"{who} answers messages, each a Message or a dict with role and content, "
            f"not {safe_repr(item)}"
        )
    if message.role not in ROLES:
        raise ConfigError(
            f"{who}: the role of a message is one of {', '.join(ROLES)}, not "
            f"{safe_repr(message.role)}{nearest(str(message.role), ROLES)}"
        )
    _in_place(message, who)
    check_storable(message, f"a message from {who}")
    return message if run.redactor is None else run.redactor.value(message)


def _message(run: Run, item: object, who: str) -> Message:
    known = run.cache.get(_SEEN)
    if isinstance(item, Message) and known is not None and known.get(id(item)) is item:
        return item  # looked at before
    message = message_in(run, item, who)
    if message is item:
        run.cache.setdefault(_SEEN, {})[id(message)] = message
    return message


_SEEN: Final = "rewriting.seen"


def _blocks(content: object, who: str) -> tuple[Block, ...]:
    if content is None:
        return ()
    try:
        return as_blocks(content)
    except (TypeError, ValueError) as error:  # a ValidationError of msgspec is one
        raise ConfigError(f"{who}: a message is text or blocks: {error}") from error


def _in_place(message: Message, who: str) -> None:
    """Check that calls stand only in the model's messages, and results in others."""
    wrong = ToolResult if message.role == "assistant" else ToolCall
    if any(type(block) is wrong for block in message.content):
        name = "result" if wrong is ToolResult else "call"
        raise ConfigError(f"{who}: a message of role {message.role!r} holds a tool {name}")


# --------------------------------------------------------------------------- made whole


def whole(
    messages: Sequence[Message], view: Sequence[Message], tail: Sequence[Message]
) -> Sequence[Message]:
    """Repair the messages so that every call has its result in the next one (I1).

    A result that was left out comes back, from wherever it stands; a result whose call was left out
    becomes words; a request that would end in the model's own words asks it to go on.
    """
    if not audit(messages, tail=tail):
        return messages
    results = _results(view) | _results(messages)
    called = {call.id for message in messages for call in message.tool_calls}
    mended: list[Message] = []
    used: set[str] = set()
    for at, message in enumerate(messages):
        if message.role == "assistant":
            message = _once(message, used)
            if message.content:
                mended.append(message)
            if calls := message.tool_calls:
                mended.append(_answer(calls, messages[at + 1 : at + 2], results))
        elif (left := _without_orphans(message, called)) is not None:
            mended.append(left)
    if audit(mended, tail=tail):
        mended, _ = repair(mended)
    return mended


def _results(messages: Sequence[Message]) -> dict[str, ToolResult]:
    return {
        block.id: block
        for message in messages
        for block in message.content
        if type(block) is ToolResult
    }


def _once(message: Message, used: set[str]) -> Message:
    """Drop calls that stand in an earlier message too."""
    blocks: list[Block] = []
    for block in message.content:
        if type(block) is ToolCall:
            if block.id in used:
                continue
            used.add(block.id)
        blocks.append(block)
    return (
        message
        if len(blocks) == len(message.content)
        else msgspec.structs.replace(message, content=tuple(blocks))
    )


def _answer(
    calls: Sequence[ToolCall], following: Sequence[Message], results: Mapping[str, ToolResult]
) -> Message:
    if following and following[0].role == "tool":
        ids = [block.id for block in following[0].content if type(block) is ToolResult]
        if ids == [call.id for call in calls] and len(ids) == len(following[0].content):
            return following[0]
    return Message(
        "tool",
        tuple(
            [
                results.get(call.id)
                or ToolResult(call.id, _HIDDEN, True, call.name, outcome="not_run")
                for call in calls
            ]
        ),
    )


def _without_orphans(message: Message, called: set[str]) -> Message | None:
    """Return the message without results that lost their calls; None if nothing is left."""
    if message.role != "tool" and all(type(block) is not ToolResult for block in message.content):
        return message
    blocks: list[Block] = []
    for block in message.content:
        if type(block) is not ToolResult:
            blocks.append(block)
        elif block.id not in called:
            blocks.append(Text(f"[the result of {block.name or 'a call'}]\n{block.text}"))
    role: Role = "user" if message.role == "tool" else message.role
    return Message(role, tuple(blocks), message.kind) if blocks else None

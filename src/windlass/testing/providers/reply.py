"""Requests to a fake provider and its answers, in no provider's format."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from windlass.json_types import JsonObject
from windlass.messages import ToolCall
from windlass.models.base import StopReason
from windlass.models.wires.openai.responses_rules import by_model
from windlass.usage import Usage

Call: TypeAlias = tuple[str, JsonObject]


class Reply(msgspec.Struct, frozen=True):
    """One answer of a fake: `Reply("I will look.", tool_calls=[("lookup", {"order": "7"})])`.

    By default `stop_reason` follows from the calls, and `usage` from the length of the text.
    `thinking` is signed by the server, which checks the signature when it comes back.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: Sequence[Call] = ()
    stop_reason: StopReason | None = None
    usage: Usage | None = None

    def __post_init__(self) -> None:
        calls = tuple([_as_call(call) for call in cast("Sequence[object]", self.tool_calls)])
        msgspec.structs.force_setattr(self, "tool_calls", calls)

    @property
    def stop(self) -> StopReason:
        """The stop reason."""
        return self.stop_reason or ("tool_use" if self.tool_calls else "end_turn")


class Asked(msgspec.Struct, frozen=True):
    """A request as it came in. `json` is None where the body is not JSON.

    `connection` numbers the connections of the server from 0, so that a test can see which
    requests shared one.
    """

    index: int
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    json: Any
    connection: int
    query: str = ""

    @property
    def streamed(self) -> bool:
        """Whether the client wants a stream."""
        return isinstance(self.json, dict) and self.json.get("stream") is True  # pyright: ignore[reportUnknownMemberType]

    @property
    def seed(self) -> str:
        """A digest that is the same for equal requests, streamed or not."""
        asks = {k: v for k, v in self.json.items() if k not in ("stream", "stream_options")}
        return hashlib.sha256(msgspec.json.encode(asks, order="sorted")).hexdigest()


Script: TypeAlias = Callable[[JsonObject, Mapping[str, str]], Reply]


def conversation(*replies: Reply | str) -> Script:
    """Build a script that answers by the number of assistant messages in the request.

    `conversation(Reply(tool_calls=[("add", {"a": 1, "b": 2})]), "3")`: the first request gets the
    call, and every request with its result gets `3`.
    """
    answers = tuple([Reply(reply) if isinstance(reply, str) else reply for reply in replies])

    def script(body: JsonObject, _headers: Mapping[str, str]) -> Reply:
        turn = turns(body)
        if turn >= len(answers):
            raise LookupError(
                f"the script has {len(answers)} replies and was asked for number {turn + 1}"
            )
        return answers[turn]

    return script


def turns(body: JsonObject) -> int:
    """Count the model's turns in a request, over whichever wire it came."""
    if "input" not in body:
        messages = body.get("messages") or body.get("contents") or ()
        return sum(1 for message in messages if message["role"] in ("assistant", "model"))
    spoke = [by_model(item) for item in body["input"]]
    # a turn is several items over there
    return sum(now and not before for before, now in zip([False, *spoke], spoke, strict=False))


def as_script(script: Script | Reply | str) -> Script:
    """Convert a reply or text to a script that gives it to every request."""
    if isinstance(script, str):
        script = Reply(script)
    if isinstance(script, Reply):
        reply = script
        return lambda _body, _headers: reply
    return script


def usage_of(asked: Asked, reply: Reply) -> Usage:
    """Return the tokens of the exchange: the reply's own, or a reproducible estimate."""
    if reply.usage is not None:
        return reply.usage
    size = len(reply.text) + len(reply.thinking)
    size += sum(len(name) + len(msgspec.json.encode(args)) for name, args in reply.tool_calls)
    return Usage(1 + len(asked.body) // 4, 1 + size // 4, reasoning_tokens=len(reply.thinking) // 4)


def signature(thinking: str) -> str:
    """Build the signature of a thought, which the fake expects back with the same text."""
    return b64encode(hashlib.sha256(b"windlass" + thinking.encode()).digest()).decode()


def cut(text: str, size: int = 7) -> list[str]:
    """Cut the text in pieces, as a stream brings it."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def _as_call(call: object) -> Call:
    if isinstance(call, ToolCall):
        return (call.name, call.arguments)
    name, arguments = cast("Call", call)
    return (name, arguments)

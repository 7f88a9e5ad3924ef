"""The contents of one request, with estimated tokens, and what was left out of it.

Data, and how it is built from messages and tools; readers of a journal fill it in. Nothing here is
cut or cleaned: that is done when it is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from windlass.messages import (
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    characters,
)
from windlass.trace.format import count, shown_call
from windlass.usage import NO_USAGE, Usage

#: What a share of a request is: the segments of the bar, in their order.
Share: TypeAlias = Literal["system", "tools", "user", "assistant", "results", "notes", "tail"]
SHARES: Final[tuple[Share, ...]] = (
    "system",
    "tools",
    "user",
    "assistant",
    "results",
    "notes",
    "tail",
)


class Piece(msgspec.Struct, frozen=True):
    """One part of a request: the system prompt, a tool, a message."""

    share: Share
    label: str  # the tool's name, the message's role, or its kind
    tokens: int  # estimated
    text: str  # its text, uncut
    number: int | None = None  # of a message in the view, counted from 1
    origin: tuple[str, ...] = ()  # what flow control knows of it: untrusted, private, secret


class LeftOut(msgspec.Struct, frozen=True):
    """Something that the model did not see, though it was in the session."""

    why: str  # compaction, window, summary, dropped reply, trimmed result, not offered, …
    what: Literal["messages", "shorter", "reworded", "results", "tools"]
    gone: int  # how many of them
    tokens: int  # of these
    put: int = 0  # messages that stand in their place
    instead: int = 0  # tokens of those
    names: tuple[str, ...] = ()  # of tools
    run: int = 0
    turn: int = 0
    detail: str = ""


class ModelCallSummary(msgspec.Struct, frozen=True):
    """A model call of the turn: the turn itself, or a policy's call beside it."""

    number: int
    purpose: str | None
    model: str
    failed: str | None = None  # nothing was answered: the request is not on record


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one request was made of."""

    session_id: str
    run: int
    runs: int
    turn: int
    turns: int
    call: int
    calls: tuple[ModelCallSummary, ...]
    agent: str | None
    provider: str
    model: str
    purpose: str | None
    settings: Mapping[str, Any]
    pieces: tuple[Piece, ...]
    left_out: tuple[LeftOut, ...]
    written: bool = False  # the model has no tools of its own: they are written into the prompt
    usage: Usage = NO_USAGE  # as the provider counted

    @property
    def tokens(self) -> int:
        """The estimate of the whole request."""
        return sum(piece.tokens for piece in self.pieces)

    def of(self, *shares: Share) -> list[Piece]:
        """Return the pieces of these shares."""
        return [piece for piece in self.pieces if piece.share in shares]


FRAME: Final[tuple[Share, ...]] = ("system", "tools")
VIEW: Final[tuple[Share, ...]] = ("user", "assistant", "results", "notes")


def pieces_of(
    system: str | None,
    tools: Sequence[ToolSpec],
    messages: Sequence[Message],
    tail: Sequence[Message],
    origins: Mapping[str, tuple[str, ...]] | None = None,
) -> list[Piece]:
    """List the parts of a request, in the order in which a model sees them.

    `origins` says of tools what their results are: untrusted, private, secret.
    """
    found: list[Piece] = []
    if system:
        found.append(Piece("system", "system", _quarter(len(system)), system))
    for tool in tools:
        size = 0 if tool.defer_loading else tool_tokens(tool)
        found.append(Piece("tools", tool.name, size, tool.description))
    for number, message in enumerate(messages, 1):
        found.append(_piece(message, _share(message), number, origins or {}))
    found += [_piece(message, "tail", None, origins or {}) for message in tail]
    return found


def _piece(
    message: Message, share: Share, number: int | None, origins: Mapping[str, tuple[str, ...]]
) -> Piece:
    label = message.kind or message.role
    read = [block for block in message.content if type(block) is ToolResult]
    known = {one for block in read for one in origins.get(block.name or "", ())}
    text = render_message(message)
    return Piece(share, label, tokens_of([message]), text, number, tuple(sorted(known)))


def _share(message: Message) -> Share:
    if message.role == "assistant":
        return "assistant"
    if message.role == "tool" or any(type(block) is ToolResult for block in message.content):
        return "results"
    return "user" if message.kind is None else "notes"


def tokens_of(messages: Iterable[Message]) -> int:
    """Estimate the tokens of messages: characters over four."""
    return _quarter(characters(messages))


def tool_tokens(tool: ToolSpec) -> int:
    """Estimate the tokens of a tool: its name, its description, its schema."""
    schema = len(msgspec.json.encode(tool.parameters))
    return _quarter(len(tool.name) + len(tool.description) + schema)


def _quarter(size: int) -> int:
    return -(-size // 4)


def render_message(message: Message) -> str:
    """Render a message as text: content, calls, results and thinking."""
    parts: list[str] = []
    for block in message.content:
        match block:
            case Text(text):
                parts.append(text)
            case Thinking(text):
                parts.append(f"(thinks) {text}")
            case ToolCall(_, name, arguments):
                parts.append(f"{name}({block.raw})" if block.raw else shown_call(name, arguments))
            case ToolResult():
                failed = " failed" if block.is_error else ""
                parts.append(f"{block.name or block.id}{failed}: {_result(block)}")
            case _:
                parts.append(f"[{type(block).__name__.lower()}]")
    return "\n".join(part for part in parts if part)


def _result(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "\n".join(
        part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]"
        for part in result.content
    )


# --------------------------------------------------------------------------- left out


def describe_replacement(
    gone: Sequence[Message], new: Sequence[Message], why: str, *, run: int = 0, turn: int = 0
) -> LeftOut | None:
    """Describe what is not seen where some messages replaced others; None if unchanged."""
    if len(gone) == len(new):
        pairs = [(one, two) for one, two in zip(gone, new, strict=True) if one != two]
        out, put = [one for one, _ in pairs], [two for _, two in pairs]
    else:
        old, now = set(map(_key, gone)), set(map(_key, new))
        out = [message for message in gone if _key(message) not in now]
        put = [message for message in new if _key(message) not in old]
    if not out and not put:
        return None
    before, after = tokens_of(out), tokens_of(put)
    what = "messages"
    if len(out) == len(put):
        what = "shorter" if after < before else "reworded"
    return LeftOut(why, what, len(out), before, len(put), after, run=run, turn=turn)


_key = msgspec.msgpack.Encoder(enc_hook=str).encode


def of_tools(why: str, tools: Sequence[ToolSpec], detail: str) -> LeftOut:
    """Describe tools that the model was not shown."""
    names = tuple(tool.name for tool in tools)
    size = sum(map(tool_tokens, tools))
    return LeftOut(why, "tools", len(tools), size, names=names, detail=detail)


class Together(msgspec.Struct, frozen=True):
    """What was left out for one reason, over all the turns in which it happened."""

    why: str
    tokens: int  # that are saved by it, with what stands in their place
    words: tuple[str, ...]  # what, where, how


def together(left_out: Sequence[LeftOut]) -> list[Together]:
    """Summarise what was left out, one line for each reason."""
    by_why: dict[tuple[str, str], list[LeftOut]] = {}
    for each in left_out:
        by_why.setdefault((each.why, each.what), []).append(each)
    lines: list[Together] = []
    for (why, _), group in by_why.items():
        details = dict.fromkeys(each.detail for each in group if each.detail)
        texts = (_what(group), _where(group[0], group[-1]), *details)
        saved = sum(each.tokens - each.instead for each in group)
        lines.append(Together(why, saved, tuple(word for word in texts if word)))
    return lines


def _what(group: Sequence[LeftOut]) -> str:
    names = ", ".join(dict.fromkeys(name for each in group for name in each.names))
    number = sum(each.gone for each in group)
    match group[0].what:
        case "shorter":
            return f"{count(number, 'message')} in a shorter form"
        case "reworded":
            return f"{count(number, 'message')} in other words"
        case "results":
            return f"{count(number, 'result')} of {names}, shown in part"
        case "tools":
            return f"{count(number, 'tool')}: {names}"
        case "messages":
            put = max(each.put for each in group)
            # what stood in place of earlier ones went with the next
            number = sum(each.gone - each.put for each in group) + put
            text = count(number, "message")
            return f"{text}, {put} in their place" if put else text


def _where(first: LeftOut, last: LeftOut) -> str:
    if not first.turn:
        return ""
    if first.run != last.run:
        return f"run {first.run} turn {first.turn} to run {last.run} turn {last.turn}"
    if first.turn == last.turn:
        return f"turn {first.turn}"
    return f"turns {first.turn} to {last.turn}"

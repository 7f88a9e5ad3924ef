"""One model call, without a loop: the tool calls of the reply are returned, not run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, Unpack, cast, overload

import msgspec

from windlass import seams
from windlass.engine.continuation import Past
from windlass.engine.transcript import events_of, told_by
from windlass.errors import BudgetExceeded, StreamBroken
from windlass.events import JournalEntry, LiveEvent, StreamRestarted, TextDelta, ToolCallReady
from windlass.llm.request import PreparedCall, prepare
from windlass.llm.scope import ask_once, build_call_ledger
from windlass.loop.reply import cost_of
from windlass.messages import Block, Message, Thinking, ToolCall
from windlass.models.base import Emit, Model, Request, Response, silent
from windlass.options.parse import merge_options
from windlass.options.signature import show_options
from windlass.records import Record
from windlass.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from windlass.engine.keyword_lists import take_call_options
    from windlass.engine.keywords import CallKeywords

Data = TypeVar("Data")

_THINK: Final = re.compile(r"<think(?:ing)?>(.*?)(?:</think(?:ing)?>|\Z)", re.DOTALL)
_CALL: Final = re.compile(r"^<tool_call>.*?</tool_call>[ \t]*$\n?", re.DOTALL | re.MULTILINE)


def split_reasoning(text: str) -> tuple[str, str]:
    """Split a reply into what a person reads and the reasoning that is written into it."""
    if "<think" not in text and "<tool_call>" not in text:
        return text, ""
    inline = (
        [part.strip() for part in _THINK.findall(text)] if text.lstrip()[:6] == "<think" else []
    )
    seen = _CALL.sub("", _THINK.sub("", text) if inline else text)
    return seen.strip(), "\n".join(inline)


class LLMResult(Record, Generic[Data], frozen=True):
    """The result of `llm_call`, the same for every provider: `reply.text`, `reply.data`, …"""

    message: Message
    usage: Usage
    stop_reason: str
    model: str
    provider: str
    cost_usd: float
    request: tuple[Message, ...] = ()
    native_id: str | None = None
    via: str | None = None  # "cache", "fallback", "escalation": how the caller came by it
    data: Data = cast("Data", None)  # the answer as a value, where a schema or JSON was asked for
    past: Past = Past("")  # what it goes on from
    continued: int = 0  # messages of it
    searches: tuple[JournalEntry, ...] = ()  # for tools, on the way to it

    @property
    def text(self) -> str:
        """The text of the reply."""
        return self.message.text

    @property
    def visible_text(self) -> str:
        """The text for a person, without reasoning and tool calls that the model wrote into it."""
        return split_reasoning(self.text)[0]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls of the reply; they were not run."""
        return list(self.message.tool_calls)

    @property
    def thinking(self) -> str:
        """The model's reasoning, if it is shown."""
        return "".join(b.text for b in self.message.content if isinstance(b, Thinking))

    @property
    def private_reasoning(self) -> str:
        """The reasoning, also what the model wrote into its text; never part of `visible_text`."""
        inline = split_reasoning(self.text)[1]
        return "\n".join([part for part in (self.thinking, inline) if part])

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The reply's blocks."""
        return self.message.content

    @property
    def input_tokens(self) -> int:
        """Tokens of the prompt."""
        return self.usage.input_tokens

    @property
    def output_tokens(self) -> int:
        """Tokens of the reply."""
        return self.usage.output_tokens

    @property
    def cache_read_tokens(self) -> int:
        """Prompt tokens that came from the provider's cache."""
        return self.usage.cache_read_tokens

    @property
    def cache_write_tokens(self) -> int:
        """Prompt tokens written to the provider's cache."""
        return self.usage.cache_write_tokens

    @property
    def transcript(self) -> dict[str, Any]:
        """The whole conversation, to continue: `llm_call("…", transcript=reply.transcript)`."""
        messages, past = (*self.request, self.message), self.past
        known = past.events
        new = messages[self.continued :] if known else messages
        return {
            "id": past.id,
            "messages": [msgspec.to_builtins(message) for message in messages],
            "events": [
                *known,
                *events_of(new[:-1]),
                *told_by(self.searches),
                *events_of(new[-1:]),
            ],
            "summary": past.summary,
            "metadata": {**past.metadata, "model": self.model, "provider": self.provider},
            "scratchpad": past.scratchpad,
            "scratchpad_version": past.scratchpad_version,
        }

    def __str__(self) -> str:
        return self.text


class Chunk(Record, Generic[Data], frozen=True):
    """A piece of a streamed reply: text, a finished tool call, or the end with its reason."""

    text: str = ""
    tool_call: ToolCall | None = None
    finish_reason: str | None = None
    data: Data | None = (
        None  # with the end: the answer as a value, where a schema or JSON was asked for
    )

    def __str__(self) -> str:
        return self.text


@overload
async def llm_call(
    prompt: Any = None,
    system: str | None = None,
    options: None = None,
    /,
    *,
    schema: None = None,
    response_format: Literal["text"] | None = None,
    **more: Unpack[CallKeywords],
) -> LLMResult[None]: ...


@overload
async def llm_call(
    prompt: Any = None,
    system: str | None = None,
    options: None = None,
    /,
    *,
    schema: type[Data],
    response_format: Literal["json"] | None = None,
    **more: Unpack[CallKeywords],
) -> LLMResult[Data]: ...


@overload
async def llm_call(
    prompt: Any = None,
    system: str | None = None,
    options: Mapping[str, Any] | None = None,
    /,
    *,
    schema: object = None,
    response_format: Literal["text", "json"] | None = None,
    **more: Unpack[CallKeywords],
) -> LLMResult[Any]: ...


async def llm_call(
    prompt: Any = None,
    system: str | None = None,
    options: Mapping[str, Any] | None = None,
    /,
    **more: Any,
) -> LLMResult[Any]:
    """Call a model once and return an `LLMResult`; raise a `ModelError` if that fails.

    ```python
    reply = await w.llm_call("What is 2 + 2?", provider="openai", model="gpt-4o")
    print(reply.text, reply.cost_usd)
    reply = await w.llm_call("Who wrote Emma?", schema={"author": "string", "year": "integer"})
    print(reply.data["author"])
    ```
    Tool calls of the reply are not run. With `schema`, an answer that does not fit is requested
    again `schema_retries` times; then `BadReply` is raised. Wrong options raise `ConfigError`.
    """
    if TYPE_CHECKING:
        take_call_options(**more)
    return await call_until_valid(
        prepare(prompt, system, merge_options(options, more, "llm_call")), silent
    )


@overload
def llm_stream(
    prompt: Any = None,
    system: str | None = None,
    options: None = None,
    /,
    *,
    schema: None = None,
    response_format: Literal["text"] | None = None,
    **more: Unpack[CallKeywords],
) -> AsyncIterator[Chunk[None]]: ...


@overload
def llm_stream(
    prompt: Any = None,
    system: str | None = None,
    options: None = None,
    /,
    *,
    schema: type[Data],
    response_format: Literal["json"] | None = None,
    **more: Unpack[CallKeywords],
) -> AsyncIterator[Chunk[Data]]: ...


@overload
def llm_stream(
    prompt: Any = None,
    system: str | None = None,
    options: Mapping[str, Any] | None = None,
    /,
    *,
    schema: object = None,
    response_format: Literal["text", "json"] | None = None,
    **more: Unpack[CallKeywords],
) -> AsyncIterator[Chunk[Any]]:
    take_call_options(**more)
    raise NotImplementedError


async def llm_stream(
    prompt: Any = None,
    system: str | None = None,
    options: Mapping[str, Any] | None = None,
    /,
    **more: Any,
) -> AsyncIterator[Chunk[Any]]:
    """Call a model once and yield the reply in pieces: `async for chunk in w.llm_stream("…")`.

    Takes the options of `llm_call`. With a schema the last chunk has the value as `data`. A reply
    that breaks off after its first piece raises `StreamBroken`.
    """
    prepared = prepare(prompt, system, merge_options(options, more, "llm_stream"), "llm_stream")
    queue: asyncio.Queue[Chunk[Any] | StreamRestarted | None] = asyncio.Queue()

    def emit(event: LiveEvent) -> None:
        if isinstance(event, TextDelta):
            queue.put_nowait(Chunk(event.text))
        elif isinstance(event, ToolCallReady):
            queue.put_nowait(Chunk(tool_call=event.call))
        elif isinstance(event, StreamRestarted):
            queue.put_nowait(event)

    task = asyncio.ensure_future(call_until_valid(prepared, emit))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        has_text = has_calls = False
        while (chunk := await queue.get()) is not None:
            if isinstance(chunk, StreamRestarted):
                if has_text or has_calls:
                    raise StreamBroken(f"the reply broke off: {chunk.reason}")
                continue
            has_text, has_calls = (
                has_text or bool(chunk.text),
                has_calls or chunk.tool_call is not None,
            )
            yield chunk
        result = task.result()
        if not has_text and result.text:
            yield Chunk(result.text)
        for call in () if has_calls else result.tool_calls:
            yield Chunk(tool_call=call)
        yield Chunk(finish_reason=result.stop_reason, data=result.data)
    finally:
        task.cancel()
        await asyncio.wait({task})


show_options(llm_call, "take_call_options")
show_options(llm_stream, "take_call_options")


async def call_until_valid(prepared: PreparedCall, emit: Emit) -> LLMResult[Any]:
    """Make the call, repeated until its answer fits, and return the result."""
    seconds = None if prepared.budget is None else prepared.budget.seconds
    if seconds is None:
        return await _call_until_valid(prepared, emit)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await _call_until_valid(prepared, emit)
    except TimeoutError:
        if not limit.expired():
            raise
        raise _limit_error("seconds", seconds) from None


def _limit_error(limit: str, allowed: float) -> BudgetExceeded:
    error = BudgetExceeded(f"the call was given up: its limit of {allowed:g} {limit} is reached")
    error.limit = limit
    return error


async def _call_until_valid(prepared: PreparedCall, emit: Emit) -> LLMResult[Any]:
    model, request, wanted = prepared.model, prepared.request, prepared.wanted
    who, started = prepared.who, seams.monotonic()
    ledger = build_call_ledger(model, prepared.budget, who.caller)
    most = None if prepared.budget is None else prepared.budget.iterations
    if most == 0:
        raise _limit_error("iterations", most)
    if wanted is None:
        response = await ask_once(model, request, emit, who, ledger=ledger)
        return _result(prepared, response, response.usage, paid_for(model, response))
    emit = wanted.show(emit)
    usage, cost, attempt = NO_USAGE, 0.0, 1
    while True:
        purpose = "schema_retry" if attempt > 1 else None
        left = _limit_time(request, started) if attempt > 1 else request
        response = await ask_once(model, left, emit, who, purpose, ledger=ledger)
        usage, cost = usage + response.usage, cost + paid_for(model, response)
        reading = wanted.read(response)
        if not reading.problems:
            return _result(prepared, reading.response, usage, cost, reading.data)
        if attempt > wanted.retries:
            raise wanted.to_error(reading, attempt)
        if most is not None and attempt >= most:
            raise _limit_error("iterations", most) from wanted.to_error(reading, attempt)
        request, attempt = wanted.again(request, reading), attempt + 1


def _limit_time(request: Request, started: float) -> Request:
    """Return the request with the time that is left of the call's `timeout`."""
    frame = request.frame
    seconds = frame.settings.timeout
    if seconds is None:
        return request
    left = max(0.0, seconds - (seams.monotonic() - started))
    settings = msgspec.structs.replace(frame.settings, timeout=left)
    return msgspec.structs.replace(request, frame=msgspec.structs.replace(frame, settings=settings))


def paid_for(model: Model, response: Response) -> float:
    """Return the cost of the reply, with its asides."""
    return (cost_of(model, response.usage) or 0.0) + sum(a.cost_usd for a in response.asides)


def _result(
    prepared: PreparedCall, response: Response, usage: Usage, cost: float, data: Any = None
) -> LLMResult[Any]:
    model = prepared.model
    return LLMResult(
        response.message,
        usage,
        response.stop_reason,
        response.model or model.name,
        response.provider or model.provider,
        cost,
        tuple(prepared.request.messages),
        response.native_id,
        response.via,
        data,
        prepared.past,
        prepared.continued,
        tuple(prepared.search.events) if prepared.search is not None else (),
    )

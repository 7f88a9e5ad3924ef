"""The mock provider: a queue of replies in place of a network, and a log of the calls.

The queue belongs to the current Runtime (`current_queue`); outside of one there is one per process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, cast, get_args

import msgspec

from windlass import errors, seams
from windlass.errors import ConfigError, ModelError
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.json_types import JsonObject, is_mapping, is_object, is_sequence
from windlass.messages import Block, Message, Text, Thinking, ToolCall, ToolResult
from windlass.models.base import Emit, Model, Request, Response, StopReason
from windlass.usage import Usage

OUTPUT_TOKENS = 30  # of a reply without usage in its entry
ERRORS: dict[str, type[ModelError]] = {
    kind.category: kind
    for kind in (
        errors.RateLimited,
        errors.Overloaded,
        errors.ServerError,
        errors.Timeout,
        errors.ConnectionFailed,
        errors.AuthFailed,
        errors.BadRequest,
        errors.ContextOverflow,
        errors.QuotaExceeded,
        errors.Refused,
        errors.BadReply,
    )
}
_WORD = re.compile(r"\s*\S+|\s+$")
_OWN_ID = re.compile(r"mock_call_(\d+)\Z")


class MockError(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The `error` of an entry: the failure that a provider would report."""

    category: str = "model_error"
    message: str = "the mock provider was told to fail"
    retry_after: float | None = None
    http_status: int | None = None
    code: str | None = None


class MockEntry(msgspec.Struct, frozen=True):
    """One reply in the queue, checked."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()  # an empty id is filled in when the reply is served
    match: str | None = None
    consume_match: bool = False
    usage: JsonObject = {}
    stop_reason: StopReason | None = None
    error: MockError | None = None
    thinking: str | None = None


class MockCall(Mapping[str, Any]):
    """One call to the mock provider: `call.messages` and `call["messages"]` are the same.

    The other fields are `system` and `tools` (each may be None) and `options`.
    """

    def __init__(self, request: Request, messages: Sequence[Message], model: str) -> None:
        self._parts: JsonObject = {
            "messages": messages,
            "system": request.system,
            "tools": request.tools,
            "options": (model, request.settings),
        }
        self._plain: JsonObject = {}

    @property
    def messages(self) -> list[JsonObject]:
        """The messages as sent, oldest first; plain text is given as `content`."""
        return self["messages"]

    @property
    def system(self) -> str | None:
        """The system prompt."""
        return self["system"]

    @property
    def tools(self) -> list[JsonObject] | None:
        """The tools on offer, each with `name`, `description` and `parameters`."""
        return self["tools"]

    @property
    def options(self) -> JsonObject:
        """`provider`, `model`, and every setting that is not the default."""
        return self["options"]

    def __getitem__(self, key: str) -> Any:
        # Made plain only when someone looks: most calls of a long run are never read.
        if key not in self._plain:
            self._plain[key] = _plain(key, self._parts[key])
        return self._plain[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"<MockCall of {len(self._parts['messages'])} messages>"


class MockQueue:
    """Queued replies, and the calls that they answered."""

    def __init__(self) -> None:
        self.entries: list[MockEntry] = []
        self.calls: list[MockCall] = []
        self._last_id = 0

    def add(self, entry: Mapping[str, Any] | None = None, /, **keys: Any) -> None:
        """Queue a reply; see `llm_mock`."""
        self.entries.append(read_entry(entry, keys))

    def clear(self) -> None:
        """Forget the replies and the calls."""
        self.entries.clear()
        self.calls.clear()
        self._last_id = 0

    def take(self, text: str) -> MockEntry | None:
        """Return the entry that answers this conversation; remove it if it is for one use."""
        for index, entry in enumerate(self.entries):
            if entry.match is None:
                return self.entries.pop(index)
        for index, entry in enumerate(self.entries):
            if entry.match is not None and matches(entry.match, text):
                return self.entries.pop(index) if entry.consume_match else entry
        return None

    def new_call_id(self, messages: Sequence[Message]) -> str:
        """Return the next `mock_call_N` that neither this queue nor the conversation has used.

        A session goes on in another process with an empty queue: its old ids count.
        """
        if self._last_id == 0:
            for message in messages:
                for call in message.tool_calls:
                    if own := _OWN_ID.match(call.id):
                        self._last_id = max(self._last_id, int(own[1]))
        self._last_id += 1
        return f"mock_call_{self._last_id}"

    def __repr__(self) -> str:
        return f"<MockQueue: {len(self.entries)} queued, {len(self.calls)} calls>"


#: The queue of the Runtime that is current; None outside any.
current_queue: ContextVar[MockQueue | None] = ContextVar("windlass_mock_queue", default=None)
_process_queue = MockQueue()


def active_queue() -> MockQueue:
    """Return the current Runtime's queue, or that of the process."""
    return current_queue.get() or _process_queue


def llm_mock(entry: Mapping[str, Any] | None = None, /, **keys: Any) -> None:
    """Queue a reply of the mock provider, as a dict or as keywords.

    ```python
    llm_mock(text="Let me look.", tool_calls=[{"name": "read_file", "arguments": {"path": "a.py"}}])
    llm_mock({"text": "I don't know.", "match": "*unknown*"})
    llm_mock(error={"category": "rate_limit", "message": "slow down"})
    ```
    Entries without `match` are used first, in order, each once. Then entries whose glob matches the
    conversation are used, in order, any number of times, or once with `consume_match=True`. Other
    keys are `usage`, `stop_reason` and `thinking`. If nothing is left, the reply repeats the
    prompt.
    """
    active_queue().add(entry, **keys)


def llm_mock_calls() -> list[MockCall]:
    """Return the calls to the mock provider, oldest first: `llm_mock_calls()[0].messages`."""
    return list(active_queue().calls)


def llm_mock_clear() -> None:
    """Remove all queued replies and recorded calls; call it between tests."""
    active_queue().clear()


class MockModel(Model):
    """A model without a network, answering from the queue: `Agent("mock:mock")`."""

    provider = "mock"
    retry_delay = 0.0  # a test has nothing to wait for

    def __init__(
        self,
        name: str = "mock",
        *,
        queue: MockQueue | None = None,
        price: Callable[[Usage], float] | None = None,
    ) -> None:
        self.name = name
        self._queue, self._price = queue, price

    def price(self, usage: Usage) -> float:
        """Return the price the reply gave, else the one in `[llm.prices]`."""
        if usage.cost_usd is not None or self._price is None:
            return super().price(usage)
        return self._price(usage)

    def unpriced(self) -> Model | None:
        """Return None: the mock provider is free."""
        return None

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the next reply of the queue, or raise its error; echo when the queue is empty."""
        queue = self._queue or active_queue()
        messages = [*request.messages, *request.tail]
        queue.calls.append(MockCall(request, messages, self.name))
        text = conversation_text(messages)
        entry = queue.take(text)
        if entry is None:
            entry = MockEntry(text=_echo(messages))
        if entry.error is not None:
            raise error_from(entry.error, self.provider, self.name)
        message = Message("assistant", _blocks(entry, queue, messages))
        if request.settings.stream:
            for event in deltas(message):
                emit(event)
                await seams.sleep(0)  # so that observers see it now
        return Response(
            message,
            _usage(len(text), entry),
            entry.stop_reason or ("tool_use" if entry.tool_calls else "end_turn"),
            self.name,
        )


def _usage(inputs: int, entry: MockEntry) -> Usage:
    counts: JsonObject = {"input_tokens": inputs, "output_tokens": OUTPUT_TOKENS, **entry.usage}
    return Usage(**counts)


def matches(glob: str, text: str) -> bool:
    """Check whether the whole text matches a glob; `*` stands for any text."""
    first, *rest = glob.split("*")
    if not rest:
        return glob == text
    *middle, last = rest
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    if text[end:] != last:
        return False
    for piece in middle:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def conversation_text(messages: Sequence[Message]) -> str:
    """Join every string of every message, one per line; each message ends with its role."""
    return "\n".join(string for message in messages for string in _strings(message))


def deltas(message: Message) -> Iterator[TextDelta | ThinkingDelta | ToolCallReady]:
    """Yield the live events of a message as if it had been streamed, word by word."""
    for block in message.content:
        if isinstance(block, Text):
            yield from map(TextDelta, _WORD.findall(block.text))
        elif isinstance(block, Thinking):
            yield from map(ThinkingDelta, _WORD.findall(block.text))
        elif isinstance(block, ToolCall):
            yield ToolCallReady(block)


def error_from(told: MockError, provider: str | None, model: str | None) -> ModelError:
    """Build the typed error of a category, or a `ModelError` for an unknown one."""
    error = ERRORS.get(told.category, ModelError)(
        told.message,
        provider=provider,
        model=model,
        http_status=told.http_status,
        retry_after=told.retry_after,
        code=told.code,
    )
    if error.category != told.category:
        vars(error)["category"] = told.category
    return error


# --------------------------------------------------------------------------- reading an entry


def read_entry(entry: object, keys: Mapping[str, Any]) -> MockEntry:
    """Check and build an entry, or raise `ConfigError` with the nearest valid key."""
    if entry is not None and not isinstance(entry, Mapping):
        raise ConfigError(
            f"llm_mock takes a dict or keywords, not {type(entry).__name__}: llm_mock(text=…)"
        )
    given: JsonObject = {**cast("Mapping[str, Any]", entry or {}), **keys}
    _check_keys("llm_mock", given, MockEntry.__struct_fields__)
    given = {key: value for key, value in given.items() if value is not None}
    if "tool_calls" in given:
        given["tool_calls"] = [_read_call(call) for call in _check_list(given["tool_calls"])]
    if "error" in given:
        _check_keys("llm_mock error", given["error"], MockError.__struct_fields__)
    if "usage" in given:
        given["usage"] = _read_usage(given["usage"])
    if (reason := given.get("stop_reason")) is not None and reason not in get_args(StopReason):
        raise ConfigError(
            f"llm_mock stop_reason {reason!r} is none of {', '.join(get_args(StopReason))}"
            + errors.nearest(str(reason), get_args(StopReason))
        )
    try:
        return msgspec.convert(given, MockEntry)
    except msgspec.ValidationError as problem:
        raise ConfigError(f"llm_mock: {problem}") from None


def _read_usage(given: object) -> JsonObject:
    if isinstance(given, Usage):
        return msgspec.structs.asdict(given)
    _check_keys("llm_mock usage", given, Usage.__struct_fields__)
    try:
        msgspec.convert(given, Usage)
    except msgspec.ValidationError as problem:
        raise ConfigError(f"llm_mock usage: {problem}") from None
    return dict(cast("Mapping[str, Any]", given))


def _read_call(given: object) -> ToolCall:
    if isinstance(given, ToolCall):
        return given
    _check_keys("llm_mock tool_calls", given, ("name", "arguments", "id"))
    call: JsonObject = {"id": "", "arguments": {}, **cast("Mapping[str, Any]", given)}
    if "name" not in call:
        raise ConfigError(
            "llm_mock tool_calls: each call needs a name: {'name': …, 'arguments': {…}}"
        )
    try:
        return msgspec.convert({"type": "tool_call", **call}, ToolCall)
    except msgspec.ValidationError as problem:
        raise ConfigError(f"llm_mock tool_calls: {problem}") from None


def _check_list(calls: object) -> Sequence[object]:
    if is_sequence(calls):
        return calls
    raise ConfigError(f"llm_mock tool_calls is a list of calls, not {type(calls).__name__}")


def _check_keys(what: str, given: object, known: Sequence[str]) -> None:
    if not is_mapping(given):
        raise ConfigError(f"{what} is a dict of {', '.join(known)}, not {type(given).__name__}")
    for key in given:
        if key not in known:
            raise ConfigError(f"{what} has no key {key!r}" + errors.nearest(str(key), known))


# --------------------------------------------------------------------------- details


def _blocks(entry: MockEntry, queue: MockQueue, messages: Sequence[Message]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if entry.thinking:
        blocks.append(Thinking(entry.thinking))
    if entry.text:
        blocks.append(Text(entry.text))
    for call in entry.tool_calls:
        # A reply that a pattern serves twice asks twice: its ids must differ.
        if call.id == "":
            call = ToolCall(queue.new_call_id(messages), call.name, dict(call.arguments))
        blocks.append(call)
    return tuple(blocks)


def _echo(messages: Sequence[Message]) -> str:
    texts = [message.text for message in messages if message.role == "user" and message.text]
    return f"Mock reply to: {texts[-1] if texts else ''}"


def _strings(message: Message) -> Iterator[str]:
    for block in message.content:
        if isinstance(block, (Text, Thinking)):
            yield block.text
        elif isinstance(block, ToolResult):
            yield block.text
            yield block.id
        else:
            # Type tags belong to the stored form of a block, not to its content.
            yield from _leaves({**msgspec.to_builtins(block), "type": None})
    yield message.role


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for item in value.values():
            yield from _leaves(item)
    elif is_sequence(value):
        for item in value:
            yield from _leaves(item)


def _plain(key: str, part: Any) -> Any:
    if key == "messages":
        return [_plain_message(message) for message in part]
    if key == "tools":
        return [msgspec.to_builtins(tool) for tool in part] or None
    if key == "options":
        model, settings = part
        return {"provider": "mock", "model": model, **_lists(msgspec.to_builtins(settings))}
    return part


def _plain_message(message: Message) -> JsonObject:
    plain = _lists(msgspec.to_builtins(message))
    if message.content and all(type(block) is Text for block in message.content):
        plain["content"] = message.text
    return plain


def _lists(value: object) -> Any:
    """Convert tuples to lists, as JSON would give them."""
    if is_object(value):
        return {key: _lists(item) for key, item in value.items()}
    if is_sequence(value):
        return [_lists(item) for item in value]
    return value

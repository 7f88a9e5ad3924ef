"""Native tools of models that fail to use them: empty replies, and calls as text.

An empty reply says nothing and is asked for again. Calls in `<tool_call>` blocks that stand by themselves
are read as what they are; each is marked, so that a policy may refuse them, and the reply carries a note of it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, get_args

import msgspec

from windlass.errors import ModelError
from windlass.events import NativeToolFallback
from windlass.messages import Block, Message, Opaque, Text, ToolCall
from windlass.models.base import Aside, Emit, Holding, Model, Request, Response, silent
from windlass.models.estimates import fill_usage
from windlass.models.history import WRITTEN
from windlass.models.meter import EMPTY, UnwatchedEmit, begin_request, set_aside
from windlass.models.wrappers.base import OPEN
from windlass.models.wrappers.retry import Backoff, Retrying
from windlass.usage import Usage

if TYPE_CHECKING:
    from windlass.models.wrappers import text_calls, text_tools

log = logging.getLogger("windlass.models")


_BLOCKS: Final = frozenset(get_args(Block))
RETRIES: Final = 1  # a budget reserves one call at a time: it may be crossed by one, not by two


class Native(Retrying):
    """A model that repeats empty replies and parses calls that were written as text.

    Made of a `Retrying`, it retries in its place: each turn passes one wrapper, not two. Without
    `attempts` it retries nothing.
    """

    attempts: int = 1
    base_delay: float = 2.0
    max_delay: float = 60.0
    backoff: Backoff = "exponential"
    on: Collection[str] | None = None

    def __init__(
        self, model: Model, attempts: int | None = None, base_delay: float | None = None
    ) -> None:
        if type(model) is Retrying:
            vars(self).update(vars(model))
            return
        Holding.__init__(self, model)
        if attempts is not None:
            self.retries_calls, self.attempts = True, attempts
            self.base_delay = self.retry_delay if base_delay is None else base_delay

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the first reply that is not empty, with its calls parsed."""
        if emit is silent or type(emit) is UnwatchedEmit:
            try:
                response = await self.model.respond(request, emit)
            except ModelError as error:
                failed = error.attempts
                await self._pause(error, 1, failed, emit)
            else:
                if _is_plain(response) or _is_left(response):
                    return response
                return await self._repair(request, emit, response, None)
            response = await self._retry(request, emit, failed)
            if _is_left(response):
                return response
            return await self._repair(request, emit, response, None)
        if not request.frame.tools:
            response = await super().respond(request, emit)
            if _is_left(response) or not _empty(response):
                return response
            return await self._replace_empty(request, emit, response)
        shown = _text_tools().WithoutCalls(emit)
        response = await super().respond(request, shown.feed)
        if _is_left(response):
            shown.flush()
            return response
        return await self._repair(request, shown.feed, response, shown)

    async def _repair(
        self,
        request: Request,
        feed: Emit,
        response: Response,
        shown: text_tools.WithoutCalls | None,
    ) -> Response:
        """Ask again for an empty reply, and parse the calls of one that holds them as text."""
        if _empty(response):
            if shown is not None:
                shown.flush()
            response = await self._replace_empty(request, feed, response)
            if _is_left(response):
                return response
        if not request.frame.tools:
            return response
        message = response.message
        text = message.text
        written = OPEN in text and not message.tool_calls
        calls = await _find_calls(text) if written else ()
        if shown is not None:
            await shown.finish(text, calls)
        if not calls:
            return response
        log.info(
            "%s:%s: reading %d tool calls written as text", self.provider, self.name, len(calls)
        )
        return await _read(response, calls)

    async def _replace_empty(self, request: Request, emit: Emit, empty: Response) -> Response:
        """Call the model again; the replies before are booked as asides."""
        asides: tuple[Aside, ...] = ()
        log.info("%s:%s: an empty reply; asking again", self.provider, self.name)
        for _ in range(RETRIES):
            empty = fill_usage(self.model, request, empty)
            aside = Aside(EMPTY, empty, self.model.price(empty.usage))
            asides += (*empty.asides, aside)
            set_aside(aside)
            request = await begin_request(self.model, request)
            empty = await super().respond(request, emit)
            if not _is_sound(empty):
                return empty  # no reply; what was set aside is on the books
            if not _empty(empty):
                break
        return msgspec.structs.replace(empty, asides=(*asides, *empty.asides))


def _is_plain(response: Response) -> bool:
    """Tell quickly whether a reply ends in a call, or is one text in which none is written."""
    try:
        content = response.message.content
        last = content[-1]
        if type(last) is ToolCall:
            return True
        return (
            type(last) is Text and len(content) == 1 and last.text != "" and OPEN not in last.text
        )
    except Exception:
        return False  # it says nothing, or is no reply


def _is_left(response: Response) -> bool:
    """Tell whether a reply is left as it is: it ends in a call, or is none and refused by the caller."""
    try:
        if type(response.message.content[-1]) is ToolCall:
            return True  # the usual turn, checked cheaply
    except Exception:
        pass  # it says nothing, or is no reply
    return not _is_sound(response)


def _is_sound(response: object) -> bool:
    """Tell whether a model made its reply of the types that a reply has."""
    if type(response) is not Response or type(response.message) is not Message:
        return False
    usage, content = response.usage, response.message.content
    if type(usage) is not Usage or type(content) is not tuple:
        return False
    counts = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    )
    return (
        type(response.stop_reason) is str
        and type(response.asides) is tuple
        and all([type(count) is int for count in counts])
        and all([type(block) in _BLOCKS for block in content])
        and all([type(block.text) is str for block in content if type(block) is Text])
    )


def _empty(response: Response) -> bool:
    """Check whether a reply holds neither text, thinking nor calls, and no reason for it."""
    if response.stop_reason not in ("end_turn", "unknown"):
        return False  # it was cut off, or refused: asking again would not help
    return all(type(block) is Text and not block.text for block in response.message.content)


@cache
def _text_tools() -> ModuleType:
    """Load what reads calls out of text, with its patterns: most runs do without."""
    return import_module("windlass.models.wrappers.text_tools")


async def _find_calls(text: str) -> Sequence[text_calls.CallBlock]:
    return await import_module("windlass.models.wrappers.text_calls").find_calls_in_slices(text)


async def _read(response: Response, calls: Sequence[text_calls.CallBlock]) -> Response:
    said = response.message.content
    text_index = next(place for place, block in enumerate(said) if type(block) is Text)
    # native blocks behind the text referred to text that is now parsed as calls
    kept = (
        *said[:text_index],
        *(block for block in said[text_index:] if type(block) is not Opaque),
    )
    held = msgspec.structs.replace(response, message=Message("assistant", kept))
    read: Response = await _text_tools().read_reply(held, calls)
    content = tuple(
        msgspec.structs.replace(block, opaque=WRITTEN) if type(block) is ToolCall else block
        for block in read.message.content
    )
    message = Message("assistant", content)
    note = NativeToolFallback(len(message.tool_calls))
    return msgspec.structs.replace(read, message=message, notes=(*read.notes, note))

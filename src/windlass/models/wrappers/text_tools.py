"""Tools for models that have none: calls and results are written as text.

A call is `<tool_call>{"name": "…", "arguments": {…}}</tool_call>`, several to a reply, prose before and
after them allowed; which blocks are calls and which are quoted is in `text_calls.py`. The results of a
batch return as one user message of `<tool_result>` blocks. A block that cannot be read becomes a call
without a name, which the loop answers with what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

import msgspec

from windlass import seams
from windlass.events import LiveEvent, StreamRestarted, TextDelta, ToolCallReady
from windlass.messages import Block, Image, Message, Text, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Emit, Frame, Model, Request, Response, derive
from windlass.models.wrappers.base import OPEN
from windlass.models.wrappers.text_calls import (
    CLOSE,
    CallBlock,
    LineState,
    find_calls_in_slices,
    read_body,
)
from windlass.slices import SHORT, STEPS, Slices, run_at_once, run_in_slices
from windlass.usage import Usage

_WHOLE_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r(?!\Z)|\n)")
_NEAR = 3 + len(OPEN)  # characters of a line that show whether a block begins it

CONTRACT = """# Tools

To use a tool, write a block like this on a line of its own, one for each call:
<tool_call>{"name": "tool_name", "arguments": {"key": "value"}}</tool_call>
Then stop: the results come back in <tool_result> blocks. These are the tools, with the JSON Schema of
their arguments:
{tools}"""


class TextTools(Model):
    """A model without native tools that is taught to write calls as text."""

    native_tools = True  # to the loop its replies look like everyone else's

    def __init__(self, inner: Model) -> None:
        self.inner = inner
        self.provider, self.name = inner.provider, inner.name
        self.context_window = inner.context_window

    @property
    def address(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the held model."""
        return self.inner.address

    @property
    def secrets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The held model's keys."""
        return self.inner.secrets

    async def respond(self, request: Request, emit: Emit) -> Response:
        if not request.frame.tools:  # no tools are offered: the reply is text
            return await self.inner.respond(as_text(request), emit)
        written = WithoutCalls(emit)
        response = await self.inner.respond(as_text(request), written.feed)
        calls = await find_calls_in_slices(response.message.text)
        await written.finish(response.message.text, calls)
        return await read_reply(response, calls)

    def check(self) -> None:
        self.inner.check()

    def price(self, usage: Usage) -> float:
        return self.inner.price(usage)

    def unpriced(self) -> Model | None:
        return self.inner.unpriced()

    @property
    def reports_parts(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.reports_parts

    async def aclose(self) -> None:
        await self.inner.aclose()


def as_text(request: Request) -> Request:
    """Convert the request for a model that knows only text."""
    frame = request.frame
    system = frame.system
    # Else it is in the prompt already.
    if frame.tools and describe_tools(frame.tools) not in (system or ""):
        system = (system or "") + contract(frame.tools)
    settings = msgspec.structs.replace(frame.settings, tool_choice=None, parallel_tool_calls=None)
    return Request(
        derive(request.messages, "text_tools", write),
        Frame(system, (), settings),
        tuple(write(message) for message in request.tail),
    )


def contract(tools: tuple[ToolSpec, ...]) -> str:
    """Build the instructions for calls as text, with the list of tools."""
    return "\n\n" + CONTRACT.replace("{tools}", describe_tools(tools))


def describe_tools(tools: tuple[ToolSpec, ...]) -> str:
    """Describe the tools, one JSON line each."""
    return "\n".join([msgspec.json.encode(_bare(tool)).decode() for tool in tools])


def _bare(tool: ToolSpec) -> ToolSpec:
    """Strip the fields of a tool that only providers use."""
    if not (tool.strict or tool.defer_loading or tool.namespace):
        return tool
    return ToolSpec(tool.name, tool.description, tool.parameters)


def write(message: Message) -> Message:
    """Convert a message's calls and results to text."""
    if message.role == "tool":
        return Message("user", _results(message))
    if message.role != "assistant" or not message.tool_calls:
        return message
    blocks: list[Block] = []
    for block in message.content:
        blocks.append(Text(_call_text(block)) if isinstance(block, ToolCall) else block)
    text = "\n".join(block.text for block in blocks if isinstance(block, Text) and block.text)
    return Message("assistant", (Text(text),))


def _call_text(call: ToolCall) -> str:
    if call.raw is not None:
        return f"{OPEN}{call.raw}{CLOSE}"
    body = msgspec.json.encode({"name": call.name, "arguments": call.arguments}).decode()
    return f"{OPEN}{body}{CLOSE}"


def _results(message: Message) -> tuple[Block, ...]:
    texts: list[str] = []
    pictures: list[Block] = []
    for result in message.content:
        if not isinstance(result, ToolResult):
            continue
        failed = ' error="true"' if result.is_error else ""
        name, call_id = escape(result.name), escape(result.id)
        body = result.text.replace("</tool_result>", "<\\/tool_result>")
        texts.append(f'<tool_result name="{name}" id="{call_id}"{failed}>{body}</tool_result>')
        if not isinstance(result.content, str):
            pictures += [block for block in result.content if isinstance(block, Image)]
    return (Text("\n".join(texts)), *pictures)


async def read_reply(response: Response, calls: Sequence[CallBlock]) -> Response:
    """Parse the written calls of a reply."""
    if not calls:
        return response
    work = _read_calls(response, calls)
    return run_at_once(work) if len(calls) < STEPS else await run_in_slices(work)


def _read_calls(response: Response, calls: Sequence[CallBlock]) -> Slices[Response]:
    text = response.message.text
    blocks: list[Block] = [
        block for block in response.message.content if not isinstance(block, Text)
    ]
    place = 0
    for steps, call in enumerate(calls, 1):
        if steps % STEPS == 0:
            yield
        if prose := text[place : call.start].strip():
            blocks.append(Text(prose))
        blocks.append(read_call(call.body))
        place = call.end
    if rest := text[place:].strip():
        blocks.append(Text(rest))
    message = Message("assistant", tuple(blocks))
    return msgspec.structs.replace(response, message=message, stop_reason="tool_use")


def read_call(body: str) -> ToolCall:
    """Parse one written call; invalid JSON is kept in `raw`."""
    call_id = seams.new_id("call")
    written = read_body(body)
    if written is None:
        return ToolCall(call_id, "", {}, body)
    return ToolCall(call_id, written.name, written.arguments)


class WithoutCalls:
    """A filter that passes streamed text on, but for calls.

    Whether a block is a call is known when all is said: from the first line on that begins like one, outside
    of what quotes it, text is held back until `flush`. So is a delta that is not short: it is not streamed.
    """

    __slots__ = ("begun", "emit", "held", "parts", "shown", "state", "streamed")

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self._reset()

    def _reset(self) -> None:
        self.state = LineState()
        self.streamed: list[str] = []  # all of it
        self.parts: list[str] = []  # of a line whose end was not seen
        self.shown = 0  # characters of that line that were passed on
        self.begun = False  # the line has begun, with no block
        self.held: list[str] | None = None  # since a block may have begun

    def feed(self, event: LiveEvent) -> None:
        """Emit the part of an event that may be shown."""
        if type(event) is TextDelta and type(event.text) is str:
            self._take(event.text)
            return
        if isinstance(event, StreamRestarted):
            self._reset()  # what was streamed is void, also half a tag
        elif isinstance(event, ToolCallReady):
            self.flush()  # beside calls of the provider's kind a written one is prose
        self.emit(event)

    def _take(self, text: str) -> None:
        self.streamed.append(text)
        if self.held is not None:
            self.held.append(text)
        elif len(text) > SHORT:
            self.held = ["".join([*self.parts, text])[self.shown :]]
        elif self.begun and "\n" not in text and "\r" not in text:
            self.parts.append(text)
            self.shown += len(text)
            self._show(text)
        else:
            self._take_lines("".join([*self.parts, text]))

    def _take_lines(self, text: str) -> None:
        at = 0
        while True:
            at = self.state.skip_lines(text, at)
            # from place to place: a search would try again at every character of the last line
            line = _WHOLE_LINE.match(text, at)
            if line is None or self._begins_block(line[0]):
                break
            self.state.read_line(line[0])
            at = line.end()
        rest = text[at:]
        self.parts = [rest]
        held, may_begin = self._begins_block(rest), self._may_begin_block(rest)
        end = at if held or may_begin else len(text)
        self._show(text[self.shown : end])
        self.shown = max(self.shown, end) - at
        if held:
            self.held = [rest[self.shown :]]
            return
        self.begun = not may_begin and not rest.endswith("\r")

    def _begins_block(self, line: str) -> bool:
        if OPEN not in line[:_NEAR]:
            return False
        indent = len(line) - len(line.lstrip(" "))
        return indent <= 3 and line.startswith(OPEN, indent) and self.state.is_open

    def _may_begin_block(self, line: str) -> bool:
        if len(line) >= _NEAR:
            return False
        indent = len(line) - len(line.lstrip(" "))
        return indent <= 3 and OPEN.startswith(line[indent:]) and self.state.is_open

    async def finish(self, text: str, calls: Sequence[CallBlock]) -> None:
        """Emit what was held back of a reply, but for its calls."""
        if calls and (streamed := "".join(self.streamed)) != text:
            # the reply was changed after it was streamed
            calls = await find_calls_in_slices(streamed)
        self.flush(calls)

    def flush(self, calls: Sequence[CallBlock] = ()) -> None:
        """Emit what was held back, but for the calls in the streamed text."""
        streamed = "".join(self.streamed)
        rest = "".join(self.parts)[self.shown :] if self.held is None else "".join(self.held)
        self._reset()
        at = len(streamed) - len(rest)
        for call in calls:
            self._show(streamed[at : max(at, call.start)])
            at = max(at, call.end)
        self._show(streamed[at:])

    def _show(self, text: str) -> None:
        if text:
            self.emit(TextDelta(text))

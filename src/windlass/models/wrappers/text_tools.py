"""Tools for models that have none: calls and results are written as text.

A call is `<tool_call>{"name": "…", "arguments": {…}}</tool_call>`, several to a reply, prose around
them allowed. The results of a batch return as one user message of `<tool_result>` blocks. A block
that cannot be read becomes a call without a name, which the loop answers with what is wrong.
"""

from __future__ import annotations

import re
from html import escape

import msgspec

from windlass import seams
from windlass.events import LiveEvent, StreamRestarted, TextDelta
from windlass.messages import Block, Image, Message, Text, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Emit, Frame, Model, Request, Response
from windlass.models.view import derive
from windlass.usage import Usage

OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)

CONTRACT = """# Tools

To use a tool, write a block like this, one for each call:
<tool_call>{"name": "tool_name", "arguments": {"key": "value"}}</tool_call>
Then stop: the results come back in <tool_result> blocks. These are the tools, with the JSON Schema of
their arguments:
{tools}"""


class TextTools(Model):
    """A model without native tools, taught to use them in writing."""

    native_tools = True  # to the loop its replies look like everyone else's

    def __init__(self, inner: Model) -> None:
        self.inner = inner
        self.provider, self.name = inner.provider, inner.name
        self.context_window = inner.context_window

    @property
    def secrets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The held model's keys."""
        return self.inner.secrets

    async def respond(self, request: Request, emit: Emit) -> Response:
        written = WithoutCalls(emit)
        response = await self.inner.respond(as_text(request), written.feed)
        written.flush()
        return read_reply(response)

    def check(self) -> None:
        self.inner.check()

    def price(self, usage: Usage) -> float:
        return self.inner.price(usage)

    async def aclose(self) -> None:
        await self.inner.aclose()


def as_text(request: Request) -> Request:
    """The request for a model that knows only text."""
    frame = request.frame
    system = frame.system
    if frame.tools and described(frame.tools) not in (system or ""):  # else somebody has said it
        system = (system or "") + contract(frame.tools)
    settings = msgspec.structs.replace(frame.settings, tool_choice=None, parallel_tool_calls=None)
    return Request(
        derive(request.messages, "text_tools", write),
        Frame(system, (), settings),
        tuple(write(message) for message in request.tail),
    )


def contract(tools: tuple[ToolSpec, ...]) -> str:
    """How to call tools in writing, and which there are."""
    return "\n\n" + CONTRACT.replace("{tools}", described(tools))


def described(tools: tuple[ToolSpec, ...]) -> str:
    """The tools in writing, one to a line."""
    return "\n".join([msgspec.json.encode(_bare(tool)).decode() for tool in tools])


def _bare(tool: ToolSpec) -> ToolSpec:
    """What a model has use for: the rest is between providers and us."""
    if not (tool.strict or tool.defer_loading or tool.namespace):
        return tool
    return ToolSpec(tool.name, tool.description, tool.parameters)


def write(message: Message) -> Message:
    """A message with its calls and results written out."""
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
        return f"{OPEN}{call.raw}{_CLOSE}"
    body = msgspec.json.encode({"name": call.name, "arguments": call.arguments}).decode()
    return f"{OPEN}{body}{_CLOSE}"


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


def read_reply(response: Response) -> Response:
    """The reply with its written calls as calls."""
    text = response.message.text
    if OPEN not in text:
        return response
    others = [block for block in response.message.content if not isinstance(block, Text)]
    blocks: list[Block] = [*others]
    place = 0
    for match in _CALL.finditer(text):
        if prose := text[place : match.start()].strip():
            blocks.append(Text(prose))
        blocks.append(read_call(match[1]))
        place = match.end()
    if rest := text[place:].strip():
        blocks.append(Text(rest))
    message = Message("assistant", tuple(blocks))
    return msgspec.structs.replace(response, message=message, stop_reason="tool_use")


def read_call(body: str) -> ToolCall:
    """One written call; what cannot be read keeps its words in `raw`."""
    call_id = seams.new_id("call")
    try:
        written = msgspec.json.decode(body.strip(), type=_Written)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return ToolCall(call_id, "", {}, body)
    return ToolCall(call_id, written.name, written.arguments)


class _Written(msgspec.Struct):
    name: str
    arguments: dict[str, object] = {}


class WithoutCalls:
    """Passes text on as it streams, but for what is inside a call."""

    def __init__(self, emit: Emit) -> None:
        self.emit, self.held, self.inside = emit, "", False

    def feed(self, event: LiveEvent) -> None:
        """Show what of it may be shown."""
        if not isinstance(event, TextDelta):
            if isinstance(event, StreamRestarted):
                self.held, self.inside = "", False  # what was streamed is void, also half a tag
            self.emit(event)
            return
        self.held += event.text
        while True:
            tag = _CLOSE if self.inside else OPEN
            place = self.held.find(tag)
            if place < 0:
                break
            if not self.inside:
                self._show(self.held[:place])
            self.held = self.held[place + len(tag) :]
            self.inside = not self.inside
        if not self.inside:
            keep = _could_begin(self.held, OPEN)
            self._show(self.held[: len(self.held) - keep])
            self.held = self.held[len(self.held) - keep :]

    def flush(self) -> None:
        """Show what was held back and was no beginning of a call."""
        if not self.inside:
            self._show(self.held)
        self.held = ""

    def _show(self, text: str) -> None:
        if text:
            self.emit(TextDelta(text))


def _could_begin(text: str, tag: str) -> int:
    """How many last characters could be the beginning of the tag."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-size:]):
            return size
    return 0

"""Amazon Bedrock's Converse wire: one shape for every vendor's models, plain or as binary frames.

Two messages of one side are one turn here, so a message's bytes depend on the message before it.
A request carries a bearer key, or it is signed (`sigv4.py`, an extra).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Unpack, cast
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from windlass.errors import ConfigError
from windlass.messages import (
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from windlass.models.base import Emit, Frame, Request, Settings
from windlass.models.endpoints import ENDPOINTS
from windlass.models.view import chained
from windlass.models.wires.bedrock_reply import ConverseDecoder
from windlass.models.wires.claude_thinking import OFF, claude_thinking
from windlass.models.wires.common import Access, HttpModel
from windlass.models.wires.parts import given, inline, schema, wanted_tool
from windlass.models.wires.sigv4 import Signer
from windlass.models.wires.values import as_dict, dumps, safe_name

_LIMIT: Final = (
    16_384  # tokens of a reply, only to choose a budget for thinking where none is given
)
_NO_TOOLS: Final[dict[str, Any]] = {
    "tools": [
        {
            "toolSpec": {
                "name": "no_tool",
                "description": "There is no tool to call now: answer in words.",
                "inputSchema": {"json": {"type": "object", "properties": {}}},
            }
        }
    ]
}


class BedrockConverse(HttpModel):
    """A model on Bedrock: `w.models.bedrock("us.anthropic.claude-sonnet-4-5-20250929-v1:0")`.

    `api_key` is a Bedrock key; without one the request is signed with AWS credentials, those of
    `profile` or the usual ones (`pip install windlass[bedrock]`). Behind a `base_url` of your own
    nothing is signed unless `sign=True`.
    """

    wire = home = "bedrock"

    def __init__(
        self,
        name: str,
        *,
        region: str | None = None,
        profile: str | None = None,
        sign: bool | None = None,
        **access: Unpack[Access],
    ) -> None:
        known = access.get("endpoint") or ENDPOINTS["bedrock"]
        variables = known.also_env.get("region", ())
        self.region = region or next(filter(None, map(os.environ.get, variables)), None)
        super().__init__(name, **access)
        if sign is None:
            sign = not self._own_url or profile is not None or ".amazonaws.com" in self.base_url
        self._signer = Signer("bedrock", profile) if sign else None
        self._bare: tuple[Frame, bytes] | None = None

    def check(self) -> None:
        """Raise `ConfigError` when there is no region, or neither a key nor a way to sign."""
        if self.region is None and not self._own_url:
            raise ConfigError("bedrock needs a region: set AWS_REGION or pass region=")
        if self._signs():
            assert self._signer is not None
            self._signer.check(f"or {self.endpoint.key_hint}")

    def _signs(self) -> bool:
        if self._signer is None or self._api_key() is not None:
            return False
        return "authorization" not in self.headers

    def _url(self, base: str) -> str:
        parts = urlsplit(base.replace("{region}", self.region or "us-east-1"))
        # an ARN holds slashes; a colon stays, so that what is signed is what is sent
        path = f"{parts.path.rstrip('/')}/model/{quote(self.name, safe=':')}/converse"
        return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))

    def _auth(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    async def _addressed(
        self, settings: Settings, body: Sequence[bytes], at: str | None = None
    ) -> tuple[str, dict[str, str]]:
        url, headers = await super()._addressed(settings, body, at)
        if settings.stream and at is None:
            path, mark, query = url.partition("?")
            url = f"{path}-stream{mark}{query}"
        if self._signs() and self._signer is not None:
            signed = await self._signer.headers(url, self.region or "us-east-1", body)
            headers = {**headers, **signed}
        return url, headers

    def decoder(self, request: Request, emit: Emit) -> ConverseDecoder:
        """The decoder of one reply: `feed` it bytes, then `finish`."""
        names = self.framed(request.frame).names
        return ConverseDecoder(self._source(), self._origin, names, emit)

    # ----------------------------------------------------------------------- the request

    def encode(self, request: Request) -> list[bytes]:
        """The request's body in pieces: `b"".join(model.encode(request))` is JSON."""
        messages, frame = request.messages, request.frame
        skip = self._hoisted(messages)
        if skip:
            said = [frame.system or "", *(message.text for message in messages[:skip])]
            frame = msgspec.structs.replace(frame, system="\n\n".join(filter(None, said)))
        if _offers(frame) or not any(map(_uses_tools, messages)):
            head = self._head(frame) if skip else self.framed(frame).head
        else:
            head = self._head_without_tools(frame)
        turns = chained(
            messages,
            f"{self._cached}/{skip}",
            lambda among, at: self._turn(among, at, skip) if at >= skip else b"",
        )
        if request.tail:
            among = [*messages, *request.tail]
            turns += [self._turn(among, at, skip) for at in range(len(messages), len(among))]
        return [head, *turns, b"]}]}" if any(turns) else b"]}"]

    def _turn(self, among: Sequence[Message], at: int, skip: int) -> bytes:
        """What opens a turn or goes on with it; it is closed when the other side speaks."""
        blocks = self._message(among[at])
        if not blocks:
            return b""
        side = _side(among[at])
        for place in range(at - 1, skip - 1, -1):
            if next(self._blocks(among[place]), None) is not None:
                if _side(among[place]) == side:
                    return b"," + blocks
                return b']},{"role":"%s","content":[%s' % (side, blocks)
        return b'{"role":"%s","content":[%s' % (side, blocks)

    def _head_without_tools(self, frame: Frame) -> bytes:
        """The head for a history with calls in it where no tool is on offer: that is refused."""
        if self._bare is None or self._bare[0] != frame:
            self._bare = frame, self._head(frame, _NO_TOOLS)
        return self._bare[1]

    def _head(self, frame: Frame, tools: dict[str, Any] | None = None) -> bytes:
        settings = frame.settings
        thinking, more = self._thinking(settings)
        limits: dict[str, Any] = {}
        given(limits, maxTokens=settings.max_tokens, stopSequences=settings.stop)
        if self.info is None or self.info.sampling:
            given(limits, topP=settings.top_p)
            if not thinking:  # a thinking model sets its own temperature
                given(limits, temperature=settings.temperature)
        body: dict[str, Any] = {}
        if frame.system and frame.system.strip():
            body["system"] = [{"text": frame.system}]
        if limits:
            body["inferenceConfig"] = limits
        if tools := tools or _tool_config(frame, thinking):
            body["toolConfig"] = tools
        body.update(more)
        body = _merged(body, settings.extra or {})
        body.pop("messages", None)
        return (dumps(body)[:-1] + b"," if body else b"{") + b'"messages":['

    def _thinking(self, settings: Settings) -> tuple[bool, dict[str, Any]]:
        """Whether the model is asked to think, and where in the body it is asked."""
        asked = settings.thinking
        if asked is None or (self.info is None and "type" not in as_dict(asked)):
            return False, {}
        if self.info is not None and self.info.thinking == "level":
            off = asked is False or as_dict(asked).get("mode") == "disabled"
            config: dict[str, Any] = {"type": "disabled"} if off else {"type": "enabled"}
            if not off:
                levels = self.info.thinking_levels
                effort = as_dict(asked).get("effort")
                config["maxReasoningEffort"] = effort if effort in levels else "medium"
            return not off, {"additionalModelRequestFields": {"reasoningConfig": config}}
        thinking, effort = claude_thinking(self.info, settings, _LIMIT)
        body: dict[str, Any] = {}
        if thinking is not None:
            body["additionalModelRequestFields"] = {"thinking": thinking}
        if effort is not None:
            body["outputConfig"] = {"effort": effort}
        return thinking is not None and thinking != OFF, body

    # ----------------------------------------------------------------------- messages

    def _hoisted(self, messages: Sequence[Message]) -> int:
        count = 0
        while count < len(messages) and messages[count].role == "system":
            count += 1
        return count

    def _message(self, message: Message) -> bytes:
        """The blocks of a message, without the turn they belong to."""
        blocks = list(self._blocks(message))
        if len(blocks) > 1 and message.role != "assistant":
            # results come first: anything before them hides them from the calls they answer
            blocks.sort(key=lambda block: "toolResult" not in block)
        if any("document" in block for block in blocks) and not any("text" in b for b in blocks):
            blocks.append({"text": "(see the document)"})  # a document alone is refused
        return b",".join([dumps(block) for block in blocks])

    def _blocks(self, message: Message) -> Iterator[dict[str, Any]]:
        for block in message.content:
            match block:
                case Text(text):
                    if text and not text.isspace():  # a blank one is refused
                        yield {"text": text}
                case ToolCall():
                    yield self._call(block)
                case ToolResult():
                    yield _result(block)
                case Thinking():
                    yield from self._thought(block)
                case Opaque(origin, data):
                    if origin == self._origin and (native := as_dict(data)):
                        yield native
                case Image() | Document():
                    yield _file(block)

    def _call(self, call: ToolCall) -> dict[str, Any]:
        use: dict[str, Any] = {
            "toolUseId": _id(call.id),
            "name": safe_name(call.name),
            "input": call.arguments,
        }
        if call.origin == self._origin:
            use.update(as_dict(call.opaque))
        return {"toolUse": use}

    def _thought(self, block: Thinking) -> Iterator[dict[str, Any]]:
        if block.origin != self._origin:
            return
        opaque = as_dict(block.opaque)
        if "redactedContent" in opaque:
            yield {"reasoningContent": opaque}
        elif "signature" in opaque:  # models that do not sign their thoughts do not take them back
            yield {"reasoningContent": {"reasoningText": {"text": block.text, **opaque}}}


_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}\Z")


def _id(id: str) -> str:
    """The call's id as the wire takes it; the same for a call and its result."""
    return id if _ID.match(id) else safe_name(id)


def _side(message: Message) -> bytes:
    return b"assistant" if message.role == "assistant" else b"user"


def _uses_tools(message: Message) -> bool:
    return message.role == "tool" or any(
        type(block) is ToolCall or type(block) is ToolResult for block in message.content
    )


def _offers(frame: Frame) -> bool:
    """Whether the request defines tools."""
    if "toolConfig" in (frame.settings.extra or {}):
        return True
    return bool(frame.tools) and frame.settings.tool_choice != "none"


def _tool_config(frame: Frame, thinking: bool) -> dict[str, Any] | None:
    choice, name = wanted_tool(frame.settings, frame)
    if not frame.tools or choice == "none":  # there is no word for "none": nothing is offered
        return None
    specs: list[dict[str, Any]] = []
    for tool in frame.tools:
        spec: dict[str, Any] = {"name": safe_name(tool.name)}
        if tool.description:
            spec["description"] = tool.description
        spec["inputSchema"] = {"json": schema(tool.parameters)}
        specs.append({"toolSpec": spec})
    config: dict[str, Any] = {"tools": specs}
    if choice == "auto" or (choice is not None and thinking):  # a thinking model is not forced
        config["toolChoice"] = {"auto": {}}
    elif choice == "required":
        config["toolChoice"] = {"any": {}}
    elif choice == "tool":
        config["toolChoice"] = {"tool": {"name": safe_name(name)}}
    return config


def _merged(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The body with more in it: objects are merged, and lists (system tools, say) go on."""
    out = dict(body)
    for key, value in extra.items():
        before = out.get(key)
        if isinstance(before, dict) and isinstance(value, Mapping):
            value = _merged(cast("dict[str, Any]", before), cast("Mapping[str, Any]", value))
        elif isinstance(before, list) and isinstance(value, (list, tuple)):
            value = [*cast("list[Any]", before), *cast("Sequence[Any]", value)]
        out[key] = value
    return out


def _result(result: ToolResult) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if isinstance(result.content, str) or result.is_error:  # pictures in an error are refused
        if result.text and not result.text.isspace():
            parts.append({"text": result.text})
    else:
        for part in result.content:
            if not isinstance(part, Text):
                parts.append(_file(part))
            elif part.text and not part.text.isspace():
                parts.append({"text": part.text})
    block: dict[str, Any] = {
        "toolUseId": _id(result.id),
        "content": parts or [{"text": "(no output)"}],
    }
    if result.is_error:  # said only where it matters: some vendors do not know the word
        block["status"] = "error"
    return {"toolResult": block}


_IMAGES: Final = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_DOCUMENTS: Final = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/markdown": "md",
}


def _file(file: Image | Document) -> dict[str, Any]:
    """A picture or a document as the wire takes it, or words about it where it does not."""
    source: dict[str, Any] | None = None
    if isinstance(file, Image):
        media_type, data = inline(file) or (file.media_type, None)
        form = media_type.partition("/")[2] if media_type in _IMAGES else None
    else:
        data, text = file.data, file.media_type.startswith("text/")
        form = _DOCUMENTS.get(file.media_type, "txt" if text else None)
    if file.url is not None and file.url.startswith("s3://"):
        source = {"s3Location": {"uri": file.url}}
    elif data is not None:
        source = {"bytes": data}
    if source is None or form is None:
        return {"text": _words(file)}
    if isinstance(file, Image):
        return {"image": {"format": form, "source": source}}
    return {"document": {"format": form, "name": _name(file), "source": source}}


def _words(file: Image | Document) -> str:
    kind = "Image" if isinstance(file, Image) else file.title or "Document"
    where = file.url if file.url is not None and not file.url.startswith("data:") else None
    return f"{kind}: {where or f'({file.media_type}, which cannot be shown here)'}"


def _name(document: Document) -> str:
    """A name of allowed characters that no other document of the conversation has."""
    mark = sha256((document.data or document.url or "").encode()).hexdigest()[:8]
    title = re.sub(r"[^a-zA-Z0-9()\[\]-]+", " ", document.title or "").strip()[:150]
    return f"{title or 'document'} {mark}"

"""Amazon Bedrock's Converse wire: one shape for every vendor's models, plain or as binary frames.

Two messages of one side are one turn here, so a message's bytes depend on the message before it.
A request carries a bearer key, or it is signed (`sigv4.py`, an extra).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Final, Unpack
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from windlass.errors import BadReply, BadRequest, ConfigError
from windlass.json_types import JsonObject, is_list, is_mapping, is_object, is_sequence
from windlass.messages import Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from windlass.models.base import Emit, Frame, Request, Settings, encode_in_context
from windlass.models.registry.scope import ENDPOINTS, environ
from windlass.models.wires.base import Access, HttpModel
from windlass.models.wires.bedrock.reply import ConverseDecoder
from windlass.models.wires.bedrock.sigv4 import Signer
from windlass.models.wires.claude import (
    Thinks,
    claude_betas,
    claude_thinking,
    close_objects,
    is_forced,
    nearest_level,
    open_object,
    opener,
)
from windlass.models.wires.json_values import (
    as_dict,
    dumps,
    inline,
    loads,
    safe_name,
    schema,
    set_given,
    wanted_tool,
)

# Parts of a Converse request: calls' ids, results, pictures and documents.


_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}\Z")


def wire_id(id: str) -> str:
    """Convert a call's id to the allowed characters; the same for a call and its result."""
    return id if _ID.match(id) else safe_name(id)


def result_blocks(result: ToolResult, media: bool) -> Iterator[JsonObject]:
    """Yield the block of a tool's result, and blocks for files that may not stand in it.

    `media` tells whether a result may hold files.
    """
    parts: list[JsonObject] = []
    behind: list[JsonObject] = []
    if isinstance(result.content, str) or result.is_error:  # pictures in an error are refused
        if result.text and not result.text.isspace():
            parts.append({"text": result.text})
    else:
        for part in result.content:
            if not isinstance(part, Text):
                block = file_block(part)
                (parts if media or "text" in block else behind).append(block)
            elif part.text and not part.text.isspace():
                parts.append({"text": part.text})
    empty = "(see below)" if behind else "(no output)"  # some vendors refuse an empty answer
    block = {"toolUseId": wire_id(result.id), "content": parts or [{"text": empty}]}
    if result.is_error:  # sent only where it matters: some vendors do not know the field
        block["status"] = "error"
    yield {"toolResult": block}
    yield from behind


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


def file_block(file: Image | Document) -> JsonObject:
    """Convert an image or document to a block, or to text where the wire cannot carry it."""
    source: JsonObject | None = None
    if isinstance(file, Image):
        media_type, data = inline(file) or (file.media_type, None)
        form = media_type.partition("/")[2] if media_type in _IMAGES else None
    else:
        media_type, data = inline(file) or (file.media_type, None)
        form = _DOCUMENTS.get(media_type, "txt" if media_type.startswith("text/") else None)
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
    """Build a document name of allowed characters, unique in the conversation."""
    mark = sha256((document.data or document.url or "").encode()).hexdigest()[:8]
    title = re.sub(r"[^a-zA-Z0-9()\[\]-]+", " ", document.title or "").strip()[:150]
    return f"{title or 'document'} {mark}"


# a conversation begins with a user message, which may not be empty
_OPENING: Final = b'{"role":"user","content":[{"text":"Begin."}]},'
_MODEL_FIRST: Final = b'{"role":"assistant"'
_LIMIT: Final = (
    16_384  # tokens of a reply, only to choose a budget for thinking where none is given
)
_REGIONS: Final = re.compile(r"^(?:us|eu|apac|global|jp|au|ca|sa|us-gov)\.")
# what a request to count tokens may hold
_COUNTED: Final = frozenset({"system", "toolConfig", "additionalModelRequestFields"})
_CACHE_POINT: Final = {"cachePoint": {"type": "default"}}
_POINT: Final = b"," + dumps(_CACHE_POINT)
_NO_TOOLS: Final[JsonObject] = {
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
    rules = "windlass.models.wires.bedrock.rules"
    makes_addresses = True
    image_types = ("image/jpeg", "image/png", "image/gif", "image/webp")
    thinking_forms = ("claude", "nova")
    argument_mark = rb'"toolUse"\s*:\s*\{\s*"input"'

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
        self.region = region or next(filter(None, map(environ().get, variables)), None)
        super().__init__(name, **access)
        if sign is None:
            sign = not self._own_url or profile is not None or ".amazonaws.com" in self.base_url
        self._signer = Signer("bedrock", profile) if sign else None
        self._profile = profile
        self._bare: tuple[Frame, bytes] | None = None

    @property
    def address(self) -> str:
        """The URL, and the AWS profile that signs."""
        address = super().address
        return address if self._profile is None else f"{address} {self._profile}"

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
        return self._method(base, self.name, "converse")

    def _method(self, base: str, name: str, verb: str) -> str:
        parts = urlsplit(base.replace("{region}", self.region or "us-east-1"))
        # an ARN holds slashes; a colon stays, so that what is signed is what is sent
        path = f"{parts.path.rstrip('/')}/model/{quote(name, safe=':')}/{verb}"
        return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))

    def _auth(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    async def _address_request(
        self, settings: Settings, body: Sequence[bytes], at: str | None = None
    ) -> tuple[str, dict[str, str]]:
        url, headers = await super()._address_request(settings, body, at)
        if settings.stream and at is None:
            path, mark, query = url.partition("?")
            url = f"{path}-stream{mark}{query}"
        if self._signs() and self._signer is not None:
            signed = await self._signer.headers(url, self.region or "us-east-1", body)
            headers = {**headers, **signed}
        return url, headers

    def decoder(self, request: Request, emit: Emit) -> ConverseDecoder:
        """Build the decoder of one reply: `feed` it bytes, then `finish`."""
        names = self.encode_frame(request.frame).names
        return ConverseDecoder(self._source(), self._origin, names, emit)

    async def count_tokens(self, request: Request) -> int | None:
        """Count the request's tokens at Bedrock; None where the model has no such count."""
        name = _REGIONS.sub("", self.name)  # models are counted under their own names
        if not self.caps.counts_tokens or name.startswith("arn:"):
            return None
        self.check()
        head, *rest = self.encode(request)
        fields = as_dict(loads(head + b"]}"))
        fields = {field: value for field, value in fields.items() if field in _COUNTED}
        start = dumps(fields)[:-1] + b"," if fields else b"{"
        body = [b'{"input":{"converse":', start + b'"messages":[', *rest, b"}}"]
        at = self._method(self.base_url, name, "count-tokens")
        try:
            answer = await self._question(request.frame.settings, body, at)
        except BadRequest as error:
            if "counting tokens" in str(error):  # models that are served across regions alone
                return None
            raise
        if type(total := answer.get("inputTokens")) is not int:
            raise BadReply(f"the count of tokens is no number: {total!r:.80}")
        return total

    # ----------------------------------------------------------------------- the request

    def encode(self, request: Request) -> list[bytes]:
        """Encode the request's body in pieces: `b"".join(model.encode(request))` is JSON."""
        messages, frame = request.messages, request.frame
        if self._began_without_thought(request):
            bare = msgspec.structs.replace(frame.settings, thinking=False)
            frame = msgspec.structs.replace(frame, settings=bare)
        skip = self._count_system_messages(messages)
        if skip:
            system_texts = [frame.system or "", *(message.text for message in messages[:skip])]
            frame = msgspec.structs.replace(frame, system="\n\n".join(filter(None, system_texts)))
        if _offers(frame) or not any(map(_uses_tools, messages)):
            head = self._head(frame) if skip else self.encode_frame(frame).head
        else:
            head = self._head_without_tools(frame)
        turns = encode_in_context(
            messages,
            f"{self._cached}/{skip}",
            lambda among, at: self._turn(among, at, skip) if at >= skip else b"",
        )
        if self._caches(frame.settings) and self._takes_point(messages, skip):
            turns.append(_POINT)  # behind the messages and before the tail, which may change
        if request.tail:
            among = [*messages, *request.tail]
            turns += [self._turn(among, at, skip) for at in range(len(messages), len(among))]
        if next(filter(None, turns), b"").startswith(_MODEL_FIRST):
            turns.insert(0, _OPENING)
        return [head, *turns, b"]}]}" if any(turns) else b"]}"]

    def _began_without_thought(self, request: Request) -> bool:
        """Check whether the current turn began without thinking; it must then continue so.

        This happens after a switch from another model.
        """
        settings = request.frame.settings
        if not settings.thinking or self.caps.lowering != "claude":
            return False
        if not claude_thinking(self.caps, settings, _LIMIT).budgeted:
            return False
        if (first := opener(request.messages)) is None:
            return False
        return not any("reasoningContent" in block for block in islice(self._blocks(first), 1))

    def _caches(self, settings: Settings) -> bool:
        return self.caps.prompt_caching if settings.cache is None else settings.cache

    def _takes_point(self, messages: Sequence[Message], skip: int) -> bool:
        """Check whether a cache point may stand behind these messages."""
        for at in range(len(messages) - 1, skip - 1, -1):
            blocks = list(self._blocks(messages[at]))
            if blocks:
                # behind a document other than a PDF a point is refused
                files = [block["document"]["format"] for block in blocks if "document" in block]
                return _side(messages[at]) == b"user" and not any(f != "pdf" for f in files)
        return False

    def _turn(self, among: Sequence[Message], at: int, skip: int) -> bytes:
        """Encode a message as the start of a turn or its continuation; the next role closes it."""
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
        """Encode the head for a history with calls when no tool is offered.

        Bedrock refuses such a request without a tool configuration.
        """
        if self._bare is None or self._bare[0] != frame:
            self._bare = frame, self._head(frame, _NO_TOOLS)
        return self._bare[1]

    def _head(self, frame: Frame, tools: JsonObject | None = None) -> bytes:
        body = self._fields(frame, tools)
        return (dumps(body)[:-1] + b"," if body else b"{") + b'"messages":['

    def _fields(self, frame: Frame, tools: JsonObject | None) -> JsonObject:
        settings = frame.settings
        self._refuse(settings)
        forced = _offers(frame) and is_forced(settings)
        if forced and not self.caps.forces_calls:
            raise ConfigError(
                f"{self.name} cannot be made to call a tool: leave tool_choice at 'auto'"
            )
        thinking, more = self._thinking(settings, forced)
        limits: JsonObject = {}
        set_given(limits, maxTokens=settings.max_tokens, stopSequences=settings.stop)
        if self.caps.sampling:
            set_given(limits, topP=settings.top_p)
            if not thinking:  # a thinking model sets its own temperature
                set_given(limits, temperature=settings.temperature)
        caches, body = self._caches(settings), JsonObject()
        if frame.system and frame.system.strip():
            body["system"] = [{"text": frame.system}, *([_CACHE_POINT] if caches else ())]
        if limits:
            body["inferenceConfig"] = limits
        if tools := tools or self._tool_config(frame):
            if caches and "system" not in body and self.caps.lowering == "claude":
                # a point behind the system prompt has the tools before it; only Claude takes one here
                tools = {**tools, "tools": [*tools["tools"], _CACHE_POINT]}
            body["toolConfig"] = tools
        body.update(more)
        if settings.schema is not None:
            body = _merge_body(body, {"outputConfig": {"textFormat": _format(settings.schema)}})
        body = _merge_body(body, settings.extra or {})
        body.pop("messages", None)
        return body

    def _refuse(self, settings: Settings) -> None:
        """Refuse options that this wire has no field for."""
        if settings.response_format is not None:
            raise ConfigError("bedrock has no JSON mode: give a schema, or ask for JSON in words")
        if settings.tool_search is not None:
            raise ConfigError("bedrock has no search among tools of its own: search in the client")
        claude = self.caps.lowering == "claude" or not self.caps.known
        if not claude and (settings.beta or settings.interleaved_thinking):
            raise ConfigError(f"{self.name} has no beta features: they are Claude's")

    def _thinking(self, settings: Settings, forced: bool) -> tuple[bool, JsonObject]:
        """Return whether the model is asked to think, and the body fields that ask for it."""
        asked, caps = settings.thinking, self.caps
        if caps.lowering == "nova" and asked is not None:
            own = as_dict(asked)
            off = asked is False or own.get("mode") == "disabled" or forced
            config: JsonObject = {"type": "disabled"} if off else {"type": "enabled"}
            if not off:
                level = nearest_level(own.get("effort"), caps.efforts)
                config["maxReasoningEffort"] = level or "medium"
            return not off, {"additionalModelRequestFields": {"reasoningConfig": config}}
        thinks = Thinks()
        if caps.lowering == "claude" or "type" in as_dict(asked):
            thinks = claude_thinking(caps, settings, _LIMIT, forced=forced)
        fields: JsonObject = {}
        set_given(fields, thinking=thinks.thinking)
        if names := claude_betas(caps, settings, on=thinks.on):
            fields["anthropic_beta"] = names
        body: JsonObject = {"additionalModelRequestFields": fields} if fields else {}
        if thinks.effort is not None:
            body["outputConfig"] = {"effort": thinks.effort}
        return thinks.on, body

    def _tool_config(self, frame: Frame) -> JsonObject | None:
        choice, name = wanted_tool(frame.settings, frame)
        if not frame.tools or choice == "none":  # there is no value for "none": no tool is offered
            return None
        specs: list[JsonObject] = []
        for tool in frame.tools:
            parameters, strict = schema(tool.parameters), False
            if tool.strict and self.caps.strict_tools and open_object(parameters) is None:
                parameters, strict = close_objects(parameters), True
            spec: JsonObject = {"name": safe_name(tool.name)}
            if tool.description:
                spec["description"] = tool.description
            spec["inputSchema"] = {"json": parameters}
            if strict:
                spec["strict"] = True
            specs.append({"toolSpec": spec})
        config: JsonObject = {"tools": specs}
        if choice == "auto":
            config["toolChoice"] = {"auto": {}}
        elif choice == "required":
            config["toolChoice"] = {"any": {}}
        elif choice == "tool":
            config["toolChoice"] = {"tool": {"name": safe_name(name)}}
        return config

    # ----------------------------------------------------------------------- messages

    def _count_system_messages(self, messages: Sequence[Message]) -> int:
        count = 0
        while count < len(messages) and messages[count].role == "system":
            count += 1
        return count

    def _message(self, message: Message) -> bytes:
        """Encode the blocks of a message, without the turn around them."""
        blocks = list(self._blocks(message))
        if len(blocks) > 1 and message.role != "assistant":
            # results come first: anything before them hides them from the calls they answer
            blocks.sort(key=lambda block: "toolResult" not in block)
        if any("document" in block for block in blocks) and not any("text" in b for b in blocks):
            blocks.append({"text": "(see the document)"})  # a document alone is refused
        return b",".join([dumps(block) for block in blocks])

    def _blocks(self, message: Message) -> Iterator[JsonObject]:
        for block in message.content:
            match block:
                case Text(text):
                    if text and not text.isspace():  # a blank one is refused
                        yield {"text": text}
                case ToolCall():
                    yield self._call(block)
                case ToolResult():
                    yield from result_blocks(block, self.caps.media_results)
                case Thinking():
                    yield from self._thought(block)
                case Opaque(origin, data):
                    if origin == self._origin and (native := as_dict(data)):
                        yield native
                case Image() | Document():
                    yield file_block(block)

    def _call(self, call: ToolCall) -> JsonObject:
        use: JsonObject = {
            "toolUseId": wire_id(call.id),
            "name": safe_name(call.name),
            "input": call.arguments,
        }
        if call.origin == self._origin:
            use.update(as_dict(call.opaque))
        return {"toolUse": use}

    def _thought(self, block: Thinking) -> Iterator[JsonObject]:
        if block.origin != self._origin:
            return
        opaque = as_dict(block.opaque)
        if "redactedContent" in opaque:
            yield {"reasoningContent": opaque}
        elif "signature" in opaque:  # models that do not sign their thoughts do not take them back
            yield {"reasoningContent": {"reasoningText": {"text": block.text, **opaque}}}


def _side(message: Message) -> bytes:
    return b"assistant" if message.role == "assistant" else b"user"


def _uses_tools(message: Message) -> bool:
    return message.role == "tool" or any(
        type(block) is ToolCall or type(block) is ToolResult for block in message.content
    )


def _offers(frame: Frame) -> bool:
    """Check whether the request defines tools."""
    if "toolConfig" in (frame.settings.extra or {}):
        return True
    return bool(frame.tools) and frame.settings.tool_choice != "none"


def _format(schema: JsonObject) -> JsonObject:
    """Build the field that requests an answer in a schema, which is sent as text."""
    title = schema.get("title")
    name = safe_name(title) if isinstance(title, str) and title else "answer"
    text = dumps(close_objects(schema)).decode()
    return {"type": "json_schema", "structure": {"jsonSchema": {"schema": text, "name": name}}}


def _merge_body(body: JsonObject, extra: Mapping[str, Any]) -> JsonObject:
    """Return the body with the extra fields: objects are merged, lists are extended."""
    out = dict(body)
    for key, value in extra.items():
        before = out.get(key)
        if is_object(before) and is_mapping(value):
            value = _merge_body(before, value)
        elif is_list(before) and is_sequence(value):
            value = [*before, *value]
        out[key] = value
    return out

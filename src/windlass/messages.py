"""Messages between people, models and tools: a role and a tuple of blocks.

Frozen and provider-neutral; wires translate them. Blocks that only one provider understands are
`Opaque` (or in a block's own `opaque` field), and are sent back only to the provider and model that
made them.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias, Union

import msgspec

from windlass.errors import ConfigError
from windlass.json_types import JsonObject, is_iterable, is_mapping

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

Outcome: TypeAlias = Literal[
    "ok",  # the tool answered
    "error",  # the tool raised
    "retry",  # the tool raised Retry: the model may try again
    "invalid",  # the arguments did not fit the schema
    "unknown_tool",
    "timeout",
    "denied",  # a policy refused; the tool did not start
    "not_run",  # the run went another way before the tool started, or the reply had too many calls
    "interrupted",  # it had started; it is unknown whether it took effect
]


class Origin(msgspec.Struct, frozen=True, gc=False):
    """The provider and model that made a native value, which is sent back only to them."""

    provider: str
    model: str


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="type", gc=False):
    """Plain text: `Text("hello")`."""

    text: str


class Thinking(
    msgspec.Struct, frozen=True, tag="thinking", tag_field="type", omit_defaults=True, gc=False
):
    """The model's reasoning. `opaque` is the provider's own block, sent back unchanged."""

    text: str
    opaque: object = None
    origin: Origin | None = None


class ToolCall(
    msgspec.Struct, frozen=True, tag="tool_call", tag_field="type", omit_defaults=True, gc=False
):
    """A request of the model to run a tool: `ToolCall("c1", "add", {"a": 1, "b": 2})`.

    `raw` is the text of the arguments if the provider did not write a JSON object.
    """

    id: str
    name: str
    arguments: JsonObject
    raw: str | None = None
    opaque: object = None
    origin: Origin | None = None

    @property
    def input(self) -> JsonObject:
        """The same as `arguments`."""
        return self.arguments


class Image(
    msgspec.Struct, frozen=True, tag="image", tag_field="type", omit_defaults=True, gc=False
):
    """An image for the model: `Image.from_file("cat.png")`.

    Also `Image.from_url("https://…")` and `Image.from_bytes(data)`. It has a `url`, or base64
    `data` with its `media_type`.
    """

    data: str | None = None
    media_type: str = "image/png"
    url: str | None = None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], media_type: str | None = None) -> Image:
        """Read an image from a file; the type comes from the content, else from the name."""
        data = _read_media(path, "Image")
        return cls.from_bytes(data, media_type or _type_of(data) or _type_of_name(path, "image/"))

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str | None = None) -> Image:
        """Make an image from bytes; PNG, JPEG, GIF and WebP are recognized."""
        _check_bytes(data, "Image")
        found = media_type or _type_of(data)
        if found is None or not found.startswith("image/"):
            raise ConfigError(
                "Image.from_bytes: this is no PNG, JPEG, GIF or WebP; say what it is: "
                "media_type='image/…'"
            )
        return cls(base64.b64encode(data).decode("ascii"), found)

    @classmethod
    def from_url(cls, url: str, media_type: str = "image/png") -> Image:
        """Make an image from an address; the provider downloads it."""
        return cls(url=_check_url(url, "Image"), media_type=media_type)


class Document(
    msgspec.Struct, frozen=True, tag="document", tag_field="type", omit_defaults=True, gc=False
):
    """A file for the model: `Document.from_file("terms.pdf")`.

    Also `Document.from_url("https://…")` and `Document.from_bytes(data)`. It has a `url`, or base64
    `data` with its `media_type`.
    """

    data: str | None = None
    media_type: str = "application/pdf"
    url: str | None = None
    title: str | None = None

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        media_type: str | None = None,
        title: str | None = None,
    ) -> Document:
        """Read a document from a file; the title is the file's name unless one is given."""
        data = _read_media(path, "Document")
        kind = media_type or _type_of(data) or _type_of_name(path, "")
        return cls.from_bytes(data, kind, title or os.path.basename(os.fspath(path)))

    @classmethod
    def from_bytes(
        cls, data: bytes, media_type: str | None = None, title: str | None = None
    ) -> Document:
        """Make a document from bytes; a PDF is recognized."""
        _check_bytes(data, "Document")
        found = media_type or _type_of(data)
        if found is None:
            raise ConfigError(
                "Document.from_bytes: this is no PDF; say what it is: media_type='text/plain'"
            )
        return cls(base64.b64encode(data).decode("ascii"), found, title=title)

    @classmethod
    def from_url(
        cls, url: str, media_type: str = "application/pdf", title: str | None = None
    ) -> Document:
        """Make a document from an address; the provider downloads it."""
        return cls(url=_check_url(url, "Document"), media_type=media_type, title=title)


class Opaque(msgspec.Struct, frozen=True, tag="opaque", tag_field="type", gc=False):
    """A block that only one provider understands; stored, and sent back unchanged."""

    origin: Origin
    data: object


class ToolResult(
    msgspec.Struct, frozen=True, tag="tool_result", tag_field="type", omit_defaults=True, gc=False
):
    """The result of the call with the same `id`, as the model sees it.

    A tool may return one to write the text itself: `ToolResult(content="no such order",
    is_error=True)`.
    """

    id: str = ""
    content: str | tuple[Text | Image | Document, ...] = ""
    is_error: bool = False
    name: str = ""
    outcome: Outcome = "ok"

    @property
    def tool_use_id(self) -> str:
        """The same as `id`."""
        return self.id

    @property
    def data(self) -> str | tuple[Text | Image | Document, ...]:
        """The same as `content`."""
        return self.content

    @property
    def text(self) -> str:
        """The text of the result, without media."""
        if isinstance(self.content, str):
            return self.content
        return "".join(block.text for block in self.content if isinstance(block, Text))


Block: TypeAlias = Union[Text, Thinking, ToolCall, ToolResult, Image, Document, Opaque]


class Message(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message: `Message("user", "hi")`, `Message("assistant", (Text("hi"), ToolCall(…)))`.

    `kind` says why the runtime wrote a message of the user (`nudge`, `feedback`, …).
    """

    role: Role
    content: tuple[Block, ...] = ()
    kind: str | None = None

    def __post_init__(self) -> None:
        if type(self.content) is not tuple:
            msgspec.structs.force_setattr(self, "content", as_blocks(self.content))

    @property
    def text(self) -> str:
        """The text blocks of the message, joined."""
        content = self.content
        if len(content) == 1 and type(block := content[0]) is Text:
            return block.text
        return "".join([block.text for block in self.content if type(block) is Text])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in it, in order."""
        # A loop: before Python 3.12 a comprehension takes longer than the few blocks it looks at.
        calls: list[ToolCall] = []
        content = self.content
        for block in content:
            if type(block) is ToolCall:
                calls.append(block)
        if len(calls) == len(content):
            return content  # pyright: ignore[reportReturnType]  # all of it are calls
        return tuple(calls)


# --------------------------------------------------------------------------- media

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_NAMES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".html": "text/html",
}
_URLS: Final = ("https://", "http://", "data:", "gs://", "s3://")
#: The characters of base64 in both of its alphabets, and line ends.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_\-\s]*={0,2}\s*")


def find_media_problem(block: Image | Document) -> str | None:
    """Return what is wrong with an image or a document that holds a bare path or address."""
    kind = type(block).__name__
    if block.data is None and block.url is None:
        return f"{kind} holds nothing: use {kind}.from_file, {kind}.from_url or {kind}.from_bytes"
    if block.url is not None and "://" not in block.url and not block.url.startswith("data:"):
        return f"url is no address: use {kind}.from_file({_shorten(block.url)!r}) for a file"
    if block.data is not None:
        if block.data.startswith(("http://", "https://")):
            return f"data is an address: use {kind}.from_url({_shorten(block.data)!r})"
        if _BASE64.fullmatch(block.data[:4096]) is None or _looks_like_path(block.data):
            return f"data is no base64: use {kind}.from_file({_shorten(block.data)!r}) for a file"
    return None


def _looks_like_path(data: str) -> bool:
    """Return whether text that could be base64 is a path; that of a JPEG begins with `/9j/`."""
    return data.startswith("/") and len(data) < 256 and len(data) % 4 != 0


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def _read_media(path: str | os.PathLike[str], kind: str) -> bytes:
    if isinstance(path, str) and path.startswith(("http://", "https://")):
        raise ConfigError(f"{kind}.from_file takes a path: use {kind}.from_url({path!r})")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{kind}.from_file({os.fspath(path)!r}): {error.strerror}") from error


def _check_url(url: str, kind: str) -> str:
    if not isinstance(url, str) or not url.startswith(_URLS):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"{kind}.from_url takes an address such as 'https://…', not {_shorten(str(url))!r}; "
            f"for a file: {kind}.from_file"
        )
    return url


def _check_bytes(data: object, kind: str) -> None:
    if not isinstance(data, bytes | bytearray):
        raise ConfigError(f"{kind}.from_bytes takes bytes, not {type(data).__name__}")
    if not data:
        raise ConfigError(f"{kind}.from_bytes: there are no bytes in it")


def _type_of(data: bytes) -> str | None:
    """Return the media type that the first bytes tell."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for head, kind in _MAGIC if data.startswith(head)), None)


def _type_of_name(path: str | os.PathLike[str], prefix: str) -> str | None:
    name = str(os.fspath(path))
    found = _NAMES.get(os.path.splitext(name)[1].lower())
    return found if found is not None and found.startswith(prefix) else None


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as a model sees it: its name, its purpose, and the schema of its arguments."""

    name: str
    description: str
    parameters: JsonObject
    strict: bool = False  # the provider is to hold the model to the schema, where it can
    defer_loading: bool = False  # kept from the model until a search finds it
    namespace: str | None = None


def as_blocks(content: object) -> tuple[Block, ...]:
    """Convert a string, a block, a dict, or several of them to blocks."""
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, (Text, Thinking, ToolCall, ToolResult, Image, Document, Opaque)):
        return (content,)
    if is_mapping(content):
        return (_to_block(content),)
    if is_iterable(content):
        blocks: list[Block] = []
        for item in content:
            blocks.extend(as_blocks(item))
        return tuple(blocks)
    raise TypeError(f"a message is text or blocks, not {type(content).__name__}")


def _to_block(fields: Mapping[str, object]) -> Block:
    """Convert a dict to a block; calls and results also as `tool_use` and `tool_use_id`."""
    given = dict(fields)
    if given.get("type") == "tool_use":
        given["type"] = "tool_call"
        if "input" in given:
            given["arguments"] = given.pop("input")
    elif given.get("type") == "tool_result":
        if "tool_use_id" in given:
            given["id"] = given.pop("tool_use_id")
        if not isinstance(given.get("content", ""), str):
            given["content"] = as_blocks(given["content"])
        if given.get("is_error") is True:
            given.setdefault("outcome", "error")
    return msgspec.convert(given, Block)  # pyright: ignore[reportArgumentType]


def name_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Give results without a name the name of their call."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    named: list[Message] = []
    for message in messages:
        content = tuple([_name_result(block, names) for block in message.content])
        if any([new is not old for new, old in zip(content, message.content, strict=True)]):
            message = msgspec.structs.replace(message, content=content)
        named.append(message)
    return tuple(named)


def _name_result(block: Block, names: Mapping[str, str]) -> Block:
    if isinstance(block, ToolResult) and not block.name and block.id in names:
        return msgspec.structs.replace(block, name=names[block.id])
    return block


def as_messages(prompt: object) -> tuple[Message, ...]:
    """Convert a prompt to messages: a string, a message, a dict with `role`, or a list."""
    if isinstance(prompt, Message):
        return (prompt,)
    if isinstance(prompt, str):
        return (Message("user", (Text(prompt),)),)
    if is_mapping(prompt):
        fields = prompt
        if "role" in fields:
            return (Message(fields["role"], as_blocks(fields.get("content", ()))),)
        return (Message("user", as_blocks(fields)),)
    if isinstance(prompt, (Text, Image, Document)):
        return (Message("user", (prompt,)),)
    if is_iterable(prompt):
        items = list(prompt)
        if items and all(isinstance(item, (Text, Image, Document)) for item in items):
            return (Message("user", as_blocks(items)),)
        return tuple(message for item in items for message in as_messages(item))
    raise TypeError(f"a prompt is text or messages, not {type(prompt).__name__}")


def estimate_tokens(messages: object) -> int:
    """Estimate the tokens of messages: `estimate_tokens([Message("user", "hello")])`.

    A token is about four letters; digits, signs and other scripts count more. An image counts as
    1,600 tokens. No request is made.
    """
    return -(-characters(as_messages(messages)) // 4)


def characters(messages: Iterable[Message]) -> int:
    """Count the characters of messages for estimates: four to a token."""
    total = 0
    for message in messages:
        for block in message.content:
            if isinstance(block, (Text, Thinking)):
                total += weigh_text(block.text)
            elif isinstance(block, ToolCall):
                total += weigh_text(block.raw or _to_json(block.arguments))
            elif isinstance(block, ToolResult):
                if isinstance(block.content, str):
                    total += weigh_text(block.content)
                else:
                    total += sum([_weigh_part(part) for part in block.content])
            elif isinstance(block, Opaque):
                total += len(_to_json(block.data))
            else:
                total += _weigh_part(block)
    return total


def _table() -> bytes:
    """Build the weight of each byte of UTF-8: a character counts by its first byte."""
    weights = bytearray([1] * 0x80 + [0] * 0x80)
    for first, last, weight in (
        (0xC2, 0xCB, 3),  # Latin with marks
        (0xCC, 0xCD, 7),  # marks by themselves
        (0xCE, 0xCF, 4),  # Greek
        (0xD0, 0xD3, 2),  # Cyrillic
        (0xD4, 0xDF, 4),  # Hebrew, Arabic
        (0xE0, 0xEF, 5),  # Indic scripts, Thai, Chinese, Japanese, Korean
        (0xE1, 0xE1, 8),  # Ethiopic, Burmese, Georgian
        (0xE2, 0xE2, 6),  # signs, arrows, lines
        (0xF0, 0xF7, 12),  # emoji
    ):
        weights[first : last + 1] = bytes([weight] * (last + 1 - first))
    return bytes(weights)


_WEIGHTS = _table()
_DENSE = bytes(code for code in range(0x21, 0x7F) if not 0x61 <= code <= 0x7A)


def weigh_text(text: str) -> int:
    """Count the characters of a text for estimates: four to a token, as measured.

    Capitals, digits and signs above the share that prose has are a token each: base64, hexadecimal,
    tables and JSON are counted as what they take, and not as words.
    """
    size = len(text)
    if text.isascii():
        if size < _SHORT:
            return size
        written = text.encode()
        weight = size
    else:
        written = text.encode("utf-8", "surrogatepass")
        weight = sum(written.translate(_WEIGHTS))
    dense = len(written) - len(written.translate(None, _DENSE))
    return weight + max(0, dense * 4 - size * 3 // 5)  # 15 in a hundred are usual


_SHORT = 16  # characters; too few to tell what it is
_PICTURE = 6400  # 1,600 tokens: as much as Anthropic's largest; others take less, or tiles


def _to_json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError):
        return str(value)  # a custom model may give what is no JSON


def _weigh_part(part: Text | Image | Document) -> int:
    if isinstance(part, Text):
        return weigh_text(part.text)
    if isinstance(part, Image) or part.data is None:
        return _PICTURE
    if part.media_type.startswith("text/"):
        return len(part.data) * 3 // 4  # what base64 stands for
    return max(_PICTURE, len(part.data) // 10)  # a page of a PDF has about 64 kB and 1,600 tokens

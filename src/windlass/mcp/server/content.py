"""Content of tools and prompts in the forms of the protocol: text, images, audio, resources."""

from __future__ import annotations

from base64 import b64decode
from typing import TypeAlias
from urllib.parse import quote

import mcp_types as types
import msgspec

from windlass.json_types import JsonObject
from windlass.messages import Document, Image, Message, Text, ToolResult
from windlass.tools.tool import Tool

Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents
_TEXT_TYPES = ("application/json", "application/xml", "application/yaml", "application/toml")


def to_content(block: Text | Image | Document) -> types.ContentBlock:
    """Convert a block: media with an address becomes a link, audio and files their own kinds."""
    if isinstance(block, Text):
        return types.TextContent(text=block.text)
    if block.data is None:
        name = (block.title if isinstance(block, Document) else None) or "file"
        return types.ResourceLink(name=name, uri=block.url or "", mime_type=block.media_type)
    if isinstance(block, Image):
        return types.ImageContent(data=block.data, mime_type=block.media_type)
    if block.media_type.startswith("audio/"):
        return types.AudioContent(data=block.data, mime_type=block.media_type)
    return types.EmbeddedResource(resource=to_contents(block, document_uri(block)))


def document_uri(block: Document) -> str:
    """Return the address of a document: its title if that is one, else one made of it."""
    title = block.title or "untitled"
    return title if "://" in title else f"windlass://document/{quote(title, safe='')}"


def to_contents(block: Text | Image | Document, uri: str) -> Contents:
    """Convert a block to the contents of a resource."""
    if isinstance(block, Text):
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=block.text)
    data, kind = block.data or "", block.media_type
    if kind.startswith("text/") or kind in _TEXT_TYPES:
        try:
            text = b64decode(data).decode()
        except ValueError:  # no base64, or no UTF-8
            return types.BlobResourceContents(uri=uri, mime_type=kind, blob=data)
        return types.TextResourceContents(uri=uri, mime_type=kind, text=text)
    return types.BlobResourceContents(uri=uri, mime_type=kind, blob=data)


def blocks_of(result: ToolResult) -> tuple[Text | Image | Document, ...]:
    """Return the blocks of a result."""
    return (Text(result.content),) if isinstance(result.content, str) else result.content


def to_call_result(result: ToolResult, tool: Tool | None, session_id: str) -> types.CallToolResult:
    """Convert the result of a tool; a tool with a schema of its answer gives the value as well."""
    content = [to_content(block) for block in blocks_of(result)]
    structured: JsonObject | None = None
    if tool is not None and output_schema(tool) is not None and not result.is_error:
        try:
            structured = msgspec.json.decode(result.text, type=JsonObject)
        except (msgspec.DecodeError, UnicodeEncodeError):
            structured = None
    return types.CallToolResult(
        content=content,
        structured_content=structured,
        is_error=result.is_error,
        _meta={"windlass/session_id": session_id},
    )


def output_schema(tool: Tool) -> JsonObject | None:
    """Return the schema of what a tool answers, if it is one of an object."""
    schema = tool.returns
    return schema if schema is not None and schema.get("type") == "object" else None


def to_tool(tool: Tool) -> types.Tool:
    """Describe a tool to a client."""
    level = tool.annotations.get("side_effect_level")
    hints = types.ToolAnnotations(
        read_only_hint=level in ("none", "read_only") if level is not None else None,
        destructive_hint=tool.annotations.get("kind") == "delete" or None,
        idempotent_hint=tool.keyed or None,
    )
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters,
        output_schema=output_schema(tool),
        annotations=hints if hints.model_dump(exclude_none=True) else None,
    )


def to_prompt_messages(messages: list[Message]) -> list[types.PromptMessage]:
    """Convert messages: one for each block, since a message of the protocol has one."""
    found: list[types.PromptMessage] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        for block in message.content:
            if isinstance(block, (Text, Image, Document)):
                found.append(types.PromptMessage(role=role, content=to_content(block)))
    return found

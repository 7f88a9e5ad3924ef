"""What a server answers, as the result of a tool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import mcp_types as types
import msgspec

from windlass.messages import Document, Image, Text, ToolResult
from windlass.tools.result import refusal

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def to_result(answer: types.CallToolResult) -> ToolResult:
    """Convert the answer to a call; what is structured alone becomes its JSON."""
    blocks = to_blocks(answer.content)
    if not blocks and answer.structured_content is not None:
        blocks = [Text(msgspec.json.encode(answer.structured_content).decode())]
    outcome = "error" if answer.is_error else "ok"
    content: str | tuple[Text | Image | Document, ...] = tuple(blocks)
    if all([isinstance(block, Text) for block in blocks]):
        content = "\n".join([block.text for block in blocks if isinstance(block, Text)])
    if answer.is_error and not content:
        return refusal("the server says that the call failed, and not why")
    return ToolResult(content=content, is_error=bool(answer.is_error), outcome=outcome)


def to_blocks(content: Sequence[types.ContentBlock]) -> list[Text | Image | Document]:
    """Convert the parts of an answer or of a prompt."""
    return [block for part in content for block in _to_block(part)]


def _to_block(part: types.ContentBlock) -> Iterable[Text | Image | Document]:
    if isinstance(part, types.TextContent):
        yield Text(part.text)
    elif isinstance(part, types.ImageContent):
        if part.mime_type in _PICTURES:
            yield Image(part.data, part.mime_type)
        else:
            yield Text(f"(a picture of type {part.mime_type}, which no model reads)")
    elif isinstance(part, types.AudioContent):
        yield Text(f"(a sound of type {part.mime_type}, {len(part.data) * 3 // 4:,} bytes)")
    elif isinstance(part, types.ResourceLink):
        words = f": {part.description}" if part.description else ""
        yield Text(f"[{part.name}]({part.uri}){words}")
    else:
        yield from to_resource_blocks([part.resource])


def to_resource_blocks(
    contents: Iterable[types.TextResourceContents | types.BlobResourceContents],
) -> Iterable[Text | Image | Document]:
    """Convert the contents of resources: text as it is, pictures and PDFs as blocks."""
    for one in contents:
        if isinstance(one, types.TextResourceContents):
            yield Text(one.text)
        elif one.mime_type in _PICTURES:
            yield Image(one.blob, one.mime_type)
        elif one.mime_type == "application/pdf":
            yield Document(one.blob, "application/pdf", title=str(one.uri))
        else:
            kind = one.mime_type or "no named type"
            yield Text(f"({one.uri}: {len(one.blob) * 3 // 4:,} bytes of {kind})")

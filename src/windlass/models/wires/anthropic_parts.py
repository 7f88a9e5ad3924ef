"""Parts of a Messages request: results, pictures and documents."""

from __future__ import annotations

import base64
from typing import Any, Final

from windlass.messages import Document, Image, Text, ToolResult
from windlass.models.wires.parts import inline
from windlass.models.wires.values import safe_name

_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_TEXTS: Final = ("text/", "application/json", "application/xml")


def result_block(result: ToolResult) -> dict[str, Any]:
    """What a tool answered."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": safe_name(result.id)}
    if isinstance(result.content, str):
        if result.content:
            block["content"] = result.content
    elif result.is_error:
        block["content"] = result.text  # an error is told in words: pictures in it are refused
    else:
        parts: list[dict[str, Any]] = []
        for part in result.content:
            if not isinstance(part, Text):
                parts.append(file_block(part))
            elif part.text and not part.text.isspace():
                parts.append({"type": "text", "text": part.text})
        if parts:
            block["content"] = parts
    if result.is_error:
        block["is_error"] = True
    return block


def file_block(file: Image | Document) -> dict[str, Any]:
    """A picture or a document as the wire takes it, or words about it where it does not."""
    kind = "image" if isinstance(file, Image) else "document"
    here = inline(file)
    source: dict[str, Any] | None
    if here is None:
        source = {"type": "url", "url": file.url}
    else:
        source = _inline_image(*here) if kind == "image" else _inline_document(*here)
    if source is None:
        return {"type": "text", "text": _words(file, here[0] if here else file.media_type)}
    block: dict[str, Any] = {"type": kind, "source": source}
    if isinstance(file, Document) and file.title is not None:
        block["title"] = file.title
    return block


def _inline_image(media_type: str, data: str) -> dict[str, Any] | None:
    if media_type not in _IMAGES:
        return None
    return {"type": "base64", "media_type": media_type, "data": data}


def _inline_document(media_type: str, data: str) -> dict[str, Any] | None:
    if media_type.startswith(_TEXTS):
        text = base64.b64decode(data).decode("utf-8", "replace")
        if not text or text.isspace():
            return None
        return {"type": "text", "media_type": "text/plain", "data": text}
    if media_type != "application/pdf":
        return None
    return {"type": "base64", "media_type": media_type, "data": data}


def _words(file: Image | Document, media_type: str) -> str:
    name = "Image" if isinstance(file, Image) else file.title or "Document"
    return f"{name}: ({media_type}, which cannot be shown here)"

"""Parts of a Converse request: calls' ids, results, pictures and documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from windlass.messages import Document, Image, Text, ToolResult
from windlass.models.wires.parts import inline
from windlass.models.wires.values import safe_name

_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}\Z")


def wire_id(id: str) -> str:
    """The call's id as the wire takes it; the same for a call and its result."""
    return id if _ID.match(id) else safe_name(id)


def result_blocks(result: ToolResult, media: bool) -> Iterator[dict[str, Any]]:
    """What a tool answered. Where a result may hold words alone (`media`), files stand behind it."""
    parts: list[dict[str, Any]] = []
    behind: list[dict[str, Any]] = []
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
    if result.is_error:  # said only where it matters: some vendors do not know the word
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


def file_block(file: Image | Document) -> dict[str, Any]:
    """A picture or a document as the wire takes it, or words about it where it does not."""
    source: dict[str, Any] | None = None
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
    """A name of allowed characters that no other document of the conversation has."""
    mark = sha256((document.data or document.url or "").encode()).hexdigest()[:8]
    title = re.sub(r"[^a-zA-Z0-9()\[\]-]+", " ", document.title or "").strip()[:150]
    return f"{title or 'document'} {mark}"

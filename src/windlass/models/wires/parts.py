"""Small parts of a request that several wires write alike."""

from __future__ import annotations

import base64
from typing import Any, Final

from windlass.messages import Document, Image, ToolResult

_TEXT_LIKE: Final = ("text/", "application/json", "application/xml")


def given(body: dict[str, Any], **values: Any) -> None:
    """Set what is not None."""
    body.update({key: value for key, value in values.items() if value is not None})


def schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """A tool's schema as providers want it: of an object."""
    if parameters.get("type") == "object":
        return parameters
    return {"type": "object", "properties": {}, **parameters}


def said_error(result: ToolResult) -> str:
    """The words of a result for a wire that has no other place to say that it is an error."""
    text = result.text
    if result.is_error and not text.lower().startswith("error"):
        return f"Error: {text}"
    return text


def inline(image: Image) -> tuple[str, str] | None:
    """Media type and base64 of a picture that is here, be it in a `data:` address."""
    if image.url is None:
        return image.media_type, image.data or ""
    if not image.url.startswith("data:"):
        return None
    head, _, data = image.url[5:].partition(",")
    return head.partition(";")[0] or image.media_type, data


def readable(document: Document) -> str | None:
    """The words of a document that is text, under its title; None for any other."""
    if document.url is not None or not document.media_type.startswith(_TEXT_LIKE):
        return None
    text = base64.b64decode(document.data or "").decode("utf-8", "replace")
    return f"{document.title}:\n{text}" if document.title else text

"""What Ollama refuses, in its own words: the rules of a chat request."""

from __future__ import annotations

from base64 import b64decode
from typing import cast

from windlass.models.rules.base import Data, Rejected


def check(body: Data) -> None:
    """Raise `Rejected` for the first rule the request breaks."""
    if not body.get("model"):
        raise Rejected("model is required")
    for message in cast("list[Data]", body.get("messages") or []):
        _check_message(message)


def _check_message(message: Data) -> None:
    if message.get("role") not in ("system", "user", "assistant", "tool"):
        raise Rejected(f"invalid role: {message.get('role')}")
    if not isinstance(message.get("content", ""), str):
        raise Rejected("json: cannot unmarshal into Go struct field .messages.content")
    for image in cast("list[object]", message.get("images") or []):
        if not isinstance(image, str):
            raise Rejected("json: cannot unmarshal into Go struct field .messages.images")
        try:
            b64decode(image, validate=True)
        except ValueError:
            raise Rejected("illegal base64 data in .messages.images") from None
    for call in cast("list[Data]", message.get("tool_calls") or []):
        if not isinstance(call["function"].get("arguments"), dict):
            raise Rejected("json: cannot unmarshal string into .tool_calls.function.arguments")

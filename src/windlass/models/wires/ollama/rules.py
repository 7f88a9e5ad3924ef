"""Rules of a chat request: what Ollama refuses, with its error messages."""

from __future__ import annotations

from base64 import b64decode
from typing import cast

from windlass.models.wires.rules import Data, Rejected


def check(body: Data) -> None:
    """Raise `Rejected` for the first rule the request breaks."""
    if not body.get("model"):
        raise Rejected("model is required")
    _check_fields(body)
    for message in cast("list[Data]", body.get("messages") or []):
        _check_message(message)


def check_text(body: Data, *, inserts: bool = True) -> None:
    """Check a request to `/api/generate`; `inserts` tells whether the model can fill a gap."""
    if not body.get("model"):
        raise Rejected("model is required")
    _check_fields(body)
    if not isinstance(body.get("prompt", ""), str) or not isinstance(body.get("suffix", ""), str):
        raise Rejected("json: cannot unmarshal into Go struct field GenerateRequest.prompt")
    if body.get("raw") and (body.get("system") or body.get("template") or body.get("context")):
        raise Rejected("raw mode does not support template, system, or context")
    if body.get("suffix") and not inserts:
        raise Rejected(f"registry.ollama.ai/library/{body['model']} does not support insert")


def _check_fields(body: Data) -> None:
    think = body.get("think")
    if not (think is None or isinstance(think, bool) or think in ("high", "medium", "low", "max")):
        raise Rejected(f'invalid think value: "{think}" (must be "high", "medium", "low", "max")')
    if body.get("format") not in (None, "", "json") and not isinstance(body["format"], dict):
        raise Rejected(f'invalid format: "{body["format"]}"; expected "json" or a JSON schema')
    for option, kind in (("num_ctx", int), ("num_predict", int), ("temperature", (int, float))):
        value = cast("Data", body.get("options") or {}).get(option)
        if value is not None and not isinstance(value, kind):
            raise Rejected(f'option "{option}" must be of type integer')


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

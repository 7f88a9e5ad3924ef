"""Refusals of the fake Anthropic: a wrong key, and the rules of the wire."""

from __future__ import annotations

from windlass.models.wires.anthropic import rules as rules
from windlass.models.wires.rules import Rejected
from windlass.testing.providers.reply import Asked, signature

blocks_of = rules.blocks_of


def check(asked: Asked, api_key: str | None) -> None:
    """Raise `Rejected` for the first rule the request breaks."""
    _check_headers(asked.headers, api_key)
    check_body = rules.check_count if counting(asked) else rules.check
    check_body(asked.json, signature)


def counting(asked: Asked) -> bool:
    """Check whether the client only counts tokens."""
    return asked.path.endswith("/count_tokens")


def _check_headers(headers: dict[str, str], api_key: str | None) -> None:
    given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
    if api_key is not None and given != api_key:
        message = "invalid x-api-key" if given else "x-api-key header is required"
        raise Rejected(message, status=401)
    if "anthropic-version" not in headers:
        raise Rejected("anthropic-version: header is required")
    if not headers.get("content-type", "").startswith("application/json"):
        raise Rejected("content-type: must be application/json")

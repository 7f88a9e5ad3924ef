"""Refusals of the fake OpenAI: a wrong key, and the rules of the wire."""

from __future__ import annotations

from windlass.models.wires.openai import chat_rules as rules
from windlass.models.wires.rules import Rejected
from windlass.testing.providers.reply import Asked


def check(asked: Asked, api_key: str | None, also: frozenset[str]) -> None:
    """Raise `Rejected` for the first rule the request breaks."""
    check_headers(asked.headers, api_key)
    rules.check(asked.json, also)


def check_headers(headers: dict[str, str], api_key: str | None) -> None:
    """Check the key and the content type."""
    given = headers.get("authorization", "").removeprefix("Bearer ")
    if api_key is not None and not given:
        raise Rejected("You didn't provide an API key.", status=401, code="missing_api_key")
    if api_key is not None and given != api_key:
        raise Rejected("Incorrect API key provided.", status=401, code="invalid_api_key")
    if not headers.get("content-type", "").startswith("application/json"):
        raise Rejected("Unsupported content type; use 'application/json'.")

"""Refusals of the fake Responses server: a wrong key, and the rules of the wire."""

from __future__ import annotations

from windlass.models.wires.openai import responses_rules as rules
from windlass.testing.providers.openai_rules import check_headers
from windlass.testing.providers.reply import Asked, signature

ENCRYPTED = rules.ENCRYPTED


def check(asked: Asked, api_key: str | None) -> None:
    """Raise `Rejected` for the first rule the request breaks."""
    check_headers(asked.headers, api_key)
    rules.check(asked.json, signature)

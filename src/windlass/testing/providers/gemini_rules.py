"""Refusals of the fake Gemini: a wrong key, and the rules of the wire."""

from __future__ import annotations

from windlass.models.wires.gemini import rules as rules
from windlass.models.wires.rules import Data, Rejected
from windlass.testing.providers.reply import signature

FOREIGN = rules.FOREIGN
only, normalize = rules.only, rules.normalize


def check(body: Data, given: str, api_key: str | None, *, ids: bool) -> None:
    """Raise `Rejected` for the first rule the request breaks."""
    if api_key is not None and given != api_key:
        if ids:
            message = "API key not valid. Please pass a valid API key."
            raise Rejected(message, code="API_KEY_INVALID")
        raise Rejected("Request had invalid authentication credentials.", status=401)
    rules.check(body, signature, ids=ids)


def call_signature(name: str) -> str:
    """Build the signature of a turn's first call, which the fake expects back."""
    return signature(f"call {name}")

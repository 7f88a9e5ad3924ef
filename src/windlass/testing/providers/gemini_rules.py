"""What the fake Gemini refuses: a wrong key, and whatever the rules of the wire say."""

from __future__ import annotations

from windlass.models.wires.gemini import rules as rules
from windlass.models.wires.rules import Data, Rejected
from windlass.testing.providers.reply import signature

FOREIGN = rules.FOREIGN
only = rules.only


def check(body: Data, given: str, api_key: str | None, *, ids: bool) -> None:
    """Raise `Rejected` for the first rule the request breaks."""
    if api_key is not None and given != api_key:
        if ids:
            words = "API key not valid. Please pass a valid API key."
            raise Rejected(words, code="API_KEY_INVALID")
        raise Rejected("Request had invalid authentication credentials.", status=401)
    rules.check(body, signature, ids=ids)


def call_signature(name: str) -> str:
    """The mark the fake puts on the first call of a turn, and wants to see again there."""
    return signature(f"call {name}")

"""Refusals of the fake Bedrock: a wrong key, and the rules of the wire."""

from __future__ import annotations

from windlass.models.wires.bedrock import rules as rules
from windlass.models.wires.rules import Rejected
from windlass.testing.providers.reply import Asked, signature


def check(asked: Asked, api_key: str | None) -> None:
    """Raise `Rejected` for the first rule the request breaks."""
    given = asked.headers.get("authorization", "")
    if api_key is not None and not given.startswith("AWS4-HMAC-SHA256 "):
        if given != f"Bearer {api_key}":
            raise Rejected("The security token included in the request is invalid.", status=403)
    check_body = rules.check_count if counting(asked) else rules.check
    check_body(asked.json, signature)


def counting(asked: Asked) -> bool:
    """Check whether the client only counts tokens."""
    return asked.path.endswith("/count-tokens")

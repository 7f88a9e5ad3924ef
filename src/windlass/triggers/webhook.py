"""Webhooks: an ASGI app that fires triggers on signed requests, to be mounted in any app.

Two ways of signing are understood: Standard Webhooks (`webhook-id`, `webhook-timestamp`,
`webhook-signature`), and `X-Hub-Signature-256` as GitHub sends it. A request that came before fires
nothing again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from windlass import seams
from windlass.conditions.trigger_spec import WebhookSpec, from_stored_spec
from windlass.engine.ownership import SessionScope
from windlass.json_types import JsonObject, is_list
from windlass.options.checks import number
from windlass.store.base import Store
from windlass.store.open import Address
from windlass.store.trigger_rows import TriggerRow, claim_trigger, load_triggers, read_trigger
from windlass.store.wishes import Transaction
from windlass.triggers.action import Firing, perform

MAX_BODY: Final = 1_000_000
TOLERANCE: Final = 300.0  # seconds that a signed time may differ from ours
_MOST_SEEN: Final = 1000  # requests that a trigger remembers
_TRIES: Final = 20
_LONGEST_HEADER: Final = 2000

log = logging.getLogger("windlass.triggers")
Headers: TypeAlias = Mapping[str, str]
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]


class WebhookApp:
    """An ASGI app that answers `POST` on the paths of webhook triggers; see `webhook_app`."""

    def __init__(self, store: Address | None, max_body: int, tolerance: float) -> None:
        self._store, self._max_body, self._tolerance = store, max_body, tolerance

    async def __call__(self, scope: JsonObject, receive: Receive, send: Send) -> None:
        """Answer one request; a lifespan is acknowledged."""
        if scope["type"] == "lifespan":
            await _follow_lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        status, answer = await self._answer(scope, receive)
        body = msgspec.json.encode(answer)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: JsonObject, receive: Receive) -> tuple[int, JsonObject]:
        if scope.get("method") != "POST":
            return 405, {"error": "send a POST"}
        body = await _read_body(receive, self._max_body)
        if body is None:
            return 413, {"error": f"a body has at most {self._max_body} bytes"}
        path = str(scope.get("path", ""))
        path = path.removeprefix(str(scope.get("root_path") or "")) or "/"
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")[:_LONGEST_HEADER]
            for name, value in scope.get("headers", ())
        }
        home = SessionScope.current(self._store, None).home
        found = [
            (row, spec)
            for row in await load_triggers(home, "webhook")
            if (spec := _read_spec(row)) is not None and spec.path == path
        ]
        if not found:
            return 404, {"error": "there is no webhook here"}
        fired: list[str] = []
        known = False
        for row, spec in found:
            secret = os.environ.get(spec.secret_env)
            if not secret:
                log.error("trigger %s: %s is not set", row.id, spec.secret_env)
                continue
            delivery = verify_signature(secret, headers, body, seams.now(), self._tolerance)
            if delivery is None:
                continue
            known = True
            if await self._fire(home, row.id, delivery, body):
                fired.append(row.id)
        if not known:
            return 401, {"error": "the signature is missing, wrong or too old"}
        return 202 if fired else 200, {"fired": len(fired)}

    async def _fire(self, home: Store, trigger_id: str, delivery: str, body: bytes) -> bool:
        """Fire a trigger for a delivery; False if it came before."""
        now, data = seams.now(), {"webhook": _parse_body(body)}
        for _ in range(_TRIES):

            def fire(tx: Transaction) -> bool | None:
                row = read_trigger(tx, trigger_id)
                if row is None:
                    return False
                seen: object = row.state.get("seen")
                seen = list(seen) if is_list(seen) else []
                if delivery in seen:
                    return False
                firing = Firing(at=now, data=data)
                kept = [*seen, delivery][-_MOST_SEEN:]
                state: JsonObject = {**row.state, "seen": kept, "last": firing.describe()}
                if not claim_trigger(tx, row, None, state):
                    return None  # another request came first: look again
                perform(tx, row, firing)
                return True

            if (outcome := await home.commit(fire)) is not None:
                return outcome
        return False


def webhook_app(
    store: Address | None = None, *, max_body: int = MAX_BODY, tolerance: float = TOLERANCE
) -> WebhookApp:
    """Build an ASGI app that fires webhook triggers: `app.mount("/hooks", w.webhook_app())`.

    Requests must be signed with the secret in the environment variable of the trigger; see the page
    on triggers. Bodies above `max_body` bytes, and signed times more than `tolerance` seconds away,
    are refused.
    """
    number(1, whole=True)("max_body", max_body)
    number(0)("tolerance", tolerance)
    return WebhookApp(store, max_body, tolerance)


def verify_signature(
    secret: str, headers: Headers, body: bytes, now: float, tolerance: float
) -> str | None:
    """Check the signature of a request; return what tells this delivery from others, or None."""
    standard = headers.get("webhook-signature")
    if standard is not None:
        return _verify_standard(secret, headers, standard, body, now, tolerance)
    hub = headers.get("x-hub-signature-256")
    if hub is None:
        return None
    wanted = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(wanted.encode(), hub.strip().encode("latin-1", "replace")):
        return None
    # The header that names the delivery is not signed: only the body tells two of them apart.
    return hashlib.sha256(body).hexdigest()[:32]


def _verify_standard(
    secret: str, headers: Headers, given: str, body: bytes, now: float, tolerance: float
) -> str | None:
    name, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not name or not (at.isascii() and at.isdigit() and len(at) <= 12):
        return None
    if abs(now - int(at)) > tolerance:
        return None
    signed = f"{name}.{at}.".encode("latin-1", "replace") + body
    digest = hmac.new(_read_key(secret), signed, hashlib.sha256).digest()
    wanted = base64.b64encode(digest)
    for one in given.split():
        version, _, value = one.partition(",")
        if version == "v1" and hmac.compare_digest(wanted, value.encode("latin-1", "replace")):
            return hashlib.sha256(signed).hexdigest()[:32]
    return None


def _read_key(secret: str) -> bytes:
    """Return the key of a secret; those of Standard Webhooks are in base64 behind `whsec_`."""
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except ValueError:
            pass
    return secret.encode()


def _read_spec(row: TriggerRow) -> WebhookSpec | None:
    try:
        spec = from_stored_spec(row.spec)
    except msgspec.DecodeError:
        return None
    return spec if isinstance(spec, WebhookSpec) else None


def _parse_body(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return body.decode("utf-8", "replace")


async def _read_body(receive: Receive, limit: int) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None  # the client has left
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


async def _follow_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return

"""One request to an ASGI app, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import windlass as w
from windlass.server.generate import generate_app

ANN = w.Caller("ann", tenant="acme")


class Reply(NamedTuple):
    """What a client got: the JSON of a body, or the events of a stream."""

    status: int
    body: Any
    text: str

    @property
    def error(self) -> Any:
        """The error's document, wherever it came."""
        if isinstance(self.body, list):
            [found] = [data for name, data in self.body if name == "error"]
            return found
        return self.body


def who(headers: Mapping[str, str]) -> w.Caller | None:
    return ANN


async def post(app: Any, document: Any, *, raw: bytes | None = None, **headers: str) -> Reply:
    """Post a document; `raw` is sent as it is."""
    body = json.dumps(document).encode() if raw is None else raw
    pieces = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if pieces:
            return pieces.pop()
        await asyncio.Event().wait()

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"content_type": "application/json", **headers}
    names = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
    await app({"type": "http", "method": "POST", "headers": names}, receive, send)
    text = b"".join(one.get("body", b"") for one in sent[1:]).decode()
    kind = dict(sent[0]["headers"])[b"content-type"]
    if kind == b"text/event-stream":
        events: list[tuple[str, Any]] = []
        for block in text.split("\n\n"):
            if block.startswith("event: "):
                name, _, data = block.removeprefix("event: ").partition("\ndata: ")
                events.append((name, json.loads(data)))
        return Reply(sent[0]["status"], events, text)
    return Reply(sent[0]["status"], json.loads(text), text)


def app_of(runtime: w.Runtime, model: Any, **options: Any) -> Any:
    return generate_app(runtime, options.pop("identify", who), model=model, **options)

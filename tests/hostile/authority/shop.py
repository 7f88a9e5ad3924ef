"""A shop of two tenants, an attacker with four doors to it, and what the doors show.

The attacker is eve of the tenant evil. What she sees through a door comes back as one text.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import windlass as w
from windlass.resources import audit
from windlass.resources.row import ResourcePlan, plan_of
from windlass.server.generate import generate_app
from windlass.testing import call, scripted

ANN = w.Caller("ann", ("clerk",), "acme")
EVE = w.Caller("eve", (), "evil")
ROOT = w.Caller("root", ("owner",), "evil")
SECRET = "the secret of acme"


class Item(w.Resource):
    """A thing."""

    id: str
    name: str
    price: float = 0.0
    whole: int = 0
    data: dict[str, Any] = {}
    mcp_tools = ("copy",)

    def copy(self, tx: w.ResourceTx, source: str) -> Item:
        """Take the name of another."""
        found = tx.get(Item, source)
        if found is None:
            raise w.Retry(f"there is no {source[:40]!r}")
        self.name = found.name
        return tx.save(self)


class Mine(w.Resource):
    """What only its owner sees."""

    id: str
    owner: str
    words: str = ""

    def allow_read(self, caller: w.Caller) -> bool:
        return self.owner == caller.user


@asynccontextmanager
async def shop(place: str, **options: Any) -> AsyncIterator[w.Runtime]:
    """Open a shop: five plain rows of evil, one secret row of acme, and one of root's."""
    async with w.Runtime(store=place, environ={}, resources=[Item, Mine], **options) as scope:
        items = scope.resources[Item]
        await items.create(id="a1", name=SECRET, price=1.0, caller=ANN)
        for number in range(5):
            await items.create(id=f"e{number}", name="plain", price=float(number), caller=ROOT)
        await scope.resources[Mine].create(id="m1", owner="root", words=SECRET, caller=ROOT)
        yield scope


async def acme(scope: w.Runtime) -> list[Any]:
    """Return the rows of acme, as they are."""
    sql = "SELECT id, name, price, _version FROM item WHERE _tenant = 'acme' ORDER BY id"
    return await scope.store.consult(lambda tx: [tuple(r) for r in tx.execute(sql).fetchall()])


async def naive(scope: w.Runtime, sql: str) -> str:
    """Run a statement as naive code would that puts texts into it."""
    found = await scope.store.consult(lambda tx: [tuple(r) for r in tx.execute(sql).fetchall()])
    return str(found)


def without_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch the defence off: statements about items are bound to no tenant."""
    plan = plan_of(Item)
    monkeypatch.setattr(plan, "mine", "1 = 1")
    monkeypatch.setattr(plan, "statements", {})  # what is made meanwhile is not kept
    monkeypatch.setattr(ResourcePlan, "mine_of", lambda self, tenant: ())
    monkeypatch.setattr(plan, "select_one", plan.select_one.replace('"_tenant" = ?', "1 = 1"))


# --------------------------------------------------------------------------- doors


async def by_handle(scope: w.Runtime, tool: str, arguments: Any, caller: w.Caller = EVE) -> str:
    """Call through the host's own object, without a schema before it."""
    items, verb = scope.resources[Item], tool.partition("_")[0]
    given = dict(arguments)
    try:
        match verb:
            case "create":
                made: Any = await items.create(given, caller=caller)
            case "update" | "delete" | "get" | "search":
                made = await getattr(items, verb)(**given, caller=caller)
            case _:
                made = await items.run(verb, given.pop("id", None), **given, caller=caller)
    except w.WindlassError as error:
        return _told(error)
    return shown(made)


async def by_name(scope: w.Runtime, tool: str, arguments: Any, caller: w.Caller = EVE) -> str:
    """Call by name, as a host that does what it is asked."""
    try:
        return shown(await scope.resources.call(tool, arguments, caller=caller))
    except w.WindlassError as error:
        return _told(error)


async def by_agent(scope: w.Runtime, tool: str, arguments: Any, caller: w.Caller = EVE) -> str:
    """Call through a model that the attacker controls; return all that it reads."""
    model = scripted(call(tool, **arguments), "ok")
    agent = w.Agent(model, tools=scope.resources.tools(), max_turns=4)
    out = await agent.run("go", caller=caller)
    assert out.status == "done", (out.status, out.error)
    read = [str(msgspec.to_builtins(one)) for request in model.requests for one in request.messages]
    return "\n".join([*read, *[str(record.result) for record in out.tool_calls]])


async def by_http(scope: w.Runtime, tool: str, arguments: Any, caller: w.Caller = EVE) -> str:
    """Call through the same model behind `generate`, over HTTP."""
    model = scripted(call(tool, **arguments), "ok")
    asked = {"input": "go", "stream": False, "include_tool_trace": True}
    status, body = await post(app_of(scope, model, caller), asked)
    assert status == 200, body
    return body


DOORS = {"handle": by_handle, "name": by_name, "agent": by_agent, "http": by_http}


def shown(made: Any) -> str:
    """Return all of an answer as text."""
    if isinstance(made, w.Page):
        return str([[msgspec.to_builtins(one) for one in made.rows], made.cursor])
    return str(msgspec.to_builtins(made))


def _told(error: w.WindlassError) -> str:
    return f"{type(error).__name__}: {error}"


def app_of(scope: w.Runtime, model: w.Model, caller: w.Caller | None = None, **options: Any) -> Any:
    """Build the app; everyone is the caller, or the one that the header names."""
    known = {"ann": ANN, "eve": EVE, "root": ROOT}

    def who(headers: Mapping[str, str]) -> w.Caller | None:
        return caller or known.get(headers.get("authorization", ""))

    return generate_app(scope, who, model=model, **{"include_tool_trace": True, **options})


async def post(
    app: Any, document: Any, *headers: tuple[bytes, bytes], raw: bytes | None = None
) -> tuple[int, str]:
    """Send one request to the app; return its status and all that it sent."""
    body = json.dumps(document).encode() if raw is None else raw
    sent: list[Any] = []
    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if incoming:
            return incoming.pop(0)
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    head = [(b"content-type", b"application/json"), *headers]
    await app({"type": "http", "method": "POST", "headers": head}, receive, send)
    text = b"".join(one.get("body", b"") for one in sent[1:]).decode()
    return sent[0]["status"], text


# --------------------------------------------------------------------------- cursors


def opened(cursor: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(cursor + "=="))


def closed(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


async def logged(scope: w.Runtime) -> list[w.AuditRow]:
    """Return the audit log, which must verify."""
    rows = await scope.resources.audit()
    audit.verify(rows)
    return rows

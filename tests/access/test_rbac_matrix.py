"""Who may do what: every entry point x role x verb x tenant x {list, call, resume}, against one table.

The table below is written by hand; the cells are what happens. They are the same in every place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

import windlass as w
from windlass.engine import environment as runtimes
from windlass.server.generate import generate_app
from windlass.testing import call, no_model_requests, scripted


class Item(w.Resource):
    """Something on a shelf."""

    id: str
    name: str
    stock: int = 0
    mcp_tools = ("restock",)

    def restock(self, tx: w.ResourceTx, amount: int) -> Item:
        """Put more of it on the shelf."""
        self.stock += amount
        return tx.save(self)


GRANTS = {
    "reader": ["item.get", "item.search"],
    "clerk": ["item.*", "!item.delete"],
    "stocker": ["item.restock", "item.get"],
    "manager": ["*"],
}
VERBS = ("get", "search", "create", "update", "delete", "restock")
#: What each role may do. `revoked` comes as a manager who is none any more.
TABLE = {
    "none": "",
    "reader": "get search",
    "clerk": "get search create update restock",
    "stocker": "get restock",
    "manager": "get search create update delete restock",
    "reader+stocker": "get search restock",
    "clerk+manager": "get search create update restock",
    "revoked": "",
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "get": {"id": "i1"},
    "search": {"where": {"name": "pen"}},
    "create": {"id": "new", "name": "cup"},
    "update": {"id": "i1", "values": {"stock": 9}},
    "delete": {"id": "i1"},
    "restock": {"id": "i1", "amount": 9},
}
TENANTS = ("own", "other")  # whose rows are there
Entry: TypeAlias = Callable[[w.Runtime, w.Caller, str, dict[str, Any]], Awaitable[str]]


def caller_of(role: str) -> w.Caller:
    names = {"none": (), "revoked": ("manager",)}.get(role, tuple(role.split("+")))
    return w.Caller("ann", names, "acme")


def outcome_of(record: Any) -> str:
    if record.outcome == "ok":
        return "empty" if record.result.startswith('{"rows":[]') else "ok"
    if "not_found" in record.result:
        return "missing"
    return "refused" if record.outcome in ("denied", "unknown_tool") else record.result


def failure_of(error: Exception) -> str:
    if isinstance(error, w.PermissionDenied):
        return "refused"
    return "missing" if isinstance(error, w.NotFound) else repr(error)


async def agent(scope: w.Runtime, who: w.Caller, tool: str, args: dict[str, Any]) -> str:
    """All tools are offered: only the check of the call itself stands in the way."""
    model = scripted(call(tool, **args), "ok")
    out = await w.Agent(model, tools=scope.tools()).run("go", caller=who)
    return outcome_of(out.tool_calls[0])


async def loop(scope: w.Runtime, who: w.Caller, tool: str, args: dict[str, Any]) -> str:
    model = scripted(call(tool, **args), "ok")
    out = await w.agent_loop("go", model=model, tools=scope.tools(), caller=who)
    return outcome_of(out.tool_calls[0])


async def streamed(scope: w.Runtime, who: w.Caller, tool: str, args: dict[str, Any]) -> str:
    model = scripted(call(tool, **args), "ok")
    async with w.Agent(model, tools=scope.tools()).stream("go", caller=who) as run:
        out = await run.result()
    return outcome_of(out.tool_calls[0])


async def delegated(scope: w.Runtime, who: w.Caller, tool: str, args: dict[str, Any]) -> str:
    inner = scripted(call(tool, **args), "ok")
    child = w.Agent(inner, name="child", tools=scope.tools())
    model = scripted(call("child", task="do it"), "ok")
    await w.Agent(model, tools=[child.as_tool()]).run("go", caller=who)
    [answer] = [
        b for m in inner.requests[1].messages for b in m.content if isinstance(b, w.ToolResult)
    ]
    return outcome_of(_Seen(answer))


class _Seen:
    def __init__(self, result: w.ToolResult) -> None:
        self.outcome, self.result = result.outcome, result.text


async def generated(scope: w.Runtime, who: w.Caller, tool: str, args: dict[str, Any]) -> str:
    model = scripted(call(tool, **args), "ok")
    out = await scope.models.generate("go", model=model, caller=who, include_tool_trace=True)
    assert out.trace is not None
    return outcome_of(_Step(out.trace[2]))


class _Step:
    def __init__(self, step: w.ToolTraceEntry) -> None:
        self.outcome, self.result = step.outcome, step.content


async def served(scope: w.Runtime, who: w.Caller, tool: str, args: dict[str, Any]) -> str:
    """The app as a server calls it."""
    import msgspec

    model = scripted(call(tool, **args), "ok")
    app = generate_app(scope, lambda headers: who, model=model, include_tool_trace=True)
    body = msgspec.json.encode({"input": "go", "stream": False, "include_tool_trace": True})
    sent: list[Any] = []
    asked = iter([{"type": "http.request", "body": body}])

    async def receive() -> Any:
        import asyncio

        for message in asked:
            return message
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    await app({"type": "http", "method": "POST", "headers": headers}, receive, send)
    trace = msgspec.json.decode(sent[1]["body"])["trace"]
    return outcome_of(_Step(w.ToolTraceEntry(**trace[2])))


async def host(scope: w.Runtime, who: w.Caller, tool: str, args: dict[str, Any]) -> str:
    """A host's own call, by the tool's name."""
    try:
        value = await scope.resources.call(tool, args, caller=who)
    except (w.PermissionDenied, w.ResourceError) as error:
        return failure_of(error)
    return "empty" if hasattr(value, "rows") and not value.rows else "ok"


async def handle(scope: w.Runtime, who: w.Caller, tool: str, args: dict[str, Any]) -> str:
    """A host's own call, in Python."""
    items, verb = scope.resources[Item], tool.removesuffix("_item")
    try:
        if verb == "restock":
            value = await items.run("restock", args["id"], amount=args["amount"], caller=who)
        elif verb == "create":
            value = await items.create(args, caller=who)
        elif verb == "search":
            value = await items.search(args["where"], caller=who)
        else:
            value = await getattr(items, verb)(**args, caller=who)
    except (w.PermissionDenied, w.ResourceError) as error:
        return failure_of(error)
    return "empty" if hasattr(value, "rows") and not value.rows else "ok"


async def resumed(scope: w.Runtime, who: w.Caller, tool: str, args: dict[str, Any]) -> str:
    """The call waits for a yes, gets it, and runs in another drive."""
    policy: Any = {"rules": [{"ask": "*"}], "guards": False}
    model = scripted(call(tool, **args), "ok")
    made = w.Agent(model, tools=scope.tools(), approval_policy=policy)
    before = w.Caller(who.user, ("manager",), who.tenant) if _loses.get(scope) else who
    out = await made.run("go", session_id="s", caller=before)
    assert out.status == "suspended"
    _lose(scope)
    [waiting] = await w.approvals()
    await w.approve(waiting.id)
    return outcome_of((await made.resume("s")).tool_calls[0])


async def resumed_child(scope: w.Runtime, who: w.Caller, tool: str, args: dict[str, Any]) -> str:
    policy: Any = {"rules": [{"ask": tool}], "guards": False}
    inner = scripted(call(tool, **args), "ok")
    child = w.Agent(inner, name="child", tools=scope.tools(), approval_policy=policy)
    parent = w.Agent(scripted(call("child", task="do it"), "ok"), tools=[child.as_tool()])
    assert (await parent.run("go", session_id="s", caller=who)).status == "suspended"
    _lose(scope)
    [waiting] = await w.approvals()
    await w.approve(waiting.id)
    await parent.resume("s")
    [answer] = [
        b for m in inner.requests[1].messages for b in m.content if isinstance(b, w.ToolResult)
    ]
    return outcome_of(_Seen(answer))


ENTRIES: dict[str, Entry] = {
    "agent": agent,
    "agent_loop": loop,
    "stream": streamed,
    "sub-agent": delegated,
    "generate": generated,
    "http": served,
    "host by name": host,
    "host": handle,
    "resume": resumed,
    "resume of a sub-agent": resumed_child,
}
_loses: dict[w.Runtime, bool] = {}


def _lose(scope: w.Runtime) -> None:
    """A role is taken away while the run waits."""
    if _loses.get(scope):
        scope.roles.revoke("manager", user="ann")


def expected(role: str, verb: str, tenant: str) -> str:
    if verb not in TABLE[role].split():
        return "refused"
    if tenant == "own" or verb == "create":
        return "ok"
    return "empty" if verb == "search" else "missing"


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "_default", w.Runtime(store="memory:", environ={}))


async def cell(entry: str, role: str, verb: str, tenant: str) -> str:
    """What happens, in a world of its own; and whatever was said, nobody else's row has moved."""
    scope = w.Runtime(store="memory:", environ={}, resources=[Item], roles=GRANTS)
    owner = w.Caller("bob", ("manager",), "acme" if tenant == "own" else "evil")
    async with scope:
        items = scope.resources[Item]
        await items.create({"id": "i1", "name": "pen", "stock": 1}, caller=owner)
        _loses[scope] = role == "revoked"
        if role == "revoked" and not entry.startswith("resume"):
            _lose(scope)
        try:
            found = await ENTRIES[entry](scope, caller_of(role), f"{verb}_item", ARGUMENTS[verb])
        finally:
            del _loses[scope]
        if tenant == "other" or found != "ok" or verb in ("get", "search", "create"):
            row = await items.get("i1", caller=owner)
            assert (row.name, row.stock, row.version) == ("pen", 1, 1)
            made = await items.search({"id": "new"}, caller=owner)
            assert bool(made.rows) is (found == "ok" and verb == "create" and tenant == "own")
    return found


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("role", TABLE)
async def test_every_cell_is_what_the_table_says(entry: str, role: str, quiet: None):
    with no_model_requests():
        for verb in VERBS:
            for tenant in TENANTS:
                found = await cell(entry, role, verb, tenant)
                assert found == expected(role, verb, tenant), (entry, role, verb, tenant)


@pytest.mark.parametrize("role", TABLE)
async def test_what_is_listed_is_what_may_be_called(role: str, quiet: None):
    scope = w.Runtime(store="memory:", environ={}, resources=[Item], roles=GRANTS)
    async with scope:
        if role == "revoked":
            scope.roles.revoke("manager", user="ann")
        allowed = {f"{verb}_item" for verb in TABLE[role].split()}
        assert {tool.name for tool in scope.tools(caller_of(role))} == allowed
        model = scripted("ok", "ok")
        await scope.models.generate("go", model=model, caller=caller_of(role))
        assert {tool.name for tool in model.requests[0].tools} == allowed
        async for _ in scope.models.generate_stream("go", model=model, caller=caller_of(role)):
            pass
        assert {tool.name for tool in model.requests[1].tools} == allowed

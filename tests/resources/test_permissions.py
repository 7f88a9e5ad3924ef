"""Who may do what: roles and hooks, asked when a call runs; the whole matrix, generated."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

import windlass as w
from windlass.testing import call, scripted

ROLES = {
    "reader": ["doc.get", "doc.search"],
    "writer": ["doc.get", "doc.search", "doc.create", "doc.update"],
    "admin": ["*"],
    "careful": ["doc.*", "!doc.delete"],
    "*": ["doc.ping"],
}
VERBS = ("get", "search", "create", "update", "delete", "stamp", "ping")
ALLOWED = {
    (): {"ping"},
    ("reader",): {"get", "search", "ping"},
    ("writer",): {"get", "search", "create", "update", "ping"},
    ("admin",): set(VERBS),
    ("careful",): set(VERBS) - {"delete"},
    ("admin", "careful"): set(VERBS) - {"delete"},  # a refusal outweighs every grant
    ("stranger",): {"ping"},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "get": {"id": "d1"},
    "search": {},
    "create": {"text": "new"},
    "update": {"id": "d1", "values": {"text": "changed"}},
    "delete": {"id": "d1"},
    "stamp": {"id": "d1"},
    "ping": {},
}


class Doc(w.Resource):
    id: str
    text: str
    mcp_tools = ["stamp", "ping"]

    def stamp(self, tx: w.ResourceTx) -> Doc:
        """Stamp it."""
        self.text += "!"
        return tx.save(self)

    @classmethod
    def ping(cls) -> str:
        """Is anybody there?"""
        return "pong"


async def outcome(scope: w.Runtime, door: str, verb: str, caller: w.Caller) -> str:
    """ok, denied or missing, through this door."""
    name, arguments = f"{verb}_doc", ARGUMENTS[verb]
    if door == "list":
        return "ok" if name in [one.name for one in scope.tools(caller)] else "denied"
    if door == "host":
        try:
            found = await scope.resources.call(name, arguments, caller=caller)
        except w.PermissionDenied:
            return "denied"
        except w.NotFound:
            return "missing"
        return "missing" if verb == "search" and not found.rows else "ok"
    script = [call(name, **arguments), "done"]
    async with scope:
        if door == "agent_loop":
            await w.agent_loop(
                "go",
                model=scripted(*script),
                tools=list(scope.resources),
                caller=caller,
                session_id="s",
            )
        elif door == "Agent":
            await w.Agent(scripted(*script), tools=scope.tools()).run(
                "go", caller=caller, session_id="s"
            )
        else:
            ask = w.Tool(name="ask", description="Ask.", parameters={})
            agent = w.Agent(scripted(call("ask"), *script), tools=[*scope.tools(), ask])
            parked = await agent.run("go", caller=caller, session_id="s")
            assert parked.status == "suspended"
            done = await agent.resume("s", results={parked.pending[0].id: "yes"})
            assert done.status == "done", done.error
        entries = await w.agent_session_read("s")
    results = [e for e in _results(entries) if e.name == name]
    assert len(results) == 1
    if results[0].outcome == "denied":
        told = json.loads(results[0].text)
        assert (told["error"], told["tool"]) == ("permission_denied", name) and told["reason"]
        return "denied"
    if results[0].is_error:
        assert json.loads(results[0].text)["error"] == "not_found"
        return "missing"
    return "missing" if '"rows":[]' in results[0].text else "ok"


def _results(session: Any) -> list[w.ToolResult]:
    messages = session.messages if hasattr(session, "messages") else session
    return [b for m in messages for b in m.content if isinstance(b, w.ToolResult)]


@pytest.mark.parametrize("door", ["list", "host", "agent_loop", "Agent", "resume"])
@pytest.mark.parametrize("roles", ALLOWED, ids="+".join)
async def test_the_matrix(roles, door):
    for verb, tenant in itertools.product(VERBS, ("acme", "evil", None)):
        scope = w.Runtime(environ={}, resources=[Doc], roles=ROLES)
        owner = w.Caller("root", ("admin",), "acme")
        await scope.resources[Doc].create(id="d1", text="first", caller=owner)
        caller = w.Caller("ann", roles, tenant)
        found = await outcome(scope, door, verb, caller)
        expected = "ok" if verb in ALLOWED[roles] else "denied"
        own_row = verb in ("create", "ping") or door == "list"
        if expected == "ok" and tenant != "acme" and not own_row:
            expected = "missing"
        assert found == expected, (door, roles, verb, tenant)
        row = await _row(scope, owner)
        touched = expected == "ok" and door != "list" and tenant == "acme"
        changed = {"update": "changed", "stamp": "first!", "delete": None}
        assert row == (changed.get(verb, "first") if touched else "first")
        denials = await scope.resources.audit(outcome="denied")
        assert len(denials) == (expected == "denied" and door != "list")


async def _row(scope: w.Runtime, owner: w.Caller) -> str | None:
    rows = (await scope.resources[Doc].search(caller=owner)).rows
    return next((one.text for one in rows if one.id == "d1"), None)


async def test_a_role_revoked_in_the_middle_of_a_run_bites_on_the_next_call():
    scope = w.Runtime(environ={}, resources=[Doc], roles=ROLES)
    ann = w.Caller("ann", ("writer",), "acme")

    @w.tool
    async def dismiss() -> str:
        """Ann has been let go."""
        scope.roles.revoke("writer", user="ann", tenant="acme")
        return "gone"

    model = scripted(
        call("create_doc", text="x"), call("dismiss"), call("create_doc", text="y"), "z"
    )
    async with scope:
        out = await w.Agent(model, tools=[*scope.tools(ann), dismiss]).run("go", caller=ann)
    assert [one.outcome for one in out.tool_calls] == ["ok", "ok", "denied"]
    assert "create_doc" not in [one.name for one in scope.tools(ann)]
    scope.roles.restore("writer", user="ann", tenant="acme")
    assert "create_doc" in [one.name for one in scope.tools(ann)]
    scope.roles.revoke("writer", "doc.create")
    assert not scope.roles.allows(ann, "doc.create") and scope.roles.allows(ann, "doc.update")
    scope.roles.revoke("writer")
    assert not scope.roles.allows(ann, "doc.update")


def test_what_is_revoked_must_be_there_and_everywhere_means_everywhere():
    roles = w.Roles(ROLES)
    for wrong in (("writr",), ("writer", "doc.delete"), ("nobody",)):
        with pytest.raises(w.ConfigError, match="to take"):
            roles.revoke(*wrong)
    with pytest.raises(w.ConfigError, match="leave the patterns out"):
        roles.revoke("writer", "doc.create", user="ann")
    with pytest.raises(w.ConfigError, match="to take"):
        w.Roles().revoke("writer")  # where all may, taking from one would close it to everybody
    roles.revoke("writer", user="ann")
    for tenant in ("acme", None):
        assert not roles.allows(w.Caller("ann", ("writer",), tenant), "doc.create")
    assert roles.allows(w.Caller("ben", ("writer",), "acme"), "doc.create")
    roles.restore("writer", user="ann")
    roles.revoke("writer", user="ann", tenant=None)
    assert roles.allows(w.Caller("ann", ("writer",), "acme"), "doc.create")
    assert not roles.allows(w.Caller("ann", ("writer",)), "doc.create")


async def test_who_has_which_role_may_be_asked_elsewhere_at_every_call():
    held = {"ann": ["writer"]}
    roles = w.Roles(ROLES, current=lambda caller: held.get(caller.user, []))
    scope = w.Runtime(environ={}, resources=[Doc], roles=roles)
    docs, ann = (
        scope.resources[Doc],
        w.Caller("ann", ("admin",), "acme"),
    )  # what he says is not asked
    await docs.create(text="x", caller=ann)
    held["ann"] = ["reader"]
    with pytest.raises(w.PermissionDenied, match="roles: reader"):
        await docs.create(text="y", caller=ann)

    def broken(caller: w.Caller) -> list[str]:
        raise OSError("the directory is down")

    down = w.Runtime(environ={}, resources=[Doc], roles=broken)
    with pytest.raises(w.PermissionDenied, match="the directory is down"):
        await down.resources[Doc].search(caller=ann)


async def test_roles_from_the_configuration(tmp_path):
    (tmp_path / "windlass.toml").write_text(
        '[roles.grants]\nreader = ["doc.get", "doc.search"]\n', encoding="utf-8"
    )
    scope = w.Runtime(config=tmp_path / "windlass.toml", environ={}, resources=[Doc])
    names = [one.name for one in scope.tools(w.Caller("ann", ("reader",)))]
    assert names == ["get_doc", "search_doc"]


async def test_without_any_roles_every_caller_may_within_his_tenant():
    scope = w.Runtime(environ={}, resources=[Doc])
    assert len(scope.tools(w.Caller("anyone"))) == len(VERBS)
    await scope.resources[Doc].create(text="x")


@pytest.mark.parametrize(
    "given",
    [
        {"r": ["product get"]},
        {"r": [3]},
        {"": ["a.b"]},
        ["admin"],
        3,
        {"r": ["a.b", "!"]},
    ],
)
def test_grants_that_mean_nothing_are_refused(given):
    with pytest.raises(w.ConfigError):
        w.Runtime(environ={}, roles=given)


# --------------------------------------------------------------------------- hooks


class Page(w.Resource):
    id: str
    owner: str
    text: str = ""
    mcp_tools = ["stamp", "publish"]

    def allow_read(self, caller: w.Caller) -> bool | str:
        return self.owner in (caller.user, "all") or "it is not yours"

    def allow_create(self, caller: w.Caller) -> bool:
        return self.owner == caller.user

    def allow_update(self, caller: w.Caller) -> bool:
        return self.owner == caller.user

    def allow_delete(self, caller: w.Caller) -> Any:
        return (
            "yes, of course"
            if caller.user == "liar"
            else None
            if caller.user == "nobody"
            else 1 / 0
        )

    def allow_publish(self, caller: w.Caller) -> bool:
        return "editor" in caller.roles

    def stamp(self, tx: w.ResourceTx) -> str:
        """Stamp it."""
        return "stamped"

    def publish(self, tx: w.ResourceTx) -> str:
        """Publish it."""
        return "published"


ANN, BEN = w.Caller("ann", (), "acme"), w.Caller("ben", ("editor",), "acme")


@pytest.fixture
async def pages(runtime):
    handle = (await runtime(Page)).resources[Page]
    await handle.create(id="a", owner="ann", caller=ANN)
    await handle.create(id="b", owner="ben", caller=BEN)
    return handle


async def test_hooks_see_the_row(pages):
    assert (await pages.get("a", caller=ANN)).owner == "ann"
    with pytest.raises(w.PermissionDenied, match="it is not yours"):
        await pages.get("b", caller=ANN)
    with pytest.raises(w.PermissionDenied):
        await pages.create(owner="ben", caller=ANN)
    with pytest.raises(w.PermissionDenied):
        await pages.update("b", {"text": "x"}, caller=ANN)
    with pytest.raises(w.PermissionDenied):  # nor may it become what one could not change
        await pages.update("a", {"owner": "ben"}, caller=ANN)
    assert [one.id for one in await pages.search(caller=ANN)] == ["a"]


async def test_only_true_allows(pages):
    for caller in (w.Caller("liar", (), "acme"), w.Caller("nobody", (), "acme"), ANN):
        with pytest.raises(w.PermissionDenied):
            await pages.delete("a", caller=caller)
    assert (await pages.get("a", caller=ANN)).id == "a"


async def test_a_method_asks_its_own_hook_or_that_of_an_update(pages):
    assert await pages.run("stamp", "a", caller=ANN) == "stamped"
    assert await pages.run("publish", "a", caller=BEN) == "published"
    for method, caller in (("stamp", BEN), ("publish", ANN)):
        with pytest.raises(w.PermissionDenied):
            await pages.run(method, "a", caller=caller)


async def test_pages_are_full_of_what_may_be_seen_and_cursors_tell_of_nothing_else(pages):
    for number in range(30):
        owner = ANN if number % 5 == 0 else BEN
        await pages.create(id=f"p{number:02}", owner=owner.user, text="secret", caller=owner)
    seen, cursor = [], None
    while True:
        page = await pages.search(sort=["text", "id"], limit=2, cursor=cursor, caller=ANN)
        seen += [one.id for one in page]
        cursor = page.cursor
        if cursor is None:
            break
        import base64

        assert page.rows[-1].id in base64.urlsafe_b64decode(cursor + "==").decode()
    assert seen == ["a", *[f"p{number:02}" for number in range(0, 30, 5)]]


def test_a_hook_that_would_wait_is_refused():
    class Slow(w.Resource):
        id: str

        async def allow_read(self, caller: w.Caller) -> bool:  # pyright: ignore
            return True

    with pytest.raises(w.ConfigError, match="answers at once"):
        w.export(scope=w.Runtime(environ={}))(Slow)

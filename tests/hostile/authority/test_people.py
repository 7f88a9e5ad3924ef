"""Attacks by who one claims to be, what one may know of others, and what a tool is called.

Each is tried with its defence off as well, where it succeeds.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import pytest

import windlass as w
from tests.hostile.authority.shop import (
    ANN,
    DOORS,
    EVE,
    SECRET,
    Item,
    Mine,
    acme,
    app_of,
    by_agent,
    by_name,
    logged,
    naive,
    post,
    shop,
)
from windlass.engine import ownership, session_opener
from windlass.resources import tx as work
from windlass.testing import call, scripted

# --------------------------------------------------------------------------- tenants

LIKE_ACME: list[Any] = [
    "ACME",
    "Acme",
    "acme ",
    " acme",
    "acme\u200b",
    "acme\u00ad",
    "\uff41\uff43\uff4d\uff45",
    "\u0430cme",
    "acm\u0435",
    "acme\n",
    "acme/",
    "acme'--",
    "' OR '1' = '1",
    "%",
    "*",
    "acm_",
    "acme,evil",
    "null",
    "None",
    "acme\\",
    "../acme",
]


def folded(caller: w.Caller) -> str:
    """A kind reading of a tenant's name."""
    text = unicodedata.normalize("NFKC", str(caller.tenant)).casefold().strip()
    return re.sub("[\u200b\u00ad]", "", text).translate({0x430: "a", 0x435: "e"})


@pytest.mark.parametrize("door", DOORS)
async def test_tenants_that_look_alike_are_strangers(place: str, door: str):
    async with shop(place) as scope:
        before = await acme(scope)
        for tenant in LIKE_ACME:
            try:
                who = w.Caller("ann", ("clerk",), tenant)
            except w.ConfigError:
                continue  # no tenant has such a name
            for one in (
                ("get_item", {"id": "a1"}),
                ("search_item", {}),
                ("delete_item", {"id": "a1"}),
            ):
                assert SECRET not in await DOORS[door](scope, *one, who), tenant
        assert await acme(scope) == before


@pytest.mark.parametrize("tenant", ["", "a\0", "\ud800", 7, ["acme"], b"acme"])
async def test_a_tenant_that_is_none_may_nothing(tenant: Any):
    async with shop("memory:") as scope:
        with pytest.raises(w.WindlassError):
            await scope.resources[Item].search(caller=w.Caller("eve", (), tenant))


async def test_control_names_are_read_kindly(place: str, monkeypatch: pytest.MonkeyPatch):
    async with shop(place) as scope:
        monkeypatch.setattr("windlass.resources.service.tenant_of", folded)
        for tenant in ("ACME", "Acme", "\uff41\uff43\uff4d\uff45", "\u0430cme", "acm\u0435"):
            assert SECRET in await by_name(scope, "search_item", {}, w.Caller("x", (), tenant))


# --------------------------------------------------------------------------- what one may know


@pytest.mark.parametrize("door", DOORS)
async def test_what_is_anothers_looks_like_what_is_not_there(place: str, door: str):
    """Reading, changing and deleting tell nothing; an id and a version that are taken there are free here."""
    async with shop(place) as scope:
        for tool, more in (
            ("get_item", {}),
            ("delete_item", {}),
            ("delete_item", {"version": 1}),
            ("update_item", {"values": {"name": "x"}}),
            ("update_item", {"values": {"name": "x"}, "version": 7}),
            ("copy_item", {"source": "e1"}),
        ):
            there = await DOORS[door](scope, tool, {"id": "a1", **more})
            nowhere = await DOORS[door](scope, tool, {"id": "zz", **more})
            assert _same(there) == _same(nowhere.replace("zz", "a1"))
        await DOORS[door](scope, "create_item", {"id": "a1", "name": "mine"})  # it is free here
        assert (await scope.resources[Item].get("a1", caller=ANN)).name == SECRET
        assert (await scope.resources[Item].get("a1", caller=EVE)).name == "mine"


def _same(text: str) -> str:
    """Without what differs between any two calls."""
    text = re.sub(r"(call|run|session)_\w+|[0-9.]+e?-?[0-9]*", "#", text)
    return text


async def test_control_a_forbidden_row_tells_that_it_is_there(place: str):
    async with shop(place) as scope:
        sql = "SELECT CASE WHEN _tenant = 'evil' THEN 'yours' ELSE 'forbidden' END FROM item WHERE id = '{}'"
        assert await naive(scope, sql.format("a1")) != await naive(scope, sql.format("zz"))


async def test_hidden_rows_answer_no_question(place: str, monkeypatch: pytest.MonkeyPatch):
    """A filter over a row that one may not see is no oracle: all answers are alike."""
    async with shop(place) as scope:
        mine = scope.resources[Mine]
        questions: list[Any] = [
            {"words": {"prefix": SECRET[:5]}},
            {"words": {"prefix": "no"}},
            {"words": {"gt": "a"}},
            {"owner": "root"},
            {"id": "m1"},
            {"id": "m2"},
            {"words": {"contains": "secret"}},
            {"words": SECRET},
        ]
        for where in questions:
            for sort in ((), ("words",), ("-words",)):
                page = await mine.search(where, sort=sort, limit=1, caller=EVE)
                assert (page.rows, page.cursor) == ([], None)
        monkeypatch.setattr(work, "call_hook", lambda made, hook, caller: None)
        found = [len(await mine.search(where, caller=EVE)) for where in questions]
        assert found == [1, 0, 1, 1, 1, 0, 1, 1]  # the control: letter by letter


# --------------------------------------------------------------------------- sessions


async def test_a_session_of_another_tenant_goes_on_for_nobody(
    place: str, monkeypatch: pytest.MonkeyPatch
):
    async with shop(place) as scope:
        await w.Agent(scripted(SECRET)).run("hi", session_id="s", caller=ANN)
        model = scripted(*["x"] * 9)
        doors = [
            lambda: w.Agent(model).run("and?", session_id="s", caller=EVE),
            lambda: w.agent_loop("and?", model=model, session_id="s", caller=EVE),
            lambda: scope.models.generate("and?", model=model, session_id="s", caller=EVE),
        ]
        with pytest.raises(w.NoSuchSession):
            await w.Agent(model).resume("s", caller=EVE)
        for door in doors:  # a session of EVE's own tenant under the same id
            await door()
        assert SECRET not in str([m.text for r in model.requests for m in r.messages])
        mate = w.Caller("eve", tenant=ANN.tenant)
        asked = len(model.requests)
        with pytest.raises(w.NoSuchSession):
            await w.Agent(model).run("and?", session_id="s", caller=mate)
        assert len(model.requests) == asked
        monkeypatch.setattr(ownership, "check_session_access", lambda *_: None)
        monkeypatch.setattr(session_opener, "check_session_access", lambda *_: None)
        await w.Agent(model).run("and?", session_id="s", caller=mate)
        assert SECRET in str([m.text for m in model.requests[-1].messages])  # the control


# --------------------------------------------------------------------------- names of tools

SPELLED = [
    "DELETE_ITEM",
    "Delete_Item",
    "delete_item ",
    " delete_item",
    "delete_item\0",
    "delete-item",
    "delete.item",
    "delete/item",
    "get_item/../delete_item",
    "get_item;delete_item",
    "delete_item\u200b",
    "\uff44elete_item",
    "delete_it\u0435m",
    "item.delete",
    "functions.delete_item",
    "delete_item()",
    "delete__item",
    "",
    "_do",
    "__class__",
    "x" * 100_000,
]
ROLES = {"*": ["item.get", "item.search"], "clerk": ["*"], "owner": ["*"]}


@pytest.mark.parametrize("name", SPELLED)
async def test_a_tool_is_called_by_its_name_or_not_at_all(name: str):
    async with shop("memory:", roles=ROLES) as scope:
        rows = len(await scope.resources[Item].search(caller=EVE))
        assert "denied" in await by_agent(scope, "delete_item", {"id": "e1"})  # as it is: refused
        await by_agent(scope, name, {"id": "e1"})
        model = scripted(call(name, id="e1"), "ok")
        asked = {"input": "x", "stream": False, "include_tool_trace": True}
        status, body = await post(app_of(scope, model, EVE), asked)
        assert status == 200 and '"outcome":"ok"' not in body
        with pytest.raises(w.WindlassError):
            await scope.resources.call(name, {"id": "e1"}, caller=EVE)
        assert len(await scope.resources[Item].search(caller=EVE)) == rows


async def test_control_a_kind_reading_of_names_finds_the_tool():
    async with shop("memory:") as scope:  # and no roles, which stood before it
        found = [re.sub(r"\W+", "_", one.strip().lower()).strip("_") for one in SPELLED[:8]]
        for number, name in enumerate(found[:5]):
            assert "plain" in await by_agent(scope, name, {"id": f"e{number}"}), name


# --------------------------------------------------------------------------- refusals on record

ODD_IDS: list[Any] = [
    "a\0b",
    "\ud800",
    10**5000,
    2**70,
    [["x"]],
    {"a": 1},
    "x" * 100_000,
    "\u202e",
    True,
]


async def test_a_refusal_is_on_record_whatever_was_asked_for(place: str):
    """What no column holds is written legibly: the log is no place to hide from."""
    async with shop(place, roles=ROLES) as scope:
        items = scope.resources[Item]
        for id in ODD_IDS:
            with pytest.raises(w.PermissionDenied):
                await items.delete(id, caller=EVE)
        for who in (
            w.Caller("e\0ve", (), "evil"),
            w.Caller("\ud800", ("a\0",), "evil"),
        ):
            with pytest.raises(w.PermissionDenied):
                await items.delete("e1", caller=who)
        rows = [row for row in await logged(scope) if row.outcome == "denied"]
        assert len(rows) == len(ODD_IDS) + 2
        assert all([len(row.row or "") <= 512 and "\0" not in str(row.row) for row in rows])
        raw: Any = pytest.raises(Exception)
        with raw:  # the control: the id as it is
            await scope.store.consult(lambda tx: tx.execute("SELECT ?", ("\ud800",)).fetchone())

"""Attacks on resources. Each has a control: the same attack where the defence is off, which succeeds."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest

import windlass as w
from windlass.resources import fields, query
from windlass.resources import tx as work
from windlass.resources.row import ResourcePlan, plan_of

ANN, EVE = w.Caller("ann", (), "acme"), w.Caller("eve", (), "evil")
SECRET = "the secret of acme"


class Item(w.Resource):
    id: str
    name: str
    price: float = 0.0
    whole: int = 0
    data: dict[str, Any] = {}
    amount: Decimal = Decimal(0)


class Mine(w.Resource):
    id: str
    owner: str

    def allow_read(self, caller: w.Caller) -> bool:
        return self.owner == caller.user


@pytest.fixture
async def scope():
    made = w.Runtime(environ={}, resources=[Item, Mine])
    items = made.resources[Item]
    await items.create(id="a1", name=SECRET, price=1.0, caller=ANN)
    for number in range(5):
        await items.create(id=f"e{number}", name="plain", price=float(number), caller=EVE)
    yield made
    await made.aclose()


Attack = Callable[[w.Runtime], Awaitable[Any]]


async def naive(scope: w.Runtime, sql: str) -> str:
    """What somebody would have read who puts texts into statements."""
    return str(await scope.store.consult(lambda tx: tx.execute(sql).fetchall()))


async def found(scope: w.Runtime, where: Any = None, **how: Any) -> str:
    """Everything that a search shows."""
    page = await scope.resources[Item].search(where, caller=EVE, **how)
    return str([msgspec.to_builtins(one) for one in page])


class Sql(NamedTuple):
    """An attack by text, and the statement that it would be in."""

    attack: Attack
    naive: str


OR = "x' OR '1' = '1"
UNION = "(SELECT name FROM item WHERE _tenant = 'acme')"
BY_TEXT: dict[str, Sql] = {
    "a filter's value": Sql(
        lambda s: found(s, {"name": OR}),
        f"SELECT name FROM item WHERE _tenant = 'evil' AND name = '{OR}'",
    ),
    "a filter's field": Sql(
        lambda s: found(s, {"1 = 1 OR name": "x"}),
        "SELECT name FROM item WHERE _tenant = 'evil' AND 1 = 1 OR name = 'x' OR 1 = 1",
    ),
    "a filter's operator": Sql(
        lambda s: found(s, {"name": {"= '' OR 1 = 1 OR name =": "x"}}),
        "SELECT name FROM item WHERE _tenant = 'evil' AND name = '' OR 1 = 1 OR name = 'x'",
    ),
    "a list's value": Sql(
        lambda s: found(s, {"name": {"in": ["x') OR ('1' = '1"]}}),
        "SELECT name FROM item WHERE _tenant = 'evil' AND name IN ('x') OR ('1' = '1')",
    ),
    "what a text contains": Sql(
        lambda s: found(s, {"name": {"contains": "') > 0 OR ('1' = '1"}}),
        "SELECT name FROM item WHERE _tenant = 'evil' AND instr(name, '') > 0 OR ('1' = '1')",
    ),
    "what a text begins with": Sql(
        lambda s: found(s, {"name": {"prefix": OR}}),
        f"SELECT name FROM item WHERE _tenant = 'evil' AND name LIKE '{OR}%' OR 1 = 1",
    ),
    "a sort": Sql(
        lambda s: found(s, sort=[f"name LIMIT 0 UNION SELECT {UNION}"]),
        f"SELECT name FROM (SELECT 1 AS name) UNION SELECT {UNION}",
    ),
    "a downward sort": Sql(
        lambda s: found(s, sort=[f"-{UNION}"]),
        f"SELECT {UNION}",
    ),
    "a limit": Sql(
        lambda s: found(s, limit=f"1 UNION SELECT {UNION}"),  # pyright: ignore
        f"SELECT 'x' UNION SELECT {UNION} LIMIT 5",
    ),
    "an id": Sql(
        lambda s: s.resources[Item].get("x' OR name > '", caller=EVE),
        "SELECT name FROM item WHERE _tenant = 'evil' AND id = 'x' OR name > ''",
    ),
    "a tenant": Sql(
        lambda s: s.resources[Item].get("a1", caller=w.Caller("eve", (), OR)),
        f"SELECT name FROM item WHERE _tenant = '{OR}' AND id = 'a1'",
    ),
}


@pytest.mark.parametrize("family", BY_TEXT)
async def test_a_text_stays_a_text(scope, family):
    attack, control = BY_TEXT[family]
    try:
        shown = str(await attack(scope))
    except (w.ResourceError, w.ConfigError) as refused:
        shown = str(refused)
    assert "secret" not in shown
    assert SECRET in await naive(scope, control), "the control is harmless"


async def test_a_value_is_stored_as_it_is(scope):
    words = "'); DELETE FROM item; --"
    made = await scope.resources[Item].create(name=words, data={words: [words]}, caller=EVE)
    back = await scope.resources[Item].get(made.id, caller=EVE)
    assert back.name == words and back.data == {words: [words]}
    assert len(await scope.resources[Item].search({"name": words}, caller=EVE)) == 1
    assert SECRET in await naive(scope, "SELECT name FROM item")  # nothing was deleted


async def test_wildcards_stand_for_themselves(scope):
    assert await found(scope, {"name": {"contains": "%"}}) == "[]"
    assert await found(scope, {"name": {"prefix": "_"}}) == "[]"
    assert "plain" in await naive(
        scope, "SELECT name FROM item WHERE name LIKE '%' AND id LIKE 'e_'"
    )


# --------------------------------------------------------------------------- tenants


async def test_no_verb_crosses_tenants(scope, monkeypatch):
    items = scope.resources[Item]
    attacks = [
        lambda: items.get("a1", caller=EVE),
        lambda: items.update("a1", {"name": "x"}, caller=EVE),
        lambda: items.delete("a1", caller=EVE),
    ]
    for attack in attacks:
        with pytest.raises(w.NotFound) as caught:
            await attack()
        assert "secret" not in str(caught.value)
    assert "secret" not in await found(scope, limit=100)
    plan = plan_of(Item)
    monkeypatch.setattr(plan, "mine", "1 = 1")
    monkeypatch.setattr(ResourcePlan, "mine_of", lambda self, tenant: ())
    monkeypatch.setattr(plan, "select_one", plan.select_one.replace('"_tenant" = ?', "1 = 1"))
    assert (await items.get("a1", caller=EVE)).name == SECRET  # the control
    assert "secret" in await found(scope, limit=100)


@pytest.mark.parametrize("name", ["_tenant", "_version", "version", "tenant", "__dict__", "rowid"])
async def test_no_hidden_column_can_be_set_or_asked_for(scope, name):
    items = scope.resources[Item]
    for attack in (
        lambda: items.create({"name": "x", name: "acme"}, caller=EVE),
        lambda: items.update("e1", {name: 7}, caller=EVE),
        lambda: items.search({name: "acme"}, caller=EVE),
        lambda: items.search(sort=[name], caller=EVE),
    ):
        with pytest.raises(w.InvalidValue, match="no field"):
            await attack()
    await items.create({"name": "x", "whole": 3}, caller=EVE)  # the control: a field can be


async def test_an_empty_tenant_is_none(scope, monkeypatch):
    await scope.resources[Item].create(id="n1", name="of nobody")
    nobody = w.Caller("eve", (), "")
    with pytest.raises(w.PermissionDenied):
        await scope.resources[Item].get("n1", caller=nobody)
    monkeypatch.setattr("windlass.resources.service.tenant_of", lambda caller: caller.tenant or "")
    assert (await scope.resources[Item].get("n1", caller=nobody)).name == "of nobody"


# --------------------------------------------------------------------------- cursors


def opened(cursor: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(cursor + "=="))


def closed(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


async def test_a_cursor_is_good_for_its_own_search_only(scope, monkeypatch):
    items = scope.resources[Item]
    page = await items.search(sort=["name"], limit=2, caller=EVE)
    assert (
        page.cursor and len(await items.search(sort=["name"], cursor=page.cursor, caller=EVE)) == 3
    )
    for query_, caller in (
        ({"sort": ["name"]}, ANN),  # another tenant's
        ({"sort": ["-name"]}, EVE),
        ({"sort": ["price"]}, EVE),
        ({}, EVE),
        ({"sort": ["name"], "where": {"price": {"gt": 1}}}, EVE),
    ):
        with pytest.raises(w.InvalidValue, match="not one of this search"):
            await items.search(**query_, cursor=page.cursor, caller=caller)
    mine = await scope.resources[Mine].search(caller=EVE)
    assert mine.cursor is None
    monkeypatch.setattr(query.Search, "_digest", lambda self: "same")
    control = await items.search(sort=["name"], limit=2, caller=EVE)
    await items.search(sort=["-name"], cursor=control.cursor, caller=EVE)


@pytest.mark.parametrize(
    "place",
    [
        ["plain"],
        ["plain", "e1", "more"],
        [1, "e1"],
        ["plain", 2],
        [None, "e1"],
        ["a\0", "e1"],
        {"name": "x"},
        "plain",
        None,
        [["plain"], "e1"],
        ["plain", {"$gt": ""}],
        ["\ud800", "e1"],
        [True, "e1"],
        ["plain", None],
    ],
)
async def test_a_forged_cursor_is_refused(scope, place):
    items = scope.resources[Item]
    bound, real = opened((await items.search(sort=["name"], limit=2, caller=EVE)).cursor)
    assert len(await items.search(sort=["name"], cursor=closed([bound, real]), caller=EVE)) == 3
    with pytest.raises(w.InvalidValue, match="cursor"):
        await items.search(sort=["name"], cursor=closed([bound, place]), caller=EVE)


async def test_a_forged_place_moves_within_ones_own_rows(scope):
    items = scope.resources[Item]
    bound, _ = opened((await items.search(sort=["name"], limit=2, caller=EVE)).cursor)
    page = await items.search(sort=["name"], cursor=closed([bound, ["", ""]]), caller=EVE)
    assert [one.id for one in page] == ["e0", "e1", "e2", "e3", "e4"]


@pytest.mark.parametrize(
    "cursor",
    [
        "!",
        "e30",
        "bnVsbA",
        closed([]),
        closed([1, 2, 3]),
        closed({"a": 1}),
        "[" * 5000,
        7,
        b"x",
        base64.urlsafe_b64encode(b"[" * 4000).decode(),
        "é",
        "e30\n",
        "\0",
    ],
)
async def test_a_cursor_that_is_none_is_refused(scope, cursor):
    with pytest.raises(w.InvalidValue, match="cursor"):
        await scope.resources[Item].search(cursor=cursor, caller=EVE)


# --------------------------------------------------------------------------- values


DEEP: Any = 1
for _ in range(5000):
    DEEP = [DEEP]


VALUES_OF_NO_USE: list[Any] = [
    {"name": "a\0b"},
    {"name": "\ud800"},
    {"name": "x", "id": "a\0"},
    {"name": "x", "id": "\udfff"},
    {"name": "x", "whole": 2**63},
    {"name": "x", "whole": -(2**63) - 1},
    {"name": "x", "whole": 10**400},
    {"name": "x", "price": float("nan")},
    {"name": "x", "price": float("-inf")},
    {"name": "x", "amount": "1e9999999"},
    {"name": "x", "amount": "Infinity"},
    {"name": "x", "data": {"deep": DEEP}},
    {"name": "x", "data": {1: 2}.items()},
    {"name": ["x"]},
    {"name": None},
    {"name": {"eq": "x"}},
    {"name": b"x"[0]},
    {"name": "x", "id": 7},
    {"name": "x", "id": ["e1"]},
    {"name": "x", "whole": "7"},
    {"name": "x", "whole": 1.5},
    {"name": "x", "price": "1.0"},
]


@pytest.mark.parametrize("levels, fits", [(150, True), (199, True), (201, False), (900, False)])
async def test_how_deep_a_value_may_be_does_not_depend_on_the_python(scope, levels, fits):
    """What one Python stores another must be able to read. Brackets inside a text do not count."""
    deep: Any = "[" * 1000 + '\\"{'
    for _ in range(levels - 1):
        deep = [deep]
    items = scope.resources[Item]
    if fits:
        made = await items.create({"name": "x", "data": {"deep": deep}}, caller=EVE)
        assert (await items.get(made.id, caller=EVE)).data == {"deep": deep}
    else:
        with pytest.raises(w.InvalidValue, match="nested too deeply"):
            await items.create({"name": "x", "data": {"deep": deep}}, caller=EVE)


@pytest.mark.parametrize("values", VALUES_OF_NO_USE)
async def test_a_value_of_no_use_is_refused_before_the_database_sees_it(scope, values):
    items = scope.resources[Item]
    with pytest.raises(w.InvalidValue):
        await items.create(values, caller=EVE)
    name = next((each for each in values if each != "name"), "name")
    if name != "id":
        with pytest.raises(w.InvalidValue):
            await items.update("e1", {name: values[name]}, caller=EVE)
    assert len(await items.search(caller=EVE)) == 5


async def test_the_guard_against_nul_is_what_stops_it(scope):
    with pytest.raises(ValueError, match="NUL"):
        fields.text("a\0b")
    raw = await scope.store.consult(lambda tx: tx.execute("SELECT ?", ("a\0b",)).fetchone()[0])
    assert raw == "a\0b"  # the control: SQLite itself would have taken it


async def test_texts_that_look_alike_are_not_the_same(scope):
    items = scope.resources[Item]
    for id in ("é", "e\u0301", "e1\u200b", "Ｅ1", "e1 "):
        await items.create(id=id, name="other", caller=EVE)
    assert (await items.get("e1", caller=EVE)).name == "plain"
    assert len(await items.search({"name": "other"}, caller=EVE)) == 5


@pytest.mark.parametrize("limit", [0, -1, 101, 10**9, 2**64, True, 1.0, "5", [5], float("inf")])
async def test_a_limit_is_within_its_bounds(scope, limit):
    with pytest.raises(w.InvalidValue, match="limit"):
        await scope.resources[Item].search(limit=limit, caller=EVE)
    assert len(await scope.resources[Item].search(limit=100, caller=EVE)) == 5


async def test_who_calls_is_not_among_the_arguments(scope):
    for name in ("caller", "tenant", "roles", "request_id"):
        with pytest.raises(w.InvalidValue):
            await scope.resources.call("create_item", {"name": "x", name: "acme"}, caller=EVE)
    made = await scope.resources.call("create_item", {"name": "x"}, caller=EVE)
    assert made.name == "x"


async def test_hidden_rows_do_not_show_in_counts_or_cursors(scope, monkeypatch):
    mine = scope.resources[Mine]
    for number in range(6):
        owner = w.Caller("root" if number % 2 else "eve", (), "evil")
        await mine.create(id=f"m{number}", owner=owner.user, caller=owner)
    page = await mine.search(limit=2, caller=EVE)
    assert [one.id for one in page] == ["m0", "m2"] and opened(page.cursor)[1] == ["m2"]
    monkeypatch.setattr(work, "call_hook", lambda made, hook, caller: None)
    assert len(await mine.search(caller=EVE)) == 6  # the control


async def test_a_search_that_would_look_at_everything_gives_up(scope, monkeypatch):
    monkeypatch.setattr(work, "_MOST_SCANNED", 3)
    mine = scope.resources[Mine]
    root = w.Caller("root", (), "evil")
    for number in range(6):
        await mine.create(id=f"m{number}", owner="root", caller=root)
    with pytest.raises(w.InvalidValue, match="ask for less"):
        await mine.search(limit=1, caller=EVE)
    assert len(await mine.search(limit=1, caller=root)) == 1

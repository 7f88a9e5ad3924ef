"""Tables that are there already: read-only, bound to their tenant column, and nothing guessed."""

from __future__ import annotations

import pytest

import windlass as w

ANN, EVE = w.Caller("ann", (), "acme"), w.Caller("eve", (), "evil")
TABLE = """CREATE TABLE orders (
    id INTEGER PRIMARY KEY, shop TEXT NOT NULL, item VARCHAR(40) NOT NULL, total REAL,
    secret TEXT, shape POINT, rev INTEGER NOT NULL DEFAULT 1
)"""


@pytest.fixture
async def scope(runtime):
    made = await runtime()

    def body(tx):
        tx.execute(TABLE)
        rows = [(1, "acme", "pen", 1.5), (2, "evil", "cup", 3.0), (3, "acme", "ink", None)]
        tx.executemany("INSERT INTO orders (id, shop, item, total) VALUES (?, ?, ?, ?)", rows)

    await made.store.commit(body)
    return made


async def test_a_table_is_read_by_its_tenant(scope):
    order = await w.reflect("orders", scope, tenant="shop", columns=["item", "total"])
    orders = scope.resources[order]
    found = await orders.search({"total": {"is_null": False}}, sort="-total", caller=ANN)
    assert [(one.id, one.item, one.total) for one in found] == [(1, "pen", 1.5)]
    with pytest.raises(w.NotFound):
        await orders.get(2, caller=ANN)
    assert [tool.name for tool in scope.tools()] == ["get_orders", "search_orders"]
    schema = scope.tools()[1].parameters["properties"]["where"]["properties"]
    assert set(schema) == {"id", "item", "total"}
    rows = await scope.resources.audit()
    assert [one.verb for one in rows] == ["search"]


async def test_a_shared_table_must_be_said_to_be_one(scope):
    with pytest.raises(w.ConfigError, match="whose the rows are"):
        await w.reflect("orders", scope)
    with pytest.raises(w.ConfigError, match="whose the rows are"):
        await w.reflect("orders", scope, tenant="shop", shared=True)
    order = await w.reflect("orders", scope, shared=True, name="all orders")
    assert len(await scope.resources[order].search(caller=EVE)) == 3
    assert scope.tools()[0].name == "get_all_orders"


async def test_a_writable_one_can_be_written_and_versions_itself(scope):
    order = await w.reflect("orders", scope, tenant="shop", version="rev", writable=True)
    orders = scope.resources[order]
    made = await orders.create(item="mug", caller=ANN)
    assert made.id == 4 and made.version == 1
    changed = await orders.update(4, {"total": 9.0}, version=1, caller=ANN)
    assert changed.version == 2
    with pytest.raises(w.Conflict):
        await orders.update(4, {"total": 1.0}, version=1, caller=ANN)
    with pytest.raises(w.NotFound):
        await orders.delete(2, caller=ANN)
    await orders.delete(4, caller=ANN)
    whose = await scope.store.consult(lambda tx: tx.execute("SELECT shop FROM orders").fetchall())
    assert sorted(whose) == [("acme",), ("acme",), ("evil",)]


async def test_without_a_version_none_is_expected(scope):
    order = await w.reflect(
        "orders", scope, tenant="shop", writable=True, columns=["item", "total", "secret"]
    )
    orders = scope.resources[order]
    assert (await orders.update(1, {"total": 2.0}, caller=ANN)).total == 2.0
    with pytest.raises(w.InvalidValue, match="no version"):
        await orders.update(1, {"total": 2.5}, version=1, caller=ANN)


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ("nothing", {"shared": True}, "no table"),
        ("orders", {"tenant": "shp"}, "did you mean 'shop'"),
        ("orders", {"tenant": "shop", "columns": ["shape"]}, "no JSON form"),
        ("orders", {"tenant": "shop", "columns": ["totl"]}, "did you mean 'total'"),
        ("orders", {"tenant": "shop", "verbs": ["delete"]}, "writable=True"),
        ("orders", {"tenant": "shop", "writable": True, "columns": ["total"]}, "must be filled"),
        ('orders"; DROP TABLE orders; --', {"shared": True}, "letters"),
        ("windlass_sessions", {"shared": True}, "taken"),
    ],
)
async def test_what_cannot_be_exposed_is_refused(scope, table, options, words):
    with pytest.raises(w.ConfigError, match=words):
        await w.reflect(table, scope, **options)
    assert not scope.tools()

"""Searches: typed filters, sorts and cursors, checked against the same search in plain Python."""

from __future__ import annotations

import itertools
import operator
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import windlass as w

ANN = w.Caller("ann", (), "acme")
EVE = w.Caller("eve", (), "evil")
START = datetime(2026, 1, 1, tzinfo=UTC)


class Item(w.Resource):
    id: str
    name: str
    price: float | None = None
    stock: int = 0
    sold: bool = False
    at: datetime | None = None
    notes: dict[str, Any] | None = None
    max_limit = 50


def items(count: int = 40) -> list[Item]:
    rng = random.Random(5)
    words = ["pen", "Pen", "pencil", "cup_1", "cup%", "Ünï", "", "zebra"]
    return [
        Item(
            id=f"i{number:02}",
            name=rng.choice(words),
            price=rng.choice([None, 1.5, 2.0, 2.0, 9.25, -0.5]),
            stock=rng.randint(-2, 4),
            sold=rng.random() < 0.5,
            at=rng.choice([None, START + timedelta(hours=rng.randint(0, 5))]),
            notes=rng.choice([None, {"x": 1}]),
        )
        for number in range(count)
    ]


@pytest.fixture
async def shop(runtime):
    handle = (await runtime(Item)).resources[Item]
    for one in items():
        await handle.create(one, caller=ANN)
    await handle.create(id="theirs", name="pen", price=2.0, caller=EVE)
    return handle


def ids(page: Any) -> list[str]:
    return [one.id for one in page]


ORDER = {"lt": operator.lt, "lte": operator.le, "gt": operator.gt, "gte": operator.ge}
FILTERS: list[tuple[dict[str, Any], Any]] = [
    ({"name": "pen"}, lambda i: i.name == "pen"),
    ({"name": {"ne": "pen"}}, lambda i: i.name != "pen"),
    ({"name": {"in": ["pen", "cup%"]}}, lambda i: i.name in ("pen", "cup%")),
    ({"name": {"in": []}}, lambda i: False),
    ({"name": {"contains": "en"}}, lambda i: "en" in i.name),
    ({"name": {"contains": "%"}}, lambda i: "%" in i.name),
    ({"name": {"contains": "_"}}, lambda i: "_" in i.name),
    ({"name": {"prefix": "pen"}}, lambda i: i.name.startswith("pen")),
    ({"name": {"prefix": ""}}, lambda i: True),
    ({"name": {"prefix": "Ü"}}, lambda i: i.name.startswith("Ü")),
    ({"price": None}, lambda i: i.price is None),
    ({"price": {"is_null": False}}, lambda i: i.price is not None),
    ({"price": {"ne": 2}}, lambda i: i.price != 2.0),
    ({"price": {"gte": 1.5, "lt": 9}}, lambda i: i.price is not None and 1.5 <= i.price < 9),
    ({"sold": True, "stock": {"gt": 0}}, lambda i: i.sold and i.stock > 0),
    ({"notes": {"is_null": True}}, lambda i: i.notes is None),
    (
        {"at": {"gte": START + timedelta(hours=2)}},
        lambda i: i.at is not None and i.at >= START + timedelta(hours=2),
    ),
    ({}, lambda i: True),
]


async def test_a_filter_finds_what_it_says(shop):
    for where, fits in FILTERS:
        found = await shop.search(where, limit=50, caller=ANN)
        assert ids(found) == [one.id for one in items() if fits(one)], where


async def test_comparisons(shop):
    for sign, (field, value) in itertools.product(
        ORDER, [("stock", 1), ("name", "pen"), ("price", 2.0)]
    ):
        found = await shop.search({field: {sign: value}}, limit=50, caller=ANN)
        compare = ORDER[sign]
        wanted = [
            one.id
            for one in items()
            if getattr(one, field) is not None and compare(getattr(one, field), value)
        ]
        assert ids(found) == wanted, (sign, field)


def key(one: Item, sorts: tuple[str, ...]) -> tuple[Any, ...]:
    places: list[Any] = []
    for sort in sorts:
        value = getattr(one, sort.lstrip("-"))
        places.append((value is None, _Turned(value) if sort[0] == "-" else value or 0))
    return (*places, one.id)


class _Turned:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Turned) -> bool:
        return self.value is not None and other.value < self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Turned) and self.value == other.value


SORTS: list[tuple[str, ...]] = [
    (),
    ("stock",),
    ("-stock",),
    ("price",),
    ("-price",),
    ("-price", "stock"),
    ("sold", "-at"),
    ("-id",),
    ("stock", "-id"),
]


async def test_pages_hold_every_row_once_and_in_order(shop):
    for sorts, size in itertools.product(SORTS, (3, 7, 50)):
        found: list[str] = []
        cursor = None
        while True:
            page = await shop.search(sort=sorts, limit=size, cursor=cursor, caller=ANN)
            found += ids(page)
            cursor = page.cursor
            if cursor is None:
                break
            assert len(page) == size
        if sorts[-1:] == ("-id",):
            wanted = sorted(items(), key=lambda one: one.id, reverse=True)
            wanted.sort(key=lambda one: key(one, sorts[:-1])[:-1])
        else:
            wanted = sorted(items(), key=lambda one: key(one, sorts))
        assert found == [one.id for one in wanted], (sorts, size)


async def test_a_page_goes_on_though_rows_come_and_go(shop):
    first = await shop.search(sort=["id"], limit=5, caller=ANN)
    await shop.delete(first.rows[-1].id, caller=ANN)
    await shop.create(id="i00a", name="late", caller=ANN)
    second = await shop.search(sort=["id"], limit=5, cursor=first.cursor, caller=ANN)
    assert ids(second) == [f"i{number:02}" for number in range(5, 10)]


SENSELESS: list[tuple[dict[str, Any], str]] = [
    ({"where": {"nmae": 1}}, "did you mean 'name'"),
    ({"where": {"_tenant": "evil"}}, "no field"),
    ({"where": {"version": 1}}, "no field"),
    ({"where": {"name": {"like": "%"}}}, "no operator"),
    ({"where": {"sold": {"lt": True}}}, "no operator"),
    ({"where": {"notes": {"x": 1}}}, "no operator"),
    ({"where": {"name": {"eq": 3}}}, "name"),
    ({"where": {"stock": {"lt": None}}}, "needs a value"),
    ({"where": {"name": {"in": ["x"] * 101}}}, "up to 100"),
    ({"where": {"name": {"in": "x"}}}, "list"),
    ({"where": {"price": {"is_null": 1}}}, "true or false"),
    ({"where": ["name"]}, "object"),
    ({"sort": ["notes"]}, "no order"),
    ({"sort": ["name", "-name"]}, "twice"),
    ({"sort": ["stock; DROP TABLE item"]}, "no field"),
    ({"sort": ["--stock"]}, "no field"),
    ({"limit": 51}, "1 to 50"),
    ({"limit": 0}, "1 to 50"),
    ({"limit": -1}, "1 to 50"),
    ({"limit": True}, "1 to 50"),
    ({"limit": 10**30}, "1 to 50"),
    ({"cursor": "x"}, "cursor"),
    ({"cursor": ""}, "cursor"),
    ({"cursor": "A" * 100_000}, "cursor"),
]


async def test_a_query_that_makes_no_sense_is_refused_in_words(shop):
    for query, words in SENSELESS:
        with pytest.raises(w.InvalidValue, match=words):
            await shop.search(**query, caller=ANN)

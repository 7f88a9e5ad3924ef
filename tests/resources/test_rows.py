"""Rows: what is stored comes back, belongs to its tenant, and has a version."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest

import windlass as w

ANN = w.Caller("ann", (), "acme")
EVE = w.Caller("eve", (), "evil")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(msgspec.Struct):
    width: int
    height: int = 1


class Thing(w.Resource):
    id: str
    text: str
    whole: int = 0
    real: float = 0.0
    flag: bool = False
    raw: bytes = b""
    at: datetime | None = None
    day: date | None = None
    clock: time | None = None
    price: Decimal = Decimal("0")
    uid: UUID | None = None
    color: Color = Color.RED
    level: Literal["low", "high"] = "low"
    tags: list[str] = []
    more: dict[str, Any] = {}
    size: Size | None = None


FULL = {
    "text": "Ünïcödé '; DROP TABLE thing; -- \U0001f600",
    "whole": -(2**63),
    "real": 1.1,
    "flag": True,
    "raw": bytes(range(256)),
    "at": datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=2))),
    "day": date(2026, 3, 1),
    "clock": time(9, 30),
    "price": Decimal("12.50"),
    "uid": UUID(int=7),
    "color": Color.BLUE,
    "level": "high",
    "tags": ["a", "b\0c"],
    "more": {"deep": [1, {"x": None}]},
    "size": Size(3),
}


async def test_every_type_comes_back_as_it_was(runtime):
    things = (await runtime(Thing)).resources[Thing]
    made = await things.create(FULL, caller=ANN)
    found = await things.get(made.id, caller=ANN)
    assert found == made and found.version == made.version == 1
    for name, value in FULL.items():
        assert getattr(found, name) == value, name
    assert found.at.tzinfo is not None and found.at.utcoffset() == timedelta(0)


async def test_an_object_can_be_given_whole_and_defaults_fill_the_rest(runtime):
    things = (await runtime(Thing)).resources[Thing]
    made = await things.create(Thing(id="t1", text="x"), caller=ANN)
    assert made == Thing(id="t1", text="x") and made.color is Color.RED
    assert (await things.create(text="y", caller=ANN)).id.startswith("thing_")


async def test_rows_of_another_tenant_do_not_exist(runtime):
    things = (await runtime(Thing)).resources[Thing]
    await things.create(id="t1", text="ours", caller=ANN)
    for attempt in (
        things.get("t1", caller=EVE),
        things.update("t1", {"text": "theirs"}, caller=EVE),
        things.delete("t1", caller=EVE),
        things.get("t1"),
    ):
        with pytest.raises(w.NotFound):
            await attempt
    assert not (await things.search(caller=EVE)).rows
    mine = await things.create(id="t1", text="theirs", caller=EVE)  # the same id, another row
    assert mine.text == "theirs" and (await things.get("t1", caller=ANN)).text == "ours"


async def test_a_caller_without_tenant_is_not_one_of_an_empty_name(runtime):
    things = (await runtime(Thing)).resources[Thing]
    await things.create(id="t1", text="x")
    assert (await things.get("t1")).text == "x"
    with pytest.raises(w.PermissionDenied):
        await things.get("t1", caller=w.Caller("x", (), ""))


async def test_an_update_changes_what_it_names_and_counts(runtime):
    things = (await runtime(Thing)).resources[Thing]
    await things.create(id="t1", text="x", whole=1, caller=ANN)
    second = await things.update("t1", {"whole": 2, "color": Color.BLUE}, caller=ANN)
    assert (second.text, second.whole, second.color, second.version) == ("x", 2, Color.BLUE, 2)
    same = await things.update("t1", {"whole": 2}, caller=ANN)
    assert same.version == 2  # nothing changed, so nothing was written


async def test_whoever_read_an_old_version_is_told_the_present_one(runtime):
    things = (await runtime(Thing)).resources[Thing]
    first = await things.create(id="t1", text="x", caller=ANN)
    await things.update("t1", {"text": "y"}, version=first.version, caller=ANN)
    with pytest.raises(w.Conflict, match="version 2, not 1") as caught:
        await things.update("t1", {"text": "z"}, version=1, caller=ANN)
    assert caught.value.version == 2
    with pytest.raises(w.Conflict):
        await things.delete("t1", version=1, caller=ANN)
    assert (await things.delete("t1", version=2, caller=ANN)).text == "y"
    with pytest.raises(w.NotFound):
        await things.get("t1", caller=ANN)


async def test_an_id_is_taken_once_and_never_changes(runtime):
    things = (await runtime(Thing)).resources[Thing]
    await things.create(id="t1", text="x", caller=ANN)
    with pytest.raises(w.Conflict, match="'t1' is there already"):
        await things.create(id="t1", text="y", caller=ANN)
    with pytest.raises(w.InvalidValue, match="id stays"):
        await things.update("t1", {"id": "t2"}, caller=ANN)


async def test_unique_is_within_a_tenant(runtime):
    class Box(w.Resource):
        id: int
        sku: Annotated[str, w.field(unique=True)]

    boxes = (await runtime(Box)).resources[Box]
    first = await boxes.create(sku="a", caller=ANN)
    second = await boxes.create(sku="b", caller=ANN)
    assert (first.id, second.id) == (1, 2)
    with pytest.raises(w.Conflict, match="its sku"):
        await boxes.create(sku="a", caller=ANN)
    with pytest.raises(w.Conflict):
        await boxes.update(2, {"sku": "a"}, caller=ANN)
    assert (await boxes.create(sku="a", caller=EVE)).id == 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"text": 3}, "text"),
        ({"text": "x", "whle": 1}, "did you mean"),
        ({"text": "a\0b"}, "NUL"),
        ({"text": "\ud800"}, "surrogate"),
        ({"text": "x", "whole": 2**63}, "64 bits"),
        ({"text": "x", "real": float("inf")}, "real"),
        ({"text": "x", "real": float("nan")}, "real"),
        ({"text": "x", "price": Decimal("1e99999")}, "digits"),
        ({"text": "x", "price": Decimal("NaN")}, "digits"),
        ({"text": "x", "at": datetime(2026, 1, 1)}, "time zone"),
        ({"text": "x", "level": "middle"}, "level"),
        ({"text": "x", "id": ""}, "id"),
        ({"text": "x", "id": "n\0"}, "NUL"),
        ({"text": "x", "id": "x" * 513}, "512"),
        ({}, "text"),
    ],
)
async def test_what_cannot_be_stored_is_refused_in_words(runtime, values, words):
    things = (await runtime(Thing)).resources[Thing]
    with pytest.raises(w.InvalidValue, match=words):
        await things.create(values, caller=ANN)
    assert not (await things.search(caller=ANN)).rows


async def test_two_runtimes_share_rows_through_their_store_and_nothing_else(place):
    async with (
        w.Runtime(store=place, environ={}, resources=[Thing]) as one,
        w.Runtime(store=place, environ={}, resources=[Thing]) as two,
    ):
        await one.resources[Thing].create(id="t1", text="x", caller=ANN)
        found = await two.resources[Thing].search(caller=ANN)
        shared = [] if place == "memory:" else ["x"]  # each has a memory of its own
        assert [row.text for row in found] == shared
        assert one.resources is not two.resources


def test_the_utc_form_sorts_as_time_does():
    times = [datetime(2026, 1, 1, h, tzinfo=UTC) for h in range(3)]
    from windlass.resources.row import plan_of

    stored = [plan_of(Thing).by_name["at"].to_stored(one) for one in times]
    assert stored == sorted(stored) and len({len(one) for one in stored}) == 1

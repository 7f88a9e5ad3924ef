"""Tables: made when they are missing, added to when the class has grown, and never more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec
import pytest

import windlass as w
from windlass.resources.resource import new_class
from windlass.resources.row import plan_of


def make(*fields: tuple[Any, ...], **more: Any) -> Any:
    """Another release of the same class."""
    types = {"id": str, **{name: kind for name, kind, *_ in fields}}
    defaults = {name: given[0] for name, _, *given in fields if given}
    return new_class("Box", types, defaults, __module__="shop", **more)


@asynccontextmanager
async def at(folder: Any, cls: Any) -> AsyncIterator[Any]:
    async with w.Runtime(f"sqlite:///{folder}/b.db", environ={}, resources=[cls]) as scope:
        await scope.resources.prepare()
        yield scope.resources[cls]


async def test_new_fields_and_indexes_are_added(tmp_path):
    async with at(tmp_path, make(("name", str))) as boxes:
        await boxes.create(id="b1", name="old")
    grown = make(
        ("name", Annotated[str, w.field(unique=True)]),
        ("note", str | None, None),
        ("stock", Annotated[int, w.field(index=True)], 7),
        ("tags", list[str], msgspec.field(default_factory=lambda: ["it's"])),
        ("raw", bytes, b"\x00\xff"),
    )
    async with at(tmp_path, grown) as boxes:
        old = await boxes.get("b1")
        assert (old.name, old.note, old.stock, old.tags) == ("old", None, 7, ["it's"])
        assert old.raw == b"\x00\xff"
        with pytest.raises(w.Conflict):
            await boxes.create(name="old")
        assert (await boxes.create(name="new", stock=1)).stock == 1
    async with at(tmp_path, grown) as boxes:  # once more changes nothing
        assert len(await boxes.search()) == 2


async def test_a_nullable_field_may_go_again(tmp_path):
    async with at(tmp_path, make(("name", str), ("note", str | None, None))) as boxes:
        await boxes.create(id="b1", name="x", note="kept in the table")
    async with at(tmp_path, make(("name", str))) as boxes:
        assert (await boxes.create(name="y")).version == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([("name", str), ("weight", float)], "give the field a default"),
        ([("name", int)], "would be INTEGER, and its column is TEXT"),
        ([("name", str | None, None)], "may be None"),
        ([], "drop the column"),
        ([("name", Annotated[str, w.field(unique=True)])], "share a value"),
    ],
)
async def test_what_would_lose_something_is_refused_with_what_to_do(tmp_path, fields, words):
    async with at(tmp_path, make(("name", str))) as boxes:
        await boxes.create(name="same")
        await boxes.create(name="same")
    with pytest.raises(w.ConfigError, match=words):
        async with at(tmp_path, make(*fields)):
            pass
    async with at(tmp_path, make(("name", str))) as boxes:
        assert len(await boxes.search()) == 2


async def test_a_table_of_somebody_else_is_left_alone(tmp_path):
    async with w.Runtime(f"sqlite:///{tmp_path}/b.db", environ={}) as scope:
        await scope.store.commit(lambda tx: tx.execute("CREATE TABLE box (id TEXT, name TEXT)"))
    with pytest.raises(w.ConfigError, match="reflect"):
        async with at(tmp_path, make(("name", str))):
            pass


@pytest.mark.parametrize(
    ("fields", "more", "words"),
    [
        ([("version", int)], {}, "Windlass's own"),
        ([("tenant", str)], {}, "Windlass's own"),
        ([("get", str)], {}, "Windlass's own"),
        ([("_hidden", str)], {}, "Windlass's own"),
        ([("naïve", str)], {}, "letters"),
        ([("Name", str), ("name", str)], {}, "one column"),
        ([("x", "complex")], {}, "JSON Schema"),
        ([], {"table": 'x"; DROP TABLE y'}, "letters"),
        ([], {"table": "windlass_sessions"}, "taken"),
        ([], {"table": "sqlite_master"}, "taken"),
        ([], {"path": "///"}, "no name"),
        ([], {"verbs": ["get", "serch"]}, "did you mean 'search'"),
        ([], {"verbs": "get"}, "list of verbs"),
        ([], {"max_limit": 0}, "1 to 10000"),
        ([], {"mcp_tools": ["nothing"]}, "no method"),
        ([], {"mcp_tools": ["get"]}, "no method of your own"),
        ([], {"mcp_tools": {"version": {"nme": 1}}}, "has no key"),
        ([], {"path": "x" * 80}, "letters|characters"),
    ],
)
def test_a_class_that_cannot_work_is_refused_at_once(fields, more, words):
    fields = [(name, complex if kind == "complex" else kind) for name, kind in fields]
    with pytest.raises(w.ConfigError, match=words):
        w.export(scope=w.Runtime(environ={}))(make(*fields, **more))


def test_an_id_is_needed_and_is_text_or_a_number():
    for types, defaults in (
        ({}, {}),
        ({"id": float}, {}),
        ({"id": str}, {"id": "x"}),
        ({"id": str | None}, {}),
    ):
        made = new_class("Box", types, defaults)
        with pytest.raises(w.ConfigError, match="id"):
            w.export(scope=w.Runtime(environ={}))(made)


def test_fields_keep_their_names_and_places():
    kind: Any = type(w.Resource)
    for options in ({"rename": "camel"}, {"tag": True}, {"omit_defaults": True}):
        made = kind(
            "Box", (w.Resource,), {"__annotations__": {"id": str, "long_name": str}}, **options
        )
        with pytest.raises(w.ConfigError, match="keep their names"):
            w.export(scope=w.Runtime(environ={}))(made)


async def test_statements_do_not_pile_up(runtime):
    names = [f"f{number}" for number in range(10)]
    many = new_class("Many", {"id": str, **dict.fromkeys(names, int)}, dict.fromkeys(names, 0))
    handle = (await runtime(many)).resources[many]
    await handle.create(id="m")
    for number in range(1, 600):
        chosen = {name: number for at, name in enumerate(names) if number >> at & 1}
        await handle.update("m", chosen)
    assert len(plan_of(many).statements) <= 256
    assert (await handle.get("m")).version == 600

"""Attacks that are a call: what the model, or whoever writes to it, puts into its arguments.

Each family has its calls, and a control that is true when the attack succeeds where the defence is
off: on a statement made of texts, or with the one check taken out.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

import windlass as w
from tests.hostile.authority.shop import (
    ANN,
    EVE,
    SECRET,
    Item,
    by_name,
    closed,
    naive,
    opened,
    without_tenants,
)
from windlass.resources import query
from windlass.resources import tx as work

Call = tuple[str, dict[str, Any]]
Control = Callable[[w.Runtime, pytest.MonkeyPatch], Awaitable[bool]]


class Family(NamedTuple):
    """A way to attack: its calls (some are made of what the shop holds), and its control."""

    calls: list[Call] | Callable[[w.Runtime], Awaitable[list[Call]]]
    control: Control
    doors: tuple[str, ...] = ("handle", "name", "agent", "http")


def statement(*texts: str) -> Control:
    """Build the control that puts texts into statements: each shows the secret."""

    async def control(scope: w.Runtime, _: pytest.MonkeyPatch) -> bool:
        return all([SECRET in await naive(scope, text) for text in texts])

    return control


def search(**arguments: Any) -> Call:
    return ("search_item", arguments)


OR = "x' OR '1' = '1"
ALL = "(SELECT max(name) FROM item WHERE _tenant = 'acme')"
OURS = "SELECT name FROM item WHERE _tenant = 'evil'"

# --------------------------------------------------------------------------- cursors


async def forged(scope: w.Runtime) -> list[Call]:
    """Build cursors with a true digest and a forged place."""
    page = await scope.resources[Item].search(sort=["name"], limit=2, caller=EVE)
    bound, _ = opened(page.cursor or "")
    places: list[Any] = [
        ["", ""],
        ["a", "a0"],
        [SECRET[:3], "a0"],
        ["plain", "' OR 1 = 1 --"],
        [None, None],
        ["plain", {"gt": ""}],
        [["plain"], "e1"],
        "plain",
        ["plain", 2**70],
        ["plain"],
    ]
    return [search(sort=["name"], cursor=closed([bound, place])) for place in places]


async def forged_control(scope: w.Runtime, monkeypatch: pytest.MonkeyPatch) -> bool:
    without_tenants(monkeypatch)
    [first, *_] = await forged(scope)
    return SECRET in await by_name(scope, *first)


async def replayed(scope: w.Runtime) -> list[Call]:
    """Build cursors of other searches, and of another tenant."""
    for number in range(3):
        await scope.resources[Item].create(id=f"more{number}", name="x", caller=ANN)
    theirs = (await scope.resources[Item].search(sort=["name"], limit=1, caller=ANN)).cursor
    other = (await scope.resources[Item].search(sort=["-name"], limit=1, caller=EVE)).cursor
    return [search(sort=["name"], cursor=theirs), search(sort=["name"], cursor=other)]


async def replayed_control(scope: w.Runtime, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(query.Search, "_digest", lambda self: "same")
    calls = await replayed(scope)
    return all(["cursor: it is not" not in await by_name(scope, *one) for one in calls])


async def cut(scope: w.Runtime) -> list[Call]:
    """Build cursors that are none: cut, doubled, huge, nested."""
    good = (await scope.resources[Item].search(limit=2, caller=EVE)).cursor or ""
    bad = [
        good[:-3],
        good + good,
        good.swapcase(),
        "A" * 1_000_000,
        closed(json.loads("[" * 400 + "]" * 400)),
        closed([good, good]),
        "",
        "null",
        "../../etc/passwd",
        "é",
        "e30\n",
    ]
    return [search(cursor=one) for one in bad]


async def cut_control(scope: w.Runtime, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(query.Search, "_read", lambda self, cursor: tuple(opened(cursor)[1]))
    broken = 0
    for one in await cut(scope):
        try:
            await by_name(scope, *one)
        except Exception:
            broken += 1  # nobody's error: it comes out of the middle of somewhere
    return broken > 3


# --------------------------------------------------------------------------- ids and values


def folded(plan: Any, id: Any) -> Any:
    """Fold a name as a lenient database would."""
    text = unicodedata.normalize("NFKC", str(id)).casefold().strip()
    return text.replace("\u200b", "").replace("\u0430", "a")


async def folded_control(scope: w.Runtime, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(work, "key_of", folded)
    looks = [await by_name(scope, "get_item", {"id": one}) for one in LIKE_E1]
    return all(["plain" in look for look in looks])


LIKE_E1 = ["E1", "e1\u200b", " e1", "e1 ", "\uff45\uff11", "e\u00b9", "e1\n"]
BAD_IDS: list[Any] = [
    "a\0",
    "a1\0",
    "",
    "x" * 1_000_000,
    2**70,
    -(2**63) - 1,
    10**400,
    1.5,
    True,
    None,
    "../a1",
    "/a1",
    "acme/a1",
    "acme:a1",
    "a1;a1",
    "%",
    "*",
    "a_",
    "\u202ea1",
]


async def bad_ids_control(scope: w.Runtime, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(work, "key_of", lambda plan, id: id)
    try:
        told = await by_name(scope, "get_item", {"id": "\ud800"})
    except Exception:
        return True  # the database's own words, or worse
    return "InvalidValue" not in told


DEEP: Any = "x"
for _ in range(20_000):  # more than any Python encodes
    DEEP = [DEEP]
WIDE = {f"k{number}": number for number in range(20_000)}


async def deep_control(scope: w.Runtime, _: pytest.MonkeyPatch) -> bool:
    try:
        json.dumps(DEEP)
    except RecursionError:
        return True
    return False


CONFUSED: list[Call] = [
    ("get_item", {"id": {"ne": ""}}),
    ("get_item", {"id": ["a1"]}),
    ("get_item", {"id": True}),
    ("delete_item", {"id": {"$gt": ""}}),
    ("update_item", {"id": "e1", "values": [["name", "x"]]}),
    ("update_item", {"id": "e1", "values": "name=x"}),
    ("update_item", {"id": "e1", "values": {"whole": True}}),
    ("update_item", {"id": "e1", "values": {"whole": "7"}}),
    ("update_item", {"id": "e1", "values": {"price": [1]}}),
    ("update_item", {"id": "e1", "values": {"name": "x"}, "version": "1"}),
    ("update_item", {"id": "e1", "values": {"name": "x"}, "version": {"ne": 0}}),
    ("create_item", {"name": ["x"]}),
    ("create_item", {"name": {"eq": "x"}}),
    ("create_item", {"name": None}),
    search(where=[["name", "x"]]),
    search(where="1 = 1"),
    search(where={"name": ["x"]}),
    search(where={"name": {"ne": {"ne": ""}}}),
    search(where={"name": {"in": "abc"}}),
    search(where={"whole": {"in": [True]}}),
    search(sort={"name": 1}),
    search(sort=[["name"]]),
    search(limit=True),
]
HIDDEN = [
    (name, value)
    for name, value in {"_tenant": "acme", "_version": 9, "version": 9, "tenant": "acme"}.items()
]
ASSIGNED: list[Call] = [
    *[("create_item", {"name": "x", name: value}) for name, value in HIDDEN],
    *[("update_item", {"id": "e1", "values": {name: value}}) for name, value in HIDDEN],
    ("update_item", {"id": "e1", "values": {"id": "a1"}}),
    ("update_item", {"id": "e1", "values": {"__dict__": {"_version": 9}}}),
    ("create_item", {"name": "x", "__class__": "Mine"}),
    *[search(where={name: value}) for name, value in HIDDEN],
    *[search(sort=[name]) for name, _ in HIDDEN],
]


async def assigned_control(scope: w.Runtime, _: pytest.MonkeyPatch) -> bool:
    values = {"name": "x", "_tenant": "acme"}
    pairs = ", ".join(f"{name} = '{value}'" for name, value in values.items())
    await scope.store.commit(lambda tx: tx.execute(f"UPDATE item SET {pairs} WHERE id = 'e1'"))
    return "'e1'" in await naive(scope, "SELECT id FROM item WHERE _tenant = 'acme'")


async def references_control(scope: w.Runtime, monkeypatch: pytest.MonkeyPatch) -> bool:
    without_tenants(monkeypatch)
    return SECRET in await by_name(scope, "copy_item", {"id": "e1", "source": "a1"})


async def spoofed_control(scope: w.Runtime, _: pytest.MonkeyPatch) -> bool:
    claimed: Any = {"user": "eve", "tenant": "acme"}  # out of the arguments, as a naive tool would
    return SECRET in await by_name(scope, "get_item", {"id": "a1"}, w.Caller(**claimed))


SPOOFED: list[Call] = [
    (tool, {**arguments, name: value})
    for tool, arguments in (
        ("get_item", {"id": "a1"}),
        ("search_item", {}),
        ("copy_item", {"id": "e1", "source": "a1"}),
    )
    for name, value in (
        ("caller", {"user": "ann", "tenant": "acme"}),
        ("tenant", "acme"),
        ("user", "ann"),
        ("roles", ["admin"]),
        ("request_id", "r"),
        ("ctx", {}),
        ("tx", {}),
        ("self", "a1"),
        ("cls", "Item"),
    )
]

FAMILIES: dict[str, Family] = {
    "SQL in a filter's value": Family(
        [
            search(where={"name": one})
            for one in (
                OR,
                {"contains": "' OR 1=1 --"},
                {"prefix": OR},
                {"in": [OR, "') OR ('1'='1"]},
                {"gte": "'; DELETE FROM item; --"},
            )
        ],
        statement(f"{OURS} AND name = '{OR}'"),
    ),
    "SQL in a filter's field": Family(
        [
            search(where={one: "x"})
            for one in (
                "1 = 1 OR name",
                'name" = name OR "name',
                "name--",
                "item.name",
                "name; DELETE FROM item",
            )
        ],
        statement(f"{OURS} AND 1 = 1 OR name = 'x' OR 1 = 1"),
    ),
    "SQL in an operator": Family(
        [
            search(where={"name": {one: "x"}})
            for one in (
                "= '' OR 1 = 1 OR name =",
                "like",
                "<> '' OR name <>",
                "regexp",
                "EQ",
                "__eq__",
            )
        ],
        statement(f"{OURS} AND name = '' OR 1 = 1 OR name = 'x'"),
    ),
    "SQL in a sort key": Family(
        [
            search(sort=[one])
            for one in (
                f"name LIMIT 0 UNION SELECT {ALL}",
                f"-{ALL}",
                "name DESC, (SELECT 1)",
                "1",
                "--name",
                "-",
                "random()",
            )
        ],
        statement(f"SELECT name FROM (SELECT 'x' AS name) AS t UNION SELECT {ALL}"),
    ),
    "SQL in a limit": Family(
        [
            search(limit=one)
            for one in (f"1 UNION SELECT {ALL}", "ALL", -1, 0, 10**9, 2**64, 1e400, "5", [5])
        ],
        statement(f"SELECT 'x' UNION SELECT {ALL} LIMIT 5"),
    ),
    "SQL in an id": Family(
        [
            (tool, {"id": one, **more})
            for one in ("x' OR name > '", f"' UNION SELECT {ALL} --", "a1' --")
            for tool, more in (
                ("get_item", {}),
                ("delete_item", {}),
                ("update_item", {"values": {"name": "x"}}),
            )
        ],
        statement(f"{OURS} AND id = 'x' OR name > ''"),
    ),
    "forged cursors": Family(forged, forged_control),
    "cursors of another search or tenant": Family(replayed, replayed_control),
    "cursors that are none": Family(cut, cut_control),
    "wildcards and patterns": Family(
        [
            search(where={"name": {how: one}})
            for how in ("contains", "prefix")
            for one in ("%", "_", "*", ".*", "^", "[a-z]", "(a+)+$", "\\")
        ],
        statement("SELECT name FROM item WHERE name LIKE '%'"),
    ),
    "ids that look like others": Family(
        [("get_item", {"id": one}) for one in [*LIKE_E1, "A1", "\u0430" + "1", "a1\u200b"]],
        folded_control,
    ),
    "ids that are none": Family(
        [(tool, {"id": one}) for one in BAD_IDS for tool in ("get_item", "delete_item")],
        bad_ids_control,
    ),
    "values nested or spread without end": Family(
        [
            ("create_item", {"name": "x", "data": {"deep": DEEP}}),
            ("update_item", {"id": "e1", "values": {"data": {"d": DEEP}}}),
            search(where={"name": DEEP}),
            search(where={"name": {"in": DEEP}}),
            search(sort=DEEP),
            search(where={one: 1 for one in WIDE}),
            search(where={"name": {"in": ["x"] * 20_000}}),
        ],
        deep_control,
    ),
    "values of another type": Family(CONFUSED, statement(f"{OURS} OR id <> ''")),
    "fields that are nobody's to set": Family(ASSIGNED, assigned_control),
    "references into another tenant": Family(
        [
            ("copy_item", {"id": "e1", "source": one})
            for one in ("a1", "acme/a1", "a1' OR '1' = '1", "%")
        ]
        + [("copy_item", {"id": "a1", "source": "e1"})],
        references_control,
    ),
    "a caller among the arguments": Family(SPOOFED, spoofed_control, ("name", "agent", "http")),
}

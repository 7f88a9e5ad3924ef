"""`windlass run --preview`, `windlass plan` and `windlass undo`: look first, do it once, take it back."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
from pathlib import Path

import pytest

import windlass as w
from windlass.cli.store_location import find_place
from windlass.testing import call, scripted

MOCK = ("--provider", "mock")
SHOP = """
    def unpay(args, result, ctx):
        '''Ask for the money back.'''
        with open("paid.txt", "a") as book:
            book.write(f"back {args['amount']}\\n")
        return f"got {args['amount']}"

    @w.tool(undo=unpay)
    async def pay(to: str, amount: int) -> str:
        '''Send money.'''
        with open("paid.txt", "a") as book:
            book.write(f"paid {amount}\\n")
        return f"paid {amount} to {to}"

    @w.tool
    async def shout(words: str) -> str:
        '''Say it.'''
        return words

    def asked(amount=5):
        w.llm_mock(text="I will pay.", tool_calls=[
            {"name": "pay", "arguments": {"to": "Bob\\x1b[2J", "amount": amount}},
            {"name": "shout", "arguments": {"words": "hey"}},
        ])
        w.llm_mock(text="done")

    asked()
"""
TOOLS = ("-t", "shop:pay", "-t", "shop:shout")


@pytest.fixture(autouse=True)
def shop(module) -> None:
    module("shop", SHOP)


def again(amount: int = 5) -> None:
    """What the mock is to say in the next command."""
    sys.modules.pop("shop", None)
    path = Path("shop.py")
    path.write_text(re.sub(r"\nasked\(.*\)", f"\nasked({amount})", path.read_text()))


def paid() -> list[str]:
    book = Path("paid.txt")
    return book.read_text().splitlines() if book.exists() else []


def previewed(windlass) -> None:
    done = windlass("run", "pay bob", *MOCK, *TOOLS, "--preview", "--session", "p")
    assert "2 effects planned: windlass plan show p" in done.output and paid() == []


def test_show_approve_and_do(windlass):
    previewed(windlass)
    shown = windlass("plan", "show", "p").stdout
    assert "not approved" in shown and "1. pay(" in shown and "2. shout(" in shown
    assert "\x1b" not in shown and "not rehearsed" in shown
    assert "add --yes" in windlass("plan", "approve", "p", code=2).stderr
    assert "approved 2 effects" in windlass("plan", "approve", "p", "--yes", "--by", "ann").stdout
    told = json.loads(windlass("plan", "show", "p", "--json").stdout)
    assert told["approved_by"] == "ann" and told["state"].startswith("approved by ann (16")
    again()
    windlass("run", "pay bob", *MOCK, *TOOLS, "--plan", "p", "--session", "r")
    assert paid() == ["paid 5"]
    assert "used by r" in windlass("plan", "show", "p").stdout
    again()
    second = windlass("run", "pay bob", *MOCK, *TOOLS, "--plan", "p", code=1)
    assert "was used by session r" in second.output and paid() == ["paid 5"]


def test_a_plan_that_is_not_approved_and_one_that_does_not_fit(windlass):
    previewed(windlass)
    again()
    assert "is not approved" in windlass("run", "x", *MOCK, *TOOLS, "--plan", "p", code=1).output
    windlass("plan", "approve", "p", "-y", "--expires", "1h")
    again(6)
    done = windlass("run", "x", *MOCK, *TOOLS, "--plan", "p", "--session", "r", code=1)
    assert "waits:" in done.output and paid() == []
    waiting = json.loads(windlass("approvals", "list", "--json").stdout)
    assert waiting[0]["rule"] == "plan" and waiting[0]["arguments"]["amount"] == 6


def test_a_session_without_a_plan(windlass):
    windlass("run", "pay", *MOCK, *TOOLS, "--session", "s")
    assert "has no plan" in windlass("plan", "show", "s", code=2).stderr


def test_undo_lists_asks_undoes_and_is_done_once(windlass):
    windlass("run", "pay", *MOCK, *TOOLS, "--session", "s")
    listed = windlass("undo", "s", *TOOLS, "--dry-run").stdout
    first, second, third, fourth = listed.splitlines()
    assert "shout(" in first and "cannot be undone: shout declares no undo" in second
    assert "pay(" in third and "undo: Ask for the money back." in fourth and "\x1b" not in listed
    assert paid() == ["paid 5"]
    assert "add --yes" in windlass("undo", "s", *TOOLS, code=2).stderr
    done = windlass("undo", "s", *TOOLS, "--yes", "--by", "ann", code=1)
    assert "undone by ann: got 5" in done.stdout and paid() == ["paid 5", "back 5"]
    once = json.loads(windlass("undo", "s", *TOOLS, "--yes", "--json", code=1).stdout)
    assert [(one["tool"], one["undone_by"]) for one in once] == [("shout", None), ("pay", "ann")]
    assert paid() == ["paid 5", "back 5"]
    assert "undone" in windlass("sessions", "show", "s").stdout


def test_undo_one_call(windlass):
    windlass("run", "pay", *MOCK, *TOOLS, "--session", "s")
    pay = json.loads(windlass("undo", "s", *TOOLS, "--dry-run", "--json").stdout)[1]
    assert "no effect of call 'nope'" in windlass("undo", "s", "-c", "nope", code=2).stderr
    windlass("undo", "s", *TOOLS, "-c", pay["call_id"], "-y")
    assert paid() == ["paid 5", "back 5"]


def test_tools_must_be_named_again(windlass):
    windlass("run", "pay", *MOCK, *TOOLS, "--session", "s")
    listed = windlass("undo", "s", "--yes", code=1).stdout
    assert "is not here: give it with tools=[…] (-t)" in listed and paid() == ["paid 5"]


def test_nothing_to_undo(windlass):
    windlass("run", "hi", *MOCK, "--session", "s")
    assert "no effects" in windlass("undo", "s").stderr


JARS = """
    class Jar(w.Resource):
        id: str
        n: int = 0
"""


def test_rows_of_a_resource(windlass, module, project):
    module("jars", JARS)
    Path(".windlass").mkdir()
    sys.path.insert(0, str(project))
    jar = importlib.import_module("jars").Jar

    async def work() -> None:
        store = find_place(None).open()
        async with w.Runtime(store=store, resources=[jar], environ={}) as scope:
            model = scripted(
                call("create_jar", id="a"), call("update_jar", id="a", values={"n": 2}), "ok"
            )
            await w.Agent(model, tools=scope.tools()).run("go", session_id="s")
        await store.aclose()

    asyncio.run(work())
    looked = windlass("undo", "s", "-t", "jars:Jar", "--dry-run").stdout
    assert "undo: set jar 'a' back: n to 0" in looked and "undo: delete jar 'a'" in looked
    older = windlass("undo", "s", "-t", "jars:Jar", "--dry-run", "-c", "call_1").stdout
    assert "cannot be undone: jar 'a' was changed since" in older  # as long as the newer one stands
    done = windlass("undo", "s", "-t", "jars:Jar", "--yes", "--by", "ann")
    assert done.stdout.count("undone by ann") == 2 and "delete jar 'a'" in done.stdout

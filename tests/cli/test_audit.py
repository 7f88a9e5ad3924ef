"""`windlass audit`: query, verify and seal, on what `windlass run` left behind."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

MOCK = ("--provider", "mock")
SHOP = """
    @w.tool
    async def pay(to: str, amount: float) -> str:
        '''Send money.'''
        return f"paid {amount} to {to}"

    w.llm_mock(text="I will pay.", tool_calls=[{"name": "pay", "arguments": {"to": "Bob\\x1b[2J", "amount": 5}}])
"""
STORE = Path(".windlass/sessions.db")
ANCHOR = Path("seals.jsonl")


@pytest.fixture
def paid(windlass, module, project) -> None:
    """A run that paid, in a project whose record is anchored."""
    (project / "windlass.toml").write_text('[audit]\nanchor = "seals.jsonl"\n')
    module("shop", SHOP)
    windlass("run", "pay bob", *MOCK, "-t", "shop:pay", "--session", "s1")


def change(sql: str) -> None:
    connection = sqlite3.connect(STORE)
    connection.execute(sql)
    connection.commit()
    connection.close()


def test_nothing_is_there(windlass):
    assert "nothing is kept" in windlass("audit", "verify").stderr
    assert "no tool calls" in windlass("audit", "query").stderr
    assert "nothing is kept" in windlass("audit", "seal").stderr
    assert json.loads(windlass("audit", "query", "--json").stdout) == {
        "entries": [],
        "cursor": None,
    }


def test_what_did_this_agent_do(windlass, paid):
    lines = windlass("audit", "query").stdout.splitlines()
    assert lines[0].split() == ["TIME", "SESSION", "CALLER", "TOOL", "RULE", "OUTCOME", "WHAT"]
    assert len(lines) == 2 and " s1 " in lines[1] and " pay " in lines[1] and " ok " in lines[1]
    (entry,) = json.loads(windlass("audit", "query", "--tool", "pay", "--json").stdout)["entries"]
    assert entry["session"] == "s1" and entry["caller"] == "local" and entry["digest"]
    for which in (("--session", "s"), ("--caller", "local"), ("--since", "1h"), ("--tenant", "")):
        assert len(windlass("audit", "query", *which).stdout.splitlines()) == 2
    for which in (
        ("--session", "x"),
        ("--caller", "eve"),
        ("--until", "1h"),
        ("--tenant", "t"),
        ("--request", "r"),
        ("--conversation", "c"),
        ("--resource", "order"),
    ):
        assert "that are meant" in windlass("audit", "query", *which).stderr
    assert windlass("audit", "query", "--since", "soon", code=2)


def test_pages(windlass, module):
    again = "{'name': 'pay', 'arguments': {'to': 'Ann', 'amount': 1}}"
    module("market", SHOP.replace("tool_calls=[", f"tool_calls=[{again}, "))
    windlass("run", "pay both", *MOCK, "-t", "market:pay", "--session", "s1")
    page = json.loads(windlass("audit", "query", "--limit", "1", "--json").stdout)
    done = windlass("audit", "query", "--limit", "1")
    assert page["cursor"] in done.stderr and len(done.stdout.splitlines()) == 2
    rest = json.loads(windlass("audit", "query", "--cursor", page["cursor"], "--json").stdout)
    (first,), (last,) = page["entries"], rest["entries"]
    assert first["call"] != last["call"] and rest["cursor"] is None


def test_a_whole_record(windlass, paid):
    assert windlass("audit", "verify").stdout.startswith("verified 1 session (")
    told = json.loads(windlass("audit", "verify", "--session", "s1", "--json").stdout)
    assert told["verified"] is True and told["anchored"] == 1 and told["not_covered"] == []
    assert "no session 'x'" in windlass("audit", "verify", "--session", "x", code=1).stderr


def test_one_line_for_each_finding(windlass, paid):
    change(
        "UPDATE windlass_rows SET payload = CAST(replace(payload, 'Bob', 'Eve') AS BLOB) WHERE seq > 0"
    )
    done = windlass("audit", "verify", code=1)
    found = [line for line in done.stdout.splitlines() if line.startswith("found")]
    assert len(found) == 1 and "session 's1', row " in found[0] and "changed since" in found[0]
    assert "1 finding in" in done.stdout
    told = json.loads(windlass("audit", "verify", "--json", code=1).stdout)
    assert told["verified"] is False and told["findings"][0]["session"] == "s1"


def test_without_an_anchor_it_says_what_would_not_show(windlass, module, project):
    module("shop", SHOP)
    windlass("run", "pay bob", *MOCK, "-t", "shop:pay", "--session", "s1")
    done = windlass("audit", "verify").stdout
    assert "not covered no anchor was given" in done and "nothing was ever sealed" in done
    assert (
        "1 seal over 1 chain, kept in seals.jsonl"
        in windlass("audit", "seal", "--anchor", "seals.jsonl").stdout
    )
    done = windlass("audit", "verify", "--anchor", "seals.jsonl").stdout
    assert "not covered" not in done and "1 seal, 1 anchored" in done
    assert json.loads(windlass("audit", "seal", "--json").stdout) == []


def test_a_deletion_is_on_record_and_a_loss_is_found(windlass, paid, project):
    windlass("sessions", "delete", "s1", "--yes")
    done = windlass("audit", "verify").stdout
    assert "deleted s1, " in done and "verified" in done
    STORE.unlink()
    for rest in STORE.parent.glob("sessions.db-*"):
        rest.unlink()
    done = windlass("audit", "verify", code=1)
    assert "older copy" in done.stdout


def test_a_pruned_session_is_on_record(windlass, paid):
    windlass("sessions", "prune", "--older-than", "0s")
    assert "deleted s1, " in windlass("audit", "verify").stdout

"""`windlass sessions`: list, show, resume, export, prune, verify, delete."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import LOOKUP

MOCK = ("--provider", "mock")


@pytest.fixture
def kept(windlass, module) -> None:
    """Three sessions: one with a tool call, and two that are alike in their names."""
    module("shop", LOOKUP)
    windlass("run", "What does it\ncost?", *MOCK, "-t", "shop:look_up", "--session", "shop-1")
    windlass("run", "hi", *MOCK, "--session", "talk-1")
    windlass("run", "ho", *MOCK, "--session", "talk-2")


def age(project: Path, session: str, days: float) -> None:
    with closing(sqlite3.connect(project / ".windlass" / "sessions.db")) as db, db:
        change = "UPDATE windlass_sessions SET updated_at = updated_at - ? WHERE id = ?"
        db.execute(change, (days * 86400, session))


def ids(windlass) -> list[str]:
    return [info["id"] for info in json.loads(windlass("sessions", "list", "--json").stdout)]


def test_list(windlass, kept):
    lines = windlass("sessions", "list").stdout.splitlines()
    assert lines[0].split() == ["SESSION", "STATUS", "UPDATED", "ENTRIES", "FIRST", "MESSAGE"]
    assert [line.split()[0] for line in lines[1:]] == ["talk-2", "talk-1", "shop-1"]
    assert lines[3].split()[1] == "done" and lines[3].endswith("What does it cost?")
    few = windlass("sessions", "list", "--limit", "1").stdout.splitlines()
    assert few[2] == "and 2 more; --limit 3 lists them all"


def test_listing_nothing_makes_nothing(windlass, project: Path):
    done = windlass("sessions", "list")
    assert done.stdout == "" and "no sessions in " in done.stderr
    assert json.loads(windlass("sessions", "list", "--json").stdout) == []
    assert list(project.iterdir()) == []


def test_show_tells_the_whole_story(windlass, kept):
    shown = windlass("sessions", "show", "shop-1").stdout
    lines = [line.split(None, 2)[2:] for line in shown.splitlines() if line.startswith("  ")]
    told = [line[0].split(None, 1) for line in lines if line]
    assert shown.splitlines()[0] == "shop-1  done"
    assert " · 2 turns · " in shown.splitlines()[1]
    assert [label for label, _ in told] == [
        "run",
        "frame",
        "user",
        "allow",
        "starts",
        "model",
        "says",
        "asks",
        "result",
        "verdict",
        "model",
        "says",
        "verdict",
        "end",
    ]
    words = dict(told[3:10])
    assert words["asks"] == 'look_up(order="A-1")'
    assert words["allow"].startswith("look_up by rule 'default' for local, arguments ")
    assert words["result"].startswith("look_up: A-1 costs 59.90")
    assert words["model"].split(" · ")[1] == "30 out"
    assert shown.count("\nturn ") == 2


def test_show_cuts_long_text_unless_all_of_it_is_wanted(windlass):
    windlass("run", "word " * 2000, *MOCK, "--session", "s")
    short, full = windlass("sessions", "show", "s"), windlass("sessions", "show", "s", "--full")
    assert max(map(len, short.stdout.splitlines())) <= 160 and "…" in short.stdout
    assert max(map(len, full.stdout.splitlines())) > 9000


def test_an_unfinished_session_says_so(windlass, module):
    module(
        "host",
        """
        fetch = w.Tool(name="fetch", description="Fetch.", parameters={"url": {"type": "string"}})
        w.llm_mock(tool_calls=[{"name": "fetch", "arguments": {"url": "u"}, "id": "call_7"}])
    """,
    )
    windlass("run", "x", *MOCK, "-t", "host:fetch", "--session", "s", code=1)
    shown = windlass("sessions", "show", "s").stdout
    assert "s  parked" in shown and "parked   fetch is run by the host; waits for call_7" in shown
    done = windlass("sessions", "resume", "s", "-t", "host:fetch", "--result", "call_7=page")
    assert (
        "Mock reply to: x" in done.stdout and "s  done" in windlass("sessions", "show", "s").stdout
    )


def test_an_id_may_be_cut(windlass, kept):
    assert "shop-1  done" in windlass("sessions", "show", "sh").stdout
    both = windlass("sessions", "show", "talk", code=1)
    assert both.stderr == (
        "windlass: error: 2 sessions begin with 'talk': talk-2, talk-1; write more of it\n"
    )
    wrong = windlass("sessions", "show", "shpo-1", code=1)
    assert wrong.stderr == "windlass: error: no session 'shpo-1'; did you mean 'shop-1'?\n"


def test_the_word_session_may_be_left_out(windlass):
    windlass("run", "hi", *MOCK)
    (id,) = ids(windlass)
    assert id.startswith("session_")
    assert windlass("sessions", "show", id.removeprefix("session_")[:6]).stdout.startswith(id)


def test_export_is_the_journal_line_by_line(windlass, kept, project: Path):
    entries = [json.loads(l) for l in windlass("sessions", "export", "shop-1").stdout.splitlines()]  # noqa: E741
    assert [entry["kind"] for entry in entries[:2]] == ["session", "run_start"]
    assert entries[-1]["kind"] == "outcome"
    done = windlass("sessions", "export", "shop-1", "--format", "jsonl", "-o", "out.jsonl")
    assert done.stdout == "" and f"{len(entries)} entries written to out.jsonl" in done.stderr
    written = (project / "out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == entries
    transcript = json.loads(windlass("sessions", "export", "shop-1", "--format", "json").stdout)
    assert len(transcript["messages"]) == 4
    text = windlass("sessions", "export", "talk-1", "--format", "text").stdout
    assert text == "user: hi\n\nassistant: Mock reply to: hi\n"


def test_prune(windlass, kept, project: Path):
    age(project, "talk-1", 31)
    age(project, "talk-2", 29)
    said = windlass("sessions", "prune", "--older-than", "30d", "--dry-run").stdout
    assert said == "talk-1\n1 session would be deleted\n" and len(ids(windlass)) == 3
    done = windlass("sessions", "prune", "--older-than", "30d", "--json")
    assert json.loads(done.stdout) == {"deleted": ["talk-1"]}
    assert sorted(ids(windlass)) == ["shop-1", "talk-2"]
    assert "how old?" in windlass("sessions", "prune", code=2).stderr
    assert "no age" in windlass("sessions", "prune", "--older-than", "soon", code=2).stderr
    (project / "windlass.toml").write_text("[store]\nkeep_days = 7\n")
    assert windlass("sessions", "prune").stdout == "talk-2\n1 session deleted\n"


def test_verify(windlass, kept, project: Path):
    good = windlass("sessions", "verify", "shop").stdout
    assert good.startswith("verified shop-1: ") and " rows, head " in good
    assert json.loads(windlass("sessions", "verify", "talk-1", "--json").stdout)["verified"] is True
    with closing(sqlite3.connect(project / ".windlass" / "sessions.db")) as db, db:
        db.execute(
            "UPDATE windlass_rows SET payload = CAST(replace(payload, '59.90', '9.90') AS BLOB)"
        )
    bad = windlass("sessions", "verify", "shop-1", code=1)
    assert bad.stderr.startswith("windlass: error: session 'shop-1', row ")
    assert "verified" in windlass("sessions", "verify", "talk-1").stdout


def test_delete_asks_first(windlass, kept):
    assert "add --yes" in windlass("sessions", "delete", "shop-1", code=2).stderr
    assert len(ids(windlass)) == 3
    done = windlass("sessions", "delete", "shop-1", "talk-2", "--yes")
    assert done.stdout == "deleted shop-1\ndeleted talk-2\n"
    assert ids(windlass) == ["talk-1"]


@pytest.mark.parametrize("command", ["show", "export", "verify", "resume"])
def test_a_session_that_is_not_there(windlass, project: Path, command):
    done = windlass("sessions", command, "s", code=1)
    assert done.stderr.startswith("windlass: error: no session 's': nothing is kept in ")
    assert list(project.iterdir()) == []


def test_another_store(windlass, project: Path):
    windlass("run", "hi", *MOCK, "--store", "other.db", "--session", "s")
    assert ids(windlass) == []
    assert "s  done" in windlass("sessions", "show", "s", "--store", "other.db").stdout
    windlass("sessions", "delete", "s", "-y", "--store", "sqlite:///other.db")
    assert (
        "no session 's'" in windlass("sessions", "show", "s", "--store", "other.db", code=1).stderr
    )

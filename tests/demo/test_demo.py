"""The demo keeps its word, and keeps it because of the runtime: without it there are two refunds."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from windlass.cli.demo import child, shop
from windlass.events import RunEnded, RunResumed, ToolIntended, ToolResulted
from windlass.store import open_store

PATIENCE = 120  # seconds; only a broken demo makes a test wait for it


class Told:
    """One telling of the demo: what it said, and what it left behind."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder / "shop"
        command = [sys.executable, "-c", "from windlass.cli.main import main; main()", "demo"]
        self.done = subprocess.run(
            [*command, "--keep", str(self.folder), *options],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=folder,
        )
        assert self.done.stderr == ""
        self.said = self.done.stdout

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "shop.db")) as db:
            return db.execute(query).fetchall()

    def log(self) -> list[dict[str, Any]]:
        lines = (self.folder / "effects.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return Told(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def naive(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return Told(tmp_path_factory.mktemp("naive"), "--naive")


def test_it_says_what_is_scripted_and_what_it_shows(told: Told):
    assert told.done.returncode == 0
    assert "The model is scripted" in told.said
    assert (
        "✓ The customer was refunded exactly once (3 kills, the refund begun 2 times)." in told.said
    )
    assert told.said.count("✗ SIGKILL") == 3
    assert re.search(r"✓ The chain of hashes holds: \d+ rows", told.said)
    assert "What next" in told.said
    assert "\x1b" not in told.said  # plain, for it is piped


def test_next_steps_can_be_pasted_as_they_are(told: Told):
    steps = told.said.partition("What next")[2].splitlines()[1:]
    commands = [line for line in steps if line and not line.startswith(" ")]
    assert commands == [
        "windlass demo --naive",
        f"windlass sessions show refund-A-1042 --store {told.folder / 'shop.db'}",
        "windlass run 'Hello.' --provider mock",
        "windlass models",
    ]
    main = [sys.executable, "-c", "from windlass.cli.main import main; main()"]
    for command in commands[1:]:
        words = shlex.split(command)[1:]
        done = subprocess.run([*main, *words], cwd=told.folder.parent, capture_output=True)
        assert done.returncode == 0, done.stderr


def test_there_is_one_refund_and_one_letter(told: Told):
    assert told.rows("SELECT order_id, cents FROM refunds") == [("A-1042", 5990)]
    assert len(told.rows("SELECT * FROM letters")) == 1


def test_nothing_in_the_shop_keeps_a_second_refund_out(told: Told, tmp_path: Path):
    place = shop.Shop(tmp_path)
    place.open_for_business()
    with closing(sqlite3.connect(place.file)) as db, db:
        for _ in range(2):
            db.execute("INSERT INTO refunds (order_id, cents) VALUES ('A-1042', 5990)")
    assert len(place.rows("refunds")) == 2
    assert told.rows("SELECT * FROM pragma_index_list('refunds')") == []
    assert told.rows("SELECT name FROM sqlite_master WHERE type = 'trigger'") == []


def test_the_effect_log_shows_two_attempts_in_two_processes(told: Told):
    log = told.log()
    begun = [line["who"] for line in log if line["what"] == "refund begins"]
    made = [line for line in log if line["what"] == "refund committed"]
    assert len(begun) == 2 and len(set(begun)) == 2
    assert len(made) == 1 and made[0]["who"] == "observer"
    letters = [line["about"] for line in log if line["what"] == "letter begins"]
    assert len(letters) == 2 and len(set(letters)) == 1  # twice, under one key


async def test_the_journal_tells_the_same(told: Told):
    store = open_store(told.folder / "shop.db")
    try:
        assert await store.verify(shop.SESSION) > 5
        entries = await store.read(shop.SESSION)
    finally:
        await store.aclose()
    assert sum(isinstance(entry, RunResumed) for entry in entries) == 3
    results = [entry.tool for entry in entries if isinstance(entry, ToolResulted)]
    assert results == ["look_up_order", "refund", "write_letter"]
    attempts = [(e.tool, e.attempt) for e in entries if isinstance(e, ToolIntended)]
    assert attempts[-2:] == [("write_letter", 1), ("write_letter", 2)]
    ended = [entry for entry in entries if isinstance(entry, RunEnded)]
    assert [entry.status for entry in ended] == ["done"]


def test_without_transaction_and_key_there_are_two_refunds(naive: Told):
    assert naive.done.returncode == 0
    assert len(naive.rows("SELECT * FROM refunds")) == 2
    made = [line for line in naive.log() if line["what"] == "refund committed"]
    assert len(made) == 2
    assert "✗ The customer was refunded twice" in naive.said
    assert "exactly once" not in naive.said
    assert len(naive.rows("SELECT * FROM letters")) == 1  # which is keyed in both


@pytest.mark.parametrize("moment", ["before-commit", "after-commit", "after-letter"])
def test_a_process_really_dies_of_sigkill(tmp_path: Path, moment: str):
    shop.Shop(tmp_path).open_for_business()
    command = [sys.executable, "-m", "windlass.cli.demo.child", str(tmp_path), moment, "0", "safe"]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE)
    assert done.returncode == -signal.SIGKILL, done.stderr
    refunds = {"before-commit": 0, "after-commit": 1, "after-letter": 1}[moment]
    assert len(shop.Shop(tmp_path).rows("refunds")) == refunds
    assert moment in child.MOMENTS


def test_the_kept_session_can_be_looked_at(told: Told):
    (command,) = re.findall(r"windlass (sessions show \S+ --store \S+)", told.said)
    ask = [sys.executable, "-c", "from windlass.cli.main import main; main()", *command.split()]
    done = subprocess.run(ask, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "refund-A-1042  done" in done.stdout
    timeline = done.stdout.split("\n", 2)[2]
    assert timeline in told.said  # one renderer for both


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine.txt").write_text("mine")
    command = [sys.executable, "-c", "from windlass.cli.main import main; main()", "demo"]
    done = subprocess.run(
        [*command, "--keep", "shop"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 2 and "the folder is not empty" in done.stderr

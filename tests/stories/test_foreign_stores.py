"""A store that came from somewhere else is not opened; one of this user's own is."""
# ruff: noqa: ASYNC240 - files of a test are small

from __future__ import annotations

import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import windlass as w
from windlass.cli.main import cli
from windlass.errors import StoreError
from windlass.store import open_store
from windlass.store.sqlite.store import SqliteStore
from windlass.testing import scripted

DEFAULT = Path(".windlass", "sessions.db")
READING = [
    ["sessions", "list"],
    ["sessions", "show", "s"],
    ["sessions", "export", "s"],
    ["sessions", "verify", "s"],
    ["trace", "s"],
    ["context", "s"],
    ["cost"],
    ["audit", "verify"],
    ["audit", "query"],
    ["approvals", "list"],
    ["replay", "s"],
]


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(folder)
    return folder


def call(*args: str):
    """The command, on a thread of its own: it has an event loop of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(CliRunner().invoke, cli, args).result()


async def fill(path: Path) -> None:
    """A store with a session, closed again."""
    store = SqliteStore(path)
    await w.Agent(scripted("done")).run("hello", session_id="s", store=store)
    await store.aclose()


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(script)


def content(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


HOSTILE = {
    "trigger": "CREATE TRIGGER t AFTER INSERT ON windlass_inbox BEGIN"
    " UPDATE windlass_inbox SET payload = '{}'; END",
    "trigger elsewhere": "CREATE TABLE mine (n); CREATE TRIGGER t AFTER INSERT ON mine BEGIN"
    " DELETE FROM windlass_inbox; END",
    "view": "ALTER TABLE windlass_beats RENAME TO kept; CREATE VIEW windlass_beats AS"
    " WITH RECURSIVE n(store, at) AS (SELECT 1, 1 UNION ALL SELECT store, at FROM n) SELECT * FROM n",
    "another view": "CREATE VIEW windlass_other AS SELECT 1",
    "generated column": "ALTER TABLE windlass_inbox ADD COLUMN x AS (upper(kind))",
    "expression index": "CREATE INDEX odd ON windlass_inbox (upper(kind))",
    "partial index": "CREATE INDEX odd ON windlass_inbox (kind) WHERE kind LIKE '%a%'",
    "check": "CREATE TABLE windlass_seals (tenant TEXT CHECK (length(tenant) > 0))",
    "default": "DROP TABLE windlass_beats;"
    " CREATE TABLE windlass_beats (store TEXT PRIMARY KEY, at REAL NOT NULL DEFAULT (random()))",
    "the known view changed": "DROP VIEW windlass_model_calls;"
    " CREATE VIEW windlass_model_calls AS SELECT 1",
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_store_with_a_schema_of_others_is_not_opened(tmp_path, what):
    path = tmp_path / "a.db"
    await fill(path)
    change(path, HOSTILE[what])
    for read_only in (False, True):
        store = SqliteStore(path, read_only=read_only)
        with pytest.raises(StoreError, match="none of ours"):
            await store.sessions()
        await store.aclose()


async def test_plain_tables_indexes_and_triggers_of_ones_own_are_fine(tmp_path):
    path = tmp_path / "a.db"
    await fill(path)
    change(
        path,
        "CREATE TABLE orders (id TEXT, paid INT, twice AS (paid * 2));"
        "CREATE INDEX by_time ON windlass_calls (at);"
        "CREATE VIEW open_orders AS SELECT * FROM orders WHERE paid = 0;"
        "CREATE TRIGGER t AFTER INSERT ON orders BEGIN UPDATE orders SET paid = 0; END;",
    )
    for read_only in (False, True):
        store = SqliteStore(path, read_only=read_only)
        assert [info.id for info in await store.sessions()] == ["s"]
        await store.aclose()


async def test_a_database_of_others_is_not_changed(project):
    change(Path("shop.db"), "CREATE TABLE orders (id); INSERT INTO orders VALUES (1)")
    before = content(project)
    for command in [*READING, ["sessions", "prune", "--older-than", "1d"]]:
        done = call(*command, "--store", "shop.db")
        assert done.exit_code != 0 and "not changed" in done.output, (command, done.output)
    store = open_store("shop.db")
    with pytest.raises(StoreError, match="add_tables=True"):
        await store.open("s")
    await store.aclose()
    assert content(project) == before

    store = open_store("shop.db", add_tables=True)
    await (await store.open("s")).close()
    await store.aclose()
    assert call("sessions", "list", "--store", "shop.db").exit_code == 0


async def test_a_rollback_journal_beside_a_store_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("windlass.store.sqlite.schema_check.JOURNAL_SECONDS", 0.0)
    path = tmp_path / "a.db"
    await fill(path)
    Path(f"{path}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504))
    for read_only in (False, True):
        store = SqliteStore(path, read_only=read_only)
        with pytest.raises(StoreError, match="rollback journal"):
            await store.sessions()
        await store.aclose()
    assert Path(f"{path}-journal").exists()
    Path(f"{path}-journal").unlink()
    store = SqliteStore(path)
    assert len(await store.sessions()) == 1
    await store.aclose()


async def test_links_and_odd_files_are_no_stores(tmp_path):
    os.mkfifo(tmp_path / "pipe.db")
    await fill(tmp_path / "a.db")
    (tmp_path / "a.db-wal").unlink(missing_ok=True)
    (tmp_path / "a.db-wal").symlink_to(tmp_path / "elsewhere")
    for name in ("pipe.db", "a.db"):
        store = SqliteStore(tmp_path / name)
        with pytest.raises(StoreError, match="not a regular file"):
            await store.sessions()
        await store.aclose()
    assert not (tmp_path / "elsewhere").exists()


async def test_reading_commands_change_nothing(project):
    await fill(Path("a.db"))
    before = Path("a.db").read_bytes()
    for command in READING:
        done = call(*command, "--store", "a.db")
        assert done.exit_code in (0, 1) and "reading only" not in done.output, (
            command,
            done.output,
        )
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert Path("a.db").read_bytes() == before
    store = open_store("a.db", read_only=True)
    with pytest.raises(StoreError, match="reading only"):
        await store.open("s")
    with pytest.raises(StoreError, match="reading only"):
        await store.delete("s")
    await store.aclose()


async def test_what_a_killed_writer_left_in_its_log_is_read(project):
    store = SqliteStore("live.db")
    journal = await store.open("s")
    for ending in ("", "-wal"):  # as a kill leaves them
        shutil.copyfile(f"live.db{ending}", f"killed.db{ending}")
    await journal.close()
    await store.aclose()
    assert Path("killed.db-wal").stat().st_size
    reader = open_store("killed.db", read_only=True)
    assert [info.id for info in await reader.sessions()] == ["s"]
    await reader.aclose()
    writer = open_store("killed.db")
    await (await writer.open("s", take_over=True)).close()
    await writer.aclose()


async def test_a_shipped_default_store_is_refused(project):
    DEFAULT.parent.mkdir()
    await fill(DEFAULT)
    before = content(project)
    for command in READING:
        done = call(*command)
        assert done.exit_code != 0 and "--store" in done.output, (command, done.output)
    done = call("run", "hello", "--provider", "mock")
    assert done.exit_code != 0 and "you did not make this store" in done.output
    assert content(project) == before
    assert call("sessions", "list", "--store", str(DEFAULT)).exit_code == 0


async def test_ones_own_default_store_is_opened_and_a_swapped_one_is_not(project):
    await fill(project / "shipped.db")
    assert call("run", "hello", "--provider", "mock").exit_code == 0
    assert "hello" in call("sessions", "list").output
    shutil.copyfile("shipped.db", DEFAULT)
    done = call("sessions", "list")
    assert done.exit_code != 0 and "not the store that was made here" in done.output
    shutil.rmtree(".windlass")  # as the message says
    assert call("run", "again", "--provider", "mock").exit_code == 0
    assert "again" in call("sessions", "list").output


def test_a_linked_default_store_is_refused(project, tmp_path):
    (tmp_path / "other").mkdir()
    Path(".windlass").symlink_to(tmp_path / "other")
    done = call("run", "hello", "--provider", "mock")
    assert done.exit_code != 0 and "symbolic link" in done.output
    assert list((tmp_path / "other").iterdir()) == []


async def test_a_journal_of_a_killed_process_that_made_the_store_is_rolled_back(tmp_path):
    path = tmp_path / "s.db"
    path.write_bytes(b"")
    Path(f"{path}-journal").write_bytes(bytes(512))
    store = SqliteStore(path)
    await (await store.open("s")).close()
    assert [info.id for info in await store.sessions()] == ["s"]
    await store.aclose()


async def test_a_journal_that_names_another_file_is_refused_also_beside_an_empty_one(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("windlass.store.sqlite.schema_check.JOURNAL_SECONDS", 0.0)
    path = tmp_path / "s.db"
    path.write_bytes(b"")
    Path(f"{path}-journal").write_bytes(
        bytes(512) + b"/a/file" + b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    )
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="rollback journal"):
        await store.open("s")
    await store.aclose()

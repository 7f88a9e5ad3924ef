"""The SQLite store keeps every promise of a store that is shared and outlives its process."""

import sqlite3

from windlass.store.sqlite.store import SqliteStore
from windlass.testing.shared_store_kit import SharedStoreKit


class RawSqlite:
    def __init__(self, path):
        self.path = path
        self.sid = self.do("SELECT sid FROM windlass_sessions WHERE id = 's'")[0][0]

    def do(self, sql, *values):
        connection = sqlite3.connect(self.path)
        try:
            with connection:
                return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def row(self, sql, seq, *values):
        return self.do(f"{sql} WHERE sid = ? AND seq = ?", *values, self.sid, seq)

    def payload(self, seq):
        return self.row("SELECT payload FROM windlass_rows", seq)[0][0]

    def edit(self, seq, payload):
        self.row("UPDATE windlass_rows SET payload = ?", seq, payload)

    def delete(self, seq):
        self.row("DELETE FROM windlass_rows", seq)

    def insert(self, seq):
        rows, last = self.do("SELECT rows, last_key FROM windlass_sessions WHERE id = 's'")[0]
        self.row(
            "INSERT INTO windlass_rows SELECT ?, sid, ?, ?, first, at, payload, cuts, hash"
            " FROM windlass_rows",
            seq,
            last + 1,
            rows,
            last,
        )
        self.do("UPDATE windlass_sessions SET rows = rows + 1, last_key = last_key + 1")

    def swap(self, one, other):
        kept = "first, at, payload, cuts, hash"
        rows = [self.row(f"SELECT {kept} FROM windlass_rows", seq)[0] for seq in (one, other)]
        for seq, row in zip((other, one), rows, strict=True):
            self.row(f"UPDATE windlass_rows SET ({kept}) = (?, ?, ?, ?, ?)", seq, *row)


class TestSqliteStore(SharedStoreKit):
    def store(self, folder):
        return SqliteStore(folder / "sessions.db")

    def raw(self, folder):
        return RawSqlite(folder / "sessions.db")

    async def test_a_commit_is_on_the_disk_and_readers_do_not_wait(self, tmp_path):
        """A write-ahead log, and the disk is waited for at every commit (2 is FULL)."""
        store = SqliteStore(tmp_path / "sessions.db")
        journal = await store.open("s")
        settings = await store._write(
            lambda db: [db.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS]
        )
        assert settings == ["wal", 2]
        await journal.close()
        await store.aclose()


PRAGMAS = ("journal_mode", "synchronous")

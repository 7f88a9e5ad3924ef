"""The SQLite store keeps every promise of a store that is shared and outlives its process."""

import sqlite3

from windlass.store.schema import ROW_BITS
from windlass.store.sqlite import SqliteStore
from windlass.testing.shared_store_kit import SharedStoreKit


class RawSqlite:
    def __init__(self, path):
        self.path = path
        self.base = self.do("SELECT sid FROM windlass_sessions WHERE id = 's'")[0][0] << ROW_BITS

    def do(self, sql, *values):
        connection = sqlite3.connect(self.path)
        try:
            with connection:
                return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def payload(self, seq):
        return self.do("SELECT payload FROM windlass_rows WHERE key = ?", self.base + seq)[0][0]

    def edit(self, seq, payload):
        self.do("UPDATE windlass_rows SET payload = ? WHERE key = ?", payload, self.base + seq)

    def delete(self, seq):
        self.do("DELETE FROM windlass_rows WHERE key = ?", self.base + seq)

    def insert(self, seq):
        last = self.do("SELECT max(key) FROM windlass_rows WHERE key >= ?", self.base)[0][0]
        self.do(
            "INSERT INTO windlass_rows SELECT ?, first, at, payload, cuts, hash"
            " FROM windlass_rows WHERE key = ?",
            last + 1,
            self.base + seq,
        )

    def swap(self, one, other):
        move = "UPDATE windlass_rows SET key = ? WHERE key = ?"
        for new, old in ((-1, self.base + one), (self.base + one, self.base + other)):
            self.do(move, new, old)
        self.do(move, self.base + other, -1)


class TestSqliteStore(SharedStoreKit):
    def store(self, folder):
        return SqliteStore(folder / "sessions.db")

    def raw(self, folder):
        return RawSqlite(folder / "sessions.db")

"""The Postgres store keeps every promise of a store that is shared and outlives its process."""

import hashlib

import pytest

from windlass.store.postgres.store import PostgresStore
from windlass.testing.postgres import MISSING, find_binaries, shared_server
from windlass.testing.shared_store_kit import SharedStoreKit

pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)


def schema_of(folder):
    return "s" + hashlib.sha256(str(folder).encode()).hexdigest()[:20]


def url_of(folder):
    """The address of the tables that belong to a test's folder."""
    return shared_server().schema(schema_of(folder))


class RawPostgres:
    def __init__(self, folder):
        self.schema = schema_of(folder)
        self.sid = self.do("SELECT sid FROM windlass_sessions WHERE id = 's'")

    def do(self, sql):
        return shared_server().sql(f"SET search_path = {self.schema};\n{sql};")

    def row(self, sql, seq):
        return self.do(f"{sql} WHERE sid = {self.sid} AND seq = {seq}")

    def payload(self, seq):
        return bytes.fromhex(self.row("SELECT encode(payload, 'hex') FROM windlass_rows", seq))

    def edit(self, seq, payload):
        self.row(f"UPDATE windlass_rows SET payload = decode('{payload.hex()}', 'hex')", seq)

    def delete(self, seq):
        self.row("DELETE FROM windlass_rows", seq)

    def insert(self, seq):
        rows = self.do("SELECT rows FROM windlass_sessions WHERE id = 's'")
        self.row(
            f"INSERT INTO windlass_rows SELECT sid, {rows}, first, at, payload, cuts, hash"
            " FROM windlass_rows",
            seq,
        )
        self.do("UPDATE windlass_sessions SET rows = rows + 1 WHERE id = 's'")

    def swap(self, one, other):
        for old, new in ((one, -1), (other, one), (-1, other)):
            self.row(f"UPDATE windlass_rows SET seq = {new}", old)


class TestPostgresStore(SharedStoreKit):
    def store(self, folder):
        return PostgresStore(url_of(folder))

    def raw(self, folder):
        return RawPostgres(folder)

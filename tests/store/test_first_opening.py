"""A new file that two processes open at the same moment: the second waits, as it would later."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from windlass.store.sqlite import schema


class Answered:
    """What a statement gave."""

    def __init__(self, row: Any) -> None:
        self.row = row

    def fetchone(self) -> Any:
        return self.row


class Busy:
    """A connection whose first words are refused so many times."""

    def __init__(self, refusals: int, words: str = "database is locked") -> None:
        self.refusals, self.words = refusals, words

    def execute(self, sql: str) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise sqlite3.OperationalError(self.words)
        with closing(sqlite3.connect(":memory:")) as db:
            answer = db.execute("SELECT 'wal'").fetchone()
        return Answered(answer)


def test_it_is_asked_again():
    busy: Any = Busy(3)
    assert schema._to_wal(busy, 5.0) == "wal" and busy.refusals == 0


@pytest.mark.parametrize(
    ("busy", "patience"), [(Busy(10**9), 0.0), (Busy(9, "disk I/O error"), 5.0)]
)
def test_it_is_not_asked_for_ever_nor_whatever_is_wrong(busy: Any, patience: float):
    before = busy.refusals
    with pytest.raises(sqlite3.OperationalError):
        schema._to_wal(busy, patience)
    assert before - busy.refusals <= 2

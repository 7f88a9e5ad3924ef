"""A rich session that was written before the source tree was restructured: today's code goes on with it.

See `rich.py` for what is in it. Chain, requests, replay and drawing: `test_golden.py`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import msgspec
import pytest

from tests.golden import rich, write
from windlass import seams
from windlass.events import JournalEntry, RunStarted
from windlass.store import codec, open_store
from windlass.store.base import Row

FOLDER = Path(__file__).parent
CHILD = "rich.call_4"
KINDS = {
    "AgentScratchpad",
    "CallReserved",
    "Compacted",
    "FeedbackInjected",
    "InboxTaken",
    "JudgeDecision",
    "Remembered",
    "RunResumed",
    "SkillActivated",
    "Suspended",
    "ToolDecided",
    "ToolResulted",
}


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seams, "strict", True)


def load(name: str) -> write.Golden:
    return msgspec.json.decode((FOLDER / name).read_bytes(), type=write.Golden)


WHOLE = load("journal-1-rich.json")


def parked_file(folder: Path) -> Path:
    """Unpack the SQLite file of the parked session."""
    file = folder / "sessions.db"
    file.write_bytes(gzip.decompress((FOLDER / "rich-parked.db.gz").read_bytes()))
    return file


async def read_rows(place: str, session_id: str) -> list[Row]:
    store = open_store(place)
    try:
        await store.verify(session_id)
        return list(await store.rows(session_id))
    finally:
        await store.aclose()


async def read_entries(place: str) -> list[JournalEntry]:
    store = open_store(place)
    try:
        return list(await store.read(rich.SESSION))
    finally:
        await store.aclose()


def assert_same_rows(file: Path) -> None:
    for session_id, name in (
        (rich.SESSION, "journal-1-rich.json"),
        (CHILD, "journal-1-rich-child.json"),
    ):
        rows = asyncio.run(read_rows(f"sqlite:///{file}", session_id))
        assert rows == [row.row() for row in load(name).rows], session_id
    assert rich.read_ledger(file) == json.loads((FOLDER / "rich-rows.json").read_bytes())


def texts(requests: list[write.Request]) -> list[str]:
    return [write.request_text(request) for request in requests]


def test_it_holds_most_features():
    entries = codec.decode_rows([row.row() for row in WHOLE.rows], rich.SESSION)
    assert {type(entry).__name__ for entry in entries} >= KINDS


def test_the_parked_file_is_opened_and_folded(tmp_path: Path):
    place = f"sqlite:///{parked_file(tmp_path)}"
    rows = asyncio.run(read_rows(place, rich.SESSION))
    assert rows == [row.row() for row in WHOLE.rows[: len(rows)]]
    entries = asyncio.run(read_entries(place))
    assert entries == codec.decode_rows(rows, rich.SESSION)
    assert len(rows) < len(WHOLE.rows) and entries


def test_the_parked_file_is_resumed_to_the_same_bytes(tmp_path: Path):
    file = parked_file(tmp_path)
    requests = rich.play(rich.finish, f"sqlite:///{file}", seed=8)
    assert texts(requests) == WHOLE.requests[-len(requests) :]
    assert_same_rows(file)


def test_todays_code_writes_the_same_rows_from_the_beginning(tmp_path: Path):
    file = tmp_path / "sessions.db"
    before = rich.play(rich.begin, f"sqlite:///{file}", seed=7)
    after = rich.play(rich.finish, f"sqlite:///{file}", seed=8)
    assert texts([*before, *after]) == WHOLE.requests
    rows = asyncio.run(read_rows(f"sqlite:///{file}", rich.SESSION))
    assert rows == [row.row() for row in WHOLE.rows]
    assert rich.read_ledger(file) == json.loads((FOLDER / "rich-rows.json").read_bytes())
    child = asyncio.run(read_rows(f"sqlite:///{file}", CHILD))
    golden = [row.row() for row in load("journal-1-rich-child.json").rows]
    assert without_rules(child) == codec.decode_rows(golden, CHILD)


def without_rules(rows: list[Row]) -> list[JournalEntry]:
    """Decode the journal of a sub-agent without the rules of its parent, which it has since."""
    entries = codec.decode_rows(rows, CHILD)
    [at] = [at for at, entry in enumerate(entries) if isinstance(entry, RunStarted)]
    begun = entries[at]
    assert isinstance(begun, RunStarted) and begun.metadata is not None
    others = {key: value for key, value in begun.metadata.items() if key != "under"}
    assert [rule["policy"] for rule in begun.metadata["under"]["rules"]] == [
        "parent.approval_policy"
    ]
    return [*entries[:at], msgspec.structs.replace(begun, metadata=others), *entries[at + 1 :]]

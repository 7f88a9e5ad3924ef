"""Journals of every release are read, verified and replayed to the same requests.

`journal-1-unmetered.json` was written before reserves were on record.
"""

from pathlib import Path

import msgspec
import pytest

from tests.golden import write
from windlass.events import FORMAT, JournalEntry, Replied, ToolDecided, ToolIntended, ToolResulted
from windlass.loop.requests import requests_of
from windlass.replay.replay import recorded_runs, replay_run
from windlass.runtime.runtime import Runtime
from windlass.store import codec as written
from windlass.store.base import Head
from windlass.store.view import messages_of
from windlass.trace.build import Append, picture_of
from windlass.trace.html import page
from windlass.trace.text import draw

FOLDER = Path(__file__).parent
JOURNALS = sorted(FOLDER.glob("journal-*.json"))


@pytest.fixture(params=JOURNALS, ids=lambda path: path.stem)
def golden(request):
    return msgspec.json.decode(request.param.read_bytes(), type=write.Golden)


def entries_of(golden) -> list[JournalEntry]:
    return written.decode_rows([row.row() for row in golden.rows], golden.session_id)


def test_every_format_has_its_journal():
    formats = {int(path.stem.split("-")[1]) for path in JOURNALS}
    assert formats == set(range(1, FORMAT + 1))


def test_the_chain_verifies(golden):
    rows = [row.row() for row in golden.rows]
    head = Head(len(rows), rows[-1].hash)
    assert written.verify(rows, golden.session_id, head) == head


def test_its_requests_are_rebuilt_to_the_byte(golden):
    requests = [write.request_text(request) for request in requests_of(entries_of(golden))]
    assert requests == golden.requests


async def test_the_loop_of_today_makes_the_same_requests(golden):
    entries = entries_of(golden)
    async with Runtime(store="memory:") as runtime:
        done = [
            await replay_run(golden.session_id, entries, run, runtime)
            for run in recorded_runs(entries)
        ]
    assert [one.difference for one in done] == [None] * len(done)
    assert sum(one.requests + one.left_out for one in done) == len(golden.requests)


def test_it_can_be_drawn(golden):
    rows = [row.row() for row in golden.rows]
    written_rows = [Append(r.at, written.decode(r.payload, golden.session_id, r.seq)) for r in rows]
    picture = picture_of(golden.session_id, written_rows)
    assert picture.totals.model_calls == len(golden.requests)
    assert list(draw(picture, 100)) and page(picture)


def test_it_holds_what_a_journal_is_for(golden):
    entries = entries_of(golden)
    calls = {e.call_id for e in entries if isinstance(e, ToolResulted)}
    decided = {e.call_id for e in entries if isinstance(e, ToolDecided)}
    started = {e.call_id for e in entries if isinstance(e, ToolIntended)}
    assert calls and started <= decided <= calls
    assert sum(isinstance(e, Replied) for e in entries) == len(golden.requests)
    assert messages_of(entries)[-1].text == "Goodbye."


def test_todays_run_still_writes_it():
    """Until a release has frozen it, the file is what the code writes; then a new format is due."""
    path = FOLDER / f"journal-{FORMAT}.json"
    today = msgspec.json.format(msgspec.json.encode(write.made()), indent=1) + b"\n"
    again = "the journal changed: run `python tests/golden/write.py --again`, or raise FORMAT"
    assert today == path.read_bytes(), again

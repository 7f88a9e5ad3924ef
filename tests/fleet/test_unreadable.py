"""Sessions whose journal a worker cannot read: damaged ones, and those of a later version of Windlass."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import windlass as w
from windlass.fleet.overview import read_fleet
from windlass.runtime.runtime import Runtime
from windlass.store import codec
from windlass.store.wishes import read_wish
from windlass.testing import scripted

pytestmark = pytest.mark.virtual_time


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> bytes:
    """Change the first row of session `s`; return what it was."""
    with sqlite3.connect(path) as db:
        find = "SELECT sid, at, payload FROM windlass_rows JOIN windlass_sessions USING (sid)"
        sid, at, payload = db.execute(f"{find} WHERE id = 's' AND seq = 0").fetchone()
        changed = change(payload)
        hash_ = codec.chain_hash(codec.genesis("s"), 0, at, changed)
        put = "UPDATE windlass_rows SET payload = ?, hash = ? WHERE sid = ? AND seq = 0"
        db.execute(put, (changed, hash_, sid))
        db.execute("UPDATE windlass_sessions SET head = ? WHERE sid = ? AND rows = 1", (hash_, sid))
    db.close()
    return payload


def by_a_later_version(payload: bytes) -> bytes:
    return payload.replace(b'"session_id":"s"', b'"session_id":"s","format":2')


def damaged(payload: bytes) -> bytes:
    return payload[: len(payload) // 2]


@pytest.mark.parametrize("has_run", [False, True])
@pytest.mark.parametrize("change", [by_a_later_version, damaged])
async def test_journal_that_cannot_be_read_is_set_aside_and_named(
    change: Callable[[bytes], bytes],
    has_run: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    path = tmp_path / "fleet.db"
    bob = w.Agent(scripted(*["done"] * 9), name="bob")
    async with Runtime(store=path, environ={}) as runtime:
        if has_run:
            await bob.run("before", session_id="s", store=runtime.store)
        await runtime.submit("bob", "go", session_id="s")
    before = rewrite(path, change)
    async with Runtime(store=path, environ={}) as runtime:
        serving = asyncio.create_task(runtime.serve(bob))
        for number in range(3):
            other = await runtime.submit("bob", "go", session_id=f"other-{number}")
            assert (await other.result(timeout=60)).status == "done"
        await asyncio.sleep(130)
        [stuck] = (await read_fleet(runtime.store)).stuck
        assert stuck.session == "s" and ("format 2" in stuck.why or "row 0" in stuck.why)
        wish = await runtime.store.consult(lambda tx: read_wish(tx, "s"))
        assert wish is not None and wish.is_wanted and wish.tries <= 5
        assert len([one for one in caplog.records if one.levelname == "ERROR"]) == 0
        assert len(caplog.records) <= 20
        rewrite(path, lambda _: before)  # as a process of the later version would see it
        handle = await runtime.handle("s")
        assert (await handle.result(timeout=100)).output == "done"
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

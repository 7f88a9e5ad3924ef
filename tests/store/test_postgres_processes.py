"""Several processes on one Postgres: one drives a session, the others lose cleanly."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from windlass.events import ToolResulted
from windlass.store.postgres.store import PostgresStore
from windlass.testing.postgres import MISSING, find_binaries, shared_server
from windlass.testing.store_pieces import add, effects, make_table, note, numbers

pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)

DRIVER = """
import asyncio, json, sys
from windlass.errors import StaleWriter
from windlass.store.postgres.store import PostgresStore
from windlass.testing.store_pieces import add, insert, note, result

async def drive(url, turns, take_over):
    store = PostgresStore(url)
    journal = await store.open("s", take_over=bool(take_over))
    done = 0
    print("open", flush=True)
    sys.stdin.readline()
    try:
        for _ in range(int(turns)):
            known = sum(type(e).__name__ == "ToolResulted" for e in journal.entries)
            await add(journal, note(known))
            await journal.commit(insert(known), lambda _: [result(f"c{known}", "ok")])
            done += 1
        await journal.close()
        print(json.dumps(["done", done]), flush=True)
    except StaleWriter:
        print(json.dumps(["stale", done]), flush=True)
    await store.aclose()

asyncio.run(drive(*sys.argv[1:]))
"""


@contextmanager
def driver(url: str, turns: int, take_over: str = "") -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, url, str(turns), take_over],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def check(url: str) -> int:
    """Every result has one effect; how many there are."""

    async def look() -> int:
        store = PostgresStore(url)
        entries = await store.read("s")
        await store.verify("s")
        results = [e.call_id for e in entries if isinstance(e, ToolResulted)]
        assert results == [f"c{n}" for n in range(len(results))]
        assert await store.consult(effects) == list(range(len(results)))
        await store.aclose()
        return len(results)

    return asyncio.run(look())


def prepared() -> str:
    url = shared_server().schema()

    async def make() -> None:
        store = PostgresStore(url)
        await store.commit(make_table)
        await store.aclose()

    asyncio.run(make())
    return url


def test_of_two_that_drive_one_session_the_first_loses_and_nothing_doubles():
    url = prepared()
    with driver(url, 2000) as first:  # more than it can do before the other has begun
        assert hear(first) == "open"
        with driver(url, 10, "yes") as second:
            go(first)  # it works while the other takes the session from it
            assert hear(second) == "open"
            go(second)
            said = [json.loads(hear(process)) for process in (first, second)]
            for process in (first, second):
                process.wait(30)
    total = check(url)
    assert total == sum(done for _, done in said)
    assert said[0][0] == "stale" and said[1] == ["done", 10]


@pytest.mark.deep
def test_a_killed_driver_leaves_nothing_half_done():
    url = prepared()
    for turn in range(10):
        with driver(url, 1000) as process, suppress(subprocess.TimeoutExpired):
            assert hear(process) == "open"
            go(process)
            process.wait(0.15 + 0.03 * turn)
        check(url)
    assert check(url) > 0


async def test_a_second_process_posts_while_the_first_writes():
    url = shared_server().schema()
    one, two = PostgresStore(url), PostgresStore(url)
    journal = await one.open("s")
    arrived = asyncio.Event()
    journal.on_mail = arrived.set

    async def write() -> None:
        for number in range(30):
            await add(journal, note(number))

    async def post() -> list[str]:
        return [await two.post("s", "steer", number) for number in range(30)]

    _, posted = await asyncio.gather(write(), post())
    while len(journal.mail) < 30:
        arrived.clear()
        await asyncio.wait_for(arrived.wait(), 20)
    assert sorted(item.id for item in journal.mail) == sorted(posted)
    assert numbers(await two.read("s")) == list(range(30))
    await journal.close()
    await one.aclose()
    await two.aclose()

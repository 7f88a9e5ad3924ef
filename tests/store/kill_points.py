"""Kills a process at every point its store passes, and looks at what is left. Prints JSON.

`python killed.py FOLDER`. Forks from a process that has no threads, so a child opens its own store.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from windlass import seams
from windlass.events import InboxTaken, IterationStart, ToolResulted
from windlass.messages import ToolResult
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.store_pieces import mail

ROWS = 4


async def work(path: Path, say) -> None:
    """Write rows, mail and bodies; `say` what the store has promised so far."""
    store = SqliteStore(path)
    journal = await store.open("s")
    say("opened")
    await journal.commit(lambda tx: tx.execute("CREATE TABLE IF NOT EXISTS effects (n)"), no_record)
    for number in range(1, ROWS + 1):
        journal.append(IterationStart(number))
        journal.flush()
        await journal.durable()
        say(f"row {number}")
        await journal.commit(effect(number), record(number))
        say(f"effect {number}")
    item = await store.post("s", "steer", "x")
    say("posted")
    await mail(journal)
    journal.take(journal.mail[0])
    journal.append(InboxTaken(item, "steer"))
    await journal.close()
    say("taken")
    await store.aclose()


def no_record(_value):
    return []


def effect(number):
    return lambda tx: tx.execute("INSERT INTO effects VALUES (?)", (number,)) and number


def record(number):
    done = ToolResult(f"c{number}", "done", name="t")
    return lambda _value: [ToolResulted(f"c{number}", "t", "ok", done)]


async def look(path: Path) -> dict:
    """Return what the next process finds; it takes the session over and writes a row."""
    store = SqliteStore(path)
    journal = await store.open("s")
    entries = journal.entries
    await journal.commit(lambda tx: tx.execute("CREATE TABLE IF NOT EXISTS effects (n)"), no_record)
    effects = await journal.commit(
        lambda tx: [row[0] for row in tx.execute("SELECT n FROM effects")], no_record
    )
    found = {
        "rows": [entry.number for entry in entries if isinstance(entry, IterationStart)],
        "results": [int(e.call_id[1:]) for e in entries if isinstance(e, ToolResulted)],
        "effects": effects,
        "taken": sum(isinstance(entry, InboxTaken) for entry in entries),
        "mail": len(await store.inbox("s")),
    }
    journal.append(IterationStart(99))
    await journal.close()
    found["verified"] = await store.verify("s")
    await store.aclose()
    return found


def in_child(run) -> tuple[int, list]:
    """Run it in a fork; return how it ended and its lines."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            run(lambda line: os.write(writing, json.dumps(line).encode() + b"\n"))
            os._exit(0)
        except BaseException as error:
            os.write(writing, json.dumps(repr(error)).encode() + b"\n")
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as lines:
        printed = [json.loads(line) for line in lines]
    return os.waitpid(pid, 0)[1], printed


def killed_at(number: int, path: Path, say) -> None:
    passed = 0

    def reached(_name: str) -> None:
        nonlocal passed
        passed += 1
        if passed == number:
            os.kill(os.getpid(), signal.SIGKILL)

    with seams.watch_points(reached):
        asyncio.run(work(path, say))


def main(folder: Path) -> None:
    cases, number = [], 0
    while True:
        number += 1
        path = folder / f"{number}.db"
        ended, said = in_child(lambda say, n=number, p=path: killed_at(n, p, say))
        looked, found = in_child(lambda say, p=path: say(asyncio.run(look(p))))
        cases.append(
            {"point": number, "ended": ended, "said": said, "looked": looked, "found": found}
        )
        if ended != signal.SIGKILL:
            break
    print(json.dumps(cases))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

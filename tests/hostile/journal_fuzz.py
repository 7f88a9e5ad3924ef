"""Journals that something happened to, read and used again under the eyes of an audit hook.

Runs as a process of its own: `python -m tests.hostile.journal_fuzz FOLDER SEED COUNT`. Whatever is
imported, executed, opened or started while a damaged journal is read ends it, as does any error that
is not a `WindlassError`. Prints one line of JSON with what was met.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sqlite3
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import windlass as w
from tests.hostile.helpers import Tally, watchdog
from windlass.engine.transcript import export_jsonl, transcript_of, transcript_render_full
from windlass.errors import Locked, StoreError, WindlassError
from windlass.events import JournalEntry, SessionOpened
from windlass.loop.ledger import Budget
from windlass.loop.requests import requests_of
from windlass.models.base import Holding
from windlass.models.history import audit
from windlass.store import codec as written
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore
from windlass.store.view import messages_of
from windlass.testing import call, scripted

MOST_FAILURES = 20
FAILED: list[str] = []
HUGE = 10**30
DEEP = 3000


# --------------------------------------------------------------------------- the originals


@w.tool(side_effect_level="read_only")
async def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@w.tool
async def change(text: str = "") -> str:
    """Change something."""
    return "y" * 70_000 if text == "long" else f"changed {text}"


@w.tool(keyed=True)
async def later(ctx: w.ToolContext[Any]) -> Any:
    """Parks at first."""
    return w.Parked("for Ann", {"until": "tomorrow"}) if ctx.attempt == 1 else "back"


HOST = w.Tool("host", "The host runs it.", {"n": "integer"})
TOOLS = [add, change, later, HOST]


def agent(*replies: Any, store: Any, **options: Any) -> w.Agent[Any, Any]:
    options.setdefault("tools", TOOLS)
    return w.Agent(scripted(*replies, then="end"), store=store, **options)


async def make(store: Any) -> list[str]:
    """Create sessions of every shape; return their names."""
    both = [call("add", a=1), call("change", text="x"), call("nobody"), call("add", a="x")]
    await agent("hello", store=store).run("hi", session_id="talk")
    await agent(both, "then", store=store).run("go", session_id="calls")
    await agent(call("change", text="long"), "ß 漢字", store=store).run("go", session_id="long")
    await agent(["wait", call("host", n=1), call("add", a=2)], store=store).run(
        "go", session_id="host"
    )
    await agent(call("later"), store=store).run("go", session_id="later")
    await agent(
        "no", "yes", store=store, loop_until_done=True, done_sentinel="end", tools=None
    ).run("go", session_id="until-done")
    await agent(
        call("add", a=1),
        call("add", a=2),
        store=store,
        max_turns=2,
        closing_answer=True,
        budget={"tokens": 1000},
    ).run("go", session_id="budget")
    await agent("one", store=store).run("first", session_id="twice")
    await store.post("twice", "steer", "be brief")
    await agent(call("add", a=5), "two", store=store).run("second", session_id="twice")
    await w.agent_session_trim("twice", 2, store=store)
    await w.agent_session_fork("calls", "fork", store=store)
    await store.post("fork", "follow_up", {"odd": [1]})
    await store.post("host", "result", {"nobody": 1})
    entries = await store.read("calls")
    for cut in (4, 6, 8, 11, 14):  # as a kill would leave it
        name = f"killed-{cut}"
        journal = await store.open(name)
        for number, entry in enumerate(entries[1:cut]):
            journal.append(entry)
            if number % 3 == 2:
                journal.flush()
        await journal.close()
    return [info.id for info in await store.sessions()]


# --------------------------------------------------------------------------- what happens to them

WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    HUGE,
    -HUGE,
    2**63,
    "",
    "x",
    "\x00",
    [],
    {},
    [[]],
    {"a": None},
    ["x"] * 50,
    1e308,
    {"type": "text"},
    "session",
    "model_reply",
    [None],
    {"kind": "note"},
    "c1",
    "call_1",
    5,
    "assistant",
    {"role": "robot", "content": []},
    "os.system",
    {"py/object": "os.system"},
    {"__reduce__": ["os.system", ["true"]]},
    "__import__('os')",
    {"$type": "subprocess.Popen"},
    {"__class__": "windlass.Tool"},
    "../../etc/passwd",
]


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List every place in plain data."""
    found = [here] if here else []
    if isinstance(value, dict):
        for key, one in value.items():
            found += paths(one, (*here, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            found += paths(one, (*here, index))
    return found


def changed(rng: random.Random, entries: list[Any]) -> list[Any]:
    """Return the entries as plain data, with something wrong."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        match rng.randrange(9):
            case 0:
                del entries[rng.randrange(len(entries))]
            case 1:
                at = rng.randrange(len(entries))
                entries.insert(rng.randrange(len(entries)), json.loads(json.dumps(entries[at])))
            case 2:
                a, b = rng.randrange(len(entries)), rng.randrange(len(entries))
                entries[a], entries[b] = entries[b], entries[a]
            case 3:
                del entries[rng.randrange(len(entries)) :]
            case 4:
                kinds = [one.get("kind") for one in entries if isinstance(one, dict)]
                one = rng.choice(entries)
                if isinstance(one, dict):
                    one["kind"] = rng.choice([*kinds, "nonsense", "note", 5])
            case _:
                places = paths(entries)
                if not places:
                    return entries
                *way, last = rng.choice(places)
                node: Any = entries
                for step in way:
                    node = node[step]
                if isinstance(node, dict) and rng.random() < 0.3:
                    del node[last]
                else:
                    node[last] = json.loads(json.dumps(rng.choice(WRONG)))
        if not entries:
            break
    return entries


def damaged(rng: random.Random, payload: bytes) -> bytes:
    """Return the bytes with something wrong."""
    data = bytearray(payload)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data)) if data else 0
        match rng.randrange(6):
            case 0 if data:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at:]
            case 2:
                del data[at : at + rng.randrange(1, 30)]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(1, 20))
            case 4:
                data[at:at] = rng.choice(
                    [b'"', b"{", b"]", b"null", b"\\ud800", b"1e999", b",", b"[" * DEEP]
                )
            case _:
                other = rng.randrange(len(data)) if data else 0
                data[at:at] = data[other : other + 40]
    return bytes(data)


TABLES = (
    "windlass_sessions",
    "windlass_rows",
    "windlass_blobs",
    "windlass_blob_uses",
    "windlass_inbox",
)
COLUMNS = {
    "windlass_rows": ["key", "sid", "seq", "before", "first", "at", "payload", "cuts", "hash"],
    "windlass_sessions": [
        "sid",
        "epoch",
        "rows",
        "entries",
        "head",
        "last_key",
        "created_at",
        "updated_at",
        "parent_id",
        "root_id",
        "branch_at",
        "status",
        "title",
        "metadata",
    ],
    "windlass_blobs": ["digest", "data"],
    "windlass_inbox": ["sid", "id", "kind", "payload", "at", "n"],
}
CELLS: list[Any] = [
    None,
    0,
    1,
    -1,
    2**62,
    1.5,
    float("inf"),
    "",
    "x",
    b"",
    b"\xff",
    "null",
    b"null",
    b"[]",
    b"[1]",
    b"[" * DEEP,
    "talk",
    b'[[0,"zz"]]',
    '[[99999,"00"]]',
    b"{}",
    "x" * 5000,
]


class Damage:
    """One damaged session in the file; `restore` puts everything back."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None, timeout=10)
        self.kept = {t: self.db.execute(f"SELECT * FROM {t}").fetchall() for t in TABLES}

    def restore(self) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        for table, rows in self.kept.items():
            self.db.execute(f"DELETE FROM {table}")
            if rows:
                marks = ",".join("?" * len(rows[0]))
                self.db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        self.db.execute("COMMIT")

    def rows(self, name: str) -> tuple[int, list[Any]]:
        (sid,) = self.db.execute(
            "SELECT sid FROM windlass_sessions WHERE id = ?", (name,)
        ).fetchone()
        found = self.db.execute(
            "SELECT key, seq, at, payload, hash FROM windlass_rows WHERE sid = ? ORDER BY seq",
            (sid,),
        )
        return sid, found.fetchall()

    def payload(self, rng: random.Random, name: str) -> str:
        """Change bytes of a row; the chain stays as it was."""
        _, rows = self.rows(name)
        key, _, _, payload, _ = rng.choice(rows)
        bad = damaged(rng, payload)
        self.db.execute("UPDATE windlass_rows SET payload = ? WHERE key = ?", (bad, key))
        return "same" if bad == payload else "bytes"

    def chained(self, rng: random.Random, name: str) -> str:
        """Change entries and rebuild the chain: only their meaning is wrong."""
        sid, rows = self.rows(name)
        if any(row[3][:1] != b"[" for row in rows) or name == "long":
            return self.payload(rng, name)
        entries = [one for row in rows for one in json.loads(row[3])]
        if rng.random() < 0.15:
            entries.append({"kind": "note", "name": "deep", "data": _deep(rng)})
        try:
            payload = json.dumps(changed(rng, entries)).encode()
        except (ValueError, RecursionError):
            return "same"
        if rng.random() < 0.1:
            payload = payload.replace(b'"format"', b'"form"', 1).replace(
                b'"kind": "session"', b'"kind": "session", "format": 99', 1
            )
        key, _, at, _, _ = rows[0]
        hash_ = written.link(written.genesis(name), 0, at, written.digest(payload))
        self.db.execute("DELETE FROM windlass_rows WHERE sid = ?", (sid,))
        self.db.execute(
            "INSERT INTO windlass_rows VALUES (?, ?, 0, 0, 0, ?, ?, NULL, ?)",
            (key, sid, at, payload, hash_),
        )
        self.db.execute(
            "UPDATE windlass_sessions SET rows = 1, entries = ?, head = ?, last_key = ? WHERE sid = ?",
            (len(entries), hash_, key, sid),
        )
        return "entries"

    def moved(self, rng: random.Random, name: str) -> str:
        """Swap, duplicate or delete rows."""
        sid, rows = self.rows(name)
        one, other = rng.choice(rows), rng.choice(rows)
        match rng.randrange(3):
            case 0:
                self.db.execute("DELETE FROM windlass_rows WHERE key = ?", (one[0],))
            case 1:
                for key, payload in ((one[0], other[3]), (other[0], one[3])):
                    self.db.execute(
                        "UPDATE windlass_rows SET payload = ? WHERE key = ?", (payload, key)
                    )
                if one[0] == other[0]:
                    return "same"
            case _:
                self.db.execute(
                    "UPDATE windlass_sessions SET rows = rows - 1 WHERE sid = ?", (sid,)
                )
        return "rows"

    def cell(self, rng: random.Random, name: str) -> str:
        """Overwrite some column."""
        table = rng.choice(list(COLUMNS))
        column = rng.choice(COLUMNS[table])
        try:
            self.db.execute(
                f"UPDATE {table} SET {column} = ? WHERE rowid IN (SELECT rowid FROM {table}"
                " ORDER BY random() LIMIT 1)"
                if rng.random() < 0.5
                else f"UPDATE OR IGNORE {table} SET {column} = ?",
                (rng.choice(CELLS),),
            )
        except (sqlite3.IntegrityError, OverflowError):
            return "same"
        return "column"


def _deep(rng: random.Random) -> Any:
    value: Any = rng.choice(WRONG)
    for _ in range(rng.choice([10, 100, 900])):
        value = [value]
    return value


# --------------------------------------------------------------------------- what is done with them


async def use(store: Any, name: str, tampered: bool, seen: Callable[[str], None]) -> None:
    """Use a session in every way: each gives an answer or a typed error."""

    async def attempt(what: str, work: Callable[[], Any]) -> Any:
        try:
            answer = work()
            return await answer if asyncio.iscoroutine(answer) else answer
        except WindlassError as error:
            str(error).encode(errors="replace")
            if isinstance(error, Locked):
                raise AssertionError(f"{what}: the session was left locked") from error
            seen(type(error).__name__)
            return error

    entries = await attempt("read", lambda: store.read(name))
    verified = await attempt("verify", lambda: store.verify(name))
    if tampered and not isinstance(verified, StoreError):
        raise AssertionError("bytes were changed, and the chain verifies")
    for work in (store.info, store.head, store.inbox, store.rows):
        await attempt("look", lambda work=work: work(name))
    await attempt("list", store.sessions)
    await attempt("result", lambda: store.result_of(name, "call_1"))
    await attempt("session", lambda: w.agent_session_read(name, store=store))
    if isinstance(entries, list):
        await attempt("view", lambda: messages_of(entries))
        await attempt("export", lambda: export_jsonl(entries))
        await attempt("transcript", lambda: transcript_render_full(transcript_of(entries)))
        await attempt("requests", lambda: requests_of(entries))
        await attempt("fork", lambda: w.agent_session_fork(name, store=store))
        await attempt("fork at", lambda: w.agent_session_fork_at(name, 2, store=store))
    resumed = await attempt(
        "resume", lambda: agent(call("add", a=1), "end", store=store).resume(name)
    )
    ran = await attempt(
        "run", lambda: agent(call("add", a=1), "end", store=store).run("on", session_id=name)
    )
    for out in (resumed, ran):
        if not isinstance(out, WindlassError):
            _right(out, out is ran)
    if tampered and not isinstance(ran, StoreError):
        raise AssertionError(f"a new run on bytes that were changed: {ran}")
    await attempt("trim", lambda: w.agent_session_trim(name, 1, store=store))
    await attempt("reset", lambda: w.agent_session_reset(name, store=store))
    if not isinstance(ran, WindlassError) and ran.status == "done":
        again = await attempt(
            "again", lambda: agent("fresh", store=store).run("new", session_id=name)
        )
        if isinstance(again, WindlassError) or again.status != "done":
            raise AssertionError(f"reset, and still of no use: {again}")


def _right(out: Any, new: bool) -> None:
    """Check that it ended in a known status, and that its requests were whole."""
    known = {
        "done",
        "suspended",
        "budget_exhausted",
        "failed",
        "stuck",
        "stopped",
        "cancelled",
        "provider_error",
    }
    if new and out.status not in known:  # an old one may have ended as its journal likes
        raise AssertionError(f"it ended as {out.status!r}")
    if out.status == "failed" and not issubclass(
        getattr(w.errors, out.error["kind"], int), WindlassError
    ):
        raise AssertionError(f"it failed with {out.error}")
    model = out._run.model
    while isinstance(model, Holding):
        model = model.model
    for request in model.requests:
        if problems := audit(request.messages, tail=request.tail):
            raise AssertionError(f"I1: {problems}")


async def in_the_file(folder: Path, seed: int, count: int, met: Tally) -> None:
    path = folder / f"journals {seed}.db"
    store: Any = SqliteStore(path)
    names = await make(store)
    damage = Damage(path)
    for name in names:  # as they are, which also loads whatever is loaded late
        await use(store, name, False, lambda kind: None)
        damage.restore()
    AUDIT.begin(path)
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        name = rng.choice(names)
        what = rng.choice(
            [damage.payload, damage.chained, damage.chained, damage.moved, damage.cell]
        )
        kind = what(rng, name)
        await one(f"{seed} {number} {what.__name__} {name}", store, name, kind, met)
        damage.restore()
    AUDIT.end()
    damage.db.close()
    await store.aclose()


async def of_the_file(folder: Path, seed: int, count: int, met: Tally) -> None:
    """Damage the file itself: flipped bits, lost or foreign pages, a cut, another file."""
    path = folder / f"whole {seed}.db"
    store: Any = SqliteStore(path)
    names = await make(store)
    await store.aclose()
    whole = path.read_bytes()
    for number in range(count):
        rng = random.Random(f"file {seed} {number}")
        bad = folder / f"bad {seed} {number}.db"
        bad.write_bytes(_damaged_file(rng, whole))
        damaged_store: Any = SqliteStore(bad, busy_timeout=0.2)
        AUDIT.begin(bad)
        name = rng.choice(names)
        await one(f"file {seed} {number} {name}", damaged_store, name, "file", met)
        try:
            await damaged_store.aclose()
        except WindlassError:
            pass
        AUDIT.end()
        _forget(bad)


def _forget(path: Path) -> None:
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()


def _damaged_file(rng: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    match rng.randrange(6):
        case 0:
            for _ in range(rng.choice([1, 5, 100])):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1:
            del data[rng.randrange(len(data)) :]
        case 2:
            at = rng.randrange(0, len(data), 4096)
            data[at : at + 4096] = bytes(4096) if rng.random() < 0.5 else rng.randbytes(4096)
        case 3:
            a, b = rng.randrange(0, len(data), 4096), rng.randrange(0, len(data), 4096)
            data[a : a + 4096], data[b : b + 4096] = data[b : b + 4096], data[a : a + 4096]
        case 4:
            data = bytearray(
                rng.choice([b"", b"x", b"SQLite format 3\0", rng.randbytes(10_000), b"[]"])
            )
        case _:
            at = rng.randrange(100)  # the header
            data[at : at + 4] = rng.randbytes(4)
    return bytes(data)


async def in_memory(seed: int, count: int, met: Tally) -> None:
    """Use entries that decode but mean nothing, without a chain to protect them."""
    store = MemoryStore()
    names = await make(store)
    originals = {name: [msgspec.to_builtins(e) for e in await store.read(name)] for name in names}
    for name in names:
        await use(store, name, False, lambda kind: None)
    decode = msgspec.json.Decoder(list[JournalEntry]).decode
    AUDIT.begin(None)
    made = 0
    number = 0
    while made < count:
        number += 1
        rng = random.Random(f"memory {seed} {number}")
        name = rng.choice(names)
        try:
            data = changed(rng, json.loads(json.dumps(originals[name])))
            entries = decode(json.dumps(data).encode())
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue
        made += 1
        fresh = MemoryStore()
        journal = await fresh.open(name)
        for entry in entries:
            if type(entry) is not SessionOpened:
                journal.append(entry)
        await journal.close()
        await one(f"memory {seed} {number} {name}", fresh, name, "entries", met)
    AUDIT.end()


async def one(what: str, store: Any, name: str, kind: str, met: Tally) -> None:
    kinds: list[str] = []
    try:
        with watchdog(what):
            await use(store, name, kind == "bytes", kinds.append)
    except BaseException:
        watching, AUDIT.on = AUDIT.on, False
        FAILED.append(f"{traceback.format_exc()}FAILED {what} ({kind})")
        if len(FAILED) == MOST_FAILURES:
            raise SystemExit("\n\n".join(FAILED)) from None
        AUDIT.on = watching
        AUDIT.seen.clear()
        getattr(store, "_held", {}).pop(name, None)  # whatever it left behind is not the next one's
        return
    if kind == "same":
        met.valid("unharmed")
    else:
        met.invalid(max(set(kinds), key=kinds.count) if kinds else "right answer")
    if AUDIT.seen:
        FAILED.append(f"FAILED {what} ({kind}): unexpected {AUDIT.seen[:5]}")
        AUDIT.seen.clear()


# --------------------------------------------------------------------------- the audit hook


class Audit:
    """Everything the interpreter does that data should not make it do."""

    FORBIDDEN = (
        "import",
        "exec",
        "compile",
        "open",
        "subprocess.",
        "os.",
        "pickle.",
        "marshal.",
        "socket.",
        "ctypes.",
        "shutil.",
        "urllib.",
        "code.",
        "cpython.run",
        "syslog.",
        "glob.",
    )
    # what asyncio and the store do of their own accord
    HARMLESS = ("os.putenv", "socket.__new__")

    def __init__(self) -> None:
        self.on, self.path, self.seen = False, "", list[str]()

    def begin(self, path: Path | None) -> None:
        self.on, self.path = True, str(path)

    def end(self) -> None:
        self.on = False

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.on and event.startswith(self.FORBIDDEN) and event not in self.HARMLESS:
            self.seen.append(f"{event} {args!r:.200}")


AUDIT = Audit()


def main() -> None:
    folder, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    logging.disable()  # a traceback in a log opens source files
    random.Random("a text")  # loads what hashes such a seed
    msgspec.convert({}, Budget)  # and what the limits of a run are made of
    sys.addaudithook(AUDIT.hook)
    met = Tally(f"journals, seed {seed}")
    asyncio.run(in_the_file(folder, seed, count * 2 // 3, met))
    asyncio.run(in_memory(seed, count // 4, met))
    asyncio.run(of_the_file(folder, seed, count - count * 2 // 3 - count // 4, met))
    if FAILED:
        raise SystemExit("\n\n".join(FAILED))
    met.report(count)
    print(json.dumps({"counts": met.counts, "right": met.right, "wrong": met.wrong}))


if __name__ == "__main__":
    from tests.hostile import journal_fuzz

    journal_fuzz.main()

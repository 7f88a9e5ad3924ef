"""The schedule of seals: after every run, at intervals during it, and on demand.

Never in a turn, and never so that a run could fail by it: what cannot be sealed or anchored now is
logged, and tried again with the next seal.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from windlass import seams
from windlass.audit import anchors
from windlass.audit.anchors import Anchor, FileAnchor
from windlass.errors import NoSuchSession
from windlass.events import RunStarted
from windlass.resources import audit
from windlass.store import seals
from windlass.store.base import Store
from windlass.store.memory import MemoryStore
from windlass.store.seals import End, Seal

PATIENCE = 10.0  # seconds that a run waits for its seal
SENDING = 10.0  # and for an anchor to take one
SLACK = 10_000  # numbers of the log looked back at: on Postgres a lower one may come later
OVERLAP = 120.0  # seconds looked back at: clocks differ, and rows are stored after their time
_FEW = 200  # seals read when a process begins, so that it does not seal what they hold again
_MOST_KNOWN = 10_000  # ends remembered, so that what has not moved is not sealed again

log = logging.getLogger("windlass.audit")


class SealScheduler:
    """Seals what runs and hosts write in one store, and anchors the seals."""

    def __init__(
        self,
        store: Store,
        anchor: FileAnchor | Anchor | None,
        pool: Callable[[], Executor],
        every: float,
    ) -> None:
        self.store, self.anchor, self.every = store, anchor, every
        self._pool = pool
        self._touched: set[str] = set()
        self._under_way: Counter[str] = Counter()
        self._guard = threading.Lock()  # a Runtime may serve several event loops
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()
        self._others: WeakSet[Store] = WeakSet()
        self._ready = False
        self._known: dict[tuple[str, str], tuple[int, str]] = {}
        self._seen = 0  # numbers of the audit log that were looked at
        self._waiting: list[Seal] = []  # for the anchor
        self._reached: dict[str, int] = {}  # the last anchored, by tenant

    # ----------------------------------------------------------------- for runs

    def on_run_started(self, session_id: str) -> None:
        """Record that a run is active."""
        with self._guard:
            self._under_way[session_id] += 1
        self._turns().arm(self.every)

    def over(self, session_id: str) -> None:
        """Record that a run has ended, and seal its session soon."""
        with self._guard:
            self._under_way[session_id] -= 1
            if self._under_way[session_id] <= 0:
                del self._under_way[session_id]
            self._touched.add(session_id)
            idle = not self._under_way
        turns = self._turns()
        if idle:
            turns.disarm()
        turns.ask()

    async def wait_until_sealed(self) -> None:
        """Wait until ended runs are sealed and anchored, or that has failed."""
        await self._turns().wait_until_idle()

    def leave_out(self, store: Store) -> None:
        """Warn once for each store that is not sealed, as it is not this Runtime's."""
        if store not in self._others and not isinstance(store, MemoryStore):
            self._others.add(store)
            log.warning(
                "runs in %r are not sealed: the anchor of this Runtime belongs to %r",
                store,
                self.store,
            )

    def tick(self) -> bool:
        """Mark active sessions at an interval; False when none is left."""
        with self._guard:
            self._touched.update(self._under_way)
            return bool(self._under_way)

    def _turns(self) -> _Turns:
        loop = asyncio.get_running_loop()
        turns = self._loops.get(loop)
        if turns is None:
            turns = self._loops[loop] = _Turns(self, loop)
        return turns

    async def aclose(self) -> None:
        """Seal what hosts did meanwhile, and stop."""
        turns = self._turns()
        turns.disarm()
        turns.ask()
        await turns.wait_until_idle()

    async def turn(self) -> None:
        """Seal what was changed, and anchor; failures are left for the next time."""
        touched: set[str] = set()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._prepare()
                with self._guard:
                    touched, self._touched = self._touched, touched
                await self._seal(sorted(touched))
        except Exception as error:
            with self._guard:
                self._touched |= touched
            self._ready = False  # it may have been written all the same: look again
            log.warning(
                "sessions could not be sealed: %s; the next seal tries again", _words(error)
            )
            return
        await self._put()

    # ----------------------------------------------------------------- on demand

    async def seal(self) -> list[Seal]:
        """Seal all that has changed since its last seal; raise on errors."""
        await self._prepare()
        sessions, chains = await self._find_unsealed()
        made: list[Seal] = []
        for start in range(0, max(len(sessions), len(chains), 1), seals.MOST):
            stop = start + seals.MOST
            made += await self._write(sessions[start:stop], chains[start:stop])
        await self._put(quiet=False)
        return made

    async def _find_unsealed(self) -> tuple[list[str], list[str]]:
        """Find the sessions and chains that have grown since their last seal."""

        def look(tx: Any) -> tuple[list[str], list[str]]:
            last = {
                (end.kind, end.name): (end.rows, end.hash)
                for seal in seals.read(tx)
                for end in seal.ends
            }
            sessions: list[str] = []
            if not isinstance(self.store, MemoryStore):
                rows = tx.execute("SELECT id, rows, head FROM windlass_sessions ORDER BY sid")
                sessions = [
                    name
                    for name, count, head in rows.fetchall()
                    if last.get(("journal", name)) != (count, bytes(head).hex())
                ]
            if not seals.there(tx, audit.TABLE):
                return sessions, []
            rows = tx.execute(f"SELECT chain, max(seq) + 1 FROM {audit.TABLE} GROUP BY chain")
            chains = [
                name
                for name, count in rows.fetchall()
                if last.get(("audit", name), (0, ""))[0] != count
            ]
            return sessions, chains

        sessions, chains = await self.store.consult(look)
        if isinstance(self.store, MemoryStore):
            sessions = [info.id for info in await self.store.sessions()]
        return sessions, chains

    # ----------------------------------------------------------------- how

    async def _prepare(self) -> None:
        """Create the tables, and load what an earlier process could not seal or anchor."""
        if self._ready:
            return
        reached = dict(self._reached)

        def look(tx: Any) -> tuple[list[Seal], list[str], list[End], int]:
            known = seals.latest(tx, _FEW)
            waiting = seals.read(tx, {**seals.read_anchored(tx), **reached})
            left = [] if isinstance(self.store, MemoryStore) else _left_behind(tx)
            if not seals.there(tx, audit.TABLE):
                return waiting, left, known, 0
            last = tx.execute(f"SELECT coalesce(max(n), 0) FROM {audit.TABLE}").fetchone()[0]
            return waiting, left, known, last

        await self.store.commit(seals.ensure)
        waiting, left, known, last = await self.store.consult(look)
        if self._ready:  # another event loop was faster
            return
        self._ready = True
        self._seen = max(0, last - SLACK)
        with self._guard:
            self._waiting = waiting
            self._touched.update(left)
        self._known.update({(end.kind, end.name): _place(end) for end in known})

    async def _seal(self, sessions: Sequence[str]) -> list[Seal]:
        seen = self._seen

        def look(tx: Any) -> tuple[list[str], int]:
            """Find the chains of hosts that have grown."""
            if not seals.there(tx, audit.TABLE):
                return [], 0
            rows = tx.execute(
                f"SELECT chain, max(n) FROM {audit.TABLE} WHERE n > ? AND session IS NULL"
                " GROUP BY chain",
                (seen,),
            ).fetchall()
            return [row[0] for row in rows], max((row[1] for row in rows), default=0)

        hosts, newest = await self.store.consult(look)
        chains = [*(f"session:{session}" for session in sessions), *hosts]
        made = await self._write(sessions, chains)
        self._seen = max(seen, newest - SLACK)
        return made

    async def _write(self, sessions: Sequence[str], chains: Sequence[str]) -> list[Seal]:
        given: dict[str, list[End]] | None = None
        if isinstance(self.store, MemoryStore):
            given = await _in_memory(self.store, sessions)
        known, reached, at = self._known, dict(self._reached), seams.now()

        def body(tx: Any) -> list[Seal]:
            found = seals.journals(tx, sessions) if given is None else dict(given)
            if seals.there(tx, audit.TABLE):
                for tenant, ends in audit_ends(tx, chains).items():
                    found[tenant] = [*found.get(tenant, ()), *ends]
            fresh = {
                tenant: [end for end in ends if known.get((end.kind, end.name)) != _place(end)]
                for tenant, ends in found.items()
            }
            return seals.write(tx, fresh, at, reached)

        made = await self.store.commit(body)
        if len(known) > _MOST_KNOWN:
            known.clear()
        for seal in made:
            known.update({(end.kind, end.name): _place(end) for end in seal.ends})
        if self.anchor is not None:
            with self._guard:
                self._waiting += made
        return made

    async def _put(self, quiet: bool = True) -> None:
        """Anchor the waiting seals, in order."""
        if self.anchor is None:
            self._waiting.clear()
        while self._waiting:
            some = self._waiting[: seals.MOST]
            if not isinstance(self.anchor, FileAnchor):
                del some[1:]
            try:
                async with asyncio.timeout(SENDING):
                    assert self.anchor is not None
                    await anchors.put(self.anchor, some, self._pool())
            except Exception as error:
                if not quiet:
                    raise
                log.warning(
                    "%d seals could not be anchored: %s; the next seal tries again",
                    len(self._waiting),
                    _words(error),
                )
                return
            sent = {seal.hash for seal in some}
            with self._guard:
                self._waiting = [seal for seal in self._waiting if seal.hash not in sent]
                for seal in some:
                    last = self._reached.get(seal.tenant, 0)
                    self._reached[seal.tenant] = max(last, seal.number)


class _Turns:
    """The schedule on one event loop: one task at a time, shared by all who ask."""

    def __init__(self, keeper: SealScheduler, loop: asyncio.AbstractEventLoop) -> None:
        self._keeper, self._loop = keeper, loop
        self._now: asyncio.Task[None] | None = None
        self._again = False
        self._timer: asyncio.TimerHandle | None = None

    def ask(self) -> None:
        """Seal soon."""
        if self._now is None:
            self._now = self._loop.create_task(self._run())
        else:
            self._again = True

    async def _run(self) -> None:
        try:
            self._again = True
            while self._again:
                await asyncio.sleep(0)  # sessions that end together are sealed together
                self._again = False
                await self._keeper.turn()
        finally:
            self._now = None

    async def wait_until_idle(self) -> None:
        """Wait for the current task, which goes on if this one is cancelled."""
        while self._now is not None:
            await asyncio.shield(self._now)

    def arm(self, seconds: float) -> None:
        """Seal in so many seconds, and again at this interval."""
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._tick, seconds)

    def disarm(self) -> None:
        """Stop the interval."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self, seconds: float) -> None:
        self._timer = None
        if self._keeper.tick():
            self.ask()
            self.arm(seconds)


# --------------------------------------------------------------------------- where chains end


def _left_behind(tx: Any) -> list[str]:
    """Find sessions written to since the last seal, perhaps by a killed process."""
    last = tx.execute(f"SELECT max(at) FROM {seals.TABLE}").fetchone()[0]
    rows = tx.execute(
        "SELECT id FROM windlass_sessions WHERE updated_at > ?"
        f" ORDER BY updated_at DESC LIMIT {seals.MOST}",
        (0.0 if last is None else last - OVERLAP,),
    )
    return [row[0] for row in rows.fetchall()]


def audit_ends(tx: Any, chains: Iterable[str]) -> dict[str, list[End]]:
    """Return the ends of these chains of the audit log, by tenant."""
    found: dict[str, list[End]] = {}
    sql = (
        f"SELECT seq, hash, coalesce(tenant, '') FROM {audit.TABLE} WHERE chain = ?"
        " ORDER BY seq DESC LIMIT 1 /* windlass */"
    )
    for chain in chains:
        row = tx.keep(sql, (chain,)).fetchone()
        if row is not None:
            end = End("audit", chain, row[0] + 1, bytes(row[1]).hex())
            found.setdefault(row[2], []).append(end)
    return found


async def _in_memory(store: MemoryStore, sessions: Sequence[str]) -> dict[str, list[End]]:
    found: dict[str, list[End]] = {}
    for session in sessions:
        try:
            head, entries = await store.head(session), await store.read(session)
        except NoSuchSession:
            continue
        runs = [entry for entry in entries if type(entry) is RunStarted]
        tenant = (runs[-1].tenant if runs else None) or ""
        found.setdefault(tenant, []).append(End("journal", session, head.rows, head.hash.hex()))
    return found


def _place(end: End) -> tuple[int, str]:
    return end.rows, end.hash


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

"""Verification of the record: chains, seals and anchor."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from windlass.audit.anchors import AnchorContents
from windlass.audit.index import (
    Facts,
    Index,
    JournalIndex,
    times_of,
)
from windlass.errors import Corrupt, NoSuchSession, StoreError
from windlass.events import JournalEntry, RunStarted, ToolDecided, ToolIntended
from windlass.resources import audit
from windlass.store import codec as written
from windlass.store import seals
from windlass.store.base import Row, Store
from windlass.store.memory import MemoryStore
from windlass.store.seals import End, Seal

_PAGE = 2_000
What: TypeAlias = Literal["journal", "audit", "seal", "anchor", "books"]


class Finding(msgspec.Struct, frozen=True):
    """A problem that verification found. `row` is a row of the chain, or the number of a seal."""

    what: What
    problem: str
    session: str | None = None
    chain: str | None = None
    tenant: str | None = None
    row: int | None = None

    def __str__(self) -> str:
        return self.problem


class AuditReport(msgspec.Struct, frozen=True):
    """The result of `audit_verify`: `ok`, `findings`, `deleted`, and what is `not_covered`."""

    findings: tuple[Finding, ...]
    not_covered: tuple[str, ...]
    deleted: tuple[End, ...]  # sessions that were removed by those who may
    sessions: int
    rows: int
    chains: int
    audit_rows: int
    seals: int
    anchored: int | None  # None: without an anchor

    @property
    def ok(self) -> bool:
        """Whether there are no findings."""
        return not self.findings


class _Chain(msgspec.Struct):
    """A verified chain: its length, and the hashes of rows that a seal names."""

    rows: int = 0
    hashes: dict[int, str] = {}
    broken: bool = False
    tenants: set[str] = msgspec.field(default_factory=set[str])


async def verify(
    store: Store,
    anchor: AnchorContents | None = None,
    *,
    tenant: str | None = None,
    session: str | None = None,
) -> AuditReport:
    """Check every chain of the store, or those of a tenant or a session."""
    work = _Verification(store, anchor, tenant, session)
    # What seals hold the ends of may grow while we look: so they are read first. What was deleted
    # meanwhile is on record after.
    work.sealed = [
        seal for seal in await store.consult(seals.read) if tenant is None or seal.tenant == tenant
    ]
    for seal in work.witnesses():
        for end in seal.ends:
            work.named.setdefault((end.kind, end.name), set()).add(end.rows)
    await work.journals()
    await work.log()
    work.graves = await store.consult(seals.graves)
    work.check_seals()
    return work.report()


class _Verification:
    def __init__(
        self, store: Store, anchor: AnchorContents | None, tenant: str | None, session: str | None
    ) -> None:
        self.store, self.anchor, self.tenant, self.session = store, anchor, tenant, session
        self.findings: list[Finding] = []
        self.followed: dict[tuple[str, str], _Chain] = {}
        self.sealed: list[Seal] = []
        self.named: dict[tuple[str, str], set[int]] = {}  # by chain, rows that seals name
        self.graves: list[tuple[End, bool]] = []
        self.journaled: dict[str, JournalIndex] = {}  # what the index must agree with

    def find(self, what: What, problem: str, **more: Any) -> None:
        self.findings.append(Finding(what, problem, **more))

    # ----------------------------------------------------------------- journals

    async def journals(self) -> None:
        """Check every session's chain, its head, its decisions, and the index of queries."""
        books = await self.store.consult(self._books)
        for name in await self._names():
            try:
                head, rows = await self.store.head(name), await self.store.rows(name)
            except NoSuchSession:
                continue  # deleted meanwhile
            except StoreError as error:
                if not self._others(name, books.get(name)):
                    self.find("journal", str(error), session=name, row=_row_in(str(error)))
                    self.followed["journal", name] = _Chain(broken=True)
                continue
            found = len(self.findings)
            chain = self._journal(name, rows, head.rows, head.hash)
            if not chain.broken:
                self._entries(name, rows, chain)
            if self._of_others(name, chain, books.get(name)):
                del self.findings[found:]
                self.journaled.pop(name, None)
                continue
            self.followed["journal", name] = chain
        if not isinstance(self.store, MemoryStore):
            index = Index(*await self.store.consult(lambda tx: (times_of(tx), self._books(tx))))
            for name, said in self.journaled.items():
                for row, problem in index.problems(name, said):
                    self.find("books", problem, session=name, row=row)

    def _of_others(self, name: str, chain: _Chain, runs: dict[str, Facts] | None) -> bool:
        """Check whether the session is another tenant's, by its journal if that is readable."""
        if self.tenant is None or ("journal", name) in self.named:
            return False
        if chain.broken or not chain.tenants:
            return self._others(name, runs)
        return self.tenant not in chain.tenants

    def _others(self, name: str, runs: dict[str, Facts] | None) -> bool:
        """Check whether the index has no run of this tenant in the session, nor any seal."""
        if self.tenant is None or not runs or ("journal", name) in self.named:
            return False
        return all((facts[0] or "") != self.tenant for facts in runs.values())

    async def _names(self) -> list[str]:
        if self.session is not None:
            return [self.session]
        if isinstance(self.store, MemoryStore):
            return [info.id for info in await self.store.sessions()]

        def look(tx: Any) -> tuple[list[Any], list[tuple[Any, ...]]]:
            names = tx.execute("SELECT id FROM windlass_sessions ORDER BY sid").fetchall()
            counts = tx.execute(
                "SELECT s.id, s.rows, r.sid, count(*) FROM windlass_rows AS r"
                " LEFT JOIN windlass_sessions AS s ON s.sid = r.sid GROUP BY s.id, s.rows, r.sid"
            ).fetchall()
            return [row[0] for row in names], counts

        names, counts = await self.store.consult(look)
        if any(not isinstance(name, str) for name in names):
            self.find("journal", "the name of a session is no text: it was changed")
        for name, rows, sid, count in counts:
            if name is None:
                self.find("journal", f"{count} rows belong to no session (number {sid})")
            elif not isinstance(rows, int) or count > rows:
                self.find(
                    "journal",
                    f"session {name!r}: {count} rows are stored and {rows} are its journal: "
                    "some were put in",
                    session=name,
                    row=rows,
                )
        return [name for name in names if isinstance(name, str)]

    def _books(self, tx: Any) -> dict[str, dict[str, Facts]]:
        """Return the index of runs, by session and run."""
        if isinstance(self.store, MemoryStore):
            return {}
        rows = tx.execute(
            "SELECT session, run, tenant, caller, request, conversation FROM windlass_runs"
            + ("" if self.session is None else " WHERE session = ?"),
            () if self.session is None else (self.session,),
        )
        found: dict[str, dict[str, Facts]] = {}
        for name, run, *facts in rows.fetchall():
            if name is not None and run is not None:
                found.setdefault(name, {})[run] = tuple(facts)
        return found

    def _journal(self, name: str, rows: Sequence[Row], count: int, hash_: bytes) -> _Chain:
        named = self.named.get(("journal", name), ())
        hashes = {place: rows[place - 1].hash.hex() for place in named if 0 < place <= len(rows)}
        chain = _Chain(len(rows), hashes)
        try:
            written.verify(rows, name)
            written.decode_rows(rows, name)
            if len(rows) < count or (count and rows[count - 1].hash != hash_):
                raise Corrupt(
                    f"session {name!r}: {len(rows)} rows, but its head says {count}: "
                    "the end was cut off or written over"
                )
        except StoreError as error:
            chain.broken = True
            self.find("journal", str(error), session=name, row=_row_in(str(error)))
        return chain

    def _entries(self, name: str, rows: Sequence[Row], chain: _Chain) -> None:
        decided: set[str] = set()
        index = self.journaled[name] = JournalIndex()
        for row in rows:
            index.earliest, index.latest = min(index.earliest, row.at), max(index.latest, row.at)
            for entry in written.decode(row.payload, name, row.seq):
                if type(entry) is RunStarted:
                    chain.tenants.add(entry.tenant or "")
                    index.add_run(row.seq, entry)
                self._entry(name, row.seq, entry, decided)

    def _entry(self, name: str, row: int, entry: JournalEntry, decided: set[str]) -> None:
        if type(entry) is ToolDecided:
            if entry.rule and entry.digest:
                decided.add(entry.call_id)
        elif type(entry) is ToolIntended and entry.call_id not in decided:
            self.find(
                "journal",
                f"session {name!r}, row {row}: call {entry.call_id} of {entry.tool} began without "
                "a decision on record that names rule and digest",
                session=name,
                row=row,
            )

    # ----------------------------------------------------------------- the log of resources

    async def log(self) -> None:
        """Check every chain of the audit log, row by row."""
        only = None if self.session is None else f"session:{self.session}"
        name, chain, before = "", _Chain(), b""
        named: Collection[int] = ()
        async for row in _log(self.store, only):
            content, hash_ = row[1:-1], row[-1]
            if not isinstance(content[0], str):
                self.find("audit", f"audit row {row[0]}: its columns are not what they were")
                continue
            if content[0] != name or not chain.tenants:
                name = content[0]
                before, named = audit.genesis(name), self.named.get(("audit", name), ())
                chain = self.followed["audit", name] = _Chain()
            chain.tenants.add(content[3] or "")
            if chain.broken:
                continue
            problem = self._check_log_row(name, chain.rows, before, content, hash_)
            if problem is not None:
                chain.broken = True
                self.find("audit", problem, chain=name, session=_session(name), row=chain.rows)
                continue
            before, chain.rows = bytes(hash_), chain.rows + 1
            if chain.rows in named:
                chain.hashes[chain.rows] = before.hex()
        if self.tenant is not None:
            self._forget_others()

    def _forget_others(self) -> None:
        """Drop chains without a row of the tenant in question, unless a seal names them."""
        others = {
            name
            for (kind, name), chain in self.followed.items()
            if kind == "audit"
            and self.tenant not in chain.tenants
            and (kind, name) not in self.named
        }
        for name in others:
            del self.followed["audit", name]
        self.findings = [one for one in self.findings if one.chain not in others]

    def _check_log_row(
        self, chain: str, place: int, before: bytes, content: Sequence[Any], hash_: Any
    ) -> str | None:
        if content[1] != place:
            return f"audit chain {chain!r}: row {place} is missing or out of place"
        try:
            sound = isinstance(hash_, bytes) and audit.link(before, content) == hash_
        except (TypeError, ValueError):
            sound = False
        if not sound:
            return f"audit chain {chain!r}, row {place}: changed since it was written"
        return None

    # ----------------------------------------------------------------- seals

    def check_seals(self) -> None:
        """Check the seals among each other, against the anchor, and against the chains."""
        self._follow()
        if self.anchor is not None:
            self._compare(self.anchor)
        self._hold(self.witnesses())

    def _follow(self) -> None:
        """Check that the seals of each tenant are a chain."""
        number, tenant, previous = 0, None, ""
        for seal in self.sealed:
            if seal.tenant != tenant:
                number, tenant, previous = 0, seal.tenant, seals.genesis(seal.tenant)
            number += 1
            if seal.number != number:
                self._bad_seal(seal, f"seal {number} is missing or out of place", number)
            elif seal.previous != previous:
                self._bad_seal(seal, f"seal {number} does not follow the one before it", number)
            elif not seal.sound:
                self._bad_seal(seal, f"seal {number} was changed since it was made", number)
            number, previous = seal.number, seal.hash

    def _bad_seal(self, seal: Seal, problem: str, number: int) -> None:
        self.find("seal", f"{_whose(seal.tenant)}: {problem}", tenant=seal.tenant, row=number)

    def _compare(self, anchor: AnchorContents) -> None:
        """Check that the anchored seals are in the store unchanged."""
        for problem in anchor.problems:
            self.find("anchor", problem)
        in_store = {(seal.tenant, seal.number): seal for seal in self.sealed}
        in_anchor: dict[tuple[str, int], Seal] = {}
        for seal in anchor.seals:
            if self.tenant is not None and seal.tenant != self.tenant:
                continue
            key = (seal.tenant, seal.number)
            if not seal.sound:
                self._off(seal, "in the anchor was changed since it was put there")
                continue
            known, stored = in_anchor.setdefault(key, seal), in_store.get(key)
            if known.hash != seal.hash:
                self._off(
                    seal,
                    "is anchored twice, and differs: the store was put back to an "
                    "older state and went on from there",
                )
            elif stored is None and known is seal:
                self._off(
                    seal,
                    "is anchored and not in the store: it is an older copy, or its end was cut off",
                )
            elif stored is not None and stored.hash != seal.hash and known is seal:
                self._off(seal, "differs from the one that is anchored")

    def _off(self, seal: Seal, problem: str) -> None:
        text = f"{_whose(seal.tenant)}: seal {seal.number} {problem}"
        self.find("anchor", text, tenant=seal.tenant, row=seal.number)

    def witnesses(self) -> list[Seal]:
        """Return the seals of the anchor, then of the store, each once."""
        found: dict[str, Seal] = {}
        anchored = () if self.anchor is None else self.anchor.seals
        for seal in (*anchored, *self.sealed):
            if seal.sound and (self.tenant is None or seal.tenant == self.tenant):
                found.setdefault(seal.hash, seal)
        return sorted(found.values(), key=lambda seal: (seal.tenant, seal.number))

    def _hold(self, witnesses: Sequence[Seal]) -> None:
        """Check that every sealed end is still in its chain, or its session was deleted."""
        reported: set[tuple[str, str]] = set()
        gone: dict[str, list[float]] = {}
        later: dict[tuple[str, str], int] = {}
        for end, sealed in self.graves:
            gone.setdefault(end.name, []).append(end.at if sealed else math.inf)
        for seal in witnesses:
            for end in seal.ends:
                if end.kind == "deleted":
                    gone.setdefault(end.name, []).append(end.at)
                    later[seal.tenant, end.name] = seal.number
        for seal in witnesses:
            for end in seal.ends:
                if end.kind == "deleted" or (end.kind, end.name) in reported:
                    continue
                excused = end.kind == "journal" and (
                    any(at >= seal.at for at in gone.get(end.name, ()))
                    or later.get((seal.tenant, end.name), 0) > seal.number
                )
                if not excused and self._check_end(seal, end):
                    reported.add((end.kind, end.name))

    def _check_end(self, seal: Seal, end: End) -> bool:
        chain = self.followed.get((end.kind, end.name))
        session = end.name if end.kind == "journal" else _session(end.name)
        if self.session is not None and session != self.session:
            return False
        name = f"session {end.name!r}" if end.kind == "journal" else f"audit chain {end.name!r}"
        if chain is None:
            problem = f"{name}: is gone, and nobody deleted it; it had {end.rows} rows when sealed"
        elif chain.broken:
            return False  # which is reported already
        elif chain.rows < end.rows:
            problem = (
                f"{name}, row {chain.rows}: its end was cut off, or it is an old copy; "
                f"it had {end.rows} rows when sealed (seal {seal.number}) and has "
                f"{chain.rows}"
            )
        elif end.rows and chain.hashes.get(end.rows) != end.hash:
            problem = (
                f"{name}, row {end.rows - 1}: is not the row that was sealed (seal {seal.number})"
            )
        else:
            return False
        self.find(
            end.kind if end.kind != "deleted" else "seal",
            problem,
            session=session,
            chain=end.name if end.kind == "audit" else None,
            row=min(end.rows - 1, chain.rows if chain else 0),
        )
        return True

    # ----------------------------------------------------------------- the report

    def report(self) -> AuditReport:
        """Build the report of what was found, and what cannot be known."""
        anchor = self.anchor
        journals = [chain for (kind, _), chain in self.followed.items() if kind == "journal"]
        logs = [chain for (kind, _), chain in self.followed.items() if kind == "audit"]
        return AuditReport(
            tuple(self.findings),
            tuple(self._not_covered()),
            tuple(end for end, _ in self.graves),
            len(journals),
            sum(chain.rows for chain in journals),
            len(logs),
            sum(chain.rows for chain in logs),
            len(self.sealed),
            None if anchor is None else len({seal.hash for seal in anchor.seals}),
        )

    def _not_covered(self) -> Iterable[str]:
        sealed: dict[tuple[str, str], int] = {}
        for seal in self.witnesses():
            for end in seal.ends:
                sealed[end.kind, end.name] = max(sealed.get((end.kind, end.name), 0), end.rows)
        open_ends = [
            f"{name} from row {sealed.get((kind, name), 0)}"
            for (kind, name), chain in self.followed.items()
            if chain.rows > sealed.get((kind, name), 0)
        ]
        if self.anchor is None:
            yield (
                "no anchor was given: that the whole store is an older copy, or that chains and "
                "seals were made anew together, would not show"
            )
        else:
            last: dict[str, int] = {}
            for seal in self.anchor.seals:
                last[seal.tenant] = max(last.get(seal.tenant, 0), seal.number)
            late = [seal for seal in self.sealed if seal.number > last.get(seal.tenant, 0)]
            if late:
                yield f"{len(late)} seals are in the store alone: they wait for the anchor"
        unnamed = len(self.store.archived_sessions()) if isinstance(self.store, MemoryStore) else 0
        if unnamed:
            yield f"{unnamed} sessions that nobody has named are kept in memory, without a chain"
        if not self.sealed:
            yield "nothing was ever sealed: a chain whose end was cut off would not show"
        elif open_ends:
            some = ", ".join(open_ends[:3]) + (", …" if len(open_ends) > 3 else "")
            yield f"a cut after the last seal would not show: {len(open_ends)} chains ({some})"


async def _log(store: Store, only: str | None) -> AsyncIterator[tuple[Any, ...]]:
    """Yield the audit log chain by chain, read a page at a time."""
    columns = ", ".join(f'"{name}"' for name in audit.COLUMNS)
    at: tuple[str, int] = ("" if only is None else only, -1)
    where = "(chain, seq) > (?, ?)" if only is None else "chain = ? AND seq > ?"
    sql = f"SELECT {columns} FROM {audit.TABLE} WHERE {where} ORDER BY chain, seq LIMIT {_PAGE}"
    while True:

        def look(tx: Any, values: tuple[str, int] = at) -> list[Any]:
            return tx.execute(sql, values).fetchall() if seals.there(tx, audit.TABLE) else []

        page = await store.consult(look)
        for row in page:
            yield row
        if len(page) < _PAGE:
            return
        at = (page[-1][1], page[-1][2])


def _session(chain: str) -> str | None:
    return chain.removeprefix("session:") if chain.startswith("session:") else None


def _whose(tenant: str) -> str:
    return f"tenant {tenant!r}" if tenant else "no tenant"


def _row_in(text: str) -> int | None:
    """Parse the row that a store's error names."""
    _, found, rest = text.partition("row ")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return int(digits) if found and digits else None

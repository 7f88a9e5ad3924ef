"""The thread that talks to Postgres for a store: its own event loop and connections.

Rows of many sessions that are ready together go in one statement; several groups may be under way.
A body has a connection to itself. A session's rows and bodies happen in the order asked, one after
the other. Whatever cannot be written now stays in its session's backlog for the next try.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from windlass import seams
from windlass.errors import StaleWriter, StoreError, WindlassError
from windlass.store import transaction as limits
from windlass.store.base import InboxItem, InboxKind, second_result_error
from windlass.store.holder import BEAT_SECONDS
from windlass.store.outage import waits_on
from windlass.store.postgres.address import Address
from windlass.store.postgres.bodies import BodyRaised, BodyResources, run_body
from windlass.store.postgres.commit import (
    CallerLeft,
    Patience,
    Trial,
    look,
    look_once,
    never,
    once,
    wait_for_standby,
)
from windlass.store.postgres.connection import (
    Connection,
    Pool,
    Statement,
    meaning,
    passing,
)
from windlass.store.postgres.notify import Mail
from windlass.store.postgres.rows import (
    SERIALIZABLE,
    SNAPSHOT,
    Batch,
    Numbers,
    begin,
    build_stored_check,
    leading,
    share_values,
)
from windlass.store.postgres.schema import Schema
from windlass.store.postgres.server_clock import ServerClock
from windlass.store.postgres.sessions import (
    beat,
    become_writer,
    give_up,
    post,
)
from windlass.store.sqlite.group import (
    SecondResult,
    loss,
    stale,
    with_record,
)
from windlass.store.threaded.jobs import (
    Again,
    Append,
    Call,
    Commit,
    Forget,
    Job,
    Jobs,
    Line,
)
from windlass.store.threaded.store import Opening
from windlass.store.threaded.wakeups import SteppedNews

T = TypeVar("T")
GROUPS, BODIES = 4, 8  # connections for rows and questions, and for bodies
LINES = 128  # sessions in one group
IDLE_SECONDS = 5.0  # the server ends a transaction whose process has gone silent

log = logging.getLogger("windlass.store")


living: weakref.WeakSet[Writer] = weakref.WeakSet()  # a virtual clock waits for them


class Writer:
    """A queue and its thread. `put` never blocks."""

    def __init__(self, address: Address, patience: float) -> None:
        self.address, self.patience = address, patience
        self.numbers = Numbers()
        self.clock = ServerClock()
        self._queue: deque[Jobs] = deque()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = False
        self._ended: Callable[[], None] | None = None
        self._lines: dict[Line, None] = {}  # that have a backlog
        self._busy: set[Line] = set()
        self._grouping = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.news = SteppedNews()
        self.schema = Schema(address)
        self.mail = Mail(address, patience, self.schema.use, self._deliver)
        self._prepared: dict[Connection, dict[str, Statement]] = {}
        self.token = ""  # of the store
        self._holds: set[Line] = set()  # sessions that it is the writer of
        self._beating: asyncio.Task[None] | None = None
        self.stopped = False
        living.add(self)

    @property
    def at_work(self) -> bool:
        """Whether any job is unanswered."""
        return bool(self._queue or self._tasks or self.mail.looking)

    def put(self, job: Jobs) -> None:
        """Queue a job, from any thread."""
        if self._loop is None or self.stopped:
            self._start()
        self._queue.append(job)
        self._wake()

    def _wake(self) -> None:
        if not self._woken and self._loop is not None:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # it has just ended
                self._refuse_the_rest()

    def _start(self) -> None:
        with self._starting:
            if self.stopped:
                raise StoreError(f"{self.address}: this store was closed; open a new one")
            if self._loop is None:
                self._loop = self.news.home = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop,), name="windlass-store", daemon=True
                )
                self._thread.start()

    def stop(self, ended: Callable[[], None] | None = None) -> bool:
        """Write what is queued and end the thread, which calls `ended` last; False if none runs."""
        with self._starting:
            if self.stopped or self._thread is None:
                self.stopped = True
                return False
            self.stopped, self._ended = True, ended
        self._queue.append(None)
        self._woken = False
        self._wake()
        return True

    def join(self, timeout: float | None = None) -> None:
        """Wait for the thread's end."""
        if self._thread is not None:
            self._thread.join(timeout)

    # ----------------------------------------------------------------------- the thread

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._serve())
            loop.run_until_complete(loop.shutdown_asyncgens())
        except Exception:
            log.exception("%s: the store's thread has failed", self.address)
        finally:
            loop.close()
            self._refuse_the_rest()
            self.news.say()
            if self._ended is not None:
                self._ended()

    async def _serve(self) -> None:
        limit = str(round(limits.LIMIT_SECONDS * 1000))
        idle = {"idle_in_transaction_session_timeout": str(round(IDLE_SECONDS * 1000))}
        self._stopping = asyncio.Event()
        self.pool = Pool(
            self.address,
            self.patience,
            GROUPS,
            {"plan_cache_mode": "force_generic_plan", **idle},
        )
        self.bodies = Pool(
            self.address,
            self.patience,
            BODIES,
            {"statement_timeout": limit, **idle},
        )
        self.pool.ready = self.bodies.ready = self.schema.use
        self.pool.prepare = self.bodies.prepare = self._measure_clock
        self._drain()
        await self._stopping.wait()
        while self._tasks or self._lines:
            self._go()
            if not self._tasks:
                break  # what is left could not be written
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        left = [line.session_id for line in self._lines]
        if left:
            log.error("%s: closed with unwritten rows of %s", self.address, ", ".join(left))
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait({self._beating})
        await self.mail.close()
        await self.pool.close()
        await self.bodies.close()
        self.news.say()

    async def _measure_clock(self, connection: Connection) -> None:
        if self.clock.is_old:
            await self.clock.measure(connection)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended_task)

    def _ended_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: the store has failed", self.address, exc_info=error)

    def _drain(self) -> None:
        self._woken = False
        while self._queue:
            found = self._queue.popleft()
            for job in found if isinstance(found, list) else [found]:
                self._sort(job)
        self._go()

    def _sort(self, job: Job) -> None:
        match job:
            case Append() | Commit():
                job.line.backlog.append(job)
                self._lines[job.line] = None
            case Call():
                self._spawn(self._call(job))
            case Again():
                if job.line.backlog:
                    self._lines[job.line] = None
            case Forget():
                self.mail.forget(job.line)
                self._holds.discard(job.line)
            case None:
                self._stopping.set()

    def _go(self) -> None:
        """Start whatever is ready: bodies each alone, the rows of all others together."""
        groups: dict[Callable[[], bool] | None, list[Line]] = {}  # that wait as long as each other
        for line in list(self._lines):
            if line in self._busy:
                continue
            first = line.backlog[0]
            if isinstance(first, Commit):
                self._busy.add(line)
                self._spawn(self._commit(line, first))
            elif len(group := groups.setdefault(line.waits, [])) < LINES:
                group.append(line)
        for group in groups.values():
            if self._grouping >= GROUPS - 1:  # one is left for questions
                break
            self._busy.update(group)
            self._grouping += 1
            self._spawn(self._group(group))

    # ----------------------------------------------------------------------- rows

    async def _group(self, lines: list[Line]) -> None:
        waits_on.set(lines[0].waits)
        try:
            await self._write([(line, leading(line)) for line in lines], counted=True)
        finally:
            self._grouping -= 1
            self._busy.difference_update(lines)
            self._go()

    async def _write(self, group: list[tuple[Line, list[Append]]], counted: bool) -> bool:
        """Store rows of sessions; False when all of them have to wait.

        `counted` tells that the rows are those of the backlog.
        """
        patience = Patience(self.pool.patience)
        batch: Batch | None = None
        while True:
            try:
                async with self.pool.take() as connection:
                    if batch is None:
                        batch = await self._batch(connection, group)
                    seams.point("journal.before_commit")
                    fenced = await batch.write_alone(connection) if batch.lines else set[int]()
                    seams.point("journal.after_commit")
                    missing = [line for line in batch.lines if line.sid not in fenced]
                    ours = await batch.stored_before(connection, missing)
                    if missing:  # a primary that was replaced would call its writers stale
                        await wait_for_standby(self.pool, connection)
                break
            except Exception as error:
                try:
                    await patience.after(error)
                except Exception as last:
                    if len(group) > 1 and not passing(last):  # one of them spoils it for all
                        each = [await self._write([one], counted) for one in group]
                        return all(each)
                    self._fail_lines(meaning(last, self.address), [line for line, _ in group])
                    return False
        for line, appends in group:
            if line not in batch.places:
                continue
            if line.sid in fenced or line in ours:
                line.stands = batch.places[line]
                line.results |= batch.fresh[line]
                if counted:
                    self._advance(line, len(appends))
            else:
                self._lose(line, stale(line))
        return True

    async def _batch(self, connection: Connection, group: list[tuple[Line, list[Append]]]) -> Batch:
        """Build a batch; a session that gives a call a second result is left out and fails."""
        wanted = sum(len(job.notes.paid) for _, appends in group for job in appends)
        await self.numbers.refill(connection, wanted)
        batch = Batch()
        for line, appends in group:
            try:
                batch.add(line, appends, self.numbers)
            except SecondResult as error:
                self._lose(line, loss(error, line))
        return batch

    # ----------------------------------------------------------------------- bodies

    async def _commit(self, line: Line, job: Commit) -> None:
        waits_on.set(line.waits)
        try:
            await self._transact(line, job)
        finally:
            self._busy.discard(line)
            self._go()

    async def _transact(self, line: Line, job: Commit) -> None:
        pending = [job.pending] if job.pending.count else []
        try:
            await once(
                self.bodies,
                lambda c, trial: self._run_body(c, trial, line, job),
                begin(line, _level_of(job.body)),
                job.is_abandoned,
            )
        except CallerLeft as error:
            job.error, job.entries = error, ()
            self.news.tell(line.loop, line.owner.on_committed, job)
            if pending:
                line.backlog[0] = job.pending  # its row goes as any other
            else:
                self._advance(line, 1)
            return
        except (StaleWriter, SecondResult) as error:
            job.entries = ()
            self._lose(line, loss(error, line))
            return
        except BodyRaised as raised:
            job.error, job.entries, job.value = raised.error, (), None
        except Exception as error:
            self._fail_lines(meaning(error, self.address), [line])
            return
        else:
            self._settle(line, job)
            return
        if line.backlog and (not pending or await self._write([(line, pending)], counted=False)):
            self._settle(line, job)

    async def _run_body(
        self, connection: Connection, trial: Trial, line: Line, job: Commit
    ) -> None:
        job.entries, job.value = (), None
        if trial.begun != "SELECT 1":  # before the body, whose effects would be undone
            await connection.execute("ROLLBACK")
            await wait_for_standby(self.bodies, connection)
            raise stale(line)
        job.ours = job.ours or job.try_claim()
        if not job.ours:
            raise CallerLeft("the caller was cancelled before the body began")
        value = await run_body(connection, self._resources(connection), job.body, job.context)
        batch = Batch()
        try:
            job.entries = list(job.record(value))
            row = with_record(job, line)
            taken = [call_id for call_id in row.notes.results if call_id in line.results]
            if taken:
                raise second_result_error(taken, line.session_id)
        except BaseException as error:
            raise BodyRaised(error) from error
        if row.count:
            await self.numbers.refill(connection, len(row.notes.paid))
            batch.add(line, [row], self.numbers)
            if batch.blobs:
                await connection.execute(share_values())
            fenced, trial.xid = await batch.write(connection)
            if line.sid not in fenced:
                raise stale(line)
            job.place, job.fresh = batch.places[line], batch.fresh[line]
            trial.happened = build_stored_check(line, job.place)
        job.value = value

    def _resources(self, connection: Connection) -> BodyResources:
        return BodyResources(self._statements(connection), self.clock)

    def _statements(self, connection: Connection) -> dict[str, Statement]:
        found = self._prepared.get(connection)
        if found is None:
            for old in [old for old in self._prepared if old.is_closed()]:
                del self._prepared[old]
            found = self._prepared[connection] = {}
        return found

    # ----------------------------------------------------------------------- results

    def _advance(self, line: Line, count: int) -> None:
        """Remove `count` stored jobs from the backlog."""
        for _ in range(count):
            line.backlog.popleft()
        before, line.done = line.done, line.done + count
        if not line.backlog:
            self._lines.pop(line, None)
        if line.awaited > before:
            self.news.tell(line.loop, line.owner.on_settled, line.done, None, False)

    def _settle(self, line: Line, job: Commit) -> None:
        """Finish the commit at the head of the backlog."""
        if job.place is not None and job.error is None:
            line.stands, job.place = job.place, None
            line.results |= job.fresh
        self.news.tell(line.loop, line.owner.on_committed, job)
        self._advance(line, 1)

    def _lose(self, line: Line, error: StoreError) -> None:
        """Fail all jobs of a session that has another writer."""
        for job in line.backlog:
            if isinstance(job, Commit):
                job.error, job.entries = job.error or error, ()
                self.news.tell(line.loop, line.owner.on_committed, job)
        line.backlog.clear()
        self._lines.pop(line, None)
        self.news.tell(line.loop, line.owner.on_settled, line.done, error, True)

    def _fail_lines(self, error: StoreError, lines: list[Line]) -> None:
        """Report to these sessions that nothing was written."""
        for line in lines:
            self._lines.pop(line, None)
            self.news.not_written(line, error)

    def _deliver(self, line: Line, items: list[InboxItem]) -> None:
        self.news.tell(line.loop, line.owner.on_delivered, items)

    # ----------------------------------------------------------------------- all else

    async def open(self, opening: Opening) -> None:
        """Become a session's writer, and deliver its mail from now on."""
        opening.ended = asyncio.Event()
        await self.mail.begin()
        line: Line | None = None
        try:
            await once(self.pool, lambda c, trial: self._become_writer(c, trial, opening))
            line = opening.line
            self._holds.add(line)
            if self._beating is None:
                self._beating = asyncio.get_running_loop().create_task(self._beat())
        finally:
            self.mail.on_opened(line, opening.mail)
            opening.ended.set()

    async def _become_writer(self, connection: Connection, trial: Trial, opening: Opening) -> None:
        trial.happened = never  # it is safe to repeat, so that nothing needs to be found of it
        await become_writer(connection, opening)

    async def undo(self, opening: Opening) -> None:
        """Undo an opening whose caller has left."""
        if opening.ended is not None:
            await opening.ended.wait()
        await self.give_up(opening.line)

    async def _beat(self) -> None:
        """Record heartbeats at intervals while the store holds sessions."""
        while True:
            try:
                if self._holds:
                    await once(self.pool, lambda c, _trial: beat(c, self.token))
            except Exception as error:
                log.warning("%s: cannot say that this process is there: %s", self.address, error)
            await asyncio.sleep(BEAT_SECONDS)

    async def give_up(self, line: Line) -> None:
        """Record that nobody writes to the session any more."""
        await once(self.pool, lambda c, _trial: give_up(c, line))

    async def post(self, session_id: str, item: tuple[str, InboxKind, bytes, float]) -> None:
        """Post an item; a writer in this process has it on return, as on every store."""
        sid = await once(self.pool, lambda c, _trial: post(c, session_id, item))
        await self.mail.wait_for_delivery(sid)

    async def run_free(
        self, body: Callable[[Any], T], context: contextvars.Context, left: Callable[[], bool]
    ) -> T:
        """Run a body that belongs to no session."""
        if getattr(body, "one_statement", False):
            return await look_once(
                self.bodies, lambda c: run_body(c, self._resources(c), body, context)
            )
        is_repeatable = getattr(body, "repeatable", False)

        async def work(connection: Connection, trial: Trial) -> T:
            if is_repeatable:
                trial.happened = never
            return await run_body(connection, self._resources(connection), body, context)

        return await once(self.bodies, work, _level_of(body), left)

    async def consult(self, body: Callable[[Any], T], context: contextvars.Context) -> T:
        """Run a read-only body on a snapshot, without a time limit."""
        alone = getattr(body, "one_statement", False)
        read = look_once if alone else look
        return await read(
            self.pool,
            lambda c: run_body(
                c, self._resources(c), body, context, limited=False, read_only=not alone
            ),
        )

    async def _call(self, call: Call) -> None:
        waits_on.set(call.waits)
        try:
            call.value = await call.work(self)
        except BodyRaised as raised:
            call.error = raised.error
            if isinstance(call.error, StopIteration):  # a future refuses to hold one
                call.error = RuntimeError(f"the body raised {call.error!r}")
        except WindlassError as error:
            call.error = error
        except Exception as error:
            call.error = meaning(error, self.address)
            call.error.__cause__ = error
        self.news.tell(call.loop, call.settle)

    def _refuse_the_rest(self) -> None:
        """Fail the jobs that were queued while the thread was ending."""
        closed = StoreError(f"{self.address}: this store was closed")
        while self._queue:
            found = self._queue.popleft()
            for job in found if isinstance(found, list) else [found]:
                if isinstance(job, Call):
                    job.error = closed
                    self.news.tell(job.loop, job.settle)
                elif isinstance(job, (Append, Commit)):
                    job.line.backlog.append(job)
                    self._fail_lines(closed, [job.line])


def _level_of(body: Callable[..., Any]) -> str:
    """Return the statement that begins the transaction of a body."""
    return SNAPSHOT if getattr(body, "on_snapshot", False) else SERIALIZABLE

"""The thread that writes a SQLite file: it drains a queue into one commit at a time.

A group is one transaction. Each session's rows are fenced by the session's epoch and head, so a
stale writer loses alone. Whatever cannot be written now (a full disk, a held database) stays in its
session's backlog, in order, for the next try.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue

from windlass import seams
from windlass.errors import StoreError
from windlass.store.base import InboxItem
from windlass.store.holder import BEAT_SECONDS
from windlass.store.sqlite import queries as sqlite_queries
from windlass.store.sqlite import schema, sessions
from windlass.store.sqlite.group import Redo, fill
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
from windlass.store.threaded.wakeups import News
from windlass.store.transaction import Guard

GROUP = 1024  # jobs in one transaction
GATHER_SECONDS = 0.001  # many sessions are at work and few have come: more may be on their way
POLL_SECONDS = 0.1  # how soon mail from other processes is noticed while nothing is written

log = logging.getLogger("windlass.store")

living: weakref.WeakSet[Writer] = weakref.WeakSet()  # a virtual clock waits for them


# --------------------------------------------------------------------------- the thread


class Writer:
    """A queue and its thread. `put` never blocks."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.path, self.busy_timeout = path, busy_timeout
        self.connection: sqlite3.Connection | None = None
        self.lines: dict[int, Line] = {}  # open sessions by number
        self._queue: SimpleQueue[Jobs] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._waiting = False  # for the next job, with nothing in hand
        self._guard: Guard | None = None
        self._ended: Callable[[], None] | None = None
        self._news = News()
        self._version, self._mail_seen = -1, 0
        self._beat_at = -BEAT_SECONDS  # the time of the last heartbeat
        self.token = ""  # of the store
        self.read_only = self.add_tables = False
        self.identify: Callable[[Path], str] | None = None
        self.stopped = False
        self.put: Callable[[Jobs], None] = self._first_put
        living.add(self)

    @property
    def at_work(self) -> bool:
        """Whether any job is unanswered."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            return False
        return not self._waiting or not self._queue.empty()

    def _first_put(self, job: Jobs) -> None:
        with self._starting:
            if self.stopped:
                raise StoreError(f"{self.path}: this store was closed; open a new one")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="windlass-store-writer", daemon=True
                )
                self._thread.start()
                self.put = self._queue.put
        self._queue.put(job)

    def stop(self, ended: Callable[[], None] | None = None) -> bool:
        """Write what is queued and end the thread, which calls `ended` last; False if none runs."""
        with self._starting:
            self.stopped = True
            self.put = self._first_put
            if self._thread is None:
                return False
            self._ended = ended
            self._stopping.set()
            self._queue.put(None)
            return True

    def join(self, timeout: float | None = None) -> None:
        """Wait for the thread's end."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            jobs = self._wait()
            lines: dict[Line, None] = {}
            calls: list[Call] = []
            given_up: list[Line] = []
            for job in jobs:
                if type(job) is Append:
                    line = job.line
                    line.backlog.append(job)
                    lines[line] = None
                elif type(job) is Commit:
                    line = job.line
                    line.backlog.append(job)
                    line.bodies = True
                    lines[line] = None
                elif type(job) is Call:
                    calls.append(job)
                elif type(job) is Again:
                    lines[job.line] = None
                elif type(job) is Forget:
                    given_up.append(job.line)
                else:
                    stopping = True
                    lines.update(
                        dict.fromkeys(line for line in self.lines.values() if line.backlog)
                    )
            if lines or calls:
                self._write(list(lines), calls)
            for line in given_up:
                if self.lines.get(line.sid) is line:  # it may be open again already
                    del self.lines[line.sid]
            self._look_for_mail()
            if self.lines:
                self._beat()
            self._news.say()
        self._disconnect()
        self._refuse_the_rest()
        if self._ended is not None:
            self._ended()

    def _wait(self) -> list[Job]:
        jobs: list[Job] = []
        try:
            self._waiting = True
            found = self._queue.get(timeout=POLL_SECONDS if self.lines else None)
            self._waiting = False
            self._take(jobs, found)
            if 2 * len(jobs) < len(self.lines):
                self._stopping.wait(GATHER_SECONDS)
                self._take(jobs, self._queue.get_nowait())
        except Empty:
            self._waiting = False
        return jobs

    def _take(self, jobs: list[Job], found: Jobs) -> None:
        """Add a job, and all others that are queued."""
        while True:
            if isinstance(found, list):
                jobs += found
            else:
                jobs.append(found)
            if len(jobs) >= GROUP:
                return
            try:
                found = self._queue.get_nowait()
            except Empty:
                return

    # ----------------------------------------------------------------------- a group

    def _write(self, lines: list[Line], calls: list[Call]) -> None:
        careful = False
        while True:
            try:
                connection, guard = self._connect()
                connection.execute(schema.BEGIN)
                lost = fill(connection, guard, lines, calls, careful)
                schema.commit(connection)
            except Redo:
                self._roll_back()
                careful = True
            except Exception as error:
                self._roll_back()
                self._fail_lines(schema.meaning(error, self.path), lines, calls)
                return
            else:
                self._settle_lines(lines, calls, lost)
                return

    def _beat(self) -> None:
        """Record a heartbeat at intervals while the store holds sessions."""
        connection = self.connection
        if connection is None or seams.monotonic() - self._beat_at < BEAT_SECONDS:
            return
        self._beat_at = seams.monotonic()
        try:
            connection.execute(schema.BEGIN)
            sessions.beat(connection, self.token)
            schema.commit(connection)
        except sqlite3.Error as error:
            self._roll_back()
            log.warning("%s: cannot say that this process is there: %s", self.path, error)

    # ----------------------------------------------------------------------- results

    def _settle_lines(
        self, lines: list[Line], calls: list[Call], lost: dict[Line, StoreError]
    ) -> None:
        for line in lines:
            error, before = lost.get(line), line.done
            if error is None:
                line.stands = line.next
                line.results |= line.fresh
                line.done += len(line.backlog)
            if line.bodies:
                for job in line.backlog:
                    if type(job) is Commit:
                        if error is not None:
                            job.error, job.entries = error, ()
                        self._news.tell(line.loop, line.owner.on_committed, job)
                line.bodies = False
                self.mail_was_posted()
            line.backlog.clear()
            if error is not None or line.awaited > before:
                self._news.tell(line.loop, line.owner.on_settled, line.done, error, True)
        for call in calls:
            if call.error is None and call.after is not None:
                call.after(call.value)
            self._news.tell(call.loop, call.settle)

    def _fail_lines(self, error: StoreError, lines: list[Line], calls: list[Call]) -> None:
        """Report to these sessions and calls that nothing was written."""
        for line in lines:
            self._news.not_written(line, error)
        for call in calls:
            call.error = error
            self._news.tell(call.loop, call.settle)

    # ----------------------------------------------------------------------- mail

    def _look_for_mail(self) -> None:
        """Deliver posts to open sessions, also those of other processes."""
        connection = self.connection
        if connection is None or not self.lines:
            return
        try:
            version = connection.execute("PRAGMA data_version").fetchone()[0]
            if version == self._version:
                return
            found: dict[Line, list[InboxItem]] = {}
            for n, sid, item in sqlite_queries.mail_after(connection, self._mail_seen, self._name):
                self._mail_seen = n
                line = self.lines.get(sid)
                if line is not None and item is not None and n > line.mail_seen:
                    line.mail_seen = n
                    found.setdefault(line, []).append(item)
            self._version = version
        except (sqlite3.Error, StoreError) as error:
            log.warning("%s: cannot look for mail now: %s", self.path, error)
            return
        for line, items in found.items():
            self._news.tell(line.loop, line.owner.on_delivered, items)

    def _name(self, sid: int) -> str | None:
        line = self.lines.get(sid)
        return None if line is None else line.session_id

    def mail_was_posted(self, _value: object = None) -> None:
        """Force a check for mail: own commits do not change the watched version."""
        self._version = -1

    def _refuse_the_rest(self) -> None:
        """Fail the jobs that were queued while the thread was ending."""
        closed = StoreError(f"{self.path}: this store was closed")
        try:
            while True:
                found = self._queue.get_nowait()
                for job in found if isinstance(found, list) else [found]:
                    if type(job) is Call:
                        self._fail_lines(closed, [], [job])
                    elif type(job) is Append or type(job) is Commit:
                        job.line.backlog.append(job)
                        self._fail_lines(closed, [job.line], [])
        except Empty:
            self._news.say()

    # ----------------------------------------------------------------------- the connection

    def _connect(self) -> tuple[sqlite3.Connection, Guard]:
        if self.connection is None or self._guard is None:
            if self.read_only:
                raise StoreError(f"{self.path}: this store was opened for reading only")
            self.connection = schema.connect(
                self.path,
                self.busy_timeout,
                add_tables=self.add_tables,
                identify=self.identify,
            )
            self._guard = Guard(self.connection)
        return self.connection, self._guard

    def _roll_back(self) -> None:
        connection = self.connection
        if connection is not None and connection.in_transaction:
            try:
                connection.execute(schema.ROLLBACK)
            except sqlite3.Error:
                log.exception("%s: the transaction could not be rolled back", self.path)

    def _disconnect(self) -> None:
        left = [line.session_id for line in self.lines.values() if line.backlog]
        if left:
            log.error("%s: closed with unwritten rows of %s", self.path, ", ".join(left))
        if self.connection is not None:
            self.connection.close()
            self.connection = self._guard = None

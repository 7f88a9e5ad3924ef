"""Mail for open sessions: Postgres notifies of a post as soon as it is committed.

A connection listens for all sessions of the process. Whenever it has been away, and now and then in
any case, every open session is looked at: a word that got lost delays an item and loses none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from windlass.store.base import InboxItem
from windlass.store.postgres.address import Address
from windlass.store.postgres.connection import Connection, connect, meaning
from windlass.store.postgres.queries import mail
from windlass.store.postgres.schema import CHANNEL
from windlass.store.threaded.jobs import Line

LOOK_SECONDS = 10.0  # seconds between regular checks, which also keep the connection alive
AGAIN_SECONDS = 0.5  # after the connection was lost

log = logging.getLogger("windlass.store")


class Mail:
    """A listener while sessions are open. Belongs to the store's own event loop."""

    def __init__(
        self,
        address: Address,
        patience: float,
        ready: Callable[[Connection], Awaitable[None]],
        deliver: Callable[[Line, list[InboxItem]], None],
    ) -> None:
        self._address, self._patience = address, patience
        self._ready, self._deliver = ready, deliver
        self._lines: dict[int, Line] = {}
        self._seen: dict[
            int, set[str]
        ] = {}  # ids that the writer has been given, and are there yet
        self._told: set[int] = set()
        self._opening, self._at_work = 0, False
        self._missed: set[int] = set()  # notified during an opening, perhaps of that session
        self._wake = asyncio.Event()
        self._listening = False
        self._tried = asyncio.Event()  # it listens, or has found that it cannot now
        self._waiting: list[asyncio.Future[None]] = []  # for the next look
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Start to listen before a session's mail is read, so that nothing is missed."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._listen())
        self._opening += 1
        await self._tried.wait()  # without it mail comes late: no reason to keep a session shut

    def on_opened(self, line: Line | None, items: list[InboxItem]) -> None:
        """Register an opened session with the items its writer has; None if it failed to open."""
        self._opening -= 1
        if line is not None:
            self._lines[line.sid] = line
            self._seen[line.sid] = {item.id for item in items}
            if line.sid in self._missed or not self._listening:
                self.look(line.sid)
        if not self._opening:
            self._missed.clear()

    def forget(self, line: Line) -> None:
        """Stop delivery to this session."""
        if self._lines.get(line.sid) is line:  # it may be open again already
            del self._lines[line.sid], self._seen[line.sid]

    @property
    def looking(self) -> bool:
        """Whether a session was posted to and not yet checked."""
        return self._at_work or bool(self._told)

    def look(self, sid: int) -> None:
        """Schedule a check of this session's inbox."""
        self._told.add(sid)
        self._wake.set()

    async def close(self) -> None:
        """Stop listening."""
        task = self._task
        while task is not None and not task.done():
            task.cancel()  # once is not enough: `wait_for` loses it when it is over in that moment
            await asyncio.wait([task], timeout=0.05)

    # ----------------------------------------------------------------------- the connection

    async def _listen(self) -> None:
        silent = False  # an outage is logged once
        while True:
            connection: Connection | None = None
            try:
                self._tried.clear()
                connection = await connect(self._address, self._patience, {})
                await self._ready(connection)
                connection.add_termination_listener(self._on_connection_lost)
                channel = await connection.fetchval(f"SELECT {CHANNEL}")
                await connection.add_listener(channel, self._on_notify)
                self._told.update(self._lines)
                self._listening = True
                self._tried.set()
                silent = False
                while not connection.is_closed():
                    self._at_work = True
                    await self._look(connection)
                    self._at_work = False
                    await self._next()
            except Exception as error:
                if not silent:
                    log.warning("cannot look for mail now: %s", meaning(error, self._address))
                silent = True
            finally:
                self._listening = self._at_work = False
                self._tried.set()
                _over(self._waiting)
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _next(self) -> None:
        """Wait for a post, or for the next regular check."""
        try:
            await asyncio.wait_for(self._wake.wait(), LOOK_SECONDS)
        except TimeoutError:
            self._told.update(self._lines)
        self._wake.clear()

    def _on_connection_lost(self, *_: object) -> None:
        self._wake.set()

    def _on_notify(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        if payload.isdecimal():
            self.check_session(int(payload))

    def check_session(self, sid: int) -> None:
        """Note a post to a session, which may be open here."""
        if self._opening:
            self._missed.add(sid)
        if sid in self._lines:
            self.look(sid)

    async def wait_for_delivery(self, sid: int) -> None:
        """Wait until the writer of a session here has the item that was just posted."""
        self.check_session(sid)
        if sid in self._lines and self._listening:
            looked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(looked)
            await looked

    async def _look(self, connection: Connection) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            await self._look_at_told(connection)
        finally:
            _over(waiting)

    async def _look_at_told(self, connection: Connection) -> None:
        asked = {sid: self._lines[sid].session_id for sid in self._told if sid in self._lines}
        self._told.clear()
        if not asked:
            if self._lines:
                return
            await connection.execute("SELECT 1")  # is the server there?
            return
        before = {sid: self._lines[sid] for sid in asked}
        for sid, items in (await mail(connection, asked)).items():
            line = self._lines.get(sid)
            if line is None or line is not before[sid]:
                continue
            fresh = [item for item in items if item.id not in self._seen[sid]]
            self._seen[sid] = {item.id for item in items}
            if fresh:
                self._deliver(line, fresh)


def _over(waiting: list[asyncio.Future[None]]) -> None:
    for looked in waiting:
        if not looked.done():
            looked.set_result(None)
    waiting.clear()

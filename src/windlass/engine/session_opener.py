"""The opener of a run's session: begin it in the caller's name, or go on with it where he may."""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.engine.environment import Environment
from windlass.engine.ownership import (
    BEGIN_TRIES,
    HOST,
    SessionOwner,
    check_child,
    check_new_owner,
    check_session_access,
    check_session_id,
    find_session,
    is_begun,
    owner_metadata,
    owner_of,
    place_session,
    wait_for_beginner,
    with_owner,
)
from windlass.errors import NoSuchSession, SessionHeld
from windlass.loop.lifecycle import Settlement, settlement
from windlass.store.base import Journal, Store

if TYPE_CHECKING:
    from windlass.store.threaded.store import ServedStore


class SessionOpener(msgspec.Struct, frozen=True, kw_only=True):
    """The opener of a session; `owner` is the owner of a child's session, by its parent."""

    home: Store
    environment: Environment
    caller: Caller | None
    owner: SessionOwner | None
    take_over: bool
    parent_id: str | None = None

    def begin(self, session_id: str | None) -> Awaitable[Journal]:
        """Open the caller's session of this id, or begin it in his name."""
        if session_id is not None:
            return self._begin_named(session_id)
        if self._is_host:
            return self._open(seams.new_id("session"))
        if self.owner is None:
            check_new_owner(self.environment, self.caller)
        return self._open(seams.new_id("session"), metadata=self._metadata())

    async def _begin_named(self, session_id: str) -> Journal:
        await check_session_id(self.environment, self.home, session_id)
        if self._is_host:
            return await self._taken_over(session_id, metadata=None)
        if self.owner is not None:
            await check_child(self.home, session_id, self.owner)
            return await self._taken_over(session_id, metadata=self._metadata())
        return await self._begin_own(session_id)

    async def go_on(self, session_id: str) -> Journal:
        """Open a session that is there and that the caller may resume."""
        if self.owner is None:
            session_id = await find_session(
                self.home, session_id, self.caller, self.environment, "resume"
            )
        else:
            await check_child(self.home, session_id, self.owner)
        return await self._taken_over(session_id, create=False)

    async def _begin_own(self, session_id: str) -> Journal:
        home, caller, environment = self.home, self.caller, self.environment
        key = await place_session(home, session_id, caller, environment)
        for attempt in count():
            journal: Journal | None = None
            try:
                journal = await self._open(key, metadata=self._metadata())
                owner = owner_of(journal.entries)
                check_session_access(owner, caller, session_id, environment, "run")
                return journal
            except (SessionHeld, NoSuchSession) as error:
                # Another tenant may have begun it meanwhile: then it has another id.
                if journal is not None:
                    await journal.close()
                known, begun = key, await is_begun(home, key)  # before its owner is checked
                key = await place_session(home, session_id, caller, environment)
                if key != known:
                    continue
                if begun and isinstance(error, SessionHeld) and self.take_over:
                    return await self._open(key, take_over=True)
                if begun or attempt == BEGIN_TRIES:
                    raise
                await wait_for_beginner(attempt)
        raise AssertionError("unreachable")

    async def _taken_over(self, session_id: str, **how: Any) -> Journal:
        """Become the session's writer; with `take_over` also where another one is alive."""
        try:
            return await self._open(session_id, **how)
        except SessionHeld:
            if not self.take_over:
                raise
        return await self._open(session_id, **how, take_over=True)

    def _open(self, session_id: str, **how: Any) -> Awaitable[Journal]:
        name = None if self.caller is None else self.environment.redact(str(self.caller))
        found = settlement.get()
        if found is None or found.claim is None or found.session != session_id:
            return self.home.open(session_id, parent_id=self.parent_id, caller=name, **how)
        return self._open_claimed(found, session_id, caller=name, **how)

    async def _open_claimed(self, found: Settlement, session_id: str, **how: Any) -> Journal:
        """Open the session together with what is on record about its drive."""
        store = cast("ServedStore", self.home)  # only for such a store there is a claim
        journal = await store.open(session_id, parent_id=self.parent_id, claim=found.claim, **how)
        found.claim = None
        return journal

    @property
    def _is_host(self) -> bool:
        """Whether the session is the host's own: of that no owner is on record."""
        return is_host(self.caller) and self.owner in (None, HOST)

    def _metadata(self) -> dict[str, Any] | None:
        if self._is_host:
            return None
        return owner_metadata(self.caller) if self.owner is None else with_owner(self.owner)

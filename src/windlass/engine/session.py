"""Open a session for a run, or find one for a caller: access is checked before anything else."""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.engine.environment import Environment, current_environment
from windlass.engine.ownership import (
    BEGIN_TRIES,
    HOST,
    SessionAction,
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
from windlass.store.base import Journal, Store


class SessionScope(NamedTuple):
    """Where a caller works on sessions: the environment, the store, and in whose name."""

    environment: Environment
    home: Store
    caller: Caller | None

    @classmethod
    def current(cls, store: Store | None, caller: Caller | None) -> SessionScope:
        """Return the scope in the current environment, on the store given or that environment's."""
        environment = current_environment()
        return cls(environment, environment.store if store is None else store, caller)

    async def find(self, session_id: str, action: SessionAction) -> str:
        """Return the store's id of a session that the caller may use so."""
        return await find_session(self.home, session_id, self.caller, self.environment, action)


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The opener of a session; `owner` is the owner of a child's session, by its parent."""

    home: Store
    environment: Environment
    caller: Caller | None
    owner: SessionOwner | None
    take_over: bool
    parent_id: str | None = None

    async def begin(self, session_id: str | None) -> Journal:
        """Open the caller's session of this id, or begin it in his name."""
        if session_id is not None:
            await check_session_id(self.environment, self.home, session_id)
        if session_id is None:
            if self.owner is None and not self._is_host:
                check_new_owner(self.environment, self.caller)
            return await self._open(seams.new_id("session"), metadata=self._metadata())
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

    async def _open(self, session_id: str, **how: Any) -> Journal:
        name = None if self.caller is None else self.environment.redact(str(self.caller))
        return await self.home.open(session_id, parent_id=self.parent_id, caller=name, **how)

    @property
    def _is_host(self) -> bool:
        """Whether the session is the host's own: of that no owner is on record."""
        return is_host(self.caller) and self.owner in (None, HOST)

    def _metadata(self) -> dict[str, Any] | None:
        if self._is_host:
            return None
        return owner_metadata(self.caller) if self.owner is None else with_owner(self.owner)

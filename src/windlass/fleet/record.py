"""Runs as the store has them: their result for a handle, and ends that no run wrote."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from windlass import seams
from windlass.access.caller import Caller
from windlass.agents.agent import Agent
from windlass.engine.environment import Environment
from windlass.engine.open_questions import Discarder, keep_parked
from windlass.engine.ownership import owner_of
from windlass.engine.results import AgentResult
from windlass.errors import StaleWriter, StoreError
from windlass.events import JournalEntry, RunEnded, RunStarted
from windlass.json_types import JsonObject
from windlass.loop.resume import standing
from windlass.loop.spend import read_children
from windlass.store.base import InboxItem, Store
from windlass.store.trigger_rows import disarm_conditions, is_watched
from windlass.store.wishes import Transaction, clear_wish, end_request

log = logging.getLogger("windlass.fleet")


class RecordedJournal:
    """The journal of a session for a reader: it has the entries, and takes none."""

    immediate = True
    stays_held = False
    lost_seconds = 0.0

    def __init__(self, session_id: str, entries: list[JournalEntry]) -> None:
        self.session_id, self.entries = session_id, entries
        self.mail: list[InboxItem] = []
        self.on_mail: Callable[[], None] | None = None

    def append(self, _entry: JournalEntry, /) -> None:
        """Refuse: a reader writes nothing."""
        self._refuse()

    def flush(self) -> None:
        """Do nothing: there is nothing to write."""

    async def durable(self) -> None:
        """Return at once: what was read is stored."""

    async def commit(self, body: object, record: object) -> NoReturn:
        """Refuse: a reader writes nothing."""
        self._refuse()

    def take(self, item: InboxItem) -> None:
        """Refuse: mail is for the writer."""
        self._refuse()

    async def close(self) -> None:
        """Do nothing: nobody is kept out."""

    def _refuse(self) -> NoReturn:
        raise StaleWriter(f"session {self.session_id!r} is only read here")


def cut_run(entries: Sequence[JournalEntry], request_id: str | None) -> list[JournalEntry] | None:
    """Return the journal up to the end of the run of a request, or of the last run.

    None if that run has not begun. Without an end, it is all there is.
    """
    begun: int | None = None
    for index, entry in enumerate(entries):
        if type(entry) is RunStarted:
            if begun is not None and request_id is not None:
                return list(entries[:index])
            if request_id is None or entry.request_id == request_id:
                begun = index
    return None if begun is None else list(entries)


def find_end(entries: Sequence[JournalEntry] | None) -> RunEnded | None:
    """Return how the last run of these entries ended; None while it is under way or parked."""
    for entry in reversed(entries or ()):
        if type(entry) is RunEnded:
            return None if entry.status == "suspended" else entry
        if type(entry) is RunStarted:
            return None
    return None


async def read_result(
    environment: Environment,
    store: Store,
    agent: Agent[Any, Any] | None,
    entries: list[JournalEntry],
) -> AgentResult[Any]:
    """Return the result of the last run of these entries, as `Agent.run` would have.

    Without the agent, `output` is the text: what it would make of it is not on record.
    """
    opened = entries[0]
    session_id = str(getattr(opened, "session_id", ""))
    reader = Agent("mock:recorded") if agent is None else agent
    with environment.as_current():
        asked = reader.arguments_for(None, {"store": store})
        request = asked.to_request(reader.plan_in(environment), ())
        run = request.build_run(store, RecordedJournal(session_id, entries))
    state = standing(entries)
    await read_children(store, session_id, state.spending)
    return AgentResult(run, keep_parked(run, state))


async def end_without_run(
    store: Store,
    session_id: str,
    *,
    number: int | None,
    request_id: str | None,
    caller: Caller | None,
    ending: tuple[str, str, JsonObject | None],
) -> None:
    """Put on record that a run ended which nobody drives: as cancelled, or as poison.

    In one transaction the request is removed, and the wish cleared if it is still this one. Raises
    `SessionHeld` while somebody drives it.
    """
    journal = await store.open(session_id, create=False)
    try:
        state = standing(journal.entries)
        await _discard_below(store, session_id, journal.entries)
        entries: list[JournalEntry] = []
        if state.unfinished and state.run is not None:
            run_id = state.run.run_id
        else:
            run_id, who = seams.new_id("run"), caller or Caller.local()
            entries.append(
                RunStarted(run_id, "agent", str(who), "", "", None, None, who.tenant, request_id)
            )
        entries.append(RunEnded(run_id, *ending))

        def settle(tx: Transaction) -> None:
            wish = None if request_id is None else end_request(tx, session_id, request_id)
            if number is not None and (wish is None or not wish.requests):
                clear_wish(tx, session_id, number)
            if state.suspended is not None and is_watched(state.suspended.conditions):
                disarm_conditions(tx, session_id)

        await journal.commit(settle, lambda _: entries)
    finally:
        await journal.close()


async def _discard_below(store: Store, session_id: str, entries: Sequence[JournalEntry]) -> None:
    """End the sub-agents and steps that the run waits for."""
    try:
        discarder = Discarder(store, None, owner_of(entries))
        await discarder.discard_tree_below(session_id, entries)
    except StoreError as error:
        log.warning("what children of %s wait for is not discarded: %s", session_id, error)

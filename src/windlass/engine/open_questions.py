"""Questions of runs that nobody goes on with: they stand while a run is parked, else they are discarded.

A run may wait for a child that waits itself. What is discarded is discarded in the whole tree, from
the leaves up, so that a process which dies in between leaves no question of a run that has gone on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from windlass.access.caller import Caller, is_host
from windlass.engine.ownership import SessionOwner, owner_of
from windlass.errors import AlreadyAnswered, NoSuchSession, StoreError
from windlass.events import (
    JournalEntry,
    RunEnded,
    ToolDecided,
    ToolIntended,
    ToolMessage,
    ToolResulted,
)
from windlass.identifiers import CallIndex
from windlass.loop.calls import build_unfinished_result, close_recorded
from windlass.loop.resume import Standing, continue_session, restore_children, standing
from windlass.loop.run import Run
from windlass.loop.spend import lost_call_entry
from windlass.loop.verdict import Outcome
from windlass.redaction.redactor import Redactor
from windlass.store.answers import DISCARD_RULE, DISCARDED, HOST
from windlass.store.base import Journal, Store
from windlass.store.trigger_rows import disarm_conditions, is_watched

T = TypeVar("T")

#: What a new prompt does to a parked run: nothing is asked and it stays parked, or it goes on without.
OnPending: TypeAlias = Literal["keep", "discard"]
ON_PENDING: Final = ("keep", "discard")
_UNFINISHED: Final = ("interrupted", "not_run")  # outcomes of calls that did not come to their end

log = logging.getLogger("windlass")


def keep_parked(run: Run, state: Standing) -> Outcome:
    """Show the parked run as it stands; nothing is recorded."""
    assert state.run is not None and state.ended is not None
    continue_session(run, state)
    run.run_id, run.turn = state.run.run_id, state.turn
    run.host.request_id, run.host.conversation_id = state.run.request_id, state.run.conversation_id
    run.first_entry, run.iteration, run.number = state.first_entry, state.iteration, state.number
    run.host.elapsed = state.at_work(run.plan.concurrency)
    restore_children(run, state.spending)
    return Outcome(state.ended.status, state.ended.stop_reason, state.ended.error)


class Discarder(NamedTuple):
    """Who discards the questions of a tree of sessions, and whose they must be."""

    store: Store
    caller: Caller | None
    owner: SessionOwner  # of the sessions
    redactor: Redactor | None = None
    take_over: bool = False  # replace live writers

    @classmethod
    def of(cls, run: Run) -> Discarder:
        """Return the one that a run is for the children of its session."""
        owner = owner_of(run.journal.entries)
        return cls(run.store, run.caller, owner, run.redactor, run.host.took_over)

    @property
    def name(self) -> str:
        """Who it is, for the record."""
        return HOST if is_host(self.caller) else self.clean(str(self.caller))

    def clean(self, value: T) -> T:
        """Return the value without known secrets."""
        return value if self.redactor is None else self.redactor.value(value)

    async def discard_children(self, session_id: str, state: Standing) -> None:
        """End the children of a session's last run that are parked or were killed."""
        if not state.spending.intended:
            return
        calls = CallIndex(session_id, state.spending.intended)
        for child_id in (await self.store.info(session_id)).child_ids:
            if calls.find(child_id) is not None:
                await self.discard_session(child_id)

    async def discard_tree_below(self, session_id: str, entries: Sequence[JournalEntry]) -> None:
        """End the children of a session whose last run is parked or was killed."""
        state = standing(entries)
        if state.unfinished:
            await self.discard_children(session_id, state)

    async def discard_session(self, session_id: str, *, killed: bool = True) -> None:
        """End a child's run on its record, and first those under it; it is parked, or was killed."""
        try:
            state = standing(await self.store.read(session_id))
        except NoSuchSession:
            return  # deleted meanwhile
        if not (state.unfinished if killed else state.parked):
            return
        await self.discard_children(session_id, state)
        caller = None if self.caller is None else self.clean(str(self.caller))
        journal = await self.store.open(
            session_id, create=False, take_over=self.take_over, caller=caller
        )
        try:
            state = standing(journal.entries)
            if state.unfinished and owner_of(journal.entries) == self.owner:
                entries = list(_build_discard(journal.entries, state, self.name))
                await write_without_conditions(journal, state, [self.clean(one) for one in entries])
                if state.has_lost_calls:
                    await self.store.release_calls(session_id)
        finally:
            await journal.close()


async def write_without_conditions(
    journal: Journal, state: Standing, entries: Sequence[JournalEntry]
) -> None:
    """Write entries that end what a session waits for, and forget its conditions with them."""
    parked = state.suspended
    if parked is not None and is_watched(parked.conditions):
        try:
            session_id = journal.session_id
            await journal.commit(lambda tx: disarm_conditions(tx, session_id), lambda _: entries)
            return
        except StoreError:
            raise
        except Exception:  # a store of somebody else, without our tables
            log.exception("the conditions of session %s stay", journal.session_id)
    for entry in entries:
        journal.append(entry)
    journal.flush()
    await journal.durable()


async def discard_pending(run: Run, state: Standing) -> None:
    """Answer what a parked run and the runs under it wait for: their calls are not run."""
    discarder = Discarder.of(run)
    await discarder.discard_children(run.session_id, state)
    for question in state.asked.values():
        run.record(_build_refusal(question, discarder.name))
    close_recorded(run, DISCARDED)


async def discard_of_killed(run: Run, state: Standing) -> None:
    """Discard what the children of a killed run wait for, whose session goes on with another."""
    try:
        await Discarder.of(run).discard_children(run.session_id, state)
    except StoreError as error:
        log.warning("what children of %s wait for is not discarded: %s", run.session_id, error)


async def discard_orphans(run: Run) -> None:
    """Discard what parked children wait for whose parent has ended without them."""
    ended = {e.call_id: e.outcome for e in run.own_entries if type(e) is ToolResulted}
    intended = {e.call_id for e in run.own_entries if type(e) is ToolIntended}
    calls = CallIndex(run.session_id, intended)
    for child_id in run.calls.children:
        call_id = calls.find(child_id)
        if call_id is not None and ended.get(call_id, "not_run") in _UNFINISHED:
            try:
                await Discarder.of(run).discard_session(child_id, killed=False)
            except StoreError as error:
                log.warning("what session %s waits for is not discarded: %s", child_id, error)


async def has_waiting_parent(store: Store, session_id: str, parent_id: str | None) -> bool:
    """Return whether the run that a sub-agent's session works for still waits for it.

    Otherwise a process died before it discarded what the sub-agent waits for. A fork, and a session
    whose parent is deleted, work for nobody and wait for themselves.
    """
    while parent_id is not None and session_id.startswith(f"{parent_id}."):
        try:
            entries = await store.read(parent_id)
            info = await store.info(parent_id)
        except NoSuchSession:
            return True
        state = standing(entries)
        if not state.unfinished or state.reset:
            return False
        if CallIndex(parent_id, state.open_call_ids).find(session_id) is None:
            return False
        session_id, parent_id = parent_id, info.parent_id
    return True


async def find_waiting_root(store: Store, session_id: str) -> str:
    """Return the session on top of those that wait for this one: a workflow, the agent of a sub-agent.

    Whoever goes on with a node or a sub-agent goes on with that one, which is the session itself where
    nobody waits.
    """
    while True:
        parent_id = (await store.info(session_id)).parent_id
        if parent_id is None or not session_id.startswith(f"{parent_id}."):
            return session_id  # of nobody, or a fork
        try:
            state = standing(await store.read(parent_id))
        except NoSuchSession:
            return session_id
        if not state.unfinished or state.reset:
            return session_id
        if CallIndex(parent_id, state.open_call_ids).find(session_id) is None:
            return session_id
        session_id = parent_id


def _build_discard(
    entries: Sequence[JournalEntry], state: Standing, by: str
) -> Iterable[JournalEntry]:
    """Build what ends a parked run: its questions, its open calls and its end."""
    assert state.run is not None
    for reserved in state.spending.in_flight:
        yield lost_call_entry(reserved)
    for question in state.asked.values():
        yield _build_refusal(question, by)
    if state.view.open:
        started = {
            e.call_id for e in entries if type(e) is ToolIntended and e.effect != "read_only"
        }
        calls = {call.id: call for call in state.view.messages[-1].tool_calls}
        for call in calls.values():
            if call.id not in state.view.results:
                result = build_unfinished_result(call, DISCARDED, effects=call.id in started)
                yield ToolResulted(call.id, call.name, result.outcome, result)
        yield ToolMessage(tuple(calls))
    yield RunEnded(state.run.run_id, "cancelled", DISCARDED)


def _build_refusal(question: ToolDecided, by: str) -> ToolDecided:
    """Build the decision that a question is not to be answered any more."""
    return ToolDecided(
        question.call_id,
        question.tool,
        "deny",
        DISCARD_RULE,
        question.caller,
        question.digest,
        DISCARDED,
        question.arguments,
        question.ask,
        None,
        question.receipt,
        question.asks,
        by,
    )


def check_not_discarded(entries: Sequence[JournalEntry], decisions: Mapping[str, object]) -> None:
    """Refuse answers to questions that were discarded, also where the session has gone on since."""
    for entry in entries:
        if type(entry) is ToolDecided and entry.rule == DISCARD_RULE:
            if entry.call_id in decisions or entry.ask in decisions:
                raise AlreadyAnswered(entry.call_id, DISCARDED, entry.answered_by or HOST)

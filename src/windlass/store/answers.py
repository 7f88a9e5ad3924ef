"""Checks of what is posted: the first answer to a question counts, and a queue may be full.

Every store looks here in the transaction that stores an answer or an event. The journal is the record: an answer
is in the inbox until a run takes it, and in the journal from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from windlass.errors import AlreadyAnswered
from windlass.events import InboxTaken, JournalEntry, Replied, ToolDecided
from windlass.json_types import JsonObject, is_object
from windlass.store.base import InboxItem, InboxKind
from windlass.store.daemon_events import EVENT, EventCheck

CHECKED: frozenset[InboxKind] = frozenset({"decision", "event"})  # kinds that have a check
HOST = "the host"  # the name of who answered, where none is given
DISCARDED = "discarded"  # the state of a question that can no longer be answered
DISCARD_RULE = "on_pending=discard"  # of the decision that says so


class AnswerCheck:
    """Compare new answers with those on record, from the newest entry backwards.

    An answer that names its question (`ask`) is one to that question alone; one that names only the
    call is an answer to whatever was last asked about it.
    """

    def __init__(self, payload: Mapping[str, Any], inbox: Iterable[InboxItem]) -> None:
        self._open = {call_id: _ask_of(answer) for call_id, answer in payload.items()}
        for item in inbox:
            if item.kind == "decision":
                self._compare(item.fields)

    def read(self, entries: Sequence[JournalEntry]) -> bool:
        """Look at these entries, the last first; True once nothing before them can matter."""
        for entry in reversed(entries):
            match entry:
                case InboxTaken(item="decision", payload=dict()):
                    self._compare(cast("JsonObject", entry.payload))
                case ToolDecided(call_id=call_id, action="deny") if entry.rule == DISCARD_RULE:
                    if call_id in self._open and self._open[call_id] in (None, entry.ask):
                        raise AlreadyAnswered(call_id, DISCARDED, entry.answered_by or HOST)
                case ToolDecided(call_id=call_id, action="ask") if call_id in self._open:
                    if self._open[call_id] in (None, entry.ask):
                        del self._open[call_id]
                case Replied(purpose=None):
                    self._open.clear()  # the calls are this reply's: no question is older
                case _:
                    pass
            if not self._open:
                return True
        return False

    def finish(self) -> None:
        """Do nothing: a question that nobody asked is refused elsewhere."""

    def _compare(self, given: Mapping[str, Any]) -> None:
        for call_id, answer in given.items():
            if call_id not in self._open:
                continue
            wanted, ask = self._open[call_id], _ask_of(answer)
            if wanted is None or ask is None or wanted == ask:
                raise AlreadyAnswered(call_id, _action_of(answer), _by_of(answer))


def check_for(
    kind: InboxKind, payload: object, inbox: Iterable[InboxItem] | None = None
) -> AnswerCheck | EventCheck | None:
    """Build the check that a post of this kind needs; None for most kinds."""
    if kind == EVENT:
        return EventCheck(payload if is_object(payload) else {}, inbox or ())
    if kind != "decision" or not is_object(payload) or not payload:
        return None
    return AnswerCheck(payload, inbox or ())


def _ask_of(answer: object) -> str | None:
    fields = _fields(answer)
    ask = fields.get("ask")
    return ask if isinstance(ask, str) else None


def _action_of(answer: object) -> str:
    allowed = _fields(answer).get("action") == "allow" or answer is True or answer == "allow"
    return "allow" if allowed else "deny"


def _by_of(answer: object) -> str:
    by = _fields(answer).get("by")
    return by if isinstance(by, str) and by else HOST


def _fields(answer: object) -> JsonObject:
    return answer if is_object(answer) else {}

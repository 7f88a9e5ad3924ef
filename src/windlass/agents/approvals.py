"""Calls that wait for a yes or a no, in all sessions of a store, and how somebody answers them.

An answer is left in the session's inbox. It may come tomorrow, from another process; whoever goes on
with the session finds it there, and it counts only for the call exactly as it was asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass import seams
from windlass.agents.runtime import current_store
from windlass.errors import ConfigError, WindlassError, nearest, shown
from windlass.events import (
    InboxTaken,
    IterationStart,
    JournalEntry,
    RunEnded,
    RunStarted,
    ToolDecided,
    ToolResulted,
)
from windlass.loop.answers import decision_of
from windlass.store.base import InboxItem, Store


class PendingApproval(msgspec.Struct, frozen=True):
    """A call that waits: who wants it, what it would do, which rule asks, and until when."""

    id: str  # what an answer is bound to
    session_id: str
    call_id: str
    tool: str
    arguments: dict[str, Any]
    caller: str
    tenant: str | None
    agent: str | None
    rule: str
    reason: str | None = None
    receipt: dict[str, Any] | None = None
    expires_at: float | None = None
    answered: str | None = None  # allow or deny, while nobody has gone on with the session yet

    @property
    def expired(self) -> bool:
        """No answer counts any more."""
        return self.expires_at is not None and seams.now() > self.expires_at


class NoSuchApproval(WindlassError, KeyError):
    """Nothing waits for an answer under this id."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "nothing waits under this id"


async def approvals(
    store: Store | None = None, session_id: str | None = None
) -> list[PendingApproval]:
    """The calls that wait for an answer: `for each in await w.approvals(): print(each.tool)`."""
    home = store or current_store()
    if session_id is not None:
        ids = [session_id]
    else:
        ids = [info.id for info in await home.sessions() if info.status == "suspended"]
    found: list[PendingApproval] = []
    for one in ids:
        found += _waiting(one, await home.read(one), await home.inbox(one))
    return found


async def approve(*ids: str, by: str = "approved", store: Store | None = None) -> None:
    """Say yes to one call or several: `await w.approve(pending.id, by="ann")`."""
    await _answer(ids, {"action": "allow", "by": by}, store)


async def deny(
    *ids: str, reason: str | None = None, by: str = "denied", store: Store | None = None
) -> None:
    """Say no; the model is told why: `await w.deny(pending.id, reason="too much")`."""
    await _answer(ids, {"action": "deny", "reason": reason, "by": by}, store)


async def _answer(ids: Sequence[str], words: Mapping[str, Any], store: Store | None) -> None:
    """Look at all of them before any is answered: a batch is answered wholly or not at all."""
    home = store or current_store()
    waiting = await approvals(home)
    chosen = [meant(one, waiting) for one in dict.fromkeys(ids)]
    for one in chosen:
        if one.answered is not None:
            raise ConfigError(f"{one.tool} ({one.id[:12]}) was answered already: {one.answered}")
        if one.expired and words["action"] == "allow":
            raise ConfigError(f"{one.tool} ({one.id[:12]}) can no longer be approved: it expired")
    for one in chosen:
        said = {**words, "ask": one.id}
        await home.post(one.session_id, "decision", {one.call_id: said})


def meant(wanted: str, waiting: Sequence[PendingApproval]) -> PendingApproval:
    """The one whose id begins so, or whose call has this id."""
    if not isinstance(wanted, str) or not wanted:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"an approval is named by its id, not {shown(wanted)}")
    found = [one for one in waiting if one.id.startswith(wanted) or one.call_id == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(one.id[:12] for one in found[:4])
        raise NoSuchApproval(f"{len(found)} calls are meant by {wanted!r}: {names}; write more")
    hint = nearest(wanted, [one.id for one in waiting])
    raise NoSuchApproval(f"nothing waits for an answer under {wanted!r}{hint}")


def _waiting(
    session_id: str, entries: Sequence[JournalEntry], inbox: Sequence[InboxItem]
) -> list[PendingApproval]:
    run: RunStarted | None = None
    asks: dict[str, ToolDecided] = {}
    answers: dict[str, str] = {}
    for entry in entries:
        match entry:
            case RunStarted():
                run, asks = entry, {}
            case IterationStart():
                asks = {}
            case RunEnded() if entry.status != "suspended":
                asks = {}
            case ToolDecided(call_id=call_id, action="ask") if entry.ask is not None:
                asks[call_id] = entry
                answers.pop(call_id, None)
            case ToolDecided(call_id=call_id) | ToolResulted(call_id=call_id):
                asks.pop(call_id, None)
            case InboxTaken(item="decision", payload=dict()):
                answers |= _answers(entry.payload)
            case _:
                pass
    for item in inbox:
        if item.kind == "decision":
            answers |= _answers(item.fields)
    return [
        PendingApproval(
            ask.ask or "",
            session_id,
            ask.call_id,
            ask.tool,
            ask.arguments or {},
            ask.caller,
            run.tenant if run is not None else None,
            run.name if run is not None else None,
            ask.rule,
            ask.reason,
            ask.receipt,
            ask.expires_at,
            answers.get(ask.call_id),
        )
        for ask in asks.values()
    ]


def _answers(payload: Mapping[str, Any]) -> dict[str, str]:
    said = {call_id: decision_of(value) for call_id, value in payload.items()}
    return {call_id: "allow" if one.allowed else "deny" for call_id, one in said.items()}

"""Calls that wait for approval, in all sessions of a store, and answers to them.

An answer is stored in the session's inbox, so it may come later and from another process. It counts
only for the call exactly as it was asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.detach import detach
from windlass.engine.open_questions import has_waiting_parent
from windlass.engine.ownership import SessionScope, readable_sessions
from windlass.errors import AlreadyAnswered, ConfigError, WindlassError, nearest, safe_repr
from windlass.events import (
    InboxTaken,
    IterationStart,
    JournalEntry,
    RunEnded,
    RunStarted,
    SessionReset,
    ToolDecided,
    ToolResulted,
)
from windlass.events.receipts import details_of
from windlass.json_types import JsonObject, is_object
from windlass.loop.form_answer import check_form_answer
from windlass.loop.resume_input import (
    Answers,
    AnswerScope,
    Decision,
    answer_as_data,
    check_by,
    check_content,
    check_scope,
    check_session_answer,
    decision_of,
    keep_answer,
)
from windlass.store.answers import HOST
from windlass.store.base import InboxItem
from windlass.store.open import Address


class PendingApproval(msgspec.Struct, frozen=True):
    """A call that waits for approval: caller, effect, the rule that asks, the deadline."""

    id: str  # what an answer is bound to
    session_id: str
    call_id: str
    tool: str
    arguments: JsonObject
    caller: str
    tenant: str | None
    agent: str | None
    rule: str
    reason: str | None = None
    receipt: JsonObject | None = None
    expires_at: float | None = None
    answered: str | None = None  # allow or deny, while the session is not resumed yet
    answered_by: str | None = None  # who answered
    diff: str | None = None  # what a call that writes a file would change, as a unified diff

    @property
    def expired(self) -> bool:
        """Whether the deadline for an answer has passed."""
        return self.expires_at is not None and seams.now() > self.expires_at

    @property
    def details(self) -> tuple[str, ...]:
        """Lines that explain a question of flow control: each value, and where it comes from."""
        return details_of(self.receipt)


class NoSuchApproval(WindlassError, KeyError):
    """No call waits for an answer with this id."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "nothing waits under this id"


async def approvals(
    store: Address | None = None,
    session_id: str | None = None,
    *,
    caller: Caller | None = None,
) -> list[PendingApproval]:
    """List the calls that wait for approval: `for each in await w.approvals(): …`.

    With `caller`, only those that they may answer: of sessions that they began, or by a role.
    """
    scope = SessionScope.current(store, caller)
    home = scope.home
    if session_id is not None:
        ids = [await scope.find(session_id, "answer")]
    else:
        known = await readable_sessions(home, caller, scope.environment, "answer")
        ids = [info.id for info in known if info.status == "suspended"]
    found: list[PendingApproval] = []
    for one in ids:
        asked = _waiting(one, await home.read(one), await home.inbox(one))
        if asked and await has_waiting_parent(home, one, (await home.info(one)).parent_id):
            found += asked
    return found


async def approve(
    *ids: str,
    by: Caller | None = None,
    reason: str | None = None,
    scope: AnswerScope = "once",
    content: Mapping[str, Any] | None = None,
    store: Address | None = None,
) -> None:
    """Approve one call or several: `await w.approve(pending.id, by=w.Caller("bea"))`.

    `by` is who answers; None: the host. `reason` is recorded. `scope="session"` also approves later
    calls on the same targets, for questions of flow control. Raises `AlreadyAnswered` if somebody
    answered before, and `NoSuchApproval` for an unknown id. `content` is what an MCP
    server asks for.
    """
    await answer(ids, True, by=by, reason=reason, scope=scope, content=content, store=store)


async def deny(
    *ids: str,
    reason: str | None = None,
    by: Caller | None = None,
    scope: AnswerScope = "once",
    store: Address | None = None,
) -> None:
    """Deny calls; the model reads the reason: `await w.deny(pending.id, reason="too much")`.

    With `scope="session"` later calls on the same targets are refused without a question.
    """
    await answer(ids, False, by=by, reason=reason, scope=scope, store=store)


async def answer(
    ids: Sequence[str],
    allowed: bool,
    *,
    by: Caller | None = None,
    name: str | None = None,
    reason: str | None = None,
    scope: AnswerScope = "once",
    content: Mapping[str, Any] | None = None,
    store: Address | None = None,
) -> None:
    """Answer questions; `name` is recorded where the host answers for somebody.

    All are looked at before any is answered, and those of one session are answered wholly or not at all.
    """
    by, scope, filled = check_by(by), check_scope(scope), check_content(content)
    environment, home, _ = SessionScope.current(store, by)
    waiting = await approvals(home, caller=by)
    chosen = [find_approval(one, waiting) for one in dict.fromkeys(ids)]
    for one in chosen:
        if one.answered is not None:
            raise _already_answered(one, one.answered, one.answered_by or HOST)
        if one.expired and allowed:
            raise ConfigError(f"{one.tool} ({one.id[:12]}) can no longer be approved: it expired")
        check_session_answer(scope, one.tool, one.rule, one.receipt)
        if allowed:
            check_form_answer(one.tool, one.receipt, filled)
    who = name if is_host(by) else str(by)
    for session_id in dict.fromkeys([one.session_id for one in chosen]):
        asked = {one.call_id: one for one in chosen if one.session_id == session_id}
        payload = {
            call: answer_as_data(allowed, who, one.id, reason, scope, filled)
            for call, one in asked.items()
        }
        try:
            await home.post(session_id, "decision", environment.redact(payload))
        except AlreadyAnswered as error:
            raise _already_answered(asked[error.call_id], error.action, error.by) from None


def _already_answered(one: PendingApproval, action: str, by: str) -> AlreadyAnswered:
    return AlreadyAnswered(one.call_id, action, by, f"{one.tool} ({one.id[:12]})")


def find_approval(wanted: str, waiting: Sequence[PendingApproval]) -> PendingApproval:
    """Find the approval by the beginning of its id, or by its call's id."""
    if not isinstance(wanted, str) or not wanted:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"an approval is named by its id, not {safe_repr(wanted)}")
    found = [one for one in waiting if one.id.startswith(wanted) or one.call_id == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(one.id[:12] for one in found[:4])
        raise NoSuchApproval(f"{len(found)} calls are meant by {wanted!r}: {names}; write more")
    hint = nearest(wanted, [one.id for one in waiting])
    raise NoSuchApproval(
        f"nothing waits for an answer under {wanted!r}{hint}; it was answered, discarded, or never asked (approvals lists what waits)"
    )


def _waiting(
    session_id: str, entries: Sequence[JournalEntry], inbox: Sequence[InboxItem]
) -> list[PendingApproval]:
    run: RunStarted | None = None
    asks: dict[str, ToolDecided] = {}
    answers: Answers = {}
    for entry in entries:
        match entry:
            case RunStarted():
                run, asks = entry, {}
            case IterationStart() | SessionReset():
                asks = {}
            case RunEnded() if entry.status != "suspended":
                asks = {}
            case ToolDecided(call_id=call_id, action="ask") if entry.ask is not None:
                asks[call_id] = entry
            case ToolDecided(call_id=call_id) | ToolResulted(call_id=call_id):
                asks.pop(call_id, None)
            case InboxTaken(item="decision", payload=payload) if is_object(payload):
                _keep(answers, payload, asks)
            case _:
                pass
    for item in inbox:
        if item.kind == "decision":
            _keep(answers, item.fields, asks)
    return [
        PendingApproval(
            ask.ask or "",
            session_id,
            ask.call_id,
            ask.tool,
            detach(ask.arguments or {}),
            ask.caller,
            run.tenant if run is not None else None,
            run.name if run is not None else None,
            ask.rule,
            ask.reason,
            detach(ask.receipt),
            ask.expires_at,
            *_describe_decision(answers.get(ask.call_id, {}).get(ask.ask or "")),
            diff=ask.diff,
        )
        for ask in asks.values()
    ]


def _keep(answers: Answers, payload: Mapping[str, Any], asks: Mapping[str, ToolDecided]) -> None:
    """Store answers under their questions."""
    for call_id, value in payload.items():
        asked = asks.get(call_id)
        keep_answer(answers, call_id, decision_of(value), None if asked is None else asked.ask)


def _describe_decision(answer: Decision | None) -> tuple[str | None, str | None]:
    if answer is None:
        return None, None
    return ("allow" if answer.allowed else "deny"), answer.person or HOST

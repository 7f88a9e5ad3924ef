"""The input of `resume`: answers to a parked run, and results of calls the host ran.

An answer goes the same way as one from elsewhere: it is posted, and the first that is stored is the
answer. Then the run takes what is in its inbox.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from windlass.access.caller import Caller, is_host
from windlass.errors import AlreadyAnswered, ConfigError, safe_repr
from windlass.events import InboxTaken, ToolDecided
from windlass.json_types import is_mapping
from windlass.loop.resume_input import (
    Allow,
    Deny,
    answer_as_data,
    check_session_answer,
    decision_of,
    keep_answer,
    result_of,
)
from windlass.loop.run import Run
from windlass.store.answers import HOST

Given: TypeAlias = Mapping[str, Allow | Deny | bool]


def check_answers(decisions: object, results: object) -> None:
    """Refuse answers of a wrong kind before anything of the run is touched."""
    for name, given in (("decisions", decisions), ("results", results)):
        if given is None:
            continue
        if not is_mapping(given):
            raise ConfigError(f"{name} is a dict by call id, not {safe_repr(given)}")
        for call_id in given:
            if not isinstance(call_id, str):
                raise ConfigError(f"{name} is a dict by call id, and {safe_repr(call_id)} is none")
    for answer in decisions.values() if is_mapping(decisions) else ():
        if not isinstance(answer, (Allow, Deny, bool)):
            raise ConfigError(f"a decision is Allow(), Deny(…) or a bool, not {safe_repr(answer)}")


def answerers(decisions: Given, caller: Caller | None) -> set[Caller | None]:
    """Return who answers: those named by decisions, else who resumes."""
    return {(None if isinstance(one, bool) else one.by) or caller for one in decisions.values()}


async def post_decisions(run: Run, decisions: Given, caller: Caller | None) -> None:
    """Post answers to the run's own inbox; raise `AlreadyAnswered` for a second one.

    The same answer from the same person counts once: a program that was killed repeats it.
    """
    payload: dict[str, Any] = {}
    for given, one in decisions.items():
        decision = decision_of(one)
        if decision.allowed and _runs_anyway(run, given):
            continue
        question = _find_question(run, given, decision.ask, decision.allowed)
        if question is None:
            continue
        check_session_answer(decision.scope, question.tool, question.rule, question.receipt)
        by = (one.by if isinstance(one, (Allow, Deny)) else None) or caller
        payload[question.call_id] = answer_as_data(
            decision.allowed,
            None if is_host(by) else str(by),
            question.ask,
            decision.reason,
            decision.scope,
            one.content if isinstance(one, Allow) else None,
        )
    if run.redactor is not None:
        payload = run.redactor.value(payload)
    while payload:  # all that are new together, so that a batch is stored wholly or not at all
        try:
            await run.store.post(run.session_id, "decision", payload)
            return
        except AlreadyAnswered as error:
            posted = payload.pop(error.call_id)
            if (error.action, error.by) != (posted["action"], posted.get("by", HOST)):
                raise


def take_answers(run: Run, results: Mapping[str, Any] | None) -> None:
    """Take what woke the run, on the record: given results, and the inbox."""
    for call_id, value in (results or {}).items():
        run.calls.host_results[call_id] = result = result_of(value)
        run.record(InboxTaken(call_id, "result", {call_id: msgspec.to_builtins(result)}))
    for item in list(run.journal.mail):
        if item.kind in ("decision", "result"):
            run.journal.take(item)
            run.record(InboxTaken(item.id, item.kind, item.payload))
            for call_id, value in item.fields.items():
                if item.kind == "result":
                    run.calls.host_results[call_id] = result_of(value)
                else:
                    asked = run.calls.questions.get(call_id)
                    last_ask = None if asked is None else asked.ask
                    keep_answer(run.calls.answers, call_id, decision_of(value), last_ask)


def must_be_open(run: Run, call_ids: Sequence[str]) -> None:
    """Refuse answers about a call that has a result, or does not exist."""
    turn = run.turn
    waiting = [c.id for c in turn.calls if c.id not in turn.results] if turn and turn.open else []
    for call_id in call_ids:
        if call_id not in waiting:
            open_calls = ", ".join(waiting) or "none"
            raise ConfigError(f"no open call {call_id!r}; open are: {open_calls}")


def _runs_anyway(run: Run, call_id: str) -> bool:
    """Check whether the call was allowed already, so that a yes changes nothing."""
    ready = run.turn.ready.get(call_id) if run.turn is not None else None
    return ready is not None and ready.tool.handler is not None


def _find_question(run: Run, given: str, ask: str | None, allowed: bool) -> ToolDecided | None:
    """Find the question by its own id, or the last one about a call.

    None where nobody was asked, as about the siblings of a call that waits; and where the answer says
    that it is to another question than any about this call: then it is none to this one, which stands.
    """
    asked = [e for e in run.journal.entries if type(e) is ToolDecided and e.action == "ask"]
    found = next((e for e in reversed(asked) if given in (e.ask, e.call_id)), None)
    must_be_open(run, [given if found is None else found.call_id])
    if found is None:
        if not allowed:
            raise ConfigError(f"nobody was asked about call {given!r}: there is nothing to deny")
        return None
    if ask is not None and ask != found.ask:
        return next((e for e in asked if (e.call_id, e.ask) == (found.call_id, ask)), None)
    return found

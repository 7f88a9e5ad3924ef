"""The input of `resume`: answers to a parked run, and results of calls the host ran.

An answer goes the same way as one from elsewhere: it is posted, and the first that is stored is the
answer. Then the run takes what is in its inbox. What is for a call of a sub-agent is posted to the
sub-agent's session, which takes it when its parent goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from windlass.access.caller import Caller, is_host
from windlass.engine.children import CallBelow, read_calls_below
from windlass.errors import AlreadyAnswered, ConfigError, safe_repr
from windlass.events import InboxTaken, ToolDecided
from windlass.json_types import JsonObject, is_mapping
from windlass.loop.form_answer import check_form_answer
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


class ResumeInput(msgspec.Struct, frozen=True):
    """Answers and results that were given to a run, for itself and for the sub-agents under it.

    `posts` are the decisions by the session whose question they answer, `own_results` the results of
    the run's own calls, `results` those of sub-agents' calls by their sessions.
    """

    posts: dict[str, JsonObject] = {}
    results: dict[str, JsonObject] = {}
    own_results: dict[str, Any] = {}

    async def post(self, run: Run) -> None:
        """Post the answers to the inboxes; raise `AlreadyAnswered` for a second one.

        The same answer from the same person counts once: a program that was killed repeats it.
        """
        for session_id, payload in self.posts.items():
            await _post_answers(run, session_id, payload)
        for session_id, results in self.results.items():
            await run.store.post(session_id, "result", _redact(run, results))


async def sort_resume_input(
    run: Run, decisions: Given, results: Mapping[str, Any], caller: Caller | None
) -> ResumeInput:
    """Find the call that each answer and result is for; refuse those that are for none."""
    sorted_input = ResumeInput()
    if not decisions and not results:
        return sorted_input
    own = [*_open_calls(run), *[ask for ask in _list_asks(run) if ask]]
    foreign = [one for one in (*decisions, *results) if one not in own]
    below: Sequence[CallBelow] = ()
    if foreign:
        below = await read_calls_below(run.store, run.session_id, run.turn)
    for given, value in results.items():
        found = None if given in own else _find_below(below, given)
        if found is None:
            must_be_open(run, [given], below)
            sorted_input.own_results[given] = value
        else:
            posted = sorted_input.results.setdefault(found.session_id, {})
            posted[found.call_id] = msgspec.to_builtins(result_of(value))
    for given, answer in decisions.items():
        found = None if given in own else _find_below(below, given)
        question, session_id = None, run.session_id
        if found is not None:
            question, session_id = _read_question(found, given, answer), found.session_id
        elif not (decision_of(answer).allowed and _runs_anyway(run, given)):
            decision = decision_of(answer)
            question = _find_question(run, given, decision.ask, decision.allowed, below)
        if question is not None:
            posted = sorted_input.posts.setdefault(session_id, {})
            posted[question.call_id] = _build_answer(question, answer, caller)
    return sorted_input


def _build_answer(
    question: ToolDecided, answer: Allow | Deny | bool, caller: Caller | None
) -> JsonObject:
    decision = decision_of(answer)
    check_session_answer(decision.scope, question.tool, question.rule, question.receipt)
    content = answer.content if isinstance(answer, Allow) else None
    if decision.allowed:
        check_form_answer(question.tool, question.receipt, content)
    by = (answer.by if isinstance(answer, (Allow, Deny)) else None) or caller
    return answer_as_data(
        decision.allowed,
        None if is_host(by) else str(by),
        question.ask,
        decision.reason,
        decision.scope,
        content,
    )


async def _post_answers(run: Run, session_id: str, payload: JsonObject) -> None:
    payload = _redact(run, payload)
    while payload:  # all that are new together, so that a batch is stored wholly or not at all
        try:
            await run.store.post(session_id, "decision", payload)
            return
        except AlreadyAnswered as error:
            posted = payload.pop(error.call_id)
            if (error.action, error.by) != (posted["action"], posted.get("by", HOST)):
                raise


def _redact(run: Run, payload: JsonObject) -> JsonObject:
    return payload if run.redactor is None else run.redactor.value(payload)


def _find_below(below: Sequence[CallBelow], given: str) -> CallBelow | None:
    """Find the call of a sub-agent by the id that `pending` shows, its own id, or its question's."""
    exact = [one for one in below if one.shown.id == given]
    found = exact or [one for one in below if one.is_meant_by(given)]
    if len(found) > 1:
        names = ", ".join([one.shown.id for one in found])
        raise ConfigError(f"{len(found)} open calls are meant by {given!r}: write one of {names}")
    return found[0] if found else None


def _read_question(found: CallBelow, given: str, answer: Allow | Deny | bool) -> ToolDecided | None:
    """Return the question of a sub-agent that the answer is to; None where it is to none."""
    question, decision = found.question, decision_of(answer)
    if question is None:
        if not decision.allowed:
            raise _nothing_to_deny(given)
        return None
    return question if decision.ask in (None, question.ask) else None


def take_answers(run: Run, results: Mapping[str, Any]) -> None:
    """Take what woke the run, on the record: given results, and the inbox."""
    for call_id, value in results.items():
        result = result_of(value)
        run.calls.host_results = {**run.calls.host_results, call_id: result}
        run.record(InboxTaken(call_id, "result", {call_id: msgspec.to_builtins(result)}))
    for item in list(run.journal.mail):
        if item.kind in ("decision", "result"):
            run.journal.take(item)
            run.record(InboxTaken(item.id, item.kind, item.payload))
            for call_id, value in item.fields.items():
                if item.kind == "result":
                    results_now = {**run.calls.host_results, call_id: result_of(value)}
                    run.calls.host_results = results_now
                else:
                    asked = run.calls.questions.get(call_id)
                    last_ask = None if asked is None else asked.ask
                    answers = {of: dict(known) for of, known in run.calls.answers.items()}
                    keep_answer(answers, call_id, decision_of(value), last_ask)
                    run.calls.answers = answers


def must_be_open(run: Run, call_ids: Sequence[str], below: Sequence[CallBelow] = ()) -> None:
    """Refuse answers about a call that has a result, or does not exist."""
    waiting = _open_calls(run)
    for call_id in call_ids:
        if call_id not in waiting:
            open_calls = ", ".join([*waiting, *[one.shown.id for one in below]]) or "none"
            raise ConfigError(f"no open call {call_id!r}; open are: {open_calls}")


def _open_calls(run: Run) -> list[str]:
    turn = run.turn
    return [c.id for c in turn.calls if c.id not in turn.results] if turn and turn.open else []


def _list_asks(run: Run) -> list[str | None]:
    """List the ids of all questions of the session, answered or not."""
    return [e.ask for e in run.journal.entries if type(e) is ToolDecided and e.action == "ask"]


def _nothing_to_deny(given: str) -> ConfigError:
    return ConfigError(f"nobody was asked about call {given!r}: there is nothing to deny")


def _runs_anyway(run: Run, call_id: str) -> bool:
    """Check whether the call was allowed already, so that a yes changes nothing."""
    ready = run.turn.ready.get(call_id) if run.turn is not None else None
    return ready is not None and ready.tool.handler is not None


def _find_question(
    run: Run, given: str, ask: str | None, allowed: bool, below: Sequence[CallBelow]
) -> ToolDecided | None:
    """Find the question by its own id, or the last one about a call.

    None where nobody was asked, as about the siblings of a call that waits; and where the answer says
    that it is to another question than any about this call: then it is none to this one, which stands.
    """
    asked = [e for e in run.journal.entries if type(e) is ToolDecided and e.action == "ask"]
    found = next((e for e in reversed(asked) if given in (e.ask, e.call_id)), None)
    must_be_open(run, [given if found is None else found.call_id], below)
    if found is None:
        if not allowed:
            raise _nothing_to_deny(given)
        return None
    if ask is not None and ask != found.ask:
        return next((e for e in asked if (e.call_id, e.ask) == (found.call_id, ask)), None)
    return found

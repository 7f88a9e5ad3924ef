"""Approval rules before every call: allow it, deny it, or ask and park the run."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Annotated, Any, cast

import msgspec

from windlass.access.approval import ApprovalPolicy, PolicyDecision, Rule, rule_of
from windlass.access.facts import CallFacts, facts_of, resolve_path
from windlass.access.values import has_many_values
from windlass.errors import ConfigError, error_text, safe_repr
from windlass.events import JournalEntry, ToolDecided
from windlass.json_types import JsonObject
from windlass.loop.approval_request import answered_before, parked_by
from windlass.loop.plan import digest_of
from windlass.loop.policy import CallVerdict, Policy
from windlass.loop.resume_input import (
    ONE_CALL,
    Allow,
    Deny,
    decision_of,
    is_session_answer,
)
from windlass.loop.run import Run
from windlass.loop.verdict import Ask, Granted, Refused
from windlass.messages import ToolCall
from windlass.options.checks import boolean, check_struct, function, number, texts
from windlass.options.group import Option, OptionGroup
from windlass.policies.build import BuildContext, Policies
from windlass.toolbox.options import WorkspaceOptions
from windlass.tools.middleware.call_info import described
from windlass.tools.result import not_permitted

_HOST = "request_permission"  # the name recorded where no person is named


def _check_rules(name: str, value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{name} is a list of rules, not {safe_repr(value)}")
    several = cast("list[object]", value)
    return tuple([rule_of(f"{name}[{at}]", one) for at, one in enumerate(several)])


def _check_folder(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)) or not str(cast("object", value)):
        raise ConfigError(f"{name} is a folder, not {safe_repr(cast('object', value))}")
    return os.path.abspath(cast("str | os.PathLike[str]", value))


def _check_roots(name: str, value: Any) -> tuple[str, ...]:
    given = cast("list[object]", value) if isinstance(value, (list, tuple)) else ()
    written = [str(cast("object", one)) if isinstance(one, os.PathLike) else one for one in given]
    roots = texts(name, written if given else value)
    for root in roots:
        if not os.path.isabs(root):
            raise ConfigError(f"{name} are absolute paths, not {safe_repr(root)}")
    return roots


_check_policy = check_struct(
    ApprovalPolicy,
    {
        "rules": _check_rules,
        "external_roots": _check_roots,
        "workspace": _check_folder,
        "expires_in": number(0.001),
        "request_permission": function,
        "guards": boolean,
    },
    flag=False,
)


class ApprovalOptions(OptionGroup, frozen=True, kw_only=True):
    """Approval rules: human in the loop."""

    approval_policy: Annotated[
        ApprovalPolicy | None,
        Option(_check_policy, accepts="dict[str, Any] | ApprovalPolicy | None"),
    ] = None
    """Rules that allow or deny calls, or ask a person."""


def build(ctx: BuildContext) -> Policies:
    """Build the policy of the rules."""
    rules = ApprovalOptions.read(ctx.values).approval_policy
    if rules is None:
        return ()
    place = WorkspaceOptions.read(ctx.values)
    if place.workspace is not None and rules.workspace is None:
        rules = msgspec.structs.replace(rules, workspace=place.anchor)
    if place.mounts:
        roots = (*rules.external_roots, *place.resolve_mounts())
        rules = msgspec.structs.replace(rules, external_roots=roots)
    return (Approval(rules),)


class Approval(Policy[None]):
    """A policy that checks every call by the rules and records the receipt."""

    decides = True

    def __init__(self, policy: ApprovalPolicy, name: str = "approval_policy") -> None:
        self.policy, self._name = policy, name
        self._counts = any(["repeat_count" in rule.match for rule in policy.rules])

    @property
    def name(self) -> str:
        return self._name

    def for_child(self, run: Run) -> Approval:
        return Approval(self.policy, f"parent.{self.name}")

    def as_record(self) -> JsonObject:
        """Return the rules, without `request_permission`: the run is parked instead."""
        rules = self.policy
        record = _RecordedRules(
            rules=rules.rules,
            external_roots=rules.external_roots,
            workspace=rules.root,
            expires_in=rules.expires_in,
            guards=rules.guards,
        )
        return {"approval": msgspec.to_builtins(record)}

    async def before_tool(self, run: Run, call: ToolCall) -> CallVerdict:
        facts = self._facts(run, call)
        if has_many_values(call.arguments):  # each path among them is followed
            decision, ask = await asyncio.to_thread(self._decide, call, facts)
        else:
            decision, ask = self._decide(call, facts)
        if decision.action == "deny":
            decision_data = receipt(decision)
            refused = not_permitted(call, decision.rationale, decision_data)
            return Refused(refused, decision.rationale, receipt=decision_data)
        if ask is None:
            if decision.index is None:
                return None  # no rule matches
            return Granted(decision.rationale, receipt=receipt(decision))
        if self.policy.request_permission is None or parked_by(run, self.name, call.id):
            return ask
        if (by := answered_before(run, self.name, call)) is not None:
            return Granted(None, by, ask, ask.receipt)
        return await ask_host(self.policy.request_permission, run, call, ask)

    def _decide(self, call: ToolCall, facts: CallFacts) -> tuple[PolicyDecision, Ask | None]:
        """Decide on the call, and build the question where a person is asked."""
        decision = self.policy.decide(facts)
        return decision, self._ask(call, facts, decision) if decision.action == "ask" else None

    def _ask(self, call: ToolCall, facts: CallFacts, decision: PolicyDecision) -> Ask:
        root = self.policy.root
        about = {
            "workspace": root,
            "paths": [resolve_path(path, root) for path in facts.paths],  # a link may be turned
        }
        question = f"may {call.name} run? {decision.rationale}"
        return Ask(
            question, about=about, receipt=receipt(decision), expires_in=self.policy.expires_in
        )

    def _facts(self, run: Run, call: ToolCall) -> CallFacts:
        annotations = run.tools[call.name].annotations
        plan = run.plan
        return facts_of(
            call.name,
            annotations,
            call.arguments,
            agent=plan.name,
            persona=plan.role,
            mode=(plan.metadata or {}).get("mode"),
            repeats=_repeats(run, call) if self._counts else 1,
        )


async def ask_host(request: Callable[..., Any], run: Run, call: ToolCall, ask: Ask) -> CallVerdict:
    """Ask the host's `request_permission`; None parks the run, and others may answer later."""
    about = described(
        run.tools[call.name],
        call.arguments,
        call.id,
        run.session_id,
        run.run_id,
        run.caller_name,
    )
    about["policyDecision"] = deepcopy(ask.receipt)
    about["reason"] = ask.reason
    try:
        answer: Any = request(about)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:
        return _build_refusal(call, ask, f"request_permission failed: {error_text(error)}")
    if answer is None or answer == "ask":
        return ask
    if isinstance(answer, (bool, Allow, Deny)) and not is_session_answer(answer):
        decision = decision_of(answer)
        by = decision.person or _HOST
        if decision.allowed:
            return Granted(decision.reason, by, ask, ask.receipt)
        return _build_refusal(call, ask, decision.reason or "it was not approved", by)
    problem = f"request_permission answers True, False or None, not {safe_repr(answer)}"
    if is_session_answer(answer):
        problem = f"request_permission answers for one call: {ONE_CALL}"
    return _build_refusal(call, ask, problem)


class _RecordedRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An approval policy as plain data."""

    rules: tuple[Rule, ...]
    external_roots: tuple[str, ...]
    workspace: str
    expires_in: float
    guards: bool


def rebuild_approval(data: object, name: str) -> Approval:
    """Build the policy of the rules from the record of a sub-agent."""
    rules = msgspec.convert(data, _RecordedRules)
    return Approval(ApprovalPolicy(**msgspec.structs.asdict(rules)), name)


def _build_refusal(call: ToolCall, ask: Ask, reason: str, by: str = _HOST) -> Refused:
    return Refused(not_permitted(call, reason, ask.receipt), reason, by, ask, ask.receipt)


def receipt(decision: PolicyDecision) -> dict[str, Any]:
    """Convert the decision to plain data."""
    return msgspec.to_builtins(decision)


def _repeats(run: Run, call: ToolCall) -> int:
    """Count how often this very call was made in the session, including now."""
    seen: _CallHistory | None = run.cache.get(_CallHistory)
    if seen is None:
        seen = run.cache[_CallHistory] = _CallHistory()
    seen.go_on(run.entries)
    calls = seen.calls.get((call.name, digest_of(call.arguments)), set[str]())
    return len(calls - {call.id}) + 1


class _CallHistory:
    """The calls of a whole session, by tool and arguments; each entry is read once."""

    def __init__(self) -> None:
        self.place = 0
        self.calls: dict[tuple[str, str], set[str]] = {}

    def go_on(self, entries: Sequence[JournalEntry]) -> None:
        """Read the new entries."""
        for entry in entries[self.place :]:
            if type(entry) is ToolDecided:
                self.calls.setdefault((entry.tool, entry.digest), set()).add(entry.call_id)
        self.place = len(entries)

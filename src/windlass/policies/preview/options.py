"""The option `plan`, and what `dry_run="plan"` and an approved plan make of a run's policies.

A session that began as a preview, or under a plan, goes on as one, whoever resumes it: which it is
stands in the record of its run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.loop.plan import Plan
from windlass.loop.policy import Policy, moments_of

if TYPE_CHECKING:
    from windlass.policies.preview.plan import EffectPlan

PLAN: Final = "plan"  # the value of dry_run
MODE: Final = "effects"  # in a run's metadata: what becomes of effects


class PreviewOptions(TypedDict, total=False):
    """Which approved plan a run does."""

    plan: str | EffectPlan | None


def _plan(name: str, value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if isinstance(value, str) and value.strip():
        return {"session_id": value, "id": None}
    from windlass.policies.preview.plan import EffectPlan

    if isinstance(value, EffectPlan):
        return {"session_id": value.session_id, "id": value.id}
    raise ConfigError(
        f'{name} is a plan (`out.plan` of a run with dry_run="plan") or the id of its session, '
        f"not {safe_repr(value)}"
    )


CHECKS: dict[str, Callable[[str, Any], Any]] = {"plan": _plan}


def mode_of(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the options say of effects, as the record of a run keeps it."""
    rehearsed, ref = options.get("dry_run") == PLAN, options.get("plan")
    if ref is None:
        return {"mode": "preview"} if rehearsed else None
    if rehearsed:
        raise ConfigError('dry_run="plan" makes a plan and plan=… does one: give one of them')
    return {"mode": "plan", **ref}


def foreseeing(policies: Sequence[Policy[Any]], mode: Mapping[str, Any]) -> list[Policy[Any]]:
    """The policies of a preview, or of a run by a plan.

    Nobody asks about single effects, and the last to look at a call is the one that knows the plan:
    what others deny or change is denied and changed before.
    """
    from windlass.policies.preview.policy import (
        ByPlan,
        PlanPins,
        PlanRef,
        Preview,
    )
    from windlass.tools.middleware.agent import delegates

    quiet = [_quiet(policy) for policy in policies]
    if mode.get("mode") == "preview":
        last: list[Policy[Any]] = [Preview(delegates)]
    else:
        by_plan = ByPlan(PlanRef(mode["session_id"], mode.get("id")), delegates)
        last = [PlanPins(delegates), by_plan]
    return [*quiet[:-1], *last, *quiet[-1:]]  # the cap on results stays where it is: it only cuts


def _quiet(policy: Policy[Any]) -> Policy[Any]:
    from windlass.policies.approval import Approval
    from windlass.policies.consent import Consent
    from windlass.policies.permissions import PermissionCheck
    from windlass.policies.preview.policy import Beforehand
    from windlass.policies.taint.policy import ThirdLeg

    if isinstance(policy, Approval):
        rules = msgspec.structs.replace(policy.policy, request_permission=None)
        return Beforehand(policy, Approval(rules, policy.name))
    if isinstance(policy, PermissionCheck):
        lists = policy.permissions
        if lists.on_escalation is not None:
            lists = msgspec.structs.replace(lists, on_escalation=_later)
        return Beforehand(policy, PermissionCheck(lists, policy.name))
    return Beforehand(policy, policy) if isinstance(policy, (ThirdLeg, Consent)) else policy


def _later(_request: Any) -> str:
    return "ask"


def for_child(plan: Plan, parent: Plan, session_id: str) -> Plan:
    """The plan of a sub-agent, with what its parent's says of effects on its record."""
    if MODE not in (parent.metadata or {}):
        return plan
    other = plan.of(plan.model)
    other.metadata = {**(plan.metadata or {}), MODE: {"mode": "child", "of": session_id}}
    return other


def _same(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    if one is None or other is None:
        return one is other
    return all([one.get(key) == other.get(key) for key in ("mode", "session_id", "of")])


def as_begun(plan: Plan, metadata: Mapping[str, Any] | None) -> Plan:
    """The plan for a run that goes on: a preview stays one, and what a plan binds stays bound."""
    mode = cast("dict[str, Any] | None", (metadata or {}).get(MODE))
    own = cast("dict[str, Any] | None", (plan.metadata or {}).get(MODE))
    if _same(mode, own):
        return plan
    if mode is None:
        raise ConfigError(
            'this run began without dry_run="plan" and without a plan: go on without them'
        )
    if mode["mode"] == "child":
        raise ConfigError(f"this session works for {mode['of']!r}, by its plan: resume that one")
    if own is not None:
        raise ConfigError("this run began as a preview, or with another plan: go on with that")
    other = plan.of(plan.model)
    other.metadata = {**(plan.metadata or {}), MODE: mode}
    other.policies = tuple(foreseeing(plan.policies, mode))
    other.moments = moments_of(other.policies)
    other.deliberates = other.moments.deliberates
    return other

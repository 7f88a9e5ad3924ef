"""Policies of a preview, or of a run by a plan, built from those of an ordinary run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.loop.policy import Policy
from windlass.policies.authority.approval import Approval
from windlass.policies.authority.consent import Consent
from windlass.policies.authority.permissions import PermissionCheck
from windlass.policies.preview.policy import Beforehand, ByPlan, PlanPins, PlanRef, Preview
from windlass.policies.taint.policy import FlowControl
from windlass.tools.middleware.agent import delegates


def wrap_for_preview(policies: Sequence[Policy[Any]], mode: Mapping[str, Any]) -> list[Policy[Any]]:
    """Wrap the policies of a run for a preview, or for a run by a plan.

    Nobody asks about single effects, and the last to look at a call is the one that knows the plan:
    what others deny or change is denied and changed before.
    """
    quiet = [_quiet(policy) for policy in policies]
    if mode.get("mode") == "preview":
        last: list[Policy[Any]] = [Preview(delegates)]
    else:
        by_plan = ByPlan(PlanRef(mode["session_id"], mode.get("id")), delegates)
        last = [PlanPins(delegates), by_plan]
    return [*quiet[:-1], *last, *quiet[-1:]]  # the cap on results stays where it is: it only cuts


def _quiet(policy: Policy[Any]) -> Policy[Any]:
    if isinstance(policy, Approval):
        rules = msgspec.structs.replace(policy.policy, request_permission=None)
        return Beforehand(policy, Approval(rules, policy.name))
    if isinstance(policy, PermissionCheck):
        lists = policy.permissions
        if lists.on_escalation is not None:
            lists = msgspec.structs.replace(lists, on_escalation=_later)
        return Beforehand(policy, PermissionCheck(lists, policy.name))
    return Beforehand(policy, policy) if isinstance(policy, (FlowControl, Consent)) else policy


def _later(_request: Any) -> str:
    return "ask"

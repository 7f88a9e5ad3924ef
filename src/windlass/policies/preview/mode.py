"""The modes `dry_run="plan"` and approved plan, applied to a run's policies.

A session that began as a preview, or under a plan, stays one when it is resumed: the record of its
run holds the mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.loop.plan import Plan
from windlass.loop.policy import Policy, moments_of

PLAN: Final = "plan"  # the value of dry_run
MODE: Final = "effects"  # in a run's metadata: what becomes of effects


def effects_mode(ref: JsonObject | None, *, rehearsed: bool) -> JsonObject | None:
    """Return what the options say of effects, as the record of a run keeps it.

    `rehearsed`: the run makes a plan; `ref` is the plan that it does.
    """
    if ref is None:
        return {"mode": "preview"} if rehearsed else None
    if rehearsed:
        raise ConfigError('dry_run="plan" makes a plan and plan=… does one: give one of them')
    return {"mode": "plan", **ref}


def wrap_policies(policies: Sequence[Policy[Any]], mode: Mapping[str, Any]) -> list[Policy[Any]]:
    """Wrap the policies of a run for a preview, or for a run by a plan."""
    from windlass.policies.preview.wrap import wrap_for_preview  # most runs are neither

    return wrap_for_preview(policies, mode)


def for_child(plan: Plan, parent: Plan, session_id: str) -> Plan:
    """Return the plan of a sub-agent, marked with its parent's mode of effects."""
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
    """Return the plan for a resumed run: a preview stays one, as does a run by a plan."""
    mode = cast("JsonObject | None", (metadata or {}).get(MODE))
    own = cast("JsonObject | None", (plan.metadata or {}).get(MODE))
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
    other.policies = tuple(wrap_policies(plan.policies, mode))
    other.moments = moments_of(other.policies)
    other.deliberates = other.moments.deliberates
    return other

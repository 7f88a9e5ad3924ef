"""Plans of effects: read the plan of a preview, and approve it."""

from __future__ import annotations

from windlass import seams
from windlass.access.approval import LASTS
from windlass.access.caller import Caller
from windlass.engine.ownership import SessionScope
from windlass.errors import ConfigError, safe_repr
from windlass.events import PlanApproved
from windlass.loop.resume_input import check_by, name_of_answerer
from windlass.options.checks import number
from windlass.policies.preview.plan import EffectPlan, at_rest, plan_in
from windlass.store.open import Address

_seconds = number(0.001)


async def plan_of(
    session_id: str, *, store: Address | None = None, caller: Caller | None = None
) -> EffectPlan:
    """Return the plan of a session with `dry_run="plan"`: `await w.plan_of("s1")`."""
    scope = SessionScope.current(store, caller)
    key = await scope.find(session_id, "read")
    found = plan_in(await scope.home.read(key), key)
    if found is None:
        raise _none(session_id)
    return found


async def approve_plan(
    plan: EffectPlan | str,
    *,
    by: Caller | None = None,
    name: str | None = None,
    expires_in: float | None = LASTS,
    store: Address | None = None,
) -> EffectPlan:
    """Approve all effects of a plan, or of the session that made it; return the plan.

    `await w.approve_plan(out.plan, by=w.Caller("bea"))`. One run may then make exactly these calls,
    each once: `await agent.run("…", plan=out.plan)`. A plan that you pass must be the recorded one.
    `by` must be the owner of the session, or have a role to answer for it; None: the host. `name`
    is recorded if the host approves for somebody.
    """
    if not isinstance(plan, (EffectPlan, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"a plan is `out.plan` or the id of its session, not {safe_repr(plan)}")
    who = name_of_answerer(check_by(by), name, "approved")
    until = None if expires_in is None else seams.now() + _seconds("expires_in", expires_in)
    scope = SessionScope.current(store, by)
    home = scope.home
    session_id = plan if isinstance(plan, str) else plan.session_id
    session_id = await scope.find(session_id, "answer")
    if not at_rest(await home.read(session_id)):
        raise ConfigError(
            f"session {session_id!r} has not ended and may be at work: resume it first"
        )
    journal = await home.open(session_id, create=False)
    try:
        found = plan_in(journal.entries, session_id)
        if found is None:
            raise _none(session_id)
        if isinstance(plan, EffectPlan) and plan.id != found.id:
            raise ConfigError(
                f"plan {plan.id[:12]} is no longer the plan of session {session_id!r}, which is "
                f"{found.id[:12]}; look at it again"
            )
        if found.used_by is not None:
            raise ConfigError(f"plan {found.id[:12]} was used by {found.used_by}; make a new one")
        if found.approved_by is not None and not found.expired:
            raise ConfigError(f"plan {found.id[:12]} was approved already, by {found.approved_by}")
        journal.append(scope.environment.redact(PlanApproved(found.id, who, until)))
        journal.flush()
        await journal.durable()
        return plan_in(journal.entries, session_id) or found
    finally:
        await journal.close()


def _none(session_id: str) -> ConfigError:
    return ConfigError(f'session {session_id!r} has no plan: run it with dry_run="plan"')

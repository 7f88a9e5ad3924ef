"""The audit log for a host: `scope.audit.query(…)`, `.verify()`, `.seal()`."""

from __future__ import annotations

from typing import Unpack

from windlass.access.caller import Caller, is_host
from windlass.audit import anchors, query, verify
from windlass.audit.anchors import AnchorContents, AuditAnchor
from windlass.audit.query import AuditPage, AuditQuery
from windlass.audit.seal import SealScheduler
from windlass.audit.verify import AuditReport
from windlass.engine.environment import Environment, current_environment
from windlass.engine.ownership import check_caller, find_session, readable_sessions
from windlass.errors import ConfigError
from windlass.store.seals import Seal


class Audit:
    """The audit log of a Runtime, `scope.audit`: query it, verify it, seal it."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def query(
        self, *, viewer: Caller | None = None, **which: Unpack[AuditQuery]
    ) -> AuditPage:
        """Return the recorded tool calls that match, newest first, as an `AuditPage`.

        ```python
        page = await scope.audit.query(tenant="acme", caller="ann", since=yesterday)
        for entry in page.entries:
            print(entry.tool, entry.rule, entry.outcome, entry.changes)
        more = await scope.audit.query(tenant="acme", cursor=page.cursor)
        ```
        Filters: tenant, caller, request, conversation, session, tool, resource, since, until. With
        `viewer`, a `Caller`, only calls of sessions that they began or have the grant
        `agent_session.audit` for; a page may then be shorter than `limit`.
        """
        store = self._environment.audited
        if is_host(viewer):
            return await query.query(store, **which)
        viewer = check_caller(viewer)
        if "session" in which:
            named = which["session"]
            which["session"] = await find_session(store, named, viewer, self._environment, "audit")
        which["tenant"] = viewer.tenant
        page = await query.query(store, **which)
        known = await readable_sessions(store, viewer, self._environment, "audit")
        ids = {info.id for info in known}
        entries = tuple([one for one in page.entries if one.session in ids])
        return AuditPage(entries, page.cursor)

    async def verify(
        self,
        *,
        tenant: str | None = None,
        session: str | None = None,
        anchor: AuditAnchor | None = None,
    ) -> AuditReport:
        """Check hash chains and seals, compare them with the anchor, and return an `AuditReport`.

        `assert (await scope.audit.verify()).ok`. `anchor` is that of the Runtime by default. What
        cannot be checked is in `not_covered`.
        """
        environment = self._environment
        place = environment.audit_anchor if anchor is None else anchors.as_anchor(anchor)
        kept: AnchorContents | None = None
        if place is not None:
            kept = await anchors.get(place, environment.pool())
            if kept is None and anchor is not None:
                raise ConfigError(
                    "a callable cannot be asked what it was told; verify with the file, or an "
                    "object that has get"
                )
        return await verify.verify(environment.audited, kept, tenant=tenant, session=session)

    async def seal(self) -> list[Seal]:
        """Seal and anchor everything that has changed since the last seal."""
        environment = self._environment
        store = environment.audited
        keeper = environment.keeper_for(store) or SealScheduler(store, None, environment.pool, 60.0)
        return await keeper.seal()


async def audit_query(*, viewer: Caller | None = None, **which: Unpack[AuditQuery]) -> AuditPage:
    """Query the audit log of the current Runtime: `await w.audit_query(session="s1")`.

    Takes the filters of `Audit.query`, and returns an `AuditPage`.
    """
    return await Audit(current_environment()).query(viewer=viewer, **which)


async def audit_verify(
    *,
    tenant: str | None = None,
    session: str | None = None,
    anchor: AuditAnchor | None = None,
) -> AuditReport:
    """Verify the record of the current Runtime: `assert (await w.audit_verify()).ok`."""
    return await Audit(current_environment()).verify(tenant=tenant, session=session, anchor=anchor)


async def audit_seal() -> list[Seal]:
    """Seal and anchor everything that has changed: `await w.audit_seal()`."""
    return await Audit(current_environment()).seal()

"""The audit in a host's hands: `scope.audit.query(…)`, `.verify()`, `.seal()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from windlass.agents.auditing import anchors, asking, verifying
from windlass.agents.auditing.anchors import Anchored, AuditAnchor
from windlass.agents.auditing.asking import AuditPage, AuditQuery
from windlass.agents.auditing.sealing import Keeper
from windlass.agents.auditing.verifying import AuditReport
from windlass.agents.runtime import current_runtime
from windlass.errors import ConfigError
from windlass.store.seals import Seal

if TYPE_CHECKING:
    from windlass.agents.runtime import Runtime


class Audit:
    """What agents did here, and whether the record of it is whole: `scope.audit`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def query(self, **which: Unpack[AuditQuery]) -> AuditPage:
        """The tool calls that fit, the newest first.

        ```python
        page = await scope.audit.query(tenant="acme", caller="ann", since=yesterday)
        for entry in page.entries:
            print(entry.tool, entry.rule, entry.outcome, entry.changes)
        more = await scope.audit.query(tenant="acme", cursor=page.cursor)
        ```
        Filters: tenant, caller, request, conversation, session, tool, resource, since, until.
        """
        return await asking.query(self._runtime.audited, **which)

    async def verify(
        self,
        *,
        tenant: str | None = None,
        session: str | None = None,
        anchor: AuditAnchor | None = None,
    ) -> AuditReport:
        """Check every chain, the seals, and the seals against the anchor: `(await …verify()).ok`.

        Without `anchor` it is that of the Runtime. What cannot be known is in `not_covered`.
        """
        runtime = self._runtime
        place = runtime.audit_anchor if anchor is None else anchors.as_anchor(anchor)
        kept: Anchored | None = None
        if place is not None:
            kept = await anchors.get(place, runtime.pool())
            if kept is None and anchor is not None:
                raise ConfigError(
                    "a callable cannot be asked what it was told; verify with the file, or an "
                    "object that has get"
                )
        return await verifying.verify(runtime.audited, kept, tenant=tenant, session=session)

    async def seal(self) -> list[Seal]:
        """Seal and anchor now all that has moved since its last seal, whoever wrote it."""
        runtime = self._runtime
        store = runtime.audited
        keeper = runtime.keeper_for(store) or Keeper(store, None, runtime.pool, 60.0)
        return await keeper.seal()


async def audit_query(**which: Unpack[AuditQuery]) -> AuditPage:
    """What agents did, in the store of the current Runtime: `await w.audit_query(session="s1")`."""
    return await Audit(current_runtime()).query(**which)


async def audit_verify(
    *,
    tenant: str | None = None,
    session: str | None = None,
    anchor: AuditAnchor | None = None,
) -> AuditReport:
    """Is the record of the current Runtime whole? `assert (await w.audit_verify()).ok`"""
    return await Audit(current_runtime()).verify(tenant=tenant, session=session, anchor=anchor)


async def audit_seal() -> list[Seal]:
    """Seal and anchor now what moved: `await w.audit_seal()`."""
    return await Audit(current_runtime()).seal()

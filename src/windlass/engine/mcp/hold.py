"""The MCP servers of a run that is about to begin: held for it from their start on."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

import msgspec

from windlass.engine.environment import Environment
from windlass.loop.plan import Plan


class _Request(Protocol):
    """A request for a run, as far as its servers go."""

    @property
    def plan(self) -> Plan: ...

    @property
    def environment(self) -> Environment: ...

    @property
    def servers(self) -> tuple[Any, ...]: ...


R = TypeVar("R", bound=_Request)


async def connect_servers(request: R) -> R:
    """Return the request with its plan completed by what its MCP servers offer."""
    before = request.plan
    if before.connect is None:
        return request
    plan = await before.connect(request.environment)
    if before.inherited:
        plan = plan.below(before.inherited)
    plan.metadata = {**(before.metadata or {}), **(plan.metadata or {})}
    plan.withheld = before.withheld
    changed = {"plan": plan, "servers": plan.servers}
    return msgspec.structs.replace(cast("Any", request), **changed)


async def release_servers(request: _Request) -> None:
    """Let go of the servers of a run that does not begin."""
    await request.environment.release_servers(request.servers)

"""Whose a session is: who began a run goes on with it, and no tenant sees another's."""

from __future__ import annotations

from windlass.access.caller import Caller
from windlass.errors import PermissionDenied
from windlass.events import RunStarted


def same_caller(begun: RunStarted, caller: Caller | None, session_id: str) -> Caller:
    """Who goes on with a run: whoever began it, with the roles they have now if they come themselves.

    A host that names nobody goes on in their name; somebody else is refused.
    """
    if caller is None:
        if begun.user is None:
            return Caller.local()
        return Caller(begun.user, begun.roles, begun.tenant)
    if begun.user is None or (caller.user, caller.tenant) == (begun.user, begun.tenant):
        return caller
    raise PermissionDenied(
        f"session {session_id!r} is {begun.caller}'s, and {caller} may not go on with it"
    )


def of_tenant(last: RunStarted | None, caller: Caller, session_id: str) -> None:
    """Refuse a session of another tenant. Who has no identity at all is the host itself."""
    if last is None or last.tenant == caller.tenant or caller == Caller.local():
        return
    raise PermissionDenied(f"session {session_id!r} is of another tenant than {caller}")

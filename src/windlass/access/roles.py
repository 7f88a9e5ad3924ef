"""Roles: what each may do, and who has which at the moment of a call.

A grant is a glob over `resource.verb`: `product.*`, `*.get`; with `!` before it a refusal, which
no grant of any role outweighs. The role `*` is everybody's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import EllipsisType
from typing import Any, Final, TypeAlias, cast

import msgspec

from windlass.access.caller import Caller
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.globs import like
from windlass.json_types import as_given, is_mapping

EVERYBODY = "*"
SESSION_GRANT = "agent_session."  # what grants of other people's sessions begin with
TOOL_GRANT = "tool."  # a Runtime's own tool `add` is granted as `tool.add`
_GRANT = r"!?[\w*?\[\]-]+\.[\w*?\[\]-]+|!?\*"
# Few grants are asked about few actions, again at each call.
_covers: Final = lru_cache(maxsize=1024)(like)
Resolver: TypeAlias = Callable[[Caller], Iterable[str]]


class RolesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The section `[roles]`; in `[roles.grants]`: `support = ["product.get", "order.*"]`."""

    grants: dict[str, list[str]] | None = None

    @classmethod
    def widens(cls, path: tuple[str, ...], value: object, weaker: Mapping[str, Any]) -> bool:
        """Check whether the setting needs the user's trust: nobody may grant himself a role."""
        return True


class Roles:
    """Grants by role: `w.Roles({"support": ["product.get", "order.*", "!order.delete"]})`.

    A grant is `resource.verb`; `*` matches anything, `!` forbids. Without any grants every caller
    may use every verb within their own tenant. With grants, everything else is refused.
    `current(caller)` returns the names of the caller's roles at each call, in place of
    `caller.roles`; so a revoked role is gone at the next call.
    """

    __slots__ = ("_current", "_grants", "_taken")

    def __init__(
        self,
        grants: Mapping[str, str | Iterable[str]] | None = None,
        *,
        current: Resolver | None = None,
    ) -> None:
        if grants is not None and not isinstance(as_given(grants), Mapping):
            raise ConfigError(f"roles is a dict of grants, not {safe_repr(grants)}")
        if current is not None and not callable(as_given(current)):
            raise ConfigError(
                f"current is fn(caller) that answers role names, not {safe_repr(current)}"
            )
        self._grants: dict[str, tuple[str, ...]] | None = None if grants is None else {}
        self._current = current
        self._taken: set[tuple[str, str, str | None | EllipsisType]] = set()
        for role, patterns in (grants or {}).items():
            self.grant(role, *([patterns] if isinstance(patterns, str) else patterns))

    @property
    def is_open(self) -> bool:
        """Whether there are no grants, so that every caller may use every verb."""
        return self._grants is None

    @property
    def grants(self) -> dict[str, tuple[str, ...]]:
        """The current grants of each role."""
        return dict(self._grants or {})

    def grant(self, role: str, *patterns: str) -> None:
        """Add grants to a role: `roles.grant("support", "order.refund")`."""
        for pattern in patterns:
            if not isinstance(as_given(pattern), str) or not re.fullmatch(_GRANT, pattern):
                raise ConfigError(
                    f"role {safe_repr(role)}: {safe_repr(pattern)} is no grant; write it like 'product.get', "
                    "'order.*' or '!order.delete'"
                )
        if not isinstance(as_given(role), str) or not role:
            raise ConfigError(f"a role is a name, not {safe_repr(role)}")
        known = self._grants = self._grants or {}
        known[role] = tuple(dict.fromkeys((*known.get(role, ()), *patterns)))

    def revoke(
        self,
        role: str,
        *patterns: str,
        user: str | None = None,
        tenant: str | None | EllipsisType = ...,
    ) -> None:
        """Revoke a grant or a role, from the next call on.

        `revoke("support", "order.delete")` removes one grant of the role, `revoke("support")` all
        of them. `revoke("support", user="ann", tenant="acme")` takes the role from one caller;
        without `tenant` from the users of that name in all tenants.
        """
        if user is not None:
            if patterns:
                raise ConfigError("revoke takes a role from a user whole; leave the patterns out")
            self._taken.add((user, role, tenant))
            return
        known = self._grants or {}
        held = known.get(role, ())
        for pattern in patterns or (None,):
            if pattern not in held and (pattern is not None or not held):
                what = f"no grant {pattern!r}" if pattern else "no grants"
                raise ConfigError(f"role {role!r} has {what} to take{nearest(role, known)}")
        known[role] = tuple([one for one in held if patterns and one not in patterns])

    def restore(self, role: str, *, user: str, tenant: str | None | EllipsisType = ...) -> None:
        """Give a role back to a caller from whom it was revoked, with the same arguments."""
        self._taken.discard((user, role, tenant))

    def of(self, caller: Caller) -> tuple[str, ...]:
        """Return the current roles of the caller."""
        roles: Iterable[str] = caller.roles
        if self._current is not None:
            answered: Any = self._current(caller)
            if isinstance(answered, str) or not isinstance(answered, Iterable):
                raise ConfigError(
                    f"roles' current answered {safe_repr(as_given(answered))}, not role names"
                )
            roles = cast("Iterable[str]", answered)
        if not self._taken:
            return tuple(roles)
        taken = self._taken
        user, tenant = caller.user, caller.tenant
        return tuple(
            one
            for one in roles
            if (user, one, ...) not in taken and (user, one, tenant) not in taken
        )

    def refusal(self, caller: Caller, action: str) -> str | None:
        """Return why the caller may not do this now, or None: `roles.refusal(ann, "order.get")`."""
        try:
            roles = self.of(caller)
        except Exception as error:  # who cannot be asked does not allow
            return f"the caller's roles are not known: {type(error).__name__}: {error!s:.200}"
        if self._grants is None:
            return None
        allowed = False
        for role in (EVERYBODY, *roles):
            for pattern in self._grants.get(role, ()):
                if pattern.startswith("!"):
                    if _covers(pattern[1:], action):
                        return f"role {role!r} forbids {action}"
                elif not allowed and _covers(pattern, action):
                    allowed = True
        if allowed:
            return None
        named = ", ".join(roles) or "none"
        return f"no role of {caller} grants {action} (roles: {named})"

    def allows(self, caller: Caller, action: str) -> bool:
        """Check whether the caller may do this now."""
        return self.refusal(caller, action) is None

    def grants_session(self, caller: Caller, action: str) -> bool:
        """Check whether the caller may use sessions of others in the same tenant in this way.

        `roles.grant("lead", "agent_session.read")` grants reading. Without any grants nobody may.
        Only grants that begin with `agent_session.`, and a role's `*`, count; the `*` of everybody
        does not.
        """
        name = SESSION_GRANT + action
        if self._grants is None or self.refusal(caller, name) is not None:
            return False
        return any(
            pattern.startswith(SESSION_GRANT) and _covers(pattern, name)
            for role in (EVERYBODY, *self.of(caller))
            for pattern in self._grants.get(role, ())
        ) or any("*" in self._grants.get(role, ()) for role in self.of(caller) if role != EVERYBODY)


def as_roles(given: object) -> Roles:
    """Convert what a Runtime was given: grants, a function of the caller, or `Roles`."""
    if given is None or is_mapping(given):
        return Roles(given)
    if isinstance(given, Roles):
        return given
    if callable(given):
        return Roles(current=cast("Resolver", given))
    raise ConfigError(f"roles is a dict of grants, fn(caller) or w.Roles, not {safe_repr(given)}")

"""The identity of a caller, passed as an argument and never ambient."""

from __future__ import annotations

from typing import Final, NoReturn

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.identifiers import check_identifier
from windlass.json_types import as_given
from windlass.records import NamedFields


class Caller(msgspec.Struct, metaclass=NamedFields, frozen=True):
    """The identity of a run: `Caller("ann", roles=("support",), tenant="acme")`.

    Without a caller, the host runs (`Caller.local()`). `Caller("local")` is a user of that name and
    not the host.
    """

    user: str
    roles: tuple[str, ...] = ()
    tenant: str | None = None

    def __post_init__(self) -> None:
        # Without a name a caller would be written down as the host is.
        user, tenant = as_given(self.user), as_given(self.tenant)
        if not isinstance(user, str) or not user:
            raise ConfigError(f"a caller's user is a name, not {safe_repr(user)}")
        # A text with an `==` of its own could equal any name.
        if type(user) is not str:
            msgspec.structs.force_setattr(self, "user", str.__str__(user))
        if isinstance(tenant, str) and type(tenant) is not str:
            msgspec.structs.force_setattr(self, "tenant", str.__str__(tenant))
        if self.tenant:
            check_identifier(self.tenant, "tenant")

    @staticmethod
    def local() -> Caller:
        """Return the identity of the host program, which may use every session."""
        return HOST_CALLER

    def __str__(self) -> str:
        user = _escape(self.user)
        if self.tenant:
            return f"{_escape(self.tenant)}/{user}"
        return f"/{user}" if user == _HOST_NAME else user


def is_host(caller: Caller | None) -> bool:
    """Check whether this is the host program itself: no caller, or `Caller.local()`."""
    return caller is None or caller is HOST_CALLER


def recorded_user(caller: Caller) -> str:
    """Return the user's name for rows without a tenant; only the host has the host's."""
    if caller is HOST_CALLER or caller.tenant is not None:
        return caller.user
    return f"/{caller.user}" if caller.user == _HOST_NAME else caller.user


def _escape(name: object) -> str:
    """Escape a name so that users of different tenants never read alike."""
    return str(name).replace("%", "%25").replace("/", "%2F")


class _Host(Caller, frozen=True):
    """The host's identity, which cannot be built from data: only this object has it."""

    def __post_init__(self) -> None:
        if "HOST_CALLER" in globals():
            raise ConfigError("the host's identity has no variants; make one: Caller('ann')")

    def __str__(self) -> str:
        return _HOST_NAME

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __copy__(self) -> Caller:
        return self

    def __deepcopy__(self, memo: object) -> Caller:
        return self

    def __reduce__(self) -> NoReturn:
        raise ConfigError("the host's identity is not sent as data; use Caller.local() there")


_HOST_NAME: Final = "local"
HOST_CALLER: Final = _Host(_HOST_NAME)

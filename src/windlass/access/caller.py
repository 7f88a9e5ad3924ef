"""Who asks. An argument from the front door to the tool, never ambient."""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True):
    """An identity: `Caller("ann", roles=("support",), tenant="acme")`."""

    user: str
    roles: tuple[str, ...] = ()
    tenant: str | None = None

    @staticmethod
    def local() -> Caller:
        """The caller of a script without identity."""
        return _LOCAL

    def __str__(self) -> str:
        return f"{self.tenant}/{self.user}" if self.tenant else self.user


_LOCAL = Caller("local")

"""The section `[store]` of `windlass.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from windlass import config

_MOST_DAYS: Final = 36_500
_LONGEST_WAIT: Final = 86_400  # seconds


class StoreConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where sessions are kept, and for how long."""

    url: str = "memory:"
    keep_days: float | None = None  # what `windlass sessions prune` keeps when no age is given
    busy_timeout: float = 30.0  # seconds to wait for another process before `Locked`

    def __post_init__(self) -> None:
        if self.keep_days is not None and not 0 <= self.keep_days <= _MOST_DAYS:
            raise ValueError(f"keep_days is between 0 and {_MOST_DAYS:,}, not {self.keep_days}")
        if not 0 <= self.busy_timeout <= _LONGEST_WAIT:
            raise ValueError(
                f"busy_timeout is between 0 and {_LONGEST_WAIT:,} seconds, not {self.busy_timeout}"
            )

    @classmethod
    def widens(cls, path: tuple[str, ...], value: object, weaker: Mapping[str, Any]) -> bool:
        """Does the setting need the user's trust? Sessions do not go to an address of the project's."""
        return path[0] == "url"

    @classmethod
    def project_problems(cls, table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
        """What even a trusted file of a project may not say: that a server is not checked."""
        url = str(table.get("url", ""))
        if url.lower().startswith(("postgresql:", "postgres:")):
            from windlass.store.postgres_address import has_weak_tls  # by who has such an address

            if has_weak_tls(url):
                yield (
                    ("url",),
                    "only code, the environment or your own file may weaken sslmode for a server that "
                    "is not on this machine",
                )


config.section("store", StoreConfig)

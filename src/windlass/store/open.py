"""Stores by URL: `open_store("sqlite:///agents.db")`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union, cast
from urllib.parse import unquote, urlsplit

import msgspec

from windlass.config import sections
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.store.base import Store
from windlass.store.memory import MemoryStore

if TYPE_CHECKING:
    from windlass.store.postgres.store import PostgresStore
    from windlass.store.sqlite.store import SqliteStore


SCHEMES = ("memory", "sqlite", "postgresql")
SUFFIXES = (".db", ".sqlite", ".sqlite3")
_SCHEMED = ("sqlite:", "memory:", "postgresql:", "postgres:")
Address: TypeAlias = Union[str, "os.PathLike[str]", Store]

_shared: dict[str, SqliteStore | PostgresStore] = {}
_sharing = threading.Lock()


def check_address(name: str, value: Any) -> Address | None:
    """Return the address of a store, or the store itself; raise `ConfigError` otherwise."""
    if value is None or isinstance(value, (str, os.PathLike)):
        return cast("Address | None", value)
    if isinstance(value, type) or not callable(getattr(value, "open", None)):
        raise ConfigError(
            f"{name} is 'memory:', 'sqlite:///name.db' or a store, not {safe_repr(value)}"
        )
    return cast("Store", value)


def open_store(
    address: Address,
    *,
    busy_timeout: float = 30.0,
    folder: str | os.PathLike[str] | None = None,
    add_tables: bool = False,
    read_only: bool = False,
) -> Store:
    """Open a store by its address; a relative file is in `folder`, else in the current one.

    Addresses: `memory:`, `sqlite:///relative.db`, `sqlite:////absolute.db`, a path that ends in
    .db, .sqlite or .sqlite3, or `postgresql://user:password@host/name`. A store is returned as it
    is. Nothing is read or written until it is used. The same address gives the same store, which
    closes when everybody who opened it has called `aclose`.

    `add_tables` and `read_only` are options of `SqliteStore`; other stores ignore them.
    """
    if not isinstance(address, (str, os.PathLike)):
        return address
    text = os.fspath(address)
    if not isinstance(text, str) or "\0" in text:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"store {text!r} is no address: a path is text without NUL")
    if isinstance(address, os.PathLike) or _is_path(text):
        return _sqlite(text, busy_timeout, folder, add_tables, read_only)
    scheme, colon, _rest = text.partition(":")
    scheme = scheme.lower()
    if scheme in ("postgresql", "postgres"):
        return _postgres(text, busy_timeout)
    if not colon or scheme not in SCHEMES:
        raise ConfigError(
            f"store {_hide_password(text)!r} is not an address{nearest(scheme, SCHEMES)}; use 'memory:', "
            "'sqlite:///name.db', 'postgresql://user@host/name' or a path that ends in .db"
        )
    if scheme == "memory":
        return MemoryStore()
    return _sqlite(_sqlite_path(text), busy_timeout, folder, add_tables, read_only)


def sqlite_file(address: str) -> str | None:
    """Return the file of a SQLite URL, as it was written: `sqlite_file("sqlite:///cache.db")`."""
    if _is_path(address):
        return address
    return _sqlite_path(address) if address.lower().startswith("sqlite:") else None


def _is_path(text: str) -> bool:
    lowered = text.lower()
    return lowered.endswith(SUFFIXES) and "://" not in text and not lowered.startswith(_SCHEMED)


def _sqlite_path(url: str) -> str:
    parts = urlsplit(url)
    path = unquote(parts.path)
    odd = parts.netloc or parts.query or parts.fragment or not url.lower().startswith("sqlite:///")
    if odd or len(path) < 2 or path.endswith("/"):
        raise ConfigError(
            f"store {url!r} names no file; write sqlite:///relative.db with three slashes, "
            "or sqlite:////absolute.db with four"
        )
    return path[1:]


def _sqlite(
    path: str,
    busy_timeout: float,
    folder: str | os.PathLike[str] | None,
    add_tables: bool,
    read_only: bool,
) -> Store:
    from windlass.store.sqlite.store import SqliteStore  # sqlite3 is imported only when it is used

    name = os.path.realpath(path if folder is None else os.path.join(folder, path))
    key = f"{name} (read only)" if read_only else name
    with _sharing:
        store = _shared.get(key)
        if store is None or not store.share():
            store = _shared[key] = SqliteStore(
                name, busy_timeout=busy_timeout, add_tables=add_tables, read_only=read_only
            )
        elif add_tables and isinstance(store, SqliteStore):
            store.allow_adding_tables()
        return store


def _postgres(url: str, busy_timeout: float) -> Store:
    from windlass.store.postgres.store import PostgresStore  # and its driver only on connect

    with _sharing:
        store = _shared.get(url)
        if store is None or not store.share():
            store = _shared[url] = PostgresStore(url, busy_timeout=busy_timeout)
        return store


def _hide_password(text: str) -> str:
    """Remove what may be a password from a URL: before an @, or among the options."""
    scheme, found, rest = text.partition("://")
    if not found:
        return text
    rest = rest.partition("?")[0]
    _before, at, after = rest.rpartition("@")
    return f"{scheme}://****@{after}" if at else f"{scheme}://{rest}"


# The section `[store]` of `windlass.toml`.


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
        """Check whether the setting needs the user's trust: a project may not redirect sessions."""
        return path[0] == "url"

    @classmethod
    def project_problems(cls, table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the settings that even a trusted project may not make: weaker TLS."""
        url = str(table.get("url", ""))
        if url.lower().startswith(("postgresql:", "postgres:")):
            from windlass.store.postgres.address import has_weak_tls  # only for such a URL

            if has_weak_tls(url):
                yield (
                    ("url",),
                    "only code, the environment or your own file may weaken sslmode for a server that "
                    "is not on this machine",
                )


sections.register("store", StoreConfig)

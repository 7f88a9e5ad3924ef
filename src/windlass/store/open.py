"""A store from its address: `open_store("sqlite:///agents.db")`."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, TypeAlias, Union

from windlass.errors import ConfigError, nearest
from windlass.store.base import Store
from windlass.store.memory import MemoryStore

if TYPE_CHECKING:
    from windlass.store.postgres import PostgresStore
    from windlass.store.sqlite import SqliteStore

SCHEMES = ("memory", "sqlite", "postgresql")
SUFFIXES = (".db", ".sqlite", ".sqlite3")
_SCHEMED = ("sqlite:", "memory:", "postgresql:", "postgres:")
Address: TypeAlias = Union[str, "os.PathLike[str]", Store]

_shared: dict[str, SqliteStore | PostgresStore] = {}
_sharing = threading.Lock()


def open_store(
    address: Address,
    *,
    busy_timeout: float = 30.0,
    folder: str | os.PathLike[str] | None = None,
    add_tables: bool = False,
    read_only: bool = False,
) -> Store:
    """The store at an address; a relative file is looked for in `folder`, else in the current one.

    `memory:`, `sqlite:///relative.db`, `sqlite:////absolute.db`, a path that ends in .db, .sqlite
    or .sqlite3, or `postgresql://user:password@host/name`. A store passes through. Nothing is read
    or written until it is used. The same address is the same store; it ends when everyone who opened it has called `aclose`.

    `add_tables` and `read_only` are those of `SqliteStore`; other stores do not look at them.
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
            f"store {_shown(text)!r} is not an address{nearest(scheme, SCHEMES)}; use 'memory:', "
            "'sqlite:///name.db', 'postgresql://user@host/name' or a path that ends in .db"
        )
    if scheme == "memory":
        return MemoryStore()
    return _sqlite(_sqlite_path(text), busy_timeout, folder, add_tables, read_only)


def sqlite_file(address: str) -> str | None:
    """The file that an address names, as it was written: `sqlite_file("sqlite:///cache.db")`."""
    if _is_path(address):
        return address
    return _sqlite_path(address) if address.lower().startswith("sqlite:") else None


def _is_path(text: str) -> bool:
    lowered = text.lower()
    return lowered.endswith(SUFFIXES) and "://" not in text and not lowered.startswith(_SCHEMED)


def _sqlite_path(url: str) -> str:
    from urllib.parse import unquote, urlsplit

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
    from windlass.store.sqlite import SqliteStore  # sqlite3 is loaded only by who uses it

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
    from windlass.store.postgres import PostgresStore  # and its driver only by who connects

    with _sharing:
        store = _shared.get(url)
        if store is None or not store.share():
            store = _shared[url] = PostgresStore(url, busy_timeout=busy_timeout)
        return store


def _shown(text: str) -> str:
    """An address without what may be a password: before an @, or among the options."""
    scheme, found, rest = text.partition("://")
    if not found:
        return text
    rest = rest.partition("?")[0]
    _before, at, after = rest.rpartition("@")
    return f"{scheme}://****@{after}" if at else f"{scheme}://{rest}"

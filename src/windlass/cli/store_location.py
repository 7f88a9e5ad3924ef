"""Where the command line keeps sessions, and how a session is found by the beginning of its id."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from windlass.errors import NoSuchSession, nearest
from windlass.files import open_private
from windlass.redaction.redactor import mask_url

if TYPE_CHECKING:
    from windlass.store.base import SessionInfo, Store

FOLDER = ".windlass"
FILE = "sessions.db"


class Place(NamedTuple):
    """An address of a store; `file` is the one it is kept in, if it is kept in one."""

    url: str
    file: Path | None
    busy_timeout: float
    own: bool  # nobody chose it: it is ours to make

    @property
    def exists(self) -> bool:
        """Is there anything to read? Of a server that is known when it is asked."""
        return self.file.exists() if self.file is not None else _on_server(self.url)

    @property
    def shown(self) -> str:
        """Where it is, without a password."""
        return mask_url(self.url).partition("?")[0] if self.file is None else str(self.file)

    def open(self, *, read_only: bool = False) -> Store:
        """The store; nothing is made on disk before something is written."""
        from windlass.store import open_store

        if not self.own or self.file is None:
            return open_store(self.url, busy_timeout=self.busy_timeout, read_only=read_only)
        from windlass.cli.default_store import check_default, id_of
        from windlass.store.sqlite.store import SqliteStore

        check_default(self.file)
        store = open_store(self.url, busy_timeout=self.busy_timeout, read_only=read_only)
        assert isinstance(store, SqliteStore)
        store.require_id(id_of)
        return store

    def prepare(self) -> None:
        """Make the folder of the default place, and keep conversations out of version control."""
        if self.own and self.file is not None and not self.file.parent.exists():
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(open_private(self.file.parent / ".gitignore"), "w") as ignored:
                ignored.write("*\n")


def find_place(given: str | None) -> Place:
    """The store that is meant: as given, else `[store]` of windlass.toml, else `.windlass/`.

    The last is in the project's folder: that of the nearest windlass.toml upward, else this one.
    """
    from windlass.config.loader import load
    from windlass.store.open import StoreConfig

    config = load()
    settings = config.get(StoreConfig)
    if given is not None:
        return _at(given, Path.cwd(), settings.busy_timeout)
    origin = next(s.origin for s in config.explain() if (s.section, s.key) == ("store", "url"))
    if origin != "built-in":
        return _at(settings.url, config.folder(StoreConfig, "url"), settings.busy_timeout)
    folder = config.project.parent if config.project is not None else Path.cwd()
    file = folder / FOLDER / FILE
    return Place(str(file), file, settings.busy_timeout, True)


def _at(address: str, folder: Path, busy_timeout: float) -> Place:
    """A relative file in a configuration is relative to the folder of the configuration."""
    from windlass.store import open_store
    from windlass.store.open import SUFFIXES

    head, _, rest = address.partition("///")
    if head.lower() == "sqlite:" and rest:
        file = folder / rest
        if rest.lower().endswith(SUFFIXES):
            return Place(str(file), file, busy_timeout, False)
        return Place(f"sqlite:///{file}", file, busy_timeout, False)
    if "://" not in address and address.lower().endswith(SUFFIXES):
        file = folder / address
        return Place(str(file), file, busy_timeout, False)
    if _on_server(address):
        from windlass.store.postgres.address import Address

        return Place(Address(address).url, None, busy_timeout, False)
    open_store(address)  # refuses what is no address, in its own words
    return Place(address, None, busy_timeout, False)


def _on_server(address: str) -> bool:
    return address.lower().startswith(("postgresql:", "postgres:"))


async def match(store: Store, wanted: str) -> str:
    """The id that is meant: whole, or as much of its beginning as tells it from all others."""
    return pick(await store.sessions(), wanted)


def pick(infos: Sequence[SessionInfo], wanted: str) -> str:
    """The one id that begins so; `session_` in front may be left out."""
    ids = [info.id for info in infos]
    if wanted in ids:
        return wanted
    found = [id for id in ids if id.startswith((wanted, f"session_{wanted}"))] if wanted else []
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(found[:4]) + (", …" if len(found) > 4 else "")
        raise NoSuchSession(
            f"{len(found)} sessions begin with {wanted!r}: {some}; write more of it"
        )
    hint = nearest(wanted, ids) or "; `windlass sessions list` shows what there is"
    raise NoSuchSession(f"no session {wanted!r}{hint}")

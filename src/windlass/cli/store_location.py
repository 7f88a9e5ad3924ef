"""The store of the command line, and sessions by the beginning of their ids."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from windlass.config.loader import load
from windlass.config.trust import user_folder
from windlass.errors import NoSuchSession, StoreError, nearest
from windlass.files import open_private, owner_problem
from windlass.redaction.redactor import mask_url
from windlass.store import open_store
from windlass.store.open import SUFFIXES, StoreConfig
from windlass.store.postgres.address import Address
from windlass.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from windlass.store.base import SessionInfo, Store

T = TypeVar("T")

FOLDER = ".windlass"
FILE = "sessions.db"
_RECORDS: Final = "stores"


class Place(NamedTuple):
    """The URL of a store, and its file, if it has one."""

    url: str
    file: Path | None
    busy_timeout: float
    own: bool  # the default place, created on demand

    @property
    def exists(self) -> bool:
        """Whether there is anything to read; of a server that is known only later."""
        return self.file.exists() if self.file is not None else _on_server(self.url)

    @property
    def shown(self) -> str:
        """The location without a password."""
        return mask_url(self.url).partition("?")[0] if self.file is None else str(self.file)

    def open(self, *, read_only: bool = False) -> Store:
        """Open the store; nothing is created on disk before something is written."""
        if not self.own or self.file is None:
            return open_store(self.url, busy_timeout=self.busy_timeout, read_only=read_only)
        check_default(self.file)
        store = open_store(self.url, busy_timeout=self.busy_timeout, read_only=read_only)
        assert isinstance(store, SqliteStore)
        store.require_id(id_of)
        return store

    def prepare(self) -> None:
        """Create the folder of the default place, and keep it out of version control."""
        if self.own and self.file is not None and not self.file.parent.exists():
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(open_private(self.file.parent / ".gitignore"), "w") as ignored:
                ignored.write("*\n")


def find_place(given: str | None) -> Place:
    """Return the store as given, else `[store]` of windlass.toml, else `.windlass/`.

    The last is in the project's folder: that of the nearest windlass.toml upward, else this one.
    """
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
    """Resolve a relative file against the folder of its configuration."""
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
        return Place(Address(address).url, None, busy_timeout, False)
    open_store(address)  # refuses what is no URL
    return Place(address, None, busy_timeout, False)


def _on_server(address: str) -> bool:
    return address.lower().startswith(("postgresql:", "postgres:"))


async def match(store: Store, wanted: str) -> str:
    """Find the session's id: whole, or a beginning that no other has."""
    return pick(await store.sessions(), wanted)


def pick(infos: Sequence[SessionInfo], wanted: str) -> str:
    """Find the one id that begins so; `session_` in front may be left out."""
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


# --------------------------------------------------------------------------- default stores
#
# `.windlass/sessions.db` lies in a project's folder, and a folder can be a download. A store there is
# opened only if its id is the one that was recorded, outside of the project, when it was made.


def check_default(file: Path) -> None:
    """Raise `StoreError` if the store or its folder is a link, or writable by others."""
    for each in (file.parent, file):
        if not os.path.lexists(each):
            continue
        problem = "it is a symbolic link" if each.is_symlink() else owner_problem(each)
        if problem is not None:
            raise StoreError(
                f"{each}: {problem}; sessions are not kept there. Name another store with --store, "
                "or remove it"
            )


def id_of(file: Path) -> str:
    """Return the recorded id of the store in this file; a new file gets one."""
    folder = user_folder(os.environ)
    if folder is None:
        raise StoreError(
            f"{file}: no record of it can be kept: set HOME, or name a store with --store"
        )
    name = os.path.realpath(file)
    record = folder / _RECORDS / hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    try:
        if not record.exists():
            if os.path.lexists(file):
                raise StoreError(
                    f"{file}: you did not make this store (there is no record of it); name it with "
                    f"--store {file} if you know who made it, or remove it"
                )
            _record(record)
        if problem := owner_problem(record):
            raise StoreError(f"{record}: {problem}; remove it")
        return record.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{record}: the record of {file} cannot be kept or read ({error}); name a store with --store"
        ) from error


def _record(record: Path) -> None:
    """Write a new id, once also when two processes create the store at the same time."""
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = record.with_name(f".{record.name}.{secrets.token_hex(4)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(16))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, record)
        except FileExistsError:
            pass
    finally:
        beside.unlink(missing_ok=True)


def at_place(
    place: Place, work: Callable[[Store], Coroutine[Any, Any, T]], *, writes: bool = False
) -> T:
    """Open the store, for reading only unless the work `writes`; work on it, close it."""

    async def inside() -> T:
        home = place.open(read_only=not writes)
        try:
            return await work(home)
        finally:
            await home.aclose()

    return asyncio.run(inside())


def on_session(
    store: str | None,
    id: str,
    work: Callable[[Store, str], Coroutine[Any, Any, T]],
    *,
    writes: bool = False,
) -> T:
    """Find the session and work on it."""
    place = find_place(store)
    if not place.exists:
        raise NoSuchSession(f"no session {id!r}: nothing is kept in {place.shown}")

    async def find_and_run(home: Store) -> T:
        return await work(home, await match(home, id))

    return at_place(place, find_and_run, writes=writes)

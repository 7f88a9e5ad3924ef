"""Which default stores this user has made: a record beside the user's own configuration.

`.windlass/sessions.db` lies in a project's folder, and a folder can be a download. A store there is
opened only if its id is the one that was recorded, outside of the project, when it was made.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import Final

from windlass.config.trust import user_folder
from windlass.errors import StoreError
from windlass.files import owner_problem

_FOLDER: Final = "stores"


def check_default(file: Path) -> None:
    """Raise `StoreError` if the store or its folder is a link, or somebody else can write to it."""
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
    """The recorded id of the store in this file; a file that is not there yet gets one now."""
    folder = user_folder(os.environ)
    if folder is None:
        raise StoreError(
            f"{file}: no record of it can be kept: set HOME, or name a store with --store"
        )
    name = os.path.realpath(file)
    record = folder / _FOLDER / hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
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
    """Write a new id, once: of two processes that make the store at once, one does."""
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

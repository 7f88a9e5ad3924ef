"""The content of a file of the workspace: read with its digest, replaced only if it is still that."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import msgspec

from windlass.loop.call_diff import SHOWS_DIFF
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.spans import DIGEST_LENGTH, digest_of
from windlass.toolbox.sandbox.atomic import write_atomically
from windlass.toolbox.sandbox.path_errors import FileChanged, PathRefused
from windlass.toolbox.sandbox.paths import Fingerprint, Workspace

P = ParamSpec("P")
R = TypeVar("R")
#: Annotations of tools that change files of the workspace alone, and show what is in them.
FILE_LABELS: Final = {
    "contained": True,
    "result": "untrusted",
    "file_digest": True,
    SHOWS_DIFF: True,
}
LARGEST_TEXT: Final = 10_000_000  # bytes of a file that is changed


class FileContent(msgspec.Struct, frozen=True):
    """A file as it was read."""

    data: bytes
    fingerprint: Fingerprint
    shown: str


def read_content(workspace: Workspace, path: str, digest: str | None = None) -> FileContent:
    """Read a file; `EditRefused` if it is not as it was when its digest was shown."""
    most = LARGEST_TEXT
    try:
        with workspace.open_read(path) as file:
            data = file.read(most + 1)
            status = os.fstat(file.fileno())
        shown = workspace.display(path)
    except PathRefused as error:
        raise EditRefused("file", str(error)) from None
    if len(data) > most:
        raise EditRefused("file", f"{shown} has over {most:,} bytes, which is too much for an edit")
    check_digest(shown, data, digest)
    whole = hashlib.sha256(data).hexdigest()
    fingerprint = Fingerprint(status.st_dev, status.st_ino, len(data), status.st_mtime_ns, whole)
    return FileContent(data, fingerprint, shown)


def check_digest(shown: str, data: bytes, digest: str | None) -> None:
    """Raise `EditRefused` if the content is not the one that had the digest."""
    if digest is None:
        return
    given = digest.strip().removeprefix("sha256:").lower()
    now = digest_of(data)
    if len(given) < DIGEST_LENGTH or not given[:DIGEST_LENGTH] == now:
        raise EditRefused(
            "changed",
            f"{shown} changed since it was read (its digest was {digest[:64]}, now it is {now}); "
            "read it again",
        )


def replace_content(workspace: Workspace, path: str, data: bytes, expect: Fingerprint) -> None:
    """Replace a file at once; `EditRefused` if it is not as it was read."""
    try:
        write_atomically(workspace, path, data, expect=expect, create=False)
    except FileChanged as error:
        raise EditRefused("changed", str(error)) from None
    except PathRefused as error:
        raise EditRefused("file", str(error)) from None


@asynccontextmanager
async def hold_file(workspace: Workspace, path: str) -> AsyncGenerator[None]:
    """Hold back other calls that change the same file: of two at once the second would be refused."""
    async with _lock_of(id(asyncio.get_running_loop()), workspace, path):
        yield


def _lock_of(loop: int, workspace: Workspace, path: str) -> asyncio.Lock:
    key = (loop, workspace.anchor, os.path.normpath(path))
    lock = _locks.get(key)
    if lock is None:
        lock = _locks[key] = asyncio.Lock()
    return lock


_locks: WeakValueDictionary[tuple[int, str, str], asyncio.Lock] = WeakValueDictionary()


async def finish_in_thread(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a function in a thread to its end, also when the call is cancelled meanwhile."""
    task = asyncio.ensure_future(asyncio.to_thread(fn, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if task.done() and not task.cancelled():
            task.exception()  # nobody else hears of it
        raise

"""Anchors: places for seals outside of the store, and how they are read back."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias, Union, cast, runtime_checkable

import msgspec

from windlass.config import sections
from windlass.errors import ConfigError, safe_repr
from windlass.files import LARGEST_EXPORT, open_private, read_regular
from windlass.store.seals import Seal

_encoder = msgspec.json.Encoder()
_BEGINNING = b'{"tenant":'  # of every seal


@runtime_checkable
class Anchor(Protocol):
    """A place of your own for seals: `put` stores one, `get` returns all.

    ```python
    class Bucket:
        def put(self, seal: w.Seal) -> None:        # or async
            s3.put_object(Key=f"{seal.tenant}/{seal.number}", Body=msgspec.json.encode(seal))

        def get(self) -> list[w.Seal]:              # or async
            ...

    w.Runtime(store="sqlite:///shop.db", audit_anchor=Bucket())
    ```
    The same seal may be put twice. A `put` that raises is tried again with the next seal.
    """

    def put(self, seal: Seal, /) -> object:
        """Store the seal; may be async."""
        ...

    def get(self) -> object:
        """Return all stored seals; may be async."""
        ...


AuditAnchor: TypeAlias = Union[str, "os.PathLike[str]", Callable[[Seal], object], Anchor]


class AnchorContents(msgspec.Struct, frozen=True):
    """The contents of an anchor: seals, and invalid lines."""

    seals: tuple[Seal, ...]
    problems: tuple[str, ...] = ()


class FileAnchor:
    """Seals in a file, one JSON line each: put it where the store's owner cannot write."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return str(self.path)

    def put(self, seal: Seal) -> None:
        """Append the seal, on disk when this returns."""
        self.put_all((seal,))

    def put_all(self, seals: Iterable[Seal]) -> None:
        """Append several seals in one write."""
        lines = b"".join(_encoder.encode(seal) + b"\n" for seal in seals)
        descriptor = open_private(self.path, append=True)
        try:
            if os.fstat(descriptor).st_size:
                self._check_beginning(os.read(descriptor, 4096))
                os.lseek(descriptor, -1, os.SEEK_END)
                if os.read(descriptor, 1) != b"\n":  # a write was cut off here
                    lines = b"\n" + lines
            while lines:
                lines = lines[os.write(descriptor, lines) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _check_beginning(self, text: bytes) -> None:
        """Check that the file begins with a seal, so that no other file is appended to."""
        while (first := text.partition(b"\n"))[1] and first[0] and _BEGINNING.startswith(first[0]):
            text = first[2]  # a write that was cut off at once, and was made again
        if not (text.startswith(_BEGINNING) or _BEGINNING.startswith(text)):
            raise OSError(
                None, "it does not begin with a seal; name a file of its own", str(self.path)
            )

    def get(self) -> AnchorContents:
        """Read all seals of the file; an invalid line is a problem, unless it was written again."""
        try:
            lines = read_regular(self.path, LARGEST_EXPORT).split(b"\n")
        except FileNotFoundError:
            return AnchorContents((), (f"the anchor {self.path} is not there",))
        seals: list[Seal] = []
        problems: list[str] = []
        decode = msgspec.json.Decoder(Seal).decode
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                seals.append(decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                if not any(later.startswith(line) for later in lines[number:]):
                    problems.append(f"line {number} of the anchor {self.path} is no seal")
        return AnchorContents(tuple(seals), tuple(problems))


def as_anchor(given: AuditAnchor, folder: Path | None = None) -> FileAnchor | Anchor:
    """Convert `audit_anchor=`: a file (relative to `folder`), a callable, or an object."""
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(cast("str | os.PathLike[str]", given))
        if not isinstance(path, str) or not path.strip() or "\0" in path:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"audit_anchor {path!r} is no path; name a file for the seals")
        return FileAnchor(path if folder is None else folder / path)
    if isinstance(given, Anchor):
        return given
    if callable(given):
        return _CallableAnchor(given)
    raise ConfigError(
        f"audit_anchor is a path, a callable that takes a seal, or an object with put and get, "
        f"not {safe_repr(given)}"
    )


class _CallableAnchor:
    """A callable as an anchor, which cannot be read back."""

    def __init__(self, put: Callable[[Seal], object]) -> None:
        self.put = put

    def get(self) -> None:
        """Return None: a callable cannot be read back."""
        return


async def put(anchor: FileAnchor | Anchor, seals: Sequence[Seal], pool: Executor) -> int:
    """Anchor the seals in order; return how many were anchored.

    What is synchronous runs in the pool: it may wait for a disk or a network.
    """
    loop = asyncio.get_running_loop()
    if isinstance(anchor, FileAnchor):
        await loop.run_in_executor(pool, anchor.put_all, seals)
        return len(seals)
    for seal in seals:
        await _call_anchor(anchor.put, pool, seal)
    return len(seals)


async def get(anchor: FileAnchor | Anchor, pool: Executor | None = None) -> AnchorContents | None:
    """Return the contents of the anchor; None when it cannot be read back."""
    found: Any = await _call_anchor(anchor.get, pool)
    if found is None or isinstance(found, AnchorContents):
        return found
    seals: list[Seal] = []
    for seal in found:
        if not isinstance(seal, Seal):
            raise ConfigError(f"audit_anchor: get() returns seals, not {safe_repr(seal)}")
        seals.append(seal)
    return AnchorContents(tuple(seals))


async def _call_anchor(function: Callable[..., Any], pool: Executor | None, *args: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(pool, function, *args)
    return await found if inspect.isawaitable(found) else found


# The section `[audit]` of `windlass.toml`.


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where seals are anchored, and how often the chains of active runs are sealed."""

    anchor: str | None = None  # a file outside of the store
    every: Annotated[float, msgspec.Meta(gt=0)] = 60.0  # seconds; also at the end of each run

    @classmethod
    def widens(cls, path: tuple[str, ...], value: object, weaker: Mapping[str, Any]) -> bool:
        """Check whether the setting needs the user's trust: the anchor is a file that is written."""
        return True


sections.register("audit", AuditConfig)

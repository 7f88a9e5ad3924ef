"""What a process did that it should not: connections, writes and code outside of what a user configured.

`Detector` is an audit hook: it sees what Python does, and refuses what is forbidden, so that nothing
leaves the machine. `snapshot` sees what a library below Python did to files.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NOT_FOLLOWED: Final = os.O_NOFOLLOW | os.O_EXCL
_HASHED: Final = 8_000_000  # bytes of a file that is read for a snapshot


class Fault(NamedTuple):
    """One forbidden act: `Fault("connect", "127.0.0.1:80")`."""

    kind: str
    what: str


class Detector:
    """The hook of this process: `sys.addaudithook(Detector(…))`; it cannot be taken out again."""

    def __init__(
        self, *, address: tuple[str, int], writable: Iterable[str], sources: Iterable[str]
    ) -> None:
        self.address = address  # the only one that the user configured
        self.writable = tuple(writable)  # folders that end in a separator, and files
        self.sources = tuple(sources)  # folders whose code must not run
        self.may_start: Callable[[list[str]], bool] = lambda _command: False
        self.named: frozenset[str] = frozenset()  # files whose code the user named
        self.stores: frozenset[str] = frozenset()  # databases that the user named
        self.faults: list[Fault] = []
        self.connections: list[str] = []
        self.active = True
        self._inside = False

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        look = _LOOKS.get(event)
        if look is None or not self.active or self._inside:
            return
        self._inside = True  # looking opens files, too
        try:
            fault = look(self, *args)
        finally:
            self._inside = False
        if fault is not None:
            self.faults.append(fault)
            raise PermissionError(f"forbidden here: {fault.kind} {fault.what}")

    def take(self) -> list[Fault]:
        """Return the faults since the last time."""
        found, self.faults = self.faults, []
        return found

    # ----------------------------------------------------------------- connections

    def _connect(self, _socket: Any, address: Any) -> Fault | None:
        if isinstance(address, tuple) and tuple(address[:2]) == self.address:
            self.connections.append(f"{address[0]}:{address[1]}")
            return None
        return Fault("connect", str(address))

    def _look_up(self, host: Any, *_rest: Any) -> Fault | None:
        host = host.decode() if isinstance(host, bytes) else host
        return None if host in (None, self.address[0]) else Fault("look up", str(host))

    def _bind(self, _socket: Any, address: Any) -> Fault | None:
        return Fault("listen", str(address)) if isinstance(address, tuple) else None

    # ----------------------------------------------------------------- files

    def _open(self, path: Any, mode: Any, flags: Any) -> Fault | None:
        if isinstance(path, int) or not flags & _WRITES:
            return None
        return self._change("write", path, followed=not flags & _NOT_FOLLOWED)

    def _change(
        self, kind: str, path: Any, *, followed: bool = False, folder: int = -1
    ) -> Fault | None:
        if isinstance(path, int):
            return None
        start = os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else ""
        place = os.path.abspath(os.path.join(start, os.fsdecode(path)))
        above, name = os.path.split(place)
        place = os.path.realpath(place) if followed else os.path.join(os.path.realpath(above), name)
        if place == os.devnull or f"{place}/".startswith(self._folders) or place in self.writable:
            return None
        return Fault(kind, place)

    @property
    def _folders(self) -> tuple[str, ...]:
        return tuple(each for each in self.writable if each.endswith("/"))

    def _one(self, path: Any, *_rest: Any) -> Fault | None:
        return self._change("change", path)

    def _one_in(self, path: Any, *rest: Any) -> Fault | None:
        return self._change("change", path, folder=rest[-1])

    def _new_folder(self, path: Any, _mode: int, folder: int) -> Fault | None:
        there = folder < 0 and os.path.isdir(path)  # then nothing happens
        return None if there else self._change("change", path, folder=folder)

    def _two(self, source: Any, target: Any, from_folder: int, to_folder: int) -> Fault | None:
        found = self._change("change", source, folder=from_folder)
        return found or self._change("change", target, folder=to_folder)

    def _new_link(self, _source: Any, target: Any, *rest: Any) -> Fault | None:
        return self._change("change", target, folder=rest[-1])

    def _database(self, path: Any) -> Fault | None:
        text = os.fsdecode(path)
        if text.startswith("file:"):
            text = os.fsdecode(unquote_to_bytes(text.removeprefix("file:").partition("?")[0]))
        if text in ("", ":memory:") or os.path.realpath(text) in self.stores:
            return None
        return self._change("database", text, followed=True)

    # ----------------------------------------------------------------- code

    def _execute(self, code: Any) -> Fault | None:
        return self._source(getattr(code, "co_filename", ""))

    def _import(self, _module: str, filename: Any, *_rest: Any) -> Fault | None:
        return self._source(filename) if isinstance(filename, str) else None

    def _source(self, filename: str) -> Fault | None:
        if filename.startswith("<"):  # made from text
            return None
        place = os.path.realpath(filename)
        if place.startswith(self.sources) and place not in self.named:
            return Fault("run code", place)
        return None

    def _start(self, executable: Any, command: Any, *_rest: Any) -> Fault | None:
        words = (
            [os.fsdecode(word) for word in command] if not isinstance(command, str) else [command]
        )
        return None if self.may_start(words) else Fault("start", str(words or executable))

    def _shell(self, *command: Any) -> Fault | None:
        return Fault("start", str(command))

    def _library(self, name: Any, *_rest: Any) -> Fault | None:
        return self._source(os.fsdecode(name)) if isinstance(name, (str, bytes)) else None


_LOOKS: Final[dict[str, Callable[..., Fault | None]]] = {
    "socket.connect": Detector._connect,
    "socket.sendto": Detector._connect,
    "socket.getaddrinfo": Detector._look_up,
    "socket.gethostbyname": Detector._look_up,
    "socket.bind": Detector._bind,
    "open": Detector._open,
    "os.remove": Detector._one_in,
    "os.rmdir": Detector._one_in,
    "os.mkdir": Detector._new_folder,
    "os.chmod": Detector._one_in,
    "os.chown": Detector._one_in,
    "os.truncate": Detector._one,
    "os.utime": Detector._one_in,
    "os.setxattr": Detector._one,
    "os.rename": Detector._two,
    "os.link": Detector._new_link,
    "os.symlink": Detector._new_link,
    "sqlite3.connect": Detector._database,
    "exec": Detector._execute,
    "import": Detector._import,
    "ctypes.dlopen": Detector._library,
    "subprocess.Popen": Detector._start,
    "os.posix_spawn": Detector._start,
    "os.exec": Detector._start,
    "os.system": Detector._shell,
    "os.fork": Detector._shell,
}


def modules_from(folders: Iterable[str]) -> list[str]:
    """List the modules of this process that came from these folders."""
    prefixes = tuple(folders)
    return sorted(
        name
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None))
        and os.path.realpath(file).startswith(prefixes)
    )


# --------------------------------------------------------------------------- trees


def snapshot(root: Path, skipped: Iterable[Path] = ()) -> dict[str, tuple[Any, ...]]:
    """Return kind, mode, owner, time and content of every file but the skipped ones."""
    left_out = {str(path) for path in skipped}
    found: dict[str, tuple[Any, ...]] = {}
    todo = [str(root)]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.path in left_out:
                    continue
                found[entry.path] = _state(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
    return found


def _state(path: str) -> tuple[Any, ...]:
    about = os.lstat(path)
    common = (stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode), about.st_uid, about.st_ino)
    if stat.S_ISLNK(about.st_mode):
        return (*common, os.readlink(path))
    if stat.S_ISREG(about.st_mode):
        content = Path(path).read_bytes() if about.st_size <= _HASHED else b""
        digest = hashlib.sha256(content).hexdigest()
        return (*common, about.st_size, about.st_mtime_ns, about.st_nlink, digest)
    return common


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """List what was created, changed and removed."""
    made = [f"made {path}" for path in after.keys() - before.keys()]
    gone = [f"removed {path}" for path in before.keys() - after.keys()]
    kept = before.keys() & after.keys()
    return sorted(made + gone + [f"changed {path}" for path in kept if before[path] != after[path]])

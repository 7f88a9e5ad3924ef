"""Two Postgres servers on loopback: a primary, and a standby that has all that was acknowledged."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

from windlass.testing.postgres import Server

_PRIMARY: Final = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "hot_standby": "on",
    "autovacuum": "on",
}


class Pair:
    """A primary and its synchronous standby on loopback."""

    def __init__(self, folder: Path) -> None:
        ports = _find_ports(2)
        waits = {"synchronous_standby_names": "*", "synchronous_commit": "on"}
        self.primary = Server(folder / "a", settings={**_PRIMARY, "port": ports[0], **waits})
        self.standby = Server(folder / "b", settings={**_PRIMARY, "port": ports[1]})

    def start(self) -> None:
        """Start both, and wait until commits wait for the standby."""
        self.primary.create()
        self.primary.start()
        self.standby.copy_from(self.primary)
        self.standby.start()
        self.wait_until_synchronous()

    def wait_until_synchronous(self) -> None:
        """Wait until the primary counts on the standby."""
        until = time.monotonic() + 30
        while self.primary.sql("SELECT sync_state FROM pg_stat_replication") != "sync":
            assert time.monotonic() < until, "the standby does not follow"
            time.sleep(0.02)

    def url(self, schema: str) -> str:
        """Return the address with both hosts, the first primary first."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in (self.primary, self.standby))
        return f"postgresql://windlass@{hosts}/postgres?search_path={schema}"


def _find_ports(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in free:
            one.bind(("127.0.0.1", 0))
        return [str(one.getsockname()[1]) for one in free]


@contextlib.contextmanager
def open_pair() -> Generator[Pair]:
    """Start a primary and a standby."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="windlass-pair-", dir=place) as folder:
        os.chmod(folder, 0o755)  # servers that root starts run as another user
        pair = Pair(Path(folder))
        try:
            pair.start()
            yield pair
        finally:
            for server in (pair.primary, pair.standby):
                server.signal_all(signal.SIGCONT)
                server.stop()

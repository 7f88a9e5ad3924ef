"""Worker processes that are hurt: killed, frozen, told to end, or cut off from their server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.fleet import shop

ROOT = Path(__file__).parents[2]


@dataclass(eq=False)
class Member:
    """A worker process."""

    process: subprocess.Popen[bytes]
    log: Path
    began: float = field(default_factory=time.time)
    frozen: bool = False

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    @property
    def is_serving(self) -> bool:
        """Whether it has said that it serves."""
        return self.is_alive and b"serving" in self.log.read_bytes()

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """Stop it where it is."""
        self.frozen = True
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on as if nothing had happened."""
        self.frozen = False
        if self.is_alive:
            os.kill(self.pid, signal.SIGCONT)

    def tell_to_end(self) -> None:
        """Ask it to end, as a deploy does."""
        self.process.send_signal(signal.SIGTERM)

    async def wait(self, seconds: float = 60.0) -> int:
        """Wait for its end; return its code."""
        return await asyncio.to_thread(self.process.wait, seconds)


class Crew:
    """The workers of one store."""

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        engine: str = "local",
        lease: float = 3.0,
        slots: int = 20,
        pace: float = 0.05,
    ) -> None:
        self.url, self.folder, self.engine, self.lease = url, folder, engine, lease
        self.slots = slots
        self.members: list[Member] = []
        self._environ = {
            **os.environ,
            shop.FOLDER: str(folder),
            shop.PACE: str(pace),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }

    def start(self, target: str = "agents", url: str | None = None) -> Member:
        """Start a worker for a list of the shop's agents, or for those of `MODULE:OBJECT`."""
        place = target if ":" in target else f"tests.fleet.shop:{target}"
        line = [sys.executable, "-m", "windlass", "worker", place]
        line += ["--store", url or self.url, "--concurrency", str(self.slots)]
        line += ["--grace", str(0.7 * self.lease)]
        if self.engine != "local":
            line += ["--fleet", self.engine, "--lease", str(self.lease)]
        log = self.folder / f"worker-{len(self.members)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                line,
                cwd=ROOT,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        member = Member(process, log)
        self.members.append(member)
        return member

    @property
    def alive(self) -> list[Member]:
        """Those that run, and are not frozen."""
        return [member for member in self.members if member.is_alive and not member.frozen]

    async def wait_until_serving(self, *members: Member, seconds: float = 180.0) -> None:
        """Wait until workers serve."""
        until = time.monotonic() + seconds
        while not all([member.is_serving for member in members]):
            for member in members:
                assert member.is_alive, member.log.read_text()
            assert time.monotonic() < until, "a worker does not serve"
            await asyncio.sleep(0.02)

    def end(self) -> None:
        """Kill all that are left."""
        for member in self.members:
            if member.is_alive:
                member.kill()

    def read_logs(self) -> str:
        """Return what all workers have said."""
        return "\n".join([f"{one.log.name}:\n{one.log.read_text()}" for one in self.members])


class Proxy:
    """A door on loopback to the socket of a server, which can be shut: what is sent then waits."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listen; return the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def shut(self) -> None:
        """Let nothing through, in neither direction, and end no connection."""
        self._open.clear()

    def reopen(self) -> None:
        """Let through what has waited."""
        self._open.set()

    async def aclose(self) -> None:
        """End all connections."""
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._open.wait()
            inner, outer = await asyncio.open_unix_connection(self._socket)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, outer))
                group.create_task(self._pump(inner, writer))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while data := await reader.read(65536):
                await self._open.wait()
                writer.write(data)
                await writer.drain()

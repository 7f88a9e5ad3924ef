"""The standard streams of a server process, as a transport of the SDK.

The SDK's own transport reads a message of any size and copies it for each part that arrives, writes the
server's errors to ours, and leaves the server alive when this process is killed. This one does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from windlass.mcp.client.message import MOST_BYTES, limit_parts, refuse_bytes
from windlass.mcp.client.process import Process

log = logging.getLogger("windlass.mcp")

_PART: Final = 1 << 16
_TAIL_LINES: Final = 20
_LOGGED_PER_MINUTE: Final = 200  # lines of a server's standard error


class ErrorLog:
    """The standard error of a server: its last lines, and the log with a limit on lines."""

    def __init__(self, server: str, clean: Callable[[str], str]) -> None:
        self.server, self.lines = server, deque[str](maxlen=_TAIL_LINES)
        self._clean, self._left, self._since = clean, _LOGGED_PER_MINUTE, 0.0

    @property
    def tail(self) -> str:
        """The last lines, without secrets."""
        return "\n".join(self.lines)

    def add(self, line: str, now: float) -> None:
        """Take a line; beyond the limit of a minute it is kept for the tail, and not logged."""
        line = self._clean(line[:2000])
        self.lines.append(line)
        if now - self._since > 60:
            self._since, self._left = now, _LOGGED_PER_MINUTE
        self._left -= 1
        if self._left > 0:
            log.info("%s: %s", self.server, line)
        elif self._left == 0:
            log.warning(
                "%s: writes too much to its standard error; the rest of it is left out", self.server
            )


@asynccontextmanager
async def open_stdio(
    process: Process, errors: ErrorLog, on_end: Callable[[], None]
) -> AsyncGenerator[TransportStreams]:
    """Exchange messages with a server that is running; its end is the end of the transport."""
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read_messages(process, incoming, on_end)),
        asyncio.create_task(_write_messages(process, outgoing)),
        asyncio.create_task(_read_errors(process, errors)),
    ]
    try:
        yield read, write
    finally:
        read.close()
        write.close()
        try:
            await process.end()
        finally:
            process.kill()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            incoming.close()
            outgoing.close()


async def _read_messages(
    process: Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    on_end: Callable[[], None],
) -> None:
    lines = LineBuffer()
    try:
        while part := await process.stdout.read(_PART):
            for line in lines.feed(part):
                await incoming.send(line)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        while await process.stdout.read(_PART):  # a server that cannot write does not end
            pass
    finally:
        incoming.close()
        on_end()


class LineBuffer:
    """Parts of the output as messages; one that is too large becomes the error of its request."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._parts: list[bytes] = []
        self._size, self._most = 0, most
        self._head, self._tail = b"", b""

    def feed(self, part: bytes) -> list[SessionMessage | Exception]:
        """Take the next part; return the messages that are complete."""
        *ends, rest = part.split(b"\n")
        found: list[SessionMessage | Exception] = []
        for end in ends:
            self._add(end)
            message = self._finish()
            if message is not None:
                found.append(message)
        self._add(rest)
        return found

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._most:
            self._parts.append(part)
            return
        if self._parts:
            self._head = b"".join(self._parts)[:512]
            self._parts = []
        self._tail = (self._tail + part)[-512:]

    def _finish(self) -> SessionMessage | Exception | None:
        size, data, head, tail = self._size, b"".join(self._parts), self._head, self._tail
        self._parts, self._size, self._head, self._tail = [], 0, b"", b""
        if size > self._most:
            words = f"the answer is larger than {self._most >> 20} MB ({size:,} bytes)"
            return refuse_bytes(words, head, tail)
        if not data.strip():
            return None
        try:
            read = types.jsonrpc_message_adapter.validate_json(data, by_name=False)
            return limit_parts(SessionMessage(read))
        except ValueError as error:
            log.warning("a message that is no JSON-RPC: %s", str(error).splitlines()[0])
            if not any([word in data for word in (b'"result"', b'"error"')]):
                return error
            return refuse_bytes("its answer is no JSON-RPC", data[:512], data[-512:])


async def _write_messages(
    process: Process, outgoing: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    with suppress(OSError):  # it has ended: whoever waits hears it from the reader
        async for message in outgoing:
            data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(data.encode() + b"\n")
            await process.stdin.drain()


async def _read_errors(process: Process, errors: ErrorLog) -> None:
    clock = asyncio.get_running_loop().time
    rest = b""
    while part := await process.stderr.read(_PART):
        *lines, rest = (rest + part).split(b"\n")
        rest = rest[-4096:]
        for line in lines:
            if line.strip():
                errors.add(line.decode(errors="replace").rstrip(), clock())
    if rest.strip():
        errors.add(rest.decode(errors="replace").rstrip(), clock())

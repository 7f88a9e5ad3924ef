"""The owner's side of the warden: start it, send it commands, hear how they end."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from windlass.errors import WindlassError
from windlass.json_types import JsonObject
from windlass.toolbox.sandbox import warden as warden_script

_START_SECONDS: Final = 20.0
_PIECE: Final = 1 << 16


class SandboxFailed(WindlassError):
    """A command that could not be started as its sandbox demands; it was not executed."""


class Ended(msgspec.Struct, frozen=True):
    """How a command ended: with a code (negative: by that signal), or killed by its owner."""

    code: int | None = None
    killed: bool = False
    problem: str | None = None
    seconds: float = 0.0
    cpu: float = 0.0


class Hello(msgspec.Struct, frozen=True):
    """What a warden says when it is ready."""

    base: str
    namespaces: str
    """`direct`, `user` or `none`: how commands get process ids of their own."""
    why: str = ""
    """Why there are none."""


class Warden:
    """A warden process and the socket to it."""

    def __init__(self) -> None:
        if not sys.executable or not hasattr(socket, "SCM_RIGHTS"):
            raise SandboxFailed("commands need a Python interpreter to start, and Unix sockets")
        ours, theirs = socket.socketpair()
        script = str(Path(warden_script.__file__).resolve())
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", script, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath, "TMPDIR": _temporary_folder()},
                start_new_session=True,  # Ctrl-C is the owner's to handle
                cwd="/",
            )
        finally:
            theirs.close()
        self._socket, self._lock = ours, threading.Lock()
        self._pid = os.getpid()
        try:
            self.hello = self._read_hello()
        except BaseException:
            self.close()
            raise
        _living.add(self)

    def _read_hello(self) -> Hello:
        self._socket.settimeout(_START_SECONDS)
        said = b""
        while not said.endswith(b"\n"):
            piece = self._socket.recv(_PIECE)
            if not piece:
                raise SandboxFailed("the process that starts commands ended at once")
            said += piece
        self._socket.settimeout(None)
        return msgspec.json.decode(said, type=Hello)

    @property
    def is_alive(self) -> bool:
        """Whether it can start commands."""
        return self._pid == os.getpid() and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the warden."""
        return self._process.pid

    def send(self, descriptors: Sequence[int], *, namespaces: bool) -> None:
        """Have a supervisor started that gets these descriptors; the first is its socket."""
        with self._lock:
            try:
                socket.send_fds(self._socket, [b"N" if namespaces else b"P"], list(descriptors))
            except OSError as error:
                raise SandboxFailed(f"the process that starts commands is gone: {error}") from None

    def close(self) -> None:
        """End it; it kills what still runs and removes its folder. Blocks until it is gone."""
        _living.discard(self)
        self._socket.close()
        if self._pid == os.getpid():
            try:
                self._process.wait(_START_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def leave_to_parent(self) -> None:
        """Close the copy of a forked child: the warden is its parent's."""
        self._socket.close()
        self._process.returncode = 0  # it is no child of ours to wait for


_living: weakref.WeakSet[Warden] = weakref.WeakSet()
_controls: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _after_fork() -> None:
    global _lock, _shared, _users
    for one in list(_living):
        one.leave_to_parent()
    for control in list(_controls):
        control.close()
    _lock, _shared, _users = threading.Lock(), None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_lock = threading.Lock()
_shared: Warden | None = None
_users = 0


def acquire_warden() -> Warden:
    """Return the warden of this process, started if need be; `release_warden` when done. Blocks."""
    global _shared, _users
    with _lock:
        if _shared is None or not _shared.is_alive:
            _shared = Warden()
        _users += 1
        return _shared


def release_warden(warden: Warden) -> None:
    """End the warden with its last user. Blocks."""
    global _shared, _users
    with _lock:
        _users -= 1
        if _shared is warden and _users > 0 and warden.is_alive:
            return
        if _shared is warden:
            _shared = None
    if _shared is not warden:
        warden.close()


def _temporary_folder() -> str:
    return tempfile.gettempdir()


class Command:
    """A command at work: its output goes to `hear`, its end is `await command.wait()`."""

    def __init__(self, control: socket.socket, output: int, hear: Callable[[bytes], None]) -> None:
        self._control, self._output, self._hear = control, output, hear
        self._loop = asyncio.get_running_loop()
        self._said = b""
        self._ended: asyncio.Future[Ended] = self._loop.create_future()
        self._drained = self._loop.create_future()
        _controls.add(control)
        control.setblocking(False)
        os.set_blocking(output, False)
        self._loop.add_reader(output, self._read_output)
        self._loop.add_reader(control, self._read_control)

    @property
    def outcome(self) -> Ended | None:
        """How it ended; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> Ended:
        """Wait for the end of the command and of its output; cancelling leaves it running."""
        await asyncio.shield(self._ended)
        await asyncio.shield(self._drained)
        return self._ended.result()

    def kill(self) -> None:
        """Kill the command and all that it started; `wait` says when they are gone."""
        try:
            self._control.send(b"K")
        except OSError:
            pass

    def _read_output(self) -> None:
        try:
            piece = os.read(self._output, _PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if piece:
            self._hear(piece)
        else:
            self._loop.remove_reader(self._output)
            os.close(self._output)
            self._drained.set_result(None)

    def _read_control(self) -> None:
        try:
            piece = self._control.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if piece:
            self._said += piece
            return
        self._loop.remove_reader(self._control)
        self._control.close()
        try:
            ended = msgspec.json.decode(self._said, type=Ended)
        except msgspec.DecodeError:
            ended = Ended(killed=True, problem="its supervisor was killed")
        if not self._ended.done():
            self._ended.set_result(ended)


def start_command(
    warden: Warden,
    request: JsonObject,
    descriptors: Sequence[int],
    hear: Callable[[bytes], None],
    *,
    namespaces: bool,
) -> Command:
    """Start a command; `descriptors` are its folder and those that its rules name by number.

    The number of a descriptor in a rule counts from 2: before them come the output and the folder.
    """
    ours, theirs = socket.socketpair()
    output, inside = os.pipe()
    try:
        body = msgspec.json.encode(request)
        warden.send((theirs.fileno(), inside, *descriptors), namespaces=namespaces)
        _send_all(ours, struct.pack("!I", len(body)) + body)
        return Command(ours, output, hear)
    except BaseException:
        ours.close()
        os.close(output)
        raise
    finally:
        theirs.close()
        os.close(inside)


def _send_all(sock: socket.socket, data: bytes) -> None:
    """Send the request. The supervisor reads it at once: the wait is that of its start."""
    sock.settimeout(_START_SECONDS)
    try:
        sock.sendall(data)
    except OSError as error:
        raise SandboxFailed(f"the command could not be sent to its supervisor: {error}") from None

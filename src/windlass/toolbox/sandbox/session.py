"""The sandbox of one run: private folders, the commands at work, and their end with the run."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from windlass.json_types import JsonObject
from windlass.toolbox.options import MountMode, Sandbox
from windlass.toolbox.sandbox.bubblewrap import FAMILIES, build_arguments, find_bubblewrap
from windlass.toolbox.sandbox.environment import build_environment
from windlass.toolbox.sandbox.landlock import CHANGE, READ, RUN, Rule, build_ruleset, landlock_abi
from windlass.toolbox.sandbox.launcher import (
    Command,
    SandboxFailed,
    Warden,
    acquire_warden,
    release_warden,
    start_command,
)
from windlass.toolbox.sandbox.levels import SIGNAL_ABI
from windlass.toolbox.sandbox.paths import Workspace
from windlass.toolbox.sandbox.seccomp import build_filter, machine
from windlass.toolbox.sandbox.system_folders import PROGRAMS, interpreter_folders, system_rules
from windlass.toolbox.sandbox.warden import remove_tree

_SENT_FIRST: Final = 2  # descriptors before the ruleset: the output, and the folder
_RENEWED_AFTER: Final = 200  # commands
_FOLDER: Final = "{folder}"  # stands for the folder of a command
_LONGEST: Final = 120_000  # bytes of a command: the kernel takes 131,071 for one argument


class SandboxSettings(msgspec.Struct, frozen=True, eq=False):
    """The workspace and the limits that an agent's commands have."""

    workspace: Workspace
    sandbox: Sandbox


class _Shared(msgspec.Struct, frozen=True, kw_only=True):
    """What all commands of a session have in common."""

    request: JsonObject
    environment: dict[str, str]
    outer: list[str]
    """The command line of bubblewrap; the folder of a command goes into it."""
    shell: str
    ruleset: int | None = None
    """The descriptor of the Landlock ruleset."""


class SandboxSession:
    """What the commands of one run share. It is opened by the first, and closed with the run."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._warden: Warden | None = None
        self._folder = ""
        self._shared: _Shared | None = None
        self._commands: set[Command] = set()
        self._launched = 0
        self._releases: list[Future[None]] = []  # of wardens that came after a cancel
        self._opening = asyncio.Lock()
        self._closed = False

    @property
    def workspace(self) -> Workspace:
        """The workspace of the run."""
        return self._settings.workspace

    async def start(
        self, command: str, hear: Callable[[bytes], None], cwd: str | None = None
    ) -> Command:
        """Start a shell command in a folder of the workspace; its output goes to `hear`."""
        if "\0" in command:
            raise SandboxFailed("the command holds a NUL character, which a shell cannot read")
        if len(command.encode("utf-8", "surrogatepass")) > _LONGEST:
            raise SandboxFailed(
                f"the command is longer than {_LONGEST:,} bytes; write it to a file and run that"
            )
        await self._open()
        folder = self.workspace.open_folder(cwd or ".")
        try:
            return self._launch(command, hear, folder)
        finally:
            os.close(folder)

    async def _open(self) -> None:
        async with self._opening:
            if self._closed:
                raise SandboxFailed("the run is over; its commands ended with it")
            if self._warden is not None and self._warden.is_alive:
                return
            warden = await self._acquire()
            old, self._warden = self._warden, warden
            if old is not None:
                release_warden(old)
            self._folder = _make_folders(warden.hello.base, self._owner())
            self._close_ruleset()  # of a warden that was lost
            self._shared = self._share()

    async def _acquire(self) -> Warden:
        """Acquire the warden in a thread; cancelled meanwhile, another thread releases it again."""
        found: Future[Warden] = Future()
        found.set_running_or_notify_cancel()  # from here on it cannot be cancelled, only left
        Thread(target=_acquire_into, args=(found,), name="windlass-warden").start()
        try:
            return await asyncio.wrap_future(found)
        except asyncio.CancelledError:
            released: Future[None] = Future()
            released.set_running_or_notify_cancel()
            self._releases.append(released)
            Thread(target=_release_from, args=(found, released), name="windlass-warden").start()
            raise

    def _owner(self) -> os.stat_result | None:
        """Return the status of the workspace if root works in somebody else's; else None."""
        if sys.platform != "linux" or os.geteuid() != 0 or self._settings.sandbox.level == "none":
            return None
        status = os.stat(self.workspace.anchor)
        return status if status.st_uid != 0 else None

    def _launch(self, command: str, hear: Callable[[bytes], None], folder: int) -> Command:
        assert self._warden is not None
        sandbox = self._settings.sandbox
        descriptors = [folder]
        request = self._build_request(command, folder, descriptors)
        namespaces = sandbox.level == "workspace"
        if namespaces and landlock_abi() < SIGNAL_ABI and self._warden.hello.namespaces == "none":
            raise SandboxFailed("commands could send signals to other processes here")
        started = start_command(self._warden, request, descriptors, hear, namespaces=namespaces)
        self._commands.add(started)
        return started

    def _build_request(self, command: str, folder: int, descriptors: list[int]) -> JsonObject:
        """Build the request of one command; what all of them share was built with the session."""
        shared = self._refresh()
        cwd = _path_of(folder, self.workspace.anchor)
        outer = [cwd if one == _FOLDER else one for one in shared.outer]
        descriptors += () if shared.ruleset is None else (shared.ruleset,)
        return {
            **shared.request,
            "env": {**shared.environment, "PWD": cwd},
            "cwd": cwd,
            "argv": [*outer, shared.shell, "-c", command],
        }

    def _refresh(self) -> _Shared:
        """Return what commands share; each adds a rule of its own, so it is made anew at times."""
        assert self._shared is not None
        self._launched += 1
        if self._launched % _RENEWED_AFTER == 0:
            self._close_ruleset()
            self._shared = self._share()
        return self._shared

    def _close_ruleset(self) -> None:
        if self._shared is not None and self._shared.ruleset is not None:
            os.close(self._shared.ruleset)
        self._shared = None

    def _share(self) -> _Shared:
        """Build what all commands of the session have in common."""
        sandbox, owner, kind = self._settings.sandbox, self._owner(), machine()
        home, temporary = (os.path.join(self._folder, one) for one in ("home", "tmp"))
        environment = build_environment(
            home, temporary, sandbox.env, os.environ, self._find_readable()
        )
        environment |= sandbox.variables
        request: JsonObject = {"limits": _limits(sandbox)}
        outer: list[str] = []
        ruleset = None
        if owner is not None:
            request |= {"uid": owner.st_uid, "gid": owner.st_gid}
        if sandbox.level == "workspace":
            assert kind is not None
            request |= {"landlock": _SENT_FIRST, "proc": READ}
            ruleset = self._build_ruleset()
            request["seccomp"] = build_filter(kind, network=sandbox.network).hex()
            request["drop"] = True
        elif sandbox.level == "isolated":
            assert kind is not None
            bwrap = find_bubblewrap()
            if bwrap is None:
                raise SandboxFailed("bubblewrap is gone")
            anchor: tuple[str, MountMode] = (self.workspace.anchor, "extend")
            folders = [anchor, *self.workspace.mounts.items()]
            outer = build_arguments(bwrap, folders, _FOLDER, self._folder, network=sandbox.network)
            request["seccomp"] = build_filter(kind, network=False, families=FAMILIES).hex()
            request["wrapped"] = True
        return _Shared(
            request=request,
            environment=environment,
            outer=outer,
            ruleset=ruleset,
            shell=shutil.which("bash") or "/bin/sh",
        )

    def _find_readable(self) -> list[str]:
        """Return the folders whose programs commands may execute."""
        if self._settings.sandbox.level == "none":
            return ["/"]
        folders = [*PROGRAMS, *interpreter_folders(), self.workspace.anchor, *self.workspace.mounts]
        return [os.path.realpath(one) for one in folders]

    def _build_ruleset(self) -> int:
        """Build the Landlock ruleset; the folders of the workspace are those that it holds open."""
        rules = [*system_rules(), Rule(self._folder, CHANGE)]
        for handle, mode in self.workspace.descriptors():
            rules.append(Rule(handle, CHANGE if mode == "extend" else RUN))
        return build_ruleset(rules, network=self._settings.sandbox.network, abi=landlock_abi())

    async def close(self) -> None:
        """Kill what still runs, wait until it is gone, and remove the private folders."""
        self._closed = True
        for released in self._releases:
            await asyncio.wrap_future(released)
        async with self._opening:
            for command in self._commands:
                command.kill()
            for command in self._commands:
                await command.wait()
            self._commands.clear()
            self._close_ruleset()
            warden, self._warden = self._warden, None
            if warden is None:
                return
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, _end, warden, self._folder)

    def forget(self, command: Command) -> None:
        """Drop a command that ended."""
        self._commands.discard(command)


_sessions: WeakKeyDictionary[object, SandboxSession] = WeakKeyDictionary()


def session_of(run: object, settings: SandboxSettings) -> SandboxSession:
    """Return the sandbox of a run, opened when its first command starts."""
    found = _sessions.get(run)
    if found is None:
        found = _sessions[run] = SandboxSession(settings)
    return found


async def close_session(run: object) -> None:
    """End the sandbox of a run; nothing where it had none."""
    found = _sessions.pop(run, None)
    if found is not None:
        await found.close()


def _acquire_into(found: Future[Warden]) -> None:
    try:
        found.set_result(acquire_warden())
    except BaseException as error:
        found.set_exception(error)


def _release_from(found: Future[Warden], released: Future[None]) -> None:
    if found.exception() is None:
        release_warden(found.result())
    released.set_result(None)


def _end(warden: Warden, folder: str) -> None:
    remove_tree(folder)
    release_warden(warden)


def _make_folders(base: str, owner: os.stat_result | None) -> str:
    """Make the private folder of a run, with a home and a place for temporary files."""
    folder = tempfile.mkdtemp(prefix="run-", dir=base)
    for name in ("home", "tmp"):
        os.mkdir(os.path.join(folder, name), 0o700)
    if owner is not None:
        for path in (folder, os.path.join(folder, "home"), os.path.join(folder, "tmp")):
            os.chown(path, owner.st_uid, owner.st_gid)
    return folder


def _path_of(folder: int, anchor: str) -> str:
    """Return the path of an open folder; the anchor where the system does not tell."""
    try:
        path = os.readlink(f"/proc/self/fd/{folder}")
        if stat.S_ISDIR(os.stat(path).st_mode):
            return path
    except OSError:
        pass
    return anchor


def _limits(sandbox: Sandbox) -> dict[str, int]:
    found = {"RLIMIT_CORE": 0}
    if sandbox.memory is not None:
        found["RLIMIT_AS"] = sandbox.memory
    if sandbox.processes is not None:
        found["RLIMIT_NPROC"] = sandbox.processes
    if sandbox.file_size is not None:
        found["RLIMIT_FSIZE"] = sandbox.file_size
    return found

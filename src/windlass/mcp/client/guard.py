"""The guard of one server process: it ends the server and all that it started with their owner.

A script of its own, started with `python -I -S`: it imports nothing of Windlass. The server has the
guard's standard streams; the owner holds the other end of a pipe. When that end closes, however the
owner came to its end, everything below the guard is terminated, then killed.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # `signal` without its enums, a quarter of what a start takes

PR_SET_CHILD_SUBREAPER = 36
GRACE = 0.5  # seconds between SIGTERM and SIGKILL


def main() -> int:
    """Start the command of the arguments; return its exit code."""
    lifeline, argv = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":  # what a server's child leaves behind becomes ours, to be killed
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    awake, wake = os.pipe()
    os.set_blocking(awake, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, hear)
    ignored = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        run_command(argv, (*ignored, signal.SIGCHLD, signal.SIGPIPE))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # the owner sees the end of a stream as soon as the server closes it
        os.dup2(nothing, stream)
    code = wait_for(pid, lifeline, awake)
    end_all(pid)
    return code


def hear(_number: int, _frame: object) -> None:
    """Take a signal that only has to wake us."""


def run_command(argv: list[str], signals: tuple[signal.Signals, ...]) -> None:
    """Become the command; what fails is said on its standard error."""
    try:
        signal.set_wakeup_fd(-1)
        for number in signals:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def wait_for(pid: int, lifeline: int, awake: int) -> int:
    """Wait until the command ends, or the owner does; return the exit code."""
    while True:
        ready, _, _ = select.select([lifeline, awake], [], [])
        if lifeline in ready:
            return 0
        os.read(awake, 4096)
        while True:
            try:
                ended, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if ended == 0:
                break
            if ended == pid:
                return os.waitstatus_to_exitcode(status) % 256


def end_all(pid: int) -> None:
    """Terminate the command's group, then kill whatever is left below this process."""
    send(pid, signal.SIGTERM)
    until = time.monotonic() + GRACE
    while has_children() and time.monotonic() < until:
        time.sleep(0.005)
    while has_children():
        send(pid, signal.SIGKILL)
        for child in list_children():
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.002)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to the command's process group, if there still is one."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def has_children() -> bool:
    """Reap what has ended; return whether anything is left."""
    while True:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if ended == 0:
            return True


def list_children() -> list[int]:
    """List the children of this process, those it inherited included."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main())

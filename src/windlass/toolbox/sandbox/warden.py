"""The warden: a small process that starts commands, holds them, and ends them with their owner.

A script of its own, started with `python -I -S` and a descriptor: it imports nothing of Windlass. It
has one thread, so that forking in it is safe. For each command it forks a supervisor, which forks,
restricts and executes the command. The supervisor holds one end of a socket whose other end the owner
has: a byte or the end of the socket kills the command and all that it started. So the death of the
owner, however it comes, ends everything; then the warden removes its temporary folder and exits.

Order inside a command: limits, user, Landlock, capabilities, seccomp, exec. What cannot be set up is
reported, and nothing is executed.
"""

from __future__ import annotations

import array
import ctypes
import errno
import gc
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time

TYPE_CHECKING = False  # `typing` itself would take longer to load than all else
if TYPE_CHECKING:
    from typing import Required, TypedDict

    class Request(TypedDict, total=False):
        """A command and what holds it."""

        argv: Required[list[str]]
        env: Required[dict[str, str]]
        cwd: Required[str]
        limits: Required[dict[str, int]]
        uid: int
        gid: int
        landlock: int  # the descriptor of the ruleset, by its place in the message
        proc: Required[int]  # rights beneath /proc
        seccomp: str
        drop: bool
        wrapped: bool


CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 4, 24, 36
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
LANDLOCK_ADD, LANDLOCK_RESTRICT = 445, 446
SECCOMP_NUMBER = {"x86_64": 317, "aarch64": 277}
CAPABILITY_VERSION = 0x20080522
MOST_DESCRIPTORS = 200  # of a message
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
CHANGED_SIGNALS = (*IGNORED_SIGNALS, signal.SIGCHLD, signal.SIGXFSZ)  # by us, or by Python
LINUX = sys.platform == "linux"

CAPABILITIES = [ctypes.c_ulong(number) for number in range(64)]

libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """A step of the set-up that could not be done: nothing may be executed."""


def call(step: str, result: int) -> int:
    """Return the result of a system call, or raise `Failed` with its error."""
    if result >= 0:
        return result
    raise Failed(f"{step}: {os.strerror(ctypes.get_errno())}")


def prctl(step: str, option: int, *values: int) -> int:
    """Call prctl(2) with five numbers."""
    padded = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    return call(step, libc.prctl(ctypes.c_int(option), *padded))


def syscall(step: str, number: int, *values: object) -> int:
    """Call a system call that libc has no function for."""
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in values]
    return call(step, libc.syscall(ctypes.c_long(number), *given))


# --------------------------------------------------------------------- what a command may do


def drop_capabilities() -> None:
    """Give up every capability, and the chance to regain one by executing as root."""
    prctl("clear ambient capabilities", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in CAPABILITIES:
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            code = ctypes.get_errno()
            if code == errno.EINVAL:  # past the last one
                break
            if code == errno.EPERM and os.geteuid() != 0:  # has none, and can gain none
                break
            raise Failed(f"drop capability {capability.value}: {os.strerror(code)}")
    set_capabilities_to_none()


def set_capabilities_to_none() -> None:
    """Empty the effective, permitted and inheritable sets."""
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    call("capset", libc.capset(header, struct.pack("=6I", 0, 0, 0, 0, 0, 0)))


def apply_seccomp(program: bytes) -> None:
    """Install a filter of system calls for this process and all that it starts."""
    buffer = ctypes.create_string_buffer(program, len(program))
    filters = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    number = SECCOMP_NUMBER[os.uname().machine]
    syscall("seccomp", number, 1, 0, filters)


def apply_limits(limits: dict[str, int], *, own_count: bool) -> None:
    """Set the limits of resources; a limit that is lower already stays."""
    for name, value in limits.items():
        which = getattr(resource, name, None)
        if which is None:
            continue
        if name == "RLIMIT_NPROC" and not own_count:
            value += count_own_processes()  # the kernel counts all processes of the user
        hard = resource.getrlimit(which)[1]
        lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(which, (lowest, lowest))
        except (OSError, ValueError) as error:
            if LINUX:
                raise Failed(f"{name}: {error}") from None


def count_own_processes() -> int:
    """Return the number of processes of this user on the machine; 0 for root, whom no limit holds."""
    found, user = 0, os.geteuid()
    try:
        with open("/proc/self/uid_map", "rb") as file:
            if user == 0 and file.read().split() == [b"0", b"0", b"4294967295"]:
                return 0
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal():
                try:
                    found += entry.stat(follow_symlinks=False).st_uid == user
                except OSError:
                    continue
    except OSError:
        return 0
    return found


# --------------------------------------------------------------------- namespaces


def unshare_processes() -> None:
    """Give the next children of this process a namespace of process ids; the first one is its init."""
    call("unshare", libc.unshare(CLONE_NEWPID))


def mount_proc() -> None:
    """Show the processes of the new namespace in `/proc`, and no others; own shared memory, too."""
    call("unshare", libc.unshare(CLONE_NEWNS | CLONE_NEWIPC))
    call("make mounts private", libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    call("mount /proc", libc.mount(b"proc", b"/proc", b"proc", flags, None))


def enter_user_namespace() -> None:
    """Become privileged in a user namespace of one user, with the same ids."""
    user, group = os.geteuid(), os.getegid()
    call("unshare", libc.unshare(CLONE_NEWUSER))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        handle = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)


def try_namespaces(*, with_user: bool) -> str | None:
    """Try in a child whether commands can have namespaces; return why not."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        told = b""
        try:
            if with_user:
                enter_user_namespace()
            unshare_processes()
            inner = os.fork()
            if inner == 0:
                try:
                    mount_proc()
                    os._exit(0 if os.readlink("/proc/self") == "1" else 2)
                except BaseException as error:
                    os.write(write, str(error).encode())
                    os._exit(1)
            if os.waitpid(inner, 0)[1]:
                os._exit(1)
        except BaseException as error:
            told = str(error).encode() or b"failed"
        os.write(write, told)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        told = file.read()
    status = os.waitpid(child, 0)[1]
    return told.decode("utf-8", "replace") or ("failed" if status else None)


def choose_namespaces() -> tuple[str, str]:
    """Return `direct`, `user` or `none`, and the reason for none; enter the user namespace if needed."""
    if not LINUX:
        return "none", "this system has no process namespaces"
    why = try_namespaces(with_user=False)
    if why is None:
        return "direct", ""
    why = try_namespaces(with_user=True)
    if why is not None:
        return "none", why
    enter_user_namespace()
    return "user", ""


# --------------------------------------------------------------------- one command


def read_exactly(sock: socket.socket, count: int) -> bytes:
    """Read so many bytes; empty at the end of the socket."""
    pieces: list[bytes] = []
    while count:
        piece = sock.recv(min(count, 1 << 16))
        if not piece:
            return b""
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def read_request(control: socket.socket) -> Request | None:
    """Read the request: its length in four bytes, then JSON; None if the owner is gone."""
    head = read_exactly(control, 4)
    body = read_exactly(control, struct.unpack("!I", head)[0]) if head else b""
    return json.loads(body) if body else None


def restrict(request: Request, descriptors: list[int], own_count: bool) -> list[str]:
    """Restrict this process to what the command may do; return the command line."""
    os.umask(0o022)
    enter_folder(request["cwd"], descriptors[1])
    uid, gid = request.get("uid"), request.get("gid")
    rules, program = request.get("landlock"), request.get("seccomp")
    if LINUX:
        prctl("no new privileges", PR_SET_NO_NEW_PRIVS, 1)
    if uid is not None and gid is not None:
        become(uid, gid, drop=bool(request.get("drop")))
    apply_limits(request["limits"], own_count=own_count)
    if rules is not None:
        if os.getpid() == 1:
            allow_own_proc(descriptors[rules], request["proc"])
        syscall("landlock_restrict_self", LANDLOCK_RESTRICT, descriptors[rules], 0)
    if request.get("drop"):
        if uid is None:
            drop_capabilities()
        else:
            set_capabilities_to_none()
        prctl("be no target of ptrace", PR_SET_DUMPABLE, 0)  # until the next exec
    if program is None:
        return request["argv"]
    filters = bytes.fromhex(program)
    if not request.get("wrapped"):
        apply_seccomp(filters)
        return request["argv"]
    offered = str(offer_seccomp(filters))
    return [offered if one == "{seccomp}" else one for one in request["argv"]]


def allow_own_proc(ruleset: int, rights: int) -> None:
    """Add the `/proc` of this namespace, which is newer than the ruleset, to the rules."""
    handle = os.open("/proc", os.O_PATH)
    syscall("landlock_add_rule", LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights, handle), 0)
    os.close(handle)


def spawn(argv: list[str], environment: dict[str, str], output: int) -> int:
    """Start the command from this process, which is restricted already, in a session of its own."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    return os.posix_spawn(
        argv[0],
        argv,
        environment,
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=CHANGED_SIGNALS,
    )


def enter_folder(path: str, handle: int) -> None:
    """Enter the folder of a descriptor by its path, which leads through the mounts of this process."""
    os.chdir(path)
    here, meant = os.stat("."), os.fstat(handle)
    if (here.st_dev, here.st_ino) != (meant.st_dev, meant.st_ino):
        raise Failed("the folder of the command was replaced by another")


def become(uid: int, gid: int, *, drop: bool) -> None:
    """Become another user, for good; first the bounding set, which that user could not empty."""
    if drop:
        for capability in CAPABILITIES:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def offer_seccomp(filters: bytes) -> int:
    """Return a descriptor from which a wrapper reads the filter."""
    handle = os.memfd_create("seccomp", 0)
    os.write(handle, filters)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def start_command(
    request: Request, descriptors: list[int], control: int, own_count: bool
) -> tuple[int, str]:
    """Start the command from a process that is restricted first; return its id, or what is wrong.

    The supervisor itself is that process if the command cannot end it: in a namespace, where it is
    the first process, or where nothing is restricted. Else it is a fork of it.
    """
    if "landlock" not in request or os.getpid() == 1:
        try:
            argv = restrict(request, descriptors, own_count)
            return spawn(argv, request["env"], descriptors[0]), ""
        except (Failed, OSError, ValueError) as error:
            return 0, f"{type(error).__name__}: {error}"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(control)
            argv = restrict(request, descriptors, own_count)
            os.setsid()
            os.dup2(descriptors[0], 1)
            os.dup2(descriptors[0], 2)
            for number in CHANGED_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            os.execve(argv[0], argv, request["env"])
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode()[:2000])
        os._exit(127)
    os.close(write)
    problem = os.read(read, 4000)  # empty when exec closes the other end
    os.close(read)
    return child, problem.decode("utf-8", "replace")


def supervise(control: socket.socket, descriptors: list[int], *, alone: bool, user: bool) -> None:
    """Run one command to its end, or until the owner says so or is gone."""
    request = read_request(control)
    if request is None:
        return
    started = time.monotonic()
    child, problem = start_command(request, descriptors, control.fileno(), own_count=alone and user)
    for handle in descriptors:
        os.close(handle)
    status = wait_for(child, control) if child else None
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    kill_descendants(alone=alone)
    how = '"killed": true' if status is None else f'"code": {os.waitstatus_to_exitcode(status)}'
    if problem:
        how = f'"problem": {json.dumps(problem)}'
    took, cpu = time.monotonic() - started, usage.ru_utime + usage.ru_stime
    try:
        control.sendall(f'{{{how}, "seconds": {took:.6f}, "cpu": {cpu:.6f}}}'.encode())
    except OSError:
        pass


def wait_for(child: int, control: socket.socket) -> int | None:
    """Wait for the command; None if the owner ended it. Orphans are reaped meanwhile."""
    poll = select.poll()
    poll.register(control.fileno(), select.POLLIN)
    opener = getattr(os, "pidfd_open", None)
    handle = -1
    if opener is not None:
        try:
            handle = opener(child)
            poll.register(handle, select.POLLIN)
        except OSError:
            handle = -1
    pause = 1000 if handle >= 0 else 10
    try:
        while True:
            ready = poll.poll(pause)
            if any([one == control.fileno() for one, _ in ready]):
                return None
            while True:
                try:
                    ended, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return None
                if ended == child:
                    return status
                if not ended:
                    break
    finally:
        if handle >= 0:
            os.close(handle)


def kill_descendants(*, alone: bool) -> None:
    """Kill all that the command started, and wait until nothing of it is left."""
    while True:
        if alone:  # the first process of its namespace: all others are the command's
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
        else:
            for process in find_descendants(os.getpid()):
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                except PermissionError:
                    continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.0005)
        except ChildProcessError:
            return


def find_descendants(process: int) -> list[int]:
    """Return the children of a process, theirs, and so on; this process is their subreaper."""
    children = list_children(process)
    return children + [one for child in children for one in find_descendants(child)]


def list_children(process: int) -> list[int]:
    """Return the child processes of all threads of a process."""
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children", "rb") as file:
                children += [int(one) for one in file.read().split()]
    except OSError:
        pass
    return children


# --------------------------------------------------------------------- the server


def receive(server: socket.socket) -> tuple[bytes, list[int]]:
    """Receive one byte and its descriptors; no byte at the end of the socket."""
    space = socket.CMSG_LEN(MOST_DESCRIPTORS * 4)
    kind, ancillary, _, _ = server.recvmsg(1, space)
    handles = array.array("i")
    for level, what, data in ancillary:
        if level == socket.SOL_SOCKET and what == socket.SCM_RIGHTS:
            handles.frombytes(data[: len(data) - len(data) % 4])
    for handle in handles:
        os.set_inheritable(handle, False)
    return kind, list(handles)


def start_supervisor(
    server: socket.socket, handles: list[int], *, alone: bool, user: bool, own_space: int
) -> None:
    """Fork the supervisor of one command; `own_space` leads back to our namespace of process ids."""
    direct = alone and not user
    if direct:
        unshare_processes()
    process = os.fork()
    if process:
        if direct:
            call("setns", libc.setns(own_space, CLONE_NEWPID))
        for handle in handles:
            os.close(handle)
        return
    try:
        server.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control = socket.socket(fileno=handles[0])
        try:
            if alone:
                if user:  # only the child of a child can have it, and we cannot go back ourselves
                    unshare_processes()
                    if os.fork():
                        os._exit(0)
                mount_proc()
            elif LINUX:
                prctl("become a subreaper", PR_SET_CHILD_SUBREAPER, 1)
            supervise(control, handles[1:], alone=alone, user=user)
        except BaseException as error:
            control.sendall(json.dumps({"problem": f"{type(error).__name__}: {error}"}).encode())
    finally:
        os._exit(0)


def remove_tree(path: str) -> None:
    """Remove a folder and all in it, also what its owner made unreadable; follow no link."""
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
        os.chmod(path, 0o700)
        for name in os.listdir(path):
            remove_tree(os.path.join(path, name))
        os.rmdir(path)
    except OSError:
        pass


def make_base() -> str:
    """Make the folder for the private folders of runs, and remove those that killed wardens left."""
    place, user = os.environ["TMPDIR"], os.geteuid()
    space = os.stat("/proc/self/ns/pid").st_ino if LINUX else 0
    start = f"windlass-sandbox-{space}-"
    for name in os.listdir(place):
        path = os.path.join(place, name)
        if name.startswith(start) and not is_alive(name[len(start) :].partition("-")[0]):
            if os.lstat(path).st_uid == user:
                remove_tree(path)
    base = os.path.join(place, f"{start}{os.getpid()}-{os.urandom(6).hex()}")
    os.mkdir(base, 0o700)
    os.chmod(base, 0o711)  # commands may run as another user; what is inside is theirs alone
    return base


def is_alive(process: str) -> bool:
    """Check whether there is a process of this id; also if it cannot be known."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, OverflowError):
        return True
    return True


def serve(server: socket.socket) -> None:
    """Start commands until the owner closes the socket or dies; then clean up."""
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if LINUX:
        prctl("become a subreaper", PR_SET_CHILD_SUBREAPER, 1)
    kind, why = choose_namespaces()
    base = make_base()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors report by their sockets
    own_space = os.open("/proc/self/ns/pid", os.O_RDONLY) if kind == "direct" else -1
    gc.disable()
    gc.freeze()  # a collection would copy pages that forked processes share
    try:
        hello = {"base": base, "namespaces": kind, "why": why}
        server.sendall(json.dumps(hello).encode() + b"\n")
        while True:
            request, handles = receive(server)
            if not request:
                break
            alone = request == b"N" and kind != "none"
            user = kind == "user"
            start_supervisor(server, handles, alone=alone, user=user, own_space=own_space)
    except OSError:
        pass
    finally:
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            pass
        remove_tree(base)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))

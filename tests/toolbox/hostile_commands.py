"""Hostile commands for the sandbox: each tries to read, change, reach or outlive what it must not.

A command counts as an escape if its output holds the secret or the word ESCAPED, if anything outside the
workspace changed, if a listener was contacted, or if a process of it is left.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.toolbox.hostile_paths import SECRET, snapshot

SECRET_TEXT = SECRET.decode()
MARK = str(
    977_000_000 + os.getpid()
)  # seconds of a sleep: how processes of these commands are known

#: What is done to a file or folder outside; `{t}` is the target, `{d}` its folder.
ON_FILES = (
    "cat {t}",
    "cat < {t}",
    "cp {t} copy && cat copy",
    "ln -s {t} link && cat link",
    "ln {t} hard && cat hard",
    "mv {t} moved && cat moved",
    "rm -f {t}",
    "echo hostile >> {t}",
    "echo hostile > {t}",
    ": > {t}",
    "truncate -s 0 {t}",
    "dd if={t} bs=1k count=1 2>/dev/null",
    "dd if=/dev/zero of={t} bs=1 count=1 conv=notrunc",
    "tar cf - {d} | tar xOf -",
    "find {d} -type f -exec cat {{}} +",
    "find {d} -delete",
    "rm -rf {d}",
    "mkdir {d}/made",
    "touch {d}/made",
    "mv a.txt {d}/moved.txt",
    "cp a.txt {d}/copied.txt",
    "ln -s {d} folder && cat folder/*",
    "ln -s {d} folder2 && echo x > folder2/new",
    "(cd {d} && cat * && touch here)",
    "exec 9<{t} && cat <&9",
    "grep -r . {d}",
    "head -c 100 {t}; tail -c 100 {t}; od -c {t} | head",
    "bash -c 'source {t}'",
    "sed -i s/SECRET/x/ {t}",
    "mkfifo {d}/fifo",
    "cat /proc/self/root{t}",
    "cat /proc/self/cwd/../outside/secret.txt",
    "cat ../outside/secret.txt",
    "cat $(pwd)/../outside/secret.txt",
    "{py} -c 'print(open(\"{t}\").read())'",
    "{py} -c 'import os; os.truncate(\"{t}\", 0)'",
    '{py} -c \'import os; os.rename("{t}", "here")\'',
    "{py} -c 'import os; os.open(\"{t}\", os.O_RDONLY | os.O_TRUNC)'",
    '{py} -c \'import os; os.rename("a.txt", "{t}")\'',
    '{py} -c \'import os; os.symlink("x", "{d}/symlink")\'',
    '{py} -c \'import os; os.link("{t}", "a hard link")\'',
    "{py} -c 'import os; os.mknod(\"{d}/node\")'",
    '{py} -c \'import shutil; shutil.copytree("{d}", "tree"); print(open("tree/secret.txt").read())\'',
)
_SOCKETS = {
    "tcp": "s = socket.socket(); s.connect(('127.0.0.1', {tcp}))",
    "tcp6": "s = socket.socket(socket.AF_INET6); s.connect(('::1', {tcp}))",
    "fast open": "s = socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', {tcp}))",
    "mptcp": "s = socket.socket(2, 1, 262); s.connect(('127.0.0.1', {tcp}))",
    "udp": "s = socket.socket(2, 2); s.sendto(b'x', ('127.0.0.1', {udp}))",
    "listen": "s = socket.socket(); s.listen()",
    "bind": "s = socket.socket(); s.bind(('127.0.0.1', 0))",
    "raw": "s = socket.socket(2, 3, 1)",
    "packet": "s = socket.socket(17, 3)",
    "netlink": "s = socket.socket(16, 3)",
    "vsock": "s = socket.socket(40, 1)",
    "alg": "s = socket.socket(38, 5)",
    "bluetooth": "s = socket.socket(31, 3, 0)",
    "unix path": "s = socket.socket(1); s.connect('{unix}')",
    "unix abstract": "s = socket.socket(1); s.connect('\\0{abstract}')",
    "unix datagram": "s = socket.socket(1, 2); s.sendto(b'x', '{unix}')",
}
_CALLS = {  # by number on x86-64; the names are looked up for aarch64
    "chroot": "os.chroot('.')",
    "unshare user": "os.unshare(0x10000000)"
    if sys.version_info >= (3, 12)
    else "call(272, 0x10000000)",
    "unshare net": "call(272, 0x40000000)",
    "mount": "call(165, b'none', b'.', b'tmpfs', 0, 0)",
    "umount": "call(166, b'/proc', 2)",
    "pivot_root": "call(155, b'.', b'.')",
    "keyctl": "call(250, 0, -3, 1)",
    "add_key": "call(248, b'user', b'x', b'y', 1, -3)",
    "io_uring": "call(425, 1, bytes(120))",
    "bpf": "call(321, 0, bytes(72), 72)",
    "perf": "call(298, bytes(120), 0, -1, -1, 0)",
    "userfaultfd": "call(323, 1)",
    "open_by_handle": "call(304, -100, bytes(140), 0)",
    "name_to_handle": "call(303, -100, b'/', bytes(140), bytes(8), 0)",
    "sethostname": "call(170, b'hostile', 7)",
    "setdomainname": "call(171, b'hostile', 7)",
    "clock_settime": "call(227, 0, bytes(16))",
    "settimeofday": "call(164, bytes(16), 0)",
    "swapon": "call(167, b'a.txt', 0)",
    "kexec": "call(246, 0, 0, 0, 0)",
    "init_module": "call(175, b'', 0, b'')",
    "clone3": "call(435, bytes(64), 64)",
    "syslog": "call(103, 3, bytes(64), 64)",
    "pidfd_getfd": "call(438, 0, 0, 0)",
    "x32": "call(0x40000000 + 39)",
    "prlimit owner": "call(302, {victim}, 7, bytes(16), 0)",
    "setpriority owner": "call(141, 0, {victim}, 19)",
    "setaffinity owner": "call(203, {victim}, 8, (1).to_bytes(8, 'little'))",
    "kill owner": "os.kill({victim}, 0)",
    "kill parent": "os.kill(os.getppid(), 9) if os.getppid() > 1 and os.readlink('/proc/self') != str(os.getpid()) else 1/0",
    # bubblewrap's own first process may be held up by the command, which then hurts only itself
    "ptrace supervisor": "os.environ['LEVEL'] == 'isolated' and 1 / 0; call(101, 16, 1, 0, 0)",
    "read supervisor": "os.environ['LEVEL'] == 'isolated' and 1 / 0; [os.readlink(f'/proc/1/fd/{{n}}') for n in os.listdir('/proc/1/fd')]",
    "setuid": "os.setuid(12345)",
    "setgroups": "os.setgroups([0, 4])",
    "chown": "os.chown('a.txt', 12345, 12345)",
    "raise limit": "import resource; resource.setrlimit(resource.RLIMIT_CORE, (9, 9))",
}
_PROC = (
    "cat /proc/{victim}/environ",
    "cat /proc/{owner}/environ",
    "cat /proc/1/environ | tr '\\0' '\\n' | grep SECRET",
    "for p in /proc/[0-9]*; do cat $p/environ; done",
    "ls -l /proc/{owner}/fd | grep -q socket && echo ESCAPED",
    "ls /proc/{victim}/root/ && echo ESCAPED",
    "ls /proc/{owner}/cwd/ && echo ESCAPED",
    "cat /proc/{owner}/mem | head -c 1 && [ ${{PIPESTATUS[0]}} = 0 ] && echo ESCAPED",
    "cat /proc/{owner}/maps | grep -q . && echo ESCAPED",
    "echo x > /proc/sys/kernel/core_pattern && echo ESCAPED",
    "echo 1 > /proc/sys/kernel/sysrq && echo ESCAPED",
    "echo 0 > /proc/{owner}/oom_score_adj && echo ESCAPED",
    "echo x > /proc/{victim}/comm && echo ESCAPED",
    "kill -9 {victim} && echo ESCAPED",
    "kill -9 1; kill -STOP 1; kill -9 -1; sleep {mark} &",
    # bubblewrap's first process has the environment of the command
    "if [ $LEVEL != isolated ]; then cat /proc/1/environ /proc/1/mem | head -c 1 | grep -q . && echo ESCAPED; fi",
    "kill -9 {warden} && echo ESCAPED",
    "kill -STOP {owner} && echo ESCAPED",
    "env",
    "set",
    "export -p",
    "cat ~/.netrc ~/.ssh/id_rsa; ls -a ~ | grep -q ssh && echo ESCAPED",
    "cat {home}/.secret",
    "ls {home} && echo ESCAPED",
    "cat /etc/shadow | grep -q root && echo ESCAPED",
    "ls ~root && ls -a ~root | grep -q bashrc && echo ESCAPED",
    'ls {tmp} | grep -q . && [ "$LEVEL" != isolated ] && echo ESCAPED',
    'touch {tmp}/hostile-{victim} && [ "$LEVEL" != isolated ] && echo ESCAPED',
    'touch /var/tmp/hostile /dev/shm/hostile && [ "$LEVEL" != isolated ] && echo ESCAPED',
    "mknod null c 1 3 && echo ESCAPED",
    "mknod disk b 8 0 && echo ESCAPED",
    "sudo -n id && echo ESCAPED",
    "su -c id && echo ESCAPED",
    "crontab -l && echo ESCAPED; echo '* * * * * id' | crontab - && echo ESCAPED",
    "dmesg | grep -q . && echo ESCAPED",
    "ping -c 1 127.0.0.1 && echo ESCAPED",
    "echo x > /dev/tcp/127.0.0.1/{tcp}",
    "echo x > /dev/udp/127.0.0.1/{udp}",
    "curl -s http://127.0.0.1:{tcp}/ && echo ESCAPED",
    "mount -t tmpfs none . && echo ESCAPED",
    "unshare -Ur id && echo ESCAPED",
    "nsenter -t {owner} -m id && echo ESCAPED",
    "ulimit -f unlimited && echo ESCAPED",
    "ulimit -c unlimited && echo ESCAPED",
    "cd / && ls -R home 2>/dev/null | grep -q . && echo ESCAPED",
    "cat /proc/kallsyms /proc/kcore 2>/dev/null | head -c 1 | grep -q . && [ -r /proc/kcore ] && head -c 1 /proc/kcore && echo ESCAPED",
    "cat /dev/mem /dev/kmem /dev/port 2>/dev/null | head -c 1 | grep -q . && echo ESCAPED",
    "head -c 1 /dev/sda /dev/vda /dev/nvme0n1 2>/dev/null | grep -q . && echo ESCAPED",
    "cat /var/lib/*/secret /var/log/* 2>/dev/null | grep -q . && echo ESCAPED",
    "cat /run/secrets/* /var/run/secrets/*/* 2>/dev/null | grep -q . && echo ESCAPED",
    "echo hostile > /etc/passwd && echo ESCAPED",
    "echo hostile > /etc/ld.so.preload && echo ESCAPED",
    "cp /bin/true /usr/local/bin/hostile && echo ESCAPED",
    "echo hostile >> /usr/bin/env && echo ESCAPED",
    "mkdir -p ~/../../../escaped && touch {home}/x && echo ESCAPED",
    "gdb -p {owner} -batch && echo ESCAPED; strace -p {owner} -o /dev/null & sleep 0.2; kill %1 && false",
    "ipcs -m | grep -q 0x0badcafe && echo ESCAPED",
    "exec 3<>/dev/tcp/169.254.169.254/80 && echo ESCAPED",
    "getent hosts example.invalid && echo ESCAPED",
    "ln -s /proc/self/environ e; cat e | tr '\\0' '\\n' | grep SECRET",
)
#: Commands that try to live on, or to use up the machine.
_OUTLIVE = (
    "sleep {mark} &",
    "setsid sleep {mark} &",
    "nohup sleep {mark} > /dev/null 2>&1 &",
    "(setsid sleep {mark} & ) & disown -a",
    "(trap '' TERM HUP INT; sleep {mark}) &",
    '{py} -c \'import os\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: os.execvp("sleep", ["sleep", "{mark}"])\'',
    "bash -c 'sleep {mark} & sleep {mark} & exit 3'",
    "for i in $(seq 40); do sleep {mark} & done",
    "head -c 100000000 /dev/zero > big; ls -l big | grep -q 100000000 && echo ESCAPED",
    '{py} -c \'bytearray(3_000_000_000); print("ESC" + "APED")\'',
)


class Attempt(NamedTuple):
    """A hostile command and where it comes from."""

    name: str
    command: str


class Host(NamedTuple):
    """What stands around the workspace to be attacked."""

    place: Path
    workspace: Path
    home: Path
    tcp: int
    udp: int
    unix: str
    abstract: str
    victim: subprocess.Popen[bytes]
    contacts: list[str]


@contextmanager
def hold_host(place: Path, workspace: Path) -> Iterator[Host]:
    """Set up listeners, a victim process with a secret in its environment, and a home."""
    home = place / "outside" / "home"
    home.mkdir()
    (home / ".secret").write_bytes(SECRET)
    contacts: list[str] = []
    tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
    tcp.bind(("127.0.0.1", 0))
    udp.bind(("127.0.0.1", 0))
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    unix_path = os.path.join(tempfile.gettempdir(), f"hostile-{os.getpid()}.sock")
    unix.bind(unix_path)
    os.chmod(unix_path, 0o777)
    abstract.bind(f"\0hostile-{os.getpid()}")
    for one in (tcp, unix, abstract):
        one.listen(64)
    for one in (tcp, unix, abstract, udp):
        threading.Thread(target=_count, args=(one, contacts), daemon=True).start()
    env = {"PATH": os.defpath, "KEY": SECRET_TEXT}
    victim = subprocess.Popen(["sleep", "600"], env=env, preexec_fn=None)
    try:
        yield Host(
            place=place,
            workspace=workspace,
            home=home,
            tcp=tcp.getsockname()[1],
            udp=udp.getsockname()[1],
            unix=unix_path,
            abstract=f"hostile-{os.getpid()}",
            victim=victim,
            contacts=contacts,
        )
    finally:
        victim.kill()
        victim.wait()
        for one in (tcp, unix, abstract, udp):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
        os.unlink(unix_path)


def _count(listener: socket.socket, contacts: list[str]) -> None:
    while True:
        try:
            if listener.type == socket.SOCK_DGRAM:
                if not listener.recv(10):
                    return
            else:
                listener.accept()[0].close()
        except OSError:
            return
        contacts.append(str(listener.family))


def generate_commands(host: Host, warden: int, *, everything: bool) -> list[Attempt]:
    """Return the commands: all of them, or some of each kind."""
    py = f"{sys.executable} -I -S"
    given = {
        "py": py,
        "tcp": host.tcp,
        "udp": host.udp,
        "unix": host.unix,
        "abstract": host.abstract,
        "victim": host.victim.pid,
        "owner": os.getpid(),
        "warden": warden,
        "home": host.home,
        "mark": MARK,
        "tmp": tempfile.gettempdir(),
    }
    outside = host.place / "outside"
    targets = [outside / "secret.txt", outside / "deep" / "secret.txt"]
    found = [
        Attempt(f"file: {act}", act.format(t=target, d=target.parent, **given))
        for target, act in itertools.product(targets, ON_FILES)
    ]
    for name, code in _SOCKETS.items():
        # In a network of its own a command may listen and send: the listeners here must not hear it.
        own = "socket.AF_INET, socket.AF_INET6, socket.AF_UNIX"
        body = (
            f"import os, socket\n{code.format(**given)}\n"
            f"if os.environ['LEVEL'] != 'isolated' or s.family not in ({own}): print('ESC' + 'APED')"
        )
        found.append(Attempt(f"socket: {name}", f"{sys.executable} -I -c {_quote(body)}"))
    prelude = (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "def call(number, *values):\n"
        "    given = [ctypes.c_long(v) if isinstance(v, int) else v for v in values]\n"
        "    if libc.syscall(ctypes.c_long(number), *given) < 0: raise OSError(ctypes.get_errno())\n"
    )
    for name, code in _CALLS.items():
        if os.uname().machine != "x86_64" and "call(" in code:
            continue
        body = f"{prelude}{code.format(**given)}\nprint('ESC' + 'APED')"
        found.append(Attempt(f"call: {name}", f"{sys.executable} -I -c {_quote(body)}"))
    found += [Attempt(f"proc: {act}", act.format(**given)) for act in _PROC]
    found += [Attempt(f"outlive: {act}", act.format(**given)) for act in _OUTLIVE]
    return found if everything else found[::6]


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def left_processes() -> list[str]:
    """Return the command lines of processes that hostile commands left behind."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:1] == [b"sleep"] and MARK.encode() in words:
                found.append(f"{name}: {b' '.join(words).decode()}")
    return found


def find_escape(host: Host, before: dict[str, object], output: str) -> str | None:
    """Return how a command escaped; None if it did not."""
    if SECRET_TEXT in output:
        return "it read the secret"
    if "ESCAPED" in output:
        return "it did what it tried"
    if snapshot(host.place) != before:
        return "it changed something outside"
    if host.contacts:
        return f"it contacted a listener: {host.contacts}"
    if host.victim.poll() is not None:
        return "it killed a process outside"
    return None

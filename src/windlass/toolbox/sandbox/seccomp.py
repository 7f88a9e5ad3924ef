"""A seccomp filter for commands, as raw BPF: what Landlock does not cover.

Landlock stops TCP by `connect` and `bind` only. UDP, raw and netlink sockets, TCP Fast Open, MPTCP,
vsock and sockets of other programs by path pass it; so `socket()` itself is refused.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

Machine: TypeAlias = Literal["x86_64", "aarch64"]

_ARCHITECTURE: Final[dict[str, int]] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
#: Refused with EPERM: name -> numbers on x86-64 and aarch64 (None: there is none).
_REFUSED: Final[dict[str, tuple[int | None, int | None]]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
#: Refused unless they are about the caller itself: name -> numbers, and which argument is the pid.
_ON_OTHERS: Final[dict[str, tuple[int, int, int]]] = {
    "prlimit64": (302, 261, 0),
    "sched_setaffinity": (203, 122, 0),
    "sched_setattr": (314, 274, 0),
    "sched_setparam": (142, 118, 0),
    "sched_setscheduler": (144, 119, 0),
    "setpriority": (141, 140, 1),
    "ioprio_set": (251, 30, 1),
}
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_CLONE3: Final = 435
_SOCKET: Final = {"x86_64": 41, "aarch64": 198}
_IOCTL: Final = {"x86_64": 16, "aarch64": 29}
_NEW_NAMESPACES: Final = 0x7E020000  # CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32: Final = 0x40000000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000
_KILL: Final = 0x80000000


def machine() -> Machine | None:
    """Return the architecture, where there is a filter for it."""
    found = platform.machine()
    if found == "x86_64":
        return "x86_64"
    return "aarch64" if found in ("aarch64", "arm64") else None


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _refuse(code: int) -> bytes:
    return _instruction(_RETURN, _REFUSE | code)


def _load_argument(at: int) -> bytes:
    return _instruction(_LOAD, 16 + 8 * at)  # the low half; both machines are little-endian


def _when_number(number: int, body: Sequence[bytes]) -> list[bytes]:
    """Run the body for one system call; it must return on every way."""
    return [_instruction(_EQUAL, number, 0, len(body)), *body]


def build_filter(kind: Machine, *, network: bool, families: Sequence[int] | None = None) -> bytes:
    """Return the program: `build_filter("x86_64", network=False)`.

    Without `network` no socket can be made, only pairs of connected ones. `families` are the address
    families that are allowed instead.
    """
    column = 0 if kind == "x86_64" else 1
    program = [
        _instruction(_LOAD, 4),
        _instruction(_EQUAL, _ARCHITECTURE[kind], 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, 0),
    ]
    if kind == "x86_64":
        program += [_instruction(_AT_LEAST, _X32, 0, 1), _refuse(errno.ENOSYS)]
    # libc falls back to clone, whose flags can be looked at
    program += _when_number(_CLONE3, [_refuse(errno.ENOSYS)])
    for numbers in _REFUSED.values():
        number = numbers[column]
        if number is not None:
            program += _when_number(number, [_refuse(errno.EPERM)])
    for *numbers, at in _ON_OTHERS.values():
        program += _when_number(numbers[column], _require_zero(at))
    program += _when_number(_CLONE[kind], _refuse_bits(0, _NEW_NAMESPACES))
    program += _when_number(_IOCTL[kind], _refuse_values(1, (_TIOCSTI, _TIOCLINUX)))
    if families is None:
        families = (_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK) if network else ()
    program += _when_number(_SOCKET[kind], _allow_values(0, families))
    program.append(_instruction(_RETURN, _ALLOW))
    return b"".join(program)


def _require_zero(at: int) -> list[bytes]:
    return [
        _load_argument(at),
        _instruction(_EQUAL, 0, 1, 0),
        _refuse(errno.EPERM),
        _instruction(_RETURN, _ALLOW),
    ]


def _refuse_bits(at: int, bits: int) -> list[bytes]:
    return [
        _load_argument(at),
        _instruction(_ANY_BIT, bits, 0, 1),
        _refuse(errno.EPERM),
        _instruction(_RETURN, _ALLOW),
    ]


def _refuse_values(at: int, values: Sequence[int]) -> list[bytes]:
    checks = [[_instruction(_EQUAL, one, 0, 1), _refuse(errno.EPERM)] for one in values]
    steps = [one for check in checks for one in check]
    return [_load_argument(at), *steps, _instruction(_RETURN, _ALLOW)]


def _allow_values(at: int, values: Sequence[int]) -> list[bytes]:
    allow = _instruction(_RETURN, _ALLOW)
    checks = [[_instruction(_EQUAL, one, 0, 1), allow] for one in values]
    steps = [one for check in checks for one in check]
    return [_load_argument(at), *steps, _refuse(errno.EACCES)]

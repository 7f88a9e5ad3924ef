"""Landlock: which files a command may use, as a ruleset that its process restricts itself with."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
from functools import cache
from typing import Final

import msgspec

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
REMOVE_DIR: Final = 1 << 4
REMOVE_FILE: Final = 1 << 5
MAKE_CHAR: Final = 1 << 6
MAKE_DIR: Final = 1 << 7
MAKE_REG: Final = 1 << 8
MAKE_SOCK: Final = 1 << 9
MAKE_FIFO: Final = 1 << 10
MAKE_BLOCK: Final = 1 << 11
MAKE_SYM: Final = 1 << 12
REFER: Final = 1 << 13  # ABI 2
TRUNCATE: Final = 1 << 14  # ABI 3
IOCTL_DEV: Final = 1 << 15  # ABI 5

READ: Final = READ_FILE | READ_DIR
RUN: Final = READ | EXECUTE
#: All but devices, which nobody makes in a workspace.
CHANGE: Final = (
    RUN
    | WRITE_FILE
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | MAKE_FIFO
    | MAKE_SYM
    | REFER
    | TRUNCATE
)
USE_DEVICE: Final = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV

_ALL: Final = ((1 << 13) - 1, 1 << 13, 1 << 14, 0, 1 << 15)  # what ABI 1, 2, 3, 4, 5 know of files
_OF_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_CREATE, _ADD, _BENEATH = 444, 445, 1
_ASK_VERSION: Final = 1


class Rule(msgspec.Struct, frozen=True):
    """Rights beneath a path, or beneath an open folder."""

    path: str | int
    rights: int


@cache
def landlock_abi() -> int:
    """Return the ABI of Landlock of this kernel; 0 where there is none, or it is switched off."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.syscall(
        ctypes.c_long(_CREATE), None, ctypes.c_long(0), ctypes.c_long(_ASK_VERSION)
    )
    if found < 0:
        code = ctypes.get_errno()
        assert code in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM), os.strerror(code)
        return 0
    return found


def build_ruleset(rules: list[Rule], *, network: bool, abi: int) -> int:
    """Return the descriptor of a ruleset with all that this ABI can handle; the caller closes it.

    A path that is missing adds nothing.
    """
    handled = 0
    for bits in _ALL[: min(abi, len(_ALL))]:
        handled |= bits
    tcp = 0b11 if abi >= 4 and not network else 0  # bind, connect
    scoped = 0b11 if abi >= 6 else 0  # abstract sockets, signals
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    attributes = struct.pack("=QQQ", handled, tcp, scoped)[:size]
    ruleset = _call(_CREATE, attributes, size, 0)
    os.set_inheritable(ruleset, False)
    try:
        for rule in rules:
            _add_rule(ruleset, rule.path, rule.rights & handled)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _add_rule(ruleset: int, path: str | int, rights: int) -> None:
    if isinstance(path, int):
        _call(_ADD, ruleset, _BENEATH, struct.pack("=Qi", rights, path), 0)
        return
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= _OF_FILES
        if rights:
            _call(_ADD, ruleset, _BENEATH, struct.pack("=Qi", rights, handle), 0)
    finally:
        os.close(handle)


def _call(number: int, *values: int | bytes) -> int:
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in values]
    result: int = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *given)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result

"""`openat2(2)`: open a path that may not leave a folder, in one step that no rename can trick."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from typing import Final

RESOLVE_NO_XDEV: Final = 0x01
RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_BENEATH: Final = 0x08
_OPENAT2: Final = 437  # the same number on every architecture
_INSIDE: Final = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV
_ATTEMPTS: Final = 16  # EAGAIN: somebody renames folders while `..` is followed

_libc: ctypes.CDLL | None = None
if sys.platform == "linux":
    _libc = ctypes.CDLL(None, use_errno=True)


def open_beneath(folder: int, path: bytes, flags: int, mode: int = 0) -> int:
    """Open a path inside the folder of a descriptor; OSError as of `open`, EXDEV if it leads out.

    ENOSYS where the kernel cannot do it (before 5.6, or forbidden in an old container).
    """
    if _libc is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if b"\0" in path:  # C would read the name up to it
        raise OSError(errno.EINVAL, "the path holds a NUL character")
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, mode, _INSIDE)
    code = errno.EAGAIN
    for _ in range(_ATTEMPTS):
        opened: int = _libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_long(folder),
            ctypes.c_char_p(path),
            ctypes.c_char_p(how),
            ctypes.c_long(len(how)),
        )
        if opened >= 0:
            return opened
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code))


def _can_open_beneath() -> bool:
    try:
        folder = os.open("/", os.O_RDONLY)
    except OSError:
        return False
    try:
        os.close(open_beneath(folder, b".", os.O_RDONLY))
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


#: Whether this kernel has it; asked once, when the module is loaded.
HAS_OPENAT2: Final = _can_open_beneath()

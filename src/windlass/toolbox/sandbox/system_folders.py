"""What commands may read and execute beside the workspace: the system, and nobody's secrets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Final

from windlass.toolbox.sandbox.landlock import READ, RUN, USE_DEVICE, Rule

#: Folders with programs and libraries.
PROGRAMS: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/run/current-system",
)
#: Settings that programs read. Not `/etc` as a whole: root can read the passwords in it.
SETTINGS: Final = tuple(
    f"/etc/{name}"
    for name in (
        *("alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf"),
        *("crypto-policies", "debian_version", "default/locale", "environment", "fonts"),
        *("gai.conf", "gitconfig", "group", "host.conf", "hosts", "inputrc", "issue"),
        *("java", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "jvm"),
        *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "locale.alias"),
        *("locale.conf", "localtime", "lsb-release", "magic", "mime.types", "nanorc"),
        *("netconfig", "networks", "nsswitch.conf", "os-release", "passwd", "perl", "php"),
        *("pki/ca-trust", "pki/tls/certs", "pki/tls/openssl.cnf", "profile", "profile.d"),
        *("protocols", "python3", "python3.11", "python3.12", "python3.13", "redhat-release"),
        *("resolv.conf", "rpc", "services", "shells", "ssl/certs", "ssl/openssl.cnf"),
        *("terminfo", "timezone", "vim", "wgetrc", "xattr.conf", "xml"),
    )
)
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
FACTS: Final = ("/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup", "/sys/kernel/mm")


def interpreter_folders() -> Iterator[str]:
    """Yield the folders of the Python that runs this, where no home lies in them."""
    home = os.path.realpath(os.path.expanduser("~"))
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix, sys.exec_prefix)):
        real = os.path.realpath(prefix)
        if real.count("/") > 1 and not f"{home}/".startswith(f"{real}/"):
            yield real


def system_rules() -> list[Rule]:
    """Return the Landlock rules of the system."""
    return [
        *[Rule(path, RUN) for path in (*PROGRAMS, *interpreter_folders())],
        *[Rule(path, READ) for path in (*SETTINGS, *FACTS)],
        *[Rule(path, USE_DEVICE) for path in DEVICES],
    ]

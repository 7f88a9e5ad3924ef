"""The levels of the sandbox: what this machine can do, and refusals before a run begins."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.errors import ConfigError
from windlass.toolbox.options import Level
from windlass.toolbox.sandbox.bubblewrap import find_bubblewrap, find_isolation_problem
from windlass.toolbox.sandbox.landlock import landlock_abi
from windlass.toolbox.sandbox.launcher import SandboxFailed, acquire_warden, release_warden
from windlass.toolbox.sandbox.openat2 import HAS_OPENAT2
from windlass.toolbox.sandbox.seccomp import machine

#: Below it `truncate(2)` empties files outside the workspace.
LEAST_ABI: Final = 3
#: From it on a command cannot send signals to processes outside; below, namespaces must do it.
SIGNAL_ABI: Final = 6


class LevelFact(msgspec.Struct, frozen=True):
    """Whether a level can be had, and why not."""

    level: Level
    problem: str | None
    detail: str = ""


def find_problem(level: Level) -> str | None:
    """Return why a level cannot be had here, with the fix; None if it can."""
    if level == "none":
        return None
    if machine() is None:
        return "the seccomp filter knows x86-64 and aarch64 only; give sandbox='none'"
    if level == "isolated":
        return find_isolation_problem()
    return _find_workspace_problem()


def check_level(level: Level) -> None:
    """Raise `ConfigError` if a level cannot be had here: never a weaker one in its place."""
    problem = find_problem(level)
    if problem is not None:
        raise ConfigError(f"sandbox={level!r} cannot be had here: {problem}")


def describe_levels() -> list[LevelFact]:
    """Return what this machine can do, for `windlass doctor`."""
    return [
        LevelFact("workspace", find_problem("workspace"), _describe_workspace()),
        LevelFact("isolated", find_problem("isolated"), find_bubblewrap() or ""),
        LevelFact("none", None, "nothing holds commands but their environment and limits"),
    ]


def _find_workspace_problem() -> str | None:
    abi = landlock_abi()
    if abi < LEAST_ABI:
        have = "there is no Landlock" if abi == 0 else f"Landlock is of ABI {abi}"
        return (
            f"{have}, and ABI {LEAST_ABI} is needed (Linux 6.2 or newer, with landlock among the "
            "security modules); give sandbox='isolated', or sandbox='none' to run commands unheld"
        )
    if abi < SIGNAL_ABI and (why := _find_namespace_problem()) is not None:
        return (
            f"Landlock of ABI {abi} does not stop signals, and process namespaces cannot be had "
            f"({why}); allow user namespaces, or use Linux 6.12 or newer"
        )
    return None


def _find_namespace_problem() -> str | None:
    try:
        warden = acquire_warden()
    except SandboxFailed as error:
        return str(error)
    try:
        return None if warden.hello.namespaces != "none" else warden.hello.why
    finally:
        release_warden(warden)


def _describe_workspace() -> str:
    abi = landlock_abi()
    parts = [f"Landlock ABI {abi}" if abi else "no Landlock"]
    parts.append("seccomp" if machine() is not None else "no seccomp filter")
    problem = _find_namespace_problem()
    parts.append("process namespaces" if problem is None else f"no process namespaces ({problem})")
    parts.append("openat2" if HAS_OPENAT2 else "no openat2 (paths are walked)")
    return ", ".join(parts)

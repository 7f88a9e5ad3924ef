"""The options of a daemon: what wakes it, and where its snapshots are written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, cast

from windlass.errors import ConfigError, safe_repr
from windlass.options.checks import boolean, number, optional
from windlass.options.group import Door, Option, OptionGroup


def check_path(name: str, value: Any) -> str:
    """Check the path of a file, which may be a text or a path object."""
    path: object = value
    if isinstance(path, os.PathLike):
        path = os.fspath(cast("os.PathLike[str]", path))
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise ConfigError(f"{name} is the path of a file, not {safe_repr(value)}")
    return path


def check_watch_paths(name: str, value: Any) -> tuple[str, ...]:
    """Check the paths to watch: one, or a list."""
    if value is None:
        return ()
    if isinstance(value, (str, os.PathLike)):
        return (check_path(name, value),)
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{name} is a path or a list of paths, not {safe_repr(value)}")
    return tuple([check_path(name, one) for one in cast("Sequence[object]", value)])


class DaemonOptions(OptionGroup, frozen=True, kw_only=True):
    """A loop that becomes idle where others end, and wakes up when something happens."""

    doors: ClassVar[frozenset[Door]] = frozenset({"loop"})

    daemon: Annotated[bool, Option(boolean, scope="start", in_file=False)] = False
    """Whether a turn without tool calls makes the loop idle, where it would have ended."""
    persist_path: Annotated[
        str | None,
        Option(
            optional(check_path),
            scope="start",
            in_file=False,
            accepts="str | os.PathLike[str] | None",
        ),
    ] = None
    """The file for snapshots of a daemon, written when it is idle and at its end."""
    resume_path: Annotated[
        str | None,
        Option(
            optional(check_path),
            scope="start",
            in_file=False,
            accepts="str | os.PathLike[str] | None",
        ),
    ] = None
    """The snapshot of a daemon that is to go on."""
    wake_interval_ms: Annotated[
        int | None, Option(optional(number(1, whole=True)), scope="start", in_file=False)
    ] = None
    """Milliseconds after which an idle daemon wakes up."""
    watch_paths: Annotated[
        tuple[str, ...],
        Option(
            check_watch_paths,
            scope="start",
            in_file=False,
            accepts="str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None",
        ),
    ] = ()
    """Files whose changes wake an idle daemon."""
    consolidate_on_idle: Annotated[bool, Option(boolean, scope="start", in_file=False)] = False
    """Whether the conversation is compacted each time the daemon becomes idle."""
    idle_watchdog_attempts: Annotated[
        int | None, Option(optional(number(0, whole=True)), scope="start", in_file=False)
    ] = None
    """Waits in a row without a reason to wake up, after which the daemon ends as `watchdog`."""
    event_queue_capacity: Annotated[
        int | None, Option(optional(number(1, whole=True)), scope="start", in_file=False)
    ] = None
    """Events of `daemon_trigger` that may wait; with it, an idle daemon waits for them."""

    @property
    def waits(self) -> bool:
        """Whether something can wake the daemon, or a watchdog ends it."""
        return (
            self.wake_interval_ms is not None
            or bool(self.watch_paths)
            or self.event_queue_capacity is not None
            or self.idle_watchdog_attempts is not None
        )


NAMES: Final = tuple(name for name in DaemonOptions.__struct_fields__ if name != "daemon")


def check_daemon(options: DaemonOptions) -> None:
    """Refuse options of a daemon where there is none, and a folder in place of a file."""
    if not options.daemon:
        untouched = DaemonOptions()
        for name in NAMES:
            if getattr(options, name) != getattr(untouched, name):
                raise ConfigError(f"{name} is an option of daemons: give daemon=True with it")
    for name in ("persist_path", "resume_path"):
        path: str | None = getattr(options, name)
        if path is not None and os.path.isdir(path):
            raise ConfigError(f"{name} is the path of a file, and {path!r} is a folder")

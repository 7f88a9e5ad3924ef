"""The options of the workspace and of the sandbox."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, get_args

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import is_mapping
from windlass.options.checks import boolean, number, one_of, optional, texts
from windlass.options.group import Flag, Option, OptionGroup, OptionStruct, struct
from windlass.redaction.redactor import looks_secret

MountMode: TypeAlias = Literal["read", "extend"]
MOUNT_MODES: Final[tuple[MountMode, ...]] = get_args(MountMode)
Level: TypeAlias = Literal["workspace", "isolated", "none"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
_GIB: Final = 1 << 30


def check_variables(name: str, value: Any) -> Mapping[str, str]:
    """Check values of environment variables; a secret is named in `env`, never written here."""
    given = cast("object", {} if value is None else value)
    if not is_mapping(given):
        raise ConfigError(f"{name} is a dict of variables, not {safe_repr(given)}")
    checked: dict[str, str] = {}
    for key, one in given.items():
        if not isinstance(key, str) or not key or "=" in key or "\0" in key:
            raise ConfigError(f"{name}: a variable has a name, not {safe_repr(key)}")
        if not isinstance(one, str) or "\0" in one:
            raise ConfigError(f"{name}.{key} is a text, not {safe_repr(one)}")
        if looks_secret(key):
            raise ConfigError(
                f"{name}.{key} looks like a secret, and would be on record: set it in the "
                f"environment of the process, and name it with sandbox={{'env': [{key!r}]}}"
            )
        checked[key] = one
    return checked


class Sandbox(OptionStruct, frozen=True, kw_only=True):
    """What commands may do: `Sandbox(level="isolated", network=True)`."""

    level: Annotated[Level, Option(one_of(*LEVELS))] = "workspace"
    """`workspace`: Landlock and seccomp. `isolated`: also bubblewrap. `none`: no sandbox."""
    network: Annotated[bool, Option(boolean)] = False
    """Whether commands may use the network, and sockets of other programs."""
    memory: Annotated[int | None, Option(optional(number(1 << 24, whole=True)))] = 16 * _GIB
    """Bytes of address space of one process."""
    processes: Annotated[int | None, Option(optional(number(1, whole=True)))] = 1024
    """Processes and threads at a time; root is not limited."""
    file_size: Annotated[int | None, Option(optional(number(0, whole=True)))] = 4 * _GIB
    """Bytes of one file that a command writes."""
    env: Annotated[tuple[str, ...], Option(texts)] = ()
    """Names of further environment variables that commands get."""
    variables: Annotated[Mapping[str, str], Option(check_variables)] = {}
    """Environment variables with their values, for commands: nothing secret, for it is on record."""


class Fetch(OptionStruct, frozen=True, kw_only=True):
    """What `fetch_url` may fetch: `Fetch(hosts=("*.example.com",), timeout=10)`."""

    hosts: Annotated[tuple[str, ...] | None, Option(optional(texts))] = None
    """Globs over the hosts that may be fetched; None: every host with public addresses."""
    private: Annotated[tuple[str, ...], Option(texts)] = ()
    """Hosts and networks that may be fetched although they are not public: `"10.0.0.0/8"`."""
    timeout: Annotated[float, Option(number(0.001, 3600))] = 30.0
    """Seconds for a page with all its redirects."""
    max_bytes: Annotated[int, Option(number(1, 1 << 30, whole=True))] = 5_000_000
    """Bytes of a page that are read, after decompression."""
    max_redirects: Annotated[int, Option(number(0, 50, whole=True))] = 5
    """Redirects that are followed; each is checked like the first address."""


_check_sandbox_struct = struct(Sandbox, flag=False)


def _check_sandbox(name: str, value: Any) -> Sandbox:
    if isinstance(value, str):
        return Sandbox(level=cast("Level", one_of(*LEVELS)(name, value)))
    if value is None:
        return Sandbox()
    checked: Sandbox = _check_sandbox_struct(name, value)
    return checked


_check_fetch_struct = struct(Fetch, flag=False)


def _check_fetch(name: str, value: Any) -> Fetch:
    if value is None:
        return Fetch()
    checked: Fetch = _check_fetch_struct(name, value)
    return checked


def _check_folder(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)) or not str(cast("object", value)):
        raise ConfigError(f"{name} is a folder, not {safe_repr(cast('object', value))}")
    path = os.path.abspath(os.path.expanduser(str(cast("object", value))))
    if not os.path.isdir(path):
        raise ConfigError(f"{name}: there is no folder {safe_repr(path)}")
    return path


def _check_mounts(name: str, value: Any) -> Mapping[str, MountMode]:
    if value is None:
        return {}
    given = cast("object", value)
    if is_mapping(given):
        items: list[tuple[object, object]] = list(given.items())
    elif isinstance(given, (list, tuple)):
        items = [_split_mount(one) for one in cast("list[object]", given)]
    else:
        raise ConfigError(
            f"{name} is a dict of folders such as {{'/srv/data': 'read'}}, not {safe_repr(given)}"
        )
    mounts: dict[str, MountMode] = {}
    for folder, mode in items:
        if not isinstance(folder, (str, os.PathLike)) or not str(cast("object", folder)):
            given_folder = safe_repr(cast("object", folder))
            raise ConfigError(f"{name}: a folder is a path, not {given_folder}")
        if mode not in MOUNT_MODES:
            raise ConfigError(
                f"{name}: a mode is 'read' or 'extend', not {safe_repr(mode)}"
                f"{nearest(str(mode), MOUNT_MODES)}"
            )
        mounts[str(cast("object", folder))] = mode
    return mounts


def _split_mount(given: object) -> tuple[object, object]:
    """Read `folder` or `folder:mode`, as a flag of the command line gives it."""
    if isinstance(given, str):
        folder, colon, mode = given.rpartition(":")
        if colon and mode in MOUNT_MODES:
            return folder, mode
    return given, "read"


class WorkspaceOptions(OptionGroup, frozen=True, kw_only=True):
    """The workspace folder and the sandbox for commands."""

    workspace: Annotated[
        str | None,
        Option(
            _check_folder,
            scope="start",
            accepts="str | os.PathLike[str] | None",
            flags=(Flag(metavar="FOLDER"),),
            in_file=False,
        ),
    ] = None
    """The folder of built-in tools, path rules and approvals. Default: the current folder."""
    mounts: Annotated[
        Mapping[str, MountMode],
        Option(
            _check_mounts,
            scope="start",
            accepts="Mapping[str, Literal['read', 'extend']] | Sequence[str] | None",
            flags=(
                Flag(
                    names=("--mount",),
                    metavar="FOLDER[:MODE]",
                    repeats=True,
                    note="The mode is read or extend. May be repeated.",
                ),
            ),
            in_file=False,
        ),
    ] = {}
    """Further folders that tools may read (`read`), or change as well (`extend`)."""
    sandbox: Annotated[
        Sandbox,
        Option(
            _check_sandbox,
            scope="start",
            accepts="Literal['workspace', 'isolated', 'none'] | dict[str, Any] | Sandbox | None",
            flags=(
                Flag(
                    metavar="LEVEL",
                    words="What holds the commands that tools run: workspace, isolated or none.",
                ),
            ),
        ),
    ] = Sandbox()
    """The sandbox for commands of tools: a level, or a `Sandbox` with limits."""
    fetch: Annotated[
        Fetch,
        Option(_check_fetch, scope="start", accepts="dict[str, Any] | Fetch | None"),
    ] = Fetch()
    """What the tool `fetch_url` may fetch: hosts, private addresses, time and size."""

    @property
    def anchor(self) -> str:
        """The absolute path of the workspace, with all links followed."""
        return os.path.realpath(self.workspace or os.getcwd())

    def resolve_mounts(self) -> dict[str, MountMode]:
        """Return the mounts by absolute path; relative ones begin in the workspace."""
        return {
            os.path.realpath(os.path.join(self.anchor, os.path.expanduser(folder))): mode
            for folder, mode in self.mounts.items()
        }

"""The environment variables of commands: few, and none with a secret."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from windlass.redaction.redactor import Redactor

_HARMLESS: Final = frozenset(
    {"PATH", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "USER", "LOGNAME", "SHELL"}
)
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def build_environment(
    home: str,
    temporary: str,
    named: Sequence[str],
    environ: Mapping[str, str],
    readable: Sequence[str] = ("/",),
) -> dict[str, str]:
    """Return the variables of a command: harmless ones, those that were named, and its folders.

    A harmless variable whose value holds a secret of another one is left out, and so are the folders
    of PATH that are not `readable`: a shell would find programs in them that it may not execute.
    """
    redactor = Redactor(())
    redactor.add_env(environ)
    found = {
        name: value
        for name, value in environ.items()
        if (name in _HARMLESS or name.startswith("LC_")) and redactor.value(value) == value
    }
    found["PATH"] = _filter_path(found.get("PATH", ""), readable) or _PATH
    found.setdefault("LANG", "C.UTF-8")
    found |= {name: environ[name] for name in named if name in environ}
    found |= {"HOME": home, "TMPDIR": temporary, "TMP": temporary, "TEMP": temporary}
    return found | {"XDG_CACHE_HOME": os.path.join(home, ".cache")}


def _filter_path(path: str, readable: Sequence[str]) -> str:
    """Return the absolute folders of PATH that lie in readable ones, and the system's."""
    listed = [*path.split(os.pathsep), *_PATH.split(os.pathsep)]
    kept = [
        one
        for one in dict.fromkeys(listed)
        if os.path.isabs(one) and any([_lies_in(os.path.realpath(one), root) for root in readable])
    ]
    return os.pathsep.join(kept)


def _lies_in(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")

"""Which files of a project the user has trusted, by path and content.

A project's `windlass.toml` may narrow what applies, never widen it, until its user says
`windlass trust`. The record is in the user's own configuration folder; a file that changes by one
byte is a stranger again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from windlass.errors import ConfigError
from windlass.files import owner_problem, read_regular, write_private
from windlass.json_types import is_object

VARIABLE: Final = "WINDLASS_TRUSTED_FILES"  # paths, as in PATH: for containers and services
_RECORD: Final = "trusted.json"


class IgnoredSetting(msgspec.Struct, frozen=True):
    """A setting, or a whole file, that does not count, and why."""

    setting: str  # "" for a whole file
    origin: str  # path, or path:line
    reason: str


class TrustRecord:
    """The user's trusted files: `TrustRecord(os.environ).trusts(path, content)`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._named = [each for each in environ.get(VARIABLE, "").split(os.pathsep) if each]
        folder = user_folder(environ)
        self.file = None if folder is None else folder / _RECORD

    def trusts(self, path: Path, content: bytes) -> bool:
        """Check whether the user trusts the file at this path, as it is now."""
        place = os.path.realpath(path)
        if any(os.path.isabs(named) and os.path.realpath(named) == place for named in self._named):
            return True
        return self.entries().get(place) == _digest(content)

    def trust(self, path: Path, content: bytes) -> None:
        """Trust the file at this path, with this content."""
        self._write({**self.entries(), os.path.realpath(path): _digest(content)})

    def forget(self, path: Path) -> bool:
        """Stop trusting the file at this path; False if it was not trusted."""
        entries = self.entries()
        if entries.pop(os.path.realpath(path), None) is None:
            return False
        self._write(entries)
        return True

    def entries(self) -> dict[str, str]:
        """Return the digest of the trusted content, by path."""
        if self.file is None or not self.file.exists():
            return {}
        if problem := owner_problem(self.file):
            raise ConfigError(f"{self.file}: {problem}; what it says about trust does not count")
        try:
            data: object = json.loads(read_regular(self.file))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.file}: it cannot be read ({error}); remove it") from None
        if not is_object(data):
            raise ConfigError(f"{self.file}: it is not a record of trusted files; remove it")
        return {path: digest for path, digest in data.items() if isinstance(digest, str)}

    def _write(self, entries: Mapping[str, str]) -> None:
        if self.file is None:
            raise ConfigError("nothing can be trusted without a home folder: set HOME")
        content = json.dumps(dict(sorted(entries.items())), indent=2).encode()
        write_private(self.file, content, linked_folders=True)


def user_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the user's configuration folder, whether or not it exists."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(base):  # the XDG specification: a relative one is to be ignored
        return Path(base, "windlass")
    home = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(home, ".config", "windlass") if home else None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

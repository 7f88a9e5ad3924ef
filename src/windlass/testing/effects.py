"""A log of effects that survives crashes; an effect that happened twice is in it twice."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from windlass.json_types import JsonObject


class EffectLog:
    """A log of effects in a file, one line of JSON each, for tests of crashes.

    ```python
    log = EffectLog(folder / "effects.jsonl")
    log.write("refund:42", amount=9.5)
    assert log.counts() == {"refund:42": 1}
    ```
    The file is not kept open, so it may be used across forks and from any thread.
    """

    def __init__(self, path: str | os.PathLike[str], *, fsync: bool = False) -> None:
        self.path = Path(path)
        self._fsync = fsync

    def write(self, key: str, **data: Any) -> None:
        """Record that the effect `key` has happened."""
        line = msgspec.json.encode({"key": key, **data}) + b"\n"
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(fd, line)  # one call: lines of several writers never mix
            if self._fsync:
                os.fsync(fd)
        finally:
            os.close(fd)

    def read(self) -> list[JsonObject]:
        """Return every effect in order. A line cut short is an effect too."""
        if not self.path.exists():
            return []
        effects: list[JsonObject] = []
        for line in self.path.read_bytes().splitlines():
            try:
                effects.append(msgspec.json.decode(line, type=JsonObject))
            except msgspec.DecodeError:
                effects.append({"key": f"cut short: {line!r}"})
        return effects

    def counts(self) -> Counter[str]:
        """Count how often each effect has happened."""
        return Counter(str(effect["key"]) for effect in self.read())

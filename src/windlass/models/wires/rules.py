"""What the rules share: a refusal, and how they are told which signatures are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from windlass.json_types import JsonObject

Data: TypeAlias = JsonObject
#: Makes the signature of a text, where somebody can: a provider knows its own, nobody else does.
Sign: TypeAlias = Callable[[str], str]


class Rejected(Exception):
    """A request the provider refuses, in its own words."""

    def __init__(
        self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.code, self.param = message, status, code, param

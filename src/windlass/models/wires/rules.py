"""The error of a refused request, and the type of signature functions, for all rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from windlass.json_types import JsonObject

Data: TypeAlias = JsonObject
#: Computes the signature of a text. Only fake providers can: real ones keep their key.
Sign: TypeAlias = Callable[[str], str]


class Rejected(Exception):
    """A request that the provider refuses, with its error message."""

    def __init__(
        self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.code, self.param = message, status, code, param

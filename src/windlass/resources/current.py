"""The resources of the current Runtime: what `@export` adds to."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol


class ResourceCollection(Protocol):
    """Resources that another can be added to."""

    def add(self, cls: type[Any]) -> object:
        """Add a class of rows."""
        ...


current_resources: ContextVar[Callable[[], ResourceCollection] | None] = ContextVar(
    "windlass_resources", default=None
)

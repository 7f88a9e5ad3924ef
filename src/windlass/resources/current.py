"""The resources of the current Runtime, to which `@export` adds."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol


class ResourceCollection(Protocol):
    """A collection of resources that can be extended."""

    def add(self, cls: type[Any]) -> object:
        """Add a class of rows."""
        ...


current_resources: ContextVar[Callable[[], ResourceCollection] | None] = ContextVar(
    "windlass_resources", default=None
)

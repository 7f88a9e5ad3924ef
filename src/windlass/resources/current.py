"""The resources of the Runtime around: what `@export` adds to."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.resources.registry import Resources

current_resources: ContextVar[Callable[[], Resources] | None] = ContextVar(
    "windlass_resources", default=None
)

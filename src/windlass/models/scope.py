"""Whose configuration of models applies here: a Runtime says so, and `book.current()` asks."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.models.book import Book

#: What gives the book of this context; None: the nearest `windlass.toml` makes it.
current_book: ContextVar[Callable[[], Book] | None] = ContextVar("windlass_book", default=None)

"""Whose configuration of models applies here: a Runtime says so, and `book.current()` asks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.models.book import Book

#: What gives the book of this context; None: the nearest `windlass.toml` makes it.
current_book: ContextVar[Callable[[], Book] | None] = ContextVar("windlass_book", default=None)


@contextmanager
def afresh() -> Generator[None]:
    """Within, what is configured is read anew, for the folder we are in: `with afresh(): …`"""
    made: list[Book] = []

    def book() -> Book:
        if not made:
            from windlass.config import load
            from windlass.models.book import book_of  # only for who asks for a model by name

            made.append(book_of(load()))
        return made[0]

    token = current_book.set(book)
    try:
        yield
    finally:
        current_book.reset(token)

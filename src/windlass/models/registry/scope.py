"""Whose configuration and environment apply here: a Runtime says so, and those who look ask."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.models.registry.registry import Book

#: What gives the book of this context; None: the nearest `windlass.toml` makes it.
current_book: ContextVar[Callable[[], Book] | None] = ContextVar("windlass_book", default=None)

#: The variables that a Runtime was given; None: those of the process.
current_environ: ContextVar[Mapping[str, str] | None] = ContextVar("windlass_environ", default=None)


def environ() -> Mapping[str, str]:
    """The variables that hold here: for keys, addresses and proxies."""
    given = current_environ.get()
    return os.environ if given is None else given


@contextmanager
def afresh() -> Generator[None]:
    """Within, what is configured is read anew, for the folder we are in: `with afresh(): …`"""
    made: list[Book] = []

    def book() -> Book:
        if not made:
            from windlass.config.loader import load
            from windlass.models.registry.registry import (
                book_of,  # only for who asks for a model by name
            )

            made.append(book_of(load()))
        return made[0]

    token = current_book.set(book)
    try:
        yield
    finally:
        current_book.reset(token)

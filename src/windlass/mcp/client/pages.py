"""Lists that a server gives page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, Protocol, TypeVar

import mcp_types as types

MOST_PAGES: Final = 100


class _Page(Protocol):
    @property
    def next_cursor(self) -> str | None: ...


P = TypeVar("P", bound=_Page, covariant=True)


class _Fetch(Protocol[P]):
    async def __call__(self, *, params: types.PaginatedRequestParams | None) -> P: ...


async def read_pages(fetch: _Fetch[P]) -> AsyncGenerator[P]:
    """Yield the pages of a list, up to the last, a cursor that was there before, or a limit."""
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await fetch(params=types.PaginatedRequestParams(cursor=cursor))
        yield page
        cursor = page.next_cursor
        if cursor is None or cursor in seen:
            return
        seen.add(cursor)


async def collect(fetch: _Fetch[P]) -> list[P]:
    """Return all pages of a list."""
    return [page async for page in read_pages(fetch)]

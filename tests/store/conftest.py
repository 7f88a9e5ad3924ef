"""A store on Postgres, with tables of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from windlass.store.postgres.store import PostgresStore
from windlass.testing.postgres import shared_server


@pytest.fixture
async def store() -> AsyncIterator[PostgresStore]:
    """Of Postgres; modules about another kind have their own."""
    made = PostgresStore(shared_server().schema())
    yield made
    await made.aclose()

"""A store on Postgres, with tables of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from windlass.store.postgres.store import PostgresStore
from windlass.testing.postgres import shared_server


@pytest.fixture
async def store() -> AsyncIterator[PostgresStore]:
    """Provide a store on Postgres; other modules have their own fixture."""
    made = PostgresStore(shared_server().schema())
    yield made
    await made.aclose()

"""Submitting inside a Postgres transaction of the caller's own."""

from __future__ import annotations

import asyncpg
import pytest

import windlass as w
from windlass.errors import ConfigError, NoSuchSession
from windlass.runtime.runtime import Runtime
from windlass.testing import scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server

pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)


async def test_submission_joins_the_transaction_of_the_caller():
    url = shared_server().schema()
    connection = await asyncpg.connect(shared_server().url())
    try:
        async with Runtime(store=url, environ={}) as runtime:
            with pytest.raises(ConfigError, match="no open transaction"):
                await runtime.submit("writer", "go", connection=connection)
            path = await connection.fetchval("SHOW search_path")
            transaction = connection.transaction()
            await transaction.start()
            lost = await runtime.submit("writer", "lost", connection=connection)
            assert await connection.fetchval("SHOW search_path") == path
            await transaction.rollback()
            with pytest.raises(NoSuchSession):
                await lost.status()
            agent = w.Agent(scripted("kept"), name="writer")
            async with connection.transaction():
                handle = await runtime.submit(agent, "go", connection=connection, key="k")
            assert (await handle.result(timeout=30)).output == "kept"
    finally:
        await connection.close()

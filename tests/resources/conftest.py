"""A Runtime on each kind of store, with the resources that a test names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.testing import no_model_requests
from windlass.testing.postgres import MISSING, find_binaries, shared_server


@pytest.fixture(autouse=True)
def offline():
    with no_model_requests():
        yield


POSTGRES = pytest.mark.skipif(find_binaries() is None, reason=MISSING)


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=POSTGRES)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Provide the URL of a store."""
    if request.param == "postgres":
        return shared_server().schema()
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/rows.db"


@pytest.fixture
async def runtime(place: str) -> AsyncIterator[Callable[..., Any]]:
    """Provide `scope = await runtime(Product, roles=…)`; enter it with `async with scope`."""
    async with AsyncExitStack() as stack:

        async def make(*classes: type[w.Resource], **options: Any) -> w.Runtime:
            made = w.Runtime(store=place, environ={}, resources=classes, **options)
            stack.push_async_callback(made.aclose)
            return made

        yield make

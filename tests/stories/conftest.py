"""Every story has a Runtime of its own and a strict audit; nothing reaches a network.

By default sessions live in memory; the deep group tells every story on SQLite as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from windlass import seams
from windlass.agents import runtime as runtimes
from windlass.agents.runtime import Runtime
from windlass.models.mock import llm_mock_clear
from windlass.testing import no_model_requests


@pytest.fixture(autouse=True, params=["memory", pytest.param("sqlite", marks=pytest.mark.deep)])
def own_world(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Runtime]:
    """A fresh default Runtime: no file, no environment, an empty mock queue."""
    store = "memory:"
    if request.param == "sqlite":
        store = f"sqlite:///{tmp_path_factory.mktemp('stories')}/sessions.db"
    fresh = Runtime(store=store, environ={})
    monkeypatch.setattr(runtimes, "_default", fresh)
    monkeypatch.setattr(seams, "strict", True)
    llm_mock_clear()
    with no_model_requests():
        yield fresh
    llm_mock_clear()
    asyncio.run(fresh.aclose())

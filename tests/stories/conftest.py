"""Every story has a Runtime of its own and a strict audit; nothing reaches a network.

By default sessions live in memory. The deep group tells every story on SQLite as well, and on Postgres
those whose matter is what is stored; WINDLASS_STORIES=postgres tells all of them there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from windlass import seams
from windlass.engine import environment as runtimes
from windlass.models.mock import llm_mock_clear
from windlass.runtime.runtime import Runtime
from windlass.testing import no_model_requests
from windlass.testing.postgres import MISSING, find_binaries, shared_server

SQLITE = pytest.param("sqlite", marks=pytest.mark.deep)
POSTGRES = pytest.param(
    "postgres",
    marks=[pytest.mark.deep, pytest.mark.skipif(find_binaries() is None, reason=MISSING)],
)
STORED = {
    "test_answer_races",
    "test_approval",
    "test_budget_reserves",
    "test_conversation",
    "test_discarded_trees",
    "test_fleet",
    "test_generate",
    "test_identity",
    "test_parked_sessions",
    "test_parking",
    "test_permissions",
    "test_resources",
    "test_scratchpad_sessions",
    "test_sessions",
    "test_undo",
    "test_workers_fleet",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the stores of each story."""
    if "own_world" not in metafunc.fixturenames:
        return
    places = ["memory", SQLITE]
    if metafunc.module.__name__.rpartition(".")[2] in STORED:
        places.append(POSTGRES)
    if os.environ.get("WINDLASS_STORIES") == "postgres":
        places = [POSTGRES]
    metafunc.parametrize("own_world", places, indirect=True)


@pytest.fixture(autouse=True)
def own_world(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Runtime]:
    """Provide a fresh default Runtime: no file, no environment, an empty mock queue."""
    store = "memory:"
    if request.param == "sqlite":
        store = f"sqlite:///{tmp_path_factory.mktemp('stories')}/sessions.db"
    elif request.param == "postgres":
        store = shared_server().schema()
    fresh = Runtime(store=store, environ={})
    monkeypatch.setattr(runtimes, "_default", fresh)
    monkeypatch.setattr(seams, "strict", True)
    llm_mock_clear()
    with no_model_requests():
        yield fresh
    llm_mock_clear()
    asyncio.run(fresh.aclose())

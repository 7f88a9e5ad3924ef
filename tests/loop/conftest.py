"""A Runtime of its own for each test; nothing reaches a network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from windlass import seams
from windlass.engine import environment as runtimes
from windlass.models.mock import llm_mock_clear
from windlass.runtime.runtime import Runtime
from windlass.testing import no_model_requests


@pytest.fixture(autouse=True)
def own_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """Provide a fresh default Runtime: no file, no environment, an empty mock queue."""
    fresh = Runtime(store="memory:", environ={})
    monkeypatch.setattr(runtimes, "_default", fresh)
    monkeypatch.setattr(seams, "strict", True)
    llm_mock_clear()
    with no_model_requests():
        yield fresh
    llm_mock_clear()

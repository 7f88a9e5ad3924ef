"""Every test has a Runtime of its own and a strict audit; nothing reaches a network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from windlass import seams
from windlass.engine import environment as runtimes
from windlass.runtime.runtime import Runtime
from windlass.testing import no_model_requests


@pytest.fixture(autouse=True)
def own_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """Provide a fresh default Runtime: no file, no environment."""
    fresh = Runtime(store="memory:", environ={})
    monkeypatch.setattr(runtimes, "_default", fresh)
    monkeypatch.setattr(seams, "strict", True)
    with no_model_requests():
        yield fresh
    asyncio.run(fresh.aclose())

"""What every test may count on: patience on a busy machine, and a way to servers of our own."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from windlass.models.base import Model
from windlass.models.transport import base as transport_base
from windlass.store import transaction

settings.register_profile(
    "windlass",
    deadline=None,
    database=None,
    derandomize=True,  # a failure in one run is a failure in all
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("windlass")

# No test waits for the retry of a model of its own; what is waited by default is RETRY_DELAY.
Model.retry_delay = 0.0

# A disk that stalls for a second fails no test; those about the limit set one of their own.
STATED_LIMIT_SECONDS = transaction.LIMIT_SECONDS
transaction.LIMIT_SECONDS = 30.0


def pytest_collection_finish() -> None:
    """Freeze the collected tests, so that later garbage collections skip them."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def reachable() -> Iterator[None]:
    """Allow servers on loopback, which the guard against real models would refuse.

    Not by monkeypatch: that ends after the guard does, and would leave it behind for all others.
    """
    guard, transport_base.forbid = transport_base.forbid, None
    yield
    transport_base.forbid = guard

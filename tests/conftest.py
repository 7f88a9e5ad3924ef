"""What every test may count on: hypothesis neither times nor remembers anything on a busy machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "windlass",
    deadline=None,
    database=None,
    derandomize=True,  # a failure in one run is a failure in all; `make check-deep` looks further
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", parent=settings.get_profile("windlass"), max_examples=2000)
settings.load_profile("windlass")

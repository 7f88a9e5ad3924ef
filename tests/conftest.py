"""What every test may count on: hypothesis neither times nor remembers anything on a busy machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "windlass",
    deadline=None,
    database=None,
    derandomize=True,  # a failure in one run is a failure in all
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("windlass")

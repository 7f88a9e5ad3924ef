"""The section `[audit]` of `windlass.toml`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from windlass import config


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where seals are anchored, and how often the chains of runs under way are sealed."""

    anchor: str | None = None  # a file outside of the store
    every: Annotated[float, msgspec.Meta(gt=0)] = 60.0  # seconds; also at the end of each run


config.section("audit", AuditConfig)

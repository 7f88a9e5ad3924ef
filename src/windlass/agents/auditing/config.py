"""The section `[audit]` of `windlass.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from windlass import config


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where seals are anchored, and how often the chains of runs under way are sealed."""

    anchor: str | None = None  # a file outside of the store
    every: Annotated[float, msgspec.Meta(gt=0)] = 60.0  # seconds; also at the end of each run

    @classmethod
    def widens(cls, path: tuple[str, ...], value: object, weaker: Mapping[str, Any]) -> bool:
        """Does the setting need the user's trust? The anchor is a file that is written."""
        return True


config.section("audit", AuditConfig)

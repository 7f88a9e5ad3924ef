"""The section `[telemetry]` of `windlass.toml`, and whether there is anything to it here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.config import sections


class TelemetryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Spans for OpenTelemetry, where the program has set it up."""

    enabled: bool = True
    capture_content: bool = False  # put what was said, asked and answered into spans

    @classmethod
    def widens(cls, path: tuple[str, ...], value: object, weaker: Mapping[str, Any]) -> bool:
        """Does the setting need the user's trust? More in spans does, less does not."""
        return value is not False


sections.register("telemetry", TelemetryConfig)


def in_use() -> bool:
    """Does this program use OpenTelemetry at all? One look into a dict."""
    return "opentelemetry.trace" in sys.modules

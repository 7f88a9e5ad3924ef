"""The section `[telemetry]` of `windlass.toml`, and what shows that a program traces."""

from __future__ import annotations

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


#: In `sys.modules` of a program that uses OpenTelemetry.
TRACE_MODULE = "opentelemetry.trace"

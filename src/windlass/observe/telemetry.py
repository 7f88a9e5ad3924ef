"""The section `[telemetry]` of `windlass.toml`, and what shows that a program traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.config import sections


class TelemetryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Spans for OpenTelemetry, where the program has set it up."""

    enabled: bool = True
    capture_content: bool = False  # put prompts, replies and results into spans

    @classmethod
    def widens(cls, path: tuple[str, ...], value: object, weaker: Mapping[str, Any]) -> bool:
        """Check whether the setting needs the user's trust: more content in spans does."""
        return value is not False


sections.register("telemetry", TelemetryConfig)


#: In `sys.modules` of a program that uses OpenTelemetry.
TRACE_MODULE = "opentelemetry.trace"

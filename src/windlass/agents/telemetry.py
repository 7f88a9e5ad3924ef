"""The section `[telemetry]` of `windlass.toml`, and whether there is anything to it here."""

from __future__ import annotations

import sys

import msgspec

from windlass import config


class TelemetryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Spans for OpenTelemetry, where the program has set it up."""

    enabled: bool = True
    capture_content: bool = False  # put what was said, asked and answered into spans


config.section("telemetry", TelemetryConfig)


def in_use() -> bool:
    """Does this program use OpenTelemetry at all? One look into a dict."""
    return "opentelemetry.trace" in sys.modules

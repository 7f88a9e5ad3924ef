"""The section `[telemetry]` of `windlass.toml`, and whether a program has set up OpenTelemetry."""

from __future__ import annotations

import sys
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


def is_traced() -> bool:
    """Check whether the program has set up OpenTelemetry; other packages import its API, too."""
    trace: Any = sys.modules.get(TRACE_MODULE)
    if trace is None:
        return False
    try:
        return type(trace.get_tracer_provider()) is not trace.ProxyTracerProvider
    except Exception:
        return True  # who builds the spans says what is wrong

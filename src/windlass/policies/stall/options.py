"""What going in circles means, and what is to be done about it: three configurations of one policy.

`policy.py` acts on them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

Action = Literal["warn", "inject", "terminate", "continue"]
ACTIONS = ("warn", "inject", "terminate", "continue")


class StallDiagnostics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same call in a row: `StallDiagnostics(threshold=3, max_feedback=1)`."""

    enabled: bool = True
    threshold: int = 3
    inject_feedback: bool = True
    max_feedback: int = 1
    exempt_tools: tuple[str, ...] = ()
    include_arguments: bool = False


class LoopTiers(msgspec.Struct, frozen=True):
    """The same call with the same result: a hint, another answer, no run at all."""

    warn: int = 2
    block: int = 3
    skip: int = 4


class LoopDetectionInfo(msgspec.Struct, frozen=True):
    """What a function for `on_loop_detected` is given."""

    kind: Literal["tool_repetition", "text_repetition"]
    detail: str
    repetitions: int


Handler = Callable[[LoopDetectionInfo], Any | Awaitable[Any]]


class LoopDetection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same turn again: `LoopDetection(max_repetitions=3, on_loop_detected="terminate")`."""

    max_repetitions: int = 3
    window: int = 4
    on_loop_detected: Action | Handler = "warn"

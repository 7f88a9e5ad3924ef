"""Options against repetition: what counts as a stall, and what happens then.

One policy, `policy.py`, handles all three.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec

from windlass.options.checks import boolean, number, one_of, texts
from windlass.options.group import Option, OptionGroup, OptionStruct, struct

Action = Literal["warn", "inject", "terminate", "continue"]
ACTIONS = ("warn", "inject", "terminate", "continue")


class StallDiagnostics(OptionStruct, frozen=True, kw_only=True):
    """Warn when the same call is repeated: `StallDiagnostics(threshold=3, max_feedback=1)`."""

    enabled: Annotated[bool, Option(boolean)] = True
    """Whether repeated calls are detected."""
    threshold: Annotated[int, Option(number(2, whole=True))] = 3
    """Identical calls in a row before the warning."""
    inject_feedback: Annotated[bool, Option(boolean)] = True
    """Whether the model is told."""
    max_feedback: Annotated[int, Option(number(0, whole=True))] = 1
    """How often the model is told in one run."""
    exempt_tools: Annotated[tuple[str, ...], Option(texts, aliases=("allow_repeated_tools",))] = ()
    """Tools that may be called any number of times."""
    include_arguments: Annotated[bool, Option(boolean)] = False
    """Whether the recorded warning has the arguments."""


class LoopTiers(msgspec.Struct, frozen=True):
    """Numbers of equal results after which a call is hinted at, replaced, or not run."""

    warn: int = 2
    block: int = 3
    skip: int = 4


class LoopDetectionInfo(msgspec.Struct, frozen=True):
    """The argument of a function for `on_loop_detected`."""

    kind: Literal["tool_repetition", "text_repetition"]
    detail: str
    repetitions: int


Handler = Callable[[LoopDetectionInfo], Any | Awaitable[Any]]


def _check_action(name: str, value: Any) -> Any:
    return value if callable(value) else one_of(*ACTIONS)(name, value)


class LoopDetection(OptionStruct, frozen=True, kw_only=True):
    """Detect repeated turns: `LoopDetection(max_repetitions=3, on_loop_detected="terminate")`."""

    max_repetitions: Annotated[int, Option(number(2, whole=True))] = 3
    """Equal turns before it counts as a loop."""
    window: Annotated[int, Option(number(1, whole=True))] = 4
    """Turns that are compared."""
    on_loop_detected: Annotated[Action | Handler, Option(_check_action)] = "warn"
    """What happens then, or a function that returns it."""


class StallOptions(OptionGroup, frozen=True, kw_only=True):
    """Stalls and loops: repeated calls."""

    stall_diagnostics: Annotated[
        StallDiagnostics | None,
        Option(struct(StallDiagnostics), accepts="bool | dict[str, Any] | StallDiagnostics | None"),
    ] = None
    """Warn the model when it repeats the same call."""
    loop_detection: Annotated[
        LoopDetection | None,
        Option(struct(LoopDetection), accepts="bool | dict[str, Any] | LoopDetection | None"),
    ] = None
    """Detect whole turns that are repeated."""
    loop_detect_warn: Annotated[int | None, Option(number(0, whole=True))] = None
    """Equal results of a call after which a hint is added (2); 0 turns the tiers off."""
    loop_detect_block: Annotated[int | None, Option(number(1, whole=True))] = None
    """Equal results of a call after which a text replaces the result (3)."""
    loop_detect_skip: Annotated[int | None, Option(number(1, whole=True))] = None
    """Equal results of a call after which it is not run (4)."""

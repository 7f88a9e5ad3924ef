"""The types of the options of presets, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass.callers.common import Other
from windlass.engine.keywords import LoopKeywords


class CaptainKeywords(LoopKeywords, total=False):
    """What a captain takes by name: every option of the loop, and which model answers when."""

    system: str
    cheap_caller: Other
    frontier_caller: Other
    escalate_predicate: Callable[..., Any]
    logging_sink: Callable[[dict[str, Any]], Any]


class PresetKeywords(LoopKeywords, total=False):
    """What the other presets take by name."""

    system: str

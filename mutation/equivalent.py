"""Mutants that nobody could notice, each with the reason. A name that is gone makes the run fail."""

from __future__ import annotations

_SHORTCUT = "options that have a quicker way to the same plan; without it only time is lost"
_EITHER = "an agent takes it as well: taken for one of its options, it does the same for that run"

EQUIVALENT: dict[str, str] = {
    "model@assemble:_FEW": _SHORTCUT,
    "tools@assemble:_FEW": _SHORTCUT,
    "max_iterations@assemble:_FEW": _SHORTCUT,
    "name@assemble:_FEW": _SHORTCUT,
    "session_id@options:OF_A_RUN": _EITHER,
    "store@options:OF_A_RUN": _EITHER,
    "on_event@options:OF_A_RUN": _EITHER,
    "abort@options:OF_A_RUN": _EITHER,
    "caller@options:OF_A_RUN": _EITHER,
    "request_id@options:OF_A_RUN": _EITHER,
    "conversation_id@options:OF_A_RUN": _EITHER,
    "llm_options@options:with_environment": (
        "llm_options have the last word over the variable anyway, where settings are made"
    ),
}

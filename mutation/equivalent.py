"""Mutants that nobody could notice, each with the reason. A name that is gone makes the run fail."""

from __future__ import annotations

_SHORTCUT = "options that have a quicker way to the same plan; without it only time is lost"
_EITHER = "an agent takes it as well: taken for one of its options, it does the same for that run"

EQUIVALENT: dict[str, str] = {
    "model@engine.assemble:_FEW": _SHORTCUT,
    "tools@engine.assemble:_FEW": _SHORTCUT,
    "max_iterations@engine.assemble:_FEW": _SHORTCUT,
    "name@engine.assemble:_FEW": _SHORTCUT,
    "session_id@engine.options:OF_A_RUN": _EITHER,
    "store@engine.options:OF_A_RUN": _EITHER,
    "on_event@engine.options:OF_A_RUN": _EITHER,
    "abort@engine.options:OF_A_RUN": _EITHER,
    "caller@engine.options:OF_A_RUN": _EITHER,
    "request_id@engine.options:OF_A_RUN": _EITHER,
    "conversation_id@engine.options:OF_A_RUN": _EITHER,
    "llm_options@engine.options:with_environment": (
        "llm_options have the last word over the variable anyway, where settings are made"
    ),
}

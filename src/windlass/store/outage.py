"""How long callers wait for a store whose server is away."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

#: What is asked of a store in this context waits for its server while this returns True, and not for
#: `busy_timeout` alone. A fleet sets it for what it drives: a run that cannot write now goes on later.
waits_on: Final[ContextVar[Callable[[], bool] | None]] = ContextVar(
    "windlass_waits_on", default=None
)

"""Policies made on the spot, for stories."""

from __future__ import annotations

from typing import Any

import windlass as w


def named(name: str, **moments: Any) -> w.Policy[Any]:
    """Build a policy of this name with these moments."""
    return type(name, (w.Policy,), moments)()


def at(moment: str, verdict: Any, name: str = "At") -> w.Policy[Any]:
    """Build a policy that always answers the same at a moment."""

    async def say(self: Any, run: w.Run, *_: Any) -> Any:
        return verdict() if callable(verdict) and not isinstance(verdict, type) else verdict

    say.__name__ = moment
    return named(name, **{moment: say})

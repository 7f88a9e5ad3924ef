"""Open a session for a run: who may is asked before a live writer is reported or replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass.access.caller import Caller
from windlass.errors import SessionHeld
from windlass.loop.resume import Standing, standing
from windlass.store.base import Journal, Store


async def open_session(
    home: Store,
    session_id: str,
    *,
    may: Callable[[Standing], Any],
    caller: Caller | None,
    take_over: bool,
    create: bool = True,
    parent_id: str | None = None,
) -> Journal:
    """Become the session's writer; with `take_over` also where another one is alive.

    `may(state)` raises for somebody who has no business with the session: they learn nothing of
    its holder and replace nobody.
    """
    name = None if caller is None else str(caller)
    try:
        return await home.open(session_id, create=create, parent_id=parent_id, caller=name)
    except SessionHeld:
        may(standing(await home.read(session_id)))
        if not take_over:
            raise
    return await home.open(
        session_id, create=create, parent_id=parent_id, caller=name, take_over=True
    )

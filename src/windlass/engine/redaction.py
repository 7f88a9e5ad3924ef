"""What is written without a run passes the Runtime's redactor here."""

from __future__ import annotations

from typing import TypeVar

from windlass.access.caller import Caller, is_host
from windlass.errors import ConfigError, NoSuchSession
from windlass.store.base import Store

T = TypeVar("T")


def redact(value: T) -> T:
    """The value without secrets that the current Runtime knows: `await home.post(id, kind, redact(payload))`."""
    from windlass.engine.environment import (
        current_runtime,  # a Runtime needs sessions: no circle at import
    )

    redactor = current_runtime().redactor
    return value if redactor is None else redactor.value(value)


async def check_session_id(home: Store, session_id: str) -> None:
    """Refuse a new session whose id holds a known secret: an id is written everywhere, as it is."""
    if redact(session_id) == session_id:
        return
    try:
        await home.info(session_id)
    except NoSuchSession:
        check_new_id("session", session_id)


def check_new_id(what: str, id: str) -> None:
    """Refuse the id of something new where it holds a known secret."""
    if redact(id) != id:
        raise ConfigError(
            f"the id of a {what} holds a secret, and would be on record: choose another"
        ) from None


def check_new_owner(caller: Caller | None) -> None:
    """Refuse to begin a session or a conversation for a caller whose name holds a known secret.

    Whose it is has to be on record as it is: a name without its secret could be another's.
    """
    if caller is not None and not is_host(caller):
        check_new_id("caller", caller.user)
        if caller.tenant is not None:
            check_new_id("tenant", caller.tenant)

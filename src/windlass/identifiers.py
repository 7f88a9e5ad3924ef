"""The alphabet of session ids and tenants: they end up in files, logs, addresses and shells."""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import quote, unquote

from windlass.errors import ConfigError, shown

LONGEST: Final = 1000  # characters: the ids of children grow with every level
_ID: Final = re.compile(r"[\w@](?:[\w.:@/%+=~-]*[\w:@%+=~-])?")
_CALL_LONGEST: Final = 120


def check_identifier(value: str, what: str) -> str:
    """The value, if it is a plain name: `check_identifier("review-7", "session_id")`.

    Letters and digits of any script, and `. _ - : @ / % + = ~`; `ConfigError` otherwise.
    """
    if (
        not isinstance(value, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        or len(value) > LONGEST
        or _ID.fullmatch(value) is None
        or not {".", ".."}.isdisjoint(value.split("/"))
    ):
        raise ConfigError(
            f"{what} {shown(value)} is no plain name: it begins with a letter or a digit, has letters, "
            f"digits and . _ - : @ / % + = ~ in it, and at most {LONGEST} characters"
        )
    return value


def child_session_id(session_id: str, call_id: str) -> str:
    """The session of an agent that a call of this session asked: `review.call_1`.

    A call's id is what a model made up: whatever is odd in it is escaped.
    """
    plain = quote(call_id, safe=":@+=", errors="replace").replace("~", "%7E")
    if len(plain) > _CALL_LONGEST or plain.endswith("."):
        plain = "~" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{session_id}.{plain}"


def call_of_child(session_id: str, child_id: str) -> str | None:
    """The id of the call that began a child's session; None: it is no such child."""
    prefix = f"{session_id}."
    return unquote(child_id.removeprefix(prefix)) if child_id.startswith(prefix) else None

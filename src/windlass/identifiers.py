"""The characters of session ids, tenants and agent names, which files and logs contain."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from windlass.errors import ConfigError, safe_repr

LONGEST: Final = 1000  # characters: the ids of children grow with every level
_ID: Final = re.compile(r"[\w@](?:[\w.:@/%+=~-]*[\w:@%+=~-])?")
_CALL_LONGEST: Final = 120
_MOST_NUMBERED: Final = 1000  # children of a call whose numbers are looked for
# What moves a cursor, breaks a line or turns the writing around: C0, C1, separators, bidi controls.
_CONTROLS: Final = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"


def check_identifier(value: str, what: str) -> str:
    """Check that a value is a plain name: `check_identifier("review-7", "session_id")`.

    Letters and digits of any script, and `. _ - : @ / % + = ~`; `ConfigError` otherwise.
    """
    if type(value) is str and len(value) <= LONGEST and value.isidentifier() and value.isascii():
        return value  # as ours are, at a twentieth of the time
    if (
        not isinstance(value, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        or len(value) > LONGEST
        or _ID.fullmatch(value) is None
        or not {".", ".."}.isdisjoint(value.split("/"))
    ):
        raise ConfigError(
            f"{what} {safe_repr(value)} is no plain name: it begins with a letter or a digit, has letters, "
            f"digits and . _ - : @ / % + = ~ in it, and at most {LONGEST} characters"
        )
    return value


def check_label(value: str, what: str) -> str:
    """Check that a value is one line: `check_label("ticket 7 of Ann", "request_id")`.

    For ids that others made up and that no file is named after: any text without control characters,
    of at most 1000 characters; `ConfigError` otherwise.
    """
    if len(value) > LONGEST or re.search(_CONTROLS, value) is not None:
        raise ConfigError(
            f"{what} {safe_repr(value)} is not one line of text: leave out line breaks and control "
            f"characters, and keep it to {LONGEST} characters"
        )
    return value


def to_title(text: str, length: int) -> str:
    """Make a title of one line: `to_title("Hello\\nthere", 80)` is `Hello there`.

    Control characters are replaced by U+FFFD: a title is printed in lists.
    """
    return re.sub(_CONTROLS, "\ufffd", " ".join(text[: 4 * length].split())[:length])


def child_session_id(session_id: str, call_id: str) -> str:
    """Build the session id of an agent that a call started: `review.call_1`.

    A call's id is what a model made up: whatever is odd in it is escaped.
    """
    plain = quote(call_id, safe=":@+=", errors="replace").replace("~", "%7E")
    if len(plain) > _CALL_LONGEST or plain.endswith("."):
        plain = "~" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{session_id}.{plain}"


class CallIndex:
    """The calls of a session by the children that they begin: `CallIndex("s", ids).find(child_id)`."""

    __slots__ = ("_calls", "_session_id")

    def __init__(self, session_id: str, call_ids: Iterable[str]) -> None:
        self._session_id = session_id
        self._calls = {child_session_id(session_id, call_id): call_id for call_id in call_ids}

    def find(self, child_id: str) -> str | None:
        """Return the call that a child's session works for, or None.

        A call that begins several children numbers them: `review.call_1.0`, `review.call_1.1`.
        """
        if child_id in self._calls:
            return self._calls[child_id]
        head, _, number = child_id.rpartition(".")
        if number.isdecimal():
            return self._calls.get(head)
        if not child_id.startswith(f"{self._session_id}.~"):
            return None
        # a call's id that is too long for a name: the names of its children are digests
        for count in range(_MOST_NUMBERED):
            for call_id in self._calls.values():
                if child_session_id(self._session_id, f"{call_id}.{count}") == child_id:
                    return call_id
        return None

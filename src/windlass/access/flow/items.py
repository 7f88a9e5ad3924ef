"""What must not go out unnoticed in words that a call carries: addresses, links and codes."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

ItemKind: TypeAlias = Literal["address", "link", "code"]

_LINK: Final = re.compile(
    r"\b(?:https?|ftp|file|data|javascript)[:：]\S+|\bwww\.\S+", re.IGNORECASE
)
_EMAIL: Final = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_HANDLE: Final = re.compile(r"(?<![\w@/.])@[\w][\w.-]{1,}")
_HOST: Final = re.compile(
    r"(?<![\w@./-])(?:[a-z0-9-]+\.)+(?:com|net|org|io|dev|app|info|biz|co|ai|me|xyz|example|test|[a-z]{2})"
    r"(?![\w.-]*[\w(])(?:/\S*)?",
    re.IGNORECASE,
)
_PHONE: Final = re.compile(r"(?<![\w.])(?:\+|00)\d[\d ()/-]{6,}\d")
_IBAN: Final = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8}\b")
_CODE: Final = re.compile(
    r"(?<![\w.-])(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{7,}(?![\w-])|(?<![\w.,-])\d{9,}(?![\w,-])",
    re.IGNORECASE,
)
_TRAILING: Final = ".,;:!?)]}>'\""


class Item(NamedTuple):
    """An address, link or code in a text."""

    kind: ItemKind
    text: str


def find_items(text: str) -> list[Item]:
    """Return what a text passes on: `"pay to DE12 5001 0517 0648 4898 90"` has one code."""
    found: list[Item] = []
    taken = bytearray(len(text))
    patterns: tuple[tuple[ItemKind, re.Pattern[str]], ...] = (
        ("link", _LINK),
        ("address", _EMAIL),
        ("address", _HANDLE),
        ("code", _IBAN),
        ("address", _PHONE),
        ("link", _HOST),
        ("code", _CODE),
    )
    for kind, pattern in patterns:
        for match in pattern.finditer(text):
            start, end = match.span()
            if any(taken[start:end]):
                continue
            taken[start:end] = b"\1" * (end - start)
            found.append(Item(kind, match.group().rstrip(_TRAILING)))
    return found

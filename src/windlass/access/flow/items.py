"""What must not go out unnoticed in words that a call carries: addresses, links and codes."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

ItemKind: TypeAlias = Literal["address", "link", "code"]

_LINK: Final = re.compile(
    r"\b(?:https?|ftp|file|data|javascript)[:：]\S+|\bwww\.\S+", re.IGNORECASE
)
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_HANDLE: Final = re.compile(r"(?<![\w@/.])@[\w][\w.-]{1,}")
#: Endings of host names; two letters are a country, unless a file may end like that.
_ENDINGS: Final = (
    "com net org info biz name dev app xyz example test shop store site online club live link click "
    "top pro cloud tech email support help services group team world zone page news media blog space "
    "website life today company center digital finance money bank pay agency solutions network systems "
    "software download win bid loan vip ltd inc"
)
_HOST: Final = re.compile(
    r"(?<![\w@./-])(?:[a-z0-9-]+\.)+(?!(?:md|py|rs|sh|ts|js|go|rb|pl|cc|so)\b(?!/))"
    rf"(?:{'|'.join(_ENDINGS.split())}|[a-z]{{2}})(?![\w-]|\.\w|\()(?:/\S*)?",
    re.IGNORECASE,
)
_SPELLED_EMAIL: Final = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}\s?(?:\(at\)|\[at\]|\bat\b)\s?[\w-]+\s?(?:\(dot\)|\[dot\]|\[\.\]|\bdot\b)\s?\w+",
    re.IGNORECASE,
)
_LOCAL_PHONE: Final = re.compile(r"(?<![\w.,:-])0\d{1,4}[ /-]\d{2,}(?:[ /-]?\d{2,})*(?!\w)")
_PHONE: Final = re.compile(r"(?<![\w.])(?:\+|00)\d[\d ()/-]{6,}\d")
_IBAN: Final = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8}\b")
_CODE: Final = re.compile(
    r"(?<![\w.-])(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{6,}(?![\w-])|(?<![\w.,-])\d{9,}(?![\w,-])",
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
        ("address", _LOCAL_PHONE),
        ("address", _SPELLED_EMAIL),
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


_SPACED_CODE: Final = re.compile(
    r"(?<![\w])(?=[A-Z0-9+ -]{0,40}\d)[A-Z0-9+](?:[ -]?[A-Z0-9]){6,40}(?![\w])"
)


def find_codes(text: str, *, whole: bool = False) -> frozenset[str]:
    """Return the long codes and phone numbers of a text without their spaces; `whole`: it is one."""
    if whole:
        match = _SPACED_CODE.fullmatch(text.strip())
        return frozenset() if match is None else frozenset({re.sub(r"[ -]", "", match.group())})
    return frozenset(re.sub(r"[ -]", "", match.group()) for match in _SPACED_CODE.finditer(text))

"""Every way in which a secret may be written: plain, escaped, quoted, in base64."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

import msgspec

SHORTEST = 6  # a shorter text would turn up in innocent words


class Forms:
    """Every way in which the known secrets may be written, ready to be searched for."""

    __slots__ = (
        "_longest", "_openings", "byte_needles", "byte_pattern", "json_needles", "needles", "pattern",
        "_by_opening",
    )  # fmt: skip

    def __init__(self, secrets: frozenset[str]) -> None:
        forms = {form for secret in secrets for form in _written(secret)}
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self.needles = _shortest(forms)
        self.byte_needles = tuple(utf8(needle) for needle in self.needles)
        self.json_needles = tuple(_json_text(needle) for needle in self.needles)
        nothing = "(?!)"
        self.pattern = re.compile("|".join(map(re.escape, ordered)) or nothing)
        self.byte_pattern = re.compile(
            b"|".join(re.escape(utf8(form)) for form in ordered) or nothing.encode()
        )
        self._longest = len(ordered[0]) if ordered else 0
        self._by_opening: dict[str, list[str]] = {}
        for form in ordered:
            self._by_opening.setdefault(form[0], []).append(form)
        openings = "".join(map(re.escape, self._by_opening))
        self._openings = re.compile(f"[{openings}]" if openings else nothing)

    def tail(self, text: str, start: int) -> int:
        """Where the longest ending begins that may be the beginning of a secret; else the end."""
        end = len(text)
        for opening in self._openings.finditer(text, max(start, end - self._longest + 1)):
            ending = text[opening.start() :]
            for form in self._by_opening[opening.group()]:
                if len(form) <= len(ending):
                    break  # the forms come longest first
                if form.startswith(ending):
                    return opening.start()
        return end


def _written(secret: str) -> set[str]:
    """The secret as it is, JSON-escaped (once and twice), URL-quoted, and in base64."""
    forms = {secret}
    for form in (secret, *_json_forms(secret)):
        forms.update(_json_forms(form))
    forms.update(_quoted(secret))
    forms.update(_base64_forms(utf8(secret)))
    return {form for form in forms if len(form) >= SHORTEST}


def _json_forms(text: str) -> tuple[str, str]:
    return json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _quoted(secret: str) -> set[str]:
    raw = utf8(secret)
    upper = {quote(raw), quote(raw, safe=""), quote_plus(raw), quote_plus(raw, safe="/")}
    lower = {re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), form) for form in upper}
    return upper | lower


def _base64_forms(raw: bytes) -> set[str]:
    """The secret's base64, alone and inside a longer text (`user:password`), in both alphabets.

    Inside a longer text it may begin at any of three places within a group of four characters;
    the characters it shares with its neighbours are left out.
    """
    forms: set[str] = set()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        alone = encode(raw).decode()
        forms.update((alone, alone.rstrip("=")))
        for before in range(3):
            padded = encode(b"\0" * before + raw).decode()
            inner = padded[(0, 2, 3)[before] : (len(raw) + before) * 8 // 6]
            if len(inner) >= SHORTEST:
                forms.add(inner)
    return forms


def _shortest(forms: Iterable[str]) -> tuple[str, ...]:
    """The forms that contain no other: where none of these is, none of the others is either."""
    kept: list[str] = []
    for form in sorted(forms, key=lambda form: (len(form), form)):
        if not any(shorter in form for shorter in kept):
            kept.append(form)
    return tuple(kept)


def utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _json_text(text: str) -> str:
    try:
        return msgspec.json.encode(text)[1:-1].decode()
    except UnicodeEncodeError:
        return text  # a lone surrogate is never in valid JSON, so this is never found

"""Forms of a secret: plain, escaped, quoted, in base64.

One automaton finds all of them in one pass, so that a thousand secrets cost little more than one.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_left
from functools import cached_property
from urllib.parse import quote, quote_plus

import msgspec
from ahocorasick_rs import AhoCorasick, BytesAhoCorasick, MatchKind

SHORTEST = 6  # a shorter text would occur in ordinary text
_OPENING = 3  # characters compared first, before the whole tail


class Forms:
    """Every form of the known secrets, ready to be searched for."""

    def __init__(self, secrets: frozenset[str]) -> None:
        self._written = sorted({form for secret in secrets for form in forms_of(secret)})
        self._longest = max(map(len, self._written), default=0)

    def __bool__(self) -> bool:
        return bool(self._written)

    def replace(self, text: str, mark: str) -> str:
        """Replace each secret in a text by `mark`; return the same object if there are none."""
        kept: list[str] = []
        place = 0
        for start, end in self.find(text):
            kept += text[place:start], mark
            place = end
        if not kept:
            return text
        kept.append(text[place:])
        return "".join(kept)

    def find(self, text: str) -> list[tuple[int, int]]:
        """Find where each secret begins and ends: the leftmost first, the longest of several."""
        try:
            return [found[1:] for found in self._in_text.find_matches_as_indexes(text)]
        except UnicodeEncodeError:  # a lone surrogate
            if self._has_surrogates:
                return self._find_among_surrogates(text)
            # no secret holds one: a `?` in its place, as it would be written, keeps every place
            return self.find(text.encode(errors="replace").decode())

    def _find_among_surrogates(self, text: str) -> list[tuple[int, int]]:
        data, found = utf8(text), list[tuple[int, int]]()
        at = place = 0  # the same place, in characters and in bytes
        for _, start, end in self._in_bytes.find_matches_as_indexes(data):
            begin = at + _characters(data[place:start])
            at, place = begin + _characters(data[start:end]), end
            found.append((begin, at))
        return found

    def replace_bytes(self, data: bytes, mark: bytes) -> bytes:
        """Replace each secret in UTF-8 bytes by `mark`."""
        found = self._in_bytes.find_matches_as_indexes(data)
        if not found:
            return data
        kept: list[bytes] = []
        place = 0
        for _, start, end in found:
            kept += data[place:start], mark
            place = end
        kept.append(data[place:])
        return b"".join(kept)

    def are_in_json(self, encoded: bytes) -> bool:
        """Check whether a text of this JSON holds a secret."""
        return bool(self._in_json.find_matches_as_indexes(encoded))

    def tail(self, text: str, start: int) -> int:
        """Return where the longest ending starts that may begin a secret, else the end."""
        end = len(text)
        for opening in self._first_letters.finditer(text, max(start, end - self._longest + 1)):
            at = opening.start()
            if at + _OPENING <= end and text[at : at + _OPENING] not in self._openings:
                continue
            ending = text[at:]
            place = bisect_left(self._written, ending)
            # forms that begin with the ending stand side by side from here; itself comes first
            if place < len(self._written) and self._written[place] == ending:
                place += 1
            if place < len(self._written) and self._written[place].startswith(ending):
                return at
        return end

    @cached_property
    def _has_surrogates(self) -> bool:
        return len(_sound(self._written)) < len(self._written)

    @cached_property
    def _in_text(self) -> AhoCorasick:
        return AhoCorasick(_sound(self._written), matchkind=MatchKind.LeftmostLongest)

    @cached_property
    def _in_bytes(self) -> BytesAhoCorasick:
        needles = [utf8(form) for form in self._written]
        return BytesAhoCorasick(needles, matchkind=MatchKind.LeftmostLongest)

    @cached_property
    def _in_json(self) -> BytesAhoCorasick:
        needles = {msgspec.json.encode(form)[1:-1] for form in _sound(self._written)}
        return BytesAhoCorasick(needles)

    @cached_property
    def _openings(self) -> frozenset[str]:
        return frozenset([form[:_OPENING] for form in self._written])

    @cached_property
    def _first_letters(self) -> re.Pattern[str]:
        letters = "".join([re.escape(letter) for letter in {form[0] for form in self._written}])
        return re.compile(f"[{letters}]" if letters else "(?!)")


def forms_of(secret: str) -> set[str]:
    """Return the secret plain, JSON-escaped (once and twice), URL-quoted, and in base64."""
    forms = {secret}
    for form in (secret, *_json_forms(secret)):
        forms.update(_json_forms(form))
    forms.update(_percent_forms(secret))
    forms.update(_base64_forms(utf8(secret)))
    return {form for form in forms if len(form) >= SHORTEST}


def _json_forms(text: str) -> set[str]:
    """Return the JSON escapes of a text: minimal, all but ASCII, or every letter."""
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
    lower = "".join([f"\\u{number}" for number in numbers])
    upper = "".join([f"\\u{number.upper()}" for number in numbers])
    return {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], lower, upper}


def _percent_forms(secret: str) -> set[str]:
    raw = utf8(secret)
    whole = "".join([f"%{byte:02X}" for byte in raw])
    upper = {quote(raw), quote(raw, safe=""), quote_plus(raw), quote_plus(raw, safe="/"), whole}
    lower = {re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), form) for form in upper}
    return upper | lower


def _base64_forms(raw: bytes) -> set[str]:
    """Return the base64 of a secret, alone and inside a longer text, in both alphabets.

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


def _sound(forms: list[str]) -> list[str]:
    """Return the forms that are valid Unicode: valid UTF-8 has no lone surrogate."""
    return [form for form in forms if not any("\ud800" <= letter <= "\udfff" for letter in form)]


def _characters(data: bytes) -> int:
    return len(data.decode("utf-8", "surrogatepass"))


def utf8(text: str) -> bytes:
    """Encode a text in UTF-8, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")

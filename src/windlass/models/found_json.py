"""JSON in a model's words: bare, in a fence, or somewhere in prose; mended where that is safe.

Safe is what cannot change the meaning: line breaks inside strings, and commas before a closing
bracket. A text that is cut off is not completed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

_FENCE: Final = re.compile(r"```[a-zA-Z0-9_+-]*[ \t]*\n(.*?)```", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_COMMA: Final = re.compile(r",(\s*[}\]])")
_OPEN: Final = re.compile(r"[{\[]")
_PLACES: Final = 64  # fences, and openings, that are tried in a text
_LONGEST: Final = 1_000_000  # characters


def json_values(text: str) -> Iterator[Any]:
    """Every JSON value that the text may mean, the likeliest first.

    `next(json_values('Here: {"a": 1,} as you wished.'))` is `{"a": 1}`
    """
    text = text.strip()
    if not text or len(text) > _LONGEST:
        return
    forms = (text,) if _COMMA.search(text) is None else (text, _without_commas(text))
    for form in forms:
        if (whole := _read(form)) is not _NONE:
            yield whole
            return
    for form in forms:
        for fenced in islice(_FENCE.finditer(form), _PLACES):
            value = _read(fenced[1].strip())
            if value is not _NONE:
                yield value
    for form in forms:
        yield from _in_prose(form)


_NONE: Final = object()
_decoder = json.JSONDecoder(strict=False, parse_constant=lambda name: _refuse(name))


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _read(text: str) -> Any:
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):
        return _NONE


def _in_prose(text: str) -> Iterator[Any]:
    """What opens like an object or a list and ends like one."""
    at = 0
    for _ in range(_PLACES):
        found = _OPEN.search(text, at)
        if found is None:
            return
        try:
            value, at = _decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            at = found.end()
        else:
            yield value


def _without_commas(text: str) -> str:
    """The text without commas before a closing bracket; what stands in strings stays."""
    kept: list[str] = []
    place = 0
    for string in _STRING.finditer(text):
        kept += _COMMA.sub(r"\1", text[place : string.start()]), string[0]
        place = string.end()
    kept.append(_COMMA.sub(r"\1", text[place:]))
    return "".join(kept)

"""JSON in a model's text: bare, in a fence, or in prose; mended where that is safe.

Safe is what cannot change the meaning: line breaks inside strings, and commas before a closing
bracket. A text that is cut off is not completed. The work grows with the length of the text and no
faster, whatever the text is: a reply must not be able to block the event loop.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_FENCE: Final = re.compile(r"```[a-zA-Z0-9_+-]*+[ \t]*+\n")
# All up to a quote that is never closed; and all up to a comma that must go. Possessive: nothing is read twice.
_CLOSED: Final = re.compile(r"""(?:[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+""", re.DOTALL)
_KEPT: Final = re.compile(
    r"""(?:[^",]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|,(?!\s*+[}\]]))++""", re.DOTALL
)
_COMMA: Final = re.compile(r",(?=\s*+[}\]])")
_OPEN: Final = re.compile(r"[{\[]")
_PLACES: Final = 64  # fences, and openings, that are tried in a text
_LONGEST: Final = 1_000_000  # characters
_PASSES: Final = 1  # how often the length of a text may be read in vain before the search ends
_SMALL: Final = 16_384  # characters read in vain that are always allowed


def json_values(text: str) -> Iterator[Any]:
    """Yield every JSON value that the text may mean, the likeliest first.

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
        for fenced in _fenced_blocks(form):
            value = _read(fenced.strip())
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


def _fenced_blocks(text: str) -> Iterator[str]:
    """Yield the contents of closed code fences."""
    at = 0
    for _ in range(_PLACES):
        opened = _FENCE.search(text, at)
        if opened is None or (closed := text.find("```", opened.end())) < 0:
            return
        yield text[opened.end() : closed]
        at = closed + 3


def _in_prose(text: str) -> Iterator[Any]:
    """Yield the JSON objects and lists found in prose."""
    at, left = 0, _SMALL + _PASSES * len(text)
    for _ in range(_PLACES):
        found = _OPEN.search(text, at)
        if found is None or left < 0:
            return
        start = found.start()
        try:
            value, at = _decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            at = found.end()
            # an open string is reported where it begins, but was read to the end of the text
            is_open = error.msg.startswith("Unterminated")
            left -= (len(text) if is_open else error.pos) - start
        except (ValueError, RecursionError):
            at = found.end()
            left -= len(text) - start
        else:
            yield value


def _without_commas(text: str) -> str:
    """Remove commas before a closing bracket, except inside strings."""
    closed = _CLOSED.match(text)
    end = 0 if closed is None else closed.end()
    # a quote that is never closed begins no string
    return "".join(_KEPT.findall(text[:end])) + _COMMA.sub("", text[end:])

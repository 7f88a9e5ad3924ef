"""What stands against sending words: addresses, links, codes and secrets in them, lines of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from windlass.access.flow.call_values import Known, Leaf, origin_in_records
from windlass.access.flow.items import find_items
from windlass.access.flow.numbers import parse_number
from windlass.access.flow.records import RUN, Record
from windlass.access.flow.tokens import fold_words
from windlass.errors import safe_repr

#: Arguments that hold what is written into a file, where another says which file.
_FILE_CONTENT: Final = frozenset("content contents text data body code patch diff new_text".split())
_MOST_CONTENT: Final = 16_000  # characters
_SEPARATORS: Final = re.compile(r"[\s=:<>~\"'(),;]+|(?<=\w)-(?=\w)")


def is_prose(path: str) -> bool:
    """Return whether a file is for people to read, and not for programs: its lines are only words."""
    return path.lower().endswith((".md", ".markdown", ".rst", ".adoc"))


def check_content(leaf: Leaf, known: Known, *, writes_file: bool) -> Iterator[str]:
    """Yield the reasons why somebody must see these words before they go out."""
    if not isinstance(leaf.value, str):
        return
    if leaf.is_required and not leaf.value.strip():
        yield f"{leaf.path} is empty"
        return
    if len(leaf.value) > _MOST_CONTENT:
        yield f"{leaf.path} is too long to be looked through ({len(leaf.value):,} characters)"
        return
    for tool in known.records.too_long:
        yield f"{leaf.path} may tell something of {tool}, whose answer is too long to be compared"
    for item in find_items(leaf.value):
        if not _is_trusted(item.text, known):
            text = safe_repr(item.text, 80)
            yield f"{leaf.path} passes on the {item.kind} {text}, which nobody named"
    hidden = _find_hidden(leaf.value, known)
    if hidden is not None:
        what = "a secret" if hidden.trust == "secret" else "what the user did not name"
        yield f"{leaf.path} tells {what} from {hidden.tool}"
    if writes_file and leaf.name in _FILE_CONTENT:
        line = _find_foreign_line(leaf.value, known)
        if line is not None:
            yield f"{leaf.path} writes {safe_repr(line, 60)}, which no trusted source gave"


def _is_trusted(text: str, known: Known) -> bool:
    if known.user.says(text) or known.host.says(text):
        return True
    records = list(known.records.find(text))
    if any([record.trust == "secret" for record in records]):
        return False
    return any([record.is_lookup or record.is_readable for record in records])


def _find_hidden(text: str, known: Known) -> Record | None:
    """Return the secret or private record that a value or a run of words comes from."""
    words = fold_words(text)
    for place, word in enumerate(words):
        if len(word) > 2 and any([letter.isdigit() for letter in word]):
            origin, _ = origin_in_records(known.records.find(word))
            if origin in ("private", "secret") and not known.user.says(word):
                return next(one for one in known.records.find(word) if one.is_hidden)
        run = words[place : place + RUN]
        record = known.records.find_run(run) if len(run) == RUN else None
        if record is not None and record.is_hidden and not known.user.says(" ".join(run)):
            return record
    return None


def _find_foreign_line(text: str, known: Known) -> str | None:
    """Return the first line that neither the user nor a trusted source gave.

    A line that a trusted source has may be changed where the user said what it becomes.
    """
    for line in text.splitlines():
        if not fold_words(line) or known.user.says(line) or known.host.says(line):
            continue
        if any([record.trust == "trusted" for record in known.records.find(line)]):
            continue
        if not _is_said_change(line, known):
            return line.strip()
    return None


def _is_said_change(line: str, known: Known) -> bool:
    before: set[str] = set()
    for record in known.records.find_start(line):
        if record.trust == "trusted":
            before.update(record.words, *[_SEPARATORS.split(word) for word in record.words])
    for word in fold_words(line):
        parts = [part for part in _SEPARATORS.split(word) if part]
        if word not in before and not known.user.says(word):
            if not all([part in before or _is_said(part, known) for part in parts]):
                return False
    return True


def _is_said(text: str, known: Known) -> bool:
    number = parse_number(text)
    return known.user.says(text) or (number is not None and known.user.has_number(number))

"""SQL with question marks, translated for Postgres: `WHERE id = ?` to `WHERE id = $1`.

Literals, quoted names and comments are left alone. `??` is the operator `?` (`data ?? 'key'`), `?2`
is the second value, and `:name` a named one where the values have names.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from windlass.store.transaction import OWN_TABLES

_TOKEN = re.compile(
    r"""(?P<escaped>\b[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z))
    |(?P<literal>'(?:[^']|'')*(?:'|\Z))
    |(?P<coded>\b[uU]&["'])
    |(?P<quoted>"(?:[^"]|"")*(?:"|\Z))
    |(?P<dollar>\$(?P<tag>[^\W\d]\w*)?\$.*?(?:\$(?(tag)(?P=tag))\$|\Z))
    |(?P<line>--[^\n]*)
    |(?P<block>/\*)
    |(?P<operator>\?\?)
    |(?P<mark>\?(?P<number>\d+)?)
    |(?P<cast>::)
    |(?P<named>:(?P<name>[^\W\d]\w*))
    |(?P<word>[^\W\d][\w$]*)""",
    re.VERBOSE | re.DOTALL,
)
_MAY = frozenset(
    "select with insert update delete merge values table create alter drop truncate comment grant"
    " revoke notify explain call do refresh reindex analyze lock".split()
)
_WRITES = frozenset("insert update delete merge into".split())
_READS = frozenset(["select", "with", "values", "table", "explain"])
_CODE = frozenset(["do", "create", "call"])  # what they do is in literals
_NEVER = {
    **dict.fromkeys(
        ("begin", "start", "commit", "end", "rollback", "abort"), "begin, commit or roll back"
    ),
    **dict.fromkeys(("savepoint", "release"), "set savepoints"),
    **dict.fromkeys(("set", "reset", "discard"), "change settings"),
    "attach": "attach databases",
    "detach": "detach databases",
}


class Sql(NamedTuple):
    """A translated statement."""

    text: str
    names: tuple[str, ...]  # of its values, where they have names
    refused: str | None  # why a body may not run it: "a body may not …"
    refused_to_all: bool  # nor may Windlass itself, inside of one


@lru_cache(1024)
def read(sql: str, named: bool = False) -> Sql:
    """Translate a statement, and check whether a body may run it."""
    pieces: list[str] = []
    names: list[str] = []
    words: list[str] = []
    own, marks, at = "", 0, 0
    coded = False
    while (match := _TOKEN.search(sql, at)) is not None:
        start, end = match.span()
        pieces.append(sql[at:start])
        kind, piece = match.lastgroup or "", match.group()
        if kind == "number" or kind == "mark":
            number = match.group("number")
            marks += number is None
            piece = f"${number or marks}"
        elif kind == "operator":
            piece = "?"
        elif kind in ("name", "named") and named:
            name = match.group("name")
            if name not in names:
                names.append(name)
            piece = f"${names.index(name) + 1}"
        elif kind == "block":
            end = _comment_end(sql, end)
            piece = sql[start:end]
        elif kind == "coded":
            coded = True
        elif kind in ("word", "quoted"):
            word = piece.strip('"').lower()
            if kind == "word":
                words.append(word)
            if word.startswith(OWN_TABLES):
                own = own or word
        pieces.append(piece)
        at = end
    pieces.append(sql[at:])
    refused, to_all = _find_refusal(sql, words, own, coded)
    return Sql("".join(pieces), tuple(names), refused, to_all)


def _comment_end(sql: str, at: int) -> int:
    """Return the end of a comment; `/* … */` may be nested."""
    depth = 1
    for match in re.compile(r"/\*|\*/").finditer(sql, at):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    return len(sql)


def _find_refusal(sql: str, words: list[str], own: str, coded: bool) -> tuple[str | None, bool]:
    first = words[0] if words else ""
    if first not in _MAY:
        return _NEVER.get(first, f"run {first.upper() or 'nothing'}"), True
    if coded:
        return "write names in U&-form", False
    if first in _CODE and not own:
        found = re.search(rf"\b{OWN_TABLES}\w*", sql.lower())
        own = found.group() if found is not None else ""
    if own and (first not in _READS or not _WRITES.isdisjoint(words)):
        return f"write to the journal's own table {own!r}", False
    return None, False

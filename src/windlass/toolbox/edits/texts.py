"""New text for a place in a file: its line endings, its indentation, and what it may leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.source import Source, walk

if TYPE_CHECKING:
    from windlass.toolbox.edits.languages import Language


def encode_text(source: Source, text: str, what: str = "text") -> bytes:
    """Return new text in UTF-8 with the line endings of the file, without blank lines around it."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise EditRefused(
            "text", f"{what} holds half of a surrogate pair, which no file can"
        ) from None
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    if not lines:
        raise EditRefused("text", f"{what} is empty; to delete code use edit_safe_text_patch")
    lines[-1] = lines[-1].rstrip()
    return source.newline.join(lines)


def indent_variants(source: Source, text: bytes, indent: bytes) -> list[bytes]:
    """Return the text as it may be meant at a place: indented from its own left edge, or as it is.

    The more likely reading comes first. Lines inside strings of several lines stay as they are.
    """
    newline = source.newline
    lines = text.split(newline)
    first = _blank(lines[0])
    if len(lines) == 1:
        return [text[len(first) :]]
    rest = [line for line in lines[1:] if line.strip()]
    frozen = _string_lines(source.language, text)
    if first:
        # Indented as a whole: take the indentation of the first line from all.
        moved = [
            line.removeprefix(first) if number not in frozen else line
            for number, line in enumerate(lines)
        ]
        relative = _indent(moved, indent, newline, frozen)
        verbatim = text[len(first) :]
        return _unique([relative, verbatim])
    verbatim, relative = text, _indent(lines, indent, newline, frozen)
    least = min((len(_blank(line)) for line in rest), default=0)
    closing = bool(rest) and rest[-1].strip()[:1] in (b"}", b")", b"]")
    absolute = bool(indent) and (
        least > len(indent) or (closing and len(_blank(rest[-1])) == len(indent) <= least)
    )
    return _unique([verbatim, relative] if absolute else [relative, verbatim])


def _indent(lines: list[bytes], indent: bytes, newline: bytes, frozen: set[int]) -> bytes:
    made = [lines[0]]
    for number, line in enumerate(lines[1:], 1):
        made.append(indent + line if line.strip() and number not in frozen else line)
    return newline.join(made)


def _blank(line: bytes) -> bytes:
    return line[: len(line) - len(line.lstrip(b" \t"))]


def _unique(texts: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(texts))


def _string_lines(language: Language, text: bytes) -> set[int]:
    """Return the numbers of lines, from 0, that begin inside a string of several lines."""
    if not any(mark in text for mark in (b'"""', b"'''", b"`", b'r"', b'#"', b"|", b">", b'R"')):
        return set()
    if language.name == "yaml":  # a block scalar is indented with its key
        return set()
    parsed = Source(text, language)
    frozen: set[int] = set()
    for node in walk(parsed.root):
        if node.type in language.strings and node.start_point.row != node.end_point.row:
            if not _is_docstring(node.parent):
                frozen.update(range(node.start_point.row + 1, node.end_point.row + 1))
    return frozen


def _is_docstring(parent: object) -> bool:
    """Check whether a string stands alone as a statement: its indentation is layout."""
    return getattr(parent, "type", "") == "expression_statement"

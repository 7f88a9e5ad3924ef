"""The frontmatter of a SKILL.md: a tolerant reader of the YAML that people write there.

Maps, lists, quoted text, text over several lines, comments. Every value is a text (`1.0` stays
`1.0`), and text that YAML would stumble over (`description: Use when: asked`) is taken as it stands.
Anchors, aliases and tags are refused by name: they are how a few bytes become a billion.
"""

from __future__ import annotations

import re
from typing import Any, Final

DEEPEST: Final = 12  # lists and maps within each other
LARGEST: Final = 32 * 1024  # characters
_LINES: Final = 1_000
_BLOCK = re.compile(r"([|>])([+-]?[1-9]?|[1-9][+-]?)(\s+#.*)?")
_MACHINERY = re.compile(r"[&!]\S+(\s|$)|\*\w+$")
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "v": "\v",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_HEX = {"x": 2, "u": 4, "U": 8}


class BadFrontmatter(ValueError):
    """A frontmatter that cannot be read; the message says where and why."""


def split(text: str) -> tuple[str | None, str]:
    """Split a file into its frontmatter and body; None if it has no frontmatter."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), 0)
    if lines[first].rstrip() != "---":
        return None, text.strip("\n")
    for at in range(first + 1, len(lines)):
        if lines[at].rstrip() in ("---", "..."):
            return "\n".join(lines[first + 1 : at]), "\n".join(lines[at + 1 :]).strip("\n")
    raise BadFrontmatter("the head begins with --- and never ends: close it with a line of ---")


def read(head: str) -> dict[str, Any]:
    """Parse a frontmatter into texts, lists and maps by key."""
    if len(head) > LARGEST:
        raise BadFrontmatter(f"the head has more than {LARGEST} characters")
    lines = head.split("\n")
    if len(lines) > _LINES:
        raise BadFrontmatter(f"the head has more than {_LINES} lines")
    reader = _Reader(lines)
    if reader.peek() is None:
        return {}
    found = reader.block(0)
    if reader.peek() is not None:
        raise reader.bad("this line belongs to nothing above it")
    if not isinstance(found, dict):
        raise BadFrontmatter("the head is a list of keys with values, such as `name: my-skill`")
    return found  # pyright: ignore[reportUnknownVariableType] - it was made here


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self.lines, self.at = lines, 0

    def bad(self, words: str, at: int | None = None) -> BadFrontmatter:
        return BadFrontmatter(f"line {(self.at if at is None else at) + 2}: {words}")

    def peek(self) -> tuple[int, str] | None:
        """Return the indentation and text of the next line that is not empty or a comment."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            text = line.strip()
            if text and not text.startswith("#"):
                space = line[: len(line) - len(line.lstrip())]
                if "\t" in space:
                    raise self.bad("set lines in with blanks, not with tabs")
                return len(space), text
            self.at += 1
        return None

    # ----------------------------------------------------------------- lines

    def block(self, depth: int) -> Any:
        """Parse a map or a list, line by line."""
        if depth > DEEPEST:
            raise self.bad(f"more than {DEEPEST} lists and maps within each other")
        following = self.peek()
        assert following is not None
        indent, text = following
        if _is_item(text):
            return self._list(indent, depth)
        if _key(text) is not None:
            return self._map(indent, depth)
        self.at += 1
        return self._value(text, indent - 1, depth)

    def _map(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (following := self.peek()) is not None and following[0] >= indent:
            if following[0] > indent:
                raise self.bad("set in deeper than the lines above it")
            split_ = _key(following[1])
            if split_ is None:
                raise self.bad(f"{following[1][:40]!r} is no `key: value`")
            key, rest = split_
            if key in found:
                raise self.bad(f"{key!r} is there twice")
            self.at += 1
            found[key] = self._value(rest, indent, depth)
        return found

    def _list(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while (following := self.peek()) is not None and following[0] == indent:
            text = following[1]
            if not _is_item(text):
                break
            rest = text[1:].lstrip()
            if rest and (_is_item(rest) or _key(rest) is not None) and rest[0] not in "\"'[{":
                # what follows the dash is a block of its own, set in as far as it stands
                inner = indent + len(text) - len(rest)
                self.lines[self.at] = " " * inner + rest
                found.append(self.block(depth + 1))
            else:
                self.at += 1
                found.append(self._value(rest, indent, depth))
        return found

    # ----------------------------------------------------------------- values

    def _value(self, rest: str, indent: int, depth: int) -> Any:
        """Parse the value after a key or a dash, and the lines that belong to it."""
        if not rest or rest.startswith("#"):
            following = self.peek()
            if following is None:
                return None
            deeper = following[0] > indent
            if deeper or (following[0] == indent and _is_item(following[1])):
                return self.block(depth + 1)
            return None
        if (header := _BLOCK.fullmatch(rest)) is not None:
            return self._read_block_text(header[1], header[2], indent)
        if rest[0] in "\"'":
            return self._read_quoted(rest)
        if rest[0] in "[{":
            return self._flow(rest, depth)
        if _MACHINERY.match(rest):
            raise self.bad("anchors, aliases and tags are not read here: write it out", self.at - 1)
        return self._plain(rest, indent)

    def _plain(self, rest: str, indent: int) -> str | None:
        value = _strip_comment(rest)
        while self.at < len(self.lines):
            line = self.lines[self.at]
            text = line.strip()
            inner = len(line) - len(line.lstrip())
            if not text:
                after = next((one for one in self.lines[self.at :] if one.strip()), "")
                if len(after) - len(after.lstrip()) <= indent or not after:
                    break
                value += "\n"
            elif inner <= indent or text.startswith("#"):
                break
            else:
                value += ("" if value.endswith("\n") else " ") + _strip_comment(text)
            self.at += 1
        return None if value in ("~", "null", "Null", "NULL") else value

    def _read_block_text(self, style: str, how: str, indent: int) -> str:
        """Parse text over several lines, literal (`|`) or folded (`>`)."""
        lines: list[str] = []
        given = next((int(one) for one in how if one.isdigit()), None)
        inner = None if given is None else max(indent, 0) + given
        while self.at < len(self.lines):
            line = self.lines[self.at]
            depth = len(line) - len(line.lstrip(" "))
            if line.strip():
                if depth <= indent or (inner is not None and depth < inner):
                    break
                inner = depth if inner is None else inner
            lines.append(line)
            self.at += 1
        cut = [line[inner or 0 :] if line.strip() else "" for line in lines]
        ended = len(cut)
        while ended and not cut[ended - 1]:
            ended -= 1
        text = "\n".join(cut[:ended]) if style == "|" else _fold_lines(cut[:ended])
        if "-" in how or not text:
            return text
        return text + "\n" * (len(cut) - ended + 1 if "+" in how else 1)

    def _read_quoted(self, rest: str) -> str:
        began = self.at - 1
        end = _closing(rest)
        if end is None:
            rest = self._onwards(rest)
            end = _closing(rest)
        if end is None:
            raise self.bad(f"a text that begins with {rest[0]} never ends", began)
        self._past(rest, end, began)
        return _unquote(rest[: end + 1], self, began)

    def _flow(self, rest: str, depth: int) -> Any:
        began = self.at - 1
        found = _read_brackets(rest)
        if found is None:
            rest = self._onwards(rest)
            found = _read_brackets(rest)
        if found is None:
            raise self.bad(f"what begins with {rest[0]} never ends", began)
        text, end = found
        self._past(rest, end, began)
        return _Flow(text, self, began).value(depth + 1)

    def _onwards(self, rest: str) -> str:
        """Join the rest of this line and all lines that follow."""
        return "\n".join([rest, *[line.strip() for line in self.lines[self.at :]]])

    def _past(self, text: str, end: int, began: int) -> None:
        """Move behind a value that ends here; only a comment may follow on its line."""
        self.at += text.count("\n", 0, end)
        after = text[end + 1 :].partition("\n")[0].strip()
        if after and not after.startswith("#"):
            raise self.bad(f"{after[:40]!r} stands behind a quoted text, or a list", began)


class _Flow:
    """A reader of `[a, b]` and `{a: b}`."""

    def __init__(self, text: str, reader: _Reader, line: int) -> None:
        self.text, self.at, self.reader, self.line = text, 0, reader, line

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def value(self, depth: int) -> Any:
        if depth > DEEPEST:
            raise self.reader.bad(f"more than {DEEPEST} lists and maps within each other")
        self.skip()
        char = self.text[self.at : self.at + 1]
        if char == "[":
            return self._items(depth)
        if char == "{":
            return self._pairs(depth)
        return self._scalar(",]}")

    def _items(self, depth: int) -> list[Any]:
        found: list[Any] = []
        while self._more("]"):
            found.append(self.value(depth + 1))
        return found

    def _pairs(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._more("}"):
            key = self._scalar(":,}") or ""
            self.skip()
            if self.text[self.at : self.at + 1] == ":":
                self.at += 1
                found[key] = self.value(depth + 1)
            else:
                found[key] = None
        return found

    def _more(self, end: str) -> bool:
        """Skip the bracket or comma; return whether another item follows."""
        self.skip()
        if self.text[self.at : self.at + 1] in "[{,":
            self.at += 1
            self.skip()
        if self.text[self.at : self.at + 1] == end:
            self.at += 1
            return False
        if self.at >= len(self.text) or self.text[self.at] in "]},":
            raise self.reader.bad("a list or map in brackets is not well formed", self.line)
        return True

    def _scalar(self, ends: str) -> str | None:
        self.skip()
        if self.text[self.at : self.at + 1] in ('"', "'"):
            end = _closing(self.text[self.at :])
            if end is None:
                raise self.reader.bad("a quoted text never ends", self.line)
            quoted = self.text[self.at : self.at + end + 1]
            self.at += end + 1
            self.skip()
            if self.text[self.at : self.at + 1] not in (*ends, ""):
                raise self.reader.bad("something stands behind a quoted text", self.line)
            return _unquote(quoted, self.reader, self.line)
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in ends:
            self.at += 1
        value = self.text[start : self.at].strip()
        if _MACHINERY.match(value):
            raise self.reader.bad("anchors, aliases and tags are not read here: write it out")
        return None if value in ("", "~", "null") else value


# --------------------------------------------------------------------------- texts


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _key(text: str) -> tuple[str, str] | None:
    """Split a line into its key and the text after the colon."""
    if text[0] in "\"'":
        end = _closing(text)
        if end is None or text[end + 1 : end + 2] != ":":
            return None
        return text[1:end], text[end + 2 :].strip()
    if text[0] in "[{#|>@`%,?&*!":
        return None
    at = text.find(":")
    while at >= 0 and text[at + 1 : at + 2] not in ("", " "):
        at = text.find(":", at + 1)
    return None if at < 1 else (text[:at].strip(), text[at + 1 :].strip())


def _strip_comment(text: str) -> str:
    """Strip a comment from the end of a text."""
    return text.partition(" #")[0].strip()


def _closing(text: str) -> int | None:
    """Return the end of the quoted text at the beginning."""
    quote, at = text[0], 1
    while at < len(text):
        if text[at] == "\\" and quote == '"':
            at += 2
        elif text[at] != quote:
            at += 1
        elif quote == "'" and text[at + 1 : at + 2] == "'":
            at += 2
        else:
            return at
    return None


def _read_brackets(text: str) -> tuple[str, int] | None:
    """Join a list or map in brackets to one line; return also where it ends."""
    made: list[str] = []
    depth = at = 0
    while at < len(text):
        char, before = text[at], text[at - 1] if at else "["
        if char in "\"'" and before in "[{,: \n":
            end = _closing(text[at:])
            if end is None:
                return None
            made.append(text[at : at + end + 1].replace("\n", " "))
            at += end + 1
            continue
        if char == "#" and before in " \n":
            stop = text.find("\n", at)
            at = len(text) if stop < 0 else stop
            continue
        depth += (char in "[{") - (char in "]}")
        made.append(" " if char == "\n" else char)
        if depth <= 0:
            return "".join(made), at
        at += 1
    return None


def _unquote(text: str, reader: _Reader, line: int) -> str:
    quote, inner = text[0], text[1:-1]
    inner = _fold_lines([one.strip() for one in inner.split("\n")]) if "\n" in inner else inner
    if quote == "'":
        return inner.replace("''", "'")
    made: list[str] = []
    at = 0
    while at < len(inner):
        char = inner[at]
        if char != "\\":
            made.append(char)
            at += 1
            continue
        code = inner[at + 1 : at + 2]
        size = _HEX.get(code, 0)
        if size:
            digits = inner[at + 2 : at + 2 + size]
            try:
                made.append(chr(int(digits, 16)))
                made[-1].encode()
            except (ValueError, OverflowError):
                raise reader.bad(f"\\{code}{digits} is no character", line) from None
        else:
            made.append(_ESCAPES.get(code, code))
        at += 2 + size
    return "".join(made)


def _fold_lines(lines: list[str]) -> str:
    """Fold lines into paragraphs, as YAML does: a single break becomes a space."""
    text, breaks, before, begun = "", 0, False, False
    for line in lines:
        if not line:
            breaks += 1
            continue
        inset = line[0] in " \t"
        if not begun:
            text = "\n" * breaks + line
        elif inset or before:
            text += "\n" * (breaks + 1) + line
        else:
            text += ("\n" * breaks or " ") + line
        before, breaks, begun = inset, 0, True
    return text + "\n" * breaks

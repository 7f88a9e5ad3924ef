"""A reader of JSON that is still being written: the value as far as it has come, at any time.

It reads each character once. What it shows grows and is never taken back: texts grow, everything else
appears when it is finished and has the form that the schema asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from windlass.output.partial_schema import (
    ANYTHING,
    Branches,
    PartialSchema,
    kind_of,
    may_grow,
    rules_out,
)

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]+')
_TOKEN: Final = re.compile(r"[^\s,\]}\[{:\"]+")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)((?:\.\d+)?(?:[eE][+-]?\d+)?)\Z", re.ASCII)
_ESCAPES: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_LITERALS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}
_DEEPEST: Final = 200
_KINDS: Final = {"{": "object", "[": "array", '"': "string"}


class PartialObject(dict[str, object]):
    """An object as far as it has come: `value["total"]` or `value.total`.

    A field that has not come is `msgspec.UNSET`, which is false, as an attribute.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name, msgspec.UNSET)


class _Open:
    """A container that is not closed yet."""

    __slots__ = ("branches", "count", "is_shown", "key", "keys", "may_fit", "node")

    def __init__(
        self, node: PartialObject | list[object], branches: Branches, *, is_shown: bool
    ) -> None:
        self.node = node  # what may be shown of it; everything, while it is not shown
        self.branches = branches or ANYTHING  # the forms that it may have
        self.may_fit = bool(branches)
        self.is_shown = is_shown and len(branches) == 1
        self.key = ""  # of the field that is being read
        self.keys: set[str] = set()
        self.count = 0  # of finished children


class PartialReader:
    """Reads JSON piece by piece: `if reader.feed(text): show(reader.snapshot())`."""

    def __init__(self, schema: PartialSchema, *, begins_anywhere: bool = False) -> None:
        """Read a value of this schema; it may begin after prose where that is said."""
        self._schema = schema
        self._anywhere = begins_anywhere
        self._steps: dict[str, Callable[[str, int], int]] = {
            "start": self._read_start,
            "value": self._read_value,
            "key": self._read_key,
            "name": self._read_string,
            "name escape": self._read_escape,
            "string": self._read_string,
            "string escape": self._read_escape,
            "word": self._read_word,
            "colon": self._read_colon,
            "after": self._read_after,
        }
        self._begin()

    def _begin(self) -> None:
        self._stack: list[_Open] = []
        self._state = "start" if self._anywhere else "value"
        self._text: list[str] = []  # of the text, name, number or word that is being read
        self._escape = ""  # what has come of an escape
        self._half = 0  # the first half of a surrogate pair
        self._grows = False  # the text that is being read is shown already
        self._branches: Branches = self._schema.root  # of the value that is being read
        self._result: object = msgspec.UNSET
        self._changed = False
        self.is_done = False
        self.is_broken = False
        self.has_shown = False

    def feed(self, text: str) -> bool:
        """Read the next piece; return whether there is more to show."""
        self._changed = False
        at, end = 0, len(text)
        while at < end and not (self.is_done or self.is_broken):
            at = self._steps[self._state](text, at)
        if self._changed:
            self.has_shown = True
        return self._changed

    def finish(self) -> bool:
        """End the value at the end of the stream: a number alone has no other end."""
        self._changed = False
        if self._state == "word" and not self._stack:
            self._end_word()
        return self._changed

    def snapshot(self) -> object:
        """Return the value as far as it has come; `msgspec.UNSET` for nothing."""
        if not self._stack:
            return "".join(self._text) if self._grows else self._result
        shown: object = "".join(self._text) if self._grows else msgspec.UNSET
        spine = [opened for opened in self._stack if opened.is_shown]
        for opened in reversed(spine):
            node = opened.node
            if isinstance(node, PartialObject):
                copy = PartialObject(node)
                if shown is not msgspec.UNSET:
                    copy[opened.key] = shown
                shown = copy
            else:
                shown = [*node] if shown is msgspec.UNSET else [*node, shown]
        return shown

    # ----------------------------------------------------------------------- steps

    def _read_start(self, text: str, at: int) -> int:
        """Look for the beginning of the value in prose."""
        marks = [m for m in "{[" if self._schema.of_kind(self._branches, _KINDS[m])]
        places = [place for mark in marks if (place := text.find(mark, at)) >= 0]
        if not places:
            return len(text)
        self._state = "value"
        return min(places)

    def _read_value(self, text: str, at: int) -> int:
        """Read the beginning of a value."""
        at = _skip(text, at)
        if at == len(text):
            return at
        mark = text[at]
        if mark == '"':
            self._branches = self._schema.of_kind(self._branches, "string")
            self._grows = may_grow(self._branches) and self._is_shown()
            self._state, self._text = "string", []
        elif mark in _KINDS:
            self._open(_KINDS[mark])
        elif mark == "]" and self._is_in_list() and not self._stack[-1].count:
            self._close()
        elif _TOKEN.match(text, at):
            self._state, self._text = "word", []
            return at
        else:
            self._break()
        return at + 1

    def _open(self, kind: str) -> None:
        if len(self._stack) >= _DEEPEST:
            self._break()
            return
        branches = self._schema.of_kind(self._branches, kind)
        node: PartialObject | list[object] = PartialObject() if kind == "object" else []
        opened = _Open(node, branches, is_shown=self._is_shown())
        self._stack.append(opened)
        if kind == "object":
            self._state = "key"
        else:
            self._branches, self._state = self._of_child(opened), "value"

    def _read_key(self, text: str, at: int) -> int:
        """Read the beginning of a name, or the end of an empty object."""
        at = _skip(text, at)
        if at == len(text):
            return at
        if text[at] == '"':
            self._state, self._text = "name", []
        elif text[at] == "}" and not self._stack[-1].count:
            self._close()
        else:
            self._break()
        return at + 1

    def _read_string(self, text: str, at: int) -> int:
        """Read a text, or the name of a field, up to its closing quote."""
        found = _PLAIN.match(text, at)
        if found is not None:
            self._add(found[0])
            at = found.end()
            if at == len(text):
                return at
        mark = text[at]
        if mark == "\\":
            self._escape, self._state = "", f"{self._state} escape"
        elif mark != '"' or self._half:
            self._break()
        elif self._state == "name":
            self._end_name()
        else:
            self._end_text()
        return at + 1

    def _read_escape(self, text: str, at: int) -> int:
        """Read what follows a backslash; half an escape is held back."""
        self._escape += text[at]
        escape, state = self._escape, self._state.removesuffix(" escape")
        if escape[0] == "u" and len(escape) < 5:
            return at + 1
        self._state = state
        if escape[0] == "u":
            self._add_code(escape[1:])
        elif escape in _ESCAPES:
            self._add(_ESCAPES[escape])
        else:
            self._break()
        return at + 1

    def _add_code(self, digits: str) -> None:
        try:
            code = int(digits, 16)
        except ValueError:
            self._break()
            return
        is_second = 0xDC00 <= code < 0xE000
        if bool(self._half) is not is_second:
            self._break()  # half a character, which no text can hold
        elif is_second:
            high, self._half = self._half, 0
            self._add(chr(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)))
        elif 0xD800 <= code < 0xDC00:
            self._half = code
        else:
            self._add(chr(code))

    def _add(self, piece: str) -> None:
        if self._half:
            self._break()
            return
        self._text.append(piece)
        if self._grows:
            self._changed = True

    def _read_word(self, text: str, at: int) -> int:
        """Read a number, `true`, `false` or `null` up to what ends it."""
        found = _TOKEN.match(text, at)
        if found is not None:
            self._text.append(found[0])
            at = found.end()
            if at == len(text):
                return at
        self._end_word()
        return at

    def _end_word(self) -> None:
        word = "".join(self._text)
        if word in _LITERALS:
            self._end_value(_LITERALS[word])
            return
        found = _NUMBER.match(word)
        try:
            if found is None:
                raise ValueError(word)
            self._end_value(float(word) if found[1] else int(word))
        except ValueError:  # no number, or one with thousands of digits
            self._break()

    def _end_name(self) -> None:
        opened, name = self._stack[-1], "".join(self._text)
        if name in opened.keys:
            self._break()  # whichever of the two is meant, the other was shown
            return
        opened.keys.add(name)
        opened.key, self._state = name, "colon"

    def _read_colon(self, text: str, at: int) -> int:
        at = _skip(text, at)
        if at == len(text):
            return at
        if text[at] == ":":
            self._branches, self._state = self._of_child(self._stack[-1]), "value"
        else:
            self._break()
        return at + 1

    def _read_after(self, text: str, at: int) -> int:
        """Read what follows a value inside a container."""
        at = _skip(text, at)
        if at == len(text):
            return at
        mark, in_list = text[at], self._is_in_list()
        if mark == ",":
            self._state = "value" if in_list else "key"
            if in_list:
                self._branches = self._of_child(self._stack[-1])
        elif mark == ("]" if in_list else "}"):
            self._close()
        else:
            self._break()
        return at + 1

    # ----------------------------------------------------------------------- values

    def _is_in_list(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].node, list)

    def _is_shown(self) -> bool:
        """Check whether what is read now is inside what is shown."""
        return not self._stack or self._stack[-1].is_shown

    def _of_child(self, opened: _Open) -> Branches:
        """Return the forms of the next child; all where the form of the parent is not known."""
        if not opened.is_shown:
            return ANYTHING
        form = opened.branches[0]
        if isinstance(opened.node, list):
            return self._schema.of_item(form, opened.count)
        return self._schema.of_key(form, opened.key)

    def _close(self) -> None:
        closed = self._stack.pop()
        fits = closed.is_shown
        if not fits and closed.may_fit and self._is_shown():
            fits = self._schema.is_valid(closed.branches, closed.node)
        self._put(closed.node, fits=fits)

    def _end_text(self) -> None:
        value, grows = "".join(self._text), self._grows
        self._grows = False
        self._put(value, fits=grows or self._schema.is_valid(self._branches, value))

    def _end_value(self, value: object) -> None:
        branches = self._schema.of_kind(self._branches, kind_of(value))
        self._put(value, fits=self._schema.is_valid(branches, value))

    def _put(self, value: object, *, fits: bool) -> None:
        """Put a finished value into its container, or end with it."""
        if not self._stack:
            self.is_done = True
            if fits:
                self._result, self._changed = value, True
            return
        opened = self._stack[-1]
        opened.count += 1
        self._state = "after"
        if isinstance(opened.node, list):
            self._put_item(opened, opened.node, value, fits=fits)
        else:
            self._put_field(opened, opened.node, value, fits=fits)

    def _put_item(self, opened: _Open, node: list[object], value: object, *, fits: bool) -> None:
        if not opened.is_shown or fits:
            node.append(value)
            self._changed = self._changed or opened.is_shown
        else:
            # An item after it would be shown in its place. What there is stays as it is: the list
            # is shown as its parent's last child, and is finished there.
            self.is_broken = True

    def _put_field(self, opened: _Open, node: PartialObject, value: object, *, fits: bool) -> None:
        if opened.is_shown:
            if fits:
                node[opened.key] = value
                self._changed = True
            return
        node[opened.key] = value
        if len(opened.branches) < 2:
            return
        left = tuple([one for one in opened.branches if not rules_out(one, opened.key, value)])
        if left:
            opened.branches = left
            if len(left) == 1 and (len(self._stack) < 2 or self._stack[-2].is_shown):
                self._decide(opened, node)

    def _decide(self, opened: _Open, node: PartialObject) -> None:
        """Show an object of which it is known now which form it has."""
        form = opened.branches[0]
        for key in [*node]:
            if not self._schema.is_valid(self._schema.of_key(form, key), node[key]):
                del node[key]
        opened.is_shown = self._changed = True

    def _break(self) -> None:
        """Stop at what is no JSON; prose before the value may have looked like it."""
        if self._anywhere and not (self.has_shown or self._changed):
            self._begin()
        else:
            self.is_broken = True


def _skip(text: str, at: int) -> int:
    """Return the place of the next character that is no space."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()

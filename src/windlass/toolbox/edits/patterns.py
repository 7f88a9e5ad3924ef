"""Code patterns with holes, such as `print($$$)`, matched by ast-grep."""

from __future__ import annotations

import importlib
from typing import Any, Final, Protocol, cast

from windlass.errors import ConfigError
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.source import Source


class _Position(Protocol):
    index: int


class _Range(Protocol):
    start: _Position
    end: _Position


class _Match(Protocol):
    def range(self) -> _Range: ...


def find_pattern(source: Source, pattern: str) -> list[tuple[int, int]]:
    """Return the spans, in bytes, that match a pattern: `$A` is one node, `$$$` any number."""
    language = source.language.pattern
    if language is None:
        raise EditRefused(
            "language", f"patterns are not available for {source.language.name}; use node= or line="
        )
    try:
        library: Any = importlib.import_module("ast_grep_py")
    except ImportError:
        raise ConfigError(
            "pattern= needs ast-grep-py: pip install 'windlass[edit-patterns]'"
        ) from None
    try:
        text = source.data.decode()
    except UnicodeDecodeError:
        raise EditRefused(
            "file", "patterns need a file in UTF-8, which this is not; use node= or line="
        ) from None
    try:
        found = cast(
            "list[_Match]", library.SgRoot(text, language).root().find_all(pattern=pattern)
        )
        ranges = [(one.range().start.index, one.range().end.index) for one in found]
    except BaseException as error:  # the library panics with an error that is no Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
            raise
        raise EditRefused(
            "text", f"the pattern {pattern!r:.200} cannot be used: {error!s:.200}"
        ) from None
    if text.isascii():
        return ranges
    offsets = _Offsets(text)
    return [(offsets.to_bytes(start), offsets.to_bytes(end)) for start, end in ranges]


class _Offsets:
    """Offsets in bytes of the characters of a text, by lines of 1,024 characters."""

    _STEP: Final = 1024

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        for at in range(0, len(text), self._STEP):
            self.starts.append(self.starts[-1] + len(text[at : at + self._STEP].encode()))

    def to_bytes(self, index: int) -> int:
        """Return the offset in bytes of a character."""
        block = index // self._STEP
        begin = block * self._STEP
        return self.starts[block] + len(self.text[begin:index].encode())

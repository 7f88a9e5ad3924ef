"""A parsed source file: its bytes, its syntax tree, its lines and its syntax errors.

A parse holds the interpreter, so large files are parsed in a process of their own; see `worker`.
"""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from windlass.errors import ConfigError
from windlass.toolbox.edits.languages import Language
from windlass.toolbox.edits.refusal import EditRefused

if TYPE_CHECKING:
    import tree_sitter
    from tree_sitter import Node

LARGEST: Final = 2_000_000  # bytes of a file that is parsed; a plain text patch takes more
_MOST_ERRORS: Final = 10_000
_BOM: Final = b"\xef\xbb\xbf"


class SyntaxFault(NamedTuple):
    """A syntax error: where it is, and what is missing there, if the parser knows."""

    start: int
    end: int
    missing: str | None


class Source:
    """A source file with its syntax tree. Lines count from 1, offsets are bytes."""

    def __init__(self, data: bytes, language: Language, path: str = "") -> None:
        if len(data) > LARGEST:
            raise EditRefused(
                "file",
                f"{path or 'the file'} has {len(data):,} bytes; edits by syntax take files up to "
                f"{LARGEST:,}: use edit_safe_text_patch",
            )
        self.data, self.language, self.path = data, language, path
        self.tree = load_parser(language.grammar).parse(data)

    @property
    def root(self) -> Node:
        """The node of the whole file."""
        return self.tree.root_node

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset at which each line begins."""
        starts = [0]
        at = self.data.find(b"\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.data.find(b"\n", at + 1)
        return starts

    @cached_property
    def newline(self) -> bytes:
        """The line ending that most lines of the file have."""
        crlf = self.data.count(b"\r\n")
        return b"\r\n" if crlf * 2 > self.data.count(b"\n") else b"\n"

    @cached_property
    def indent_unit(self) -> bytes:
        """One step of indentation, as the file has it."""
        for at in self.line_starts:
            line = self.data[at : at + 80]
            blank = line[: len(line) - len(line.lstrip(b" \t"))]
            if blank and line.strip() and not line.lstrip().startswith((b"*", b"#", b"//")):
                return b"\t" if blank.startswith(b"\t") else blank[:8]
        return b"\t" if self.language.name == "go" else b"    "

    def line_of(self, offset: int) -> int:
        """Return the number of the line that holds an offset."""
        return bisect_right(self.line_starts, offset)

    def line_span(self, line: int) -> tuple[int, int]:
        """Return where a line begins and where its text ends, without the line ending."""
        start = self.line_starts[line - 1]
        end = self.line_starts[line] if line < len(self.line_starts) else len(self.data)
        return start, start + len(self.data[start:end].rstrip(b"\r\n"))

    def indent_at(self, offset: int) -> bytes:
        """Return the white space with which the line of an offset begins."""
        start, end = self.line_span(self.line_of(offset))
        line = self.data[start:end]
        return line[: len(line) - len(line.lstrip(b" \t"))]

    def is_first_on_line(self, offset: int) -> bool:
        """Check whether only white space stands in front of an offset on its line."""
        before = self.data[self.line_starts[self.line_of(offset) - 1] : offset]
        return not before.removeprefix(_BOM).strip(b" \t")

    def text(self, node: Node) -> str:
        """Return the text of a node."""
        return self.data[node.start_byte : node.end_byte].decode(errors="replace")

    @cached_property
    def faults(self) -> tuple[SyntaxFault, ...]:
        """The syntax errors: nodes that do not parse, and tokens that are missing."""
        found: list[SyntaxFault] = []
        if self.root.has_error:
            for node in walk(self.root, lambda one: one.has_error or one.is_missing):
                if node.is_error or node.is_missing:
                    missing = node.type if node.is_missing else None
                    found.append(SyntaxFault(node.start_byte, node.end_byte, missing))
                    if len(found) >= _MOST_ERRORS:
                        break
        if self.language.name == "python":
            # The grammar takes `if a:` without a body.
            for node in walk(self.root):
                if node.type == "block" and node.start_byte == node.end_byte:
                    found.append(SyntaxFault(node.start_byte, node.end_byte, "statement"))
        return tuple(found)

    def show_fault(self, fault: SyntaxFault) -> str:
        """Return the line of a syntax error with a mark below it."""
        line = self.line_of(min(fault.start, max(0, len(self.data) - 1)))
        start, end = self.line_span(line)
        shown = self.data[start:end].decode(errors="replace")
        column = len(self.data[start : fault.start].decode(errors="replace"))
        cut = max(0, column - 60)
        what = f"{fault.missing!r} is missing" if fault.missing else "this does not parse"
        mark = " " * (column - cut) + "^ " + what
        return f"line {line}: {shown[cut : cut + 120]}\n{' ' * len(f'line {line}: ')}{mark}"


def walk(node: Node, enters: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """Yield a node and all below it in the order of the text, without recursion."""
    stack = [node]
    while stack:
        one = stack.pop()
        if enters is not None and not enters(one):
            continue
        yield one
        stack.extend(reversed(one.children))


def trimmed_end(data: bytes, start: int, end: int) -> int:
    """Return the end of a span without white space at its end."""
    return start + len(data[start:end].rstrip())


def is_installed(language: Language) -> bool:
    """Check whether the grammar of a language is there."""
    try:
        load_parser(language.grammar)
    except ConfigError:
        return False
    return True


def load_parser(grammar: tuple[str, str]) -> tree_sitter.Parser:
    """Return a new parser of a grammar; `ConfigError` names what to install."""
    language = _load_language(grammar)
    return importlib.import_module("tree_sitter").Parser(language)


@cache
def _load_language(grammar: tuple[str, str]) -> tree_sitter.Language:
    module, function = grammar
    try:
        core = importlib.import_module("tree_sitter")
        made = getattr(importlib.import_module(module), function)
    except ImportError as error:
        raise ConfigError(
            f"editing by syntax needs {error.name or module}: pip install 'windlass[edit]'"
        ) from None
    return core.Language(made())

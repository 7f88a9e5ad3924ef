"""Line numbers of a TOML file; the standard parser keeps no positions."""

from __future__ import annotations

import re


class Lines:
    """The line of a TOML file that sets each key, as far as a line can tell.

    A key inside an inline table has the line of the table: `Lines("[a]\\nb = 1").at(("a", "b"))` is
    `:2`. The second of `[[rows]]` is at `("rows", "1")`.
    """

    # As texts: only who has a file compiles them.
    _KEY = r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*"""
    _PART = r"""[\w-]+|"[^"]*"|'[^']*'"""

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, ...], int] = {}
        counts: dict[tuple[str, ...], int] = {}  # of the arrays of tables, how many so far
        table: tuple[str, ...] = ()
        quotes = ""
        for number, line in enumerate(text.splitlines(), 1):
            if quotes:
                quotes = "" if quotes in line else quotes
                continue
            bare = line.strip().lstrip("[")
            match = re.match(self._KEY, bare)
            if match is None:
                continue
            parts = tuple(part.strip("\"'") for part in re.findall(self._PART, match[1]))
            follows = bare[match.end() : match.end() + 1]
            if line.lstrip().startswith("[") and follows == "]":
                inside = next((n for n in range(len(parts) - 1, 0, -1) if parts[:n] in counts), 0)
                if line.lstrip().startswith("[["):
                    counts[parts] = counts.get(parts, -1) + 1
                    table = (*parts, str(counts[parts]))
                elif inside:
                    table = (*parts[:inside], str(counts[parts[:inside]]), *parts[inside:])
                else:
                    table = parts
                for length in range(1, len(table) + 1):
                    self._lines.setdefault(table[:length], number)
            elif follows == "=":
                self._lines.setdefault((*table, *parts), number)
                quotes = next((q for q in ('"""', "'''") if line.count(q) == 1), "")

    def at(self, path: tuple[str, ...]) -> str:
        """Return the line as `:12`, or nothing when it is unknown."""
        for length in range(len(path), 0, -1):
            if line := self._lines.get(path[:length]):
                return f":{line}"
        return ""

"""HTML as text: headings, lists, links and code in the form of Markdown; no scripts, no hidden parts.

The tokenizer takes time in proportion to the page, whatever the page holds: each part is looked at once, and
what is never closed ends the page.
"""

from __future__ import annotations

import html
import re
from typing import Final
from urllib.parse import urljoin

_TAG: Final = re.compile(r"""<(/?)([a-zA-Z][^\s/>]*)((?:[^>"']|"[^"]*"|'[^']*')*)>""")
_ATTRIBUTE: Final = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_SPACES: Final = re.compile(r"[ \t\r\n\f]+")
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_INVISIBLE: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
#: Elements whose content is text up to their end tag, whatever it looks like.
_RAW: Final = frozenset({"script", "style", "textarea", "title", "noembed", "noframes", "xmp"})
_DROPPED: Final = frozenset(
    {"script", "style", "noembed", "noframes", "template", "svg", "math", "iframe", "object"}
)
_VOID: Final = frozenset(
    "area base br col embed hr img input link meta param source track wbr".split()
)
_BLOCKS: Final = frozenset(
    (
        "address article aside blockquote body center dd details dialog dir div dl dt fieldset figcaption "
        "figure footer form header hgroup html legend li main menu nav ol p pre section summary table tbody "
        "tfoot thead tr ul h1 h2 h3 h4 h5 h6"
    ).split()
)
#: Elements that end where the next of the same name begins.
_SINGLE: Final = frozenset({"p", "li", "td", "th", "tr", "dt", "dd", "option"})
_DEEPEST: Final = 20_000  # open elements that are remembered
_LONGEST_TAG: Final = 65_536


class HtmlText:
    """The text of one page: `HtmlText("https://example.com/").convert(page)`."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.title = ""
        self._out: list[str] = []
        self._open: list[str] = []
        self._hidden = 0  # how many elements were open when the hidden one began, plus one
        self._preformatted = 0
        self._links: list[tuple[str, int]] = []  # where they lead, where their text begins

    def convert(self, page: str) -> str:
        """Return the visible text of the page."""
        at = 0
        while at < len(page):
            begin = page.find("<", at)
            if begin < 0:
                self._add_text(page[at:])
                break
            if begin > at:
                self._add_text(page[at:begin])
            following = page[begin + 1 : begin + 2]
            if following in ("!", "?"):
                at = _skip_comment(page, begin)
            elif following == "/" or (following.isascii() and following.isalpha()):
                at = self._read_tag(page, begin)
            else:
                self._add_text("<")
                at = begin + 1
        lines = [line.rstrip() for line in "".join(self._out).splitlines()]
        return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()

    def _read_tag(self, page: str, begin: int) -> int:
        """Take the tag that begins here; return where the page goes on."""
        found = _TAG.match(page, begin, begin + _LONGEST_TAG)
        if found is None:
            return _skip_comment(page, begin)
        closing, name, attributes = found[1], found[2].lower(), found[3]
        at = found.end()
        if closing:
            self._close(name)
            return at
        if name not in _RAW:
            self._enter(name, attributes)
            return at
        # Its content is text: what looks like a tag in it is none.
        end = re.compile(f"</{name}(?=[\\s/>])", re.IGNORECASE).search(page, at)
        content = page[at : end.start()] if end else page[at:]
        if name == "title":
            self.title = self.title or _SPACES.sub(" ", _unescape(content)).strip()
        elif name not in _DROPPED:
            self._add_text(content)
        if end is None:
            return len(page)
        close = page.find(">", end.end())
        return len(page) if close < 0 else close + 1

    def _enter(self, name: str, written: str) -> None:
        if name in _VOID:
            if not self._hidden:
                self._add_void(name, written)
            return
        if name in _SINGLE and self._open and self._open[-1] == name:
            self._close(name)
        if len(self._open) < _DEEPEST:
            self._open.append(name)
        attributes = _read_attributes(written)
        if not self._hidden and (name in _DROPPED or _is_hidden(attributes)):
            self._hidden = len(self._open)
        if self._hidden:
            return
        if name in _BLOCKS:
            self._break(name)
        if name == "pre":
            self._preformatted += 1
            self._out.append("```\n")
        elif name == "a" and attributes.get("href"):
            # A link in a link is the second one.
            self._links[:] = [(attributes["href"], len(self._out))]
        elif name in ("td", "th") and self._out and not self._out[-1].endswith("\n"):
            self._out.append(" | ")

    def _close(self, name: str) -> None:
        if name not in self._open[-200:]:
            return  # nothing near is open under this name
        while self._open:
            last = self._open.pop()
            self._leave(last)
            if last == name:
                return

    def _leave(self, name: str) -> None:
        if self._hidden:
            if len(self._open) < self._hidden:
                self._hidden = 0
            return
        if name == "pre":
            self._preformatted = max(0, self._preformatted - 1)
            self._out.append("\n```")
        elif name == "a" and self._links:
            self._end_link(*self._links.pop())
        if name in _BLOCKS:
            self._out.append("\n\n" if name in ("p", "pre", "ul", "ol", "table") else "\n")

    def _end_link(self, href: str, start: int) -> None:
        text = "".join(self._out[start:]).strip()
        try:
            target = urljoin(self.base, href.strip())
        except ValueError:
            return
        if text and target.startswith(("http://", "https://")) and len(target) < 2_000:
            self._out[start:] = [f"[{text}]({target})"]

    def _add_void(self, name: str, written: str) -> None:
        if name == "br":
            self._out.append("\n")
        elif name == "hr":
            self._out.append("\n\n---\n\n")
        elif name == "img":
            words = _SPACES.sub(" ", _read_attributes(written).get("alt", "")).strip()
            if words:
                self._out.append(f"[image: {words}]")

    def _break(self, name: str) -> None:
        self._out.append("\n")
        if name[0] == "h" and name[1:] in ("1", "2", "3", "4", "5", "6"):
            self._out.append(f"\n{'#' * int(name[1:])} ")
        elif name == "li":
            self._out.append("- ")
        elif name == "blockquote":
            self._out.append("> ")

    def _add_text(self, text: str) -> None:
        if self._hidden:
            return
        text = _unescape(text)
        if not self._preformatted:
            text = _SPACES.sub(" ", text)
            if not self._out or self._out[-1].endswith(("\n", " ")):
                text = text.lstrip(" ")
        if text:
            self._out.append(text)


def _skip_comment(page: str, begin: int) -> int:
    if page.startswith("<!--", begin):
        end = page.find("-->", begin + 4)
        return len(page) if end < 0 else end + 3
    end = page.find(">", begin)
    return len(page) if end < 0 else end + 1


def _read_attributes(written: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(written):
        found.setdefault(name.lower(), _unescape(double or single or bare))
    return found


def _is_hidden(attributes: dict[str, str]) -> bool:
    """Check whether no reader of the page would see the element."""
    if "hidden" in attributes or attributes.get("aria-hidden", "").lower() == "true":
        return True
    return bool(_INVISIBLE.search(attributes.get("style", "")))


def _unescape(text: str) -> str:
    if "&" not in text:
        return text
    try:
        return html.unescape(text)
    except ValueError:  # a number with more digits than Python reads
        return text


def convert_html(page: str, base: str) -> tuple[str, str]:
    """Return the title and the visible text of a page: `convert_html("<p>Hi", "https://a.example/")`."""
    reader = HtmlText(base)
    text = reader.convert(page)
    return reader.title, text

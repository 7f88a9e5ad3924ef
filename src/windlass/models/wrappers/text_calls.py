"""Tool calls in a text: which `<tool_call>` blocks are calls, and which are quoted.

A block is a call where it starts a line, outside fences, quotes, backticks, comments and elements that hold
other people's words, where nothing else stands on its lines, and where nothing but blocks and blank lines
stands from the first to the last. Everything else is text. One pass; what is in doubt is text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from functools import cache
from typing import Final, NamedTuple

import msgspec

from windlass.models.wrappers.base import OPEN
from windlass.slices import SHORT, STEPS, Slices, run_at_once, run_in_slices

CLOSE: Final = "</tool_call>"
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)?")
_PLAIN_LINES: Final = re.compile(
    r"(?:[^<>`~\r\n]*+[\r\n]++)++"
)  # that open, close and quote nothing
_QUOTE_LINES: Final = re.compile(r"(?: {0,3}+>[^\r\n]*+(?:\r\n|\r(?!\Z)|\n))++")
_START: Final = re.compile(rf" {{0,3}}{OPEN}")
_NEXT: Final = re.compile(rf"[ \t]*{OPEN}")
_ANY_TAG: Final = re.compile(r"</?tool_call>")
# All up to a tag, or to a string without an end. Possessive: nothing is read twice.
_JSON_BODY: Final = re.compile(
    r"""(?:[^"<]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|<(?!/?+tool_call>))*+""", re.DOTALL
)
_LISTED: Final = r"(?: {0,3}+(?:[-*+]|\d{1,9}[.)])[ \t]++)*+"  # within items of lists
_QUOTE: Final = re.compile(rf"{_LISTED} {{0,3}}>")
_QUOTES: Final = re.compile(r" {0,3}>| {4}| {0,3}\t")  # lines that quote by themselves
_FENCE: Final = re.compile(rf"({_LISTED}) {{0,3}}(`{{3,}}(?=[^`]*$)|~{{3,}})")
_TICKS: Final = re.compile(r"`+")
_BLANK_LINE: Final = re.compile(r"\n[ \t]*\r?\n")
_MARKS: Final = frozenset("\"'\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a\u2018\u2019")
#: Elements whose content is a quote or thinking, not part of the answer.
_ELEMENTS: Final = (
    "pre code samp kbd xmp textarea script style template blockquote q cite think thinking thought reasoning "
    "reflection tool_result tool_response tool_output example examples quote"
).split()
_ELEMENT: Final = re.compile(
    rf"(?<!`)<(?:(!--)|(!\[CDATA\[)|(\?)|({'|'.join(_ELEMENTS)})(?=[\s/>])[^<>]*>)", re.IGNORECASE
)
_CLOSINGS: Final = {"!--": "-->", "![CDATA[": "]]>", "?": r"\?>"}
_THOUGHTS: Final = ("think", "thinking", "thought", "reasoning", "reflection")
_THOUGHT: Final = re.compile(rf"<(/?)(?:{'|'.join(_THOUGHTS)})\s*>", re.IGNORECASE)


class CallBlock(NamedTuple):
    """One `<tool_call>` block: its place and its body."""

    start: int
    end: int
    body: str
    alone: bool  # nothing but blocks stands on its lines


class CallBody(msgspec.Struct):
    """The body of a block."""

    name: str
    arguments: dict[str, object] = {}


class _Fence(msgspec.Struct, frozen=True):
    """An open code fence: its mark, length and indentation."""

    mark: str
    length: int
    indent: int

    def is_closed_by(self, line: str) -> bool:
        """Check whether this line closes the fence."""
        marks = line.lstrip(" ")
        indent = len(line) - len(marks)
        return (
            self.indent <= indent <= self.indent + 3
            and len(marks) >= self.length
            and not marks.strip(self.mark)
        )


class LineState:
    """What spans the lines of a text: an open fence, a quote, an element. Fed line by line."""

    __slots__ = ("element", "fence", "quote", "thought")

    def __init__(self) -> None:
        self.fence: _Fence | None = None
        self.element: re.Pattern[str] | None = None
        self.quote = False
        self.thought = False  # the element holds thoughts, which may break off anywhere

    @property
    def is_open(self) -> bool:
        """Whether a call may stand on the next line."""
        return self.fence is None and self.element is None and not self.quote

    def skip_lines(self, text: str, at: int) -> int:
        """Skip the lines that hold no tag and no fence; return where the next one begins."""
        if not self.quote and (plain := _PLAIN_LINES.match(text, at)) is not None:
            return plain.end()
        if self.fence is None and self.element is None:
            if (quotes := _QUOTE_LINES.match(text, at)) is not None:
                self.quote = True
                return quotes.end()
        return at

    def read_line(self, line: str) -> None:
        """Update the state with a whole line."""
        line = line.rstrip()
        if self.fence is not None:
            if self.fence.is_closed_by(line):
                self.fence = None
            return
        if self.element is not None and (self.thought or not _FENCE.match(line)):
            self.read_words(line)
        elif not line:
            self.quote = False
        elif _QUOTE.match(line):
            self.quote = True
        elif (fence := _FENCE.match(line)) is not None:
            self.quote = False
            self.fence = _Fence(fence[2][0], len(fence[2]), len(fence[1]))
        else:  # a line of text right after a quote belongs to it, unless it begins an element
            self.read_words(line)

    def read_words(self, words: str) -> None:
        """Update the state with text that opens or closes elements."""
        at = 0
        while at <= len(words):
            if self.element is not None:
                closing = self.element.search(words, at)
                if closing is None:
                    return
                self.element, at = None, closing.end()
            opening = _ELEMENT.search(words, at)
            if opening is None:
                return
            at = opening.end()
            if not opening[0].endswith("/>"):
                self.element = _closing(opening)
                self.thought = opening[4] is not None and opening[4].lower() in _THOUGHTS


def _closing(opening: re.Match[str]) -> re.Pattern[str]:
    name = opening[4]
    return _compile_closing(
        (opening[1] or opening[2] or opening[3]) if name is None else name.lower()
    )


@cache  # at first use: there are many, and most are never seen
def _compile_closing(name: str) -> re.Pattern[str]:
    return re.compile(_CLOSINGS.get(name, rf"</{name}\s*>"), re.IGNORECASE)


class _Scan(msgspec.Struct, frozen=True):
    blocks: list[CallBlock]  # that start a line, outside fences, quotes and elements
    inline: list[CallBlock]  # that follow text, and end their line
    fences: list[tuple[int, int]]  # what is inside fences


def _scan(text: str) -> Slices[_Scan]:
    state, found = LineState(), _Scan([], [], [])
    at = steps = 0
    while at < len(text):
        if (steps := steps + 1) % STEPS == 0:
            yield
        if (skipped := state.skip_lines(text, at)) > at:
            if state.fence is not None:
                found.fences.append((at, skipped))
            at = skipped
            continue
        line_end = _line_end(text, at)
        start = _START.match(text, at) if state.is_open else None
        block = None if start is None else _read_block(text, start.end())
        if block is not None:
            at = yield from _read_group(text, block, found, state)
            continue
        fenced = state.fence is not None
        if state.is_open and not _QUOTES.match(text, at):
            yield from _read_inline(text, at, line_end, found.inline)
        state.read_line(text[at:line_end])
        if fenced and state.fence is not None:
            found.fences.append((at, line_end))
        at = line_end
    return found


def _line_end(text: str, at: int) -> int:
    line = _LINE.match(text, at)
    assert line is not None
    return line.end()


def _read_group(text: str, block: CallBlock, found: _Scan, state: LineState) -> Slices[int]:
    """Read the blocks of a line; return where reading goes on."""
    group = [block]
    while (start := _NEXT.match(text, group[-1].end)) is not None:
        following = _read_block(text, start.end())
        if following is None:
            break
        group.append(following)
        if len(group) % STEPS == 0:
            yield
    at = group[-1].end
    line_end = _line_end(text, at)
    rest = text[at:line_end]
    alone = not rest.strip(" \t\r\n")
    found.blocks.extend(group if alone else [one._replace(alone=False) for one in group])
    if not alone:
        state.read_words(rest)
    return line_end


def _read_block(text: str, inside: int, limit: int | None = None) -> CallBlock | None:
    """Read the block whose tag ends at `inside`; None if it is a mention or has no end.

    None also where the block does not end before `limit`.

    A closing tag within a string of its JSON is part of the string.
    """
    end = len(text) if limit is None else limit
    start = inside - len(OPEN)
    if text[inside : inside + 200].lstrip()[:1] != "{":
        tag = _ANY_TAG.search(text, inside, end)
        if tag is None or tag[0] == OPEN:
            return None
        return CallBlock(start, tag.end(), text[inside : tag.start()], True)
    body = _JSON_BODY.match(text, inside, end)
    assert body is not None
    stop = body.end()
    if stop < end and text[stop] == "<":  # the next tag, whichever it is, ends the block
        after = stop + len(CLOSE) if text[stop + 1] == "/" else stop
        return CallBlock(start, after, text[inside:stop], True)
    # in a string without an end is all that follows
    return CallBlock(start, end, text[inside:], True) if end == len(text) else None


def _read_inline(text: str, at: int, line_end: int, found: list[CallBlock]) -> Slices[None]:
    """Read the blocks that follow text on a line, up to its end."""
    place = text.find(OPEN, at, line_end)
    words_end = at + len(text[at:line_end].rstrip()) if place >= 0 else at
    steps = 0
    while place >= 0:
        block = _read_block(text, place + len(OPEN), line_end)
        if block is None:
            return
        if block.end >= words_end:
            found.append(block)
        place = text.find(OPEN, block.end, line_end)
        if (steps := steps + 1) % STEPS == 0:
            yield


# --------------------------------------------------------------------------- backticks


def _find_spans(text: str, scan: _Scan, *, paragraphs: bool) -> Slices[list[tuple[int, int]]]:
    """Find the spans between backticks: from one run to the next run of equal length.

    By the rule a span ends with its paragraph. Readers do not all know that, so both are looked at.
    """
    runs: list[tuple[int, int, int, bool]] = []  # place, length, paragraph, whether it may open
    blank = (yield from _find_places(_BLANK_LINE, text)) if paragraphs else []
    fences, blocks = [one[0] for one in scan.fences], [one.start for one in scan.blocks]
    for steps, run in enumerate(_TICKS.finditer(text)):
        if steps % STEPS == 0:
            yield
        place = run.start()
        if _is_covered(place, fences, scan.fences):
            continue
        within = _is_covered(place, blocks, scan.blocks)
        runs.append((place, len(run[0]), bisect_right(blank, place), not within))
    following: dict[tuple[int, int], int] = {}
    matched: list[int | None] = [None] * len(runs)
    for at in range(len(runs) - 1, -1, -1):
        if at % STEPS == 0:
            yield
        _, length, paragraph, _ = runs[at]
        matched[at] = following.get((length, paragraph))
        following[length, paragraph] = at
    spans: list[tuple[int, int]] = []
    at = steps = 0
    while at < len(runs):
        if (steps := steps + 1) % STEPS == 0:
            yield
        end = matched[at] if runs[at][3] else None
        if end is not None:
            spans.append((runs[at][0], runs[end][0] + runs[end][1]))
            at = end
        at += 1
    return spans


def _find_places(pattern: re.Pattern[str], text: str) -> Slices[list[int]]:
    places: list[int] = []
    for found in pattern.finditer(text):
        places.append(found.start())
        if len(places) % STEPS == 0:
            yield
    return places


def _is_covered(
    place: int, starts: Sequence[int], ranges: Sequence[tuple[int, ...] | CallBlock]
) -> bool:
    at = bisect_right(starts, place) - 1
    return at >= 0 and place < ranges[at][1]


def _outside_backticks(
    text: str, blocks: Sequence[CallBlock], scan: _Scan
) -> Slices[list[CallBlock]]:
    first = text.find("`")
    if not blocks or not 0 <= first < blocks[-1].start:
        return list(blocks)
    left = list(blocks)
    for paragraphs in (True, False):
        spans = yield from _find_spans(text, scan, paragraphs=paragraphs)
        starts = [span[0] for span in spans]
        left = [block for block in left if not _is_covered(block.start, starts, spans)]
        yield
    return left


# --------------------------------------------------------------------------- what is asked


def find_calls(text: str) -> list[CallBlock]:
    """Find the blocks that are calls, in order; none if any of them is not on its own."""
    return run_at_once(calls_in(text)) if OPEN in text else []


async def find_calls_in_slices(text: str) -> list[CallBlock]:
    """Find the calls in a text of any length without blocking the event loop."""
    return find_calls(text) if len(text) < SHORT else await run_in_slices(calls_in(text))


def calls_in(text: str) -> Slices[list[CallBlock]]:
    """Find the calls in slices: the work of `find_calls`."""
    if OPEN not in text:
        return []
    scan = yield from _scan(text)
    blocks = _after_thought(text, (yield from _outside_backticks(text, scan.blocks, scan)))
    if not blocks or not all([block.alone for block in blocks]):
        return []
    for steps, (one, other) in enumerate(zip(blocks, blocks[1:], strict=False)):
        if text[one.end : other.start].strip(" \t\r\n"):
            return []
        if steps % STEPS == 0:
            yield
    before, after = text[: blocks[0].start].rstrip(), text[blocks[-1].end :].lstrip()
    if before[-1:] in _MARKS and after[:1] in _MARKS:
        return []
    return blocks


def _after_thought(text: str, blocks: list[CallBlock]) -> list[CallBlock]:
    """Drop the blocks before a closing tag of thinking that the prompt had opened."""
    mark = _THOUGHT.search(text)
    if mark is None or not mark[1]:
        return blocks
    return [block for block in blocks if block.start > mark.start()]


def read_body(body: str) -> CallBody | None:
    """Parse the JSON of a block; None if it is invalid."""
    try:
        return msgspec.json.decode(body.strip(), type=CallBody)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeEncodeError):
        return None


def find_intended(text: str, tools: Collection[str]) -> int:
    """Count the blocks of a text without calls that were probably meant as calls.

    They name a tool on offer and stand, outside of anything that quotes, at the start or the end of a
    line; or the whole text is one fence around them.
    """
    return run_at_once(intended_in(text, tools)) if OPEN in text else 0


async def find_intended_in_slices(text: str, tools: Collection[str]) -> int:
    """Count intended calls in a text of any length without blocking the event loop."""
    if len(text) < SHORT or OPEN not in text:
        return find_intended(text, tools)
    return await run_in_slices(intended_in(text, tools))


def intended_in(text: str, tools: Collection[str]) -> Slices[int]:
    """Count intended calls in slices: the work of `find_intended`."""
    scan = yield from _scan(text)
    near = sorted([*scan.blocks, *scan.inline])
    found = _after_thought(text, (yield from _outside_backticks(text, near, scan)))
    if not found:
        found = yield from _find_fenced(text)
    count = 0
    for steps, block in enumerate(found):
        body = read_body(block.body)
        count += body is not None and body.name in tools
        if steps % STEPS == 0:
            yield
    return count


def _find_fenced(text: str) -> Slices[list[CallBlock]]:
    lines = text.strip().splitlines()
    if len(lines) < 3 or not _FENCE.match(lines[0]) or not _FENCE.match(lines[-1]):
        return []
    inside = "\n".join(lines[1:-1])
    blocks = yield from calls_in(inside)
    if not blocks or inside[: blocks[0].start].strip() or inside[blocks[-1].end :].strip():
        return []
    return blocks

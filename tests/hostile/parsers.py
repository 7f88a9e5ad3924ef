"""Everything that reads what a model, a provider or a tool wrote, and the fragments that may slow it down."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

from windlass.access.globs import like, path_like
from windlass.access.match import CallValues, fits_arguments
from windlass.access.taint import _spoken
from windlass.agents.completing import tidied
from windlass.agents.differing import Difference
from windlass.cli.text import json_text
from windlass.cli.timeline import steps
from windlass.errors import BadReply
from windlass.events import IterationStart, Replied, RunStarted, TextDelta, ToolResulted
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.models.eventstream import EventStreamDecoder
from windlass.models.failures import Source, from_http, seconds
from windlass.models.found_json import json_values
from windlass.models.ndjson import LineDecoder
from windlass.models.sse import SSEDecoder
from windlass.models.wrappers.text_calls import find_calls, find_intended
from windlass.models.wrappers.text_tools import WithoutCalls
from windlass.picture.drawing import draw
from windlass.picture.page import page
from windlass.picture.plain import as_data
from windlass.picture.reading import Written, picture_of
from windlass.picture.words import clean, clean_piece, fit, one_line
from windlass.policies.completion import says_done, visible
from windlass.policies.scratchpad.writing import excerpt, plainly
from windlass.policies.skills.globs import Glob, tidy
from windlass.redact import Redactor, mask_url, secrets_in
from windlass.tools.prepare import Checker, unparsable
from windlass.tools.text import cap_result, to_text
from windlass.usage import NO_USAGE

LINES_OF_CALLS = 250  # a text of lines with three letters each; a line is looked at in 5 µs
PIECE = 5  # characters of a delta, or bytes of a chunk


class Parser(NamedTuple):
    """One reader of texts, and what its texts are made of."""

    name: str
    read: Callable[[str], object]
    fragments: tuple[str, ...]
    in_pieces: bool = False  # a text comes in small pieces, between which others have their turn
    most: int = 30  # times what a plain loop over the characters takes


JSON = (
    "{",
    "[",
    '"',
    '\\"',
    "{}",
    ",",
    ", ",
    ",]",
    ":",
    '{"a":',
    "1",
    "NaN",
    "a",
    " ",
    "\n",
    "```\n",
    "```json\n",
    "`",
    "\\",
)
CALLS = (
    "<tool_call>", "</tool_call>", '<tool_call>{"', "<tool_call>{", 'x <tool_call>{\\"\n', "\n", "\r", " ", "    ", "`",
    "```\n", "~~~", "- ", "> ", "x", '"', '\\"', "<pre>", "</pre>", "<tHink>", "</think", "<!--", "<![CDATA[", "<?",
    "<pre ", "1. ", '<tool_call>{"name":"add"}</tool_call>', "\n\n", "\t",
)  # fmt: skip
DONE = ("<done>", "</done>", "##DONE##", "<done", "#", " ", "x", "<done>##DONE##</done>")
SECRETS = ("sk-aaaaaaaaaaaaaaab", "aaaaaaaaaaaa", "hunter2/hunter2+hunter2")
REDACTED = (
    "a", "sk-aaaa", "sk-aaaaaaaaaaaaaaab", "aaaaaaaaaaaa", "hunter2/", "hunter2", "%", "\\u0061", "%61", "YWFh", "\\",
    "\ud800", "é", " ",
)  # fmt: skip
URLS = ("://", "://a", ":", "@", "/", "a", " ", "://a:b@", "https")
GLOBS = ("a", "b", "/", "a/", "b/", ".", "./", "*", "\\", "ab", "aaab")
SHELL = ("rm ", "a", ";", "$", "../", "%2e", "\n", "a/", "file:", "\\")
WORDS = ("a", " ", "\n", "\t", "_", "-", "é", "aa", "ab", ".")
TERMINAL = (
    "\x1b[",
    "\x1b]",
    "\x1bP",
    "\x1b",
    "0",
    ";",
    " ",
    "m",
    "\x07",
    "\n",
    "a",
    "é",
    "\u202e",
    "\x00",
    "<",
    "&",
    "界",
)
MARKUP = ("<", "</script>", "&", "\n", "\u202e", "`", "](")
EVENTS = (
    "data: a\n",
    "data:\n",
    "data",
    ":",
    "\n",
    "\r",
    "\r\n",
    "event: a\n",
    ": \n",
    "\ufeff",
    "a",
    "\n\n",
    "data: {}\n\n",
)
LINES = ("\n", "\r", "{}", "{}\n", " ", "a", "\ufeff", '{"a":1}\n', "\r\n")
TAGS = ("<", " ", "/", "scratchpad", "< ", "<scratchpad", "</scratchpad>", "\n", "\t", "a")
ERRORS = (
    "1",
    ".",
    "s",
    "m",
    "ms",
    "1s",
    "sk-",
    "sk-aaaaaa",
    "AIza",
    "<",
    ">",
    "a",
    " ",
    "{",
    '{"error":',
    "_",
    "-",
)
FENCES = ("```", "```\n", "\n", " ", "`", "a", "\n```", "``` ")
SCHEMA_TEXTS = ("a", "aa", "b", "ab", " ", "1", "é", "-", "\n")


def pieces(text: str) -> Iterator[str]:
    """The text as it may come over a network."""
    for at in range(0, len(text), PIECE):
        yield text[at : at + PIECE]


def stream_calls(text: str, *, whole: bool) -> None:
    """Strip the calls from deltas."""
    shown: list[str] = []
    written = WithoutCalls(lambda event: shown.append(getattr(event, "text", "")))
    for piece in (text,) if whole else pieces(text):
        written.feed(TextDelta(piece))
    written.flush(text, find_calls(text))


def stream_secrets(text: str, *, whole: bool) -> None:
    """Redact deltas."""
    stream = _redactor.stream()
    for piece in (text,) if whole else pieces(text):
        stream.feed(piece)
    stream.flush()


def decode(decoder: Any, data: bytes, *, whole: bool) -> None:
    """Give the bytes to a decoder of a provider's stream."""
    step = len(data) or 1 if whole else PIECE
    try:
        for at in range(0, len(data), step):
            decoder.feed(data[at : at + step])
    except BadReply:
        pass


def utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def frames(text: str) -> bytes:
    """An event stream: every letter is a frame, an `h` one with many headers."""
    return b"".join([_FRAMES[letter] for letter in text])


def _frame(headers: bytes, payload: bytes) -> bytes:
    start = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    whole = start + struct.pack(">I", crc32(start)) + headers + payload
    return whole + struct.pack(">I", crc32(whole))


_FRAMES = {"e": _frame(b"", b""), "p": _frame(b"", b"{}" * 40), "h": _frame(b"\x01a\x00" * 20, b"")}


def check_patterns(text: str) -> None:
    """Validate arguments with patterns of every kind."""
    for checker in _checkers:
        checker.is_valid({"a": text, text: "b"})
        checker.problems({"a": text, text: "b"})


def draw_trace(text: str) -> None:
    """Show a session whose reply, call and result are the text: as lines, a page, plain data."""
    message = Message("assistant", (Text(text), ToolCall("c", "add", {"a": text})))
    entries = [
        RunStarted("r", "agent", "script", "p", "m"),
        IterationStart(1),
        Replied(message, NO_USAGE, "tool_use", "p", "m", 0, "f"),
        ToolResulted("c", "add", "ok", ToolResult("c", text, False, "add"), 1.0),
    ]
    picture = picture_of("s", [Written(1.0, entries)])
    list(draw(picture, 100, full=True))
    page(picture)
    json_text(as_data(picture))
    for entry in entries:
        for step in steps(entry):
            one_line(step.text, 100)


def clean_text(text: str) -> None:
    """Make words fit for a terminal."""
    clean(text)
    clean_piece(text)
    one_line(text)
    fit(text, 80)
    json_text({"a": text.encode(errors="replace").decode()})


def match_globs(text: str) -> None:
    """Match names and paths."""
    like("*a*b*ab?c", text)
    path_like("**/a/**/b*/**/c", text)
    Glob("**/a*/**/*b*c").matches(text)
    tidy(text)


def match_arguments(text: str) -> None:
    """Ask permissions about a command, a path, an address and a text."""
    arguments = {"command": text, "path": text, "url": text, "text": text}
    call = CallValues(arguments, {}, frozenset(), "/nowhere")
    fits_arguments(("rm *", "/etc/**"), None, call, "deny")
    fits_arguments(("ls *", "src/**"), None, call, "allow")


def read_failure(text: str) -> None:
    """Make an error of what a provider answered."""
    source = Source("p", "m", secrets=("sk-aaaaaaaaaaa",))
    seconds(text)
    source.clean(text)
    from_http(500, {"retry-after": text}, utf8(text), source)


_redactor = Redactor(SECRETS)
_checkers = [
    Checker({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}, "t")
    for pattern in (r"^(a+)+$", r"(?=a*b)a*c", r"^a*a*a*b\Z", r"(?:a|aa)+c")
]
_checkers.append(Checker({"type": "object", "patternProperties": {"^(a|b)*c$": {}}}, "t"))

PARSERS = (
    Parser("json", lambda text: list(json_values(text)), JSON),
    Parser("raw arguments", unparsable, JSON),
    Parser("written calls", find_calls, CALLS, most=LINES_OF_CALLS),
    Parser("intended calls", lambda text: find_intended(text, ("add",)), CALLS, most=LINES_OF_CALLS),
    Parser("streamed calls", lambda text: stream_calls(text, whole=True), CALLS, most=LINES_OF_CALLS),
    Parser("streamed calls in pieces", lambda text: stream_calls(text, whole=False), CALLS, True),
    Parser("done blocks", lambda text: says_done(text, "##DONE##", "text"), DONE),
    Parser("visible text", lambda text: visible(text, "##DONE##"), DONE),
    Parser("redacted text", _redactor.text, REDACTED),
    Parser("redacted data", lambda text: _redactor.value({"a": [text]}), REDACTED),
    Parser("redacted bytes", lambda text: _redactor.bytes(utf8(text)), REDACTED),
    Parser("redacted stream", lambda text: stream_secrets(text, whole=True), REDACTED),
    Parser("redacted pieces", lambda text: stream_secrets(text, whole=False), REDACTED, True),
    Parser("urls", lambda text: (mask_url(text), secrets_in(text, text)), URLS),
    Parser("globs", match_globs, GLOBS, most=90),  # four, over paths of any length
    Parser("permissions", match_arguments, SHELL),
    Parser("schema patterns", check_patterns, SCHEMA_TEXTS),
    Parser("sse", lambda text: decode(SSEDecoder(), utf8(text), whole=True), EVENTS),
    Parser("sse in pieces", lambda text: decode(SSEDecoder(), utf8(text), whole=False), EVENTS, True),
    Parser("ndjson", lambda text: decode(LineDecoder(), utf8(text), whole=True), LINES),
    Parser("ndjson in pieces", lambda text: decode(LineDecoder(), utf8(text), whole=False), LINES, True),
    Parser("event stream", lambda text: decode(EventStreamDecoder(), frames(text[::32]), whole=True), ("e", "p", "h")),
    Parser("event stream in pieces", lambda text: decode(EventStreamDecoder(), frames(text[::32]), whole=False), ("e", "p", "h"), True),
    Parser("terminal", clean_text, TERMINAL, most=150),
    Parser("trace", draw_trace, MARKUP, most=400),  # four forms of it, for people
    Parser("scratchpad", lambda text: (plainly(text), excerpt(text)), TAGS),
    Parser("failures", read_failure, ERRORS),
    Parser("fences", lambda text: tidied(text, "", None), FENCES),
    Parser("diff", lambda text: Difference("here", text, text[: len(text) // 2] + "\nx\n" + text[::-1]).diff, WORDS),
    Parser("tool results", lambda text: cap_result(to_text([text, {text: text}]), 1000, "c"), WORDS),
    Parser("spoken words", lambda text: (_spoken(text, "a" + text), _spoken("a", text), _spoken("ab", text)), WORDS, most=120),
)  # fmt: skip

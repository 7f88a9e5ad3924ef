"""Everything that reads what a model, a provider or a tool wrote, and the fragments that may slow it down."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias
from zlib import crc32

from windlass.access.facts import CallFacts
from windlass.access.flow.items import find_items
from windlass.access.flow.records import split_records
from windlass.access.flow.words import UserWords
from windlass.access.guards import find_violation
from windlass.access.match import CallValues, fits_arguments
from windlass.access.paths import LONGEST
from windlass.access.permissions import Permissions, entries_of
from windlass.cli.text import json_text
from windlass.cli.timeline import steps
from windlass.errors import BadReply, ModelError
from windlass.events import IterationStart, Replied, RunStarted, TextDelta, ToolResulted
from windlass.globs import like, path_like
from windlass.llm.completion import strip_echo
from windlass.messages import Message, Text, ToolCall, ToolResult, ToolSpec, weigh_text
from windlass.models.base import Emit, Frame, Model, Request, Response, Settings
from windlass.models.json_text import json_values
from windlass.models.transport.errors import Source, from_http, seconds
from windlass.models.transport.eventstream import EventStreamDecoder
from windlass.models.transport.ndjson import LineDecoder
from windlass.models.transport.sse import SSEDecoder
from windlass.models.wires.json_values import arguments
from windlass.models.wires.ollama.model import OllamaChat
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wrappers.native_tools import Native
from windlass.models.wrappers.text_calls import find_intended_in_slices
from windlass.models.wrappers.text_tools import TextTools, WithoutCalls
from windlass.policies.compaction.cut import _findings
from windlass.policies.completion import says_done, visible
from windlass.policies.judges.judge import shorten_text
from windlass.policies.scratchpad.render import excerpt, plainly
from windlass.policies.skills.globs import Glob, tidy
from windlass.redaction.redactor import Redactor, mask_url, secrets_in
from windlass.replay.diff import Difference
from windlass.tools.arguments.repair import mend
from windlass.tools.arguments.validate import Checker, unparsable
from windlass.tools.render import cap_result, to_text
from windlass.tools.search.index import Index
from windlass.trace.build import Append, picture_of
from windlass.trace.format import (
    clean,
    clean_piece,
    fit,
    one_line,
)
from windlass.trace.html import page
from windlass.trace.json_data import as_data
from windlass.trace.text import draw
from windlass.usage import NO_USAGE

PIECE = 1  # characters of a delta, or bytes of a chunk

Place: TypeAlias = Literal["at once", "in slices", "in pieces", "for people"]


class Parser(NamedTuple):
    """One reader of texts, and what its texts are made of.

    Where it runs decides how long it may hold the event loop:

    - "at once": from beginning to end, between two turns of others;
    - "in slices": a coroutine that lets others run, or gives the work to a thread;
    - "in pieces": it is given a text as it comes, and others run between two pieces;
    - "for people": a command or a notebook draws with it, on no event loop that others share.
    """

    name: str
    read: Callable[[str], Any]
    fragments: tuple[str, ...]
    place: Place = "at once"
    copies: int = 1  # how often what is read holds the text, or how many parsers read it


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
    "<tool_call>",
    "</tool_call>",
    '<tool_call>{"',
    "<tool_call>{",
    'x <tool_call>{\\"\n',
    "\n",
    "\r",
    " ",
    "    ",
    "`",
    "```\n",
    "~~~",
    "- ",
    "> ",
    "x",
    '"',
    '\\"',
    "<pre>",
    "</pre>",
    "<tHink>",
    "</think",
    "<!--",
    "<![CDATA[",
    "<?",
    "<pre ",
    "1. ",
    '<tool_call>{"name":"add"}</tool_call>',
    "\n\n",
    "\t",
)
DONE = ("<done>", "</done>", "##DONE##", "<done", "#", " ", "x", "<done>##DONE##</done>")
SECRETS = ("sk-aaaaaaaaaaaaaaab", "aaaaaaaaaaaa", "hunter2/hunter2+hunter2")
REDACTED = (
    "a",
    "sk-aaaa",
    "sk-aaaaaaaaaaaaaaab",
    "aaaaaaaaaaaa",
    "hunter2/",
    "hunter2",
    "%",
    "\\u0061",
    "%61",
    "YWFh",
    "\\",
    "\ud800",
    "é",
    " ",
)
URLS = ("://", "://a", ":", "@", "/", "a", " ", "://a:b@", "https")
GLOBS = ("a", "b", "/", "a/", "b/", ".", "./", "*", "\\", "ab", "aaab")
SHELL = ("rm ", "a", ";", "$", "../", "%2e", "\n", "a/", "file:", "\\")
SECRET_PLACES = (
    ".env",
    "x.env",
    "a",
    " ",
    "/",
    ".ssh",
    ".pem",
    ".",
    ";",
    "id_rsax",
    "\\",
    "environ/",
)
DATES = (
    "1,",
    "20 to ",
    "March ",
    "the ",
    "a hundred and ",
    "at 7 ",
    "order 1, ",
    "2026-",
    "twenty-",
    "1'",
)
ITEMS = ("a.", "a@", "@a", "a-", "1", "DE12 ", "+49 ", "https:", "www.", "(", "1a")
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
    """Yield the text as it may come over a network."""
    for at in range(0, len(text), PIECE):
        yield text[at : at + PIECE]


def stream_calls(text: str) -> None:
    """Strip the calls from deltas."""
    written = WithoutCalls(lambda event: None)
    for piece in pieces(text):
        written.feed(TextDelta(piece))


class Speaker(Model):
    """A model that gives one text, as one delta."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def respond(self, request: Request, emit: Emit) -> Response:
        emit(TextDelta(self.text))
        return Response(Message("assistant", (Text(self.text),)))


ADD = ToolSpec("add", "Add.", {"type": "object"})
REQUEST = Request((Message("user", (Text("go"),)),), Frame(None, (ADD,), Settings()))


def watch(_event: object) -> None:
    """See an event of a reply: where nobody does, none is looked at."""


async def read_reply(wrap: Callable[[Model], Model], text: str) -> None:
    """Read a whole reply with its calls, as the loop does."""
    await wrap(Speaker(text)).respond(REQUEST, watch)


class Reply:
    """The answer of a provider, whose bytes have all come."""

    status = 200

    def __init__(self, body: bytes) -> None:
        self.headers: dict[str, str] = {}
        self.body = body

    async def read(self) -> bytes:
        body, self.body = self.body, b""
        return body

    def close(self) -> None: ...


class Wire:
    """A transport that gives one answer to every request."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def send(self, *_request: Any, **_options: Any) -> Reply:
        return Reply(self.body)

    async def aclose(self) -> None: ...


async def read_stream(body: bytes) -> None:
    """Read what a provider streams, all of which has come at once."""
    model = OpenAIChat("m", base_url="http://x.test/v1", transport=Wire(body))
    with contextlib.suppress(ModelError):
        await Native(model).respond(REQUEST, watch)


def as_deltas(text: str) -> bytes:
    """Encode the text as a provider streams it, a few letters to an event."""
    made = [b'data: {"choices":[{"index":0,"delta":{"content":%s}}]}\n\n'] * (len(text) // 60 + 1)
    words = [json.dumps(text[at : at + 60]).encode() for at in range(0, len(text) + 1, 60)]
    return b"".join([event % word for event, word in zip(made, words, strict=True)])


def as_ndjson(text: str) -> bytes:
    """Encode lines that another kind of provider streams."""
    return b"".join([b'{"message":{"content":"a"}}\n' if one == "a" else b"{}\n" for one in text])


async def read_lines(body: bytes) -> None:
    """Read what such a provider streams."""
    model = OllamaChat("m", base_url="http://x.test", transport=Wire(body))
    with contextlib.suppress(ModelError):
        await Native(model).respond(REQUEST, watch)


def stream_secrets(text: str, *, whole: bool) -> None:
    """Redact deltas."""
    stream = _redactor.stream()
    for piece in (text,) if whole else pieces(text):
        stream.feed(piece)
    stream.flush()


def decode(decoder: Any, data: bytes) -> None:
    """Give the bytes to a decoder of a provider's stream, one by one."""
    try:
        for at in range(0, len(data), PIECE):
            decoder.feed(data[at : at + PIECE])
    except BadReply:
        pass


def utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def frames(text: str) -> bytes:
    """Encode an event stream: every letter is a frame, an `h` one with many headers."""
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
    """Draw a session with the text as reply, call and result: lines, a page, data."""
    message = Message("assistant", (Text(text), ToolCall("c", "add", {"a": text})))
    entries = [
        RunStarted("r", "agent", "script", "p", "m"),
        IterationStart(1),
        Replied(message, NO_USAGE, "tool_use", "p", "m", 0, "f"),
        ToolResulted("c", "add", "ok", ToolResult("c", text, False, "add"), 1.0),
    ]
    picture = picture_of("s", [Append(1.0, entries)])
    list(draw(picture, 100, full=True))
    page(picture)
    json_text(as_data(picture))
    for entry in entries:
        for step in steps(entry):
            one_line(step.text, 100)


def clean_text(text: str) -> None:
    """Clean a text for a terminal."""
    clean(text)
    clean_piece(text)
    one_line(text)
    fit(text, 80)
    json_text({"a": text.encode(errors="replace").decode()})


def match_globs(text: str) -> None:
    """Match names and paths, which are no longer than those that files can have."""
    like("*a*b*ab?c", text)
    path_like("**/a/**/b*/**/c", text[:LONGEST])
    Glob("**/a*/**/*b*c").matches(text)
    tidy(text)


def guard_call(text: str) -> None:
    """Look for secrets in a command and a path."""
    find_violation(CallFacts("t", {}, commands=(text,), paths=(text,)), "/nowhere", ())


def values_of(text: str) -> list[str]:
    """Split a long text into many short ones."""
    return [text[at : at + 5] for at in range(0, len(text), 5)]


async def permit_values(text: str) -> None:
    """Ask permissions and rules about a call with many values."""
    arguments = {"path": values_of(text[: len(text) // 20])}  # each is a path that is followed
    await PERMISSIONS.rule_on("t", arguments)


def check_values(text: str) -> None:
    """Validate many keys and many texts."""
    values = values_of(text)
    _strict.problems(dict.fromkeys(values, 1))
    _looking.problems({"a": values})


def mend_values(text: str) -> None:
    """Mend arguments."""
    values = values_of(text)
    mend({"n": text, "list": values[:1000], **dict.fromkeys(values, 1)}, _STRICT)


def search_tools(text: str) -> None:
    """Search for tools in a model's words, and with its pattern."""
    _index.bm25(text)
    _index.regex(text)


def compact(text: str) -> None:
    """Shorten a result, and weigh it."""
    _findings(text)
    shorten_text(text)
    weigh_text(text)


def match_arguments(text: str) -> None:
    """Ask permissions about a command, a path, an address and a text."""
    arguments = {"command": text, "path": text, "url": text, "text": text}
    call = CallValues(arguments, {}, frozenset(), "/nowhere")
    fits_arguments(("rm *", "/etc/**"), None, call, "deny")
    fits_arguments(("ls *", "src/**"), None, call, "allow")


def read_failure(text: str) -> None:
    """Build an error from a provider's answer."""
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
_STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "list": {"type": "array"}},
    "patternProperties": {"^(a|b)*c$": {}, r"(?=a*b)a*c": {}},
    "additionalProperties": False,
}
_strict = Checker(_STRICT, "t")
_LOOK = {"type": "array", "items": {"type": "string", "pattern": r"(?=a*b)a*c"}}
_looking = Checker({"type": "object", "properties": {"a": _LOOK}}, "t")
_index = Index([ADD, ToolSpec("read_file", "Read a file.", {"type": "object"})])
PERMISSIONS = Permissions(deny=entries_of("deny", {"*": ["/etc/**", "*.pem"]}))
FRAMES = ("e", "p", "h")

# Thinking in tags is part of the reading of written calls. Nothing here renders Markdown.
PARSERS = (
    Parser("json", lambda text: list(json_values(text)), JSON),
    Parser("raw arguments", unparsable, JSON),
    Parser("arguments", arguments, JSON),
    Parser("written calls", lambda text: read_reply(TextTools, text), CALLS, "in slices"),
    Parser(
        "written calls of native models", lambda text: read_reply(Native, text), CALLS, "in slices"
    ),
    Parser(
        "intended calls", lambda text: find_intended_in_slices(text, ("add",)), CALLS, "in slices"
    ),
    Parser("streamed calls", stream_calls, CALLS, "in pieces"),
    Parser("streamed reply", lambda text: read_stream(as_deltas(text)), CALLS, "in slices"),
    Parser(
        "streamed events", lambda text: read_stream(b": a\n\n" + utf8(text)), EVENTS, "in slices"
    ),
    Parser(
        "streamed lines",
        lambda text: read_lines(as_ndjson(text)),
        ("a", "b"),
        "in slices",
        copies=3,
    ),
    Parser("done blocks", lambda text: says_done(text, "##DONE##", "text"), DONE),
    Parser("visible text", lambda text: visible(text, "##DONE##"), DONE),
    Parser("redacted text", _redactor.text, REDACTED),
    Parser("redacted data", lambda text: _redactor.value({"a": [text]}), REDACTED),
    Parser("redacted bytes", lambda text: _redactor.bytes(utf8(text)), REDACTED),
    Parser("redacted stream", lambda text: stream_secrets(text, whole=True), REDACTED),
    Parser(
        "redacted pieces", lambda text: stream_secrets(text, whole=False), REDACTED, "in pieces"
    ),
    Parser("passwords in urls", mask_url, URLS),
    Parser("secrets by name", lambda text: secrets_in(text, text), URLS, copies=2),
    Parser("globs", match_globs, GLOBS, copies=4),
    Parser("guards", guard_call, SECRET_PLACES, copies=2),
    Parser("permissions", match_arguments, SHELL, copies=4),
    Parser("permissions of many values", permit_values, SHELL, "in slices"),
    Parser("schema patterns", check_patterns, SCHEMA_TEXTS, copies=10),
    Parser("schemas of many values", check_values, SCHEMA_TEXTS, copies=2),
    Parser("mended arguments", mend_values, SCHEMA_TEXTS, copies=2),
    Parser("tool search", search_tools, WORDS),
    Parser("sse in pieces", lambda text: decode(SSEDecoder(), utf8(text)), EVENTS, "in pieces"),
    Parser("ndjson in pieces", lambda text: decode(LineDecoder(), utf8(text)), LINES, "in pieces"),
    Parser(
        "event stream in pieces",
        lambda text: decode(EventStreamDecoder(), frames(text[::32])),
        FRAMES,
        "in pieces",
    ),
    Parser("failures", read_failure, ERRORS, copies=3),
    Parser("fences", lambda text: strip_echo(text, "", None), FENCES),
    Parser(
        "diff",
        lambda text: Difference("here", text, text[: len(text) // 2] + "\nx\n" + text[::-1]).diff,
        WORDS,
        copies=2,
    ),
    Parser(
        "tool results",
        lambda text: cap_result(to_text([text, {text: text}]), 1000, "c"),
        WORDS,
        copies=3,
    ),
    Parser("compaction", compact, WORDS, copies=3),
    Parser("scratchpad", plainly, TAGS),
    Parser("excerpts", excerpt, TAGS),
    Parser("words of the user", lambda text: UserWords([text]).names, WORDS),
    Parser("dates of the user", lambda text: UserWords([text]).dates, DATES, copies=2),
    Parser(
        "dates and numbers of the user", lambda text: UserWords([text]).numbers, DATES, copies=2
    ),
    Parser("a value in the words of the user", lambda text: UserWords([text]).says(text), WORDS),
    Parser("addresses, links and codes", lambda text: find_items(text[:16_000]), ITEMS),
    Parser("records of a result", split_records, WORDS),
    Parser("terminal", clean_text, TERMINAL, "for people"),
    Parser("trace", draw_trace, MARKUP, "for people"),
)

"""Faults between a provider and its client, as values that a fake server acts out.

`FAULTS` names one of each kind; a test walks it. A fault of your own is the same structs with other
numbers: `Status(429, retry_after=2.5, dialect="ms")`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Literal, TypeAlias, Union

import msgspec

from windlass import seams
from windlass.testing.providers import (
    anthropic_twists,
    bedrock_twists,
    gemini_twists,
    ollama_twists,
    openai_twists,
    responses_twists,
)
from windlass.testing.providers.reply import Asked

WireName: TypeAlias = Literal[
    "anthropic", "openai", "responses", "ollama", "gemini", "vertex", "bedrock"
]
Dialect: TypeAlias = Literal[
    "seconds",  # retry-after: 2
    "ms",  # retry-after-ms: 2000
    "date",  # retry-after: Wed, 21 Oct 2026 07:28:00 GMT
    "reset",  # the time of the next request in the provider's own rate limit header
    "retry_info",  # Google's error detail in the body, as their OpenAI-compatible API sends it
]


HTML = b"<!doctype html><html><head><title>502 Bad Gateway</title></head><body>cloudflare</body></html>"


class Status(msgspec.Struct, frozen=True):
    """A fault: an HTTP error, in the provider's format or with a gateway's own text."""

    status: int
    code: str | None = None
    message: str | None = None
    retry_after: float | None = None
    dialect: Dialect = "seconds"
    body: bytes | None = None


class Hangup(msgspec.Struct, frozen=True):
    """A fault: a connection that is closed before, in or after the answer."""

    when: Literal["before_headers", "after_headers", "mid_body", "after_reply"]


class Silence(msgspec.Struct, frozen=True):
    """A fault: silence on an open connection; with `pings` only keep-alives arrive.

    After `ends` pings the right answer comes; 0: never.
    """

    when: Literal["before_headers", "after_headers", "mid_body"]
    pings: bool = False
    every: float = 0.005  # seconds between two pings
    ends: int = 0


class Body(msgspec.Struct, frozen=True):
    """A 200 with another body than asked for; `gzip` is the right one, compressed."""

    kind: Literal[
        "html",
        "empty",
        "null",
        "cut_json",
        "bad_utf8",
        "ignores_stream",
        "gzip",
        "cut_gzip",
        "not_gzip",
    ]


class Pieces(msgspec.Struct, frozen=True):
    """The right bytes in awkward pieces: `size` bytes each, or cut inside wide characters."""

    size: int = 1
    inside_characters: bool = False
    pause: float = 0.0


class Headers(msgspec.Struct, frozen=True):
    """The right answer under other headers."""

    headers: dict[str, str]


class Twist(msgspec.Struct, frozen=True):
    """The right answer in an unusual form seen at some server; see `*_twists.py`."""

    how: str


Fault: TypeAlias = Union[Status, Hangup, Silence, Body, Pieces, Headers, Twist]
Faults: TypeAlias = Fault | Sequence[Fault | None] | Callable[[int, Asked], Fault | None] | None

FAULTS: dict[str, Fault] = {
    "429": Status(429),
    "429_seconds": Status(429, retry_after=2.0),
    "429_ms": Status(429, retry_after=1.5, dialect="ms"),
    "429_date": Status(429, retry_after=30.0, dialect="date"),
    "429_reset": Status(429, retry_after=20.0, dialect="reset"),
    "429_retry_info": Status(429, retry_after=34.0, dialect="retry_info"),
    "429_no_quota": Status(429, code="insufficient_quota", message="You exceeded your quota."),
    "400": Status(400, message="messages: that is not how it goes"),
    "400_too_long": Status(400, code="context_length_exceeded"),
    "401": Status(401),
    "403": Status(403),
    "404": Status(404),
    "413": Status(413),
    "500": Status(500),
    "502_html": Status(502, body=HTML),
    "500_bad_utf8": Status(500, body=b'{"error": {"message": "\xff\xfe\xc3"}}'),
    "503": Status(503, retry_after=1.0),
    "504": Status(504),
    "529": Status(529),
    "drop": Hangup("before_headers"),
    "drop_after_headers": Hangup("after_headers"),
    "truncated": Hangup("mid_body"),
    "drop_after_reply": Hangup("after_reply"),
    "stall_before_headers": Silence("before_headers"),
    "stall_after_headers": Silence("after_headers"),
    "stall_mid_body": Silence("mid_body"),
    "ping_only": Silence("after_headers", pings=True),
    "ping_only_mid_body": Silence("mid_body", pings=True),
    "pings_then_answer": Silence("after_headers", pings=True, every=0.001, ends=3),
    "slow_loris": Pieces(1, pause=0.02),
    "html_200": Body("html"),
    "empty_200": Body("empty"),
    "null_200": Body("null"),
    "cut_json": Body("cut_json"),
    "bad_utf8": Body("bad_utf8"),
    "ignores_stream": Body("ignores_stream"),
    "gzip": Body("gzip"),
    "cut_gzip": Body("cut_gzip"),
    "not_gzip": Body("not_gzip"),
    "one_byte_chunks": Pieces(1),
    "split_characters": Pieces(inside_characters=True),
    "wrong_content_type": Headers({"content-type": "text/plain"}),
    "binary_content_type": Headers({"content-type": "application/octet-stream"}),
    "retry_after_on_200": Headers({"retry-after": "61"}),
    "same_ids": Twist("same_ids"),
    "reused_ids": Twist("reused_ids"),
    "no_ids": Twist("no_ids"),
    "no_usage": Twist("no_usage"),
    "unknown_things": Twist("unknown_things"),
    "error_after_200": Twist("error_after_200"),
    "error_event": Twist("error_event"),
    "no_end": Twist("no_end"),
    "no_last_event": Twist("no_last_event"),
    "no_finish": Twist("no_finish"),
    "finish_lies": Twist("finish_lies"),
    "finish_empty": Twist("finish_empty"),
    "index_zero": Twist("index_zero"),
    "no_index": Twist("no_index"),
    "index_gaps": Twist("index_gaps"),
    "whole_calls": Twist("whole_calls"),
    "no_arguments": Twist("no_arguments"),
    "null_arguments": Twist("null_arguments"),
    "double_encoded": Twist("double_encoded"),
    "object_arguments": Twist("object_arguments"),
    "call_cut_short": Twist("call_cut_short"),
    "crlf": Twist("crlf"),
    "byte_order_mark": Twist("byte_order_mark"),
}
"""Every kind of fault by name; `applies(name, wire, stream)` says where a kind makes sense."""


_TWISTS = {
    "anthropic": anthropic_twists,
    "openai": openai_twists,
    "responses": responses_twists,
    "ollama": ollama_twists,
    "gemini": gemini_twists,
    "vertex": gemini_twists,
    "bedrock": bedrock_twists,
}


def applies(name: str, wire: WireName, *, stream: bool) -> bool:
    """Check whether the fault makes sense there: only OpenAI's streams have an index."""
    match FAULTS[name]:
        case Twist(how):
            twists = _TWISTS[wire]
            return how in (twists.REFRAMES if stream else twists.REWRITES)
        case Status(dialect="retry_info"):
            return wire in ("openai", "gemini", "vertex")
        case Status(code="insufficient_quota"):
            return wire in ("openai", "responses")
        case Status(dialect="reset"):
            # self-hosted servers count no requests, Google puts it in the body, Amazon nowhere
            return wire not in ("ollama", "gemini", "vertex", "bedrock")
        case Body("bad_utf8"):
            return wire != "bedrock"  # its frames are summed up, and its replies name no model
        case Body("ignores_stream"):
            return stream
        case _:
            return True


def choose(faults: Faults, index: int, asked: Asked) -> Fault | None:
    """Choose the fault for this request: a list goes by number, one fault is for all."""
    if faults is None or isinstance(
        faults, (Status, Hangup, Silence, Body, Pieces, Headers, Twist)
    ):
        return faults
    if callable(faults):
        return faults(index, asked)
    return faults[index] if index < len(faults) else None


def retry_headers(fault: Status, wire: WireName) -> dict[str, str]:
    """Build the retry headers in the fault's dialect."""
    seconds = fault.retry_after
    if seconds is None or fault.dialect == "retry_info":
        return {}
    if fault.dialect == "seconds":
        return {"retry-after": f"{seconds:g}"}
    if fault.dialect == "ms":
        return {"retry-after-ms": f"{seconds * 1000:g}"}
    then = datetime.fromtimestamp(seams.now() + seconds, UTC)
    if fault.dialect == "date":
        return {"retry-after": format_datetime(then, usegmt=True)}
    if wire == "anthropic":
        reset = {"limit": "50", "remaining": "0", "reset": then.strftime("%Y-%m-%dT%H:%M:%SZ")}
        return {f"anthropic-ratelimit-requests-{name}": value for name, value in reset.items()}
    minutes, rest = divmod(seconds, 60)
    reset = {"limit": "500", "remaining": "0", "reset": f"{minutes:g}m{rest:g}s"}
    return {f"x-ratelimit-{name}-requests": value for name, value in reset.items()}

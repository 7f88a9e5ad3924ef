"""What must come of each kind of fault, on every wire, streamed or plain.

`RIGHT` is the answer as scripted. `BARE` is the same with calls that lost their arguments, as the
server wrote them. Anything else is the class of the error. A dict says where they differ.
"""

from __future__ import annotations

from typing import Any, Final

from windlass.errors import (
    AuthFailed,
    BadReply,
    BadRequest,
    ConnectionFailed,
    ContextOverflow,
    ModelError,
    Overloaded,
    QuotaExceeded,
    RateLimited,
    ServerError,
    StreamBroken,
    Timeout,
)
from windlass.testing.providers import FAULTS

from .wires import WIRES, possible

RIGHT: Final = "right"
BARE: Final = "bare"
CUT: Final = "cut"  # the last call was cut by the limit: it must not look like one that may run

EXPECTED: dict[str, Any] = {
    "429": RateLimited,
    "429_seconds": RateLimited,
    "429_ms": RateLimited,
    "429_date": RateLimited,
    "429_reset": RateLimited,
    "429_retry_info": RateLimited,
    "429_no_quota": QuotaExceeded,
    "400": BadRequest,
    "400_too_long": ContextOverflow,
    "401": AuthFailed,
    "403": AuthFailed,
    "404": BadRequest,
    "413": BadRequest,
    "500": ServerError,
    "500_bad_utf8": ServerError,
    "502_html": ServerError,
    "503": Overloaded,
    "504": ServerError,
    "529": Overloaded,
    "drop": ConnectionFailed,
    "drop_after_headers": StreamBroken,
    "truncated": StreamBroken,
    "drop_after_reply": RIGHT,
    "stall_before_headers": Timeout,
    "stall_after_headers": Timeout,
    "stall_mid_body": Timeout,
    "ping_only": Timeout,
    "ping_only_mid_body": Timeout,
    "pings_then_answer": RIGHT,
    "slow_loris": Timeout,
    "html_200": BadReply,
    "empty_200": BadReply,
    "null_200": BadReply,
    "cut_json": BadReply,
    "bad_utf8": RIGHT,  # the bad byte stands in the model's name
    "ignores_stream": RIGHT,
    "gzip": RIGHT,
    "cut_gzip": StreamBroken,
    "not_gzip": BadReply,
    "one_byte_chunks": RIGHT,
    "split_characters": RIGHT,
    "wrong_content_type": RIGHT,
    "binary_content_type": RIGHT,
    "retry_after_on_200": RIGHT,
    "same_ids": RIGHT,
    "reused_ids": RIGHT,
    "no_ids": RIGHT,
    "no_usage": RIGHT,
    "unknown_things": RIGHT,
    "error_after_200": {"anthropic": Overloaded, "else": ServerError},
    "error_event": BadReply,
    "no_end": StreamBroken,
    "no_last_event": {"openai": RIGHT, "else": StreamBroken},
    "no_finish": RIGHT,
    "finish_lies": RIGHT,
    "finish_empty": RIGHT,
    "index_zero": RIGHT,
    "no_index": RIGHT,
    "index_gaps": RIGHT,
    "whole_calls": RIGHT,
    "no_arguments": BARE,
    "null_arguments": BARE,
    "double_encoded": RIGHT,
    "object_arguments": RIGHT,
    "call_cut_short": CUT,
    "crlf": RIGHT,
    "byte_order_mark": RIGHT,
}

RETRY_AFTER = {
    "429_seconds": 2.0,
    "429_ms": 1.5,
    "429_date": 30.0,
    "429_reset": 20.0,
    "429_retry_info": 34.0,
    "503": 1.0,
}


def expected(name: str, wire: str, stream: bool) -> Any:
    """Return the expected outcome of the fault there."""
    outcome = EXPECTED[name]
    if not isinstance(outcome, dict):
        return outcome
    kin = "openai" if wire in ("azure", "mistral") else wire
    return outcome[kin] if kin in outcome else outcome["else"]


def is_error(outcome: object) -> bool:
    """Check whether the outcome is an error class."""
    return isinstance(outcome, type) and issubclass(outcome, ModelError)


def is_final(outcome: object) -> bool:
    """Check whether a retry cannot help; written out, to test the errors themselves."""
    return outcome in (AuthFailed, BadRequest, ContextOverflow, QuotaExceeded)


def hangs(name: str) -> bool:
    """Check whether only a timeout ends it."""
    return EXPECTED[name] is Timeout


CASES = [
    (name, wire, stream)
    for name in FAULTS
    for wire in WIRES
    for stream in (True, False)
    if possible(name, wire, stream=stream)
]

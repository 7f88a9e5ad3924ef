"""Refusals for a client: a code, a fixed sentence, and an id to ask the host about.

The message of an error (paths, addresses, names of databases, text of a provider) goes to the log `windlass.server`
under the same id.
"""

from __future__ import annotations

import logging
import re
from typing import Final

import msgspec

from windlass import seams
from windlass.errors import (
    Aborted,
    AlreadyAnswered,
    BudgetExceeded,
    ConfigError,
    Conflict,
    GuardrailTripped,
    InvalidAnswer,
    InvalidValue,
    ModelError,
    NoSuchSession,
    NotFound,
    PermissionDenied,
    SessionHeld,
    StaleWriter,
    Suspended,
    ToolFailed,
    WindlassError,
    error_text,
)
from windlass.json_types import JsonObject

log = logging.getLogger("windlass.server")

#: By kind of error: the status, the code, and all that a client reads of it.
_TOLD: Final[dict[type[BaseException], tuple[int, str, str]]] = {
    AlreadyAnswered: (409, "already_answered", "the question has its answer"),
    BudgetExceeded: (402, "budget_exceeded", "a limit is reached"),
    PermissionDenied: (403, "permission_denied", "the caller may not do this"),
    GuardrailTripped: (403, "blocked", "a guardrail stopped the run"),
    NotFound: (404, "not_found", "there is nothing of this name here"),
    NoSuchSession: (404, "not_found", "there is nothing of this name here"),
    Conflict: (409, "conflict", "somebody else was faster: ask again"),
    SessionHeld: (409, "session_held", "another run is under way on the session"),
    StaleWriter: (409, "taken_over", "another run has taken the session over"),
    Suspended: (409, "suspended", "the run waits for somebody"),
    Aborted: (499, "aborted", "the run was stopped"),
    ToolFailed: (502, "tool_failed", "a tool failed"),
    ModelError: (502, "model_error", "the model did not answer"),
    InvalidValue: (400, "invalid_request", "the request holds a value that is not allowed"),
    ConfigError: (400, "invalid_request", "the request does not fit what is set up here"),
}
_OTHER: Final = (500, "failed", "the request could not be answered")
_LIMIT: Final = re.compile(
    r"max_(tool_iterations|tokens|cost_usd|output_tokens)(=[\d.e+-]+)? is reached"
)


class RequestRefused(Exception):
    """A request that is refused: `RequestRefused(400, "invalid_request", "input is missing")`.

    Its text is written for the client and holds nothing but what the client sent.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def refuse(message: str) -> RequestRefused:
    """Build the refusal of a request that is wrong in itself."""
    return RequestRefused(400, "invalid_request", message)


def describe_failure(error: BaseException, *, with_trace: bool = False) -> tuple[int, JsonObject]:
    """Return the status and body for an error, and log the error under the body's id."""
    number = seams.new_id("error")
    if isinstance(error, RequestRefused):
        log.info("request %s was refused: %s", number, error)
        return error.status, {"error": error.code, "message": str(error), "id": number}
    status, code, message = next(
        (answer for kind, answer in _TOLD.items() if isinstance(error, kind)), _OTHER
    )
    if not isinstance(error, WindlassError):
        log.error("request %s failed", number, exc_info=error)
        return status, {"error": code, "message": message, "id": number}
    log.warning("request %s failed: %s: %s", number, type(error).__name__, error_text(error))
    if code == "budget_exceeded" and _LIMIT.fullmatch(str(error)):
        message = str(error)
    if isinstance(error, InvalidAnswer):
        message = error_text(error)  # of nothing but what the client was asked
    if isinstance(error, AlreadyAnswered):
        message = f"answered already, by {error.by}"
    body: JsonObject = {"error": code, "message": message, "id": number}
    if with_trace and error.trace is not None:
        body["trace"] = msgspec.to_builtins(error.trace)
    if error.session_id is not None:
        body["session_id"] = error.session_id
    if isinstance(error, Suspended):
        body["pending"] = msgspec.to_builtins(error.pending)
    return status, body

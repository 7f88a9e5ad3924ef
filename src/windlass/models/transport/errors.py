"""Typed errors from a provider's refusal: its status, headers and body.

The same table serves an HTTP error, an error inside a stream that began with 200, and the several
shapes in which OpenAI-like servers write them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from windlass import seams
from windlass.errors import (
    AuthFailed,
    BadReply,
    BadRequest,
    ContextOverflow,
    ModelError,
    Overloaded,
    QuotaExceeded,
    RateLimited,
    Refused,
    ServerError,
)
from windlass.json_types import JsonObject, is_list, is_object

_QUOTA: Final = (
    "insufficient_quota",
    "billing",
    "credit balance",
    "payment required",
    "out of credit",
)
_OVERFLOW: Final = (
    "context_length_exceeded",
    "model_context_window_exceeded",
    "prompt is too long",
    "maximum context length",
    "context window",
    "context size",
    "exceeds the context length",
    "longer than the context length",
    "context limit",
    "exceed_context_size",
    "input is too long",
    "input tokens exceeded",
    "too many input tokens",
    "exceeds the maximum number of tokens",
)
_BAD_KEY: Final = ("api key not valid", "api key expired", "api_key_invalid")  # Google's 400
_REFUSED: Final = ("content_filter", "content_policy_violation", "responsibleaipolicy")
_KINDS: Final[dict[str, type[ModelError]]] = {
    "authentication_error": AuthFailed,
    "permission_error": AuthFailed,
    "invalid_api_key": AuthFailed,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "overloaded_error": Overloaded,
    "overloaded": Overloaded,
    "invalid_request_error": BadRequest,
    "not_found_error": BadRequest,
    "request_too_large": BadRequest,
    "invalid_prompt": BadRequest,
    "invalid_image": BadRequest,
    "invalid_image_format": BadRequest,
    "invalid_base64_image": BadRequest,
    "invalid_image_url": BadRequest,
    "image_too_large": BadRequest,
    "image_too_small": BadRequest,
    "image_parse_error": BadRequest,
    "unsupported_image_media_type": BadRequest,
    "empty_image_file": BadRequest,
    "failed_to_download_image": BadRequest,
    # Amazon's, in any case
    "accessdeniedexception": AuthFailed,
    "expiredtokenexception": AuthFailed,
    "unrecognizedclientexception": AuthFailed,
    "throttlingexception": RateLimited,
    "toomanyrequestsexception": RateLimited,
    "servicequotaexceededexception": QuotaExceeded,
    "modelnotreadyexception": Overloaded,
    "serviceunavailableexception": Overloaded,
    "modelerrorexception": ServerError,
    "modelstreamerrorexception": ServerError,
    "modeltimeoutexception": ServerError,
    "internalserverexception": ServerError,
    "validationexception": BadRequest,
    "resourcenotfoundexception": BadRequest,
}
# what looks like a key, also with its middle already starred out
_KEY: Final = re.compile(
    r"\b(?:(?:sk|gsk|hf|xai|fw|rk|pk|tgp)[-_][\w*.-]{6,}|AIza[\w-]{20,}|ya29\.[\w.-]{20,})"
)
_DURATION: Final = re.compile(r"(?:(\d+(?:\.\d+)?)(ms|s|m|h|d))")
_LONGEST_DURATION: Final = 100  # characters
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SHOWN: Final = 2000  # characters of a body that an error keeps


class Source(msgspec.Struct, frozen=True):
    """The provider and model that were called, and the secrets to remove from messages."""

    provider: str
    model: str
    key_hint: str = "pass api_key="
    secrets: Sequence[str] = ()

    def clean(self, text: str) -> str:
        """Remove keys from a text."""
        for secret in self.secrets:
            if len(secret) >= 6:  # a shorter one occurs in ordinary text
                text = text.replace(secret, "[key]")
        return _KEY.sub("[key]", text)


def from_http(status: int, headers: Mapping[str, str], body: bytes, source: Source) -> ModelError:
    """Build the error of an HTTP reply other than 2xx."""
    text = body.decode("utf-8", "replace")
    try:
        parsed = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        parsed = None
    fields = error_fields(parsed)
    if not fields:
        shown = " ".join(re.sub(r"<[^>]*>", " ", text[:_SHOWN]).split())[:200]
        fields = {"message": shown or "no explanation"}
    if amazon := headers.get("x-amzn-errortype") or _text(fields.get("__type") or ""):
        # ValidationException:http://…, or com.amazon.…#ValidationException
        fields = {**fields, "code": amazon.partition(":")[0].rpartition("#")[2]}
    if 300 <= status < 400:
        where = headers.get("location", "elsewhere")
        fields = {"message": f"the server redirects to {where}; set base_url to that address"}
    return _build_error(fields, status, headers, text, source)


def from_stream(error: object, source: Source, request_id: str | None = None) -> ModelError:
    """Build the error of an `error` object inside a 200 reply."""
    fields = error_fields({"error": error}) or {"message": "the stream reports an error"}
    status = fields.get("status_code", fields.get("code"))
    if not isinstance(status, int) or not 400 <= status < 600:
        status = None
    failure = _build_error(fields, status, {}, "", source)
    failure.request_id = failure.request_id or request_id
    return failure


def error_fields(parsed: object) -> JsonObject:
    """Return the fields of an error in any shape that servers use; empty if none."""
    if is_list(parsed) and parsed:
        parsed = parsed[0]
    if not is_object(parsed):
        return {}
    body = parsed
    error: object = body.get("error")
    if is_object(error):
        fields = dict(error)
        fields.setdefault("request_id", body.get("request_id"))
        return fields
    if isinstance(error, str) and error:
        return {"message": error}
    for key in ("message", "detail", "error_message"):
        if message := body.get(key):
            return {**body, "message": message if isinstance(message, str) else _text(message)}
    return {}


def _build_error(
    fields: JsonObject,
    status: int | None,
    headers: Mapping[str, str],
    body: str,
    source: Source,
) -> ModelError:
    code = _text(fields.get("code") or fields.get("type") or "")
    if isinstance(fields.get("code"), int) and isinstance(named := fields.get("status"), str):
        code = named  # Google: the number is the HTTP status, the word is the code
    message = _message(fields)
    kind = _kind(status, code, _text(fields.get("type") or ""), message)
    if kind is QuotaExceeded and status == 429 and _delay(fields) is not None:
        kind = RateLimited  # Google mentions billing at every limit, but gives a retry delay
    if kind is AuthFailed:
        message = f"{message}; {source.key_hint}"
    failed = fields.get("failed_generation")
    if code == "tool_use_failed" and failed:
        message = f"{message}; the model had written: {_text(failed)}"
    error = kind(
        source.clean(message),
        provider=source.provider,
        model=source.model,
        http_status=status,
        retry_after=_wait(headers, fields) if status == 429 or (status or 0) >= 500 else None,
        request_id=headers.get("request-id")
        or headers.get("x-request-id")
        or headers.get("x-amzn-requestid")
        or fields.get("request_id"),
        code=code or None,
        body=source.clean(body[:_SHOWN]) or None,
    )
    should_retry = headers.get("x-should-retry")
    if should_retry in ("true", "false"):
        # the provider knows better than the class of error; `transient` is then this error's own
        vars(error)["transient"] = should_retry == "true"
    return error


def _message(fields: JsonObject) -> str:
    message = _text(fields.get("message") or fields.get("type") or "no explanation")
    metadata = fields.get("metadata")
    if is_object(metadata) and (raw := metadata.get("raw")):
        message = f"{message}: {_text(raw)}"  # OpenRouter: the message of the provider behind it
    return message


def _kind(status: int | None, code: str, kind: str, message: str) -> type[ModelError]:
    text = f"{code} {kind} {message}".lower()
    if code == "tool_use_failed":
        return BadReply
    if status == 400 and any(word in text for word in _BAD_KEY):
        return AuthFailed
    if status == 402 or any(word in text for word in _QUOTA):
        return QuotaExceeded
    if status not in (401, 403, 429) and any(word in text for word in _OVERFLOW):
        return ContextOverflow
    if status is None or status < 500:
        if any(word in text for word in _REFUSED):
            return Refused
        named = _KINDS.get(code.lower()) or _KINDS.get(kind.lower())
        if named is not None and (status is None or named is not BadRequest):
            return named
    if status in (401, 403):
        return AuthFailed
    if status == 429:
        return RateLimited
    if status in (503, 529) or "overloaded" in text:
        return Overloaded
    if status is None or status in (408, 409) or status >= 500:
        return ServerError
    return BadRequest


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return repr(value)


# --------------------------------------------------------------------------- when to come back


def _wait(headers: Mapping[str, str], fields: JsonObject) -> float | None:
    if (wait := retry_after(headers)) is not None:
        return wait
    return _delay(fields)


def _delay(fields: JsonObject) -> float | None:
    details = fields.get("details")  # Google puts it in the body: [{"retryDelay": "34s"}]
    for detail in details if is_list(details) else ():
        delay = detail.get("retryDelay") if is_object(detail) else 0
        if isinstance(delay, str):
            return seconds(delay)
    return None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, in whichever header the provider gives them, or None."""
    if (ms := headers.get("retry-after-ms")) and (value := _number(ms)) is not None:
        return value / 1000
    if given := headers.get("retry-after"):
        return seconds(given)
    waits = [
        wait
        for name, value in headers.items()
        if "ratelimit" in name
        and "reset" in name
        # a reset matters only where nothing is left until then
        and headers.get(name.replace("reset", "remaining"), "") == "0"
        and (wait := seconds(value)) is not None
    ]
    return max(waits, default=None)


def seconds(said: str) -> float | None:
    """Parse a duration, HTTP date or RFC 3339 time as seconds from now.

    Durations look like `"2"`, `"1.5"`, `"6m0s"` or `"2ms"`.
    """
    said = said.strip()
    if (value := _number(said)) is not None:
        return value
    if 0 < len(said) <= _LONGEST_DURATION and _DURATION.sub("", said) == "":
        return sum(float(n) * _SECONDS[unit] for n, unit in _DURATION.findall(said))
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            when = parse(said)
            if when.tzinfo is None:
                when = when.replace(tzinfo=UTC)
            return max(0.0, when.timestamp() - seams.now())
        except (ValueError, TypeError, OverflowError):
            continue
    return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None

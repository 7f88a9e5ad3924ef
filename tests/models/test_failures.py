"""Which error an answer stands for, what it says, and when to come back."""

from __future__ import annotations

import json
from email.utils import formatdate
from typing import Any

import pytest

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
from windlass.models.transport.errors import (
    Source,
    from_http,
    retry_after,
    seconds,
)

SOURCE = Source("prov", "mod", "set PROV_API_KEY or pass api_key=", ("sk-canary-key-1",))


def failure(status: int, body: Any = None, **headers: str) -> ModelError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return from_http(status, {k.replace("_", "-"): v for k, v in headers.items()}, raw, SOURCE)


def openai(message: str, code: str | None = None, type: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_9"}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, anthropic("invalid_request_error", "prompt is too long: 300 > 200"), ContextOverflow),
        (400, openai("too long", "context_length_exceeded"), ContextOverflow),
        (
            400,
            {"error": {"code": 400, "message": "the request exceeds the available context size"}},
            ContextOverflow,
        ),
        (400, anthropic("invalid_request_error", "Your credit balance is too low"), QuotaExceeded),
        (400, openai("bad", "invalid_image_url", "invalid_request_error"), BadRequest),
        (400, openai("filtered", "content_filter"), Refused),
        (400, openai("oops", "tool_use_failed", "invalid_request_error"), BadReply),
        (401, anthropic("authentication_error", "invalid x-api-key"), AuthFailed),
        (401, b"", AuthFailed),
        (402, openai("pay"), QuotaExceeded),
        (403, anthropic("permission_error", "no"), AuthFailed),
        (404, anthropic("not_found_error", "model: x"), BadRequest),
        (408, b"", ServerError),
        (409, b"", ServerError),
        (413, anthropic("request_too_large", "big"), BadRequest),
        (422, {"detail": [{"loc": ["body"], "msg": "bad"}]}, BadRequest),
        (429, openai("slow", "rate_limit_exceeded"), RateLimited),
        (429, openai("none left", "insufficient_quota"), QuotaExceeded),
        (429, openai("tokens per context window", "rate_limit_exceeded"), RateLimited),
        (500, anthropic("api_error", "boom"), ServerError),
        (502, b"<html><h1>Bad gateway</h1></html>", ServerError),
        (503, {"error": "busy"}, Overloaded),
        (504, b"", ServerError),
        (529, anthropic("overloaded_error", "Overloaded"), Overloaded),
        (302, b"", BadRequest),
        (418, b"[]", BadRequest),
        (400, b"[" * 100_000, BadRequest),
    ],
)
def test_kinds(status: int, body: Any, kind: type[ModelError]) -> None:
    error = failure(status, body)
    assert type(error) is kind
    assert (error.http_status, error.provider, error.model) == (status, "prov", "mod")


def test_words() -> None:
    assert str(failure(503, {"error": "busy"})) == "busy"
    assert str(failure(400, [{"error": {"message": "listed"}}])) == "listed"
    assert str(failure(400, {"message": "flat", "code": 400})) == "flat"
    assert "Bad gateway" in str(failure(502, b"<html><h1>Bad gateway</h1></html>"))
    assert "PROV_API_KEY" in str(failure(401, openai("wrong key")))
    assert "https://elsewhere" in str(failure(301, b"", location="https://elsewhere"))
    failed = openai("bad call", "tool_use_failed")
    failed["error"]["failed_generation"] = "<function=x>"
    assert "<function=x>" in str(failure(400, failed))
    routed = {
        "error": {"message": "Provider returned error", "metadata": {"raw": "upstream is full"}}
    }
    assert str(failure(429, routed)) == "Provider returned error: upstream is full"


def test_what_is_kept() -> None:
    error = failure(529, anthropic("overloaded_error", "x"), request_id="req_1")
    assert (error.request_id, error.code) == ("req_1", "overloaded_error")
    assert failure(400, anthropic("invalid_request_error", "x")).request_id == "req_9"
    assert failure(400, openai("x"), x_request_id="r2").request_id == "r2"


def test_no_key_is_repeated() -> None:
    error = failure(
        401, openai("Incorrect API key provided: sk-proj-ab********yz; had sk-canary-key-1")
    )
    assert "canary" not in str(error) and "sk-proj" not in str(error)
    assert error.body is not None and "canary" not in error.body


@pytest.fixture
def at_a_fixed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seams, "now", lambda: 1_700_000_000.0)


@pytest.mark.usefixtures("at_a_fixed_time")
@pytest.mark.parametrize(
    ("said", "wait"),
    [
        ("2", 2.0),
        ("1.5", 1.5),
        ("6m0s", 360.0),
        ("2ms", 0.002),
        ("1h2m3.5s", 3723.5),
        (formatdate(1_700_000_030, usegmt=True), 30.0),
        (formatdate(1_600_000_000, usegmt=True), 0.0),
        ("2023-11-14T22:14:20Z", 60.0),
        ("soon", None),
        ("", None),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("6m and a bit", None),
    ],
)
def test_dialects_of_waiting(said: str, wait: float | None) -> None:
    assert seconds(said) == (None if wait is None else pytest.approx(wait))


@pytest.mark.usefixtures("at_a_fixed_time")
def test_which_header_counts() -> None:
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert retry_after({"retry-after": "9", "x-ratelimit-reset-tokens": "1s"}) == 9
    limits = {"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-reset-requests": "2ms"}
    assert retry_after(limits) is None  # nothing is used up
    assert retry_after({**limits, "x-ratelimit-remaining-requests": "0"}) == 0.002
    reset = {"anthropic-ratelimit-tokens-reset": "2023-11-14T22:14:20Z"}
    assert retry_after({**reset, "anthropic-ratelimit-tokens-remaining": "0"}) == 60
    assert retry_after({}) is None


def test_waiting_is_for_429_and_5xx_only() -> None:
    assert failure(429, openai("x"), retry_after="3").retry_after == 3
    assert failure(529, openai("x"), retry_after="3").retry_after == 3
    assert failure(400, openai("x"), retry_after="3").retry_after is None


def test_a_provider_that_knows_better() -> None:
    told = {"x-should-retry": "false"}
    error = from_http(500, told, b"", SOURCE)
    assert type(error) is ServerError and not error.transient and ServerError.transient
    assert from_http(400, {"x-should-retry": "true"}, b"", SOURCE).transient

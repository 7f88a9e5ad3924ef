"""Limits over HTTP: a client lowers what the host allows, and raises nothing."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import windlass as w
from tests.server.asgi import app_of, post
from windlass.generate.api import GenerateResult, Models
from windlass.generate.options import TOOL_ITERATIONS
from windlass.server.limits import LIMITS, lower_limits
from windlass.server.refusal import RequestRefused
from windlass.testing import call, scripted
from windlass.usage import Usage

HOST: dict[str, Any] = {
    "max_tool_iterations": 4,
    "max_tokens": 5_000,
    "max_output_tokens": 300,
    "max_cost_usd": 0.5,
}
LOWER: dict[str, Any] = {
    "max_tool_iterations": 2,
    "max_tokens": 100,
    "max_output_tokens": 10,
    "max_cost_usd": 0.25,
}
HIGHER: dict[str, Any] = {
    "max_tool_iterations": 100_000,
    "max_tokens": 10**9,
    "max_output_tokens": 10**9,
    "max_cost_usd": 1e9,
}
WRONG = [
    -1,
    -0.5,
    True,
    False,
    "5",
    "",
    [],
    [5],
    {},
    {"max": 5},
    float("nan"),
    float("inf"),
    -float("inf"),
]


@w.tool(side_effect_level="none")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def asked_with(host: dict[str, Any], client: dict[str, Any], monkeypatch: Any) -> Any:
    """The options that `generate` gets for a client's request, and the status."""
    seen: list[Any] = []

    async def record(self: Any, input: Any, **options: Any) -> GenerateResult:
        seen.append(options)
        return GenerateResult("hi", "stop", Usage())

    monkeypatch.setattr(Models, "generate", record)
    async with w.Runtime(store="memory:", tools=[add], environ={}) as scope:
        app = app_of(scope, scripted("hi"), **host)
        reply = await post(app, {"input": "go", "stream": False, **client})
    return reply.status, seen[0] if seen else None


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("set_by_host", [True, False])
async def test_a_client_lowers_a_limit(name: str, set_by_host: bool, monkeypatch: Any):
    host = {name: HOST[name]} if set_by_host else {}
    status, options = await asked_with(host, {name: LOWER[name]}, monkeypatch)
    assert status == 200 and options[name] == LOWER[name]


@pytest.mark.parametrize("name", LIMITS)
async def test_a_client_raises_no_limit(name: str, monkeypatch: Any):
    status, options = await asked_with({name: HOST[name]}, {name: HIGHER[name]}, monkeypatch)
    assert status == 200 and options[name] == HOST[name]


async def test_a_limit_that_the_host_left_to_its_default_is_not_raised(monkeypatch: Any):
    status, options = await asked_with({}, HIGHER, monkeypatch)
    assert status == 200 and options["max_tool_iterations"] == TOOL_ITERATIONS


@pytest.mark.parametrize(("name", "how"), list(itertools.product(LIMITS, ["null", "absent"])))
@pytest.mark.parametrize("set_by_host", [True, False])
async def test_nothing_said_lifts_no_limit(
    name: str, how: str, set_by_host: bool, monkeypatch: Any
):
    host = {name: HOST[name]} if set_by_host else {}
    said = {name: None} if how == "null" else {}
    status, options = await asked_with(host, said, monkeypatch)
    assert status == 200 and options.get(name) == host.get(name)


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize("set_by_host", [True, False])
async def test_a_limit_is_a_number(name: str, value: Any, set_by_host: bool):
    host = {name: HOST[name]} if set_by_host else {}
    with pytest.raises(RequestRefused) as refused:
        lower_limits(host, {name: value})
    assert refused.value.status == 400 and name in str(refused.value)
    assert lower_limits(host, {name: LOWER[name]}) == {name: LOWER[name]}  # the control


@pytest.mark.parametrize(
    "raw", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"true", b'"9"', b"-3", b"[9]"]
)
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("stream", [b"true", b"false"])
async def test_a_wrong_limit_over_http(raw: bytes, name: str, stream: bytes):
    model = scripted("never", "never")
    async with w.Runtime(store="memory:", tools=[add], environ={}) as scope:
        body = b'{"input": "go", "stream": ' + stream + b', "' + name.encode() + b'": ' + raw + b"}"
        reply = await post(app_of(scope, model), None, raw=body)
    assert reply.status == 400 and reply.error["error"] == "invalid_request"
    assert not model.requests


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("client", "rounds"), [(100_000, 10), (None, 10), (3, 3), (0, 0)])
async def test_rounds_of_tools_are_the_hosts(stream: bool, client: Any, rounds: int):
    model = scripted(*[call("add", a=at, b=1) for at in range(40)])
    async with w.Runtime(store="memory:", tools=[add], environ={}) as scope:
        asked = {"input": "go", "stream": stream, "max_tool_iterations": client}
        reply = await post(app_of(scope, model), asked)
    assert reply.error["error"] == "budget_exceeded"
    assert reply.error["message"] == f"max_tool_iterations={rounds} is reached"
    assert len(model.requests) == rounds + 1


async def test_a_client_does_not_turn_running_of_tools_on():
    model = scripted(call("add", a=1, b=2), "never")
    async with w.Runtime(store="memory:", tools=[add], environ={}) as scope:
        app = app_of(scope, model, tool_mode="return", tools=["add"])
        reply = await post(app, {"input": "go", "stream": False, "tool_mode": "auto"})
        assert reply.body["finish_reason"] == "tool_calls" and len(model.requests) == 1
        app = app_of(scope, scripted(call("add", a=1, b=2)), tools=["add"])
        reply = await post(app, {"input": "go", "stream": False, "tool_mode": "return"})
        assert reply.body["finish_reason"] == "tool_calls"


async def test_size_and_number_of_what_is_sent():
    async with w.Runtime(store="memory:", environ={}) as scope:
        app = app_of(scope, scripted(*["ok"] * 9), max_body_bytes=2_000, max_messages=3)
        assert (await post(app, {"input": "x" * 1_500, "stream": False})).status == 200
        assert (await post(app, {"input": "x" * 2_500, "stream": False})).status == 413
        turns = [{"role": "user", "content": "x"}]
        assert (await post(app, {"input": turns * 3, "stream": False})).status == 200
        assert (await post(app, {"input": turns * 4, "stream": False})).status == 400

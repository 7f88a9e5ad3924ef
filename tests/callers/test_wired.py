"""Callers in front of servers that speak a provider's own language, with faults on the wire."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.wire_faults.wires import model_of
from windlass.callers import with_rate_limit
from windlass.events import Replied
from windlass.models.transport import base as transport_base
from windlass.testing.providers import (
    FakeAnthropic,
    FakeOpenAI,
    Headers,
    Status,
)

pytestmark = pytest.mark.usefixtures("reachable")


async def test_a_broken_provider_falls_back_to_one_of_another_wire():
    async with (
        FakeAnthropic("never", faults=Status(529), api_key="k") as sick,
        FakeOpenAI("from the other", api_key="k") as well,
    ):
        caller = w.compose(
            [
                w.with_fallback(model_of("openai", well)),
                w.with_retry(max_attempts=2, backoff="none"),
            ]
        )
        out = await w.agent_loop("go", model=model_of("anthropic", sick), llm_caller=caller)
        assert (out.status, out.final_text, len(sick.requests)) == ("done", "from the other", 2)
        reply = next(e for e in out.entries if isinstance(e, Replied))
        assert (reply.provider, reply.via) == ("openai", "fallback")


async def test_a_circuit_spares_a_broken_provider():
    async with FakeOpenAI("never", faults=Status(500), api_key="k") as sick:
        layer = w.with_circuit_breaker(failure_threshold=2)
        caller = w.compose([w.with_retry(max_attempts=1), layer])
        model = model_of("openai", sick)
        outs = [await w.agent_loop("go", model=model, llm_caller=caller) for _ in range(4)]
        assert [out.stop_reason for out in outs] == ["server_error"] * 2 + ["circuit_open"] * 2
        assert len(sick.requests) == 2


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_what_the_headers_say_is_heard(wire: str):
    said = {
        "anthropic": {
            "anthropic-ratelimit-requests-remaining": "7",
            "anthropic-ratelimit-requests-reset": "30",
        },
        "openai": {"x-ratelimit-remaining-requests": "7", "x-ratelimit-reset-requests": "30s"},
    }[wire]
    fake = FakeAnthropic if wire == "anthropic" else FakeOpenAI
    async with fake("hi", faults=Headers(said), api_key="k") as server:
        layer: Any = with_rate_limit()
        await w.llm_call("go", model=model_of(wire, server), llm_caller=layer)
        (gate,) = layer.gates.values()
        assert gate.left["requests"][0] == 7
        assert transport_base.heard.get() is None


async def test_a_429_is_waited_for_in_line():
    faults = [Status(429, retry_after=0.02), Status(429, retry_after=0.02), None]
    async with FakeOpenAI("hi", faults=faults, api_key="k") as server:
        out = await w.agent_loop(
            "go", model=model_of("openai", server), llm_caller=with_rate_limit()
        )
        assert (out.status, out.final_text, len(server.requests)) == ("done", "hi", 3)


async def test_keys_of_all_models_are_known_to_the_redactor(own_world: w.Runtime):
    """A fallback's key must not reach a journal either."""
    async with FakeOpenAI("never", faults=Status(500), api_key="k") as sick:
        spy = w.models.openai_chat(
            "x", api_key="sk-other-secret-77", base_url="http://127.0.0.1:1/v1"
        )
        caller = w.compose([w.with_retry(max_attempts=1), w.with_fallback(spy)])
        model = model_of("openai", sick)
        out = await w.agent_loop("my key is sk-other-secret-77", model=model, llm_caller=caller)
        assert out.status == "provider_error"
        assert "sk-other-secret-77" not in str(out.entries)

"""What calls cost: by the table, graded, by a rate card of one's own, and where nobody knows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

import windlass as w
from windlass.models.registry import prices
from windlass.models.registry.providers import resolve
from windlass.models.registry.scope import reload_config
from windlass.usage import Usage

MILLION = Usage(1_000_000, 1_000_000)


def test_the_table_is_dated() -> None:
    assert date.fromisoformat(prices.as_of()) >= date(2026, 1, 1)


def test_a_long_prompt_costs_more() -> None:
    short = prices.price("gemini", "gemini-2.5-pro", Usage(200_000, 1000))
    long = prices.price("gemini", "gemini-2.5-pro", Usage(200_001, 1000))
    assert short == pytest.approx(0.25 + 0.01)
    assert long == pytest.approx(200_001 * 2.5e-6 + 0.015)
    cached = Usage(300_000, 0, cache_read_tokens=300_000)
    assert prices.price("gemini", "gemini-2.5-pro", cached) == pytest.approx(0.3 * 0.25)


def test_other_doors_to_the_same_models() -> None:
    expected = prices.price("openai", "gpt-4o", MILLION)
    for provider in ("azure", "openai-responses"):
        assert prices.price(provider, "gpt-4o", MILLION) == expected
    assert prices.price("vertex", "gemini-2.5-pro", Usage(1000, 0)) == pytest.approx(0.00125)
    assert prices.price("openrouter", "anthropic/claude-opus-4.7", MILLION) == pytest.approx(30)
    bedrock = prices.price("bedrock", "us.anthropic.claude-opus-4-7", MILLION)
    assert bedrock == pytest.approx(30)


RATES = """
    [llm.prices."openai:gpt-4o"]
    input = 1.0
    output = 2.0

    [llm.prices."openai:gpt-4o*"]
    output = 7.0

    [llm.prices."local:*"]
    gpu_second = 0.002

    [llm.prices."gemini:gemini-2.5-pro"]
    input = 1.0
"""


def test_a_rate_card(toml: Callable[..., Path]) -> None:
    toml(RATES)
    assert prices.price("openai", "gpt-4o", MILLION) == pytest.approx(3.0)
    assert prices.price("openai", "gpt-4o-mini", MILLION) == pytest.approx(0.15 + 7)
    assert prices.price("openai", "gpt-4o", Usage(10, 10, cost_usd=0.5)) == 0.5
    computed = Usage(10, 10, gpu_ms=2500)
    assert prices.price("local", "qwen3", computed) == pytest.approx(0.005)
    assert resolve("local:qwen3", environ={}).price(computed) == pytest.approx(0.005)
    # one's own price is for prompts of every length; what it does not name is the table's
    own = prices.price("gemini", "gemini-2.5-pro", Usage(1_000_000, 1_000_000))
    assert own == pytest.approx(1 + 10)


async def test_a_runtime_has_prices_of_its_own(toml: Callable[..., Path]) -> None:
    async with w.Runtime(config=toml(RATES, "dear.toml")):
        assert w.llm_cost("openai:gpt-4o", 1_000_000, 1_000_000) == pytest.approx(3.0)
        assert w.llm_cost("local:x", 0, 0, gpu_ms=1000) == pytest.approx(0.002)
    assert w.llm_cost("openai:gpt-4o", 1_000_000, 1_000_000) == pytest.approx(12.5)


def test_what_nobody_knows_costs_nothing_and_says_so_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prices, "_unpriced", set())
    with caplog.at_level(logging.WARNING, "windlass"):
        for _ in range(3):
            assert resolve("openai:gpt-novel", environ={}).price(MILLION) == 0
            assert prices.price("openai", "gpt-novel", MILLION) == 0
        assert prices.price("huggingface", "Qwen/Qwen3-32B", MILLION) == 0
        for own in ("ollama", "local", "llamacpp", "mlx", "mock"):  # one's own costs nothing
            assert prices.price(own, "anything", MILLION) == 0
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert said[0].startswith("nobody knows the price of openai:gpt-novel")
    assert '[llm.prices."openai:gpt-novel"]' in said[0] and "Qwen" in said[1]


def test_a_price_of_nothing_is_known(
    toml: Callable[..., Path], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prices, "_unpriced", set())
    toml('[llm.prices."openai:*"]\ninput = 0\noutput = 0\n')
    with reload_config(), caplog.at_level(logging.WARNING, "windlass"):
        assert prices.price("openai", "gpt-novel", MILLION) == 0
    assert not caplog.records


async def test_a_scripted_provider_costs_what_a_row_says(toml: Callable[..., Path]) -> None:
    path = toml("""
        [llm.prices."mock:*"]
        input = 1_000_000
        output = 0
        """)
    async with w.Runtime(config=path):
        w.llm_mock(text="hi", usage={"input_tokens": 3, "output_tokens": 5})
        reply = await w.llm_call("hello", provider="mock")
        assert reply.cost_usd == 3.0
    async with w.Runtime(config=toml("")):
        assert (await w.llm_call("hello", provider="mock")).cost_usd == 0.0

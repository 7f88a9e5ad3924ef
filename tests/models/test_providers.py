"""From names and the environment to models, and what the catalog knows of them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from windlass import models
from windlass.errors import ConfigError
from windlass.messages import Message
from windlass.models.base import Model, Request, silent
from windlass.models.registry import prices
from windlass.models.registry.providers import resolve
from windlass.models.registry.scope import ENDPOINTS
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.usage import Usage


def made(*args: Any, environ: dict[str, str] | None = None, **options: Any) -> tuple[str, str, str]:
    model = resolve(*args, environ=environ or {}, **options)
    return model.provider, model.name, getattr(model, "url", "")


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), ("anthropic", "claude-sonnet-4-20250514")),
        ((None, "openai"), ("openai", "gpt-4o")),
        ((None, "ollama"), ("ollama", "llama3.2")),
        ((None, "openrouter"), ("openrouter", "anthropic/claude-sonnet-4-20250514")),
        (("openai",), ("openai", "gpt-4o")),
        (("openai:gpt-novel",), ("openai", "gpt-novel")),
        (("claude-opus-4-7",), ("anthropic", "claude-opus-4-7")),
        (("claude-novel-9",), ("anthropic", "claude-novel-9")),
        (("gpt-4o-mini",), ("openai", "gpt-4o-mini")),
        (("llama3.2:1b", "ollama"), ("ollama", "llama3.2:1b")),
        (("ollama:llama3.2:1b",), ("ollama", "llama3.2:1b")),
        (("anthropic/claude-opus-5.5",), ("openrouter", "anthropic/claude-opus-5.5")),
        (("openai/gpt-oss-120b", "groq"), ("groq", "openai/gpt-oss-120b")),
        (("deepseek-chat",), ("deepseek", "deepseek-chat")),
        (("together:x/y",), ("together", "x/y")),
        (("fireworks:x",), ("fireworks", "x")),
    ],
)
def test_ways_to_name_a_model(args: tuple[Any, ...], expected: tuple[str, str]) -> None:
    assert made(*args)[:2] == expected


def test_the_environment_names_a_model() -> None:
    assert made(environ={"WINDLASS_MODEL": "openai:gpt-4o"})[:2] == ("openai", "gpt-4o")
    both = {"WINDLASS_MODEL": "m", "WINDLASS_PROVIDER": "groq"}
    assert made(environ=both)[:2] == ("groq", "m")
    assert made("claude-opus-4-7", environ=both)[:2] == ("anthropic", "claude-opus-4-7")


def test_addresses_from_the_environment() -> None:
    assert made("ollama:m")[2] == "http://localhost:11434/api/chat"
    for host in ("10.0.0.1", "10.0.0.1:11434", "http://10.0.0.1:11434", "http://10.0.0.1:11434/"):
        url = made("ollama:m", environ={"OLLAMA_HOST": host})[2]
        assert url == "http://10.0.0.1:11434/api/chat"
    versioned = made("ollama:m", base_url="http://10.0.0.1:11434/v1")[2]
    assert versioned == "http://10.0.0.1:11434/api/chat"
    assert OpenAIChat("m", provider="ollama").url == "http://localhost:11434/v1/chat/completions"
    local = {"LOCAL_LLM_BASE_URL": "http://box:9", "LOCAL_LLM_MODEL": "qwen"}
    assert made(None, "local", environ=local) == (
        "local",
        "qwen",
        "http://box:9/v1/chat/completions",
    )
    proxied = {"ANTHROPIC_BASE_URL": "https://proxy"}
    assert made("claude-opus-4-7", environ=proxied)[2] == "https://proxy/v1/messages"
    given = made("claude-opus-4-7", environ=proxied, base_url="https://mine")[2]
    assert given == "https://mine/v1/messages"
    assert made("hf/model", "huggingface")[2] == "https://router.huggingface.co/v1/chat/completions"


def test_keys_from_the_environment() -> None:
    for provider, endpoint in ENDPOINTS.items():
        for variable in endpoint.key_env:
            also = {names[0]: "mine" for names in endpoint.also_env.values()}
            if not endpoint.base_url:  # one's own, as at Azure
                also |= {endpoint.base_env[0]: "https://mine.test"}
            model = resolve("m", provider, environ={variable: "the-key-itself", **also})
            assert model.secrets == ("the-key-itself",)
            model.check()
    assert resolve("m", "huggingface", environ={"HUGGINGFACE_API_KEY": "second"}).secrets == (
        "second",
    )


async def test_a_missing_key_is_named_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for endpoint in ENDPOINTS.values():
        for variable in endpoint.key_env:
            monkeypatch.delenv(variable, raising=False)
    for model in (AnthropicMessages("m"), OpenAIChat("m"), resolve("m", "huggingface", environ={})):
        with pytest.raises(ConfigError, match="_API_KEY"):
            model.check()
        with pytest.raises(ConfigError, match="_API_KEY"):
            await model.respond(Request([Message("user", "q")]), silent)
    for model in (
        resolve("m", "ollama", environ={}),
        resolve("m", "local", environ={}),
        OpenAIChat("m", base_url="http://localhost:1/v1"),
        OpenAIChat("m", headers={"api-key": "azure"}),
    ):
        model.check()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("claud-opus-4-7",), "did you mean 'anthropic:claude-opus-4-7'"),
        (("antropic:claude-opus-4-7",), "did you mean 'anthropic'"),
        ((None, "opnai"), "did you mean 'openai'"),
        (("nothing-like-it-at-all",), "provider:name"),
        ((None, "huggingface"), "no default model"),
        ((None, "local"), "LOCAL_LLM_MODEL"),
        (("openai:gpt-4o", "groq"), "another provider"),
    ],
)
def test_slips_are_named(args: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        made(*args)


def test_other_ways_in() -> None:
    mine = Model()
    assert resolve(mine) is mine
    assert made("mock:x")[:2] == ("mock", "x") and made("mock")[0] == "mock"
    assert made("m", "mine", base_url="http://h/v1") == (
        "mine",
        "m",
        "http://h/v1/chat/completions",
    )
    assert made("anything", base_url="http://h/v1")[:2] == ("local", "anything")
    assert models.anthropic is AnthropicMessages and models.openai_chat is OpenAIChat
    with pytest.raises(AttributeError, match="windlass.models has no name 'nonsense'"):
        models.nonsense  # noqa: B018


# --------------------------------------------------------------------------- the catalog


def test_the_catalog_is_whole() -> None:
    seen: set[tuple[str, str]] = set()
    for provider, name in prices.names():
        assert provider in ENDPOINTS and (provider, name) not in seen
        seen.add((provider, name))
        info = prices.lookup(provider, name)
        assert info is not None and info.name == name, "a pattern before it takes its name"
        assert info.context_window is None or info.context_window >= 4096
        if provider in ("anthropic", "openai"):
            assert info.output > info.input > 0 and info.max_output
    assert len(seen) >= 40


def test_dated_and_routed_names_are_found() -> None:
    info = prices.lookup("anthropic", "claude-sonnet-4-5-20250929")
    assert info is not None and info.name == "claude-sonnet-4-5" and info.context_window == 200_000
    assert prices.lookup("openrouter", "anthropic/claude-opus-4-7") is not None
    assert prices.lookup("openrouter", "anthropic/claude-opus-4.7") is not None
    assert prices.lookup("anthropic", "claude-novel") is None
    default = prices.lookup("anthropic", "claude-sonnet-4-20250514")
    assert default is not None and default.max_output == 64_000
    assert resolve("ollama:gemma2:2b", environ={}).native_tools is False
    assert resolve("claude-opus-4-7", environ={}).context_window == 1_000_000


def test_prices() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    assert prices.price("anthropic", "claude-opus-4-7", usage) == pytest.approx(30)
    cached = Usage(1_000_000, 0, cache_read_tokens=400_000, cache_write_tokens=200_000)
    expected = 0.4 * 5 + 0.4 * 0.5 + 0.2 * 6.25
    assert prices.price("anthropic", "claude-opus-4-7", cached) == pytest.approx(expected)
    assert prices.price("anthropic", "claude-novel", usage) == 0
    assert prices.price("openai", "gpt-4o", Usage(10, 10, cost_usd=0.5)) == 0.5
    model = AnthropicMessages("claude-opus-4-7", api_key="k")
    assert model.price(usage) == pytest.approx(30)
    assert AnthropicMessages("claude-novel", api_key="k").price(usage) == 0


def test_a_model_is_made_without_the_http_client() -> None:
    code = (
        "import sys; from windlass.models import resolve; resolve('claude-opus-4-7', environ={}); "
        "assert not {'aiohttp', 'rich', 'pydantic'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

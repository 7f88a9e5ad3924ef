"""What models can do: by glob and version, the first rule first, vendors and families behind it."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import msgspec
import pytest

import windlass as w
from windlass.errors import ConfigError
from windlass.models.registry import prices
from windlass.models.registry.capabilities import (
    ABILITIES,
    Capabilities,
    Matrix,
    Table,
    matches,
    version_of,
)
from windlass.models.registry.registry import capabilities_of


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("claude-opus-4-7", (4, 7)),
        ("claude-3-5-sonnet-20241022", (3, 5)),
        ("claude-3-opus-20240229", (3, 0)),
        ("claude-sonnet-4-20250514", (4, 0)),
        ("claude-sonnet-4@20250514", (4, 0)),
        ("claude-haiku-4-5@20251001", (4, 5)),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", (4, 1)),
        ("anthropic.claude-v2:1", (2, 1)),
        ("anthropic/claude-opus-4.7", (4, 7)),
        ("claude-novel", None),
        ("gpt-5.4", (5, 4)),
        ("openai/GPT-5.4-mini", (5, 4)),
        ("gpt-5-2025-08-07", (5, 0)),
        ("gpt-4o", (4, 0)),
        ("gpt-4.1-nano", (4, 1)),
        ("gpt-4-0613", (4, 0)),
        ("gpt-35-turbo", (3, 5)),
        ("gpt-oss-120b", None),
        ("o3", None),
        ("gemini-2.5-pro", None),
    ],
)
def test_versions_are_read_from_names(model: str, version: tuple[int, int] | None) -> None:
    assert version_of(model) == version


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*", "anything", None),
        ("claude-*", "claude-x", "a-claude-x"),
        ("*-mini", "gpt-mini", "gpt-minis"),
        ("*nova*", "us.amazon.nova-pro", "us.amazon.titan"),
        ("gpt-5*-chat", "gpt-5.2-chat", "gpt-5.2-chat-x"),
        ("ab*ba", "abba", "aba"),
        ("exact", "exact", "exactly"),
    ],
)
def test_globs(glob: str, yes: str, no: str | None) -> None:
    assert matches(glob, yes)
    assert no is None or not matches(glob, no)


SEARCH = ["bm25", "regex"]


@pytest.mark.parametrize(
    ("provider", "model", "found"),
    [
        ("anthropic", "claude-opus-4-7", SEARCH),
        ("anthropic", "claude-sonnet-4-20250514", SEARCH),
        ("anthropic", "claude-haiku-4-5-20251001", SEARCH),
        ("anthropic", "claude-3-5-haiku-latest", []),
        ("anthropic", "claude-3-7-sonnet-latest", []),
        ("openai", "gpt-5.4", ["hosted", "client"]),
        ("openai", "gpt-6-sol", ["hosted", "client"]),
        ("openai", "gpt-5.2", []),
        ("openai", "gpt-4o", []),
        ("openrouter", "openai/gpt-5.4", ["hosted", "client"]),
        ("together", "vendor/gpt-5.4-clone", ["hosted", "client"]),
        ("local", "gpt-5.5", ["hosted", "client"]),
        ("gemini", "gemini-2.5-pro", []),
        ("ollama", "llama3.2", []),
        ("mock", "mock", []),
    ],
)
def test_who_searches_for_tools_itself(provider: str, model: str, found: list[str]) -> None:
    caps = w.provider_capabilities(provider, model)
    assert caps["tool_search"] == found and caps["defer_loading"] is bool(found)


def test_the_document_s_example() -> None:
    caps = w.provider_capabilities("anthropic", "claude-opus-4-7")
    assert {name: caps[name] for name in ABILITIES} == {
        "native_tools": True,
        "defer_loading": True,
        "tool_search": SEARCH,
        "max_tools": 10000,
        "prompt_caching": True,
        "thinking": True,
    }
    assert "adaptive" in caps["thinking_modes"] and caps["reasoning_effort_supported"] is True


def test_what_particular_models_refuse() -> None:
    newest, middle, older = (
        capabilities_of("anthropic", f"claude-opus-{version}") for version in ("5-5", "4-6", "4-1")
    )
    assert "enabled" not in newest.thinking_modes and newest.always_thinks and not newest.sampling
    assert {"enabled", "adaptive"} <= set(middle.thinking_modes) and middle.sampling
    assert "adaptive" not in older.thinking_modes and "enabled" in older.thinking_modes
    assert capabilities_of("openai", "gpt-5.4").efforts[0] == "none"
    assert capabilities_of("openai", "gpt-5-mini").efforts[0] == "minimal"
    assert capabilities_of("gemini", "gemini-2.5-flash").lowering == "gemini_budget"
    assert capabilities_of("vertex", "gemini-3-pro-preview").lowering == "gemini_level"
    assert capabilities_of("together", "moonshotai/Kimi-K3").lowering == "enabled"
    for provider in ("local", "llamacpp", "mlx"):
        assert capabilities_of(provider, "Qwen3-8B-4bit").lowering == "no_think"
    assert capabilities_of("ollama", "qwen3:8b").lowering == "think"
    assert capabilities_of("mistral", "anything").call_ids == "9"
    assert capabilities_of("openai", "gpt-4o").structured[0] == "schema"
    assert capabilities_of("anthropic", "claude-sonnet-4-20250514").structured[0] == "tool"
    assert capabilities_of("anthropic", "claude-sonnet-4-5").structured[0] == "schema"
    assert capabilities_of("local", "unheard-of").structured == ("prompt",)
    for provider, model in (
        ("anthropic", "claude-opus-4-7"),
        ("openrouter", "anthropic/claude-opus-4.7"),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("bedrock", "eu.amazon.nova-lite-v1:0"),
    ):
        assert capabilities_of(provider, model).prompt_caching, (provider, model)


def test_a_router_is_spoken_to_in_its_own_way_about_the_vendor_s_model() -> None:
    routed = capabilities_of("openrouter", "anthropic/claude-opus-4.7")
    assert routed.lowering == "openrouter" and routed.sampling and routed.structured[0] == "schema"
    assert capabilities_of("bedrock", "us.anthropic.claude-opus-4-8").sampling is False
    assert capabilities_of("openai", "gpt-5.5-pro").wire == "openai_responses"
    assert capabilities_of("openrouter", "openai/gpt-5.5-pro").wire is None


def test_every_model_with_a_price_has_a_row() -> None:
    for provider, name in prices.names():
        assert capabilities_of(provider, name).known, (provider, name)
    assert capabilities_of("openai", "nobody-knows-it") == capabilities_of("openai", "nor-this")
    assert not capabilities_of("custom", "x").known
    assert capabilities_of("custom", "x") == Capabilities()


def test_no_shipped_rule_is_out_of_reach() -> None:
    """A rule below one that takes all of its models would never be read."""
    text = files("windlass.models.registry").joinpath("capabilities.toml").read_text("utf-8")
    for rules in tomllib.loads(text)["provider"].values():
        seen: set[tuple[str, str]] = set()
        for rule in rules:
            key = rule["model_match"], str(rule.get("version_min"))
            if set(rule) & set(ABILITIES):
                assert key not in seen, key
                seen.add(key)


def rule(provider: str, **told: object) -> Table:
    return msgspec.convert({"provider": {provider: [told]}}, Table)


def test_the_first_rule_decides_what_a_model_is_able_to_do() -> None:
    mine = rule("p", model_match="a*", native_tools=True)
    theirs = rule("p", model_match="*", thinking=True, tool_search=["bm25"], lowering="claude")
    found = Matrix(mine, theirs).of("p", "abc")
    assert not found.thinking and found.tool_search == () and found.lowering == "claude"
    assert Matrix(mine, theirs).of("p", "xyz").thinking


def test_a_version_that_cannot_be_read_passes_a_rule_by() -> None:
    found = Matrix(rule("p", model_match="*", version_min=[5, 4], thinking=True))
    assert found.of("p", "gpt-5.4").thinking and found.of("p", "claude-opus-6").thinking
    assert not found.of("p", "gpt-5.3").known and not found.of("p", "my-clone-v9").known


def test_rules_of_a_script() -> None:
    w.provider_capabilities_install('[[provider.my-proxy]]\nmodel_match = "*"\nmax_tools = 7\n')
    assert w.provider_capabilities("my-proxy", "x")["max_tools"] == 7
    w.provider_capabilities_install('[[provider.other]]\nmodel_match = "*"\nmax_tools = 8\n')
    assert w.provider_capabilities("my-proxy", "x")["max_tools"] is None
    w.provider_capabilities_clear()
    assert w.provider_capabilities("other", "x") == w.provider_capabilities("my-proxy", "x")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[provider.x]]\nmax_tools = 7", "missing required field model_match"),
        ('[[provider.x]]\nmodel_match = "a*b*"', "a star may stand at either end"),
        ('[[provider.x]]\nmodel_match = "*"\nmax_tolls = 7', "did you mean 'max_tools'"),
        (
            '[[provider.x]]\nmodel_match = "*"\nthinking = "yes"',
            ":3: .*thinking: expected true or false",
        ),
        ('[provider_family]\na = "b"\nb = "a"', "a -> b -> a"),
        ("[[provider.x]\n", "it is not TOML"),
    ],
)
def test_rules_that_are_none(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        w.provider_capabilities_install(text)
    assert len(str(caught.value).splitlines()) == 1
    assert w.provider_capabilities("anthropic", "claude-opus-4-7")["tool_search"] == SEARCH

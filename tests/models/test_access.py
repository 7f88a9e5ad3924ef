"""How a model is reached: the same words on every wire, and the environment's addresses."""

from __future__ import annotations

import inspect

import pytest

import windlass as w
from windlass.errors import ConfigError

MADE = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "bedrock": "BEDROCK_BASE_URL",
    "gemini": "GEMINI_BASE_URL",
    "ollama": "OLLAMA_HOST",
    "openai_chat": "OPENAI_BASE_URL",
    "openai_responses": "OPENAI_BASE_URL",
    "vertex": "VERTEX_BASE_URL",
}


@pytest.mark.parametrize("wire", MADE)
def test_a_model_object_goes_where_the_environment_says(
    wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MADE[wire], "http://gateway.test/deep")
    made = getattr(w.models, wire)("m")
    assert made.url.startswith("http://gateway.test/deep/")
    given = getattr(w.models, wire)("m", base_url="http://own.test")
    assert given.url.startswith("http://own.test/")


def test_a_provider_s_own_variable_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://openai.test/v1")
    monkeypatch.setenv("GROQ_BASE_URL", "http://groq.test/v1")
    assert w.models.openai_chat("m", provider="groq").url == "http://groq.test/v1/chat/completions"


@pytest.mark.parametrize("wire", MADE)
def test_an_unknown_word_is_refused_with_the_nearest(wire: str) -> None:
    with pytest.raises(ConfigError, match=r"no api_kei=; did you mean 'api_key'\?"):
        getattr(w.models, wire)("m", api_kei="k")


@pytest.mark.parametrize("wire", MADE)
def test_what_a_wire_takes_is_spelled_once(wire: str) -> None:
    made = getattr(w.models, wire)
    own = {"region", "profile", "sign", "token", "project", "location", "api_version"}
    named = inspect.signature(made.__init__).parameters
    assert set(named) - own == {"self", "name", "access"}

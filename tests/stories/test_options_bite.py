"""What an option promises where no other story looks: found by `make mutate-options`."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.able import able
from tests.stories.world import add, kept
from windlass.agents.options import ProviderOptions
from windlass.models.capabilities import Capabilities
from windlass.testing import call, scripted

PROVIDERS = (
    "anthropic", "bedrock", "deepseek", "fireworks", "gemini", "groq", "huggingface", "llamacpp",
    "local", "mistral", "mlx", "ollama", "openai", "openrouter", "together", "vertex",
)  # fmt: skip


def test_no_provider_is_left_out():
    assert set(PROVIDERS) == ProviderOptions.__optional_keys__


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_providers_own_words_go_to_that_provider_alone(provider: str):
    own: Any = {provider: {"mood": "good"}}
    loop, agent, single, other = (scripted("x", provider=provider) for _ in range(4))
    other.provider = "acme"
    await w.agent_loop("go", model=loop, **own)
    await w.Agent(agent, **own).run("go")
    await w.llm_call("go", model=single, **own)
    await w.llm_call("go", model=other, **own)
    for model in (loop, agent, single):
        assert model.requests[0].settings.extra == {"mood": "good"}
    assert other.requests[0].settings.extra is None


@w.tool(defer_loading=True)
async def ledger_entry(account: str) -> str:
    """Write an entry into the ledger of an account."""
    return f"wrote {account}"


@pytest.mark.parametrize("variant", ["bm25", "regex"])
async def test_the_variant_is_how_tools_are_searched(variant: str):
    """A pattern finds by its shape, words by what they say."""
    found: list[bool] = []
    for query in ("l.dg.r_e[mn]t", "an entry for the ledger"):
        model = scripted(call("__windlass_tool_search", query=query), "ok")
        search: Any = {"variant": variant, "mode": "client"}
        out = await w.agent_loop("go", model=model, tools=[add, ledger_entry], tool_search=search)
        await kept(out, model)
        found.append("ledger_entry" in {tool.name for tool in model.requests[1].tools})
    assert found[0] is (variant == "regex")
    assert found[1] is (variant == "bm25")


@pytest.mark.parametrize("variant", ["bm25", "regex"])
async def test_a_provider_that_searches_is_asked_for_the_variant(variant: str):
    caps = Capabilities(tool_search=("bm25", "regex"), defer_loading=True)
    model = able("ok", caps=caps)
    await w.agent_loop(
        "go", model=model, tools=[add, ledger_entry], tool_search={"variant": variant}
    )
    assert model.requests[0].settings.tool_search == variant


@pytest.mark.parametrize("door", ["agent_loop", "llm_call", "llm_completion", "Agent.run"])
async def test_a_misspelt_system_is_told_how_it_is_spelt(door: str):
    wrong: Any = {"sytem": "Be brief."}
    with pytest.raises(w.ConfigError, match="did you mean 'system'"):
        if door == "Agent.run":
            await w.Agent(scripted("x")).run("go", **wrong)
        else:
            await getattr(w, door)("go", model=scripted("x"), **wrong)

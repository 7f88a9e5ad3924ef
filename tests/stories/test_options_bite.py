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


SETTLED = (
    "abort", "caller", "conversation_id", "deps", "llm_transcript_dir", "messages", "name",
    "on_event", "request_id", "run_id", "session_id", "store",
)  # fmt: skip


@pytest.mark.parametrize("name", SETTLED)
async def test_what_is_settled_when_a_run_begins_is_not_changed_in_the_middle(name: str):
    model = scripted(call("add", a=1, b=1), "never")
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[add],
        post_turn_callback=lambda turn: {"next_options": {name: None}},
    )
    assert out.status == "failed" and f"{name} is settled" in out.error["message"]


@pytest.mark.parametrize("name", ["role", "output", "deps_type"])
async def test_nor_is_what_makes_an_agent(name: str):
    model = scripted(call("add", a=1, b=1), "never")
    change = {"next_options": {name: None}}
    out = await w.Agent(model, tools=[add], post_turn_callback=lambda turn: change).run("go")
    assert out.status == "failed" and f"{name} is settled" in out.error["message"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("max_iterations", 3), ("persistent", True), ("messages", ["go"]), ("run_id", "r")],
)
def test_what_the_loop_alone_takes_is_refused_by_an_agent(option: str, value: Any):
    wrong: Any = {option: value}
    with pytest.raises(w.ConfigError, match=f"Agent has no option '{option}'"):
        w.Agent(scripted("x"), **wrong)


def test_an_agent_says_which_model_it_asks():
    assert "openai:gpt-4o" in repr(w.Agent("openai:gpt-4o"))
    assert "ollama" in repr(w.Agent(provider="ollama"))
    assert "clerk" in repr(w.Agent("openai:gpt-4o", name="clerk"))
    assert "openai:gpt-4o" in repr(w.Agent("mock:any").with_(model="openai:gpt-4o"))


def test_one_limit_on_tokens_is_enough():
    with pytest.raises(w.ConfigError, match="the same limit: give one"):
        w.Agent(scripted("x"), token_budget=100, max_token_budget=200)


async def test_another_model_is_another_provider_too():
    named = w.Agent(provider="mock")
    model = scripted("x", "y")
    assert (await named.with_(model=model).run("go")).output == "x"
    assert (await named.run("go", model=model)).output == "y"


async def test_options_of_calls_that_a_callback_changes_join_those_there_are():
    model = scripted(call("add", a=1, b=1), "2")
    await w.agent_loop(
        "go",
        model=model,
        tools=[add],
        llm_options={"seed": 7, "temperature": 0.1},
        post_turn_callback=lambda turn: {"llm_options": {"temperature": 0.5}},
    )
    settings = model.requests[1].settings
    assert (settings.seed, settings.temperature) == (7, 0.5)

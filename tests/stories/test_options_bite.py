"""What an option promises where no other story looks: found by `make mutate-options`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

import windlass as w
from tests.stories.capable_model import able
from tests.stories.helpers import add, kept
from windlass.engine.keywords import ProviderKeywords
from windlass.models.registry.capabilities import Capabilities
from windlass.testing import call, scripted

PROVIDERS = (
    "anthropic",
    "bedrock",
    "deepseek",
    "fireworks",
    "gemini",
    "groq",
    "huggingface",
    "llamacpp",
    "local",
    "mistral",
    "mlx",
    "ollama",
    "openai",
    "openrouter",
    "together",
    "vertex",
)


def test_no_provider_is_left_out():
    assert set(PROVIDERS) == ProviderKeywords.__optional_keys__


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
    right, wrong = "system", cast("Any", {"sytem": "Be brief."})
    with pytest.raises(w.ConfigError, match=f"did you mean {right!r}"):
        if door == "Agent.run":
            await w.Agent(scripted("x")).run("go", **wrong)
        else:
            await getattr(w, door)("go", model=scripted("x"), **wrong)


SETTLED = (
    "abort",
    "caller",
    "conversation_id",
    "deps",
    "llm_transcript_dir",
    "messages",
    "name",
    "on_event",
    "request_id",
    "run_id",
    "session_id",
    "store",
)


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
    with pytest.raises(w.ConfigError, match="the same option: give one"):
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


async def test_a_choice_may_be_of_a_tool_that_a_policy_brings():
    class Brings(w.Policy[None]):
        async def start(self, run: w.Run) -> list[w.Tool]:
            return [add]

    model = scripted(call("add", a=1, b=2), "3")
    choice: Any = {"name": "add"}
    out = await w.agent_loop("go", model=model, policies=[Brings()], tool_choice=choice)
    assert out.tools.successful == ["add"] and model.requests[0].settings.tool_choice == choice


@pytest.mark.virtual_time
async def test_each_attempt_has_the_time_of_a_tool():
    began: list[int] = []

    @w.tool(side_effect_level="none")
    async def slow() -> str:
        """Takes its time, the first time."""
        began.append(1)
        await asyncio.sleep(50 if len(began) == 1 else 1)
        return "here"

    model = scripted(call("slow"), "ok")
    out = await w.agent_loop("go", model=model, tools=[slow], tool_retries=1, tool_timeout=10)
    assert len(began) == 2 and out.tools.successful == ["slow"]


TIERS = """
[llm.tiers]
small = "anthropic:claude-sonnet-4-5"
mock = { small = "pocket" }
"""


@pytest.fixture
def tiers(tmp_path: Path) -> Path:
    file = tmp_path / "windlass.toml"
    file.write_text(TIERS)
    return file


async def test_a_preset_knows_who_will_be_asked_by_any_of_their_names(tiers: Path):
    async with w.Runtime(environ={}, config=tiers, store="memory:"):
        assert w.agent_preset("summary").get("thinking") is None
        for named in (
            {"provider": "anthropic"},
            {"model": "anthropic:claude-sonnet-4-5"},
            {"model_tier": "small"},
        ):
            assert w.agent_preset("summary", named).get("thinking") == {"mode": "disabled"}


async def test_a_provider_may_have_tiers_of_its_own(tiers: Path):
    async with w.Runtime(environ={}, config=tiers, store="memory:"):
        assert (await w.llm_call("go", model_tier="small", provider="mock")).model == "pocket"


async def test_nothing_to_say_is_enough_to_go_on_with_a_session():
    await w.agent_loop("go", model=scripted(then=w.Overloaded("later")), session_id="s")
    out = await w.agent_loop([], model=scripted("Here I am."), session_id="s")
    assert out.final_text == "Here I am."
    with pytest.raises(w.ConfigError, match="empty"):
        await w.agent_loop([], model=scripted("x"))


async def test_the_time_of_a_run_is_not_that_of_each_call():
    run, agent = scripted("x"), scripted("x")
    await w.Agent(run).run("go", timeout=9)
    await w.Agent(agent, timeout=9).run("go")
    assert run.requests[0].settings.timeout is None
    assert agent.requests[0].settings.timeout == 9


DEFAULTS = """
[llm.model_defaults."tiny"]
thinking = { budget_tokens = 2000 }
"""


async def test_a_word_on_thinking_among_llm_options_silences_the_file(tmp_path: Path):
    file = tmp_path / "windlass.toml"
    file.write_text(DEFAULTS)
    async with w.Runtime(environ={}, config=file, store="memory:"):
        await w.Agent("mock:tiny", llm_options={"reasoning_effort": "low"}).run("go")
        sent = w.llm_mock_calls()[-1].options["thinking"]
    assert sent == {"mode": "effort", "effort": "low"}


async def test_the_scale_of_a_problem_alone_makes_a_model_think():
    caps = Capabilities(
        known=True,
        thinking=True,
        thinking_modes=("effort",),
        lowering="effort",
        reasoning_effort_supported=True,
        efforts=("low", "medium", "high"),
    )
    small, large = able("x", caps=caps), able("x", caps=caps)
    await w.llm_call("go", model=small, reasoning_scale="small")
    await w.llm_call("go", model=large, reasoning_scale="large")
    assert small.requests[0].settings.thinking != large.requests[0].settings.thinking

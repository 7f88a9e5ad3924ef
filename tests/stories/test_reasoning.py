"""How hard a model is asked to think: every cell of the table, and what the user says wins."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.capable_model import able
from tests.stories.helpers import add
from windlass.engine.model import usual_settings
from windlass.models.reasoning import Wish, choose
from windlass.models.registry.capabilities import Capabilities
from windlass.models.registry.registry import capabilities_of
from windlass.testing import scripted


def thinker(**facts: Any) -> Capabilities:
    return Capabilities(known=True, thinking=True, **facts)


GPT5 = thinker(
    lowering="effort",
    thinking_modes=("effort",),
    always_thinks=True,
    efforts=("minimal", "low", "medium", "high"),
)
GPT54 = thinker(
    lowering="effort",
    thinking_modes=("effort", "disabled"),
    efforts=("none", "low", "medium", "high", "xhigh"),
)
O3 = thinker(lowering="effort", always_thinks=True, efforts=("low", "medium", "high"))
FLASH = thinker(
    lowering="gemini_budget", thinking_modes=("enabled", "disabled"), thinking_budget=(0, 24_576)
)
PRO = thinker(lowering="gemini_budget", always_thinks=True, thinking_budget=(128, 32_768))
GEMINI3 = thinker(lowering="gemini_level", always_thinks=True, efforts=("low", "high"))
CLAUDE = thinker(
    lowering="claude",
    thinking_modes=("adaptive", "effort", "disabled"),
    efforts=("low", "medium", "high", "max"),
)
SONNET4 = thinker(
    lowering="claude", thinking_modes=("enabled", "disabled"), thinking_budget=(1024, 64_000)
)
FABLE = thinker(lowering="claude", thinking_modes=("adaptive",), always_thinks=True)
QWEN = thinker(lowering="no_think", thinking_modes=("enabled", "disabled"))
HYBRID = thinker(lowering="enabled", thinking_modes=("enabled", "disabled"))
DEEPSEEK = thinker(lowering="type", thinking_modes=("enabled", "disabled"))
ROUTED = thinker(lowering="openrouter", efforts=("none", "minimal", "low", "medium", "high"))
GPT_OSS = thinker(lowering="think", always_thinks=True, efforts=("low", "medium", "high"))
PLAIN = Capabilities(known=True, lowering="effort")
UNKNOWN = Capabilities()

OFF = {"mode": "disabled"}
ON = {"mode": "enabled"}
ADAPTIVE = {"mode": "adaptive"}


def effort(level: str) -> dict[str, str]:
    return {"mode": "effort", "effort": level}


def tokens(count: int) -> dict[str, Any]:
    return {"mode": "enabled", "budget_tokens": count}


# --------------------------------------------------------------------------- auto, cell by cell

#             small              medium              large
AUTO: list[tuple[Capabilities, str, Any, Any, Any]] = [
    (GPT5, "chat", effort("minimal"), effort("low"), effort("medium")),
    (GPT5, "agent", effort("low"), effort("medium"), effort("high")),
    (GPT5, "code", effort("low"), effort("medium"), effort("high")),
    (GPT5, "verify", effort("low"), effort("medium"), effort("high")),
    (GPT5, "summarize", effort("minimal"), effort("minimal"), effort("low")),
    (GPT54, "chat", effort("low"), effort("low"), effort("medium")),
    (GPT54, "summarize", effort("none"), effort("low"), effort("low")),
    (O3, "summarize", effort("low"), effort("low"), effort("low")),
    (O3, "agent", effort("low"), effort("medium"), effort("high")),
    (FLASH, "chat", tokens(1024), tokens(2048), tokens(8192)),
    (FLASH, "agent", tokens(2048), tokens(8192), tokens(16_384)),
    (FLASH, "summarize", OFF, tokens(1024), tokens(2048)),
    (PRO, "summarize", tokens(128), tokens(1024), tokens(2048)),
    (GEMINI3, "chat", effort("low"), effort("low"), effort("high")),
    (GEMINI3, "agent", effort("low"), effort("high"), effort("high")),
    (CLAUDE, "chat", None, None, ADAPTIVE),
    (CLAUDE, "agent", None, None, ADAPTIVE),
    (CLAUDE, "summarize", None, None, None),
    (SONNET4, "chat", None, None, tokens(8192)),
    (SONNET4, "agent", None, None, tokens(12_288)),
    (FABLE, "agent", None, None, None),
    (QWEN, "chat", OFF, OFF, ON),
    (QWEN, "agent", OFF, OFF, ON),
    (QWEN, "summarize", OFF, OFF, OFF),
    (HYBRID, "chat", OFF, OFF, ON),
    (HYBRID, "agent", OFF, ON, ON),
    (HYBRID, "summarize", OFF, OFF, OFF),
    (DEEPSEEK, "chat", None, None, ON),
    (DEEPSEEK, "agent", None, None, ON),
    (DEEPSEEK, "summarize", None, None, None),
    (ROUTED, "chat", None, None, effort("medium")),
    (ROUTED, "agent", None, None, effort("high")),
    (GPT_OSS, "agent", effort("low"), effort("medium"), effort("high")),
    (PLAIN, "agent", None, None, None),
    (UNKNOWN, "agent", None, None, None),
]


@pytest.mark.parametrize(("caps", "task", "small", "medium", "large"), AUTO)
def test_auto_chooses_by_task_and_scale(
    caps: Capabilities, task: Any, small: Any, medium: Any, large: Any
):
    found = [choose(caps, Wish(task=task, scale=s)) for s in ("small", "medium", "large")]
    assert found == [small, medium, large]


# --------------------------------------------------------------------------- off and the levels


@pytest.mark.parametrize(
    ("caps", "least"),
    [
        (GPT5, effort("minimal")),
        (GPT54, effort("none")),
        (O3, effort("low")),
        (FLASH, OFF),
        (PRO, tokens(128)),
        (GEMINI3, effort("low")),
        (CLAUDE, OFF),
        (SONNET4, OFF),
        (FABLE, None),
        (QWEN, OFF),
        (HYBRID, OFF),
        (DEEPSEEK, OFF),
        (ROUTED, effort("none")),
        (GPT_OSS, effort("low")),
        (PLAIN, None),
        (UNKNOWN, None),
    ],
)
def test_off_is_off_or_the_lowest_floor(caps: Capabilities, least: Any):
    assert choose(caps, Wish(policy="off")) == least


@pytest.mark.parametrize(
    ("caps", "minimal", "medium", "xhigh"),
    [
        (GPT5, effort("minimal"), effort("medium"), effort("high")),
        (GPT54, effort("low"), effort("medium"), effort("xhigh")),
        (FLASH, tokens(1024), tokens(8192), tokens(24_576)),
        (GEMINI3, effort("low"), effort("high"), effort("high")),
        (CLAUDE, effort("low"), effort("medium"), effort("high")),  # never by itself the dearest
        (SONNET4, tokens(1024), tokens(8192), tokens(12_288)),
        (FABLE, ADAPTIVE, ADAPTIVE, ADAPTIVE),
        (QWEN, ON, ON, ON),
        (HYBRID, ON, ON, ON),
        (DEEPSEEK, ON, ON, ON),
        (PLAIN, None, None, None),
        (UNKNOWN, None, None, None),
    ],
)
def test_a_level_is_clamped_to_what_the_model_has(
    caps: Capabilities, minimal: Any, medium: Any, xhigh: Any
):
    found = [choose(caps, Wish(policy=p)) for p in ("minimal", "medium", "xhigh")]
    assert found == [minimal, medium, xhigh]


def test_a_budget_leaves_room_for_the_answer():
    assert choose(SONNET4, Wish(policy="high", max_tokens=4000)) == tokens(3000)
    assert choose(SONNET4, Wish(policy="high", max_tokens=1300)) == tokens(1024)
    assert choose(SONNET4, Wish(policy="high", max_tokens=1000)) is None
    assert choose(FLASH, Wish(policy="medium", max_tokens=4000)) == tokens(2000)
    assert choose(FLASH, Wish(policy="medium", max_tokens=1000)) == OFF
    assert choose(PRO, Wish(policy="medium", max_tokens=1000)) == tokens(128)


# --------------------------------------------------------------------------- what the user says wins


@pytest.mark.parametrize("said", [True, False, {"budget_tokens": 5000}, {"type": "enabled"}])
def test_thinking_is_taken_as_it_is(said: Any):
    for caps in (GPT5, CLAUDE, QWEN, PLAIN, UNKNOWN):
        assert choose(caps, Wish(thinking=said, policy="off")) == said


def test_no_tokens_to_think_with_is_no_thinking():
    assert choose(FLASH, Wish(thinking={"budget_tokens": 0})) == OFF
    assert choose(SONNET4, Wish(thinking={"mode": "enabled", "budget_tokens": 0})) == OFF


def test_an_effort_wins_over_the_policy():
    assert choose(GPT5, Wish(effort="high", policy="off")) == effort("high")
    assert choose(GPT5, Wish(effort="xhigh")) == effort("high")
    assert choose(CLAUDE, Wish(effort="max")) == effort("max")
    assert choose(GPT5, Wish(effort="none")) == effort("minimal")
    assert choose(UNKNOWN, Wish(effort="high")) == effort("high")
    assert choose(PLAIN, Wish(effort="high")) is None
    assert choose(UNKNOWN, Wish(thinking=True, effort="low")) == effort("low")
    both = choose(UNKNOWN, Wish(thinking={"budget_tokens": 9}, effort="low"))
    assert both == {"budget_tokens": 9, "effort": "low"}


# --------------------------------------------------------------------------- through the doors


async def thought(options: Any, caps: Capabilities = GPT5, tools: bool = True) -> list[Any]:
    """What a loop, an agent and a single call say of thinking."""
    models = [able("x", caps=caps) for _ in range(3)]
    more = {"tools": [add], **options} if tools else options
    await w.agent_loop("go", model=models[0], **more)
    await w.Agent(models[1], **more).run("go")
    await w.llm_call("go", model=models[2], **more)
    return [model.requests[0].settings.thinking for model in models]


async def test_by_default_a_loop_with_tools_is_an_agent_and_a_call_a_chat():
    assert await thought({}) == [effort("medium"), effort("medium"), effort("low")]
    assert await thought({}, tools=False) == [effort("low")] * 3
    assert await thought({}, CLAUDE) == [None] * 3
    assert await thought({}, UNKNOWN) == [None] * 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"reasoning_policy": "off"}, effort("minimal")),
        ({"reasoning_policy": False}, effort("minimal")),
        ({"thinking_policy": "high"}, effort("high")),
        ({"reasoning_scale": "large", "reasoning_task": "code"}, effort("high")),
        ({"problem_scale": "small", "reasoning_task": "chat"}, effort("minimal")),
        ({"reasoning_task": "summarize"}, effort("minimal")),
        ({"reasoning_effort": "high", "reasoning_policy": "off"}, effort("high")),
        (
            {"thinking": {"mode": "effort", "effort": "low"}, "reasoning_policy": "high"},
            {"mode": "effort", "effort": "low"},
        ),
        ({"thinking": True, "reasoning_effort": "low"}, effort("low")),
        ({"thinking": effort("low"), "reasoning_effort": "low"}, effort("low")),
        ({"reasoning_policy": True, "reasoning_task": "code"}, effort("medium")),
    ],
)
async def test_every_option_has_its_say_through_every_door(options: Any, expected: Any):
    assert await thought(options) == [expected] * 3


async def test_a_short_reply_leaves_less_room_to_think():
    expected = {"mode": "enabled", "budget_tokens": 2000}
    assert await thought({"reasoning_policy": "high", "max_tokens": 4000}, FLASH) == [expected] * 3


async def test_llm_options_have_the_last_word():
    model = able("x", caps=GPT5)
    await w.agent_loop(
        "go", model=model, reasoning_effort="high", llm_options={"reasoning_effort": "low"}
    )
    assert model.requests[0].settings.thinking == effort("low")


async def test_thinking_between_calls_is_left_to_the_wire_unless_it_is_said():
    async def interleaved(options: Any, caps: Capabilities = CLAUDE) -> list[Any]:
        models = [able("x", caps=caps) for _ in range(2)]
        await w.agent_loop("go", model=models[0], tools=[add], **options)
        await w.llm_call("go", model=models[1], tools=[add], **options)
        return [model.requests[0].settings.interleaved_thinking for model in models]

    assert await interleaved({"thinking": True}) == [None, None]
    assert await interleaved({"thinking": True, "interleaved_thinking": False}) == [False, False]
    assert await interleaved({"interleaved_thinking": True}) == [True, True]
    assert await interleaved({}) == [None, None]
    assert await interleaved({"thinking": True}, GPT5) == [None, None]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reasoning_policy": "hihg"}, "'high'"),
        ({"reasoning_policy": 3}, "reasoning_policy"),
        ({"reasoning_policy": None}, "reasoning_policy"),
        ({"reasoning_scale": "larg"}, "'large'"),
        ({"reasoning_task": "coding"}, "'code'"),
        ({"reasoning_effort": "mediun"}, "'medium'"),
        ({"reasoning_effort": True}, "reasoning_effort"),
        ({"thinking": {"budget_token": 3}}, "'budget_tokens'"),
        ({"thinking": {"budget_tokens": -1}}, "thinking.budget_tokens"),
        ({"thinking": {"budget_tokens": True}}, "thinking.budget_tokens"),
        ({"thinking": {"mode": "efort"}}, "'effort'"),
        ({"thinking": {"effort": "hig"}}, "'high'"),
        ({"thinking": {}}, "empty"),
        ({"thinking": "yes"}, "thinking"),
        ({"interleaved_thinking": "yes"}, "interleaved_thinking"),
        ({"anthropic_beta_features": "context-1m"}, "anthropic_beta_features"),
        ({"anthropic_beta_features": [3]}, "anthropic_beta_features"),
        ({"thinking": False, "reasoning_effort": "low"}, "leave one"),
        ({"thinking": {"mode": "disabled"}, "reasoning_effort": "low"}, "leave one"),
        ({"thinking": {"effort": "high"}, "reasoning_effort": "low"}, "give one"),
        ({"reasoning_policy": "low", "thinking_policy": "low"}, "same option"),
        ({"reasoning_scale": "small", "problem_scale": "small"}, "same option"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_any_call(options: Any, words: str):
    model = scripted("never")
    for door in (w.agent_loop, w.llm_call):
        with pytest.raises(w.ConfigError, match=words):
            await door("go", None, {"model": model, **options})
    assert not model.requests


def test_the_same_model_and_work_give_the_same_settings():
    """The frame of a run is built anew at every start: it must come out the same object's worth."""
    caps = capabilities_of("openai", "gpt-5")
    assert usual_settings(caps, "agent") is usual_settings(caps, "agent")
    assert usual_settings(UNKNOWN, "agent") == w.Settings()


@pytest.mark.parametrize(
    ("provider", "model", "chat", "agent"),
    [
        ("openai", "gpt-4o", None, None),
        ("openai", "gpt-5", effort("low"), effort("medium")),
        ("anthropic", "claude-opus-4-7", None, None),
        ("anthropic", "claude-sonnet-4-20250514", None, None),
        ("anthropic", "claude-3-5-haiku-latest", None, None),
        ("gemini", "gemini-2.5-flash", tokens(2048), tokens(8192)),
        ("ollama", "llama3.2", None, None),
        ("ollama", "qwen3", OFF, OFF),
    ],
)
def test_what_known_models_are_told_by_default(provider: str, model: str, chat: Any, agent: Any):
    caps = capabilities_of(provider, model)
    assert usual_settings(caps, "chat").thinking == chat
    assert usual_settings(caps, "agent").thinking == agent

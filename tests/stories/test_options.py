"""Every option does something, through every door that takes it; a wrong one is refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests import option_areas
from tests.stories.helpers import (
    add,
    kept,
    note,
    said,
)
from windlass.engine.keywords import LoopOptions
from windlass.events import RunStarted
from windlass.testing import call, scripted

SETTINGS = {
    "max_tokens": 77,
    "temperature": 0.3,
    "top_p": 0.9,
    "top_k": 5,
    "stop": ["END"],
    "seed": 7,
    "frequency_penalty": 0.5,
    "presence_penalty": -0.5,
    "tool_choice": "auto",
    "thinking": {"budget_tokens": 2000},
    "stream": False,
    "timeout": 9.0,
}


def sent(settings: w.Settings, name: str) -> Any:
    value = getattr(settings, name)
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", SETTINGS)
async def test_a_setting_goes_with_every_call(name: str):
    value = SETTINGS[name]
    loop, agent, single = (scripted("x") for _ in range(3))
    await w.agent_loop("go", model=loop, tools=[add], **{name: value})
    await w.Agent(agent, tools=[add], **{name: value}).run("go")
    await w.llm_call("go", model=single, tools=[add], **{name: value})
    for model in (loop, agent, single):
        assert sent(model.requests[0].settings, name) == value


@pytest.mark.parametrize("name", SETTINGS)
async def test_llm_options_are_merged_into_every_call_and_have_the_last_word(name: str):
    model = scripted("x")
    await w.agent_loop(
        "go", model=model, tools=[add], temperature=0.1, llm_options={name: SETTINGS[name]}
    )
    assert sent(model.requests[0].settings, name) == SETTINGS[name]


async def test_a_setting_nobody_gave_is_left_to_the_provider():
    model = scripted("x")
    await w.agent_loop("go", model=model)
    assert model.requests[0].settings == w.Settings()


async def test_options_may_come_as_a_dict():
    model = scripted(call("add", a=1, b=1), "2")
    out = await w.agent_loop(
        "go", "Be brief.", {"model": model, "tools": [add], "temperature": 0.5}
    )
    assert (out.final_text, model.requests[0].system) == ("2", "Be brief.")
    assert model.requests[0].settings.temperature == 0.5


async def test_a_name_given_beside_a_dict_has_the_last_word():
    model = scripted("x")
    await w.agent_loop("go", None, {"model": model, "temperature": 0.5}, temperature=0.7)
    assert model.requests[0].settings.temperature == 0.7


async def test_the_system_prompt_may_be_an_option():
    model = scripted("x")
    await w.agent_loop("go", model=model, system="Be brief.")
    assert model.requests[0].system == "Be brief."
    with pytest.raises(w.ConfigError, match="twice"):
        await w.agent_loop("go", "one", model=scripted(), system="two")


async def test_messages_stand_for_the_prompt():
    model = scripted("x")
    await w.agent_loop(
        "ignored",
        model=model,
        messages=[
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ],
    )
    assert said(model.requests[0]) == ["a", "b", "c"]


async def test_a_model_may_be_named():
    w.llm_mock(text="from the mock")
    assert (await w.agent_loop("go", model="mock:any")).final_text == "from the mock"
    w.llm_mock(text="again")
    assert (await w.agent_loop("go", provider="mock", model="any")).final_text == "again"
    w.llm_mock(text="and again")
    assert (await w.Agent("mock:any").run("go")).output == "and again"
    assert w.llm_mock_calls()[0].options["model"] == "any"


async def test_an_unknown_model_names_the_nearest():
    with pytest.raises(w.ConfigError, match="anthropic"):
        await w.agent_loop("go", model="antropic:claude-sonnet-4-5")


async def test_tools_may_be_functions_objects_registries_and_names():
    def double(n: int) -> int:
        """Twice as much."""
        return n * 2

    registry = w.tool_define(w.tool_registry(), "half", "Half.", {"handler": lambda args: 1})
    model = scripted("x")
    tools = [double, add, *[registry], "tests.stories.helpers:note"]
    await w.Agent(model, tools=tools).run("go")
    assert {tool.name for tool in model.requests[0].tools} == {"double", "add", "half", "note"}


async def test_a_run_has_a_name_and_an_id():
    out = await w.agent_loop("go", model=scripted("x"), name="clerk", run_id="run_7")
    [started] = [e for e in out.entries if isinstance(e, RunStarted)]
    assert (started.name, started.run_id, started.door) == ("clerk", "run_7", "agent_loop")
    out = await w.Agent(scripted("x"), name="clerk").run("go", run_id="run_8")
    [started] = [e for e in out.entries if isinstance(e, RunStarted)]
    assert (started.name, started.run_id, started.door) == ("clerk", "run_8", "agent")


async def test_an_agent_may_be_bound_to_a_session():
    agent = w.Agent(scripted("a", "b"), session_id="s")
    await agent.run("one")
    assert len((await agent.run("two")).all_messages) == 4


async def test_the_system_prompt_may_be_written_for_each_run():
    def system(ctx: w.ToolContext[str]) -> str:
        return f"You serve {ctx.deps} for {ctx.caller}."

    async def plain() -> str:
        return "You wait."

    model = scripted(then="x")
    agent = w.Agent(model, system=system)
    await agent.run("go", deps="soup", caller=w.Caller("ann"))
    assert model.requests[0].system == "You serve soup for ann."
    await agent.run("go", system=plain)
    assert model.requests[1].system == "You wait."
    await agent.run("go", system="You cook.")
    assert model.requests[2].system == "You cook."
    async with agent.stream("go", deps="tea", caller=w.Caller("bob")) as run:
        await run.result()
    assert model.requests[3].system == "You serve tea for bob."


# --------------------------------------------------------------------------- agents from agents


async def test_an_agent_with_other_options_is_another_agent():
    model = scripted(then=call("add", a=1, b=1))
    agent = w.Agent(model, tools=[add], max_turns=2)
    assert (await agent.with_(max_turns=3).run("go")).turns == 3
    assert (await agent.override(max_turns=4).run("go")).turns == 4
    assert (await agent.run("go", max_turns=5)).turns == 5
    assert (await agent.run("go")).turns == 2
    other = scripted("x")
    assert (await agent.with_(model=other).run("go")).output == "x"
    with pytest.raises(w.ConfigError, match="max_turns"):
        agent.with_(max_turn=1)


async def test_an_agent_serves_many_runs_at_once():
    import asyncio

    agent = w.Agent(scripted(then=lambda request: f"heard {request.messages[-1].text}"))
    outs = await asyncio.gather(*(agent.run(str(n)) for n in range(20)))
    assert [out.output for out in outs] == [f"heard {n}" for n in range(20)]


async def test_an_agent_as_a_tool_has_its_own_words():
    child = w.Agent(scripted("x"), name="clerk")
    tool = child.as_tool()
    assert (tool.name, "clerk" in tool.description) == ("clerk", True)
    tool = child.as_tool(name="ask_clerk", description="Ask the clerk.")
    assert (tool.name, tool.description) == ("ask_clerk", "Ask the clerk.")


# --------------------------------------------------------------------------- wrong options


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_iterations", 0),
        ("max_iterations", "5"),
        ("max_iterations", True),
        ("max_nudges", -1),
        ("nudge", ""),
        ("max_concurrent_tools", 0),
        ("max_calls_per_reply", 0),
        ("token_budget", 0),
        ("budget", {"dollars": 1}),
        ("budget", {"usd": -1}),
        ("budget", 3),
        ("loop_until_done", "yes"),
        ("tool_format", "xml"),
        ("eager_tools", 1),
        ("tool_timeout", -1),
        ("tool_result_max_bytes", 3),
        ("tool_arg_validation", "loose"),
        ("policies", [print]),
        ("session_id", ""),
        ("on_event", 3),
        ("abort", True),
        ("caller", "ann"),
        ("llm_options", {"temprature": 1}),
        ("llm_options", [1]),
        ("temperature", 3),
        ("max_tokens", 0),
        ("top_p", 2),
        ("stop", 3),
        ("tool_choice", "maybe"),
        ("thinking", "much"),
        ("stream", None),
        ("closing_answer", "yes"),
        ("await_resumption", "yes"),
        ("store", 3),
        ("name", ""),
        ("provider", 3),
        ("tools", [3]),
        ("tools", 3),
        ("model", 3),
    ],
)
async def test_an_impossible_value_is_refused_before_any_call(option: str, value: Any):
    model = scripted("never")
    options = {"model": model, option: value}
    words = {"tools": "tool", "budget": "budget|usd"}
    with pytest.raises(w.ConfigError, match=words.get(option, option)):
        await w.agent_loop("go", None, options)
    assert not model.requests


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("max_iteration", "max_iterations"),
        ("loop_til_done", "loop_until_done"),
        ("tool", "tools"),
        ("nudges", "nudge"),
        ("iterations", "max_iterations"),
        ("abort_signal", "abort"),
        ("system_prompt", "system"),
    ],
)
async def test_an_unknown_option_names_the_nearest(typed: str, meant: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=f"'{typed}'.*'{meant}'"):
        await w.agent_loop("go", None, {"model": model, typed: 1})
    assert not model.requests


def test_every_option_is_known_to_the_walk():
    """A new option comes with its story: this list is what the stories cover."""
    covered = set(SETTINGS) | {
        "model",
        "provider",
        "messages",
        "tools",
        "tool_format",
        "session_id",
        "store",
        "on_event",
        "abort",
        "caller",
        "deps",
        "loop_until_done",
        "persistent",
        "done_sentinel",
        "max_iterations",
        "max_nudges",
        "nudge",
        "max_concurrent_tools",
        "max_calls_per_reply",
        "token_budget",
        "budget",
        "max_resume_attempts",
        "take_over",
        "on_cancel",
        "on_pending",
        "closing_answer",
        "await_resumption",
        "llm_options",
        "eager_tools",
        "tool_timeout",
        "tool_result_max_bytes",
        "tool_arg_validation",
        "policies",
        "name",
        "run_id",
        "system",
        "max_turns",
        "max_token_budget",
        "llm_caller",
        # in test_daemons
        "daemon",
        "persist_path",
        "resume_path",
        "wake_interval_ms",
        "watch_paths",
        "consolidate_on_idle",
        "idle_watchdog_attempts",
        "event_queue_capacity",
        # in test_guardrails and test_model_by_name
        "agents",
        "subagents",
        "subagent_tools",
        "description",
        "version",
        "handoffs",
        "handoffs_back",
        "input_guardrails",
        "max_handoffs",
        "mcp_servers",
        "output_guardrails",
        "api_key",
        "base_url",
        "headers",
        "llm_retries",
        "llm_backoff_ms",
        "tool_search",
        "request_id",
        "conversation_id",
        # in test_call_options, test_structured and test_reasoning
        "model_tier",
        "cache",
        "task_kind",
        "response_format",
        "schema",
        "transcript",
        "reasoning_policy",
        "thinking_policy",
        "reasoning_scale",
        "problem_scale",
        "reasoning_task",
        "reasoning_effort",
        "interleaved_thinking",
        "anthropic_beta_features",
    }
    judged = set(option_areas.JUDGEMENT)  # have stories of their own
    judged |= option_areas.CONTEXT | option_areas.AUTHORITY
    judged |= {"role", "allowed_tools", "disallowed_tools", "output", "deps_type"}
    known = (
        set(LoopOptions.__annotations__)
        | option_areas.LOOP
        | option_areas.AGENT
        | option_areas.CALL
    )
    assert known - judged == covered


# --------------------------------------------------------------------------- results


async def test_a_loop_result_as_plain_data(tmp_path: Path):
    import json

    model = scripted(call("add", a=1, b=1), call("nope"), "2")
    out = await w.agent_loop("go", model=model, tools=[add, note])
    data = json.loads(json.dumps(out.to_dict()))
    assert data["status"] == "done" and data["error"] is None
    assert data["llm"] == {
        "iterations": 3,
        "duration_ms": out.llm.duration_ms,
        "input_tokens": 30,
        "output_tokens": 15,
    }
    assert data["tools"] == {
        "calls": ["add", "nope"],
        "successful": ["add"],
        "rejected": ["nope"],
        "mode": "native",
    }
    assert data["trace"]["status"] == "done" and data["transcript"]["messages"]
    assert out["status"] == "done"
    assert out["final_text"] == data["final_text"] == "2"
    await kept(out, model)


async def test_a_provider_error_says_everything():
    error = w.RateLimited("slow down", provider="acme", model="m1", code="rl_1")
    out = await w.agent_loop("go", model=scripted(call("add", a=1, b=1), then=error), tools=[add])
    assert (out.status, out.stop_reason) == ("provider_error", "rate_limit")
    assert out.error == {
        "category": "rate_limit",
        "reason": "rl_1",
        "kind": "RateLimited",
        "provider": "acme",
        "model": "m1",
        "message": "slow down",
        "phase": "model",
        "tool_format": "native",
        "after_tool_result": True,
    }
    with pytest.raises(w.RateLimited) as caught:
        out.raise_for_status()
    assert caught.value.session_id == out.session_id
    assert caught.value.trace["iterations"] == 1
    text = await w.agent_loop(
        "go", model=scripted(then=w.ServerError("x")), tools=[add], tool_format="text"
    )
    assert text.error is not None
    assert (text.error["tool_format"], text.error["after_tool_result"]) == ("text", False)


async def test_done_raises_nothing():
    (await w.agent_loop("go", model=scripted("x"))).raise_for_status()


async def test_a_result_has_a_short_repr_and_a_timeline():
    out = await w.Agent(scripted("y" * 500)).run("go")
    assert len(repr(out)) < 140 and "done" in repr(out)
    assert '<iframe sandbox="allow-scripts"' in out._repr_html_()


async def test_an_agents_result():
    model = scripted(call("add", a=1, b=2), "3")
    out = await w.Agent(model, tools=[add]).run("1+2?")
    assert out.output == out.final_text == "3"
    assert (out.turns, out.token_usage) == (2, {"input_tokens": 20, "output_tokens": 10})
    assert out.usage == w.Usage(input_tokens=20, output_tokens=10)
    [record] = out.tool_calls
    assert (record.tool_name, record.input, record.output) == ("add", {"a": 1, "b": 2}, "3")
    assert [m.role for m in out.messages] == ["assistant", "tool", "assistant"]
    assert out.budget_exceeded is False

"""The examples of `oma-agent-runner.txt` and `harper-auto-loop.txt` in Python."""

from __future__ import annotations

from typing import Any

import windlass as w
from windlass.testing import call, scripted


@w.tool(side_effect_level="read_only")
async def search_product(name: str) -> str:
    """Search products."""
    return f"one {name}"


@w.tool(side_effect_level="read_only")
async def get_product(id: int) -> str:
    """Get a product."""
    return f"product {id}"


async def test_agent_runner():
    runner = w.Agent(scripted("Hello."), max_turns=10)
    result = await runner.run([{"role": "user", "content": "Hi"}])
    assert (result.output, result.turns, result.tool_calls) == ("Hello.", 1, [])
    assert set(result.token_usage) == {"input_tokens", "output_tokens"}
    assert not result.loop_detected and not result.budget_exceeded


async def test_agent_runner_callbacks():
    seen: list[str] = []
    runner = w.Agent(scripted(call("get_product", id=1), "One."), tools=[get_product], name="shop")
    result = await runner.run(
        "Which?",
        on_tool_call=lambda name, input: seen.append(f"call {name}"),
        on_tool_result=lambda name, result: seen.append(f"result {name}"),
        on_message=lambda message: seen.append(message.role),
        run_id="r1",
    )
    assert result.run_id == "r1" and result.tool_calls[0].tool_name == "get_product"
    assert seen[:2] == ["assistant", "call get_product"] and "result get_product" in seen


async def test_agent_runner_streams():
    runner = w.Agent(scripted(call("get_product", id=1), "One."), tools=[get_product])
    kinds: list[str] = []
    async with runner.stream("Which?") as run:
        async for event in run.events():
            kinds.append(event.type)
    assert kinds[-1] == "done" and {"text", "tool_use", "tool_result"} <= set(kinds)


async def test_generate_in_auto_mode():
    async with w.Runtime(store="memory:", tools=[search_product, get_product], environ={}) as scope:
        model: Any = scripted(call("search_product", name="chair"), "One chair.")
        result = await scope.models.generate(
            "How many chairs?",
            model=model,
            tools=["search_product", "get_product"],
            tool_mode="auto",
            max_tool_iterations=10,
            max_cost_usd=None,
            tool_parallelism="parallel",
            tool_result_max_bytes=65536,
            tool_arg_validation="strict",
            tool_error_mode="recover",
            include_tool_trace=True,
        )
        assert result.content == "One chair." and not result.tool_calls
        assert [entry.type for entry in result.trace or ()][1:3] == ["tool_call", "tool_result"]


async def test_generate_returns_calls_if_asked():
    async with w.Runtime(store="memory:", tools=[search_product], environ={}) as scope:
        model: Any = scripted(call("search_product", name="chair"))
        result = await scope.models.generate("How many?", model=model, tool_mode="return")
        assert [one.name for one in result.tool_calls] == ["search_product"]


async def test_generate_stream():
    async with w.Runtime(store="memory:", tools=[search_product], environ={}) as scope:
        model: Any = scripted(call("search_product", name="chair"), "One chair.")
        chunks = [chunk async for chunk in scope.models.generate_stream("How many?", model=model)]
        assert "".join(chunk.delta_content or "" for chunk in chunks) == "One chair."
        assert any(chunk.delta_tool_calls for chunk in chunks)
        assert chunks[-1].finish_reason == "stop"

"""The iteration loop of typed agents: each scenario that the document describes, translated."""

from __future__ import annotations

from typing import Any

import windlass as w
from tests.stories.attempts.invoices import ANN, BILL, define, reflecting
from windlass.testing import call, scripted

OUTPUT = call("give_invoice", **BILL)


async def execute(agent: w.AgentDefinition[Any], **options: Any) -> tuple[Any, list[str]]:
    """Execute an agent; return the outcome and the tools whose results were announced."""
    seen: list[str] = []
    outcome = await w.execute_agent(
        agent,
        "mail",
        on_tool_result=lambda _, name, text: seen.append(f"{name}: {text}"),
        **options,
    )
    return outcome, seen


async def test_output_tool_called_immediately():
    plain, _ = await execute(define(scripted(OUTPUT)))
    assert isinstance(plain, w.Success) and plain.output == ANN
    waits, seen = await execute(reflecting(scripted(OUTPUT, call("submit"))))
    assert isinstance(waits, w.Success) and seen == ["give_invoice: Ann owes 12.50"]


async def test_multiple_output_tool_calls_with_reflection():
    first = call("give_invoice", customer="Bob", total=1)
    outcome, seen = await execute(reflecting(scripted(first, OUTPUT, call("submit"))))
    assert isinstance(outcome, w.Success) and outcome.output == ANN
    assert seen == ["give_invoice: Bob owes 1.00", "give_invoice: Ann owes 12.50"]
    early, _ = await execute(reflecting(scripted(call("submit"))))
    assert early.code is w.AgentErrorCode.SUBMIT_BEFORE_OUTPUT


async def test_mixed_tool_uses_in_a_single_response():
    model = scripted([call("look_up", name="1"), OUTPUT, call("look_up", name="2")])
    outcome, seen = await execute(define(model))
    assert isinstance(outcome, w.Success) and len(model.requests) == 1
    assert seen == ["look_up: 1 is customer 7", "look_up: 2 is customer 7"]


async def test_unknown_tool_called():
    model = scripted(call("helper_9"), OUTPUT)
    outcome, _ = await execute(define(model))
    assert isinstance(outcome, w.Success)
    [result] = model.requests[1].messages[-1].content
    assert (result.text, result.is_error) == ("Error: Unknown tool helper_9", True)


async def test_tool_handler_throws_exception():
    def handler(arguments: dict[str, Any]) -> object:
        raise RuntimeError("no such table")

    helper = {
        "definition": {"name": "query", "description": "Query.", "input_schema": {}},
        "handler": handler,
    }
    model = scripted(call("query"), OUTPUT)
    outcome, seen = await execute(define(model, helpers=[helper]))
    assert isinstance(outcome, w.Success) and seen == ["query: Error: no such table"]
    [result] = model.requests[1].messages[-1].content
    assert (result.text, result.is_error) == ("Error: no such table", True)


async def test_iteration_limit_exceeded():
    outcome, _ = await execute(define(scripted(then=call("look_up", name="x"))))
    assert outcome.code is w.AgentErrorCode.MAX_ITERATIONS
    context = outcome.context
    assert (context.attempt, context.iteration_count, context.max_iterations) == (1, 15, 15)
    assert outcome.metadata.tokens.total_tokens == 15 * 15


async def test_abort_signal_during_iteration():
    abort = w.Abort()

    @w.tool
    async def pull() -> str:
        """Pull the brake."""
        abort.abort()
        return "pulled"

    outcome, _ = await execute(define(scripted(then=call("pull")), helpers=[pull]), abort=abort)
    assert outcome.code is w.AgentErrorCode.EXECUTION_CANCELLED
    assert (outcome.context.phase, outcome.context.iteration_count) == ("iteration", 1)


async def test_conversation_history_accumulates_over_iterations_and_attempts():
    model = scripted(
        [call("look_up", name="1"), call("look_up", name="2")],
        call("give_invoice", customer="Ann", total=0),
        OUTPUT,
    )
    await execute(define(model))
    roles = [message.role for message in model.requests[-1].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "user"]
    assert len(model.requests[-1].messages[2].content) == 2

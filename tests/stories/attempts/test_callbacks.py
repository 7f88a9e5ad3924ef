"""Callbacks of an execution: when they are called, with what, and what becomes of their errors."""

from __future__ import annotations

from typing import Any

import windlass as w
from tests.stories.attempts.invoices import BILL, Invoice, define, reflecting
from windlass.testing import call, scripted

FREE = {"customer": "Ann", "total": 0}


class Log:
    """Everything that callbacks are told."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self.states: list[w.AgentExecutionState] = []

    def callbacks(self) -> w.ExecuteCallbacks:
        return {
            "on_attempt_start": self.start,
            "on_tool_call": self.call,
            "on_tool_result": self.result,
            "on_validation_failure": self.failure,
        }

    def start(self, state: w.AgentExecutionState) -> None:
        self.states.append(state)
        self.lines.append(("start", state.attempt, state.iteration_count))

    def call(self, state: w.AgentExecutionState, name: str, arguments: dict[str, Any]) -> None:
        self.states.append(state)
        self.lines.append(("call", name, arguments, state.iteration_count))

    def result(self, state: w.AgentExecutionState, name: str, text: str) -> None:
        self.states.append(state)
        self.lines.append(("result", name, text))

    def failure(self, state: w.AgentExecutionState, attempt: w.Attempt[object]) -> None:
        self.states.append(state)
        self.lines.append(("failure", attempt.number, attempt.value, attempt.errors))


async def test_callbacks_come_in_the_order_of_what_happens():
    @w.tool
    async def broken() -> str:
        """Fail."""
        raise ValueError("out of order")

    model = scripted(
        [call("broken"), call("no_such_tool")],
        call("give_invoice", **FREE),
        call("give_invoice", **BILL),
        usage={"input_tokens": 10},
    )
    log = Log()
    outcome = await w.execute_agent(
        define(model, helpers=[broken]), "mail", deps="db", **log.callbacks()
    )
    assert isinstance(outcome, w.Success) and outcome.metadata.callback_errors == ()
    assert log.lines == [
        ("start", 1, 0),
        ("call", "broken", {}, 1),
        ("result", "broken", "Error: out of order"),
        ("failure", 1, Invoice("Ann", 0), ("total must be positive",)),
        ("start", 2, 0),
    ]
    phases = [state.phase for state in log.states]
    assert phases == ["prompt", "iteration", "iteration", "validation", "prompt"]
    assert [state.tokens.input_tokens for state in log.states] == [0, 10, 10, 20, 20]
    assert {(state.input, state.deps, state.resumed) for state in log.states} == {
        ("mail", "db", False)
    }
    assert log.states[-1].messages[-1].role == "user"


async def test_callbacks_see_the_reflection_handler_and_no_plain_output():
    log, plain = Log(), Log()
    model = scripted(call("give_invoice", **BILL), call("submit"))
    await w.execute_agent(reflecting(model), "mail", **log.callbacks())
    assert log.lines == [
        ("start", 1, 0),
        ("call", "give_invoice", BILL, 1),
        ("result", "give_invoice", "Ann owes 12.50"),
    ]
    await w.execute_agent(
        define(scripted(call("give_invoice", **BILL))), "mail", **plain.callbacks()
    )
    assert plain.lines == [("start", 1, 0)]


async def test_callback_errors_are_collected_and_break_nothing():
    def fail(*given: object) -> None:
        raise RuntimeError("broken callback")

    async def fail_later(*given: object) -> None:
        raise KeyError("later")

    model = scripted(
        call("look_up", name="Ann"), call("give_invoice", **FREE), call("give_invoice", **BILL)
    )
    outcome = await w.execute_agent(
        define(model),
        "mail",
        on_attempt_start=fail,
        on_tool_call=fail_later,
        on_tool_result=fail,
        on_validation_failure=fail_later,
    )
    assert isinstance(outcome, w.Success)
    found = sorted((each.callback, type(each.error)) for each in outcome.metadata.callback_errors)
    assert found == [
        ("on_attempt_start", RuntimeError),
        ("on_attempt_start", RuntimeError),
        ("on_tool_call", KeyError),
        ("on_tool_result", RuntimeError),
        ("on_validation_failure", KeyError),
    ]


async def test_callback_errors_are_in_a_failure_too():
    def fail(*given: object) -> None:
        raise RuntimeError("broken callback")

    outcome = await w.execute_agent(define(scripted("text")), "mail", on_attempt_start=fail)
    assert isinstance(outcome, w.Failure)
    assert [str(each.error) for each in outcome.metadata.callback_errors] == ["broken callback"]


async def test_callback_cannot_change_the_arguments_of_a_call():
    def change(state: object, name: str, arguments: dict[str, Any]) -> None:
        arguments["name"] = "Mallory"

    model = scripted(call("look_up", name="Ann"), call("give_invoice", **BILL))
    await w.execute_agent(define(model), "mail", on_tool_call=change)
    assert model.requests[1].messages[-1].content[0].text == "Ann is customer 7"


async def test_events_of_the_run_are_there_beside_the_callbacks():
    names: list[str] = []
    model = scripted(call("give_invoice", **FREE), call("give_invoice", **BILL))
    await w.execute_agent(
        define(model), "mail", on_event=lambda event: names.append(getattr(event, "name", ""))
    )
    assert [name for name in names if name.startswith("attempt_")] == [
        "attempt_started",
        "attempt_ended",
        "attempt_started",
        "attempt_ended",
    ]

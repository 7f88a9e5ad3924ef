"""Executions that are cut off anywhere go on in the attempt that they were in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.attempts.invoices import ANN, BILL, Invoice, define, reflecting
from tests.stories.helpers import written
from windlass.engine.environment import current_environment
from windlass.events import Noted, Replied, RunStarted
from windlass.replay.replay import recorded_runs, replay_run
from windlass.store.codec import decode
from windlass.testing import call, scripted
from windlass.testing.script import ScriptedModel


def answer(request: w.Request) -> Any:
    """Answer by what was said so far: two attempts, each with a helper, the second passes."""
    turns = [message for message in request.messages if message.role == "assistant"]
    prices = {1: 0.0, 4: 12.5}
    return {
        0: call("look_up", name="Ann"),
        1: [call("look_up", name="Bob"), call("give_invoice", customer="Ann", total=prices[1])],
        2: call("look_up", name="Cid"),
        3: call("no_such_tool"),
        4: call("give_invoice", customer="Ann", total=prices[4]),
    }[len(turns)]


def reflect(request: w.Request) -> Any:
    """Answer by what was said so far: two attempts with reflection."""
    turns = [message for message in request.messages if message.role == "assistant"]
    return {
        0: call("give_invoice", customer="Ann", total=-1.0),
        1: call("submit"),
        2: call("give_invoice", customer="Ann", total=99.0),
        3: [call("look_up", name="Ann"), call("give_invoice", customer="Ann", total=12.5)],
        4: call("submit"),
    }[len(turns)]


class Log:
    """What callbacks were told, with whether it may be a repetition."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, ...]] = []

    def callbacks(self) -> w.ExecuteCallbacks:
        return {
            "on_attempt_start": lambda state: self.add(state, "start"),
            "on_tool_call": lambda state, name, given: self.add(state, "call", name, repr(given)),
            "on_tool_result": lambda state, name, text: self.add(state, "result", name, text),
            "on_validation_failure": lambda state, attempt: self.add(state, *attempt.errors),
        }

    def add(self, state: w.AgentExecutionState, *words: str) -> None:
        self.lines.append((str(state.attempt), str(state.iteration_count), *words))


def tokens(outcome: w.Success[Invoice] | w.Failure) -> w.Usage:
    assert outcome.metadata.tokens is not None
    return outcome.metadata.tokens


@pytest.mark.parametrize(("make", "script"), [(define, answer), (reflecting, reflect)])
async def test_execution_goes_on_after_every_row(make: Any, script: Any):
    whole, log = scripted(then=script), Log()
    first = await w.execute_agent(make(whole), "x", session_id="whole", **log.callbacks())
    assert isinstance(first, w.Success) and first.output == ANN
    assert [each.number for each in first.metadata.attempts] == [1, 2]
    store = current_environment().store
    rows = [decode(row.payload, "whole", 0) for row in await store.rows("whole")]
    cuts = 0
    for cut in range(1, len(rows)):
        before = [entry for row in rows[:cut] for entry in row]
        if not any(type(entry) is RunStarted for entry in before):
            continue
        cuts += 1
        await written(store, f"cut-{cut}", before)
        model, told = scripted(then=script), Log()
        resumed = await w.resume_execution(make(model), f"cut-{cut}", **told.callbacks())
        assert isinstance(resumed, w.Success), (cut, resumed)
        assert resumed.metadata.attempts == first.metadata.attempts
        assert tokens(resumed) == tokens(first)
        answered = sum(type(entry) is Replied for entry in before)
        assert len(model.requests) == 5 - answered, "no model call is paid for twice"
        assert sent(model) == sent(whole)[answered:]
        # What is told again is what was not on record: at most the last thing that was under way.
        assert told.lines == log.lines[len(log.lines) - len(told.lines) :]
        begun = sum(type(entry) is Noted and entry.name == "attempt_started" for entry in before)
        starts = [line for line in told.lines if line[2] == "start"]
        assert len(starts) == 2 - begun
    assert cuts > 10


def sent(model: ScriptedModel) -> list[Any]:
    return [(request.system, tuple(request.messages), request.tools) for request in model.requests]


async def test_callbacks_of_a_resumed_execution_are_marked():
    model = scripted(then=answer)
    await w.execute_agent(define(model), "x", session_id="whole")
    store = current_environment().store
    rows = [decode(row.payload, "whole", 0) for row in await store.rows("whole")]
    await written(store, "cut", [entry for row in rows[:2] for entry in row])
    marks: list[bool] = []
    await w.resume_execution(
        define(scripted(then=answer)),
        "cut",
        on_tool_call=lambda state, name, given: marks.append(state.resumed),
    )
    assert marks and all(marks)


async def test_validator_reads_the_input_that_a_resumed_execution_is_given():
    seen: list[object] = []

    def look(invoice: Invoice, state: w.AgentExecutionState) -> None:
        seen.append((state.input, state.deps))

    store = current_environment().store
    agent = define(scripted(then=answer), validators=[look])
    await w.execute_agent(agent, "mail", deps="db", session_id="whole")
    rows = [decode(row.payload, "whole", 0) for row in await store.rows("whole")]
    await written(store, "cut", [entry for row in rows[:2] for entry in row])
    await w.resume_execution(agent, "cut", input="mail", deps="db")
    assert seen == [("mail", "db")] * 2


async def test_execution_continues_the_conversation_of_its_session():
    chat = w.Agent(scripted("Ann owes 12.50."))
    await chat.run("Who owes what?", session_id="talk")
    model = scripted(call("give_invoice", customer="Ann", total=12.5))
    outcome = await w.execute_agent(define(model), "as said", session_id="talk")
    assert isinstance(outcome, w.Success) and outcome.metadata.session_id == "talk"
    assert [message.text for message in model.requests[0].messages][:2] == [
        "Who owes what?",
        "Ann owes 12.50.",
    ]


async def test_execution_has_the_deps_and_the_store_of_its_definition(tmp_path: Path):
    seen: list[object] = []

    def look(invoice: Invoice, state: w.AgentExecutionState) -> None:
        seen.append(state.deps)

    given: dict[str, Any] = {
        "validators": [look],
        "deps": "db",
        "store": f"sqlite:///{tmp_path / 'own.db'}",
    }
    model = scripted(call("give_invoice", **BILL))
    first = await w.execute_agent(define(model, **given), "x", session_id="s")
    again = await w.resume_execution(define(scripted(), **given), "s")
    assert isinstance(first, w.Success) and isinstance(again, w.Success)
    assert (again.output, seen) == (ANN, ["db"])
    with pytest.raises(w.NoSuchSession):
        await current_environment().store.info("s")


async def test_execution_ended_as_a_failure_stays_so():
    outcome = await w.execute_agent(define(scripted("words")), "x", session_id="ended")
    again = await w.resume_execution(define(scripted()), "ended")
    assert isinstance(outcome, w.Failure) and isinstance(again, w.Failure)
    assert (again.code, again.message, again.context) == (
        outcome.code,
        outcome.message,
        outcome.context,
    )


@pytest.mark.parametrize(("make", "script"), [(define, answer), (reflecting, reflect)])
async def test_execution_can_be_replayed(make: Any, script: Any):
    agent = make(scripted(then=script))
    await w.execute_agent(agent, "x", session_id="whole")
    environment = current_environment()
    entries = await environment.store.read("whole")
    [run] = recorded_runs(entries)
    plan = agent.agent_in(environment).plan
    again = await replay_run("whole", entries, run, environment, plan=plan)
    assert (again.difference, again.requests, again.status) == (None, 5, "done")
    without_program = await replay_run("whole", entries, run, environment)
    assert without_program.difference is None and without_program.requests == 5


async def test_execution_on_a_session_that_is_parked_says_what_waits():
    @w.tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    agent = define(scripted(then=call("pay")), helpers=[pay])
    first = await w.execute_agent(agent, "x", session_id="parked")
    again = await w.execute_agent(agent, "y", session_id="parked")
    for outcome in (first, again):
        assert isinstance(outcome, w.Failure)
        assert outcome.code is w.AgentErrorCode.SUSPENDED
        assert [waiting.name for waiting in outcome.context.pending] == ["pay"]


async def test_executions_of_one_definition_do_not_mix():
    def by_prompt(request: w.Request) -> Any:
        customer = request.messages[0].text.rpartition(" ")[2]
        turns = sum(message.role == "assistant" for message in request.messages)
        return call("give_invoice", customer=customer, total=float(turns))

    agent = define(scripted(then=by_prompt))
    logs = [Log() for _ in range(8)]
    outcomes = await asyncio.gather(
        *[w.execute_agent(agent, f"n{n}", **log.callbacks()) for n, log in enumerate(logs)]
    )
    for number, (outcome, log) in enumerate(zip(outcomes, logs, strict=True)):
        assert isinstance(outcome, w.Success)
        assert outcome.output == Invoice(f"n{number}", 1)
        assert [line[2] for line in log.lines] == ["start", "total must be positive", "start"]


async def test_execution_with_calls_as_text():
    said = '<tool_call>{"name": "give_invoice", "arguments": {"customer": "Ann", "total": 12.5}}</tool_call>'
    outcome = await w.execute_agent(define(scripted(said), tool_format="text"), "x")
    assert isinstance(outcome, w.Success) and outcome.output == ANN


async def test_execution_whose_task_is_cancelled_can_be_resumed():
    model = scripted(then=answer, delay=60)
    agent = define(model)
    task = asyncio.ensure_future(w.execute_agent(agent, "x", session_id="left", on_cancel="park"))
    while not model.requests:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    outcome = await w.resume_execution(define(scripted(then=answer)), "left")
    assert isinstance(outcome, w.Success) and outcome.output == ANN

"""The codes of a failed execution, each with its context and with what it took."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.attempts.invoices import ANN, BILL, GIVE, Invoice, define, look_up, reflecting
from windlass.testing import call, scripted

Code = w.AgentErrorCode
FREE = {"customer": "Ann", "total": 0}


async def failed(
    agent: w.AgentDefinition[Any], code: w.AgentErrorCode, **options: Any
) -> w.Failure:
    """Execute it; it must fail with this code, and say what it took."""
    outcome = await w.execute_agent(agent, "Ann, 12.50", **options)
    assert isinstance(outcome, w.Failure), outcome
    assert (outcome.code, bool(outcome.message)) == (code, True)
    assert outcome.metadata.tokens is not None and outcome.metadata.latency_ms >= 0
    assert outcome.metadata.callback_errors == ()
    return outcome


async def test_max_iterations_ends_an_attempt_without_validation():
    checked: list[object] = []
    model = scripted(then=call("look_up", name="Ann"), usage={"input_tokens": 10})
    agent = define(model, validation={"max_iterations_per_attempt": 4}, validators=[checked.append])
    outcome = await failed(agent, Code.MAX_ITERATIONS)
    context = outcome.context
    assert (context.attempt, context.iteration_count, context.max_iterations) == (1, 4, 4)
    assert len(model.requests) == 4 and checked == []
    assert outcome.metadata.tokens == w.Usage(40)


async def test_max_iterations_is_fifteen_unless_said_otherwise():
    model = scripted(then=call("look_up", name="Ann"))
    outcome = await failed(define(model), Code.MAX_ITERATIONS)
    assert outcome.context.max_iterations == len(model.requests) == 15


async def test_max_iterations_counts_each_attempt_anew():
    replies = [call("look_up", name="x"), call("look_up", name="y"), call("give_invoice", **FREE)]
    model = scripted(*replies, *replies, then=call("look_up", name="z"))
    agent = define(model, validation={"max_iterations_per_attempt": 3})
    outcome = await failed(agent, Code.MAX_ITERATIONS)
    assert (outcome.context.attempt, len(model.requests)) == (3, 9)


async def test_max_iterations_holds_for_reflection_without_submit():
    model = scripted(then=call("give_invoice", **BILL))
    agent = reflecting(model, validation={"max_iterations_per_attempt": 2})
    outcome = await failed(agent, Code.MAX_ITERATIONS)
    assert outcome.metadata.attempts[0].value == ANN


async def test_output_in_the_last_iteration_counts():
    model = scripted(call("look_up", name="Ann"), call("give_invoice", **BILL))
    agent = define(model, validation={"max_iterations_per_attempt": 2})
    assert isinstance(await w.execute_agent(agent, "x"), w.Success)


async def test_submit_before_output():
    outcome = await failed(reflecting(scripted(call("submit"))), Code.SUBMIT_BEFORE_OUTPUT)
    assert (outcome.context.attempt, outcome.context.iteration_count) == (1, 1)


async def test_submit_after_an_output_that_was_denied():
    model = scripted([call("give_invoice", **BILL), call("submit")])
    agent = reflecting(model, permissions={"deny": ["give_invoice"]})
    await failed(agent, Code.SUBMIT_BEFORE_OUTPUT)


@pytest.mark.parametrize("stop_reason", ["end_turn", "max_tokens", "refusal"])
async def test_invalid_response_is_a_reply_without_a_call(stop_reason: Any):
    reply = w.Response(w.Message("assistant", "Ann owes 12.50"), w.Usage(10, 5), stop_reason)
    outcome = await failed(define(scripted(reply)), Code.INVALID_RESPONSE)
    assert stop_reason in outcome.message
    assert outcome.metadata.tokens == w.Usage(10, 5)


async def test_validation_failed_holds_what_was_wrong_with_each_attempt():
    model = scripted(
        call("give_invoice", customer="Ann"), then=call("give_invoice", **FREE), usage={}
    )
    outcome = await failed(define(model), Code.VALIDATION_FAILED)
    assert len(model.requests) == outcome.context.attempt == 3
    assert [len(errors) for errors in outcome.context.errors] == [1, 1, 1]
    assert outcome.context.errors[1] == ("total must be positive",)
    assert [attempt.value for attempt in outcome.metadata.attempts] == [
        None,
        Invoice("Ann", 0),
        Invoice("Ann", 0),
    ]
    assert "total must be positive" in outcome.message
    assert model.requests[-1].messages[-1].role == "user"


async def test_validation_of_a_schema_that_no_value_meets():
    impossible = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 5, "maximum": 1}},
        "required": ["n"],
    }
    agent = w.define_agent(
        model=scripted(then=call("give", n=3)),
        output=impossible,
        output_tool={"name": "give", "description": "Give."},
    )
    outcome = await failed(agent, Code.VALIDATION_FAILED)
    assert len(outcome.context.errors) == 3


async def test_validation_by_a_validator_that_answers_nonsense_says_so():
    agent = define(
        scripted(call("give_invoice", **BILL)),
        validators=[lambda invoice: 7],
        validation={"max_attempts": 1},
    )
    outcome = await failed(agent, Code.VALIDATION_FAILED)
    assert "returned 7" in outcome.message


async def test_validator_that_raises_without_words_is_named():
    def silent(invoice: Invoice) -> None:
        raise AssertionError

    agent = define(
        scripted(call("give_invoice", **BILL)), validators=[silent], validation={"max_attempts": 1}
    )
    outcome = await failed(agent, Code.VALIDATION_FAILED)
    assert outcome.context.errors == (("silent: AssertionError",),)


async def test_validation_of_arguments_that_are_no_json():
    broken = w.ToolCall("c1", "give_invoice", {}, raw='{"customer": "Ann", ')
    model = scripted(broken, call("give_invoice", **BILL))
    outcome = await w.execute_agent(define(model), "x")
    assert isinstance(outcome, w.Success)
    assert outcome.metadata.attempts[0].raw == '{"customer": "Ann", '
    assert outcome.metadata.attempts[0].errors


async def test_provider_error_has_its_category():
    model = scripted(call("look_up", name="Ann"), then=w.AuthFailed("bad key"))
    outcome = await failed(define(model), Code.PROVIDER_ERROR)
    assert outcome.context.error is not None and outcome.context.error["category"] == "auth"
    assert (outcome.context.iteration_count, outcome.message) == (1, "bad key")


async def test_run_failed_for_every_other_end():
    class Refusing(w.Policy[None]):
        async def after_turn(self, run: w.Run, turn: w.Turn) -> w.Stop:
            return w.Stop("failed", "no_more")

    agent = define(scripted(call("look_up", name="Ann")), policies=[Refusing()])
    outcome = await failed(agent, Code.RUN_FAILED)
    assert (outcome.context.status, outcome.context.stop_reason) == ("failed", "no_more")


async def test_error_prompt_that_raises_ends_the_run_with_its_message():
    def fail(errors: object) -> str:
        raise RuntimeError("no words")

    agent = define(scripted(then=call("give_invoice", **FREE)), error_prompt=fail)
    outcome = await failed(agent, Code.RUN_FAILED)
    assert "no words" in outcome.message


# --------------------------------------------------------------------------- cancelled


@pytest.mark.parametrize("given_to", ["execution", "definition"])
async def test_cancelled_before_it_began_asks_nobody(given_to: str):
    abort = w.Abort()
    abort.abort("changed my mind")
    built: list[object] = []
    model = scripted("never")
    agent = define(model, prompt=built.append)
    if given_to == "definition":
        agent = define(model, prompt=built.append, abort=abort)
        outcome = await failed(agent, Code.EXECUTION_CANCELLED)
    else:
        outcome = await failed(agent, Code.EXECUTION_CANCELLED, abort=abort)
    assert (outcome.context.phase, outcome.context.stop_reason) == ("prompt", "changed my mind")
    assert model.requests == [] and built == [] and outcome.metadata.session_id == ""


async def test_cancelled_between_two_calls_stops_before_the_next():
    abort = w.Abort()

    @w.tool
    async def pull() -> str:
        """Pull the brake."""
        abort.abort("enough")
        return "pulled"

    model = scripted(then=call("pull"), usage={"input_tokens": 10})
    outcome = await failed(define(model, helpers=[pull]), Code.EXECUTION_CANCELLED, abort=abort)
    assert len(model.requests) == 1
    context = outcome.context
    assert (context.phase, context.attempt, context.iteration_count) == ("iteration", 1, 1)
    assert context.stop_reason == "enough" and outcome.metadata.tokens == w.Usage(10)


async def test_cancelled_in_the_second_attempt_says_so():
    abort = w.Abort()
    model = scripted(then=call("give_invoice", **FREE))
    outcome = await failed(
        define(model),
        Code.EXECUTION_CANCELLED,
        abort=abort,
        on_attempt_start=lambda state: abort.abort() if state.attempt == 2 else None,
    )
    assert (outcome.context.attempt, len(model.requests)) == (2, 1)


async def test_cancelled_while_it_validates():
    abort = w.Abort()

    async def slow(invoice: Invoice) -> None:
        abort.abort("too slow")
        await asyncio.sleep(60)

    agent = define(scripted(call("give_invoice", **BILL)), validators=[slow])
    outcome = await failed(agent, Code.EXECUTION_CANCELLED, abort=abort)
    assert outcome.context.phase == "validation"


async def test_timeout_is_a_cancellation():
    agent = define(scripted(call("give_invoice", **BILL), delay=60))
    outcome = await failed(agent, Code.EXECUTION_CANCELLED, timeout=0.01)
    assert (outcome.context.phase, outcome.context.stop_reason) == ("iteration", "timeout")


# --------------------------------------------------------------------------- suspended


async def test_suspended_lists_what_waits_and_goes_on_with_a_decision():
    @w.tool(requires_approval=True)
    async def pay(amount: float) -> str:
        """Pay."""
        return f"paid {amount}"

    def agent(*replies: Any) -> w.AgentDefinition[Invoice]:
        return define(scripted(*replies), helpers=[pay])

    outcome = await failed(
        agent(call("give_invoice", **FREE), call("pay", amount=5)), Code.SUSPENDED
    )
    [waiting] = outcome.context.pending
    assert (waiting.name, waiting.arguments) == ("pay", {"amount": 5})
    assert "pay" in outcome.message and outcome.context.attempt == 2
    resumed = await w.resume_execution(
        agent(call("give_invoice", **BILL)),
        outcome.metadata.session_id,
        decisions={waiting.id: w.Allow()},
    )
    assert isinstance(resumed, w.Success) and resumed.output == ANN
    assert [attempt.number for attempt in resumed.metadata.attempts] == [1, 2]
    again = await w.resume_execution(agent(), outcome.metadata.session_id)
    assert isinstance(again, w.Success) and again.output == ANN


async def test_suspended_by_a_helper_that_the_host_runs():
    asked = w.Tool("ask_person", "Ask.", {"question": {"type": "string"}})
    model = scripted(call("ask_person", question="how much?"), call("give_invoice", **BILL))
    agent = define(model, helpers=[asked, look_up])
    outcome = await failed(agent, Code.SUSPENDED)
    [waiting] = outcome.context.pending
    resumed = await w.resume_execution(
        agent, outcome.metadata.session_id, results={waiting.id: "12.50"}
    )
    assert isinstance(resumed, w.Success)


async def test_resume_of_an_unknown_session_is_refused():
    with pytest.raises(w.NoSuchSession):
        await w.resume_execution(define(scripted("x")), "nowhere")
    with pytest.raises(w.ConfigError, match="session_id is a text"):
        await w.resume_execution(define(scripted("x")), 7)  # type: ignore[arg-type]


def test_every_code_has_a_word():
    assert {code.value for code in Code} == {code.name for code in Code}
    assert GIVE["name"] and w.ExecuteFailure is w.Failure

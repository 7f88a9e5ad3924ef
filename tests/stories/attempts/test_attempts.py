"""Executions: helpers, outputs with and without reflection, validation, further attempts."""

from __future__ import annotations

from typing import Any, assert_type

import pytest

import windlass as w
from tests.stories.attempts.invoices import (
    ANN,
    BILL,
    GIVE,
    Invoice,
    define,
    is_positive,
    look_up,
    reflecting,
)
from tests.stories.helpers import add, said
from windlass.models.history import audit
from windlass.testing import call, scripted

FREE = {"customer": "Ann", "total": 0}


async def passed(agent: w.AgentDefinition[Invoice], **options: Any) -> w.Success[Invoice]:
    """Execute it; the output must pass."""
    outcome = await w.execute_agent(agent, "Ann, 12.50", **options)
    assert isinstance(outcome, w.Success), outcome
    return outcome


# --------------------------------------------------------------------------- helpers


async def test_helper_results_go_back_to_the_model_before_the_output():
    model = scripted(call("look_up", name="Ann"), call("give_invoice", **BILL))
    outcome = await passed(define(model))
    assert outcome.output == ANN
    assert said(model.requests[1])[-1] == "Ann is customer 7"
    assert [tool.name for tool in model.requests[0].tools] == ["look_up", "give_invoice"]


async def test_helper_by_definition_and_handler_takes_what_its_schema_says():
    seen: list[object] = []

    def handler(arguments: dict[str, Any]) -> object:
        seen.append(arguments)
        return {"found": [1, 2]}

    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    helper = {
        "definition": {"name": "find", "description": "Find.", "input_schema": schema},
        "handler": handler,
    }
    model = scripted(call("find", q=1), call("find", q="x"), call("give_invoice", **BILL))
    await passed(define(model, helpers=[helper]))
    assert seen == [{"q": "x"}]
    assert "not valid" in said(model.requests[1])[-1]
    assert said(model.requests[2])[-1] == '{"found":[1,2]}'


async def test_helper_definition_in_the_form_of_openai_is_taken():
    function = {"name": "find", "description": "Find.", "parameters": {"q": {"type": "string"}}}
    helper = {
        "definition": {"type": "function", "function": function},
        "handler": lambda args: f"saw {args['q']}",
    }
    model = scripted(call("find", q="x"), call("give_invoice", **BILL))
    await passed(define(model, helpers=[helper]))
    assert said(model.requests[1])[-1] == "saw x"


async def test_helpers_of_one_reply_run_in_their_order_and_answer_in_one_message():
    order: list[int] = []

    @w.tool
    async def step(n: int) -> int:
        """Take a step."""
        order.append(n)
        return n

    model = scripted([call("step", n=1), call("step", n=2)], call("give_invoice", **BILL))
    await passed(define(model, helpers=[step]))
    assert order == [1, 2]
    asked, answered = model.requests[1].messages[-2:]
    assert (asked.role, len(asked.tool_calls)) == ("assistant", 2)
    assert (answered.role, [block.text for block in answered.content]) == ("tool", ["1", "2"])


async def test_helper_that_raises_is_an_error_result_and_the_model_goes_on():
    @w.tool
    async def broken() -> str:
        """Fail."""
        raise ValueError("out of order")

    model = scripted(call("broken"), call("give_invoice", **BILL))
    await passed(define(model, helpers=[broken]))
    result = model.requests[1].messages[-1].content[0]
    assert isinstance(result, w.ToolResult)
    assert (result.text, result.is_error) == ("Error: out of order", True)


async def test_unknown_tool_is_an_error_result_and_the_model_goes_on():
    model = scripted(call("no_such_tool"), call("give_invoice", **BILL))
    await passed(define(model))
    result = model.requests[1].messages[-1].content[0]
    assert isinstance(result, w.ToolResult)
    assert (result.text, result.is_error) == ("Error: Unknown tool no_such_tool", True)


# --------------------------------------------------------------------------- without reflection


async def test_output_ends_the_attempt_at_once():
    model = scripted(call("give_invoice", **BILL))
    outcome = await passed(define(model))
    assert (outcome.output, len(model.requests)) == (ANN, 1)
    assert [tool.name for tool in model.requests[0].tools] == ["look_up", "give_invoice"]


async def test_output_among_helpers_counts_after_all_calls_of_the_reply_were_made():
    made: list[str] = []

    @w.tool
    async def helper(name: str) -> str:
        """Help."""
        made.append(name)
        return name

    first = {"customer": "Bob", "total": 1}
    reply = [
        call("helper", name="1"),
        call("give_invoice", **first),
        call("helper", name="2"),
        call("give_invoice", **BILL),
        call("helper", name="3"),
    ]
    outcome = await passed(define(scripted(reply), helpers=[helper]))
    assert (outcome.output, made) == (ANN, ["1", "2", "3"])


# --------------------------------------------------------------------------- reflection


async def test_reflection_shows_each_output_and_submit_ends():
    model = scripted(
        call("give_invoice", customer="Ann", total=99), call("give_invoice", **BILL), call("submit")
    )
    outcome = await passed(reflecting(model))
    assert outcome.output == ANN
    assert said(model.requests[1])[-1] == "Ann owes 99.00"
    assert said(model.requests[2])[-1] == "Ann owes 12.50"
    submit = model.requests[0].tools[-1]
    assert (submit.name, submit.description) == (
        "submit",
        "Submit your final output for validation. Call this when you are satisfied with your output.",
    )
    assert submit == w.DEFAULT_SUBMIT_TOOL.spec
    assert submit.parameters["properties"] == {}


async def test_reflection_with_output_and_submit_in_one_reply():
    model = scripted([call("give_invoice", **BILL), call("submit")])
    assert (await passed(reflecting(model))).output == ANN


async def test_reflection_counts_outputs_beside_submit_whatever_their_order():
    model = scripted(
        call("give_invoice", customer="Bob", total=1),
        [call("submit"), call("give_invoice", **BILL)],
    )
    assert (await passed(reflecting(model))).output == ANN


async def test_reflection_handler_that_raises_is_an_error_result():
    def fail(invoice: Invoice) -> str:
        raise RuntimeError("no printer")

    output = {**GIVE, "reflection_handler": fail}
    model = scripted(call("give_invoice", **BILL), call("submit"))
    outcome = await passed(define(model, output_tool=output))
    assert said(model.requests[1])[-1] == "Error: no printer"
    assert outcome.output == ANN


async def test_reflection_of_an_output_that_does_not_fit_names_the_problems():
    model = scripted(
        call("give_invoice", customer="Ann"), call("give_invoice", **BILL), call("submit")
    )
    outcome = await passed(reflecting(model))
    result = model.requests[1].messages[-1].content[0]
    assert isinstance(result, w.ToolResult) and result.is_error
    assert "total" in result.text
    assert [attempt.number for attempt in outcome.metadata.attempts] == [1]


async def test_reflection_submits_the_last_output_even_if_it_does_not_fit():
    model = scripted(
        call("give_invoice", **BILL),
        call("give_invoice", customer="Ann"),
        call("submit"),
        call("give_invoice", **BILL),
        call("submit"),
    )
    outcome = await passed(reflecting(model))
    first, second = outcome.metadata.attempts
    assert first.raw == {"customer": "Ann"} and first.value is None and first.errors
    assert second.value == ANN


async def test_reflection_may_be_async():
    async def show(invoice: Invoice) -> str:
        return f"async {invoice.customer}"

    model = scripted(call("give_invoice", **BILL), call("submit"))
    await passed(define(model, output_tool={**GIVE, "reflection_handler": show}))
    assert said(model.requests[1])[-1] == "async Ann"


async def test_reflection_of_a_later_attempt_needs_an_output_of_its_own():
    model = scripted(call("give_invoice", **FREE), call("submit"), call("submit"))
    outcome = await w.execute_agent(reflecting(model), "x")
    assert isinstance(outcome, w.Failure)
    assert outcome.code is w.AgentErrorCode.SUBMIT_BEFORE_OUTPUT
    assert outcome.context.attempt == 2


# --------------------------------------------------------------------------- validation


async def test_validation_goes_by_the_schema_first_and_then_by_every_validator():
    asked: list[Invoice] = []

    def odd(invoice: Invoice) -> list[str]:
        asked.append(invoice)
        return ["customer is odd", "date is missing"] if invoice.total < 12 else []

    async def later(invoice: Invoice) -> str | None:
        return "too small" if invoice.total < 12 else None

    model = scripted(
        call("give_invoice", customer="Ann"),
        call("give_invoice", **FREE),
        call("give_invoice", **BILL),
    )
    outcome = await passed(define(model, validators=[is_positive, odd, later]))
    first, second, third = outcome.metadata.attempts
    assert len(first.errors) == 1 and "total" in first.errors[0]
    assert second.errors == (
        "total must be positive",
        "customer is odd",
        "date is missing",
        "too small",
    )
    assert (third.errors, third.value) == ((), ANN)
    assert asked == [Invoice("Ann", 0), ANN]


async def test_validation_failure_goes_on_with_the_same_history_and_the_error_prompt():
    model = scripted(
        call("look_up", name="Ann"), call("give_invoice", **FREE), call("give_invoice", **BILL)
    )
    agent = define(model, error_prompt=lambda errors: f"Wrong: {'; '.join(errors)}")
    await passed(agent)
    before, after = model.requests[1].messages, model.requests[2].messages
    assert list(after[: len(before)]) == list(before)
    roles = [message.role for message in after[len(before) :]]
    assert roles == ["assistant", "tool", "user"]
    assert after[-1].text == "Wrong: total must be positive"
    assert not audit(after)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("Mend this:\n{errors}", "Mend this:\n- total must be positive"),
        ("Mend this.", "Mend this.\n- total must be positive"),
        (lambda errors, state: f"{state.input}: {errors[0]}", "Ann, 12.50: total must be positive"),
    ],
)
async def test_error_prompt_is_a_text_or_a_function(prompt: Any, words: str):
    model = scripted(call("give_invoice", **FREE), call("give_invoice", **BILL))
    await passed(define(model, error_prompt=prompt))
    assert said(model.requests[1])[-1] == words


async def test_error_prompt_of_its_own_names_the_tool_and_the_problems():
    model = scripted(call("give_invoice", **FREE), call("give_invoice", **BILL))
    await passed(define(model))
    told = said(model.requests[1])[-1]
    assert "total must be positive" in told and "give_invoice" in told


async def test_validators_may_ask_for_the_state():
    def known(invoice: Invoice, state: w.AgentExecutionState) -> str | None:
        assert (state.phase, state.attempt, state.max_iterations) == ("validation", 1, 15)
        return None if invoice.customer in state.deps else f"unknown, in {state.input}"

    outcome = await passed(
        define(scripted(call("give_invoice", **BILL)), validators=[known]), deps={"Ann"}
    )
    assert outcome.output == ANN


async def test_arguments_that_can_be_mended_cost_no_attempt():
    model = scripted(call("give_invoice", customer="Ann", total="12.5"))
    outcome = await passed(define(model))
    assert (outcome.output, len(outcome.metadata.attempts)) == (ANN, 1)


async def test_output_that_is_no_object_is_wrapped():
    model = scripted(call("give_invoice", value=[1, 2]))
    agent = w.define_agent(model=model, output=list[int], output_tool=GIVE)
    outcome = await w.execute_agent(agent, "count")
    assert isinstance(outcome, w.Success) and outcome.output == [1, 2]


async def test_prompt_is_built_once_and_may_be_left_out():
    built: list[object] = []

    async def prompt(mail: object) -> str:
        built.append(mail)
        return f"Read {mail}"

    model = scripted(call("give_invoice", **FREE), call("give_invoice", **BILL))
    await passed(define(model, prompt=prompt))
    assert built == ["Ann, 12.50"] and said(model.requests[1])[0] == "Read Ann, 12.50"
    plain = scripted(call("give_invoice", **BILL))
    await w.execute_agent(define(plain, prompt=None), {"mail": 7})
    assert said(plain.requests[0]) == ['{"mail":7}']


# --------------------------------------------------------------------------- what it took


async def test_tokens_are_those_of_all_iterations_and_attempts():
    model = scripted(
        call("look_up", name="Ann"),
        call("give_invoice", **FREE),
        call("give_invoice", **BILL),
        usage={"input_tokens": 10, "output_tokens": 5},
        price=1_000_000,
    )
    outcome = await passed(define(model))
    assert outcome.metadata.tokens == w.Usage(30, 15)
    assert [attempt.tokens.total_tokens for attempt in outcome.metadata.attempts] == [30, 15]
    assert [attempt.iterations for attempt in outcome.metadata.attempts] == [2, 1]
    assert outcome.metadata.cost_usd == sum(each.cost_usd for each in outcome.metadata.attempts)
    assert outcome.metadata.latency_ms > 0


async def test_tokens_are_not_counted_where_that_is_turned_off():
    agent = define(scripted(call("give_invoice", **BILL)), observability={"track_tokens": False})
    outcome = await passed(agent)
    assert outcome.metadata.tokens is None and outcome.metadata.cost_usd is None


async def test_budget_of_the_agent_counts_every_attempt():
    model = scripted(then=call("give_invoice", **FREE), usage={"input_tokens": 10})
    agent = define(model, budget=w.Budget(tokens=25), validation={"max_attempts": 9})
    outcome = await w.execute_agent(agent, "x")
    assert isinstance(outcome, w.Failure)
    assert outcome.code is w.AgentErrorCode.BUDGET_EXHAUSTED
    assert outcome.context.stop_reason == "tokens"
    assert len(outcome.metadata.attempts) < 9
    lower = await w.execute_agent(define(model), "x", budget=w.Budget(tokens=1))
    assert isinstance(lower, w.Failure) and lower.code is w.AgentErrorCode.BUDGET_EXHAUSTED


async def test_match_and_the_type_checker_know_both_ends():
    outcome = await w.execute_agent(define(scripted(call("give_invoice", **BILL))), "x")
    match outcome:
        case w.Success(output, metadata):
            assert_type(output, Invoice)
            assert_type(metadata.attempts[0].value, Invoice | None)
            assert output == ANN and metadata.attempts[0].value == ANN
        case w.Failure(code, message):
            assert_type(code, w.AgentErrorCode)
            assert_type(message, str)
            raise AssertionError(code)


def test_blocking_form():
    outcome = w.sync.execute_agent(define(scripted(call("give_invoice", **BILL))), "x")
    assert isinstance(outcome, w.Success) and outcome.output == ANN


# --------------------------------------------------------------------------- definitions


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output_tool": None}, "output_tool is"),
        ({"output_tool": {"name": "x"}}, "description"),
        ({"output_tool": {**GIVE, "reflection_handlr": 1}}, "reflection_handler"),
        ({"output_tool": {**GIVE, "submit": {}}}, "add reflection_handler or remove it"),
        ({"output_tool": {**GIVE, "reflection_handler": "x"}}, "function of the output"),
        ({"validation": {"max_attempts": 0}}, "max_attempts is a whole number from 1"),
        ({"validation": {"max_iterations_per_attempt": True}}, "max_iterations_per_attempt"),
        ({"validation": {"max_attempt": 2}}, "'max_attempts'"),
        ({"observability": {"track_tokens": 1}}, "track_tokens is True or False"),
        ({"validators": [1]}, "validators is a list of functions"),
        ({"helpers": "x"}, "helpers is a list"),
        ({"helpers": [{"definition": {}}]}, "a helper is a Tool or"),
        ({"helpers": [{"definitoin": {}, "handler": len}]}, "'definition'"),
        ({"helpers": [{"definition": {"name": "a", "shema": {}}, "handler": len}]}, "'shema'"),
        ({"prompt": "hi"}, "prompt is a function"),
        ({"error_prompt": 7}, "error_prompt"),
        ({"max_turns": 3}, "max_iterations_per_attempt"),
        ({"schema": {}}, "use output"),
        ({"output_guardrails": []}, "use validators"),
        ({"output": 7}, "output is"),
        ({"tools": [look_up], "helpers": []}, "a list goes to helpers"),
        ({"tools": {"output": GIVE}}, "given twice"),
        ({"tools": {"additional": [look_up]}, "helpers": [], "output_tool": None}, "use 'helpers'"),
        ({"helpers": [w.Tool("give_invoice", handler=len)]}, "name of the output tool"),
        ({"budgt": 3}, "'budget'"),
    ],
)
def test_definition_that_cannot_be_is_refused(changes: dict[str, Any], words: str):
    with pytest.raises(w.ConfigError, match=words.replace("'", ".")):
        define(scripted("x"), **changes)


def test_submit_without_a_reflection_handler_cannot_be_written():
    submit = w.Tool("submit", handler=lambda args: "x")
    with pytest.raises(w.ConfigError, match="Add reflection_handler or remove submit tool"):
        define(scripted("x"), helpers=[submit])
    with pytest.raises(w.ConfigError, match="added by itself"):
        reflecting(scripted("x"), helpers=[submit])


async def test_tools_may_be_given_as_one():
    model = scripted(call("look_up", name="Ann"), call("give_invoice", **BILL))
    tools: w.ToolsConfig[Invoice] = {
        "helpers": [look_up],
        "output": {"name": "give_invoice", "description": "Give."},
    }
    agent = w.define_agent(model=model, output=Invoice, tools=tools)
    assert (await passed(agent)).output == ANN
    assert agent.name is None and "give_invoice" in repr(agent)


@pytest.mark.parametrize("given", [None, w.Agent(scripted("x"), tools=[add])])
async def test_execution_of_something_else_is_refused(given: Any):
    with pytest.raises(w.ConfigError, match="what define_agent returns"):
        await w.execute_agent(given, "x")


async def test_execution_refuses_options_that_it_does_not_have():
    agent = define(scripted(then=call("give_invoice", **BILL)))
    with pytest.raises(w.ConfigError, match="session_id"):
        await w.execute_agent(agent, "x", sesion_id="s")  # type: ignore[call-arg]
    with pytest.raises(w.ConfigError, match="on_tool_call is a function"):
        await w.execute_agent(agent, "x", on_tool_call=7)  # type: ignore[arg-type]
    assert isinstance(await w.execute_agent(agent, "x", session_id="s"), w.Success)

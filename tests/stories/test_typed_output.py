"""Runs whose answer is a value: asked for by whatever means the model has, checked, made what was asked for."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal, TypedDict, assert_type

import msgspec
import pydantic
import pytest

import windlass as w
from tests.stories.capable_model import able
from tests.stories.helpers import (
    add,
    kept,
    note,
    said,
    written,
)
from tests.stories.wire_fakes import servers
from windlass.events import FeedbackInjected, IterationStart, Said
from windlass.models.registry.capabilities import Capabilities, Means
from windlass.testing import call, scripted
from windlass.testing.providers import Reply, conversation
from windlass.testing.providers.reply import turns


class Invoice(msgspec.Struct):
    """What is to be paid."""

    customer: str
    total: float


BILL = {"customer": "Ann", "total": 12.5}
ANN = Invoice("Ann", 12.5)


def can(*means: Means, **more: Any) -> Capabilities:
    return Capabilities(structured=means, **more)


# --------------------------------------------------------------------------- by every means


async def test_a_model_that_takes_a_schema_is_given_it_beside_the_tools():
    model = able(call("add", a=1, b=2), json.dumps(BILL), caps=can("schema"))
    out = await w.Agent(model, tools=[add], output=Invoice).run("What does Ann owe?")
    assert (out.status, out.output) == ("done", ANN)
    for request in model.requests:
        assert request.settings.schema is not None
        assert [tool.name for tool in request.tools] == ["add"]
    await kept(out, model)


async def test_else_the_answer_is_given_by_a_call_that_nobody_has_to_run():
    model = able(call("add", a=1, b=2), call("give_answer", **BILL), caps=can("tool"))
    out = await w.Agent(model, tools=[add], output=Invoice).run("What does Ann owe?")
    assert (out.status, out.output) == ("done", ANN)
    assert [tool.name for tool in model.requests[0].tools] == ["add", "give_answer"]
    assert model.requests[0].settings.tool_choice == "required"
    assert [record.name for record in out.tool_calls] == ["add"]
    assert json.loads(out.final_text) == BILL
    assert not out.all_messages[-1].tool_calls
    await kept(out, model)


async def test_an_answer_beside_other_calls_comes_too_early():
    both = [call("add", a=1, b=2), call("give_answer", customer="?", total=0)]
    model = able(both, call("give_answer", **BILL), caps=can("tool"))
    out = await w.Agent(model, tools=[add], output=Invoice).run("go")
    assert (out.output, out.turns) == (ANN, 2)
    assert [record.name for record in out.tool_calls] == ["add"]
    await kept(out, model)


async def test_a_model_that_thinks_first_is_asked_to_call():
    model = able(
        call("give_answer", **BILL), caps=can("tool", lowering="claude", always_thinks=True)
    )
    out = await w.Agent(model, system="Be brief.", output=Invoice).run("go")
    assert out.output == ANN
    assert model.requests[0].settings.tool_choice == "auto"
    assert "give_answer" in (model.requests[0].system or "")


async def test_else_in_words():
    model = able(call("add", a=1, b=2), f"Here: {json.dumps(BILL)}", caps=can("prompt"))
    out = await w.Agent(model, system="Be brief.", tools=[add], output=Invoice).run("go")
    assert out.output == ANN
    assert '"customer"' in (model.requests[0].system or "")
    await kept(out, model)


async def test_a_model_that_writes_its_calls_as_text_writes_its_answer_too():
    calls = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    model = able(calls, json.dumps(BILL), caps=can("json", "prompt"))
    out = await w.Agent(model, tools=[add], tool_format="text", output=Invoice).run("go")
    assert (out.output, out.tool_calls[0].result) == (ANN, "3")
    assert model.requests[0].settings.response_format is None  # a call is no JSON
    await kept(out, model, text=True)


async def test_a_loop_that_ends_with_a_word_has_the_answer_beside_it():
    model = able("Let me think.", f"{json.dumps(BILL)}\n##DONE##", caps=can("schema"))
    out = await w.Agent(model, output=Invoice, loop_until_done=True).run("go")
    assert (out.status, out.stop_reason, out.output) == ("done", "sentinel", ANN)
    assert model.requests[0].settings.schema is None  # the word would not fit the schema
    await kept(out, model)


def answers(body: dict[str, Any], _headers: Any) -> Reply:
    """A call, an answer that does not fit, and one that does, by the means that the request names."""
    turn = turns(body)
    if turn == 0:
        return Reply(tool_calls=[("add", {"a": 1, "b": 2})])
    bill = BILL if turn == 2 else {"customer": "Ann"}
    if "give_answer" in json.dumps(body.get("tools") or body.get("toolConfig") or ""):
        return Reply(tool_calls=[("give_answer", bill)])
    return Reply(json.dumps(bill))


@pytest.mark.parametrize("wire", servers(conversation("x")))
async def test_over_every_wire(wire: str, reachable: None):
    server, made = servers(answers)[wire]
    async with server:
        model = made(server.url)
        out = await w.Agent(model, tools=[add], output=Invoice).run("What does Ann owe?")
        await model.aclose()
    assert (out.status, out.error) == ("done", None)
    assert (out.output, out.turns) == (ANN, 3)
    await kept(out)


# --------------------------------------------------------------------------- every kind of type


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Book(pydantic.BaseModel):
    title: str
    year: int = pydantic.Field(gt=1400)


class Pet(TypedDict):
    name: str


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (Point, {"x": 1, "y": 2}, Point(1, 2)),
        (Book, {"title": "Emma", "year": 1815}, Book(title="Emma", year=1815)),
        (Pet, {"name": "Rex"}, {"name": "Rex"}),
        (list[Point], {"value": [{"x": 1, "y": 2}]}, [Point(1, 2)]),
        (int, {"value": 3}, 3),
        (Literal["yes", "no"], {"value": "yes"}, "yes"),
        (Point | None, {"value": None}, None),
        ({"x": "integer"}, {"x": 1}, {"x": 1}),
    ],
)
async def test_any_type_that_has_a_schema(kind: Any, given: dict[str, Any], value: Any):
    model = able(call("give_answer", **given), caps=can("tool"))
    assert (await w.Agent(model, output=kind).run("go")).output == value


async def test_text_is_text():
    model = scripted("x")
    out = await w.Agent(model, output=str).run("go")
    assert (out.output, model.requests[0].system) == ("x", None)


async def test_a_type_checker_knows_what_comes_out():
    """What it knows is checked by the type checker; here it is only true."""
    out = await w.Agent(scripted(json.dumps(BILL)), output=Invoice, deps_type=int).run("go", deps=1)
    assert assert_type(out.output, Invoice) == ANN
    text = await w.Agent(scripted("x")).run("go")
    assert assert_type(text.output, str) == "x"
    many = await w.Agent(scripted(f"[{json.dumps(BILL)}]"), output=list[Invoice]).run("go")
    assert assert_type(many.output, list[Invoice]) == [ANN]


# --------------------------------------------------------------------------- what does not fit


async def test_an_answer_that_does_not_fit_is_told_what_is_wrong_with_it():
    wrong = {"customer": "Ann", "total": "much"}
    model = able(call("give_answer", **wrong), call("give_answer", **BILL), caps=can("tool"))
    out = await w.Agent(model, output=Invoice).run("go")
    assert (out.status, out.output, out.turns) == ("done", ANN, 2)
    assert "total" in said(model.requests[1])[-1]
    [feedback] = [e for e in out.entries if isinstance(e, FeedbackInjected)]
    assert feedback.feedback == "output"
    await kept(out, model)


async def test_a_type_has_the_last_word():
    model = scripted('{"title": "Emma", "year": 15}', '{"title": "Emma", "year": 1815}')
    out = await w.Agent(model, output=Book).run("go")
    assert (out.output.year, out.turns) == (1815, 2)


async def test_a_model_that_only_talks_is_asked_for_the_answer():
    model = able("She owes a lot.", call("give_answer", **BILL), caps=can("tool"))
    assert (await w.Agent(model, output=Invoice).run("go")).output == ANN


async def test_within_the_runs_limits():
    model = scripted(then="I will not.")
    out = await w.Agent(model, output=Invoice, max_turns=3).run("go", session_id="s")
    assert (out.status, out.stop_reason, out.turns) == ("budget_exhausted", "max_iterations", 3)
    with pytest.raises(w.OutputMissing, match=r"budget_exhausted \(max_iterations\).*Invoice") as e:
        _ = out.output
    assert (e.value.session_id, e.value.status) == ("s", "budget_exhausted")
    assert e.value.trace["iterations"] == 3
    assert out.final_text == "I will not."
    await kept(out, model)


async def test_no_judge_is_paid_for_an_answer_that_cannot_be_taken():
    judge = scripted('{"verdict": "done", "reasoning": "ok", "next_step": ""}')
    model = scripted("words", json.dumps(BILL))
    out = await w.Agent(model, output=Invoice, done_judge={"model": judge}).run("go")
    assert (out.status, out.output, len(judge.requests)) == ("done", ANN, 1)
    await kept(out)


async def test_a_model_that_refuses_is_not_asked_again():
    model = scripted(w.Response(w.Message("assistant", "No."), w.Usage(), "refusal"))
    out = await w.Agent(model, output=Invoice).run("go")
    assert out.turns == 1
    with pytest.raises(w.OutputMissing, match="refused"):
        _ = out.output


async def test_an_answer_that_was_cut_off_says_so():
    cut = w.Response(w.Message("assistant", '{"customer": "A'), w.Usage(), "max_tokens")
    model = scripted(cut, json.dumps(BILL))
    out = await w.Agent(model, output=Invoice).run("go")
    assert out.output == ANN and "cut off" in said(model.requests[1])[-1]


@pytest.mark.parametrize("status", ["suspended", "provider_error", "cancelled"])
async def test_a_run_that_did_not_come_to_an_answer_has_none(status: str):
    ask = w.Tool(name="ask", description="Ask somebody.")
    brake = w.Abort()
    if status == "cancelled":
        brake.abort("no")
    model = scripted(call("ask") if status == "suspended" else w.BadRequest("down"))
    out = await w.Agent(model, tools=[ask], output=Invoice, abort=brake).run("go")
    assert out.status == status
    with pytest.raises(w.OutputMissing, match=status):
        _ = out.output


# --------------------------------------------------------------------------- with all the rest


async def test_a_tool_that_a_policy_brings_may_be_used_before_the_answer():
    class Brings(w.Policy[None]):
        async def start(self, run: w.Run) -> list[w.Tool]:
            return [note]

    model = able(call("note", text="x"), call("give_answer", **BILL), caps=can("tool"))
    out = await w.Agent(model, output=Invoice, policies=[Brings()]).run("go")
    assert (out.output, model.requests[0].settings.tool_choice) == (ANN, "required")
    await kept(out, model)


async def test_the_last_word_of_a_run_out_of_turns_is_typed_too():
    model = able(call("add", a=1, b=2), call("give_answer", **BILL), caps=can("tool"))
    agent = w.Agent(model, tools=[add], output=Invoice, max_turns=1, closing_answer=True)
    out = await agent.run("go")
    assert (out.status, out.output) == ("budget_exhausted", ANN)
    assert [tool.name for tool in model.requests[-1].tools] == ["give_answer"]
    await kept(out, model)


async def test_a_call_that_is_demanded_in_every_turn_leaves_no_room_for_an_answer():
    with pytest.raises(w.ConfigError, match="tool_choice"):
        agent = w.Agent(scripted(), tools=[add], tool_choice={"name": "add"}, output=Invoice)
        await agent.run("go")


async def test_a_typed_run_goes_on_after_a_park():
    ask = w.Tool(name="ask", description="Ask somebody.")
    model = able(call("ask"), call("give_answer", **BILL), caps=can("tool"))
    agent = w.Agent(model, tools=[ask], output=Invoice)
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", results={out.pending[0].id: "yes"})
    assert out.output == ANN
    assert (await agent.resume("s")).output == ANN  # it stays as it ended
    await kept(out, model)


async def test_killed_anywhere_a_typed_run_goes_on_with_the_same_requests():
    def reply(request: w.Request) -> Any:
        heard = len(request.messages)
        if heard == 1:
            return call("add", a=1, b=2)
        return call("give_answer", customer="Ann") if heard == 3 else call("give_answer", **BILL)

    def agent() -> tuple[Any, w.Agent[Any, Invoice]]:
        model = able(then=reply, caps=can("tool"))
        return model, w.Agent(model, tools=[add], output=Invoice, system=lambda: next(texts))

    texts = iter(f"version {n}" for n in range(100))
    model, first = agent()
    whole = await first.run("What does Ann owe?", session_id="whole")
    sent = [(request.frame, list(request.messages)) for request in model.requests]
    store = whole._run.store
    entries = list(await store.read("whole"))
    begun = next(n for n, entry in enumerate(entries) if isinstance(entry, IterationStart))
    for cut in range(begun, len(entries) - 1):  # the last verdict and the end are one row
        if cut > begun and isinstance(entries[cut - 1], (FeedbackInjected, Said)):
            continue  # what is said is written together with the verdict that says it
        await written(store, f"cut{cut}", entries[:cut])
        model, again = agent()
        out = await again.resume(f"cut{cut}")
        assert (out.status, out.output, out.turns) == ("done", ANN, 3), cut
        asked = [(request.frame, list(request.messages)) for request in model.requests]
        assert asked == sent[len(sent) - len(asked) :], cut


async def test_the_type_may_be_changed_for_one_run():
    model = scripted("3", "three")
    agent = w.Agent(model, output=int)
    assert (await agent.run("go")).output == 3
    assert (await agent.run("go", output=str)).output == "three"


async def test_a_typed_stream():
    model = able(call("give_answer", **BILL), caps=can("tool"), stream=True)
    async with w.Agent(model, output=Invoice).stream("go") as run:
        events = [event async for event in run.events()]
    assert [event.type for event in events] == ["text", "done"]
    assert events[-1].data.output == ANN


async def test_a_typed_agent_as_a_tool_answers_in_json():
    child = w.Agent(
        able(call("give_answer", **BILL), caps=can("tool")), name="clerk", output=Invoice
    )
    chief = w.Agent(scripted(call("clerk", task="?"), "ok"), tools=[child.as_tool()])
    out = await chief.run("go")
    assert json.loads(out.tool_calls[0].result) == BILL

"""A typed answer while it is being written: `async for partial in run.partial()`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

import windlass as w
from tests.stories.helpers import add, kept
from tests.stories.wire_fakes import servers
from windlass.events import AnswerDelta
from windlass.testing import call, scripted
from windlass.testing.providers import Reply, conversation
from windlass.testing.providers.reply import turns


class Line(msgspec.Struct):
    """A line of an invoice."""

    what: str
    price: float


class Invoice(msgspec.Struct):
    """What is to be paid."""

    customer: str
    lines: list[Line]
    total: float


BILL = {
    "customer": "Ann Smith of Graz",
    "lines": [{"what": "two apples", "price": 2.5}, {"what": "bread", "price": 10}],
    "total": 12.5,
}
ANN = msgspec.convert(BILL, Invoice)
TEXT = json.dumps(BILL)


class Typing(w.Model):
    """A model that writes pieces, each once the reader has had its turn; None breaks the stream off."""

    provider, name = "typing", "typing"
    retry_delay = 0.0

    def __init__(self, *replies: list[str | None], by_call: bool = False) -> None:
        self.replies = list(replies)
        self.by_call = by_call

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        pieces = self.replies.pop(0)
        for piece in pieces:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if piece is None:
                raise w.StreamBroken("cut")
            emit(AnswerDelta("give_answer", piece) if self.by_call else w.TextDelta(piece))
        text = "".join([piece for piece in pieces if piece])
        if self.by_call:
            made = w.ToolCall("c1", "give_answer", json.loads(text))
            return w.Response(w.Message("assistant", (made,)), w.Usage(10, 5), "tool_use")
        return w.Response(w.Message("assistant", text), w.Usage(10, 5))


async def partials(agent: w.Agent[Any, Any], prompt: str = "go") -> tuple[list[Any], Any]:
    """Return all partial values of a run, and its result."""
    async with agent.stream(prompt) as run:
        found = [partial async for partial in run.partial()]
        out = await run.result()
    return found, out


def grows(found: list[Any]) -> bool:
    """Check that within one attempt nothing is taken back."""
    last: dict[int, Any] = {}
    for partial in found:
        if not partial.is_reset:
            value = msgspec.to_builtins(partial.value)
            if partial.attempt in last and not refines(last[partial.attempt], value):
                return False
            last[partial.attempt] = value
    return True


def refines(shown: Any, whole: Any) -> bool:
    if isinstance(shown, dict):
        return all(key in whole and refines(value, whole[key]) for key, value in shown.items())
    if isinstance(shown, list):
        pairs = zip(shown, whole, strict=False)
        return len(shown) <= len(whole) and all(refines(a, b) for a, b in pairs)
    if isinstance(shown, str):
        return whole.startswith(shown)
    return shown == whole


async def test_partial_values_grow_to_the_answer():
    model = Typing([TEXT[at : at + 7] for at in range(0, len(TEXT), 7)])
    found, out = await partials(w.Agent(model, output=Invoice))
    assert len(found) > 8 and grows(found)
    first = found[0].value
    assert isinstance(first, w.PartialObject) and BILL["customer"].startswith(first.customer)
    assert not first.total and "total" not in first
    assert found[-1].is_complete and found[-1].value == out.output == ANN
    assert isinstance(found[-1].value, Invoice)
    assert {partial.attempt for partial in found} == {1}
    await kept(out)


def answers(body: dict[str, Any], _headers: Any) -> Reply:
    """A call, and then the answer, by the means that the request names."""
    if turns(body) == 0:
        return Reply("I will add.", tool_calls=[("add", {"a": 1, "b": 2})])
    if "give_answer" in json.dumps(body.get("tools") or body.get("toolConfig") or ""):
        return Reply(tool_calls=[("give_answer", BILL)])
    return Reply(TEXT)


@pytest.mark.parametrize("wire", servers(conversation("x")))
async def test_partial_values_on_every_wire(wire: str, reachable: None):
    server, made = servers(answers)[wire]
    async with server:
        model = made(server.url)
        found, out = await partials(w.Agent(model, tools=[add], output=Invoice))
        await model.aclose()
    assert (out.output, found[-1].value, found[-1].is_complete) == (ANN, ANN, True)
    assert grows(found) and not any(partial.is_reset for partial in found)
    assert len(found) > 1
    await kept(out)


async def test_retried_stream_resets_what_was_shown():
    model = Typing(['{"customer": "Bo', "b", None], ['{"customer": "A', TEXT[15:]])
    found, out = await partials(w.Agent(model, output=Invoice))
    assert out.output == ANN and grows(found)
    resets = [place for place, partial in enumerate(found) if partial.is_reset]
    assert len(resets) == 1
    reset = found[resets[0]]
    assert (reset.attempt, reset.value) == (2, msgspec.UNSET)
    assert found[0].value == {"customer": "Bo"} and found[0].attempt == 1
    assert all(partial.attempt == 2 for partial in found[resets[0] :])


async def test_answer_that_does_not_fit_is_followed_by_a_reset():
    model = Typing(['{"customer": "Bo', 'b", "lines": []}'], [TEXT[:20], TEXT[20:]])
    found, out = await partials(w.Agent(model, output=Invoice))
    assert (out.output, out.turns) == (ANN, 2)
    marks = [(partial.attempt, partial.is_reset, partial.is_complete) for partial in found]
    assert marks.count((2, True, False)) == 1 and marks[-1] == (2, False, True)
    assert not any(complete for attempt, _, complete in marks if attempt == 1)


async def test_answer_that_a_judge_refuses_is_followed_by_a_reset():
    refused = {**BILL, "total": 1}
    model = Typing([json.dumps(refused)], [TEXT])
    agent = w.Agent(
        model, output=Invoice, verify_completion=lambda: None if not model.replies else "no"
    )
    found, out = await partials(agent)
    assert out.output == ANN
    complete = [partial.value.total for partial in found if partial.is_complete]
    assert complete == [1, 12.5]
    assert [partial.attempt for partial in found if partial.is_reset] == [2]


async def test_answer_by_a_call_is_shown_from_its_arguments():
    model = Typing([TEXT[at : at + 9] for at in range(0, len(TEXT), 9)], by_call=True)
    found, out = await partials(w.Agent(model, output=Invoice))
    assert out.output == ANN and found[-1].value == ANN
    assert len(found) > 8 and grows(found)


async def test_list_as_the_answer_is_shown_without_its_wrapping():
    model = scripted(call("add", a=1, b=2), '{"value": [1, 2, 3]}', stream=True)
    found, out = await partials(w.Agent(model, tools=[add], output=list[int]))
    assert out.output == [1, 2, 3] == found[-1].value
    assert all(isinstance(partial.value, list) for partial in found)


async def test_model_that_does_not_stream_shows_the_answer_once():
    found, out = await partials(w.Agent(scripted(TEXT), output=Invoice))
    assert [partial.value for partial in found if partial.is_complete] == [ANN] == [out.output]


async def test_prose_before_the_answer_is_not_shown():
    pieces = ["Let me {think}", " about it: ```json\n", *TEXT.split(" "), "\n```"]
    text = [f"{piece} " if piece in TEXT else piece for piece in pieces]
    found, out = await partials(w.Agent(Typing(text), output=Invoice))
    assert out.output == ANN and grows(found)


async def test_slow_reader_gets_the_newest_value():
    model = Typing([TEXT[at : at + 2] for at in range(0, len(TEXT), 2)])
    found: list[Any] = []
    async with w.Agent(model, output=Invoice).stream("go") as run:
        async for partial in run.partial():
            found.append(partial)
            for _ in range(40):
                await asyncio.sleep(0)
    assert grows(found) and found[-1].value == ANN
    assert len(found) < len(TEXT) / 4


async def test_partial_of_an_agent_without_an_output_type_is_refused():
    async with w.Agent(scripted("hi")).stream("go") as run:
        with pytest.raises(w.ConfigError, match="output type"):
            await anext(run.partial())
        assert (await run.result()).output == "hi"


async def test_guardrail_holds_partial_values_back():
    model = Typing([TEXT[:30], TEXT[30:]])
    agent = w.Agent(model, output=Invoice, output_guardrails=[lambda text: "no"])
    found, out = await partials(agent)
    assert (out.status, found) == ("blocked", [])


async def test_secret_is_not_shown_in_pieces():
    secret = "sk-not-a-real-key-0123456789"
    text = json.dumps({**BILL, "customer": secret})
    model = Typing([text[at : at + 5] for at in range(0, len(text), 5)])
    async with w.Runtime(store="memory:", environ={"MY_API_KEY": secret}):
        found, _ = await partials(w.Agent(model, output=Invoice))
    assert found and secret not in repr(found[:-1])


async def test_stream_that_is_left_early_ends_the_run():
    model = Typing([TEXT[:30], *(["."] * 1000)])
    async with w.Agent(model, output=Invoice).stream("go") as run:
        async for partial in run.partial():
            assert partial.value.customer
            break
    assert (await run.result()).status == "cancelled"

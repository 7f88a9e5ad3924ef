"""A server that nobody here wrote: llama.cpp on the wires it speaks, streamed and plain."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import msgspec
import pytest

import windlass as w
from windlass import errors
from windlass.events import TextDelta, ToolCallReady
from windlass.messages import Message, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses

pytestmark = pytest.mark.deep

TOOLS = (
    ToolSpec(
        "weather",
        "Forecast for a city.",
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 6},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["city", "days"],
        },
    ),
    ToolSpec(
        "add",
        "Add one.",
        {
            "type": "object",
            "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}},
            "required": ["a"],
        },
    ),
)
ASK = Message("user", "What will the weather be?")
SEEDS = range(6)


@pytest.fixture(params=["chat", "responses", "messages"])
def model(request, llama):
    if request.param == "chat":
        return OpenAIChat("tiny", base_url=f"{llama}/v1", api_key="none", provider="local")
    if request.param == "responses":
        return OpenAIResponses("tiny", base_url=f"{llama}/v1", api_key="none", provider="local")
    return AnthropicMessages("tiny", base_url=llama, api_key="none")


@pytest.fixture(params=[True, False], ids=["stream", "plain"])
def stream(request):
    return request.param


async def respond(model, messages, seed, *, stream=True, tools=TOOLS, **settings):
    seen = []
    settings = Settings(stream=stream, extra={"seed": seed}, **{"max_tokens": 400, **settings})
    async with asyncio.timeout(60):
        reply = await model.respond(
            Request(messages, Frame("Be brief.", tools, settings)), seen.append
        )
    return reply, seen


def whole(calls):
    """The calls that were not cut off by the limit."""
    return [call for call in calls if call.raw is None]


def fits(call):
    match call.name, call.arguments:
        case "weather", {"city": str(city), "days": int(days)}:
            return len(city) <= 6 and 1 <= days <= 9
        case "add", {"a": int(a)}:
            return 0 <= a <= 99
    return False


async def test_a_forced_call_comes_with_arguments_that_fit(model, stream):
    for seed in SEEDS:
        reply, _ = await respond(model, [ASK], seed, stream=stream, tool_choice="required")
        calls = reply.message.tool_calls
        assert calls
        assert all(fits(call) for call in whole(calls)), calls
        assert len({call.id for call in calls}) == len(calls)
        assert reply.usage.input_tokens > 0
        assert reply.usage.output_tokens > 0


async def test_no_call_comes_when_none_is_allowed(model, stream):
    for seed in SEEDS:
        reply, _ = await respond(model, [ASK], seed, stream=stream, tools=())
        assert not reply.message.tool_calls
        assert reply.stop_reason in ("end_turn", "max_tokens")


@pytest.mark.parametrize("wire", [OpenAIChat, OpenAIResponses])
async def test_a_stream_says_what_the_plain_reply_says(llama, wire):
    """The same seed babbles the same, so the two ways of reading it can be compared."""
    model = wire("tiny", base_url=f"{llama}/v1", api_key="none", provider="local")
    for seed in SEEDS:
        plain, _ = await respond(model, [ASK], seed, stream=False, temperature=0.0)
        live, seen = await respond(model, [ASK], seed, stream=True, temperature=0.0)
        told = "".join(event.text for event in seen if isinstance(event, TextDelta))
        ready = [event.call for event in seen if isinstance(event, ToolCallReady)]
        assert told == live.message.text == plain.message.text
        assert ready == whole(live.message.tool_calls)
        asked = [[(c.name, c.arguments) for c in r.message.tool_calls] for r in (plain, live)]
        assert asked[0] == asked[1]
        used = [(r.usage.input_tokens, r.usage.output_tokens) for r in (plain, live)]
        assert used[0] == used[1]  # what of it the server had in its cache is its own affair


async def test_a_round_of_calls_and_results_goes_on(model, stream):
    for seed in SEEDS:
        messages = [ASK]
        for choice in ("required", "required", "auto"):
            reply, _ = await respond(
                model, messages, seed, stream=stream, max_tokens=200, tool_choice=choice
            )
            results = [ToolResult(call.id, "sunny") for call in reply.message.tool_calls]
            assert results or choice == "auto"
            messages += [reply.message, Message("tool", tuple(results))]


async def test_a_call_cut_by_the_limit_is_not_taken_for_a_whole_one(model, stream):
    cut = 0
    for seed in range(16):
        reply, seen = await respond(
            model, [ASK], seed, stream=stream, max_tokens=35 + seed, tool_choice="required"
        )
        calls = reply.message.tool_calls
        cut += any(call.raw is not None for call in calls)
        assert all(fits(call) for call in whole(calls)), calls
        assert all(fits(event.call) for event in seen if isinstance(event, ToolCallReady))
    assert cut


async def test_too_long_a_prompt_is_an_overflow(model, stream):
    long = Message("user", "word " * 8000)
    with pytest.raises(errors.ContextOverflow):
        await respond(model, [long], 1, stream=stream)


# ------------------------------------------------------------------------- the loop


@w.tool
async def weather(city: Annotated[str, msgspec.Meta(max_length=6)], days: Literal[1, 2, 3]) -> str:
    """Forecast for a city."""
    return f"{city}: sunny for {days} days"


@w.tool
async def add(a: Annotated[int, msgspec.Meta(ge=0, le=99)]) -> int:
    """Add one."""
    return a + 1


async def run(model, stream, **options):
    agent = w.Agent(
        model, system="Be brief.", tools=[weather, add], max_tokens=200, stream=stream, **options
    )
    async with asyncio.timeout(120):
        out = await agent.run("What will the weather be?")
    asked = [call.id for message in out.messages for call in message.tool_calls]
    answered = [b.id for m in out.messages if m.role == "tool" for b in m.content]
    assert asked == answered
    assert sorted(asked) == sorted(record.id for record in out.tool_calls)  # as they were answered
    return out


async def test_an_agent_that_must_call_runs_its_tools_until_the_limit(model, stream):
    out = await run(model, stream, tool_choice="required", max_turns=3)
    assert (out.status, out.turns) == ("budget_exhausted", 3)
    good = [record for record in out.tool_calls if record.outcome == "ok"]
    assert good
    for record in good:
        if record.name == "add":
            assert record.result == str(record.arguments["a"] + 1)
        else:
            assert record.result.startswith(f"{record.arguments['city']}: sunny")


async def test_an_agent_left_alone_comes_to_an_end(model, stream):
    """The babble decides when to call and when to stop; whatever it does, the books balance."""
    ends = set()
    for _ in SEEDS:
        out = await run(model, stream, max_turns=8)
        if isinstance(out.exception, w.ModelError) and out.exception.transient:
            continue  # a busy machine: the server has given up, and the run has said so
        assert out.status in ("done", "budget_exhausted"), out.error
        assert out.usage.output_tokens > 0
        ends.add(out.status)
    assert "done" in ends

"""The fake of OpenAI's Responses: OpenAI's own client believes it, and it refuses what OpenAI does."""

from __future__ import annotations

import copy
from typing import Any

import aiohttp
import openai
import pytest

import windlass as w
from windlass.messages import Message, Opaque, Thinking
from windlass.models.base import Request, Settings, silent
from windlass.models.wires.openai.responses import OpenAIResponses
from windlass.testing.providers import (
    FakeResponses,
    Reply,
    Status,
    Twist,
    conversation,
)
from windlass.usage import Usage

ARGS = {"city": "Zürich", "days": 3}
CALLS = [("weather", ARGS), ("now", {}), ("weather", {"city": "東京"})]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
PARALLEL = Reply(
    "Ich schaue nach – für Zürich 🌦",
    thinking="Two places, one clock.",
    tool_calls=CALLS,
    usage=Usage(100, 20, cache_read_tokens=30, cache_write_tokens=10, reasoning_tokens=5),
)
TOOLS: list[Any] = [
    {"type": "function", "name": name, "parameters": SCHEMA, "strict": False}
    for name in ("weather", "now")
]
SEALED: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}


@pytest.fixture(params=["plain", "stream"])
def mode(request):
    return request.param


async def ask(server, mode, items, **more) -> Any:
    """The official client on the fake, in one mode."""
    client: Any = openai.AsyncOpenAI(
        api_key="k", base_url=server.url, max_retries=more.pop("retries", 0), timeout=10
    )
    options = dict(model="gpt-x", input=items, **more)
    async with client:
        if mode == "plain":
            return await client.responses.create(**options)
        if mode == "events":
            return [event async for event in await client.responses.create(**options, stream=True)]
        async with client.responses.stream(**options) as stream:
            return await stream.get_final_response()


async def test_the_official_client_goes_round(mode):
    async with FakeResponses(conversation(PARALLEL, "Regen."), api_key="k") as server:
        items: list[Any] = [{"role": "user", "content": "How is it?"}]
        reply = await ask(server, mode, items, tools=TOOLS, **SEALED)
        assert reply.status == "completed" and reply.output_text == PARALLEL.text
        thought, _, *calls = reply.output
        assert thought.summary[0].text == PARALLEL.thinking and thought.encrypted_content
        assert reply.usage.input_tokens_details.cached_tokens == 30
        assert reply.usage.output_tokens_details.reasoning_tokens == 5
        assert [call.name for call in calls] == [name for name, _ in CALLS]
        for item in reply.output:
            items.append(item.model_dump(exclude_none=True, exclude={"parsed_arguments"}))
        for item in items[1:]:
            for part in item.get("content", []):
                part.pop("parsed", None)
        items += [
            {"type": "function_call_output", "call_id": call.call_id, "output": "ok"}
            for call in calls
        ]
        reply = await ask(server, mode, items, tools=TOOLS, **SEALED)
        assert reply.output_text == "Regen."
    assert not server.refused


async def test_the_official_client_reads_it_as_our_decoder_does(mode):
    async with FakeResponses(PARALLEL, api_key="k") as server:
        theirs = await ask(server, mode, [{"role": "user", "content": "hi"}], **SEALED)
        model = OpenAIResponses("gpt-5.4", api_key="k", base_url=server.url)
        frame = w.models.base.Frame(settings=Settings(stream=mode == "stream"))
        ours = await model.respond(Request([Message("user", "hi")], frame), silent)
    assert ours.message.text == theirs.output_text
    asked = [item for item in theirs.output if item.type == "function_call"]
    assert [c.name for c in ours.message.tool_calls] == [item.name for item in asked]
    assert ours.usage == PARALLEL.usage
    assert (theirs.usage.input_tokens, theirs.usage.output_tokens) == (100, 20)


async def test_limits_and_refusals_are_said_in_the_providers_words(mode):
    items = [{"role": "user", "content": "x"}]
    async with FakeResponses(Reply("This goes on", stop_reason="max_tokens")) as server:
        reply = await ask(server, "plain", items)
        *_, last = await ask(server, "events", items)  # the helper knows of no other end than right
    assert (reply.status, last.type) == ("incomplete", "response.incomplete")
    assert (
        reply.incomplete_details.reason == "max_output_tokens"
        and last.response.output == reply.output
    )
    async with FakeResponses(Reply("I will not.", stop_reason="refusal")) as server:
        reply = await ask(server, mode, items)
    assert reply.output[0].content[0].refusal == "I will not."


async def test_errors_are_the_official_clients_own(mode):
    items = [{"role": "user", "content": "x"}]
    for status, kind in ((401, "AuthenticationError"), (429, "RateLimitError")):
        async with FakeResponses("x", faults=Status(status)) as server:
            with pytest.raises(getattr(openai, kind)):
                await ask(server, mode, items)


async def test_errors_in_a_stream_are_events_the_official_client_knows():
    items = [{"role": "user", "content": "x"}]
    async with FakeResponses(
        "x", faults=[Twist("error_event"), Twist("error_after_200")]
    ) as server:
        *_, told = await ask(server, "events", items)
        *_, failed = await ask(server, "events", items)
    assert (told.type, told.code) == ("error", "tool_use_failed")
    assert (failed.type, failed.response.error.code) == ("response.failed", "server_error")


# --------------------------------------------------------------------------- what it refuses

CALL = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "1"}
RIGHT: dict[str, Any] = {
    "model": "gpt-x",
    "store": False,
    "tools": [{"type": "function", "name": "add", "parameters": SCHEMA}],
    "input": [{"role": "user", "content": "hi"}, CALL, OUTPUT],
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}

BAD = {
    "no model": (lambda b: b.pop("model"), "Missing required parameter: 'model'"),
    "unknown key": (lambda b: b.update(messages=[]), "Unknown parameter: 'messages'"),
    "no input": (lambda b: b.update(input=[]), "Invalid 'input': empty array"),
    "few tokens": (lambda b: b.update(max_output_tokens=9), "Expected a value >= 16"),
    "include": (lambda b: b.update(include=["all"]), "Invalid value: 'all'"),
    "chat's tools": (
        lambda b: b.update(tools=[{"type": "function", "function": {"name": "add"}}]),
        "Missing required parameter: 'tools[0].name'",
    ),
    "choice": (
        lambda b: b.update(tool_choice={"type": "function", "name": "sub"}),
        "Tool choice 'sub' not found",
    ),
    "no output": (lambda b: b["input"].pop(), "No tool output found for function call c1"),
    "no call": (lambda b: b["input"].pop(1), "No tool call found for function call output"),
    "two outputs": (lambda b: b["input"].append(OUTPUT), "No tool call found"),
    "long id": (lambda b: b["input"][1].update(call_id="x" * 65), "string too long"),
    "object arguments": (lambda b: b["input"][1].update(arguments={}), "expected a string"),
    "part": (
        lambda b: b["input"].append({"role": "user", "content": [{"type": "output_text"}]}),
        "Invalid value: 'output_text'",
    ),
    "unsealed": (lambda b: b["input"].insert(1, THOUGHT), "Items are not persisted"),
    "broken seal": (
        lambda b: b["input"].insert(1, {**THOUGHT, "encrypted_content": "gAAA"}),
        "could not be verified",
    ),
    "lone thought": (
        lambda b: (b.update(store=True), b["input"].append(THOUGHT)),
        "without its required following item",
    ),
}


@pytest.mark.parametrize("name", BAD)
async def test_it_refuses(name):
    change, words = BAD[name]
    body = copy.deepcopy(RIGHT)
    change(body)
    async with FakeResponses("ok") as server, aiohttp.ClientSession() as http:
        async with http.post(f"{server.url}/responses", json=RIGHT) as response:
            assert response.status == 200
        async with http.post(f"{server.url}/responses", json=body) as response:
            assert response.status in (400, 404)
            error = (await response.json())["error"]
    assert words in error["message"]
    assert len(server.refused) == 1


# --------------------------------------------------------------------------- our own model on it


@pytest.mark.parametrize(
    "twist",
    [
        "empty_output",
        "no_item_done",
        "only_items",
        "only_the_end",
        "done_marker",
        "ids_change",
        "no_names",
        "index_zero",
    ],
)
async def test_streams_as_other_servers_write_them(twist):
    reply = Reply(PARALLEL.text, tool_calls=CALLS)
    async with FakeResponses(reply, faults=Twist(twist)) as server:
        model = OpenAIResponses("m", base_url=server.url)
        told: list[Any] = []
        response = await model.respond(Request([Message("user", "hi")]), told.append)
    assert response.message.text == PARALLEL.text
    assert [(c.name, c.arguments) for c in response.message.tool_calls] == CALLS
    assert "".join(t.text for t in told if hasattr(t, "text")) == PARALLEL.text
    assert [t.call for t in told if hasattr(t, "call")] == [*response.message.tool_calls]


async def test_a_marker_instead_of_an_end_leaves_no_count_of_tokens():
    async with FakeResponses("hello", faults=Twist("only_a_marker")) as server:
        model = OpenAIResponses("m", base_url=server.url)
        response = await model.respond(Request([Message("user", "hi")]), silent)
    assert response.message.text == "hello" and response.usage.estimated


async def test_an_agent_with_two_tools_thinks_between_its_calls(mode):
    """Sealed thoughts and phases go back as they came, or the fake would refuse them."""
    ran = []

    @w.tool
    async def look(order: str) -> str:
        """Look an order up."""
        ran.append(("look", order))
        return "found"

    @w.tool
    async def pay(cents: int) -> str:
        """Pay an amount out."""
        ran.append(("pay", cents))
        return "paid"

    script = conversation(
        Reply("Let me see.", "Look first.", [("look", {"order": "7"}), ("look", {"order": "8"})]),
        Reply("", "Found: pay.", [("pay", {"cents": 100})]),
        Reply("Paid.", "All done."),
    )
    async with FakeResponses(script, api_key="k", phases=True) as server:
        model = OpenAIResponses("gpt-5.4", api_key="k", base_url=server.url)
        agent = w.Agent(model, tools=[look, pay], stream=mode == "stream")
        out = await agent.run("Please.")
    assert (out.status, out.final_text) == ("done", "Paid.")
    assert not server.refused
    assert ran == [("look", "7"), ("look", "8"), ("pay", 100)]
    last = server.requests[-1].json["input"]
    kinds = [item.get("type", "user") for item in last]
    thought = [
        "reasoning",
        "message",
        "function_call",
        "function_call",
        *["function_call_output"] * 2,
    ]
    assert kinds == ["user", *thought, "reasoning", "function_call", "function_call_output"]
    assert last[2]["phase"] == "commentary"
    assert sum(isinstance(b, Thinking) for m in out.messages for b in m.content) == 3
    assert sum(isinstance(b, Opaque) for m in out.messages for b in m.content) == 2


async def test_a_session_moves_between_the_two_wires_of_one_provider():
    from windlass.testing.providers import FakeOpenAI

    @w.tool
    async def look(order: str) -> str:
        """Look an order up."""
        return "found"

    script = conversation(
        Reply("Let me see.", "Look.", [("look", {"order": "7"})]), "One.", "Two.", "Three."
    )
    async with FakeResponses(script, phases=True) as items, FakeOpenAI(script) as messages:
        there = OpenAIResponses("gpt-5.4", api_key="k", base_url=items.url)
        here = w.models.openai_chat("gpt-5.4", api_key="k", base_url=messages.url)
        said = []
        async with w.Runtime(store="memory:", environ={}):
            for model in (there, here, there):
                agent = w.Agent(model, tools=[look])
                said.append((await agent.run("Go on.", session_id="s")).final_text)
    assert said == ["One.", "Two.", "Three."]
    assert not items.refused and not messages.refused

"""Tools held back until a search finds them: OpenAI's own search, theirs to run or ours."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from windlass.errors import ConfigError
from windlass.messages import Message, Opaque, Text, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings, silent
from windlass.models.registry.capabilities import Capabilities
from windlass.models.tool_search import searches
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses
from windlass.testing.providers import FakeResponses, Reply, conversation

ANY: dict[str, Any] = {"type": "object", "properties": {}}
NOW = ToolSpec("now", "The time.", ANY)
MAIL = ToolSpec("mail.send", "Send.", ANY, defer_loading=True, namespace="mail")
READ = ToolSpec("read_mail", "Read.", ANY, defer_loading=True, namespace="mail")
RATE = ToolSpec("rate", "A rate.", ANY, defer_loading=True)
TOOLS = (NOW, MAIL, RATE, READ)
FIND = ToolSpec(
    "find_tool", "Find tools.", {"type": "object", "properties": {"query": {"type": "string"}}}
)
CAPS = Capabilities(known=True, defer_loading=True, tool_search=("hosted", "client"))
ASK = Message("user", "what is it worth?")


def responses(server: FakeResponses | None = None) -> OpenAIResponses:
    model = OpenAIResponses("m-1", api_key="k", base_url=server.url if server else None)
    model.caps = CAPS
    return model


def body(model: Any, *messages: Message, tools: tuple[ToolSpec, ...], search: str | None) -> Any:
    frame = Frame(tools=tools, settings=Settings(tool_search=search))
    return json.loads(b"".join(model.encode(Request(messages or (ASK,), frame))))


def test_hosted_the_search_stands_first_and_namespaces_hold_their_tools() -> None:
    search, now, mail, rate = body(responses(), tools=TOOLS, search="hosted")["tools"]
    assert search == {"type": "tool_search", "execution": "server"}
    assert now["name"] == "now" and "defer_loading" not in now
    assert (mail["type"], mail["name"]) == ("namespace", "mail") and mail["description"]
    assert [tool["name"][:4] for tool in mail["tools"]] == ["mail", "read"]
    assert all(tool["defer_loading"] is True for tool in (*mail["tools"], rate))
    assert rate["type"] == "function"


def test_without_a_search_nothing_is_held_back() -> None:
    sent = body(responses(), tools=TOOLS, search=None)["tools"]
    assert [tool["type"] for tool in sent] == ["function"] * 4
    assert "defer_loading" not in str(sent) and "namespace" not in str(sent)
    sent = body(OpenAIChat("x", provider="openrouter", api_key="k"), tools=TOOLS, search=None)
    assert "defer_loading" not in str(sent)


def test_what_is_searched_by_others_only() -> None:
    with pytest.raises(ConfigError, match="'hosted' or 'client' here, not 'bm25'"):
        body(responses(), tools=TOOLS, search="bm25")
    with pytest.raises(ConfigError, match="'hosted' here, not 'client'"):
        body(OpenAIChat("x", provider="openrouter", api_key="k"), tools=TOOLS, search="client")


def test_over_a_router_the_search_is_passed_on() -> None:
    model = OpenAIChat("openai/gpt-5.4", provider="openrouter", api_key="k")
    search, now, mail, rate, read = body(model, tools=TOOLS, search="hosted")["tools"]
    assert search == {"type": "tool_search", "execution": "server", "namespaces": ["mail"]}
    assert "defer_loading" not in now
    assert all(tool["defer_loading"] is True for tool in (mail, rate, read))
    assert "defer_loading" not in rate["function"]


def test_what_a_router_says_of_a_search_is_kept() -> None:
    model = OpenAIChat("openai/gpt-5.4", provider="openrouter", api_key="k")
    items = [
        {"type": "tool_search_call", "id": "s1", "arguments": {"query": "rate"}},
        {"type": "tool_search_output", "id": "s1", "tools": [{"function": {"name": "rate"}}]},
    ]
    call = {"id": "c1", "type": "function", "function": {"name": "rate", "arguments": "{}"}}
    said = {"message": {"tool_calls": [*items, call]}, "finish_reason": "tool_calls"}
    streamed = {"delta": {"tool_calls": [*items, {**call, "index": 0}]}, "finish_reason": "stop"}
    for data in (
        json.dumps({"choices": [said]}),
        f"data: {json.dumps({'choices': [streamed]})}\n\ndata: [DONE]\n\n",
    ):
        decoder = model.decoder(Request([ASK]), silent)
        decoder.feed(data.encode())
        message = decoder.finish().message
        assert [call.name for call in message.tool_calls] == ["rate"]
        assert [tuple(search) for search in searches(message)] == [
            ("s1", "rate", "hosted", ("rate",))
        ]


async def test_openais_models_are_asked_over_the_wire_that_searches() -> None:
    script = conversation(Reply(tool_calls=[("rate", {})]), "0.92")
    async with FakeResponses(script, api_key="k") as server:
        model = OpenAIChat("m-1", api_key="k", base_url=server.url)
        model.caps = model.over_responses.caps = CAPS
        frame = Frame(tools=TOOLS, settings=Settings(tool_search="hosted"))
        reply = await model.respond(Request([ASK], frame), silent)
        assert [call.name for call in reply.message.tool_calls] == ["rate"]
        done = Message("tool", (ToolResult(reply.message.tool_calls[0].id, "0.92"),))
        again = await model.respond(Request([ASK, reply.message, done], frame), silent)
        assert again.text == "0.92" and not server.refused
        assert {asked.path for asked in server.requests} == {"/v1/responses"}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_search_the_provider_ran_is_read_and_goes_back_as_it_came(stream: bool) -> None:
    script = conversation(
        Reply(tool_calls=[("read_mail", {})]), Reply(tool_calls=[("read_mail", {})]), "done"
    )
    async with FakeResponses(script, api_key="k") as server:
        model = responses(server)
        frame = Frame(tools=TOOLS, settings=Settings(tool_search="hosted", stream=stream))
        messages = [ASK]
        for _ in range(3):
            reply = await model.respond(Request(messages, frame), silent)
            results = tuple(ToolResult(call.id, "r") for call in reply.message.tool_calls)
            messages += [reply.message, Message("tool", results)]
        assert reply.text == "done" and not server.refused
        first = messages[1]
        (search,) = searches(first, [tool.name for tool in TOOLS])
        assert (search.query, search.strategy) == (["mail.read_mail"], "hosted")
        assert search.tool_names == ("read_mail",)
        native = [block.data for block in first.content if isinstance(block, Opaque)]
        sent = server.requests[2].json["input"]
        assert [item for item in sent if item.get("type", "").startswith("tool_search")] == native
        assert [call["namespace"] for call in sent if call.get("type") == "function_call"] == [
            "mail",
            "mail",
        ]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_search_that_we_run_is_a_call_whose_answer_brings_the_tools(stream: bool) -> None:
    script = conversation(
        Reply(tool_calls=[("tool_search", {"query": "rate"})]),
        Reply(tool_calls=[("rate", {})]),
        "0.92",
    )
    async with FakeResponses(script, api_key="k") as server:
        model = responses(server)
        settings = Settings(tool_search="client", stream=stream)
        frame = Frame(tools=(FIND, *TOOLS), settings=settings)
        told: list[Any] = []
        asked = await model.respond(Request([ASK], frame), told.append)
        (call,) = asked.message.tool_calls
        assert (call.name, call.arguments) == ("find_tool", {"query": "rate"})
        assert asked.stop_reason == "tool_use" and len(told) == 1
        found = {"tool_names": ["rate", "read_mail"], "tools": [RATE, READ]}
        result = ToolResult(call.id, msgspec.json.encode(found).decode(), name="find_tool")
        messages = [ASK, asked.message, Message("tool", (result,))]
        reply = await model.respond(Request(messages, frame), silent)
        (call,) = reply.message.tool_calls
        messages += [reply.message, Message("tool", (ToolResult(call.id, "0.92"),))]
        assert (await model.respond(Request(messages, frame), silent)).text == "0.92"
        assert not server.refused
        sent = server.requests[1].json
        meta, now = sent["tools"]
        assert (meta["type"], meta["execution"]) == ("tool_search", "client")
        assert meta["parameters"] == FIND.parameters and now["name"] == "now"
        question, answer = sent["input"][1:]
        assert question == {
            "type": "tool_search_call",
            "execution": "client",
            "status": "completed",
            "call_id": answer["call_id"],
            "arguments": {"query": "rate"},
        }
        assert [tool["type"] for tool in answer["tools"]] == ["function", "namespace"]
        assert answer["tools"][0]["defer_loading"] is True


def test_a_search_in_the_history_of_a_model_that_knows_none() -> None:
    call = ToolCall("toolsearch-call_1", "find_tool", {"query": "x"})
    history = (ASK, Message("assistant", (call,)), Message("tool", (ToolResult(call.id, "none"),)))
    plain = responses()
    plain.caps = Capabilities(known=True)
    items = body(plain, *history, tools=(NOW,), search=None)["input"]
    assert [item.get("type") for item in items[1:]] == ["function_call", "function_call_output"]
    assert items[1]["call_id"] == items[2]["call_id"] and items[2]["output"] == "none"
    # nor where the loop had to give the search another id, since the provider used one twice
    mark = {"type": "tool_search_call"}
    again = ToolCall("call_9", "find_tool", {}, None, mark, plain._origin)
    said = (ASK, Message("assistant", (again,)), Message("tool", (ToolResult("call_9", "x"),)))
    for model in (plain, responses()):
        items = body(model, *said, tools=(NOW,), search=None)["input"]
        assert [item.get("type") for item in items[1:]] == ["function_call", "function_call_output"]
    # words that are no answer of ours find no tools, and are no reason to fail
    items = body(responses(), *history, tools=(NOW,), search=None)["input"]
    assert items[2] == {
        "type": "tool_search_output",
        "call_id": "call_1",
        "execution": "client",
        "status": "completed",
        "tools": [],
    }


def test_searches_in_a_row_are_paired_with_their_answers() -> None:
    def opaque(**data: Any) -> Opaque:
        return Opaque(responses()._origin, data)

    message = Message(
        "assistant",
        (
            opaque(type="tool_search_call", id="a", arguments={"paths": ["x"]}),
            opaque(type="tool_search_output", id="b", tools=[{"name": "x"}]),
            opaque(type="tool_search_call", id="c", arguments={"paths": ["y"]}),
            opaque(type="tool_search_output", id="d", tools=[{"name": "y"}]),
            Text("so"),
        ),
    )
    assert [(search.search_id, search.tool_names) for search in searches(message)] == [
        ("a", ("x",)),
        ("c", ("y",)),
    ]

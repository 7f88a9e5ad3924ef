"""Fakes of OpenAI's kin, and of what else OpenAI serves: the official clients believe them."""

from __future__ import annotations

from typing import Any

import openai
import pytest

import windlass as w
from windlass.messages import Message, Text, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings, silent
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses
from windlass.testing.providers import (
    FakeAzure,
    FakeMistral,
    FakeOpenAI,
    FakeResponses,
    Reply,
    conversation,
)

CALLS = [("add", {"a": 1}), ("add", {"a": 2})]
ASK: list[Any] = [{"role": "user", "content": "hi"}]
ANY: dict[str, Any] = {"type": "object", "properties": {}}
both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])


def client(server: Any, **options: Any) -> Any:
    return openai.AsyncOpenAI(api_key="k", base_url=server.url, max_retries=0, **options)


@both
async def test_azures_client_reads_the_fake(stream: bool) -> None:
    async with FakeAzure(Reply("Hi.", tool_calls=CALLS), api_key="k") as server:
        azure: Any = openai.AsyncAzureOpenAI(
            api_key="k", azure_endpoint=server.url, api_version="2024-10-21", max_retries=0
        )
        async with azure:
            got = await azure.chat.completions.create(model="gpt", messages=ASK, stream=stream)
            if stream:
                chunks = [chunk async for chunk in got]
                assert chunks[0].choices == [] and chunks[0].prompt_filter_results
                said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            else:
                said = got.choices[0].message.content
        assert said == "Hi." and not server.refused
        # and what ours sends is what theirs sends
        model = OpenAIChat(
            "gpt", provider="azure", api_key="k", base_url=server.url, api_version="2024-10-21"
        )
        await model.respond(Request([Message("user", "hi")]), silent)
        theirs, ours = server.requests
        assert (ours.path, ours.query) == (theirs.path, theirs.query)
        assert ours.headers["api-key"] == theirs.headers["api-key"]


@both
async def test_the_official_client_reads_text_that_goes_on(stream: bool) -> None:
    async with FakeOpenAI("sum(prices)", api_key="k") as server, client(server) as theirs:
        got = await theirs.completions.create(
            model="m", prompt="let total = ", suffix=";", stream=stream
        )
        if stream:
            said = "".join([c.choices[0].text async for c in got if c.choices])
        else:
            said = got.choices[0].text
        assert said == "sum(prices)" and not server.refused


@both
async def test_the_official_client_reads_a_search(stream: bool) -> None:
    tools: list[Any] = [
        {"type": "tool_search", "execution": "server"},
        {
            "type": "namespace",
            "name": "mail",
            "description": "Mail.",
            "tools": [
                {"type": "function", "name": "add", "parameters": ANY, "defer_loading": True}
            ],
        },
    ]
    async with (
        FakeResponses(Reply(tool_calls=CALLS[:1]), api_key="k") as server,
        client(server) as theirs,
    ):
        got = await theirs.responses.create(model="m", input=ASK, tools=tools, stream=stream)
        if stream:
            got = [event async for event in got][-1].response
        assert [item.type for item in got.output] == [
            "tool_search_call",
            "tool_search_output",
            "function_call",
        ]
        search, found, call = got.output
        assert search.execution == "server" and call.namespace == "mail"
        assert found.tools[0].type == "namespace" and not server.refused


async def test_tokens_are_counted_as_the_official_client_asks() -> None:
    async with FakeResponses("ok", api_key="k") as server, client(server) as theirs:
        counted = await theirs.responses.input_tokens.count(
            model="m", input=[{"role": "user", "content": "hi " * 50}]
        )
        assert counted.input_tokens > 0
        settings = Settings(max_tokens=50, temperature=0.5, schema=ANY, tool_choice="auto")
        tools = (ToolSpec("add", "Add.", ANY),)
        request = Request([Message("user", "hi " * 50)], Frame("Be brief.", tools, settings))
        for kind in (OpenAIResponses, OpenAIChat):
            model = kind("m", api_key="k", base_url=server.url)
            assert (await model.count_tokens(request) or 0) > 0
            assert server.requests[-1].path == "/v1/responses/input_tokens"
            assert server.requests[-1].json["instructions"] == "Be brief."
        assert not server.refused
        elsewhere = OpenAIChat("m", provider="groq", api_key="k", base_url=server.url)
        assert await elsewhere.count_tokens(request) is None


# --------------------------------------------------------------------------- Mistral


@both
async def test_mistrals_client_reads_the_fake(stream: bool) -> None:
    mistral: Any = pytest.importorskip("mistralai.client")
    reply = Reply("So.", thinking="Hm, well.", tool_calls=CALLS)
    async with FakeMistral(reply, api_key="k") as server:
        async with mistral.Mistral(
            api_key="k", server_url=server.url.removesuffix("/v1")
        ) as theirs:
            asked: dict[str, Any] = {"model": "m", "messages": ASK}
            if stream:
                said, calls, thought = "", [], ""
                async for event in await theirs.chat.stream_async(**asked):
                    delta = event.data.choices[0].delta
                    if isinstance(delta.content, str):
                        said += delta.content
                    else:
                        thought += "".join(part.thinking[0].text for part in delta.content)
                    calls += delta.tool_calls or []
            else:
                message = (await theirs.chat.complete_async(**asked)).choices[0].message
                (part, words), calls = message.content, message.tool_calls
                said, thought = words.text, part.thinking[0].text
        assert (said, thought) == ("So.", "Hm, well.") and len(calls) == 2
        assert not server.refused


@both
async def test_mistrals_client_reads_text_in_the_middle(stream: bool) -> None:
    mistral: Any = pytest.importorskip("mistralai.client")
    async with FakeMistral("sum(prices)", api_key="k") as server:
        url = server.url.removesuffix("/v1")
        async with mistral.Mistral(api_key="k", server_url=url) as theirs:
            asked = {"model": "m", "prompt": "let total = ", "suffix": ";"}
            if stream:
                events = await theirs.fim.stream_async(**asked)
                said = "".join([e.data.choices[0].delta.content async for e in events])
            else:
                said = (await theirs.fim.complete_async(**asked)).choices[0].message.content
        assert said == "sum(prices)" and not server.refused


@both
async def test_an_agent_on_mistral_keeps_its_rules(stream: bool) -> None:
    def add(a: int) -> int:
        """Add."""
        return a + 1

    script = conversation(Reply(thinking="Hm.", tool_calls=CALLS), "3", "4")
    async with FakeMistral(script, api_key="k") as server:
        model = OpenAIChat("magistral-x", provider="mistral", api_key="k", base_url=server.url)
        agent = w.Agent(model, tools=[add], stream=stream, max_tokens=50, seed=3)
        result = await agent.run("go")
        assert result.text == "3" and not server.refused
        again = await agent.run("and now?", session_id=result.session_id)
        assert again.text == "4" and not server.refused


@both
async def test_a_foreign_history_is_taken_by_mistral(stream: bool) -> None:
    history = [
        Message("user", "go"),
        Message("assistant", (Text(""), ToolCall("toolu_01U7MY7od7kCtLUQAveyY6qx", "add", {}))),
        Message("tool", (ToolResult("toolu_01U7MY7od7kCtLUQAveyY6qx", "3"), Text("hm?"))),
        Message("assistant", "3"),
        Message("user", "more"),
    ]
    async with FakeMistral("ok", api_key="k") as server:
        model = OpenAIChat("m", provider="mistral", api_key="k", base_url=server.url)
        model.caps = Capabilities(known=True, call_ids="9")
        request = Request(history, Frame("Be brief.", settings=Settings(stream=stream)))
        assert (await model.respond(request, silent)).text == "ok" and not server.refused

"""The fakes refuse what the providers refuse, in the providers' shape."""

from __future__ import annotations

import copy

import aiohttp
import pytest

from windlass.testing.providers import FakeAnthropic, FakeOpenAI

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
VERSION = {"anthropic-version": "2023-06-01", "x-api-key": "k"}
BEARER = {"authorization": "Bearer k"}


async def post(server, body, headers):
    async with aiohttp.ClientSession() as http:
        url = server.url.removesuffix("/v1") + server.path
        async with http.post(url, json=body, headers=headers) as response:
            return response.status, await response.json()


# ------------------------------------------------------------------------- Anthropic


def use(call_id, name="add"):
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"a": 1}}


def result(call_id):
    return {"type": "tool_result", "tool_use_id": call_id, "content": "1"}


def user(*blocks):
    return {"role": "user", "content": list(blocks) or "hi"}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


TEXT = {"type": "text", "text": "so"}
ROUND = [user(), assistant(TEXT, use("c1"), use("c2")), user(result("c1"), result("c2"), TEXT)]
CLAUDE = {
    "model": "claude-x",
    "max_tokens": 100,
    "system": "be brief",
    "tools": [{"name": "add", "description": "Add.", "input_schema": SCHEMA}],
    "messages": ROUND,
}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "bm90IG91cnM="}
MARK = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}

BAD_CLAUDE = {
    "no max_tokens": (lambda b: b.pop("max_tokens"), "max_tokens: Field required"),
    "max_tokens 0": (lambda b: b.update(max_tokens=0), "max_tokens: Input should be greater"),
    "no model": (lambda b: b.pop("model"), "model: Field required"),
    "no messages": (lambda b: b.update(messages=[]), "at least one message is required"),
    "unknown key": (lambda b: b.update(stop=["x"]), "stop: Extra inputs are not permitted"),
    "system role": (
        lambda b: b["messages"].insert(0, {"role": "system", "content": "x"}),
        'Unexpected role "system"',
    ),
    "assistant first": (lambda b: b["messages"].pop(0), 'first message must use the "user" role'),
    "no results": (
        lambda b: b["messages"].pop(2),
        "without `tool_result` blocks immediately after: c1, c2",
    ),
    "one result missing": (lambda b: b["messages"][2]["content"].pop(1), "immediately after: c2"),
    "text before results": (
        lambda b: b["messages"][2]["content"].insert(0, TEXT),
        "immediately after: c1, c2",
    ),
    "results one message late": (
        lambda b: b["messages"].insert(2, user(TEXT)),
        "immediately after: c1, c2",
    ),
    "result without call": (
        lambda b: b["messages"][2]["content"].append(result("c9")),
        "unexpected `tool_use_id` found in `tool_result` blocks: c9",
    ),
    "result of nothing": (
        lambda b: b.update(messages=[user(result("c1"))]),
        "unexpected `tool_use_id`",
    ),
    "result twice": (
        lambda b: b["messages"][2]["content"].insert(1, result("c1")),
        "must have a single result",
    ),
    "id used in two turns": (
        lambda b: b["messages"].extend(copy.deepcopy(ROUND[1:])),
        "ids must be unique",
    ),
    "bad id": (
        lambda b: b.update(messages=[user(), assistant(use("c.1")), user(result("c.1"))]),
        "tool_use.id: String should match pattern",
    ),
    "bad tool name": (
        lambda b: b["tools"][0].update(name="my.add"),
        "tools.0.custom.name: String should match",
    ),
    "long tool name": (
        lambda b: b["tools"][0].update(name="a" * 65),
        "tools.0.custom.name: String should match",
    ),
    "bad name in history": (
        lambda b: b["messages"][1]["content"][1].update(name="a b"),
        "tool_use.name: String should match",
    ),
    "same tool twice": (lambda b: b["tools"].append(b["tools"][0]), "Tool names must be unique"),
    "no schema": (lambda b: b["tools"][0].pop("input_schema"), "input_schema: Field required"),
    "schema of a list": (
        lambda b: b["tools"][0].update(input_schema={"type": "array"}),
        "Input should be 'object'",
    ),
    "choice of an unknown tool": (
        lambda b: b.update(tool_choice={"type": "tool", "name": "x"}),
        "Tool 'x' not found",
    ),
    "choice without tools": (
        lambda b: b.update(tool_choice={"type": "any"}, tools=[]),
        "only be specified while providing tools",
    ),
    "OpenAI's choice": (
        lambda b: b.update(tool_choice={"type": "required"}),
        "tool_choice: Input tag",
    ),
    "empty text": (
        lambda b: b["messages"][0].update(content=[{"type": "text", "text": " "}]),
        "must be non-empty",
    ),
    "empty message": (lambda b: b["messages"][0].update(content=[]), "must have non-empty content"),
    "trailing space": (
        lambda b: b["messages"].append(assistant({"type": "text", "text": "so "})),
        "trailing whitespace",
    ),
    "foreign block": (
        lambda b: b["messages"][0].update(content=[{"type": "input_text"}]),
        "Input tag 'input_text'",
    ),
    "call by the user": (
        lambda b: b["messages"][0].update(content=[use("c7")]),
        "not allowed for user",
    ),
    "arguments as text": (
        lambda b: b["messages"][1]["content"][1].update(input="{}"),
        "valid dictionary",
    ),
    "forged thought": (
        lambda b: b["messages"][1]["content"].insert(0, THOUGHT),
        "Invalid `signature`",
    ),
    "unsigned thought": (
        lambda b: b["messages"][1]["content"].insert(0, {"type": "thinking", "thinking": "hm"}),
        "signature: Field required",
    ),
    "forced choice while thinking": (
        lambda b: b.update(
            thinking={"type": "enabled", "budget_tokens": 2000},
            max_tokens=3000,
            tool_choice={"type": "any"},
        ),
        "Thinking may not be enabled when tool_choice forces",
    ),
    "thinking longer than the answer": (
        lambda b: b.update(thinking={"type": "enabled", "budget_tokens": 2000}),
        "must be greater than `thinking.budget_tokens`",
    ),
    "five cache marks": (
        lambda b: b["messages"][0].update(content=[MARK] * 5),
        "maximum of 4 blocks",
    ),
}


@pytest.mark.parametrize("name", BAD_CLAUDE)
async def test_anthropic_refuses(name):
    spoil, words = BAD_CLAUDE[name]
    body = copy.deepcopy(CLAUDE)
    spoil(body)
    async with FakeAnthropic("ok") as server:
        status, answer = await post(server, body, VERSION)
    assert (status, answer["type"], answer["error"]["type"]) == (
        400,
        "error",
        "invalid_request_error",
    )
    assert words in answer["error"]["message"]
    assert len(server.refused) == 1


async def test_anthropic_takes_a_right_history():
    async with FakeAnthropic("ok") as server:
        status, answer = await post(server, CLAUDE, VERSION)
        assert (status, answer["content"][0]["text"]) == (200, "ok")
        await post(server, {**CLAUDE, "messages": [user(), user(TEXT)]}, VERSION)
    assert not server.refused


async def test_anthropic_wants_its_headers_and_path():
    async with FakeAnthropic("ok", api_key="k") as server:
        assert (await post(server, CLAUDE, {"x-api-key": "k"}))[0] == 400
        status, answer = await post(server, CLAUDE, {"anthropic-version": "2023-06-01"})
        assert (status, answer["error"]["type"]) == (401, "authentication_error")
        async with aiohttp.ClientSession() as http:
            async with http.get(server.url + "/v1/messages", headers=VERSION) as response:
                assert response.status == 405
            async with http.post(server.url + "/v1/nothing", headers=VERSION) as response:
                assert (response.status, (await response.json())["error"]["type"]) == (
                    404,
                    "not_found_error",
                )
            async with http.post(
                server.url + "/v1/messages", data=b"{", headers=VERSION
            ) as response:
                assert response.status == 400
    assert [asked.method for asked in server.requests] == ["POST", "POST", "GET", "POST", "POST"]


# ------------------------------------------------------------------------- OpenAI


def call(call_id, name="add"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": '{"a":1}'}}


def tool(call_id):
    return {"role": "tool", "tool_call_id": call_id, "content": "1"}


ASK = {"role": "user", "content": "hi"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [call("c1"), call("c2")]}
GPT = {
    "model": "gpt-x",
    "tools": [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}],
    "messages": [{"role": "system", "content": "s"}, ASK, CALLED, tool("c1"), tool("c2")],
}

BAD_GPT = {
    "no model": (lambda b: b.pop("model"), "you must provide a model"),
    "no messages": (lambda b: b.update(messages=[]), "Invalid 'messages': empty array"),
    "unknown key": (lambda b: b.update(top_k=3), "Unrecognized request argument supplied: top_k"),
    "one call open": (lambda b: b["messages"].pop(), "did not have response messages: c2"),
    "all calls open": (
        lambda b: b.update(messages=[ASK, CALLED, ASK]),
        "response messages: c1, c2",
    ),
    "answer after the user": (lambda b: b["messages"].insert(4, ASK), "response messages: c2"),
    "unknown call": (
        lambda b: b["messages"].append(tool("c9")),
        "'tool_call_id' of 'c9' not found",
    ),
    "answer twice": (
        lambda b: b["messages"].append(tool("c1")),
        "Duplicate value for 'tool_call_id'",
    ),
    "answer without calls": (
        lambda b: b.update(messages=[ASK, tool("c1")]),
        "must be a response to a preceeding",
    ),
    "two calls with one id": (
        lambda b: b["messages"][2].update(tool_calls=[call("c1"), call("c1")]),
        "Duplicate value",
    ),
    "no calls": (lambda b: b.update(messages=[ASK, {**CALLED, "tool_calls": []}]), "empty array"),
    "long id": (
        lambda b: b["messages"][2]["tool_calls"][0].update(id="c" * 41),
        "maximum length 40",
    ),
    "arguments as object": (
        lambda b: b["messages"][2]["tool_calls"][0]["function"].update(arguments={}),
        "expected a string",
    ),
    "no call type": (
        lambda b: b["messages"][2]["tool_calls"][0].pop("type"),
        "tool_calls[0].type'",
    ),
    "nothing said": (
        lambda b: b["messages"].append({"role": "assistant"}),
        "expected a string, got null",
    ),
    "number said": (
        lambda b: b["messages"][1].update(content=3),
        "Invalid type for 'messages[1].content'",
    ),
    "foreign part": (
        lambda b: b["messages"][1].update(content=[{"type": "image"}]),
        "Invalid value: 'image'",
    ),
    "foreign role": (lambda b: b["messages"][1].update(role="human"), "Invalid value: 'human'"),
    "bad tool name": (
        lambda b: b["tools"][0]["function"].update(name="my.add"),
        "does not match pattern",
    ),
    "long tool name": (
        lambda b: b["tools"][0]["function"].update(name="a" * 65),
        "maximum length 64",
    ),
    "bad name in history": (
        lambda b: b["messages"][2]["tool_calls"][0]["function"].update(name="a b"),
        "does not match pattern",
    ),
    "no tools in the list": (lambda b: b.update(tools=[]), "Invalid 'tools': empty array"),
    "Anthropic's tool": (lambda b: b.update(tools=[{"name": "add"}]), "'tools[0].type'"),
    "schema of a list": (
        lambda b: b["tools"][0]["function"].update(parameters={"type": "array"}),
        "Invalid schema for function 'add'",
    ),
    "choice without tools": (
        lambda b: (b.pop("tools"), b.update(tool_choice="auto")),
        "only allowed when 'tools' are specified",
    ),
    "parallel without tools": (
        lambda b: (b.pop("tools"), b.update(parallel_tool_calls=True)),
        "only allowed when 'tools' are specified",
    ),
    "Anthropic's choice": (lambda b: b.update(tool_choice="any"), "Invalid value: 'any'"),
    "choice of an unknown tool": (
        lambda b: b.update(tool_choice={"type": "function", "function": {"name": "x"}}),
        "no function named 'x'",
    ),
    "usage of no stream": (
        lambda b: b.update(stream_options={"include_usage": True}),
        "only allowed when 'stream' is enabled",
    ),
    "no room": (lambda b: b.update(max_tokens=0), "below minimum value"),
}


@pytest.mark.parametrize("name", BAD_GPT)
async def test_openai_refuses(name):
    spoil, words = BAD_GPT[name]
    body = copy.deepcopy(GPT)
    spoil(body)
    async with FakeOpenAI("ok") as server:
        status, answer = await post(server, body, BEARER)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert set(answer["error"]) == {"message", "type", "param", "code"}
    assert words in answer["error"]["message"] or words in answer["error"]["param"] + "'"
    assert len(server.refused) == 1


async def test_openai_takes_a_right_history_and_what_it_was_told_to_take():
    async with FakeOpenAI("ok", also=["top_k"]) as server:
        status, answer = await post(server, {**GPT, "top_k": 3}, BEARER)
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "ok")
    assert not server.refused


async def test_openai_wants_a_key():
    async with FakeOpenAI("ok", api_key="k") as server:
        for headers, code in (
            ({}, "missing_api_key"),
            ({"authorization": "Bearer x"}, "invalid_api_key"),
        ):
            status, answer = await post(server, GPT, headers)
            assert (status, answer["error"]["code"]) == (401, code)

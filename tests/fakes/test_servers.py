"""The servers themselves: what they record, that they repeat themselves, and that they close."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from windlass.testing.providers import (
    FAULTS,
    FakeAnthropic,
    FakeOpenAI,
    Hangup,
    Pieces,
    Reply,
    Silence,
    Status,
    Twist,
    applies,
    conversation,
)

BOTH = [FakeAnthropic, FakeOpenAI]
TIMING = (Silence, Pieces, Hangup)  # these change when bytes come, or that they stop
TURN = ("date", "request-id", "x-request-id", "content-length")  # of one exchange alone
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "k", "authorization": "Bearer k"}
CALLS = Reply("Grüße 🌦", tool_calls=[("add", {"a": 1, "b": [2, "ü"]}), ("now", {})])


def body(stream=False, words="hi"):
    asks = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": words}]}
    return {**asks, "stream": True} if stream else asks


def counted(fake, stream):
    """The same, asking for usage where that must be asked for."""
    options = {"stream_options": {"include_usage": True}} if fake is FakeOpenAI and stream else {}
    return {**body(stream), **options}


def session():
    """A client that leaves the bytes as they came."""
    return aiohttp.ClientSession(auto_decompress=False)


async def raw(http, server, asks):
    url = server.url.removesuffix("/v1") + server.path
    async with http.post(url, json=asks, headers=HEADERS) as response:
        return response, await response.read()


def events(data):
    """The JSON of each event of a stream, read in the plainest way."""
    lines = [line for line in data.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]


@pytest.mark.parametrize("fake", BOTH)
@pytest.mark.parametrize("stream", [False, True])
async def test_the_same_request_gets_the_same_bytes_whatever_came_between(fake, stream):
    faults = [None, Status(500), Twist("no_usage"), None]
    async with fake(CALLS, faults=faults) as server, aiohttp.ClientSession() as http:
        said = [(await raw(http, server, counted(fake, stream)))[1] for _ in faults]
        _, other = await raw(http, server, body(stream, words="something else"))
    assert said[0] == said[3]
    assert len({said[0], said[1], said[2], other}) == 4


@pytest.mark.parametrize("fake", BOTH)
async def test_requests_are_recorded_with_their_connection(fake):
    faults = [None, Hangup("after_reply"), None]
    async with fake("ok", faults=faults) as server, aiohttp.ClientSession() as http:
        await raw(http, server, body())
        await raw(http, server, body())
        try:
            await raw(http, server, body())
        except aiohttp.ServerDisconnectedError:  # the client had not yet noticed the hang-up
            await raw(http, server, body())
    first, second, third = server.requests
    assert (first.method, first.path, first.json, first.index) == ("POST", server.path, body(), 0)
    assert json.loads(first.body) == body()
    assert first.headers["x-api-key"] == "k"
    assert (first.connection, second.connection, third.connection) == (0, 0, 1)


async def test_anthropic_frames_a_stream_as_the_provider_does():
    thoughtful = Reply("Grüße 🌦", thinking="hm", tool_calls=[("add", {"a": 1}), ("now", {})])
    async with FakeAnthropic(thoughtful) as server, aiohttp.ClientSession() as http:
        response, data = await raw(http, server, body(True))
    kinds = [event["type"] for event in events(data)]
    assert kinds[:3] == ["message_start", "content_block_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    names = [line[7:] for line in data.decode().split("\n") if line.startswith("event: ")]
    assert names == kinds
    started = [e["content_block"] for e in events(data) if e["type"] == "content_block_start"]
    assert [block["type"] for block in started] == ["thinking", "text", "tool_use", "tool_use"]
    assert started[2]["input"] == {}
    deltas = [e for e in events(data) if e["type"] == "content_block_delta"]
    for index, whole in ((2, '{"a":1}'), (3, "")):
        parts = [e["delta"]["partial_json"] for e in deltas if e["index"] == index]
        assert parts[0] == ""
        assert "".join(parts) == whole


async def test_openai_frames_a_stream_as_the_provider_does():
    asks = {**body(True), "stream_options": {"include_usage": True}}
    async with FakeOpenAI(CALLS) as server, aiohttp.ClientSession() as http:
        _, data = await raw(http, server, asks)
        _, uncounted = await raw(http, server, body(True))
    chunks = events(data)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert all("role" not in c["choices"][0]["delta"] for c in chunks[1:-1])
    parts = [p for c in chunks[:-1] for p in c["choices"][0]["delta"].get("tool_calls", ())]
    for index, whole in ((0, '{"a":1,"b":[2,"ü"]}'), (1, "{}")):
        mine = [part for part in parts if part["index"] == index]
        assert [("id" in part, "name" in part["function"]) for part in mine] == [(True, True)] + [
            (False, False)
        ] * (len(mine) - 1)
        assert mine[0]["function"]["arguments"] == ""
        assert "".join(part["function"]["arguments"] for part in mine) == whole
    finished = [c["choices"][0]["finish_reason"] for c in chunks[:-1]]
    assert finished[-1] == "tool_calls" and set(finished[:-1]) == {None}
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["total_tokens"] > 0
    assert data.endswith(b"data: [DONE]\n\n")
    assert all("usage" not in chunk for chunk in events(uncounted))


@pytest.mark.parametrize("fake", BOTH)
@pytest.mark.parametrize("name", [n for n, f in FAULTS.items() if not isinstance(f, TIMING)])
async def test_every_fault_changes_what_is_said(fake, name):
    """A fault that leaves the answer alone would test nothing."""
    fault = FAULTS[name]
    for stream in (False, True):
        if not applies(name, fake.wire, stream=stream):
            continue
        async with fake(CALLS, faults=[None, fault]) as server, session() as http:
            right, data = await raw(http, server, counted(fake, stream))
            wrong, other = await raw(http, server, counted(fake, stream))
        heads = [
            {k: v for k, v in r.headers.items() if k.lower() not in TURN} for r in (right, wrong)
        ]
        assert (right.status, heads[0], data) != (wrong.status, heads[1], other)


@pytest.mark.parametrize("fake", BOTH)
async def test_every_kind_applies_somewhere_on_each_wire_or_the_other(fake):
    other = "openai" if fake.wire == "anthropic" else "anthropic"
    for name in FAULTS:
        places = [
            applies(name, wire, stream=s) for wire in (fake.wire, other) for s in (True, False)
        ]
        assert any(places), name


async def test_characters_are_cut_in_the_middle():
    async with FakeOpenAI("Zürich 🌦", faults=FAULTS["split_characters"]) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        data = json.dumps(body(True)).encode()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data) + data
        )
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert "Zürich 🌦".encode() not in answer
    assert b"Z\xc3\r\n" in answer


@pytest.mark.parametrize("fake", BOTH)
@pytest.mark.parametrize("name", [n for n, f in FAULTS.items() if isinstance(f, Silence)])
async def test_a_stalled_server_closes_at_once_and_leaves_nothing(fake, name):
    before = asyncio.all_tasks()
    async with aiohttp.ClientSession() as http:
        async with fake(CALLS, faults=FAULTS[name]) as server:
            waiting = asyncio.ensure_future(raw(http, server, body(True)))
            assert (await server.arrived()).streamed
        (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
    assert asyncio.all_tasks() <= before
    if name != "pings_then_answer":
        assert isinstance(outcome, aiohttp.ClientError)


async def test_an_exhausted_script_is_raised_on_leaving():
    script = conversation("only one")
    asks = body()
    asks["messages"] += [{"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}]
    with pytest.raises(LookupError, match="has 1 replies and was asked for number 2"):
        async with FakeOpenAI(script) as server, aiohttp.ClientSession() as http:
            response, _ = await raw(http, server, asks)
            assert response.status == 400


async def test_a_misspelt_twist_is_raised_on_leaving():
    with pytest.raises(LookupError, match="did you mean 'no_usage'"):
        async with FakeOpenAI("x", faults=Twist("no_usge")) as server:
            async with aiohttp.ClientSession() as http:
                await raw(http, server, body())

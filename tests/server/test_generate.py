"""`generate` over HTTP, on a real server: pieces as they come, refusals, and a client that leaves."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import uvicorn

import windlass as w
from windlass.server.generate import generate_app
from windlass.testing import call, scripted

CALLERS = {"Bearer ann": w.Caller("ann", tenant="acme")}
KEY = {"authorization": "Bearer ann"}


@w.tool(side_effect_level="none")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def who(headers: Mapping[str, str]) -> w.Caller | None:
    return CALLERS.get(headers.get("authorization", ""))


@asynccontextmanager
async def served(model: w.Model, **options: Any) -> AsyncIterator[tuple[str, w.Runtime]]:
    """The app on a server of its own."""
    host: Any = {key: options.pop(key) for key in ("origins", "client_decisions") if key in options}
    host |= options.pop("host_options", {})
    tools = options.pop("own_tools", [add])
    async with w.Runtime(store="memory:", tools=tools, environ={}) as runtime:
        app = generate_app(runtime, who, model=model, **host, **options)
        config = uvicorn.Config(app, port=0, log_level="warning", lifespan="on", ws="none")
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        for _ in range(2_000):
            if server.started:
                break
            await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}/", runtime
        finally:
            server.should_exit = True
            await task


async def post(url: str, document: Any, **more: Any) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session:
        headers = {**KEY, **more.pop("headers", {})}
        async with session.post(url, json=document, headers=headers, **more) as reply:
            text = await reply.text()
            if reply.content_type == "text/event-stream":
                return reply.status, events(text)
            return reply.status, json.loads(text)


def events(text: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for block in text.split("\n\n"):
        if block.startswith("event: "):
            name, _, data = block.removeprefix("event: ").partition("\ndata: ")
            found.append((name, json.loads(data)))
    return found


async def test_pieces_calls_and_the_end():
    model = scripted(["One ", call("add", a=1, b=2)], "two")
    async with served(model) as (url, _):
        status, told = await post(url, {"input": "go"})
    assert status == 200
    assert "".join(data.get("delta_content", "") for _, data in told) == "One two"
    [asked] = [data["delta_tool_calls"] for _, data in told if "delta_tool_calls" in data]
    assert asked[0]["name"] == "add" and asked[0]["arguments"] == {"a": 1, "b": 2}
    assert told[-1] == ("done", {"finish_reason": "stop"})


async def test_an_answer_as_a_whole():
    model = scripted(call("add", a=1, b=2), "3")
    async with served(model, include_tool_trace=True) as (url, _):
        asked = {"input": "go", "stream": False, "include_tool_trace": True}
        status, told = await post(url, asked)
    assert status == 200 and told["content"] == "3" and told["finish_reason"] == "stop"
    assert [step["type"] for step in told["trace"]] == [
        "assistant",
        "tool_call",
        "tool_result",
        "assistant",
    ]


async def test_who_asks_is_who_acts():
    async with served(scripted("hi")) as (url, runtime):
        await post(url, {"input": "go", "conversation": "c"})
        [row] = await runtime.store.calls()
        assert (row.caller, row.tenant, row.conversation) == ("acme/ann", "acme", "c")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_limit_is_told_with_the_trace(stream: bool):
    model = scripted(*[call("add", a=at, b=1) for at in range(3)])
    async with served(model, max_tool_iterations=1, include_tool_trace=True) as (url, _):
        asked = {"input": "go", "stream": stream, "max_tool_iterations": 50}  # not above the host's
        asked["include_tool_trace"] = True
        status, told = await post(url, asked)
    if stream:
        assert status == 200 and told[-1][0] == "error"
        told = told[-1][1]
    else:
        assert status == 402
    assert told["error"] == "budget_exceeded" and len(told["trace"]) == 6 and told["session_id"]


@pytest.mark.parametrize(
    ("document", "more", "status", "words"),
    [
        ({"input": "x"}, {"headers": {"authorization": "Bearer eve"}}, 401, "nobody"),
        ({"input": "x"}, {"headers": {"origin": "http://evil.example"}}, 403, "not answered"),
        ({"input": "x", "model": "other"}, {}, 400, "no field 'model'"),
        ({"input": "x", "caller": {"user": "root"}}, {}, 400, "no field 'caller'"),
        ({"input": "x", "approval_policy": None}, {}, 400, "no field"),
        ({"input": "x", "tools": ["os:system"]}, {}, 400, "list of names"),
        ({"input": "x", "tools": "add"}, {}, 400, "list of names"),
        ({"input": "x", "stream": False, "tools": ["ad"]}, {}, 400, "did you mean 'add'"),
        ({"input": "x", "stream": False, "tool_mode": "no"}, {}, 400, "tool_mode is one of"),
        ({"inptu": "x"}, {}, 400, "did you mean 'input'"),
        ({}, {}, 400, "say what you want"),
        ([1], {}, 400, "no JSON object"),
    ],
)
async def test_refusals(document: Any, more: Any, status: int, words: str):
    model = scripted("never")
    async with served(model) as (url, _):
        code, told = await post(url, document, **more)
    assert code == status and words in told["message"] and not model.requests


async def test_a_browser_is_answered_where_its_origin_is_known():
    async with served(scripted("hi"), origins=["https://shop.example"]) as (url, _):
        asked = {"input": "x", "stream": False}
        status, _ = await post(url, asked, headers={"origin": "https://shop.example"})
    assert status == 200


async def test_other_methods_types_and_sizes():
    async with served(scripted("never")) as (url, _), aiohttp.ClientSession() as session:
        assert (await session.get(url, headers=KEY)).status == 405
        assert (await session.post(url, data="input=x", headers=KEY)).status == 415
        json_type = {**KEY, "content-type": "application/json"}
        assert (
            await session.post(url, data=io.BytesIO(b"{" * 2_000_000), headers=json_type)
        ).status == 413
        assert (
            await session.post(url, data=io.BytesIO(b"{" * 100_000), headers=json_type)
        ).status == 400


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_cancels_the_run(stream: bool):
    started, ended = asyncio.Event(), asyncio.Event()

    @w.tool
    async def slow() -> str:
        """Slow."""
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.set()
            raise
        return "never"

    model = scripted(call("slow"), "never")
    async with served(model, own_tools=[slow]) as (url, runtime):
        asking = asyncio.create_task(post(url, {"input": "go", "stream": stream}))
        await asyncio.wait_for(started.wait(), 10)
        asking.cancel()
        await asyncio.wait({asking})
        await asyncio.wait_for(ended.wait(), 10)
        for _ in range(400):
            [row] = await runtime.store.sessions() or [None]
            if row is None or row.status == "cancelled":
                break
            await asyncio.sleep(0.005)
        assert len(model.requests) == 1 and (row is None or row.status == "cancelled")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_server_that_stops_leaves_no_run_behind(stream: bool):
    started, ended = asyncio.Event(), asyncio.Event()

    @w.tool
    async def slow() -> str:
        """Slow."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    body = iter([json.dumps({"input": "go", "stream": stream}).encode()])

    async def receive() -> Any:
        for data in body:
            return {"type": "http.request", "body": data}
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        pass

    request = {
        "type": "http",
        "method": "POST",
        "headers": [
            (b"content-type", b"application/json"),
            (b"authorization", b"Bearer ann"),
        ],
    }
    async with w.Runtime(store="memory:", tools=[slow], environ={}) as runtime:
        app = generate_app(runtime, who, model=scripted(call("slow"), "never"))
        serving = asyncio.ensure_future(app(request, receive, send))
        await started.wait()
        serving.cancel()
        await asyncio.wait({serving})
        assert ended.is_set() and serving.cancelled()

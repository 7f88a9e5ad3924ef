"""The fake Bedrock and the fake Ollama refuse what the real ones refuse, in their words."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from windlass.testing.providers import (
    FakeBedrock,
    FakeOllama,
    Reply,
    Status,
)

USER = {"role": "user", "content": [{"text": "q"}]}
TOOLS = {"tools": [{"toolSpec": {"name": "add", "inputSchema": {"json": {"type": "object"}}}}]}
POINT = {"cachePoint": {"type": "default"}}
CSV = {"document": {"format": "csv", "name": "d", "source": {"bytes": "eA=="}}}


def use(id: str = "t1", given: Any = None) -> dict[str, Any]:
    block = {"toolUse": {"toolUseId": id, "name": "add", "input": {} if given is None else given}}
    return {"role": "assistant", "content": [block]}


def result(id: str = "t1", *more: dict[str, Any]) -> dict[str, Any]:
    block = {"toolResult": {"toolUseId": id, "content": [{"text": "1"}]}}
    return {"role": "user", "content": [block, *more]}


async def post(server: Any, path: str, body: Any, key: str = "k") -> tuple[int, Any, Any]:
    async with (
        aiohttp.ClientSession() as client,
        client.post(
            server.url + path, json=body, headers={"authorization": f"Bearer {key}"}
        ) as reply,
    ):
        return reply.status, await reply.json(), reply.headers


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": []}, "start with a user message"),
        ({"messages": [use()], "toolConfig": TOOLS}, "start with a user message"),
        ({"messages": [USER, USER]}, "alternate"),
        ({"messages": [{"role": "user", "content": []}]}, "empty"),
        ({"messages": [{"role": "user", "content": [{"text": " "}]}]}, "blank"),
        ({"messages": [USER], "system": [{"text": ""}]}, "blank"),
        ({"messages": [USER], "temperature": 1}, "Unknown field"),
        ({"messages": [USER], "toolConfig": {"tools": []}}, "at least 1 item"),
        ({"messages": [USER], "toolConfig": {**TOOLS, "toolChoice": {"none": {}}}}, "toolChoice"),
        (
            {"messages": [USER], "toolConfig": {**TOOLS, "toolChoice": {"tool": {"name": "x"}}}},
            "not there",
        ),
        ({"messages": [USER, use(), result()]}, "toolConfig field must be defined"),
        ({"messages": [USER, use()], "toolConfig": TOOLS}, "No toolResult"),
        ({"messages": [USER, use(), USER], "toolConfig": TOOLS}, "Expected toolResult"),
        ({"messages": [USER, use(), result("t2")], "toolConfig": TOOLS}, "Expected toolResult"),
        ({"messages": [USER, use("t 1"), result("t 1")], "toolConfig": TOOLS}, "not valid"),
        ({"messages": [USER, use(given="{}"), result()], "toolConfig": TOOLS}, "json object"),
        ({"messages": [USER], "system": [POINT]}, "cachePoint is not valid"),
        ({"messages": [USER], "system": [{"text": "s"}, *([POINT] * 5)]}, "maximum of 4"),
        (
            {"messages": [{"role": "user", "content": [{"text": "q"}, CSV, POINT]}]},
            "Field required",
        ),
        ({"messages": [USER], "outputConfig": {"textFormat": {"type": "xml"}}}, "textFormat"),
    ],
)
async def test_bedrock_refuses(body: Any, words: str) -> None:
    async with FakeBedrock("x", api_key="k") as server:
        status, said, headers = await post(server, "/model/m/converse", body)
    assert status == 400 and words in said["message"]
    assert headers["x-amzn-errortype"].startswith("ValidationException:")


async def test_bedrock_takes_what_is_right_and_knows_its_key() -> None:
    right = {"messages": [USER, use(), result("t1", {"text": "more"})], "toolConfig": TOOLS}
    async with FakeBedrock("x", api_key="k") as server:
        status, said, _ = await post(server, "/model/a:b/converse", right)
        assert (status, said["output"]["message"]["content"]) == (200, [{"text": "x"}])
        assert (await post(server, "/model/m/converse", right, key="no"))[0] == 403
        assert (await post(server, "/model/m/invoke", right))[0] == 404
    assert len(server.refused) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [USER]},
        {"input": {"converse": {"messages": [USER], "inferenceConfig": {}}}},
        {"input": {"converse": {"messages": []}}},
    ],
)
async def test_bedrock_counts_only_what_it_is_asked_rightly(body: Any) -> None:
    async with FakeBedrock("x", api_key="k") as server:
        status, _, _ = await post(server, "/model/m/count-tokens", body)
    assert status == 400


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "ValidationException"),
        (403, "AccessDeniedException"),
        (429, "ThrottlingException"),
        (500, "InternalServerException"),
        (503, "ServiceUnavailableException"),
    ],
)
async def test_botocore_reads_the_fakes_errors(
    status: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = pytest.importorskip("botocore.session")
    exceptions = pytest.importorskip("botocore.exceptions")
    config = pytest.importorskip("botocore.config")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")

    def ask(url: str) -> str:
        client = session.get_session().create_client(
            "bedrock-runtime",
            region_name="us-east-1",
            endpoint_url=url,
            aws_access_key_id="a",
            aws_secret_access_key="b",
            config=config.Config(retries={"total_max_attempts": 1}),
        )
        try:
            with pytest.raises(exceptions.ClientError) as caught:
                client.converse(modelId="m", messages=[USER])
        finally:
            client.close()
        return caught.value.response["Error"]["Code"]

    async with FakeBedrock("x", faults=Status(status)) as server:
        assert await asyncio.to_thread(ask, server.url) == name


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": []}, "model is required"),
        ({"model": "m", "messages": [{"role": "robot", "content": "x"}]}, "invalid role"),
        ({"model": "m", "messages": [{"role": "user", "content": [{"text": "x"}]}]}, "content"),
        (
            {
                "model": "m",
                "messages": [
                    {
                        "role": "assistant",
                        "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
                    }
                ],
            },
            "arguments",
        ),
    ],
)
async def test_ollama_refuses(body: Any, words: str) -> None:
    async with FakeOllama("x") as server:
        status, said, _ = await post(server, "/api/chat", body)
    assert status == 400 and words in said["error"]


async def test_ollama_streams_unless_told_not_to() -> None:
    ask = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    async with FakeOllama(Reply("Hi.", thinking="Hm.")) as server:
        status, said, _ = await post(server, "/api/chat", {**ask, "stream": False})
        assert (status, said["message"]["thinking"], said["done"]) == (200, "Hm.", True)
        async with (
            aiohttp.ClientSession() as client,
            client.post(server.url + "/api/chat", json=ask) as reply,
        ):
            assert reply.headers["content-type"] == "application/x-ndjson"
            assert len((await reply.text()).splitlines()) == 3

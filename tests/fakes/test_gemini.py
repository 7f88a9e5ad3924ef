"""The fake Gemini: Google's own client believes it, and it refuses what Gemini refuses."""

from __future__ import annotations

import json
import warnings
from typing import Any

import aiohttp
import pytest

from windlass.models.wires.gemini import rules
from windlass.models.wires.rules import Rejected
from windlass.testing.providers import (
    FAULTS,
    FakeGemini,
    FakeVertex,
    Reply,
    Twist,
    applies,
    conversation,
)
from windlass.testing.providers.gemini_rules import FOREIGN, call_signature
from windlass.usage import Usage

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its source has escapes that Python warns of
    from google import genai
    from google.genai import errors, types

pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession")
ARGS = {"city": "Zürich", "days": 3}
CALLS = [("weather", ARGS), ("now", {}), ("weather", {"city": "東京"})]
PARALLEL = Reply(
    "Ich schaue nach – für Zürich 🌦",
    thinking="Erst das Wetter.",
    tool_calls=CALLS,
    usage=Usage(100, 30, cache_read_tokens=40, reasoning_tokens=10),
)


@pytest.fixture(params=["plain", "stream"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


class Google:
    """The official client on a fake, in one mode: the parts of each answer, and how it ended."""

    def __init__(self, server: FakeGemini, mode: str, key: str = "k") -> None:
        options = types.HttpOptions(base_url=server.url, timeout=10_000)
        self.client: Any = genai.Client(api_key=key, http_options=options).aio
        self.mode = mode
        functions: list[Any] = [
            {"name": name, "description": "d", "parameters_json_schema": {"type": "object"}}
            for name in ("weather", "now")
        ]
        self.config: Any = {
            "system_instruction": "Be brief.",
            "max_output_tokens": 100,
            "thinking_config": {"include_thoughts": True},
            "tools": [{"function_declarations": functions}],
            "automatic_function_calling": {"disable": True},
        }

    async def ask(self, contents: list[Any]) -> tuple[list[Any], Any, Any]:
        asks = {"model": "gemini-x", "contents": contents, "config": self.config}
        try:
            if self.mode == "plain":
                answers = [await self.client.models.generate_content(**asks)]
            else:
                stream = await self.client.models.generate_content_stream(**asks)
                answers = [answer async for answer in stream]
        finally:
            await self.client.aclose()
        parts = [part for a in answers for part in a.candidates[0].content.parts]
        return parts, answers[-1].candidates[0].finish_reason, answers[-1].usage_metadata


async def test_googles_client_believes_the_fake(mode: str) -> None:
    async with FakeGemini(conversation(PARALLEL, "Fertig."), api_key="k") as server:
        history: list[Any] = [{"role": "user", "parts": [{"text": "How is it?"}]}]
        parts, finish, usage = await Google(server, mode).ask(history)
        calls = [part.function_call for part in parts if part.function_call]
        assert [(call.name, call.args) for call in calls] == CALLS
        assert "".join(p.text for p in parts if p.thought) == PARALLEL.thinking
        assert "".join(p.text for p in parts if p.text and not p.thought) == PARALLEL.text
        assert finish == "STOP"
        assert (usage.prompt_token_count, usage.candidates_token_count) == (100, 20)
        assert (usage.thoughts_token_count, usage.cached_content_token_count) == (10, 40)
        kept = [p for p in parts if p.text or p.function_call or p.thought_signature]
        history.append(types.Content(role="model", parts=kept))
        answers = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=call.id, name=call.name, response={"output": "sunny"}
                )
            )
            for call in calls
        ]
        history.append(types.Content(role="user", parts=answers))
        parts, _, _ = await Google(server, mode).ask(history)
        assert "".join(part.text for part in parts) == "Fertig."
        assert any(part.thought_signature for part in parts)
    assert not server.refused


async def test_googles_client_counts_with_the_fake() -> None:
    async with FakeGemini("x", api_key="k") as server:
        google = Google(server, "plain")
        try:
            counted = await google.client.models.count_tokens(model="gemini-x", contents="Hello")
            ends = [{"role": "model", "parts": [{"text": "Hi."}]}]
            with pytest.raises(errors.ClientError, match="begin and end with a user"):
                await google.client.models.count_tokens(model="gemini-x", contents=ends)
        finally:
            await google.client.aclose()
    assert counted.total_tokens == 1 + len(server.requests[0].body) // 4


async def test_googles_client_is_told_the_truth_when_it_fails(mode: str) -> None:
    async with FakeGemini("x", api_key="other") as server:
        with pytest.raises(errors.ClientError, match="API key not valid"):
            await Google(server, mode).ask([{"role": "user", "parts": [{"text": "q"}]}])
    faults = [FAULTS["429_retry_info"], FAULTS["503"]]
    async with FakeGemini("x", faults=faults, api_key="k") as server:
        for code in (429, 503):
            with pytest.raises(errors.APIError) as caught:
                await Google(server, mode).ask([{"role": "user", "parts": [{"text": "q"}]}])
            assert caught.value.code == code


# --------------------------------------------------------------------------- what it refuses

USER = {"role": "user", "parts": [{"text": "q"}]}
SIGNED = {"functionCall": {"name": "f", "args": {}, "id": "1"}, "thoughtSignature": FOREIGN}
ANSWER = {"functionResponse": {"name": "f", "response": {}, "id": "1"}}


def turn(*parts: dict[str, Any], role: str = "model") -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({"contents": [USER], "model": "x"}, 'Unknown name "model"'),
    "no contents": ({"contents": []}, "contents is not specified"),
    "role": ({"contents": [turn({"text": "a"}, role="assistant")]}, "valid role"),
    "no parts": ({"contents": [turn(role="user")]}, "must not be empty"),
    "empty text": ({"contents": [USER, turn({"text": ""}), USER]}, "text is empty"),
    "two kinds": ({"contents": [turn({**ANSWER, "text": "a"}, role="user")]}, "oneof"),
    "model last": ({"contents": [USER, turn({"text": "a"})]}, "end with a user"),
    "unsigned": (
        {"contents": [USER, turn({"functionCall": {"name": "f", "args": {}}}), USER]},
        "missing a thought_signature",
    ),
    "other signature": (
        {"contents": [USER, turn({**SIGNED, "thoughtSignature": call_signature("g")}), USER]},
        "not valid",
    ),
    "signature of other words": (
        {"contents": [USER, turn({"text": "a", "thoughtSignature": "b"}), USER]},
        "not valid",
    ),
    "signed twice": ({"contents": [USER, turn(SIGNED, SIGNED), USER]}, "not valid"),
    "no result": ({"contents": [USER, turn(SIGNED), USER]}, "number of function response"),
    "a result too many": (
        {"contents": [USER, turn(SIGNED), turn(ANSWER, ANSWER, role="user")]},
        "number of function response",
    ),
    "results in two contents": (
        {
            "contents": [
                USER,
                turn(SIGNED, {"functionCall": {"name": "f", "args": {}, "id": "2"}}),
                turn(ANSWER, role="user"),
                turn(ANSWER, role="user"),
            ]
        },
        "number of function response",
    ),
    "other id": (
        {
            "contents": [
                USER,
                turn(SIGNED),
                turn({"functionResponse": {**ANSWER["functionResponse"], "id": "2"}}, role="user"),
            ]
        },
        "ids do not match",
    ),
    "a result that is no object": (
        {"contents": [turn({"functionResponse": {"name": "f", "response": "x"}}, role="user")]},
        "not a Struct",
    ),
    "name": (
        {"contents": [USER], "tools": [{"functionDeclarations": [{"name": "1f"}]}]},
        "Invalid function name",
    ),
    "twice": (
        {"contents": [USER], "tools": [{"functionDeclarations": [{"name": "f"}, {"name": "f"}]}]},
        "Duplicate",
    ),
    "not declared": (
        {
            "contents": [USER],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["g"]}},
        },
        "not declared",
    ),
    "budget and level": (
        {
            "contents": [USER],
            "generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "LOW"}},
        },
        "only one",
    ),
    "config": ({"contents": [USER], "generationConfig": {"max_tokens": 1}}, 'name "max_tokens"'),
}


async def post(server: FakeGemini, body: Any, method: str = "generateContent") -> tuple[int, bytes]:
    url = f"http://127.0.0.1:{server.port}{server.path}m:{method}"
    async with aiohttp.ClientSession(auto_decompress=False) as http:
        async with http.post(url, json=body) as response:
            return response.status, await response.read()


@pytest.mark.parametrize("name", WRONG)
async def test_gemini_refuses(name: str) -> None:
    body, words = WRONG[name]
    async with FakeGemini("ok") as server:
        status, said = await post(server, body)
    error = json.loads(said)["error"]
    assert (status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert words in error["message"], error["message"]


async def test_gemini_takes_a_right_history_and_vertex_only_one_without_ids() -> None:
    body = {"contents": [USER, turn(SIGNED), turn(ANSWER, {"text": "and"}, role="user")]}
    async with FakeGemini("ok") as server:
        assert (await post(server, body))[0] == 200
        status, said = await post(server, body, "streamGenerateContent")
        assert status == 400 and b"alt=sse" in said
        assert (await post(server, body, "streamGenerateContent?alt=sse"))[0] == 200
        assert (await post(server, body, "embedContent"))[0] == 404
    async with FakeVertex("ok") as server:
        status, said = await post(server, body)
        assert status == 400 and b'Unknown name \\"id\\"' in said
        bare = json.loads(json.dumps(body).replace(', "id": "1"', ""))
        assert (await post(server, bare))[0] == 200


OURS = [name for name, fault in FAULTS.items() if isinstance(fault, Twist)] + ["bad_utf8"]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("stream", [False, True])
async def test_every_twist_changes_what_is_said(name: str, stream: bool) -> None:
    """One that leaves the answer alone would test nothing."""
    if not applies(name, "gemini", stream=stream):
        return
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    async with FakeGemini(PARALLEL, faults=[None, FAULTS[name]]) as server:
        right = await post(server, {"contents": [USER]}, method)
        assert await post(server, {"contents": [USER]}, method) != right


# --------------------------------------------------------------------------- what it takes


SNAKE = {
    "system_instruction": {"parts": {"text": "Be brief."}},
    "contents": {
        "role": "user",
        "parts": [{"inline_data": {"mime_type": "image/png", "data": ""}}],
    },
    "tools": {
        "function_declarations": [
            {"name": "f", "parameters_json_schema": {"properties": {"my_key": {"type": "string"}}}}
        ]
    },
    "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["f"]}},
    "generation_config": {"max_output_tokens": 10, "thinking_config": {"include_thoughts": True}},
}


def test_rules_take_snake_case_and_single_values_as_google_does() -> None:
    rules.check(SNAKE)
    assert rules.normalize(SNAKE)["tools"][0]["functionDeclarations"][0][
        "parametersJsonSchema"
    ] == {"properties": {"my_key": {"type": "string"}}}
    for wrong, why in (
        ({"generation_config": {"max_tokens": 3}}, "Unknown name"),
        ({"generation_config": {"max_output_tokens": 0}}, "max_output_tokens"),
        ({"toolConfig": {}}, "Multiple values"),
        ({"tools": {"function_declarations": {"name": "1"}}}, "Invalid function name"),
    ):
        with pytest.raises(Rejected, match=why):
            rules.check({**SNAKE, **wrong})

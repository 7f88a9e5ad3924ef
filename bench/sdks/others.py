"""Google's client, and Ollama's."""

from __future__ import annotations

import warnings
from typing import Any

from bench.sdks.exchange import Ask, Exchange, Heard, Said, Vendor, transport
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.ollama.model import OllamaChat
from windlass.testing.providers import FakeGemini, FakeOllama

GEMINI, QWEN = "gemini-2.5-flash", "qwen3"


def gemini() -> Vendor:
    """generateContent."""
    return Vendor(
        "Gemini generateContent",
        "google-genai",
        lambda fed: GeminiGenerate(GEMINI, api_key="none", transport=fed),
        FakeGemini(""),
        lambda streamed: f"/v1beta/models/{GEMINI}:{'streamG' if streamed else 'g'}enerateContent",
        _gemini,
    )


def _gemini(given: Exchange) -> Ask:
    import httpx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its source has escapes that Python warns of
        from google import genai
        from google.genai import types

    http = httpx.AsyncClient(transport=transport(given, httpx))
    options = types.HttpOptions(httpx_async_client=http)
    models: Any = genai.Client(api_key="none", http_options=options).aio.models
    [declared] = given.body["tools"]
    functions = [_declared(each) for each in declared["functionDeclarations"]]
    config: Any = {
        "system_instruction": given.body["systemInstruction"]["parts"][0]["text"],
        "max_output_tokens": given.body["generationConfig"]["maxOutputTokens"],
        "tools": [{"function_declarations": functions}],
        "automatic_function_calling": {"disable": True},
    }
    body: Any = {"model": GEMINI, "contents": given.body["contents"], "config": config}

    async def whole() -> Heard:
        reply = await models.generate_content(**body)
        return _read(reply.candidates[0].content.parts, reply.usage_metadata)

    async def streamed() -> Heard:
        parts: list[Any] = []
        usage: Any = None
        async for reply in await models.generate_content_stream(**body):
            content = reply.candidates[0].content
            if content is not None and content.parts:
                parts += content.parts
            usage = reply.usage_metadata or usage
        return _read(parts, usage)

    return streamed if given.streamed else whole


def _declared(function: dict[str, Any]) -> dict[str, Any]:
    names = {"parametersJsonSchema": "parameters_json_schema"}
    return {names.get(name, name): value for name, value in function.items()}


def _read(parts: list[Any], usage: Any) -> Heard:
    texts = [part.text for part in parts if part.text]
    called = [part.function_call for part in parts if part.function_call]
    calls = tuple((call.name, call.args) for call in called)
    said = Said("".join(texts), calls, usage.prompt_token_count, usage.candidates_token_count)
    return Heard(said, len(texts))


def ollama() -> Vendor:
    """Chat."""
    return Vendor(
        "Ollama chat",
        "ollama",
        lambda fed: OllamaChat(QWEN, transport=fed),
        FakeOllama(""),
        lambda _: "/api/chat",
        _ollama,
    )


def _ollama(given: Exchange) -> Ask:
    import httpx
    import ollama as sdk

    client: Any = sdk.AsyncClient(transport=transport(given, httpx))
    ours_alone = ("stream", "truncate", "shift")  # its client has no word for these
    body = {name: value for name, value in given.body.items() if name not in ours_alone}

    def heard(messages: list[Any], last: Any) -> Heard:
        texts = [message.content for message in messages if message.content]
        called = [call.function for message in messages for call in message.tool_calls or ()]
        calls = tuple((call.name, dict(call.arguments)) for call in called)
        said = Said("".join(texts), calls, last.prompt_eval_count, last.eval_count)
        return Heard(said, len(texts))

    async def whole() -> Heard:
        reply = await client.chat(**body)
        return heard([reply.message], reply)

    async def streamed() -> Heard:
        messages: list[Any] = []
        last: Any = None
        async for last in await client.chat(**body, stream=True):
            messages.append(last.message)
        return heard(messages, last)

    return streamed if given.streamed else whole

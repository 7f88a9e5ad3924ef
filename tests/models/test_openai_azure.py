"""OpenAI's models at Azure: addresses, the key's own header, filters."""

from __future__ import annotations

import json

import pytest

from windlass.errors import AuthFailed, ConfigError, Refused
from windlass.messages import Message, ToolCall
from windlass.models.base import Frame, Request, Settings, silent
from windlass.models.registry.providers import resolve
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses
from windlass.testing.providers import FakeAzure, Reply

HOST = "https://me.openai.azure.com"
ASK = Request([Message("user", "hi")])


@pytest.mark.parametrize(
    ("base", "version", "chat", "responses"),
    [
        (HOST, None, "/openai/v1/chat/completions", "/openai/v1/responses"),
        (
            HOST + "/",
            "preview",
            "/openai/v1/chat/completions?api-version=preview",
            "/openai/v1/responses?api-version=preview",
        ),
        (HOST, "v1", "/openai/v1/chat/completions", "/openai/v1/responses"),
        (HOST + "/openai/v1", None, "/openai/v1/chat/completions", "/openai/v1/responses"),
        (
            HOST,
            "2024-10-21",
            "/openai/deployments/my%2Fgpt/chat/completions?api-version=2024-10-21",
            "/openai/responses?api-version=2024-10-21",
        ),
        (
            HOST + "/openai/deployments/other?api-version=2025-01-01-preview",
            None,
            "/openai/deployments/other/chat/completions?api-version=2025-01-01-preview",
            None,
        ),
    ],
)
def test_addresses(base: str, version: str | None, chat: str, responses: str | None) -> None:
    given = {"provider": "azure", "api_key": "k", "base_url": base, "api_version": version}
    assert OpenAIChat("my/gpt", **given).url == HOST + chat
    if responses is not None:
        assert OpenAIResponses("my/gpt", **given).url == HOST + responses


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {
        "AZURE_OPENAI_API_KEY": "secret-key",
        "AZURE_OPENAI_ENDPOINT": HOST,
        "OPENAI_API_VERSION": "2024-10-21",
    }
    dated = HOST + "/openai/deployments/gpt/chat/completions?api-version=2024-10-21"
    model = resolve("azure:gpt", environ=env)
    assert isinstance(model, OpenAIChat)
    assert model.url == dated and model.secrets == ("secret-key",)
    model.check()
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert OpenAIChat("gpt", provider="azure").url == dated
    assert OpenAIChat("gpt", provider="azure").over_responses.url == (
        HOST + "/openai/responses?api-version=2024-10-21"
    )


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="set AZURE_OPENAI_ENDPOINT or pass base_url="):
        OpenAIChat("gpt", provider="azure", api_key="k").check()
    with pytest.raises(ConfigError, match="set AZURE_OPENAI_API_KEY or pass api_key="):
        OpenAIChat("gpt", provider="azure", base_url=HOST).check()
    bearer = {"authorization": "Bearer token-of-entra"}
    OpenAIChat("gpt", provider="azure", base_url=HOST, headers=bearer).check()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("version", [None, "2024-10-21"])
async def test_a_reply(stream: bool, version: str | None) -> None:
    async with FakeAzure(Reply("Hi.", tool_calls=[("add", {"a": 1})]), api_key="k") as server:
        model = OpenAIChat(
            "gpt", provider="azure", api_key="k", base_url=server.url, api_version=version
        )
        request = Request(ASK.messages, Frame(settings=Settings(stream=stream)))
        reply = await model.respond(request, silent)
        assert reply.text == "Hi." and reply.model == "gpt" and reply.usage.input_tokens
        assert [type(call) for call in reply.message.tool_calls] == [ToolCall]
        (asked,) = server.requests
        assert asked.headers["api-key"] == "k" and "authorization" not in asked.headers
        assert asked.query == (f"api-version={version}" if version else "")


async def test_a_filtered_question_and_a_wrong_key() -> None:
    async with FakeAzure("Hi.", api_key="k", blocked="bomb") as server:
        given = {"provider": "azure", "base_url": server.url}
        model = OpenAIChat("gpt", api_key="k", **given)
        with pytest.raises(Refused, match="content management policy") as failed:
            await model.respond(Request([Message("user", "a bomb")]), silent)
        assert failed.value.code == "content_filter" and not failed.value.transient
        with pytest.raises(AuthFailed, match="set AZURE_OPENAI_API_KEY"):
            await OpenAIChat("gpt", api_key="wrong", **given).respond(ASK, silent)


async def test_a_filtered_answer_is_a_refusal() -> None:
    model = OpenAIChat("gpt", provider="azure", api_key="k", base_url=HOST)
    decoder = model.decoder(ASK, silent)
    first = {"choices": [], "id": "", "model": "", "prompt_filter_results": [{}]}
    said = {"choices": [{"delta": {"content": "I"}, "finish_reason": None}], "id": "x"}
    end = {"choices": [{"delta": {}, "finish_reason": "content_filter"}]}
    for event in (first, said, end):
        decoder.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    decoder.feed(b"data: [DONE]\n\n")
    reply = decoder.finish()
    assert (reply.stop_reason, reply.text, reply.native_id) == ("refusal", "I", "x")

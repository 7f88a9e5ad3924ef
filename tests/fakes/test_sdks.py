"""The providers' own clients believe the fake servers, and are told the truth when they fail."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from windlass.testing.providers import (
    FAULTS,
    FakeAnthropic,
    FakeOpenAI,
    Reply,
    Status,
    Twist,
    conversation,
)
from windlass.usage import Usage

ARGS = {"city": "Zürich", "days": 3}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
PARALLEL = Reply(
    "Ich schaue nach – für Zürich 🌦",
    tool_calls=(("weather", ARGS), ("now", {}), ("weather", {"city": "東京"})),
    usage=Usage(100, 20, cache_read_tokens=30, cache_write_tokens=10),
)
CALLS = [("weather", ARGS), ("now", {}), ("weather", {"city": "東京"})]
USER = {"role": "user", "content": "How is it?"}


@pytest.fixture(params=["plain", "stream"])
def mode(request):
    return request.param


class Claude:
    """The official Anthropic client on a fake, in one mode."""

    def __init__(self, server, mode, retries=0, key="k"):
        self.mode = mode
        self.client: Any = anthropic.AsyncAnthropic(
            api_key=key, base_url=server.url, max_retries=retries, timeout=10
        )

    async def ask(self, messages, **more) -> Any:
        options = dict(model="claude-x", max_tokens=4096, messages=messages, **more)
        async with self.client:
            if self.mode == "plain":
                return await self.client.messages.create(**options)
            async with self.client.messages.stream(**options) as stream:
                return await stream.get_final_message()


class Gpt:
    """The official OpenAI client on a fake, in one mode."""

    def __init__(self, server, mode, retries=0, key="k"):
        self.mode = mode
        self.client: Any = openai.AsyncOpenAI(
            api_key=key, base_url=server.url, max_retries=retries, timeout=10
        )

    async def ask(self, messages, **more) -> Any:
        options = dict(model="gpt-x", messages=messages, **more)
        async with self.client:
            if self.mode == "plain":
                return await self.client.chat.completions.create(**options)
            counted = {"include_usage": True}
            async with self.client.chat.completions.stream(
                **options, stream_options=counted
            ) as stream:
                return await stream.get_final_completion()


CLAUDE_TOOLS = [{"name": n, "description": "d", "input_schema": SCHEMA} for n in ("weather", "now")]
GPT_TOOLS = [
    {"type": "function", "function": {"name": n, "parameters": SCHEMA}} for n in ("weather", "now")
]


async def test_anthropic_reads_text_and_parallel_calls(mode):
    async with FakeAnthropic(PARALLEL) as server:
        message = await Claude(server, mode).ask([USER], tools=CLAUDE_TOOLS)
    assert message.content[0].text == PARALLEL.text
    assert [(b.name, b.input) for b in message.content[1:]] == CALLS
    assert len({b.id for b in message.content[1:]}) == 3
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens) == (60, 20)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (30, 10)


async def test_openai_reads_text_and_parallel_calls(mode):
    async with FakeOpenAI(PARALLEL) as server:
        completion = await Gpt(server, mode).ask([USER], tools=GPT_TOOLS)
    [choice] = completion.choices
    assert choice.message.content == PARALLEL.text
    calls = choice.message.tool_calls
    assert [c.function.name for c in calls] == ["weather", "now", "weather"]
    assert [c.function.arguments for c in calls] == [
        '{"city":"Zürich","days":3}',
        "{}",
        '{"city":"東京"}',
    ]
    assert len({c.id for c in calls}) == 3
    assert choice.finish_reason == "tool_calls"
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (100, 20)
    assert completion.usage.prompt_tokens_details.cached_tokens == 30


async def test_anthropic_goes_round_with_thinking_and_results(mode):
    script = conversation(
        Reply("Moment.", thinking="Erst das Wetter … dann die Zeit.", tool_calls=CALLS[:2]),
        "Sonnig.",
    )
    options = {
        "tools": CLAUDE_TOOLS,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    async with FakeAnthropic(script) as server:
        first = await Claude(server, mode).ask([USER], **options)
        assert [b.type for b in first.content] == ["thinking", "text", "tool_use", "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": b.id, "content": "fine"}
            for b in first.content
            if b.type == "tool_use"
        ]
        history = [
            USER,
            {
                "role": "assistant",
                "content": [b.model_dump(exclude_none=True) for b in first.content],
            },
            {"role": "user", "content": results},
        ]
        second = await Claude(server, mode).ask(history, **options)
    assert second.content[0].text == "Sonnig."
    assert second.stop_reason == "end_turn"
    assert not server.refused


async def test_openai_goes_round_with_reasoning_and_results(mode):
    script = conversation(Reply(thinking="Erst das Wetter.", tool_calls=CALLS[:2]), "Sonnig.")
    async with FakeOpenAI(script) as server:
        first = await Gpt(server, mode).ask([USER], tools=GPT_TOOLS)
        message = first.choices[0].message
        assert message.reasoning_content == "Erst das Wetter."
        assert message.content is None
        answers = [
            {"role": "tool", "tool_call_id": call.id, "content": "fine"}
            for call in message.tool_calls
        ]
        said = {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
                for call in message.tool_calls
            ],
        }
        second = await Gpt(server, mode).ask([USER, said, *answers], tools=GPT_TOOLS)
    assert second.choices[0].message.content == "Sonnig."
    assert second.choices[0].finish_reason == "stop"
    assert not server.refused


async def test_openrouter_reasoning_has_its_signature(mode):
    async with FakeOpenAI(Reply("yes", thinking="hm"), reasoning="reasoning_details") as server:
        completion = await Gpt(server, mode).ask([USER])
    message = completion.choices[0].message
    assert message.content == "yes"
    assert message.reasoning == "hm"
    assert any(detail.get("signature") for detail in message.reasoning_details)


async def test_refusals_and_limits_are_said_in_each_providers_words(mode):
    async with FakeAnthropic(Reply("half an ans", stop_reason="max_tokens")) as server:
        assert (await Claude(server, mode).ask([USER])).stop_reason == "max_tokens"
    async with FakeAnthropic(Reply(stop_reason="refusal")) as server:
        refused = await Claude(server, mode).ask([USER])
    assert (refused.stop_reason, refused.content) == ("refusal", [])
    async with FakeOpenAI(Reply("I cannot.", stop_reason="refusal")) as server:
        client: Any = openai.AsyncOpenAI(api_key="k", base_url=server.url, max_retries=0)
        async with client:
            reply = await client.chat.completions.create(model="m", messages=[USER])
    assert reply.choices[0].message.refusal == "I cannot."
    assert reply.choices[0].finish_reason == "content_filter"


# ------------------------------------------------------------------------- faults

STATUSES = [
    (401, "AuthenticationError"),
    (403, "PermissionDeniedError"),
    (404, "NotFoundError"),
    (400, "BadRequestError"),
    (429, "RateLimitError"),
    (500, "InternalServerError"),
]


@pytest.mark.parametrize(("status", "name"), STATUSES)
async def test_both_clients_raise_their_own_error_for_a_status(status, name, mode):
    async with FakeAnthropic("x", faults=Status(status)) as server:
        with pytest.raises(getattr(anthropic, name)) as caught:
            await Claude(server, mode).ask([USER])
    assert caught.value.body["type"] == "error"
    assert caught.value.request_id
    async with FakeOpenAI("x", faults=Status(status)) as server:
        with pytest.raises(getattr(openai, name)) as caught:
            await Gpt(server, mode).ask([USER])
    assert caught.value.type and "message" in caught.value.body


async def test_anthropic_knows_529_and_the_error_in_a_stream():
    async with FakeAnthropic("x", faults=FAULTS["529"]) as server:
        with pytest.raises(anthropic.OverloadedError):
            await Claude(server, "plain").ask([USER])
    async with FakeAnthropic("a longer text", faults=Twist("error_after_200")) as server:
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
            await Claude(server, "stream").ask([USER])


@pytest.mark.parametrize("twist", ["error_after_200", "error_event"])
async def test_openai_knows_the_error_in_a_stream(twist):
    async with FakeOpenAI("a longer text", faults=Twist(twist)) as server:
        with pytest.raises(openai.APIError):
            await Gpt(server, "stream").ask([USER])


async def test_a_dropped_connection_is_a_connection_error(mode):
    for fault in ("drop", "drop_after_headers", "truncated"):
        async with FakeAnthropic("a longer text", faults=FAULTS[fault]) as server:
            with pytest.raises(Exception) as caught:
                await Claude(server, mode).ask([USER])
        assert _is_transport(caught.value), (fault, caught.value)
        async with FakeOpenAI("a longer text", faults=FAULTS[fault]) as server:
            with pytest.raises(Exception) as caught:
                await Gpt(server, mode).ask([USER])
        assert _is_transport(caught.value), (fault, caught.value)


def _is_transport(error):
    """A connection error of the SDK, or of the HTTP client under it while the body was read."""
    kinds = (anthropic.APIConnectionError, openai.APIConnectionError)
    return isinstance(error, kinds) or type(error).__name__ == "RemoteProtocolError"


async def test_the_key_is_checked():
    async with FakeAnthropic("x", api_key="right") as server:
        with pytest.raises(anthropic.AuthenticationError):
            await Claude(server, "plain", key="wrong").ask([USER])
        await Claude(server, "plain", key="right").ask([USER])
    async with FakeOpenAI("x", api_key="right") as server:
        with pytest.raises(openai.AuthenticationError):
            await Gpt(server, "plain", key="wrong").ask([USER])
        await Gpt(server, "plain", key="right").ask([USER])


async def test_a_client_that_tries_again_gets_the_answer_it_would_have_got(mode):
    for fake, client in ((FakeAnthropic, Claude), (FakeOpenAI, Gpt)):
        async with fake(PARALLEL) as server:
            at_once = await client(server, mode).ask([USER])
        faults = [Status(500, retry_after=0.001), Status(429, retry_after=0.001, dialect="ms")]
        async with fake(PARALLEL, faults=faults) as server:
            later = await client(server, mode, retries=2).ask([USER])
        assert len(server.requests) == 3
        assert later.to_dict() == at_once.to_dict()


SAME_WORDS = ["unknown_things", "pings_then_answer", "one_byte_chunks", "split_characters", "crlf"]


@pytest.mark.parametrize("name", SAME_WORDS)
async def test_what_the_format_allows_is_read_as_usual(name):
    async with FakeAnthropic(Reply("Grüße 🌦 aus Zürich"), faults=FAULTS[name]) as server:
        message = await Claude(server, "stream").ask([USER])
    assert message.content[0].text == "Grüße 🌦 aus Zürich"
    async with FakeOpenAI(Reply("Grüße 🌦 aus Zürich"), faults=FAULTS[name]) as server:
        client: Any = openai.AsyncOpenAI(api_key="k", base_url=server.url)
        async with client:
            stream = await client.chat.completions.create(model="m", messages=[USER], stream=True)
            said = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
    assert "".join(piece or "" for piece in said) == "Grüße 🌦 aus Zürich"

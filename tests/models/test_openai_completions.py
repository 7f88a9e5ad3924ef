"""Text that goes on: `/completions`, Mistral's fim and llama.cpp's infill, streamed and plain."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.errors import BadReply, BadRequest, ModelError, RateLimited, StreamBroken, Timeout
from windlass.events import TextDelta
from windlass.models.base import Completion, Settings, silent
from windlass.models.registry.capabilities import Capabilities
from windlass.models.transport.base import Timeouts
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.completions import TextDecoder
from windlass.testing.providers import (
    Body,
    FakeOpenAI,
    Fault,
    Hangup,
    Pieces,
    Reply,
    Silence,
    Status,
)

WAYS: dict[str, tuple[str, str]] = {
    "completions": ("together", "/v1/completions"),
    "fim": ("mistral", "/v1/fim/completions"),
    "infill": ("llamacpp", "/infill"),
}
both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
every = pytest.mark.parametrize("way", WAYS)


def model_of(way: Any, server: FakeOpenAI, **options: Any) -> OpenAIChat:
    provider = "mistral" if way == "fim" else "openai"
    model = OpenAIChat("m-1", provider=provider, api_key="k", base_url=server.url, **options)
    model.caps = Capabilities(known=True, completes=way)
    return model


@both
@every
async def test_text_goes_on(way: str, stream: bool) -> None:
    said = "sum(prices) – Zürich"
    async with FakeOpenAI(said, api_key="k") as server:
        told: list[Any] = []
        settings = Settings(stream=stream, max_tokens=9, temperature=0.5, stop=("\n",), seed=3)
        asked = Completion("let total = ", ";", settings=settings)
        reply = await model_of(way, server).complete(asked, told.append)
        assert reply is not None and reply.text == said and not server.refused
        assert "".join(event.text for event in told if isinstance(event, TextDelta)) == said
        assert reply.stop_reason == "end_turn"
        assert reply.usage.input_tokens > 0 and reply.usage.output_tokens > 0
        (request,) = server.requests
        assert request.path == WAYS[way][1]
        sent = request.json
        prompt, suffix = (
            ("input_prefix", "input_suffix") if way == "infill" else ("prompt", "suffix")
        )
        assert (sent[prompt], sent[suffix]) == ("let total = ", ";")
        assert sent["n_predict" if way == "infill" else "max_tokens"] == 9
        assert sent["random_seed" if way == "fim" else "seed"] == 3
        assert (sent["temperature"], sent["stop"]) == (0.5, ["\n"])


@both
@every
async def test_a_limit_is_said(way: str, stream: bool) -> None:
    async with FakeOpenAI(Reply("half", stop_reason="max_tokens")) as server:
        asked = Completion("x", settings=Settings(stream=stream))
        reply = await model_of(way, server).complete(asked, silent)
        assert reply is not None and reply.stop_reason == "max_tokens"
        assert "suffix" not in server.requests[0].json


async def test_a_system_prompt_stands_before_the_text_and_extra_wins() -> None:
    async with FakeOpenAI("ok") as server:
        settings = Settings(extra={"logprobs": 1}, stream=False)
        asked = Completion("x = ", system="Python 3.", settings=settings)
        await model_of("completions", server).complete(asked, silent)
        sent = server.requests[0].json
        assert sent["prompt"] == "Python 3.\n\nx = " and sent["logprobs"] == 1


async def test_a_model_that_can_only_be_asked_in_words() -> None:
    async with FakeOpenAI("ok") as server:
        assert await model_of("", server).complete(Completion("x"), silent) is None
        assert not server.requests


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Status(429), RateLimited),
        (Status(400), BadRequest),
        (Hangup("mid_body"), ModelError),
        (Body("html"), BadReply),
        (Body("empty"), ModelError),
        (Body("cut_json"), BadReply),
        (Silence("mid_body"), Timeout),
    ],
)
@both
@every
async def test_what_goes_wrong_is_the_error_it_is(
    way: str, stream: bool, fault: Fault, kind: type[ModelError]
) -> None:
    async with FakeOpenAI("a longer text that goes on and on", faults=[fault]) as server:
        model = model_of(way, server, timeouts=Timeouts(idle=0.15, total=0.4))
        with pytest.raises(kind) as failed:
            await model.complete(Completion("x", settings=Settings(stream=stream)), silent)
        assert failed.value.model == "m-1"


@every
async def test_in_small_pieces(way: str) -> None:
    async with FakeOpenAI("Zürich – 東京", faults=[Pieces(1)]) as server:
        model = model_of(way, server)
        reply = await model.complete(Completion("x"), silent)
        assert reply is not None and reply.text == "Zürich – 東京"


@pytest.mark.parametrize(
    "half",
    [b'{"choices": [{"text": "a", "finish_reason": null}]}', b'{"content": "a", "stop": false}'],
)
def test_a_stream_without_its_end_is_broken(half: bytes) -> None:
    model = OpenAIChat("m", api_key="k")
    decoder = TextDecoder(model._source(), model._origin, {}, silent)
    decoder.feed(b"data: " + half + b"\n\n")
    with pytest.raises(StreamBroken):
        decoder.finish()


@pytest.mark.parametrize(
    "value", [{}, {"choices": []}, {"choices": [None]}, {"content": None}, {"choices": 3}, {"x": 1}]
)
@both
def test_any_value_anywhere_is_a_text_or_an_error(value: Any, stream: bool) -> None:
    model = OpenAIChat("m", api_key="k")
    decoder = TextDecoder(model._source(), model._origin, {}, silent)
    raw = json.dumps(value).encode()
    try:
        decoder.feed(b"data: " + raw + b"\n\n" if stream else raw)
        decoder.finish()
    except ModelError:
        pass


@pytest.mark.parametrize(
    ("base", "way", "url"),
    [
        ("http://h:1", "completions", "http://h:1/v1/completions"),
        ("http://h:1/v1", "infill", "http://h:1/infill"),
        ("http://h:1", "infill", "http://h:1/infill"),
        ("http://h/x/chat/completions?a=1", "completions", "http://h/x/completions?a=1"),
    ],
)
async def test_addresses(base: str, way: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = OpenAIChat("m", api_key="k", base_url=base)
    model.caps = Capabilities(known=True, completes=way)
    seen: list[str | None] = []

    async def exchange(settings: Any, body: Any, decoder: Any, at: str | None = None) -> None:
        seen.append(at)

    monkeypatch.setattr(model, "_exchange", exchange)
    await model.complete(Completion("x"), silent)
    assert seen == [url]

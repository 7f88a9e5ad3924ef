"""What the environment decides where nobody else does."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.testing.providers import FakeOpenAI

pytestmark = pytest.mark.usefixtures("reachable")


async def streamed(**options: bool) -> list[bool]:
    """Whether a loop, an agent and a single call asked for a stream."""
    async with FakeOpenAI("hi") as server:
        model = OpenAIChat("m", api_key="k", base_url=server.url)
        await w.agent_loop("go", model=model, **options)
        await w.Agent(model, **options).run("go")
        await w.llm_call("go", model=model, **options)
        return [asked.streamed for asked in server.requests]


async def streamed_by_loops(llm_options: dict[str, Any]) -> list[bool]:
    """Whether a loop and an agent with these `llm_options` asked for a stream."""
    async with FakeOpenAI("hi") as server:
        model = OpenAIChat("m", api_key="k", base_url=server.url)
        await w.agent_loop("go", model=model, llm_options=llm_options)
        await w.Agent(model, llm_options=llm_options).run("go")
        return [asked.streamed for asked in server.requests]


@pytest.mark.parametrize(
    ("said", "expected"), [(None, True), ("", True), ("true", True), ("0", False), ("False", False)]
)
async def test_a_variable_says_whether_replies_stream(
    said: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("WINDLASS_LLM_STREAM", raising=False)
    if said is not None:
        monkeypatch.setenv("WINDLASS_LLM_STREAM", said)
    assert await streamed() == [expected] * 3


async def test_an_option_has_the_last_word(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WINDLASS_LLM_STREAM", "0")
    assert await streamed(stream=True) == [True] * 3
    assert await streamed_by_loops({"stream": True}) == [True] * 2


async def test_a_variable_is_not_read_where_an_option_decides(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WINDLASS_LLM_STREAM", "perhaps")
    assert await streamed(stream=False) == [False] * 3
    assert await streamed_by_loops({"stream": False}) == [False] * 2


async def test_a_variable_that_says_neither_is_an_error_before_any_call(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("WINDLASS_LLM_STREAM", "perhaps")
    model = OpenAIChat("m", api_key="k", base_url="http://127.0.0.1:1")
    for call in (w.agent_loop("go", model=model), w.llm_call("go", model=model)):
        with pytest.raises(w.ConfigError, match="WINDLASS_LLM_STREAM"):
            await call

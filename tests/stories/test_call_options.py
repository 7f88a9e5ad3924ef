"""Every option of a single call: what reaches the model, what reaches the wire, what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.capable_model import able
from tests.stories.helpers import add
from windlass.events import TextDelta
from windlass.models.base import Emit
from windlass.models.registry.capabilities import Capabilities
from windlass.models.registry.providers import resolve
from windlass.testing import call, scripted
from windlass.testing.providers import (
    FakeAnthropic,
    FakeGemini,
    FakeOllama,
    FakeOpenAI,
    Silence,
)
from windlass.testing.providers.server import FakeServer


async def sent(kind: type[FakeServer], model: str, **options: Any) -> dict[str, Any]:
    """The body that reaches this provider; it takes it, too."""
    provider, _, name = model.partition(":")
    async with kind("hi") as server:
        asked = resolve(name, provider, api_key="k", base_url=server.url)
        await w.llm_call("go", model=asked, **options)
        assert not server.refused
        return server.requests[-1].json


CLAUDE, GPT = "anthropic:claude-sonnet-4-20250514", "openai:gpt-4o"


# --------------------------------------------------------------------------- on the wire


@pytest.mark.usefixtures("reachable")
@pytest.mark.parametrize(
    ("option", "value", "claude", "gpt", "ollama"),
    [
        ("max_tokens", 77, {"max_tokens": 77}, {"max_tokens": 77}, {"num_predict": 77}),
        ("temperature", 0.5, {"temperature": 0.5}, {"temperature": 0.5}, {"temperature": 0.5}),
        ("top_p", 0.9, {"top_p": 0.9}, {"top_p": 0.9}, {"top_p": 0.9}),
        ("top_k", 5, {"top_k": 5}, None, {"top_k": 5}),
        ("stop", ["E"], {"stop_sequences": ["E"]}, {"stop": ["E"]}, {"stop": ["E"]}),
        ("seed", 7, None, {"seed": 7}, {"seed": 7}),
        ("frequency_penalty", 0.5, None, {"frequency_penalty": 0.5}, {"frequency_penalty": 0.5}),
        ("presence_penalty", 0.5, None, {"presence_penalty": 0.5}, {"presence_penalty": 0.5}),
    ],
)
async def test_a_setting_is_sent_where_it_is_understood(
    option: str, value: Any, claude: Any, gpt: Any, ollama: Any
):
    bodies = (
        (await sent(FakeAnthropic, CLAUDE, **{option: value}), claude),
        (await sent(FakeOpenAI, GPT, **{option: value}), gpt),
        ((await sent(FakeOllama, "ollama:llama3.2", **{option: value}))["options"], ollama),
    )
    for body, expected in bodies:
        if expected is None:
            assert option not in body
        else:
            assert body.items() >= expected.items()


@pytest.mark.usefixtures("reachable")
async def test_claude_is_given_16384_tokens_unless_told_otherwise():
    assert (await sent(FakeAnthropic, CLAUDE))["max_tokens"] == 16_384
    assert "max_tokens" not in await sent(FakeOpenAI, GPT)


@pytest.mark.usefixtures("reachable")
async def test_stream_says_how_the_reply_comes():
    assert (await sent(FakeOpenAI, GPT, stream=False)).get("stream") in (None, False)
    assert (await sent(FakeOpenAI, GPT))["stream"] is True


@pytest.mark.usefixtures("reachable")
async def test_a_cache_is_asked_for_where_there_is_one():
    assert "cache_control" in str(await sent(FakeAnthropic, CLAUDE, cache=True, system="x " * 9000))
    off = await sent(FakeAnthropic, CLAUDE, cache=False, system="x " * 9000)
    assert "cache_control" not in str(off)
    assert "cache" not in str(await sent(FakeOpenAI, GPT, cache=True))


@pytest.mark.usefixtures("reachable")
async def test_a_schema_by_the_provider_s_own_means():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    async with FakeOpenAI('{"a": 1}') as server:
        asked = resolve("gpt-4o", "openai", api_key="k", base_url=server.url)
        assert (await w.llm_call("go", model=asked, schema=schema)).data == {"a": 1}
        assert server.requests[-1].json["response_format"]["type"] == "json_schema"
        await w.llm_call("Say JSON", model=asked, response_format="json")
        assert server.requests[-1].json["response_format"] == {"type": "json_object"}
    async with FakeGemini('{"a": 1}') as server:
        asked = resolve("gemini-2.5-flash", "gemini", api_key="k", base_url=server.url)
        assert (await w.llm_call("go", model=asked, schema=schema)).data == {"a": 1}
        config = server.requests[-1].json["generationConfig"]
        assert config["responseMimeType"] == "application/json"


@pytest.mark.usefixtures("reachable")
async def test_beta_features_are_a_header():
    async with FakeAnthropic("hi") as server:
        asked = resolve("claude-sonnet-4-20250514", "anthropic", api_key="k", base_url=server.url)
        await w.llm_call("go", model=asked, anthropic_beta_features=["files-api-2025-04-14"])
        assert "files-api-2025-04-14" in server.requests[-1].headers["anthropic-beta"]


@pytest.mark.usefixtures("reachable")
async def test_a_timeout_ends_the_call():
    async with FakeOpenAI("hi", faults=[Silence("before_headers")]) as server:
        asked = resolve("gpt-4o", "openai", api_key="k", base_url=server.url)
        with pytest.raises(w.Timeout), pytest.warns(DeprecationWarning):
            await w.llm_call("go", model=asked, timeout=0.05, llm_retries=0)


# --------------------------------------------------------------------------- a provider's own dict


@pytest.mark.usefixtures("reachable")
async def test_a_provider_s_own_dict_is_sent_to_it_and_to_no_other():
    body = await sent(
        FakeOllama, "ollama:llama3.2", ollama={"num_ctx": 32_768}, openai={"user": "ann"}
    )
    assert body["options"]["num_ctx"] == 32_768 and "ann" not in str(body)
    body = await sent(FakeOpenAI, GPT, ollama={"num_ctx": 1}, openai={"user": "ann"})
    assert body["user"] == "ann" and "num_ctx" not in str(body)


async def test_every_door_takes_it():
    loop, agent, run, single = (scripted("x", provider="ollama") for _ in range(4))
    own = {"num_ctx": 32_768}
    await w.agent_loop("go", model=loop, ollama=own)
    await w.Agent(agent, ollama=own).run("go")
    await w.Agent(run).run("go", ollama=own)
    [_ async for _ in w.llm_stream("go", model=single, ollama=own)]
    for model in (loop, agent, run, single):
        assert model.requests[0].settings.extra == own


async def test_a_model_of_ones_own_has_a_dict_under_its_name():
    model = scripted("x", provider="acme")
    await w.llm_call("go", None, {"model": model, "acme": {"mood": "good"}})
    assert model.requests[0].settings.extra == {"mood": "good"}


async def test_what_is_meant_for_us_in_it_is_not_sent():
    model = scripted("x", provider="openrouter")
    await w.llm_call("go", model=model, openrouter={"force_native_tool_search": True, "a": 1})
    assert model.requests[0].settings.extra == {"a": 1}
    only = scripted("x", provider="openrouter")
    await w.llm_call("go", model=only, openrouter={"force_native_tool_search": False})
    assert only.requests[0].settings.extra is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"olama": {"num_ctx": 1}}, "no option 'olama'"),
        ({"ollama": 3}, "ollama is a dict"),
        ({"ollama": {"a": object()}}, "not JSON"),
        ({"ollama": {1: 2}}, "not JSON"),
        ({"openai": {"force_native_tool_search": "yes"}}, "force_native_tool_search"),
    ],
)
async def test_a_wrong_dict_is_refused(options: Any, words: str):
    model = scripted("never")
    for door in (w.llm_call, w.agent_loop, w.llm_completion):
        arguments: Any = ("go", None, None) if door is w.llm_completion else ("go", None)
        with pytest.raises(w.ConfigError, match=words):
            await door(*arguments, {"model": model, **options})
    assert not model.requests


# --------------------------------------------------------------------------- which model


async def test_a_model_is_named_or_held_or_a_tier():
    w.llm_mock(text="a")
    assert (await w.llm_call("go", model="mock:m")).model == "m"
    with pytest.raises(w.ConfigError, match="model_tier and model"):
        await w.llm_call("go", model="mock:m", model_tier="small")
    with pytest.raises(w.ConfigError, match="model_tier goes with"):
        await w.llm_call("go", model=scripted("x"), model_tier="small")
    with pytest.raises(w.ConfigError, match="provider goes with"):
        await w.llm_call("go", model=scripted("x"), provider="openai")
    with pytest.raises(w.ConfigError, match="model_tier"):
        await w.llm_call("go", None, {"model_tier": 3})


CONFIG = """
[llm.tiers]
small = "mock:tiny"

[llm.providers.acme]
base_url = "http://127.0.0.1:9/v1"

[llm.model_defaults."tiny"]
temperature = 0.2
max_tokens = 50
thinking = { budget_tokens = 2000 }
"""


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    file = tmp_path / "windlass.toml"
    file.write_text(CONFIG)
    return file


def last_options() -> dict[str, Any]:
    return w.llm_mock_calls()[-1].options


async def test_a_tier_is_a_configured_model(configured: Path):
    async with w.Runtime(environ={}, config=configured, store="memory:"):
        assert (await w.llm_call("go", model_tier="small")).model == "tiny"
        assert (await w.agent_loop("go", model_tier="small")).status == "done"
        assert (await w.Agent(model_tier="small").run("go")).status == "done"
        assert (await w.Agent("mock:big").with_(model_tier="small").run("go")).status == "done"
        assert (await w.llm_completion("go", model_tier="small")).model == "tiny"
        assert [call.options["model"] for call in w.llm_mock_calls()] == ["tiny"] * 5
        await w.Agent(model_tier="small").run("go", model="mock:big")
        assert last_options()["model"] == "big"
        with pytest.raises(w.ConfigError, match="'small'"):
            await w.llm_call("go", model_tier="smal")


async def test_what_is_configured_for_a_model_is_below_what_a_call_says(configured: Path):
    async with w.Runtime(environ={}, config=configured, store="memory:"):
        await w.llm_call("go", model="mock:tiny", max_tokens=60, temperature=None)
        assert last_options().items() >= {"temperature": 0.2, "max_tokens": 60}.items()
        assert last_options()["thinking"] == {"budget_tokens": 2000}
        await w.agent_loop("go", model="mock:tiny", done_sentinel=None, reasoning_effort="low")
        assert last_options().items() >= {"temperature": 0.2, "max_tokens": 50}.items()
        assert last_options()["thinking"] == {"mode": "effort", "effort": "low"}
        await w.Agent("mock:tiny", llm_options={"thinking": False}).run("go")
        assert last_options()["thinking"] is False
        await w.llm_completion("go", model="mock:tiny")
        assert last_options()["max_tokens"] == 50
        await w.llm_call("go", model="mock:other")
        assert "temperature" not in last_options()


@pytest.fixture
def misconfigured(tmp_path: Path) -> Path:
    file = tmp_path / "windlass.toml"
    file.write_text('[llm.model_defaults."tiny"]\ntemperature = 7.0\n')
    return file


async def test_a_configured_default_that_cannot_be_is_refused(misconfigured: Path):
    async with w.Runtime(environ={}, config=misconfigured, store="memory:"):
        with pytest.raises(w.ConfigError, match=r"temperature.*model_defaults.*mock:tiny"):
            await w.llm_call("go", model="mock:tiny")


@pytest.mark.usefixtures("reachable")
async def test_a_file_stands_above_the_environment(
    streamless: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WINDLASS_LLM_STREAM", "true")
    async with w.Runtime(environ={}, config=streamless, store="memory:"):
        assert not (await sent(FakeOpenAI, GPT)).get("stream")
        assert (await sent(FakeOpenAI, GPT, stream=True))["stream"] is True


@pytest.fixture
def streamless(tmp_path: Path) -> Path:
    file = tmp_path / "windlass.toml"
    file.write_text('[llm.model_defaults."gpt-4o"]\nstream = false\n')
    return file


async def test_a_configured_provider_has_a_dict_too(configured: Path):
    async with w.Runtime(environ={}, config=configured, store="memory:"):
        model = scripted("x")
        await w.llm_call("go", None, {"model": model, "acme": {"mood": "good"}})
        assert model.requests[0].settings.extra is None
    with pytest.raises(w.ConfigError, match="no option 'acme'"):
        await w.llm_call("go", None, {"model": scripted("x"), "acme": {"mood": "good"}})


# --------------------------------------------------------------------------- callers


async def test_a_caller_is_told_what_kind_of_task_it_is():
    seen: list[Any] = []

    async def caller(asked: Any) -> Any:
        seen.append(asked.opts.get("task_kind"))
        return await w.default_llm_caller()(asked)

    model = scripted("x", "x", "x")
    await w.llm_call("go", model=model, llm_caller=caller, task_kind="judge")
    await w.agent_loop("go", model=model, llm_caller=caller, task_kind="draft")
    await w.llm_call("go", model=model, llm_caller=caller)
    assert seen == ["judge", "draft", None]
    with pytest.raises(w.ConfigError, match="task_kind"):
        await w.llm_call("go", None, {"model": scripted("x"), "task_kind": ""})


@pytest.mark.usefixtures("reachable")
async def test_what_kind_of_task_it_is_stays_at_home():
    assert "judge" not in str(await sent(FakeOpenAI, GPT, task_kind="judge"))


async def test_another_model_is_asked_in_words_it_understands():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    first = able(w.Overloaded("busy"), caps=Capabilities(structured=("schema",)), provider="acme")
    second = scripted('{"a": 1}', provider="other")
    reply = await w.llm_call(
        "go",
        None,
        {
            "model": first,
            "schema": schema,
            "acme": {"mood": "good"},
            "anthropic_beta_features": ["x"],
            "llm_caller": w.with_fallback([second]),
        },
    )
    assert reply.data == {"a": 1} and reply.via == "fallback"
    asked, again = first.requests[0], second.requests[0]
    assert (asked.settings.schema, asked.settings.extra) == (schema, {"mood": "good"})
    assert again.settings == w.Settings() and '"integer"' in (again.system or "")


async def test_an_equal_model_is_asked_the_same():
    caps = Capabilities(structured=("schema",))
    first = able(w.Overloaded("busy"), caps=caps, provider="acme")
    second = able("{}", caps=caps, provider="acme")
    options = {"model": first, "schema": {"type": "object"}, "acme": {"mood": "good"}}
    await w.llm_call("go", None, {**options, "llm_caller": w.with_fallback([second])})
    assert second.requests[0].frame is first.requests[0].frame


# --------------------------------------------------------------------------- transcripts


async def test_a_conversation_goes_on_from_a_transcript():
    first = await w.llm_call("My name is Ann.", model=scripted("Hello, Ann."))
    model = scripted("Ann.")
    second = await w.llm_call("What is my name?", model=model, transcript=first.transcript)
    assert [m.text for m in model.requests[0].messages] == [
        "My name is Ann.",
        "Hello, Ann.",
        "What is my name?",
    ]
    assert first.transcript["id"] and second.transcript["id"] == first.transcript["id"]
    assert [m["role"] for m in second.transcript["messages"]] == ["user", "assistant"] * 2
    assert w.transcript_render_visible(second.transcript).count("assistant: ") == 2
    third = await w.llm_call("Sure?", model=scripted("Yes."), transcript=second.transcript)
    assert len(third.transcript["messages"]) == 6
    assert len(w.transcript_events(third.transcript)) == 6
    assert third.transcript["metadata"] == {"model": "scripted", "provider": "scripted"}
    other = await w.llm_call("go", model=scripted("x"))
    assert other.transcript["id"] != first.transcript["id"]


async def test_a_transcript_survives_json_with_all_its_blocks():
    import json

    said = [w.Thinking("hm"), "look", call("add", a=1, b=2)]
    first = await w.llm_call("1+2?", model=scripted(said), tools=[add])
    kept = json.loads(json.dumps(first.transcript))
    answer = w.Message("tool", (w.ToolResult(first.tool_calls[0].id, "3", name="add"),))
    model = scripted("It is 3.")
    reply = await w.llm_call([answer], model=model, tools=[add], transcript=kept)
    assert model.requests[0].messages[1] == first.message
    assert [m["role"] for m in reply.transcript["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    kinds = [event["kind"] for event in reply.transcript["events"]]
    assert kinds == ["message", "private_reasoning", "message", "tool_result", "message"]
    with pytest.raises(w.BadRequest, match="no result"):
        await w.llm_call("and?", model=scripted("x"), transcript=kept)


async def test_a_call_goes_on_from_a_run():
    run = await w.agent_loop("1+2?", model=scripted(call("add", a=1, b=2), "3"), tools=[add])
    model = scripted("yes")
    reply = await w.llm_call("Sure?", model=model, transcript=run.transcript)
    assert [m.role for m in model.requests[0].messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert reply.transcript["id"] == run.session_id
    before = len(run.transcript["events"])
    assert reply.transcript["events"][:before] == run.transcript["events"]


async def test_what_a_transcript_sums_up_is_told_once():
    model = scripted("x", "x")
    past = {"id": "t", "messages": [{"role": "user", "content": "hi"}], "summary": "They met."}
    reply = await w.llm_call("go", "Be brief.", model=model, transcript=past)
    system = model.requests[0].system or ""
    assert system.startswith("Be brief.") and "They met." in system
    assert reply.transcript["summary"] == "They met."
    told = {**past, "messages": [{"role": "user", "content": "Before: They met."}]}
    await w.llm_call("go", "Be brief.", model=model, transcript=told)
    assert model.requests[1].system == "Be brief."


@pytest.mark.parametrize(
    ("transcript", "words"),
    [
        ("hi", "transcript is a dict"),
        ([], "transcript is a dict"),
        ({}, "no messages"),
        ({"messages": "hi"}, "messages are a list"),
        ({"messages": 3}, "messages are a list"),
        ({"messages": [3]}, "message 0"),
        ({"messages": [{"role": "boss"}]}, "message 0"),
        ({"messages": [], "id": 3}, "id is a text"),
        ({"messages": [], "events": {}}, "events is a list"),
        ({"messages": [], "events": [3]}, "events are dicts"),
        ({"messages": [], "summary": 3}, "summary is a text"),
        ({"messages": [], "metadata": 3}, "metadata is a dict"),
        ({"mesages": []}, "'messages'"),
    ],
)
async def test_what_is_no_transcript_is_refused(transcript: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.llm_call("go", model=model, transcript=transcript)
    assert not model.requests


async def test_a_transcript_needs_something_to_answer():
    model = scripted("x")
    past = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(w.ConfigError, match="say something"):
        await w.llm_call(model=model, transcript={"messages": past})
    with pytest.raises(w.ConfigError, match="empty"):
        await w.llm_call(model=model, transcript={"messages": []})
    with pytest.raises(w.ConfigError, match="give one"):
        await w.llm_call("go", model=model, transcript={"messages": past}, messages=past)
    with pytest.raises(w.ConfigError, match="agent_loop goes on from a transcript"):
        await w.agent_loop(None, None, {"model": model, "transcript": {"messages": past}})
    assert not model.requests
    await w.llm_call(model=model, transcript={"messages": past[:1]})
    assert len(model.requests[0].messages) == 1


# --------------------------------------------------------------------------- tools


async def test_a_model_without_tools_is_taught_to_write_them():
    model = scripted(
        '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>', native_tools=False
    )
    reply = await w.llm_call("1+2?", model=model, tools=[add])
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [("add", {"a": 1, "b": 2})]
    assert not model.requests[0].tools and "add" in (model.requests[0].system or "")


# --------------------------------------------------------------------------- secrets

KEY = "sk-canary-4f9a8b7c6d5e"


class Leaky(w.Model):
    """Says its key, letter by letter."""

    provider, name, secrets = "leaky", "leaky", (KEY,)

    async def respond(self, request: w.Request, emit: Emit) -> w.Response:
        for letter in f"it is {KEY}, sk-canary-no":
            emit(TextDelta(letter))
        asked = w.ToolCall("c", "add", {"a": KEY})
        emit(w.ToolCallReady(asked))
        return w.Response(w.Message("assistant", (w.Text(f"it is {KEY}, sk-canary-no"), asked)))


async def test_no_piece_of_a_stream_holds_a_secret():
    chunks = [chunk async for chunk in w.llm_stream("go", model=Leaky(), tools=[add])]
    assert "".join(map(str, chunks)) == "it is [redacted], sk-canary-no"
    assert KEY not in repr(chunks)
    assert len(chunks) > 10, "it streams all the same"


async def test_the_last_words_are_shown_though_a_secret_may_begin_so():
    class Nearly(Leaky):
        async def respond(self, request: w.Request, emit: Emit) -> w.Response:
            emit(TextDelta("it begins with sk-canary"))
            return w.Response(w.Message("assistant", "it begins with sk-canary"))

    chunks = [chunk async for chunk in w.llm_stream("go", model=Nearly())]
    assert "".join(map(str, chunks)) == "it begins with sk-canary"


async def test_no_reply_holds_a_secret():
    reply = await w.llm_call("go", model=Leaky(), tools=[add])
    assert reply.text == "it is [redacted], sk-canary-no"
    assert KEY not in repr(reply) + repr(reply.transcript)


# --------------------------------------------------------------------------- two at once


async def test_calls_side_by_side_do_not_know_each_other():
    caps = Capabilities(structured=("schema",))
    model = able(then=lambda request: f'{{"a": {request.messages[-1].text}}}', caps=caps)
    replies = await asyncio.gather(
        *(w.llm_call(str(n), model=model, schema={"a": "integer"}) for n in range(20))
    )
    assert [reply.data["a"] for reply in replies] == list(range(20))
    assert len({reply.transcript["id"] for reply in replies}) == 20


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("cache", "yes"),
        ("stream", 1),
        ("timeout", -1),
        ("top_k", 0),
        ("seed", 1.5),
        ("stop", [""]),
        ("temperature", "hot"),
        ("presence_penalty", 3),
        ("frequency_penalty", "x"),
        ("top_p", -0.1),
        ("max_tokens", 1.5),
        ("tool_choice", {"nam": "x"}),
        ("messages", 3),
        ("tools", 3),
        ("llm_caller", 3),
    ],
)
async def test_an_impossible_value_is_refused_before_any_call(option: str, value: Any):
    model = scripted("never")
    words = {"messages": "prompt", "tools": "tool"}.get(option, option)
    for door in (w.llm_call, w.llm_stream):
        with pytest.raises(w.ConfigError, match=words):
            answer = door("go", None, {"model": model, option: value})
            if door is w.llm_stream:
                [_ async for _ in answer]  # pyright: ignore
            else:
                await answer  # pyright: ignore
    assert not model.requests

"""The walk over the names of a model call, its wires and the vault: what comes of each is looked at."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import windlass as w
from tests.names import models as names
from tests.names.test_names import documented, typed
from tests.option_areas import CALL
from windlass.models.registry.providers import resolve
from windlass.models.registry.scope import ENDPOINTS
from windlass.testing import call, scripted
from windlass.testing.providers import (
    FakeAnthropic,
    FakeGemini,
    FakeOllama,
    FakeOpenAI,
    FakeResponses,
    Reply,
    Silence,
    conversation,
)
from windlass.testing.providers.reply import Asked
from windlass.tools.search.options import SEARCH_NAME

FAKES: dict[str, Any] = {"anthropic": FakeAnthropic, "gemini": FakeGemini, "ollama": FakeOllama}


@w.tool
def find(city: str) -> str:
    """Find a city."""
    return f"found {city}"


@w.tool(defer_loading=True, namespace="maps")
def route(to: str) -> str:
    """How to get from here to a place."""
    return f"left to {to}"


# --------------------------------------------------------------------------- what can be typed


@pytest.mark.parametrize("name", names.FUNCTIONS)
def test_a_function(name: str):
    function = getattr(w, name)
    assert name in w._HOME
    documented(function, name)
    typed(function, name)
    given, wanted = list(inspect.signature(function).parameters), names.FUNCTIONS[name].split()
    assert given[: len(wanted)] == wanted


def test_the_options_of_a_call():
    assert set(names.CALL_OPTIONS) <= CALL


async def test_the_fields_of_a_reply():
    reply = await w.llm_call("go", model=scripted("hi"))
    assert isinstance(reply, w.LLMResult)
    for field in names.RESULT_FIELDS:
        getattr(reply, field)
    assert (reply.text, reply.visible_text, reply.stop_reason) == ("hi", "hi", "end_turn")
    assert reply.transcript["messages"][-1]["content"][0]["text"] == "hi"


async def test_what_is_thought_cached_called_and_parsed(reachable: None):
    usage = w.Usage(100, 20, cache_read_tokens=30, cache_write_tokens=40)
    told = Reply("", thinking="Hm.", tool_calls=[("find", {"city": "Bern"})], usage=usage)
    async with FakeAnthropic(told) as server:
        model = w.models.anthropic("claude-sonnet-4-20250514", api_key="k", base_url=server.url)
        reply = await w.llm_call("go", model=model, tools=[find], thinking=True)
    assert (reply.thinking, reply.private_reasoning) == ("Hm.", "Hm.")
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [("find", {"city": "Bern"})]
    assert [type(block).__name__ for block in reply.blocks] == ["Thinking", "ToolCall"]
    assert (reply.input_tokens, reply.output_tokens) == (100, 20)
    assert (reply.cache_read_tokens, reply.cache_write_tokens) == (30, 40)
    assert (reply.provider, reply.stop_reason) == ("anthropic", "tool_use")
    parsed = await w.llm_call("go", model=scripted('{"a": 1}'), response_format="json")
    assert parsed.data == {"a": 1}


@pytest.mark.parametrize("reason", names.STOP_REASONS)
async def test_a_stop_reason(reason: str, reachable: None):
    calls = [("find", {"city": "Bern"})] if reason == "tool_use" else []
    async with FakeAnthropic(Reply("x", tool_calls=calls, stop_reason=reason)) as server:
        model = w.models.anthropic("claude-opus-4-7", api_key="k", base_url=server.url)
        reply = await w.llm_call("go", model=model, tools=[find])
    assert reply.stop_reason == reason


async def test_a_stream_and_its_pieces():
    model = scripted(call("find", city="Bern"), "hello")
    pieces = [chunk async for chunk in w.llm_stream("go", model=model, tools=[find])]
    assert [p.tool_call.name for p in pieces if p.tool_call] == ["find"]
    assert pieces[-1].finish_reason == "tool_use"
    pieces = [chunk async for chunk in w.llm_stream("go", "Be brief.", model=model)]
    assert "".join(map(str, pieces)) == "".join(p.text for p in pieces) == "hello"


async def test_text_that_goes_on(reachable: None):
    async with FakeOpenAI("0") as server:
        model = resolve("vendor/x", "local", base_url=server.url)
        assert (await w.llm_completion("let a = ", ";", None, {"model": model})).text == "0"


async def test_a_transcript_is_gone_on_from():
    model = scripted("one", "two")
    first = await w.llm_call("go", model=model)
    await w.llm_call("on", model=model, transcript=first.transcript)
    assert [m.text for m in model.requests[1].messages] == ["go", "one", "on"]


async def test_schema_retries():
    model = scripted("no", '{"city": "Bern"}')
    reply = await w.llm_call("go", model=model, schema=names.CITY, schema_retries=1)
    assert reply.data == {"city": "Bern"}


async def test_a_model_of_one_s_own():
    class Parrot(w.Model):
        async def respond(self, request: w.Request, emit: Any) -> w.Response:
            if request.messages[-1].role == "tool":
                return w.Response(w.Message("assistant", "done"), w.Usage(5, 1))
            asked = w.ToolCall("c1", request.tools[0].name, {"city": "Bern"})
            emit(w.TextDelta(f"{request.system} {request.settings.temperature}"))
            emit(w.ToolCallReady(asked))
            return w.Response(w.Message("assistant", (asked,)), w.Usage(3, 4), "tool_use")

    seen: list[Any] = []
    out = await w.agent_loop(
        "go", "Be kind.", model=Parrot(), tools=[find], temperature=0.5, on_event=seen.append
    )
    assert (out.final_text, out.llm.input_tokens) == ("done", 8)
    assert "Be kind. 0.5" in [e.text for e in seen if isinstance(e, w.TextDelta)]
    assert any(isinstance(e, w.ToolCallReady) for e in seen)


@pytest.mark.parametrize("kind", ["anthropic", "openai_chat"])
async def test_a_model_object(kind: str, reachable: None):
    fake = FakeAnthropic if kind == "anthropic" else FakeOpenAI
    async with fake("hi", api_key="k", faults=[None, Silence("before_headers")]) as server:
        make = getattr(w.models, kind)
        model = make("m", api_key="k", base_url=server.url, headers={"x-team": "blue"}, timeout=0.2)
        assert (await w.llm_call("go", model=model)).text == "hi"
        with pytest.raises(w.Timeout):
            await model.respond(w.Request([w.Message("user", "go")]), lambda _event: None)
    assert server.requests[0].headers["x-team"] == "blue"


# --------------------------------------------------------------------------- over the wires


async def asked(model: str, options: dict[str, Any]) -> Asked:
    """What reaches the provider, which takes it."""
    provider, _, name = model.partition(":")
    kind = FAKES.get(ENDPOINTS[provider].wire, FakeOpenAI)
    also = {"also": ["reasoning", "cache_control"]} if kind is FakeOpenAI else {}
    reply = '{"city": "Bern"}'
    async with kind(reply, **also) as server:
        found = resolve(name, provider, api_key="k", base_url=server.url)
        tools = [find] if "tool_choice" in options else []
        await w.llm_call("Where am I?", model=found, tools=tools, **options)
        assert not server.refused, server.refused[0].message
        return server.requests[-1]


@pytest.mark.parametrize("name", names.SENT)
async def test_a_name_reaches_the_wire(name: str, reachable: None):
    model, options, path, value = names.SENT[name]
    found: Any = (await asked(model, options)).json
    for step in path.split("."):
        found = found[int(step)] if isinstance(found, list) else (found or {}).get(step)
    assert found == value


@pytest.mark.parametrize("name", names.HEADERS)
async def test_a_name_is_in_a_header(name: str, reachable: None):
    model, options, header, value = names.HEADERS[name]
    assert value in (await asked(model, options)).headers[header]


async def test_a_system_prompt_stands_at_the_top_or_comes_first(reachable: None):
    assert "Be kind." in str((await asked(names.CLAUDE, {"system": "Be kind."})).json["system"])
    first = (await asked(names.GPT, {"system": "Be kind."})).json["messages"][0]
    assert first == {"role": "system", "content": "Be kind."}


@pytest.mark.parametrize("said", ["0", "1"])
async def test_the_environment_says_whether_to_stream(
    said: str, monkeypatch: pytest.MonkeyPatch, reachable: None
):
    monkeypatch.setenv("WINDLASS_LLM_STREAM", said)
    assert (await asked(names.GPT, {})).json.get("stream", False) is (said == "1")


async def test_timeout_and_llm_retries(reachable: None):
    faults = [Silence("before_headers")] * 2
    async with FakeOpenAI("hi", faults=faults) as server:
        model = w.models.openai_chat("m", base_url=server.url, api_key="k")
        with pytest.raises(w.Timeout), pytest.warns(DeprecationWarning, match="with_retry"):
            await w.llm_call("go", model=model, timeout=0.05, llm_retries=1, llm_backoff_ms=1)
        assert len(server.requests) == 1  # the whole call has so long
    async with FakeOpenAI("hi", faults=faults) as server:
        model = w.models.openai_chat("m", base_url=server.url, api_key="k", timeout=0.05)
        with pytest.raises(w.Timeout), pytest.warns(DeprecationWarning, match="with_retry"):
            await w.llm_call("go", model=model, llm_retries=1, llm_backoff_ms=1)
        assert len(server.requests) == 2


# --------------------------------------------------------------------------- the vault


def test_a_tool_says_whether_and_where_it_waits():
    assert (route.defer_loading, route.namespace) == (True, "maps")
    assert (find.defer_loading, find.namespace) == (False, None)
    with pytest.raises(w.ConfigError, match="defer_loading"):
        w.tool_define(w.tool_registry(), "deploy", "Deploy", {"defer_loading": "yes"})


@pytest.mark.parametrize("given", [True, "bm25", "regex", names.SEARCH_KEYS, w.ToolSearch()])
async def test_a_search_in_every_shape(given: Any):
    model = scripted("ok")
    await w.llm_call("go", model=model, tools=[find, route], tool_search=given)
    named = given["name"] if isinstance(given, dict) else SEARCH_NAME
    offered = [tool.name for tool in model.requests[0].tools]
    assert named in offered and "route" not in offered
    told = str(model.requests[0].system)
    assert ("route" in told) is isinstance(given, dict)


async def test_no_search():
    model = scripted("ok")
    await w.llm_call("go", model=model, tools=[find, route], tool_search=False)
    assert SEARCH_NAME == "__windlass_tool_search"
    assert SEARCH_NAME not in [tool.name for tool in model.requests[0].tools]


@pytest.mark.parametrize("key", names.SEARCH_KEYS)
async def test_a_key_of_a_search(key: str):
    with pytest.raises(w.ConfigError, match=f"tool_search.{key}"):
        wrong: Any = {key: object()}
        await w.llm_call("go", model=scripted("x"), tools=[find, route], tool_search=wrong)


@pytest.mark.parametrize("strategy", names.STRATEGIES)
async def test_a_strategy_finds_and_the_record_says_so(strategy: str):
    def ours(query: str, *_: Any) -> Any:
        return {"tool_names": ["route"], "diagnostic": "of the host"}

    search: dict[str, Any] = {"mode": "client", "strategy": strategy}
    if strategy in ("semantic", "host"):
        search["search"] = ours
    model = scripted(call(SEARCH_NAME, query="route"), call("route", to="Bern"), "ok")
    out = await w.agent_loop("go", model=model, tools=[find, route], tool_search=search)
    assert [r.name for r in out.tool_calls if r.outcome == "ok"] == [SEARCH_NAME, "route"]
    asked, found = (
        next(e for e in out.transcript["events"] if e["kind"] == kind)
        for kind in names.TRANSCRIPT_KINDS
    )
    assert asked["query"] == "route" and asked["metadata"]["mode"] == "client"
    assert found["tool_names"] == ["route"]
    answer = out.tool_calls[0].result
    assert "tool_names" in str(answer)


async def test_the_search_of_claude_over_its_wire(reachable: None):
    script = conversation(Reply(tool_calls=[("route", {"to": "Bern"})]), "ok")
    async with FakeAnthropic(script) as server:
        model = resolve("claude-opus-4-7", "anthropic", api_key="k", base_url=server.url)
        out = await w.agent_loop(
            "go", model=model, tools=[find, route], await_resumption=False, tool_search="regex"
        )
    assert not server.refused
    first, *others = server.requests[0].json["tools"]
    assert first["name"] == "tool_search_tool_regex"
    assert [tool.get("defer_loading", False) for tool in others] == [False, True]
    kinds = [e["kind"] for e in out.transcript["events"] if e["kind"].startswith("tool_search")]
    assert kinds == names.TRANSCRIPT_KINDS


async def test_the_search_of_openai_over_its_wire(reachable: None):
    script = conversation(Reply(tool_calls=[("route", {"to": "Bern"})]), "ok")
    async with FakeResponses(script) as server:
        model = w.models.openai_responses("gpt-5.4", api_key="k", base_url=server.url)
        out = await w.agent_loop("go", model=model, tools=[find, route], tool_search=True)
    assert not server.refused and out.status == "done"
    first, *others = server.requests[0].json["tools"]
    assert (first["type"], first["execution"]) == ("tool_search", "server")
    assert any(tool.get("name") == "maps" for tool in others), "the namespace"
    kinds = {item["type"] for item in server.requests[-1].json["input"] if "type" in item}
    assert {"tool_search_call", "tool_search_output"} <= kinds


async def test_a_proxy_is_believed_to_search(reachable: None):
    search = {"mode": "native"}
    model = scripted("ok", provider="openrouter")
    with pytest.raises(w.ConfigError, match="native"):
        await w.llm_call("go", model=model, tools=[find, route], tool_search=search)
    forced = {"force_native_tool_search": True}
    reply = await w.llm_call(
        "go", model=model, tools=[find, route], tool_search=search, openrouter=forced
    )
    assert reply.text == "ok" and model.requests[0].settings.tool_search == "hosted"

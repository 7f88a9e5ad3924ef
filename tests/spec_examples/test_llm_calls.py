"""The examples of `harn-llm-calls.txt` in Python, with scripted models in place of providers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.callers import default_llm_caller, with_retry
from windlass.models.registry.providers import resolve
from windlass.testing import call, scripted

TASK = "Mend the failing test."


async def shell(args: dict[str, Any]) -> str:
    return f"deployed to {args['env']}"


def registry() -> Any:
    """Tools, one of which is deferred."""
    tools = w.tool_registry()
    tools = w.tool_define(
        tools,
        "deploy",
        "Deploy to production",
        {"parameters": {"env": {"type": "string"}}, "defer_loading": True, "handler": shell},
    )
    return w.tool_define(
        tools, "look", "Look at the state", {"parameters": {}, "handler": lambda args: "fine"}
    )


async def test_llm_call():
    result = await w.llm_call("What is 2 + 2?", model=scripted("4"))
    assert result.text == "4"


async def test_llm_call_with_a_system_message():
    model = scripted("Divide.")
    result = await w.llm_call(
        "Explain quicksort",
        "You are a computer science teacher. Be concise.",
        {"model": model},
    )
    assert result.text == "Divide."
    assert model.requests[0].system == "You are a computer science teacher. Be concise."


async def test_llm_call_with_options():
    model = scripted("Bonjour, le monde")
    result = await w.llm_call(
        "Translate to French: Hello, world",
        "You are a translator.",
        {"model": model, "max_tokens": 1024},
    )
    assert result["text"] == "Bonjour, le monde"
    assert model.requests[0].frame.settings.max_tokens == 1024


async def test_provider_specific_overrides():
    w.llm_mock(text="hi")
    result = await w.llm_call("hello", None, {"provider": "mock", "mock": {"num_ctx": 32768}})
    assert result.text == "hi"
    w.llm_mock_clear()


async def test_tool_search():
    model = scripted("ok")
    result = await w.llm_call(
        "deploy it", None, {"model": model, "tools": registry(), "tool_search": "bm25"}
    )
    assert result.text == "ok"
    offered = {tool.name for tool in model.requests[0].frame.tools}
    assert "deploy" not in offered and "look" in offered


async def test_namespace_of_a_tool():
    tools = w.tool_define(
        registry(),
        "deploy_api",
        "Deploy the API",
        {
            "parameters": {"env": {"type": "string"}},
            "defer_loading": True,
            "namespace": "ops",
            "handler": shell,
        },
    )
    assert [tool.namespace for tool in tools if tool.name == "deploy_api"] == ["ops"]


def test_escape_hatch_for_proxied_endpoints():
    model = resolve("my-custom/gpt-forward", "openrouter", api_key="k", environ={})
    plan = w.Agent(
        model,
        tools=registry(),
        tool_search={"mode": "native"},
        openrouter={"force_native_tool_search": True},
    ).plan
    assert plan.tools


def test_provider_capabilities():
    caps = w.provider_capabilities("anthropic", "claude-opus-4-7")
    assert "bm25" in caps["tool_search"]
    assert caps["native_tools"] and caps["defer_loading"] and caps["prompt_caching"]


def test_provider_capabilities_of_a_program():
    w.provider_capabilities_install(
        '[[provider.my-proxy]]\nmodel_match = "*"\nnative_tools = true\ndefer_loading = true\n'
        'tool_search = ["hosted"]\nprompt_caching = true\n'
    )
    try:
        assert w.provider_capabilities("my-proxy", "x")["tool_search"] == ["hosted"]
    finally:
        w.provider_capabilities_clear()


PROJECT = """
[[capabilities.provider.anthropic]]
model_match = "claude-opus-*"
native_tools = true
defer_loading = false
tool_search = []
prompt_caching = true
thinking = true

[llm.providers.my_proxy]
base_url = "https://llm.example.com/v1"
chat_endpoint = "/chat/completions"
completion_endpoint = "/completions"
auth_style = "bearer"
auth_env = "MY_PROXY_API_KEY"

[llm.aliases]
my-fast = { id = "vendor/model-fast", provider = "my_proxy" }
"""


def test_settings_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from windlass.models.registry.scope import reload_config

    (tmp_path / "windlass.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_TRUSTED_FILES", str(tmp_path / "windlass.toml"))
    with reload_config():
        model = resolve("my-fast", environ={"MY_PROXY_API_KEY": "k"})
        assert (model.provider, model.name) == ("my_proxy", "vendor/model-fast")
        assert not w.provider_capabilities("anthropic", "claude-opus-4-7")["tool_search"]


async def test_llm_completion():
    w.llm_mock(text="1 + 2")
    result = await w.llm_completion(
        "let total = ", ";", None, {"provider": "mock", "model_tier": "small"}
    )
    assert result.text == "1 + 2"
    w.llm_mock_clear()
    assert resolve(provider="ollama", tier="small", environ={}).name


async def test_agent_loop_persistent():
    with pytest.warns(DeprecationWarning, match="persistent"):
        result = await w.agent_loop(
            "Write a function that sorts a list, then write tests for it.",
            "You are a senior engineer.",
            {"persistent": True, "model": scripted("Both. ##DONE##")},
        )
    assert (result.status, result.llm.iterations) == ("done", 1)


async def test_stop_after_successful_write():
    @w.tool
    async def edit(path: str) -> str:
        """Edit."""
        return "edited"

    def stop_after_successful_write(turn: Any) -> Any:
        return {"stop": True} if "edit" in turn.successful_tool_names else ""

    model = scripted([call("edit", path="a"), call("edit", path="b")], "never asked")
    out = await w.agent_loop(
        "go", model=model, tools=[edit], post_turn_callback=stop_after_successful_write
    )
    assert (out.status, out.stop_reason, len(out.tool_calls)) == ("done", "post_turn_stop", 2)


async def test_retry():
    model = scripted(w.ServerError("x"), "Done. ##DONE##")
    caller = with_retry({"max_attempts": 3, "backoff": "none", "backoff_ms": 0})(
        default_llm_caller()
    )
    result = await w.agent_loop(
        TASK,
        "You are a coding assistant.",
        {"loop_until_done": True, "max_iterations": 30, "max_nudges": 5, "model": model}
        | {"llm_caller": caller},
    )
    assert "Done." in result.text


async def test_llm_stream():
    stream = w.llm_stream("Tell me a story", "You are a storyteller", model=scripted("Once upon"))
    assert "".join([str(chunk) async for chunk in stream]) == "Once upon"


async def test_transcripts():
    first = await w.llm_call("Plan the work", None, {"model": scripted("Planned.")})
    second = await w.llm_call(
        "Continue", None, {"model": scripted("Continued."), "transcript": first.transcript}
    )
    compacted = await w.transcript_compact(
        second.transcript, {"keep_last": 4, "summary": "Planning complete."}
    )
    assert compacted["summary"] in ("Planning complete.", None)
    assert "Continued." in w.transcript_render_visible(second.transcript)
    assert "[message]" in w.transcript_render_full(second.transcript)
    assert w.transcript_events(second.transcript)[0]["kind"] == "message"


def test_tools_of_a_workflow():
    tools = w.tool_registry()
    for name, words, parameters in (
        ("read", "Read a file", {"path": {"type": "string"}}),
        ("edit", "Edit a file", {"path": {"type": "string"}}),
        ("run", "Run a command", {"command": {"type": "string"}}),
    ):
        config = {"parameters": parameters, "returns": {"type": "string"}, "handler": None}
        tools = w.tool_define(tools, name, words, config)
    assert [tool.name for tool in w.tool_select(tools, ["run"])] == ["run"]


async def test_costs():
    cost = w.llm_cost("claude-sonnet-4-20250514", 1000, 500)
    assert f"{cost:.4f}" == "0.0105"
    async with w.Runtime(store="memory:", environ={}):
        await w.llm_call("x", model=scripted("y", usage=w.Usage(3, 2)))
        session = w.llm_session_cost()
        assert (session.call_count, session.input_tokens, session.output_tokens) == (1, 3, 2)
        assert session["total_cost"] == 0
        w.llm_budget(1.00)
        assert w.llm_budget_remaining() == 1.00


async def test_mock():
    w.llm_mock_clear()
    w.llm_mock({"text": "The capital of France is Paris."})
    reply = await w.llm_call("What is the capital of France?", None, {"provider": "mock"})
    assert reply.text == "The capital of France is Paris."
    arguments = {"path": "src/main.rs"}
    w.llm_mock(
        {
            "text": "Let me read that file.",
            "tool_calls": [{"name": "read_file", "arguments": arguments}],
        }
    )
    reply = await w.llm_call("Read it", None, {"provider": "mock"})
    assert reply.tool_calls[0].arguments == arguments
    w.llm_mock({"text": "I don't know.", "match": "*unknown*"})
    w.llm_mock({"text": "step 1", "match": "*planner*", "consume_match": True})
    w.llm_mock({"text": "step 2", "match": "*planner*", "consume_match": True})
    said = [
        (await w.llm_call(f"the {word}", None, {"provider": "mock"})).text
        for word in ("planner", "planner", "unknown", "unknown")
    ]
    assert said == ["step 1", "step 2", "I don't know.", "I don't know."]
    assert w.llm_mock_calls()[0]["messages"]
    w.llm_mock_clear()
    assert w.llm_mock_calls() == []

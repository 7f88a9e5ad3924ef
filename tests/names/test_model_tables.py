"""The walk over the names of providers, configuration, errors, callers, cost and commands."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.names import models as names
from tests.names.test_names import documented
from windlass.models.registry.providers import resolve
from windlass.models.registry.scope import ENDPOINTS
from windlass.testing import call, scripted
from windlass.testing.providers import (
    FakeAnthropic,
    FakeOpenAI,
    Silence,
    Status,
)


@w.tool
def find(city: str) -> str:
    """Find a city."""
    return f"found {city}"


# --------------------------------------------------------------------------- providers


@pytest.mark.parametrize("provider", names.PROVIDERS)
def test_a_provider_and_its_default_model(provider: str):
    default = names.PROVIDERS[provider]
    if default is not None:
        assert resolve(provider=provider, environ={}).name == default
    else:
        with pytest.raises(w.ConfigError, match="has no default model"):
            resolve(provider=provider, environ={})
    key = ENDPOINTS[provider].key_word
    assert key in ("api_key", "token")


def test_the_default_provider():
    assert resolve(environ={}).provider == "anthropic"
    assert resolve(provider="local", environ={"LOCAL_LLM_MODEL": "qwen"}).name == "qwen"


@pytest.mark.parametrize(("provider", "environ", "url"), names.ADDRESSES)
def test_an_address(provider: str, environ: dict[str, str], url: str):
    assert resolve("m", provider, environ=environ).url == url  # type: ignore[attr-defined]


def test_ollama_as_openai_would_be_spoken_to():
    model = w.models.openai_chat("llama3.2", provider="ollama")
    assert model.url == "http://localhost:11434/v1/chat/completions"


@pytest.mark.parametrize("variable", names.KEYS)
def test_a_key(variable: str):
    provider = names.KEYS[variable]
    with pytest.raises(w.ConfigError, match=variable):
        resolve("m", provider, environ={}).check()
    model = resolve("m", provider, environ={variable: "sk-of-mine"})
    model.check()
    assert "sk-of-mine" in model.secrets


@pytest.mark.parametrize("provider", names.FAMILY_OF_OPENAI)
def test_a_family(provider: str):
    caps = w.provider_capabilities(provider, "vendor/gpt-5.4")
    assert caps["tool_search"] == w.provider_capabilities("openai", "gpt-5.4")["tool_search"]
    assert "hosted" in caps["tool_search"]


# --------------------------------------------------------------------------- configuration


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "windlass.toml").write_text(names.CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_the_tables_of_a_file(project: Path):
    async with w.Runtime(environ={"WINDLASS_TRUSTED_FILES": str(project / "windlass.toml")}):
        model: Any = resolve("my-fast", environ={"MY_PROXY_API_KEY": "k-of-mine"})
        assert (model.provider, model.name) == ("my_proxy", "vendor/model-fast")
        assert model.url == "https://llm.example.com/v1/talk"
        assert model.endpoint.completion_endpoint == "/go-on"
        assert model._headers()["authorization"] == "Bearer k-of-mine"
        with pytest.raises(w.ConfigError, match="MY_PROXY_API_KEY"):
            resolve("my-fast", environ={}).check()
        assert resolve("house-7", environ={}).provider == "my_proxy"
        for tier, name in (("small", "small"), ("mid", "mid"), ("frontier", "large")):
            assert resolve(tier=tier, environ={}).name == f"vendor/{name}"
        assert w.llm_cost("my-fast", 1_000_000, 1_000_000, gpu_ms=2000) == pytest.approx(4.0)
        caps = w.provider_capabilities("my_proxy", "vendor/x")
        assert caps.items() >= names.CAPABILITIES.items()
        assert w.provider_capabilities("my_other", "vendor/x") == caps
        newer = w.provider_capabilities("my_proxy", "vendor/new-claude-opus-4-6")
        assert newer["tool_search"] == ["regex"]
        older = w.provider_capabilities("my_proxy", "vendor/new-claude-opus-4-1")
        assert older["tool_search"] == ["hosted"]


async def test_model_defaults_go_with_a_call(project: Path, reachable: None):
    async with FakeOpenAI("hi") as server:
        server.serves = lambda asked: asked.path == "/v1/talk"  # type: ignore[method-assign]
        async with w.Runtime(environ={"WINDLASS_TRUSTED_FILES": str(project / "windlass.toml")}):
            model = resolve("my-fast", api_key="k", base_url=server.url)
            await w.llm_call("go", model=model)
    assert server.requests[0].json["temperature"] == 0.2


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("named.toml", '[aliases]\na = "groq:x"\n'),
        ("config/windlass/providers.toml", '[aliases]\na = "groq:x"\n'),
        (".windlass/packages/p/windlass.toml", '[llm.aliases]\na = "groq:x"\n'),
    ],
)
async def test_a_file_of_tables(
    file: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    monkeypatch.chdir(tmp_path)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "WINDLASS_TRUSTED_FILES": str(path)}
    if file == "named.toml":
        environ["WINDLASS_PROVIDERS_CONFIG"] = str(path)
    async with w.Runtime(environ=environ):
        assert resolve("a", environ={}).name == "x"


def test_rules_are_installed_and_cleared():
    assert w.provider_capabilities("my-proxy", "m")["tool_search"] == []
    w.provider_capabilities_install(
        '[[provider.my-proxy]]\nmodel_match = "*"\ntool_search = ["hosted"]\n'
    )
    assert w.provider_capabilities("my-proxy", "m")["tool_search"] == ["hosted"]
    w.provider_capabilities_clear()
    assert w.provider_capabilities("my-proxy", "m")["tool_search"] == []


# --------------------------------------------------------------------------- errors


@pytest.mark.parametrize("category", names.TRANSIENT)
async def test_a_category(category: str, reachable: None):
    async with FakeAnthropic("hi", faults=lambda *_: Status(names.TRANSIENT[category])) as server:
        model = w.models.anthropic("m", api_key="k", base_url=server.url)
        with pytest.raises(w.ModelError) as caught, pytest.warns(DeprecationWarning):
            await w.llm_call("go", model=model, llm_retries=0)
    assert (caught.value.category, caught.value.transient) == (category, True)


async def test_the_categories_of_silence_and_of_nobody(reachable: None):
    async with FakeAnthropic("hi", faults=[Silence("before_headers")]) as server:
        model = w.models.anthropic("m", api_key="k", base_url=server.url, timeout=0.05)
        with pytest.raises(w.Timeout) as late:
            await model.respond(w.Request([w.Message("user", "go")]), lambda _event: None)
    with pytest.raises(w.ModelError) as gone:
        await model.respond(w.Request([w.Message("user", "go")]), lambda _event: None)
    assert (late.value.category, gone.value.category) == ("timeout", "network")


@pytest.mark.parametrize("name", names.ERRORS)
def test_an_error(name: str):
    assert issubclass(getattr(w, name), w.ModelError)


# --------------------------------------------------------------------------- callers


async def test_a_caller_is_asked_by_the_contract():
    seen: list[Any] = []
    ask = w.default_llm_caller()

    async def caller(call: Any) -> Any:
        seen.append((call.prompt, call.system, call.opts.task_kind, dict(call.turn)))
        if len(seen) == 2:
            return {"ok": False, "status": "no_more", "error": "enough"}
        answer = await ask(call)
        assert answer["ok"] and answer["value"].message.tool_calls
        return answer

    model = scripted(call("find", city="Bern"), "never")
    out = await w.agent_loop(
        "go",
        "Be brief.",
        model=model,
        tools=[find],
        llm_caller=caller,
        task_kind="judge",
        session_id="s1",
    )
    assert seen[0] == ("go", "Be brief.", "judge", dict(iteration=1, session_id="s1", attempt=1))
    assert seen[1][3]["iteration"] == 2
    assert out.status == "no_more" and "enough" in str(out.error)


async def test_callers_are_composed():
    layers = [w.with_retry(max_attempts=2, backoff="exponential", backoff_ms=0)]
    caller = w.compose(layers)(w.default_llm_caller())
    model = scripted(w.Overloaded("x"), "hi")
    assert (await w.llm_call("go", model=model, llm_caller=caller)).text == "hi"


def test_every_handler_is_in_both_places():
    module = importlib.import_module("windlass.callers")
    for name in names.FUNCTIONS:
        if name.startswith("with_") or name in ("compose", "default_llm_caller"):
            assert getattr(module, name) is getattr(w, name)
    documented(module.with_rate_limit, "with_rate_limit")
    documented(module.with_cassette, "with_cassette")


async def test_escalation_reads_the_kind_of_task():
    strong = scripted("strong", name="strong")
    layer = w.with_escalation(strong, predicate=lambda call: call.opts.get("task_kind") == "judge")
    caller = layer(w.default_llm_caller())
    weak = scripted("weak", name="weak")
    reply = await w.llm_call("go", model=weak, llm_caller=caller, task_kind="judge")
    assert reply.text == "strong"


# --------------------------------------------------------------------------- cost


async def test_cost():
    assert w.llm_cost("claude-sonnet-4-20250514", 1000, 500) == pytest.approx(0.0105)
    model = scripted("hi", usage={"input_tokens": 10, "output_tokens": 5})
    assert w.llm_budget_remaining() is None
    await w.llm_call("go", model=model)
    spent = w.llm_session_cost()
    assert (spent.total_cost, spent.call_count) == (0.0, 1)
    assert (spent.input_tokens, spent.output_tokens) == (10, 5)
    w.llm_budget(1.0)
    assert w.llm_budget_remaining() == 1.0


@pytest.mark.parametrize(
    ("messages", "tokens"),
    [
        ("hello", 2),
        ([w.Message("user", "a" * 8)], 2),
        ([{"role": "user", "content": "abcd"}], 1),
        ([w.Message("user", (w.Image(url="https://x/y.png"),))], 1600),
        ([w.Message("assistant", (w.ToolCall("c", "find", {"city": "Bern"}),))], 4),
        ([w.Message("tool", (w.ToolResult("c", "a" * 9),))], 3),
        ([], 0),
    ],
)
def test_an_estimate(messages: Any, tokens: int):
    assert w.estimate_tokens(messages) == tokens


# --------------------------------------------------------------------------- the command


@pytest.mark.parametrize("command", names.COMMANDS)
def test_a_command(command: str):
    import click

    from windlass.cli.main import cli

    found: Any = cli
    for word in command.split("|"):
        found = found.get_command(click.Context(found), word)
        assert found is not None, command
    assert found.get_short_help_str()


def test_the_rule_of_deprecated_options(tmp_path: Path):
    from click.testing import CliRunner

    from windlass.cli.main import cli

    file = tmp_path / "agent.py"
    file.write_text("import windlass as w\nw.llm_call('x', llm_retries=3, llm_backoff_ms=10)\n")
    told = CliRunner().invoke(cli, ["lint", str(file), "--json"])
    assert told.exit_code == 1 and told.output.count("deprecated_llm_options") == 2

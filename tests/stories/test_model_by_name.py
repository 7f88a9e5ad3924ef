"""A model given by name: its key, its address, its headers, and how names are answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.testing import FakeOpenAI, call, scripted
from windlass.testing.providers import Reply, conversation

pytestmark = pytest.mark.usefixtures("reachable")

KEY = "sk-given-in-code-1234567890"
TEAM = "team-header-value-987654"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every key and model out of the environment."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "WINDLASS_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("WINDLASS_PROVIDER", raising=False)


def sent(server: FakeOpenAI) -> list[dict[str, str]]:
    return [{k.lower(): v for k, v in one.headers.items()} for one in server.requests]


async def test_key_address_and_headers_reach_a_model_given_by_name():
    async with FakeOpenAI(conversation("Hello.")) as server:
        given: dict[str, Any] = {
            "api_key": KEY,
            "base_url": server.url,
            "headers": {"x-team": TEAM},
        }
        out = await w.Agent("openai:gpt-4o", **given).run("hi")
        assert out.output == "Hello."
        looped = await w.agent_loop("hi", model="openai:gpt-4o", **given)
        assert looped.status == "done"
        reply = await w.llm_call("hi", model="openai:gpt-4o", **given)
        assert reply.text == "Hello."
        async with w.Runtime(store="memory:") as scope:
            made = await scope.models.generate("hi", model="openai:gpt-4o", **given)
            assert made.content == "Hello."
        for headers in sent(server):
            assert headers["authorization"] == f"Bearer {KEY}"
            assert headers["x-team"] == TEAM
        assert len(sent(server)) == 4


async def test_key_and_headers_are_never_shown_or_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    async with FakeOpenAI(conversation(f"Your key is {KEY}.")) as server:
        agent = w.Agent(
            "openai:gpt-4o",
            api_key=KEY,
            base_url=server.url,
            headers={"x-api-key": TEAM, "x-plain": "plain words"},
        )
        store = f"sqlite:///{tmp_path / 's.db'}"
        out = await agent.run(f"Use {KEY}", store=store, session_id="s")
    shown = [repr(agent), repr(agent.options), str(dict(agent.options)), repr(out), out.output]
    shown += [caplog.text, json.dumps(out.to_dict() if hasattr(out, "to_dict") else {})]
    shown.append((tmp_path / "s.db").read_bytes().decode("latin-1"))
    for text in shown:
        assert KEY not in text
        assert TEAM not in text
    assert "plain words" not in repr(agent.options)


async def test_key_of_one_provider_is_not_sent_to_another():
    async with FakeOpenAI(conversation("Hello.")) as server:
        agent = w.Agent("openai:gpt-4o", api_key=KEY, base_url=server.url)
        same = await agent.run("hi", model="openai:gpt-4o-mini")
        assert same.output == "Hello."
        other = agent.with_(model="anthropic:claude-sonnet-4-5")
        assert not {"api_key", "base_url", "headers"} & other.options.keys()
        with pytest.raises(w.ConfigError, match="anthropic needs an API key"):
            await other.run("hi")
        held = agent.with_(model=scripted("Held."))
        assert (await held.run("hi")).output == "Held."
        assert len(sent(server)) == 1


async def test_a_run_goes_on_with_a_key_that_is_given_again(tmp_path: Path):
    @w.tool
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    store = f"sqlite:///{tmp_path / 's.db'}"
    script = conversation(Reply(tool_calls=[("pay", {"amount": 1})]), "Done.")
    async with FakeOpenAI(script) as server:
        options: dict[str, Any] = {
            "tools": [pay],
            "approval_policy": {"rules": [{"ask": ["pay"]}]},
        }
        first = w.Agent("openai:gpt-4o", api_key=KEY, base_url=server.url, **options)
        parked = await first.run("go", store=store, session_id="s")
        assert parked.status == "suspended"
        answers = {parked.pending[0].id: w.Allow()}
        with pytest.raises(w.ConfigError, match="openai needs an API key"):
            await w.Agent("openai:gpt-4o", **options).resume("s", store=store, decisions=answers)
        again = w.Agent("openai:gpt-4o", api_key=KEY, base_url=server.url, **options)
        out = await again.resume("s", store=store, decisions=answers)
        assert out.output == "Done."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api_key": ""}, "api_key is a text or a Secret, not an empty text"),
        ({"api_key": 7}, "api_key is a text or a Secret, not int"),
        ({"base_url": "llm.example.com"}, "base_url is an address such as 'https://"),
        ({"headers": "x"}, "headers is a dict of texts, not str"),
        ({"headers": {"a b": "x"}}, "'a b' is no name of a header"),
        ({"headers": {"x": "a\r\nb: c"}}, r"headers\['x'\] is a text of one line"),
        ({"model": ""}, "model is empty: name one"),
        ({"model": " "}, "model is empty: name one"),
    ],
)
def test_model_options_that_cannot_be_right_are_refused(options: dict[str, Any], message: str):
    with pytest.raises(w.ConfigError, match=message):
        w.Agent(**options)


@pytest.mark.parametrize(
    ("name", "value"),
    [("api_key", KEY), ("base_url", "https://llm.example.com"), ("headers", {"x-team": TEAM})],
)
def test_connection_of_a_model_object_is_given_to_the_object(name: str, value: Any):
    model = w.models.openai_chat("gpt-4o", api_key=KEY)
    assert w.Agent(model).plan.model.name == "gpt-4o"
    with pytest.raises(w.ConfigError, match=f"{name} goes with a model's name"):
        _ = w.Agent(model, **{name: value}).plan


async def test_judge_of_the_same_provider_is_reached_as_the_model_of_the_run_is():
    def script(body: dict[str, Any], headers: Any) -> Reply:
        if body["model"] == "gpt-4o":
            return Reply("It is done.")
        return Reply(json.dumps({"verdict": "done", "reasoning": "yes", "next_step": ""}))

    async with FakeOpenAI(script) as server:
        out = await w.agent_loop(
            "go",
            model="openai:gpt-4o",
            api_key=KEY,
            base_url=server.url,
            headers={"x-team": TEAM},
            done_judge={"model": "gpt-4o-mini"},
        )
        assert out.status == "done"
        assert [one.json["model"] for one in server.requests] == ["gpt-4o", "gpt-4o-mini"]
        for headers in sent(server):
            assert headers["authorization"] == f"Bearer {KEY}"
            assert headers["x-team"] == TEAM


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("openai/gpt-4o", "model 'openai/gpt-4o' is not known; did you mean 'openai:gpt-4o'?"),
        ("Ollama/llama3", "model 'Ollama/llama3' is not known; did you mean 'ollama:llama3'?"),
        ("openai:", "has no name behind the colon; write 'openai' for the default model"),
    ],
)
def test_names_in_the_way_of_other_libraries_are_answered_with_ours(name: str, message: str):
    with pytest.raises(w.ConfigError) as raised:
        _ = w.Agent(name).plan
    assert message in str(raised.value)


def test_callback_may_not_change_a_key_in_the_middle_of_a_run():
    @w.tool
    def add(a: int) -> int:
        """Add."""
        return a

    def change(info: Any) -> Any:
        return {"next_options": {"api_key": KEY}}

    model = scripted(call("add", a=1), "ok")
    out = w.sync.agent_loop("go", model=model, tools=[add], post_turn_callback=change)
    assert out.status != "done"
    assert KEY not in str(out.error)


# --------------------------------------------------------------------------- the model of a file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("WINDLASS_TRUSTED_FILES", str(tmp_path / "windlass.toml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_model_of_the_file_counts_where_code_names_none(project: Path):
    (project / "windlass.toml").write_text('[llm]\nmodel = "mock:filed"\n')
    async with w.Runtime(store="memory:"):
        assert w.Agent().plan.model.name == "filed"
        reply = await w.llm_call("hi")
        assert reply.model == "filed"
        assert w.Agent("mock:coded").plan.model.name == "coded"


async def test_environment_is_stronger_than_a_file(project: Path, monkeypatch: pytest.MonkeyPatch):
    (project / "windlass.toml").write_text(
        '[llm]\nmodel = "mock:filed"\n[agent]\nmodel = "mock:agents"\n'
    )
    async with w.Runtime(store="memory:"):
        assert w.Agent().plan.model.name == "agents"  # the narrower table
    monkeypatch.setenv("WINDLASS_MODEL", "mock:variable")
    async with w.Runtime(store="memory:"):
        assert w.Agent().plan.model.name == "variable"
        assert w.Agent("mock:coded").plan.model.name == "coded"
    monkeypatch.setenv("WINDLASS_AGENT_MODEL", "mock:agents-variable")
    async with w.Runtime(store="memory:"):
        assert w.Agent().plan.model.name == "agents-variable"


async def test_streaming_of_the_environment_is_stronger_than_a_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    (project / "windlass.toml").write_text(
        "[agent]\nstream = true\n[llm.model_defaults.'gpt-*']\nstream = true\n"
    )
    monkeypatch.setenv("WINDLASS_LLM_STREAM", "false")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with w.Runtime(store="memory:"):
        assert w.Agent("openai:gpt-4o").plan.frame.settings.stream is False

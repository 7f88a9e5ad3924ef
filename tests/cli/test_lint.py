"""`windlass lint`: sources, settings, registries, and whether providers would take a history."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from windlass.messages import Image, Message, Origin, Text, Thinking, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings
from windlass.models.lint_history import judge
from windlass.models.registry.providers import resolve
from windlass.models.registry.scope import ENDPOINTS, registry_source


def found(done) -> list[tuple[str, str]]:
    """Rule and place of every finding."""
    return [(it["rule"], it["where"]) for it in json.loads(done.stdout)["findings"]]


def source(project: Path, name: str, code: str) -> None:
    (project / name).write_text(dedent(code))


def test_nothing_to_mend(windlass, project: Path):
    source(project, "fine.py", "import windlass as w\nw.llm_call('x', model='openai:gpt-4o')\n")
    source(project, "other.py", "run(llm_retries=3)  # windlass is not imported here\n")
    assert windlass("lint").stdout == "nothing to mend\n"
    assert found(windlass("lint", "--json")) == []


def test_deprecated_and_renamed_options_by_line_with_their_fix(windlass, project: Path):
    source(
        project,
        "old.py",
        """\
        import windlass as w
        from windlass import Agent

        async def main():
            await w.agent_loop(
                "x",
                llm_retries=3,
                persistent=True,
            )
            await w.agent_loop("x", "y", {"llm_backoff_ms": 10, "iterations": 4})
            Agent("claude-sonnet-4-5", system_prompt="be kind")
            options = {"llm_retries": 2}
            await w.llm_call("x", **options)
            await agent.run("x", llm_retries=1)
            worker.run(iterations=9)
        """,
    )
    done = windlass("lint", "--json", code=1)
    assert found(done) == [
        ("deprecated_llm_options", f"old.py:{line}") for line in (7, 8, 10, 10, 11, 12, 14)
    ]
    text = windlass("lint", "old.py", code=1).stdout
    assert "old.py:7: llm_retries is deprecated (use llm_caller=with_retry(" in text
    assert "old.py:8: persistent is now loop_until_done (write loop_until_done)" in text
    assert "old.py:11: system_prompt is now system" in text
    assert text.endswith("7 things to mend\n")


def test_only_functions_of_ours_are_meant(windlass, project: Path):
    source(
        project,
        "mixed.py",
        """\
        import windlass as w
        from other import Agent
        from windlass.agents.agent import Agent as Ours

        Agent("some-model", system_prompt="x")
        other.agent_loop(persistent=True)
        Ours("mock", system_prompt="x")
        w.sync.agent_loop("x", persistent=True)
        """,
    )
    assert [where for _, where in found(windlass("lint", "--json", code=1))] == [
        "mixed.py:7",
        "mixed.py:8",
    ]


def test_models_that_nobody_knows(windlass, project: Path):
    source(
        project,
        "models.py",
        """\
        import windlass as w
        w.Agent("claude-sonet-4-5")
        w.llm_call("x", model="opnai:gpt-4o")
        w.llm_call("x", model="openai:gtp-4o")
        w.llm_call("x", provider="antropic")
        w.llm_call("x", model="openai:gpt-99")      # newer than we are
        w.llm_call("x", model=chosen, provider="ollama")
        w.llm_call("x", model="whatever", provider="ollama")
        """,
    )
    done = windlass("lint", "--json", code=1)
    assert found(done) == [("unknown_model", f"models.py:{line}") for line in (2, 3, 4, 5)]
    assert "did you mean" in done.stdout


def test_aliases_and_providers_of_the_project_are_known(windlass, project: Path):
    (project / "windlass.toml").write_text(
        '[llm.aliases]\nfast = {id = "gpt-4o", provider = "openai"}\n'
        '[llm.providers.mine]\nbase_url = "http://localhost:1/v1"\nauth_style = "none"\n'
    )
    source(
        project,
        "uses.py",
        """\
        import windlass as w
        w.llm_call("x", model="fast")
        w.llm_call("x", model="mine:whatever")
        w.llm_call("x", model="fats")
        """,
    )
    assert found(windlass("lint", "--json", code=1)) == [("unknown_model", "uses.py:4")]
    assert registry_source.get() is None  # nothing of it is left behind


def test_a_deferred_tool_that_no_search_finds(windlass, project: Path):
    source(
        project,
        "tools.py",
        """\
        import windlass as w

        @w.tool(defer_loading=True)
        def deploy(env: str) -> str:
            '''Deploy.'''
        """,
    )
    assert found(windlass("lint", "--json", code=1)) == [("deferred_tools", "tools.py:3")]
    source(project, "main.py", "import windlass as w\nw.agent_loop('x', tool_search=True)\n")
    windlass("lint")


def test_sources_that_cannot_be_read_and_folders_that_are_not_ours(windlass, project: Path):
    source(project, "broken.py", "import windlass\ndef (:\n")
    (project / "latin.py").write_bytes(b"import windlass\nx = '\xe9'\n")
    (project / ".venv").mkdir()
    source(project / ".venv", "old.py", "import windlass as w\nw.agent_loop('x', llm_retries=1)\n")
    done = windlass("lint", "--json", ".", "gone", code=1)
    assert {rule for rule, _ in found(done)} == {"unreadable"}
    assert [where for _, where in found(done)] == ["broken.py:2", "gone", "latin.py:2"]


def test_settings_that_are_wrong_are_told_once(windlass, project: Path):
    (project / "windlass.toml").write_text(
        '[store]\nulr = "x"\nkeep_days = "three"\nllm_retries = 3\n'
    )
    done = windlass("lint", "--json", code=1)
    rules = found(done)
    assert rules.count(("config", "windlass.toml:2")) == 1
    assert ("config", "windlass.toml:3") in rules
    assert ("deprecated_llm_options", "windlass.toml:4") in rules
    (project / "windlass.toml").write_text("[store\n")
    assert found(windlass("lint", "--json", code=1)) == [("config", "windlass.toml:1")]


def test_wrong_settings_are_no_model_s_fault(windlass, project: Path):
    (project / "windlass.toml").write_text("[llm.aliases]\nfast = 3\n")
    source(project, "uses.py", "import windlass as w\nw.llm_call('x', model='gpt-4o')\n")
    assert found(windlass("lint", "--json", code=1)) == [("config", "windlass.toml:2")]


def test_settings_in_the_environment(windlass, monkeypatch):
    monkeypatch.setenv("WINDLASS_STORE_KEEP_DAYS", "three")
    done = windlass("lint", "--json", code=1)
    assert found(done) == [("config", "environment WINDLASS_STORE_KEEP_DAYS")]


MANY = """
    def named(n):
        return w.Tool(f"tool_{n}", "A tool.", {}, handler=lambda args: "x")

    registry = w.tool_registry([named(n) for n in range(130)])
    few = [named(n) for n in range(3)]
    tired = 1 / 0 if False else None
"""


def test_a_registry_with_more_tools_than_a_provider_takes(windlass, module, monkeypatch):
    module("shop", MANY)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    done = windlass("lint", "--registry", "shop:registry", "--registry", "shop:few", code=1)
    assert (
        "shop:registry: 130 tools, and openai:" in done.stdout
        and "takes 128 at most" in done.stdout
    )
    assert "1 thing to mend" in done.stdout
    windlass("lint", "--registry", "shop:registry", "--provider", "anthropic")
    assert (
        "did you mean 'openai'"
        in windlass("lint", "--registry", "shop:few", "-p", "opnai", code=2).stderr
    )


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("gone:x", "no module 'gone'"),
        ("bad:x", "ZeroDivisionError"),
        ("bad2:z", "has no 'z'"),
        ("shop", "module:function"),
    ],
)
def test_a_registry_that_cannot_be_imported_is_a_finding(windlass, module, path, says):
    module("bad", "1 / 0\n")
    module("bad2", "x = 1\n")
    done = windlass("lint", "--registry", path, "--json", code=1)
    assert found(done) == [("registry", path)] and says in done.stdout


# --------------------------------------------------------------------------- histories

CLAUDE = Origin("anthropic", "claude-sonnet-4-5")
TOOL = ToolSpec("look.up", "Find.", {"type": "object", "properties": {}})


def told(*blocks, role="user"):
    return Message(role, tuple(Text(b) if isinstance(b, str) else b for b in blocks))


def loop_with(call_id: str = "toolu_01", name: str = "look.up") -> list[Message]:
    return [
        told("How much?"),
        told(
            Thinking("hm", {"signature": "s"}, CLAUDE),
            ToolCall(call_id, name, {"order": "A-1"}),
            role="assistant",
        ),
        told(ToolResult(call_id, "59.90", name=name), role="tool"),
        told("It costs 59.90.", role="assistant"),
    ]


def model_of(provider: str, name: str | None = None):
    name = name or ENDPOINTS[provider].default_model or "some-model"
    places = {"GOOGLE_CLOUD_PROJECT": "p", "AWS_REGION": "us-east-1"}
    return resolve(
        name,
        provider,
        api_key="k",
        environ=places,
        base_url="https://x.example" if provider == "azure" else None,
    )


def verdict(provider: str, messages, name: str | None = None, tools=(TOOL,), **settings):
    request = Request(messages, Frame("Be brief.", tools, Settings(**settings)))
    return judge(model_of(provider, name), request)


@pytest.mark.parametrize("provider", ENDPOINTS)
def test_what_a_run_makes_is_taken_by_everybody(provider):
    assert verdict(provider, loop_with()).refused is None


def test_thoughts_of_another_are_a_note_and_one_s_own_are_not():
    away = verdict("openai", loop_with(), "gpt-4o")
    assert away.lost == ("1 thought of anthropic:claude-sonnet-4-5 dropped",)
    assert any("'look.up'" in words for words in away.repaired)
    home = verdict("anthropic", loop_with(), "claude-sonnet-4-5")
    assert home.lost == ()


def test_calls_without_results_are_repaired_on_the_way():
    broken = loop_with()[:2]
    for provider in ENDPOINTS:
        seen = verdict(provider, broken)
        assert seen.refused is None, seen
        assert any("has no result" in words for words in seen.repaired), seen


def test_ids_that_a_provider_does_not_take_are_written_otherwise():
    mistral = verdict("mistral", loop_with("call_" + "x" * 30), "mistral-large-latest")
    assert mistral.refused is None
    assert any("call id" in words for words in mistral.repaired)


@pytest.mark.parametrize(
    ("provider", "messages", "tools", "says"),
    [
        ("gemini", [told(Image("aGk=", "image/gif"))], (), "image/gif"),
        ("anthropic", [told(Image("aGk=", "image/heic"))], (), "image/heic"),
        ("deepseek", [told(Image("aGk="))], (), "the model takes none"),
        ("anthropic", [told("hi")], (TOOL, TOOL), "unique"),
        ("openai", [told("hi")], tuple(ToolSpec(f"t{n}", "T.", {}) for n in range(129)), "128"),
        ("bedrock", [told(Image("aGk=", "image/heic"))], (), "image/heic"),
        ("anthropic", [], (), "no message"),
    ],
)
def test_what_is_refused_is_refused_in_the_provider_s_words(provider, messages, tools, says):
    refused = verdict(provider, messages, tools=tools).refused
    assert refused is not None and says in refused


def test_a_session_against_every_provider(windlass, module, project: Path):
    from .conftest import LOOKUP

    module("orders", LOOKUP)
    windlass("run", "How much?", "--tools", "orders:look_up", "-p", "mock", "--session", "s1")
    done = windlass("lint", "--session", "s1")
    lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert len(lines) == len(ENDPOINTS) and all(line.endswith("taken") for line in lines)
    one = windlass("lint", "--session", "s1", "-p", "gemini:gemini-2.5-flash", "--json")
    (only,) = json.loads(one.stdout)["verdicts"]
    assert (only["provider"], only["model"], only["refused"]) == (
        "gemini",
        "gemini-2.5-flash",
        None,
    )
    assert "no session" in windlass("lint", "--session", "zzz", code=1).stderr


def test_a_transcript_in_every_form(windlass, module, project: Path):
    from .conftest import LOOKUP

    module("orders", LOOKUP)
    windlass("run", "How much?", "--tools", "orders:look_up", "-p", "mock", "--session", "s1")
    for form in ("json", "jsonl"):
        windlass("sessions", "export", "s1", "--format", form, "-o", f"s1.{form}")
        done = windlass("lint", "--transcript", f"s1.{form}", "-p", "bedrock", "-p", "gemini")
        assert done.stdout.count("taken") == 2
    picture = {"type": "image", "data": "aGk=", "media_type": "image/bmp"}
    plain = [{"role": "user", "content": [picture]}]
    (project / "p.json").write_text(json.dumps(plain))
    done = windlass("lint", "--transcript", "p.json", "-p", "gemini", "-p", "ollama", code=1)
    assert "refused because message 0 holds a picture of the type image/bmp" in done.stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "no list of messages"),
        ('[{"role": "judge", "content": [{"type": "text", "text": "x"}]}]', "role"),
        ('[{"role": "user", "content": [{"type": "smell"}]}]', "smell"),
        ("[3]", "t.json"),
        ("not json\n", "neither a transcript"),
    ],
)
def test_what_is_no_transcript_is_one_line(windlass, project: Path, text, says):
    (project / "t.json").write_text(text)
    done = windlass("lint", "--transcript", "t.json", code=2)
    assert says in done.stderr and done.stderr.count("\n") == 1


def test_two_questions_at_once_are_refused(windlass):
    assert "give one" in windlass("lint", "--session", "a", "--transcript", "b", code=2).stderr
    assert "alone" in windlass("lint", "src", "--session", "a", code=2).stderr
    assert "no such" in windlass("lint", "--transcript", "gone.json", code=2).stderr.lower()


def test_options_that_a_run_would_refuse_are_found_in_sources(windlass, project: Path):
    source(
        project,
        "shop.py",
        """\
        import windlass as w
        w.Agent("openai:gpt-4o", max_trns=3, system="x", openai={"user": "u"})
        w.Agent("openai:gpt-4o", max_turns=0)
        w.Agent("openai:gpt-4o", max_turns=turns, tools=[add], output=str)
        w.llm_call("hi", model="openai:gpt-4o", temperature=9)
        w.Agent("")
        """,
    )
    done = windlass("lint", "--json", code=1)
    assert found(done) == [
        ("refused_option", "shop.py:2"),
        ("refused_option", "shop.py:3"),
        ("refused_option", "shop.py:5"),
        ("unknown_model", "shop.py:6"),
    ]
    assert "did you mean 'max_turns'?" in done.stdout


@pytest.mark.parametrize(
    ("settings", "where", "problem"),
    [
        ('[llm]\nmodel = "opnai:gpt-4o"\n', ":2: llm.model", "provider 'opnai' is not known"),
        ('[agent]\nmodel = "nomodel"\n', ":2: agent.model", "nomodel"),
        ('[llm]\nmodel = ""\n', ":2: llm.model", "it is empty"),
        ('[agent]\nmodel_tier = "small"\nmodel = "mock"\n', "[agent]", "give one of them"),
    ],
)
def test_settings_that_a_run_would_refuse_are_found(
    windlass, project: Path, settings: str, where: str, problem: str
):
    (project / "windlass.toml").write_text(settings)
    refused = windlass("run", "hi", code=2).output
    assert problem in refused
    told = windlass("config", "check", code=1).output
    assert where in told
    assert problem in told
    assert problem in windlass("lint", code=1).output


def test_config_check_says_which_key_is_missing_and_is_content(windlass, project: Path):
    (project / "windlass.toml").write_text('[llm]\nmodel = "openai:gpt-4o"\n')
    told = windlass("config", "check")
    assert "openai needs an API key: set OPENAI_API_KEY" in told.stderr
    assert told.stdout == f"right {project / 'windlass.toml'}\n"

"""Providers, aliases, tiers and defaults: from which files, in which order, and for whom."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.config.sources import read_text
from windlass.errors import ConfigError
from windlass.models.registry.capabilities import Table
from windlass.models.registry.config import Dialect, LlmConfig, Provider
from windlass.models.registry.providers import model_defaults, resolve
from windlass.models.registry.registry import current_registry
from windlass.models.registry.scope import ENDPOINTS, reload_config
from windlass.models.wires.openai.dialects import DIALECTS
from windlass.testing.providers import FakeOpenAI

Write = Callable[..., Path]

PROXY = """
    [llm.providers.my_proxy]
    base_url = "{url}"
    chat_endpoint = "/talk"
    completion_endpoint = "/go/on"
    auth_style = "x-api-key"
    auth_env = "MY_PROXY_API_KEY"
    headers = {{ x-team = "blue" }}

    [llm.aliases]
    my-fast = {{ id = "vendor/model-fast", provider = "my_proxy" }}
    house = "anthropic:claude-opus-4-7"
"""


async def test_a_proxy_of_one_s_own_by_its_alias(
    toml: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PROXY_API_KEY", "secret-key-of-mine")
    async with FakeOpenAI("hello") as server:
        server.serves = lambda asked: asked.path == "/v1/talk"  # type: ignore[method-assign]
        toml(PROXY.format(url=server.url))
        async with w.Runtime():
            assert (await w.Agent("my-fast").run("hi")).text == "hello"
        (asked,) = server.requests
    assert asked.path == "/v1/talk" and asked.json["model"] == "vendor/model-fast"
    assert asked.headers["x-api-key"] == "secret-key-of-mine" and asked.headers["x-team"] == "blue"
    assert "authorization" not in asked.headers


def made(*args: Any, **options: Any) -> tuple[str, str]:
    model = resolve(*args, environ={}, **options)
    return model.provider, model.name


def test_aliases(toml: Write) -> None:
    toml(PROXY.format(url="http://h/v1"))
    assert made("my-fast") == made("my-fast", "my_proxy") == ("my_proxy", "vendor/model-fast")
    assert made("house") == ("anthropic", "claude-opus-4-7")
    with pytest.raises(ConfigError, match="did you mean 'my-fast'"):
        made("my-fst")
    with pytest.raises(ConfigError, match="a model of 'my_proxy'"):
        made("my-fast", "openai")


def test_ways_to_carry_a_key(toml: Write) -> None:
    for style, header in (
        ("bearer", {"authorization": "Bearer k"}),
        ("none", {}),
        ("Api-Key", {"api-key": "k"}),
    ):
        toml(f'[llm.providers.anthropic]\nauth_style = "{style}"\n')
        with reload_config():
            sent = resolve("anthropic:claude-opus-4-7", api_key="k")._headers()  # type: ignore
        carried = {name: value for name, value in sent.items() if "k" in value.split()}
        assert carried == header


def test_tiers(toml: Write) -> None:
    assert made(tier="small") == made("small") == ("anthropic", "claude-haiku-4-5")
    assert made(None, "openai", tier="small") == ("openai", "gpt-4o-mini")
    with pytest.raises(ConfigError, match=r"set \[llm.tiers.local\] frontier"):
        made(None, "local", tier="frontier")
    with pytest.raises(ConfigError, match="did you mean 'small'"):
        made(tier="smal")
    with pytest.raises(ConfigError, match="give one of the two"):
        made("gpt-4o", tier="small")
    toml('[llm.tiers]\nsmall = "groq:x"\n[llm.tiers.ollama]\nfrontier = "qwen3:32b"\n')
    with reload_config():
        assert made(tier="small") == ("groq", "x")
        assert made(None, "ollama", tier="frontier") == ("ollama", "qwen3:32b")
        assert made(None, "openai", tier="small") == ("openai", "gpt-4o-mini")


def test_whose_a_name_is(toml: Write) -> None:
    toml(
        """
        [[llm.inference]]
        match = "zed-*"
        provider = "groq"

        [[llm.inference]]
        match = "claude-house*"
        provider = "local"
        """
    )
    assert made("zed-1") == ("groq", "zed-1")
    assert made("claude-house-2") == ("local", "claude-house-2")
    assert made("claude-novel-9") == ("anthropic", "claude-novel-9")


def test_defaults_of_models(toml: Write) -> None:
    toml(
        """
        [llm.model_defaults."openai:gpt-4o*"]
        temperature = 0.2
        stop = ["END"]

        [llm.model_defaults."*"]
        temperature = 0.9
        max_tokens = 100
        """
    )
    assert model_defaults("openai", "gpt-4o") == {
        "temperature": 0.2,
        "stop": ["END"],
        "max_tokens": 100,
    }
    assert model_defaults("groq", "gpt-4o") == {"temperature": 0.9, "max_tokens": 100}
    with reload_config():
        toml("")
        assert model_defaults("openai", "gpt-4o") == {}


def alias(name: str, id: str) -> str:
    return f'[llm.aliases]\n{name} = "groq:{id}"\n'


def test_each_source_is_laid_over_the_one_before(
    toml: Write, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen() -> str:
        with reload_config():
            return resolve("a", environ={}).name

    user = tmp_path / "config" / "windlass" / "providers.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[aliases]\na = "groq:of-the-user"\n')
    assert seen() == "of-the-user"
    toml('[aliases]\na = "groq:of-the-variable"\n', "named.toml")
    monkeypatch.setenv("WINDLASS_PROVIDERS_CONFIG", str(project / "named.toml"))
    assert seen() == "of-the-variable"
    distribution(tmp_path / "site", monkeypatch, alias("a", "of-an-entry-point"))
    assert seen() == "of-an-entry-point"
    toml(
        alias("a", "of-a-package") + '[package]\nname = "p"\n', ".windlass/packages/p/windlass.toml"
    )
    assert seen() == "of-a-package"
    toml(alias("a", "of-the-project"))
    assert seen() == "of-the-project"


def distribution(folder: Path, monkeypatch: pytest.MonkeyPatch, toml: str) -> None:
    """An installed package whose entry point gives TOML."""
    info = folder / "acme_models-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-models\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[windlass.providers]\nacme = acme_models:TABLES\n")
    (folder / "acme_models.py").write_text(f"TABLES = {toml!r}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "acme_models", raising=False)


@pytest.mark.parametrize(
    "gives",
    [
        "TABLES = {'llm': {'aliases': {'a': 'groq:x'}}}",
        "def TABLES():\n    return {'llm': {'aliases': {'a': 'groq:x'}}}",
        "from pathlib import Path\nTABLES = Path(__file__).with_name('mine.toml')",
    ],
)
def test_what_an_entry_point_may_give(
    gives: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(tmp_path / "site", monkeypatch, "")
    (tmp_path / "site" / "acme_models.py").write_text(gives)
    (tmp_path / "site" / "mine.toml").write_text(alias("a", "x"))
    assert made("a") == ("groq", "x")


@pytest.mark.parametrize(
    ("gives", "words"),
    [
        ("TABLES = 7", "gives 7, not a table"),
        ("1 / 0", "cannot be loaded: division by zero"),
        ("TABLES = '[llm.aliasses]'", "did you mean 'aliases'"),
    ],
)
def test_an_entry_point_that_is_wrong_is_named(
    gives: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(tmp_path / "site", monkeypatch, "")
    (tmp_path / "site" / "acme_models.py").write_text(gives)
    with pytest.raises(ConfigError, match=words) as caught:
        made("claude-opus-4-7")
    assert "'acme' of acme-models" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


async def test_two_runtimes_at_once_see_their_own(toml: Write) -> None:
    files = [toml(alias("a", name), f"{name}.toml") for name in ("one", "two")]
    entered = asyncio.Barrier(2)

    async def name(file: Path) -> str:
        async with w.Runtime(config=file):
            w.provider_capabilities_install(
                f'[[provider.p]]\nmodel_match = "*"\nmax_tools = {len(file.stem)}'
            )
            await entered.wait()
            assert w.provider_capabilities("p", "x")["max_tools"] == len(file.stem)
            return resolve("a").name

    assert await asyncio.gather(*map(name, files)) == ["one", "two"]
    with pytest.raises(ConfigError):
        resolve("a")
    assert w.provider_capabilities("p", "x")["max_tools"] is None


def test_what_a_file_leaves_out_of_a_known_provider_stays(toml: Write) -> None:
    before = ENDPOINTS["groq"]
    toml('[llm.providers.groq]\nbase_url = "https://mirror/v1"\n')
    with reload_config():
        after = ENDPOINTS["groq"]
        assert after.base_url == "https://mirror/v1" and after.key_env == before.key_env
        assert after.dialect == before.dialect and len(ENDPOINTS) == len(
            current_registry().endpoints
        )


def test_another_wire_for_a_known_provider(toml: Write) -> None:
    toml('[llm.providers.bedrock]\nwire = "anthropic"\nbase_url = "https://gateway"\n')
    model = resolve("bedrock:us.anthropic.claude-opus-4-7", api_key="k")
    assert getattr(model, "url", "") == "https://gateway/v1/messages"
    assert model.capabilities.prompt_caching and model.provider == "bedrock"


def test_every_dialect_has_its_name() -> None:
    assert set(Dialect.__args__) == set(DIALECTS)
    assert {endpoint.dialect for endpoint in ENDPOINTS.values()} <= set(DIALECTS)
    assert "base_url" in Provider.__struct_fields__


def test_an_agent_whose_model_is_an_object_reads_no_table() -> None:
    code = """
import asyncio, sys, tomllib
import windlass as w
from windlass.testing import scripted
def refuse(*_): raise SystemExit("a table was read")
tomllib.loads = tomllib.load = refuse
asyncio.run(w.Agent(scripted("x")).run("hi"))
assert "windlass.models.registry.registry" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_shipped_tables_are_right() -> None:
    for name, layout in (("providers.toml", LlmConfig), ("capabilities.toml", Table)):
        read_text(files("windlass.models.registry").joinpath(name).read_text("utf-8"), name, layout)

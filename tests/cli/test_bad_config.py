"""A mistake in the tables of providers and models is one line: the file, the key, and what to do."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

import windlass as w

HERE = r"windlass\.toml"
MISTAKES = {
    "unknown provider of an alias": (
        '[llm.aliases]\nfast = { id = "x", provider = "opnai" }',
        HERE + r":2: llm\.aliases\.fast: provider 'opnai' is not known; did you mean 'openai'\?",
    ),
    "alias without a model": (
        '[llm.aliases]\nfast = { provider = "openai" }',
        HERE + r":2: llm\.aliases\.fast: .*missing required field id",
    ),
    "misspelt table": (
        '[llm.alias]\nfast = "openai:gpt-4o"',
        HERE + r":1: llm\.alias is no setting; did you mean 'aliases'\?",
    ),
    "misspelt field": (
        '[llm.providers.p]\nbase_ulr = "https://h"',
        HERE + r":2: llm\.providers\.p\.base_ulr is no setting; did you mean 'base_url'\?",
    ),
    "wrong type": (
        "[llm.providers.p]\nbase_url = 7",
        HERE
        + r":2: llm\.providers\.p\.base_url: expected a string, got an integer \(7\): put it in quotes",
    ),
    "provider without an address": (
        '[llm.providers.p]\nauth_env = "P_KEY"',
        HERE + r":1: llm\.providers\.p needs a base_url",
    ),
    "address that is none": (
        '[llm.providers.p]\nbase_url = "llm.example.com"',
        HERE + r":1: llm\.providers\.p: .*begin it with 'https://'",
    ),
    "wire that is none": (
        '[llm.providers.p]\nbase_url = "https://h"\nwire = "openai"',
        HERE + r":3: llm\.providers\.p\.wire: expected 'anthropic' or",
    ),
    "endpoint of a wire that makes its own": (
        '[llm.providers.gemini]\nchat_endpoint = "/x"',
        HERE + r":2: llm\.providers\.gemini\.chat_endpoint: the gemini wire",
    ),
    "auth style that is none": (
        '[llm.providers.openai]\nauth_style = "basic auth"',
        HERE + r":1: llm\.providers\.openai: auth_style 'basic auth' is neither",
    ),
    "tier that is none": (
        '[llm.tiers]\nbig = "openai:gpt-4o"',
        HERE + r":2: llm\.tiers\.big: there is no such tier",
    ),
    "tier of an unknown provider": (
        '[llm.tiers]\nsmall = "grok:x"',
        HERE + r":2: llm\.tiers\.small: provider 'grok' is not known; did you mean 'groq'\?",
    ),
    "alias by a provider that is none": (
        '[llm.aliases]\nfast = "antropic:claude-opus-4-7"',
        HERE
        + r":2: llm\.aliases\.fast: provider 'antropic' is not known; did you mean 'anthropic'",
    ),
    "alias of an alias": (
        '[llm.aliases]\nfast = "slow"\nslow = "openai:gpt-4o"',
        HERE + r":2: llm\.aliases\.fast: it leads to the alias 'slow': name its model",
    ),
    "a name that is taken": (
        '[llm.providers.mock]\nbase_url = "https://h"',
        HERE + r":1: llm\.providers\.mock: that is no name for a provider",
    ),
    "family that is none": (
        '[capabilities.provider_family]\nmine = "opnai"',
        HERE + r":2: provider_family\.mine: provider 'opnai' is not known; did you mean 'openai'",
    ),
    "rule for a provider that is none": (
        '[[llm.inference]]\nmatch = "a*"\nprovider = "openai"\n'
        '[[llm.inference]]\nmatch = "b*"\nprovider = "grok"',
        HERE + r":4: llm\.inference\.1: provider 'grok' is not known; did you mean 'groq'\?",
    ),
    "bad glob": (
        '[[llm.inference]]\nmatch = "a*b*c"\nprovider = "openai"',
        HERE + r":1: llm\.inference\.0: 'a\*b\*c' is no glob",
    ),
    "bad glob of a price": (
        '[llm.prices."openai:gpt-[45]"]\ninput = 1',
        HERE + r":1: llm\.prices\.openai:gpt-\[45\]: .*only '\*' is",
    ),
    "price below nothing": (
        '[llm.prices."openai:gpt-4o"]\ninput = -1',
        HERE + r":1: llm\.prices\.openai:gpt-4o: input is -1.0: a price is 0 or more",
    ),
    "default that is no option": (
        '[llm.model_defaults."gpt-*"]\ntemprature = 1',
        HERE
        + r":2: llm\.model_defaults\.gpt-\*\.temprature is no setting; did you mean 'temperature'",
    ),
    "family in a circle": (
        '[capabilities.provider_family]\na = "b"\nb = "a"',
        HERE + r":2: capabilities\.provider_family\.a: it goes in a circle, a -> b -> a: take",
    ),
    "bad glob of a capability": (
        '[[capabilities.provider.x]]\nmodel_match = "*"\n'
        '[[capabilities.provider.x]]\nmodel_match = "gpt-?"',
        HERE + r":3: capabilities\.provider\.x\.1: .*'\?' is not special",
    ),
    "capability without a glob": (
        "[[capabilities.provider.x]]\nthinking = true",
        HERE + r":1: capabilities\.provider\.x\.0: .*missing required field model_match",
    ),
    "capability of the wrong type": (
        '[[capabilities.provider.x]]\nmodel_match = "*"\ntool_search = ["bm52"]',
        HERE + r":3: capabilities\.provider\.x\.0\.tool_search\.0: expected 'bm25' or",
    ),
}


def one_line(text: str, pattern: str) -> None:
    (line,) = text.strip().splitlines()
    assert re.search(pattern, line), line


@pytest.mark.parametrize("mistake", MISTAKES)
def test_by_the_command(mistake: str, windlass, project: Path) -> None:
    text, pattern = MISTAKES[mistake]
    (project / "windlass.toml").write_text(text + "\n")
    for command in (("config", "show"), ("config", "check"), ("run", "hi", "--model", "fast")):
        one_line(windlass(*command, code=None).stderr, pattern)


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_by_the_library(mistake: str, project: Path) -> None:
    text, pattern = MISTAKES[mistake]
    (project / "windlass.toml").write_text(text + "\n")
    async with w.Runtime():
        with pytest.raises(w.ConfigError) as caught:
            w.models.resolve("claude-opus-4-7")
    one_line(str(caught.value), pattern)


@pytest.mark.parametrize(
    ("files", "pattern"),
    [
        ({"p.toml": "[llm.aliases]\n"}, r"p\.toml:1: llm is no setting"),
        (
            {"p.toml": '[aliases]\na = { id = "x", provider = "nobody" }\n'},
            r"p\.toml:2: llm\.aliases\.a",
        ),
        ({}, r"WINDLASS_PROVIDERS_CONFIG: .*p\.toml: there is no such file"),
    ],
)
def test_the_providers_file(
    files: dict[str, str], pattern: str, windlass, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_PROVIDERS_CONFIG", str(project / "p.toml"))
    for name, text in files.items():
        (project / name).write_text(text)
    one_line(windlass("config", "show", code=None).stderr.replace("no windlass.toml", ""), pattern)


def test_a_package_that_is_wrong(windlass, project: Path) -> None:
    package = project / ".windlass" / "packages" / "acme" / "windlass.toml"
    package.parent.mkdir(parents=True)
    package.write_text('[package]\nname = "acme"\n\n[llm.aliases]\nfast = 7\n')
    one_line(
        windlass("config", "check", code=1).stderr, r"acme/windlass\.toml:5: llm\.aliases\.fast"
    )


def test_a_missing_key_is_named_with_the_variable(windlass, project: Path) -> None:
    (project / "windlass.toml").write_text(
        dedent("""
            [llm.providers.mine]
            base_url = "https://llm.example.com/v1"
            auth_env = "MINE_KEY"
        """)
    )
    told = windlass("run", "hi", "--model", "mine:x", code=None).stderr
    one_line(told, "mine needs an API key: set MINE_KEY or pass api_key=")


def test_what_is_configured_is_shown(windlass, project: Path) -> None:
    file = project / "windlass.toml"
    file.write_text('[llm.aliases]\nfast = "openai:gpt-4o"\n')
    shown = windlass("config", "show").stdout
    assert re.search(r'llm\.aliases\.fast +"openai:gpt-4o" +\S+windlass\.toml:2', shown)


def test_a_tier_or_an_alias_for_a_model_that_is_none(windlass, project: Path) -> None:
    (project / "windlass.toml").write_text(
        '[llm.tiers]\nsmall = "my-fst"\n[llm.aliases]\nmy-fast = "openai:gpt-4o"\nodd = "zzzz"\n'
    )
    for name, pattern in (
        (
            "small",
            HERE + r":2: llm\.tiers\.small: model 'my-fst' is not known; did you mean 'my-fast'",
        ),
        ("odd", HERE + r":5: llm\.aliases\.odd: model 'zzzz' is not known; write provider:name"),
        ("my-fst", r"error: model 'my-fst' is not known; did you mean 'my-fast'\?"),
    ):
        one_line(windlass("run", "hi", "--model", name, code=None).stderr, pattern)

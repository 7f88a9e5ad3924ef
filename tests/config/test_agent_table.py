"""`[agent]` in `windlass.toml`: which options it takes, what a mistake is told, who has the last word."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass as w
from windlass.config import loader, project
from windlass.config.sections import registered_sections, resolve_sections
from windlass.config.sources import read_layer
from windlass.engine.agent_defaults import with_agent_options
from windlass.errors import ConfigError
from windlass.options.agent_config import AgentConfig
from windlass.options.index import ALIASES, GROUPS, NAMES, OF_A_RUN
from windlass.options.parse import find_option, parse_options
from windlass.testing import call, scripted

KEYS = set(AgentConfig.__struct_fields__)


@w.tool
def look(what: str) -> str:
    """Look."""
    return what


def settings(folder: Path, text: str) -> Path:
    """Write the file of a project."""
    file = folder / "windlass.toml"
    file.write_text(text)
    return file


def problems(folder: Path, text: str) -> list[str]:
    """Everything that is wrong with a file, without its folder."""
    return [one.replace(f"{folder}/", "") for one in loader.check(settings(folder, text))]


# --------------------------------------------------------------------------- the keys


def test_agent_keys_are_options_of_agents_that_a_file_can_hold():
    assert KEYS <= NAMES["agent"]
    assert {"model", "max_turns", "temperature", "budget", "stall_diagnostics", "profile"} <= KEYS
    assert not KEYS & OF_A_RUN
    for name in KEYS:
        option = find_option(ALIASES.get(name, name))
        assert option.in_file and option.deprecated is None


def test_agent_keys_leave_out_what_is_code_or_loads_code():
    assert not KEYS & {"tools", "policies", "llm_caller", "output", "deps", "consent", "on_event"}


def test_every_option_of_agents_is_a_key_or_is_explained():
    for name in GROUPS:
        if name in NAMES["agent"] and name not in KEYS:
            assert AgentConfig.explain_key(name), name


# --------------------------------------------------------------------------- mistakes


def test_an_unknown_key_gets_the_nearest_name_and_its_line(tmp_path: Path):
    assert problems(tmp_path, "[agent]\nmax_turns = 5\nmax_turn = 5\n") == [
        "windlass.toml:3: agent.max_turn is no setting; did you mean 'max_turns'?"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[agent]\nmax_turns = 0", "2: agent.max_turns is a whole number of at least 1, not 0"),
        ("[agent]\nmax_turns = 'x'", "2: agent.max_turns: expected an integer, got a string"),
        ("[agent]\ntemperature = 9", "2: agent.temperature is a number up to 2, not 9"),
        ("[agent]\nprofile = 'verifer'", "did you mean 'verifier'?"),
        ("[agent]\ntool_format = 'xml'", "2: agent.tool_format is one of 'native', 'text'"),
        ("[agent]\nbudget = {usd = -1}", "2: agent.budget: a limit on usd is a number"),
        (
            "[agent]\nmax_turns = 3\n\n[agent.stall_diagnostics]\nwarn = true\ntreshold = 3",
            "5: agent.stall_diagnostics has no key 'warn'",
        ),
        (
            "[agent.stall_diagnostics]\n\nthreshold = 1",
            "3: agent.stall_diagnostics.threshold is a whole number of at least 2, not 1",
        ),
    ],
)
def test_a_wrong_value_is_told_by_the_check_of_the_option(tmp_path: Path, text: str, said: str):
    found = problems(tmp_path, text + "\n")
    assert len(found) == 1 and said in found[0], found
    assert found[0].startswith("windlass.toml:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[agent]\nsession_id = 's'", "2: agent.session_id is no setting; it belongs to one run"),
        ("[agent]\ntools = ['a:b']", "2: agent.tools is no setting; it is given in code"),
        ("[agent]\nmax_iterations = 5", "2: agent.max_iterations is no setting; use 'max_turns'"),
        ("[agent]\nmax_token_budget = 5", "2: agent.max_token_budget is no setting; use 'token_bu"),
        ("[store]\nmax_turns = 5", "2: store.max_turns is no setting; it is a key of [agent]"),
        ("max_turns = 5", "1: max_turns is no section; it is a key of [agent]"),
        ("[agent]\nkeep_days = 5", "2: agent.keep_days is no setting; it is a key of [store]"),
    ],
)
def test_a_misplaced_key_is_told_where_it_belongs(tmp_path: Path, text: str, said: str):
    [found] = problems(tmp_path, text + "\n")
    assert said in found


def test_a_variable_gives_a_key_and_is_checked(tmp_path: Path):
    config = loader.load(tmp_path, {"WINDLASS_AGENT_MAX_TURNS": "3", "HOME": str(tmp_path)})
    assert config.get(AgentConfig).max_turns == 3
    with pytest.raises(ConfigError, match="environment WINDLASS_AGENT_MAX_TURNS: agent.max_turns"):
        loader.load(tmp_path, {"WINDLASS_AGENT_MAX_TURNS": "0", "HOME": str(tmp_path)})


def test_what_nobody_set_is_not_shown(tmp_path: Path):
    config = loader.load(tmp_path, {"HOME": str(tmp_path)})
    assert [one for one in config.explain() if one.section == "agent"] == []
    config = loader.load(file=settings(tmp_path, "[agent]\nmax_turns = 3\n"), env={})
    [one] = [one for one in config.explain() if one.section == "agent"]
    assert (one.key, one.value) == ("max_turns", 3) and one.origin.endswith("windlass.toml:2")


# --------------------------------------------------------------------------- trust


def test_an_untrusted_file_sets_nothing_of_an_agent(tmp_path: Path, caplog):
    project._warned.clear()
    settings(tmp_path, "[agent]\nmax_turns = 99\n[agent.budget]\nusd = 1000\n")
    with caplog.at_level(logging.WARNING, "windlass"):
        config = loader.load(tmp_path, {"HOME": str(tmp_path / "home")})
    assert config.get(AgentConfig) == AgentConfig()
    assert {one.setting for one in config.ignored} == {"agent.max_turns", "agent.budget.usd"}
    assert "windlass trust" in caplog.text


# --------------------------------------------------------------------------- effect


async def test_an_agent_takes_its_defaults_from_the_file(tmp_path: Path):
    file = settings(tmp_path, "[agent]\nmax_turns = 2\ntemperature = 0.5\n")
    model = scripted(*[call("look", what="x") for _ in range(5)])
    async with w.Runtime(store="memory:", config=file, environ={}):
        out = await w.Agent(model, tools=[look]).run("go")
    assert out.turns == 2 and out.status == "budget_exhausted"
    assert model.requests[0].frame.settings.temperature == 0.5


async def test_agent_loop_takes_them_too_and_llm_call_does_not(tmp_path: Path):
    file = settings(tmp_path, "[agent]\nmax_turns = 1\ntemperature = 0.5\n")
    model, single = scripted(call("look", what="x"), "late"), scripted("one")
    async with w.Runtime(store="memory:", config=file, environ={}):
        out = await w.agent_loop("go", model=model, tools=[look])
        await w.llm_call("hi", model=single)
    assert out.llm.iterations == 1 and out.status == "budget_exhausted"
    assert single.requests[0].frame.settings.temperature is None


async def test_code_has_the_last_word(tmp_path: Path):
    file = settings(tmp_path, "[agent]\nmax_turns = 1\ntemperature = 0.5\n")
    model = scripted(call("look", what="x"), "done")
    async with w.Runtime(store="memory:", config=file, environ={}):
        out = await w.Agent(model, tools=[look], max_turns=5).run("go", temperature=1.0)
    assert out.status == "done" and out.turns == 2
    assert model.requests[0].frame.settings.temperature == 1.0


async def test_a_model_of_the_file_is_asked_where_code_names_none(tmp_path: Path):
    file = settings(tmp_path, '[agent]\nmodel = "mock:from-the-file"\n')
    async with w.Runtime(store="memory:", config=file, environ={}):
        assert w.Agent().plan.model.name == "from-the-file"
        assert w.Agent(scripted("x")).plan.model.name != "from-the-file"
        assert (await w.Agent(scripted("mine"), tools=[look]).run("hi")).output == "mine"


def parsed(**options: Any) -> dict[str, Any]:
    """Options of an agent, checked."""
    return parse_options(options, "agent", "Agent")


def test_limits_are_merged_one_by_one_and_none_is_lost():
    usual = parsed(budget={"usd": 1.0, "tokens": 500, "iterations": 4})
    merged = with_agent_options(parsed(token_budget=9, max_turns=3), usual)
    assert merged["token_budget"] == 9 and merged["max_iterations"] == 3
    assert merged["budget"] == w.Budget(usd=1.0)
    merged = with_agent_options(parsed(budget={"usd": 2.0}), usual)
    assert merged["budget"] == w.Budget(usd=2.0, tokens=500, iterations=4)
    merged = with_agent_options(parsed(budget={"iterations": 2}), parsed(max_turns=30))
    assert "max_iterations" not in merged and merged["budget"].iterations == 2


def test_what_code_decides_in_one_way_the_file_does_not_decide_in_another():
    usual = parsed(compaction="truncate", compact_threshold=5, thinking=True, provider="mock")
    assert with_agent_options(
        parsed(context_strategy={"type": "sliding-window", "max_turns": 2}), usual
    ).keys() == {
        "context_strategy",
        "thinking",
        "provider",
    }
    assert "thinking" not in with_agent_options(parsed(reasoning_effort="low"), usual)
    assert "provider" not in with_agent_options({"model": "mock"}, usual)


def test_a_profile_in_code_counts_before_the_file():
    merged = with_agent_options(parsed(profile="verifier"), parsed(max_turns=40, max_nudges=3))
    assert merged.keys() == {"profile"}


def test_every_key_has_a_type_that_toml_can_hold():
    plain = {"str": "x", "bool": True, "int": 1, "float": 1.5, "list": ["x"], "dict": {}}
    for field in msgspec.structs.fields(AgentConfig):
        fits = []
        for value in plain.values():
            try:
                msgspec.convert({field.name: value}, AgentConfig)
                fits.append(value)
            except msgspec.ValidationError:
                pass
        assert fits, field.name


def test_the_section_is_registered_like_every_other(tmp_path: Path):
    shapes = resolve_sections(registered_sections())
    assert shapes["agent"] is AgentConfig
    layer, wrong = read_layer(settings(tmp_path, "[agent]\nstream = true\n"), shapes)
    assert wrong == [] and layer.data == {"agent": {"stream": True}}

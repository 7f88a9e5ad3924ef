"""Flags that give options of an agent: what the groups declare is what the command line has."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import click
import pytest

from windlass.cli import options as cli_options
from windlass.cli.main import cli
from windlass.options.flags import FLAGS, CommandFlag
from windlass.options.group import Flag
from windlass.options.index import ALIASES, GROUPS, NAMES
from windlass.options.parse import find_group, find_option

MOCK = ("-p", "mock")


def declared() -> list[tuple[str, Flag]]:
    """Every flag that a group declares, with its option."""
    return [(name, flag) for name in GROUPS for flag in find_option(name).flags]


def first_sentence(option: str) -> str:
    """The first sentence of the docstring of an option's field."""
    source = inspect.getsource(find_group(option))
    [group] = ast.parse(source).body
    assert isinstance(group, ast.ClassDef)
    for field, after in zip(group.body, group.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if field.target.id == option:
                assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                return str(after.value.value).partition(". ")[0].rstrip(".") + "."
    raise AssertionError(option)


def parameter(path: str, name: str) -> click.Option:
    """The parameter of a command that has this flag: `parameter("run", "--model")`."""
    command: click.Command = cli
    for step in path.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), step)
        assert found is not None
        command = found
    [one] = [one for one in command.params if name in one.opts]
    assert isinstance(one, click.Option)
    return one


def test_flags_are_those_that_the_groups_declare():
    assert sorted(ALIASES.get(flag.option, flag.option) for flag in FLAGS) == sorted(
        option for option, _ in declared()
    )
    names = [name for flag in FLAGS for name in flag.names]
    assert len(set(names)) == len(names)
    assert {flag.option for flag in FLAGS} <= NAMES["agent"] | NAMES["run"]


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.names[0])
def test_help_of_a_flag_is_the_docstring_of_its_option(flag: CommandFlag, windlass):
    option = ALIASES.get(flag.option, flag.option)
    [own] = [f for name, f in declared() if name == option and f.key == flag.key]
    shown = parameter("run", flag.names[0]).help or ""
    if own.words is not None:
        assert shown.startswith(own.words)
    elif own.key is None:
        assert shown.startswith(first_sentence(option))
    squeezed = re.sub(r"\s+", " ", windlass("run", "--help").stdout)
    assert re.sub(r"\s+", " ", shown) in squeezed


def test_a_flag_has_the_choices_and_limits_of_its_option(windlass):
    assert isinstance(parameter("run", "--on-pending").type, click.Choice)
    turns = parameter("run", "--max-turns").type
    assert isinstance(turns, click.IntRange) and turns.min == 1
    assert "x>=1" in windlass("run", "x", *MOCK, "--max-turns", "0", code=2).stderr
    assert "keep" in windlass("run", "x", *MOCK, "--on-pending", "no", code=2).stderr


def test_flags_of_a_beginning_are_not_on_resume(windlass):
    shown = windlass("sessions", "resume", "--help").stdout
    assert "--preview" not in shown and "--session" not in shown and "--max-turns" in shown


def test_a_new_flag_reaches_the_agent_without_a_line_in_the_command(monkeypatch, project: Path):
    """One field is all that a new option with a flag touches: the rest goes by its name."""
    flag = CommandFlag("temperature", ("--temperature",), "How freely.", "float", low=0, high=2)
    monkeypatch.setattr(cli_options, "FLAGS", (*FLAGS, flag))
    seen: list[cli_options.CommandOptions] = []

    @click.command()
    @cli_options.agent_options()
    def command(chosen: cli_options.CommandOptions) -> None:
        seen.append(chosen)

    command.main(["-p", "mock", "--temperature", "0.5", "--max-cost", "0"], standalone_mode=False)
    assert seen[0].options == {"provider": "mock", "temperature": 0.5, "budget": {"usd": 0.0}}

    from windlass.cli.agent import make_agent

    agent = make_agent(seen[0], None)
    assert agent.options["temperature"] == 0.5
    assert agent.plan.frame.settings.temperature == 0.5

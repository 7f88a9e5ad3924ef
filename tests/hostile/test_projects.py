"""Hostile projects through every command and `Agent`: nothing leaves, nothing outside is touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.project_builder import World, build_world, project_names
from tests.hostile.project_commands import LINES, commands, name_of
from tests.hostile.project_watch import Forks, Server, watch


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    """The model that the user configured, and the attacker's."""
    both = Server(), Server()
    yield both
    for server in both:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()


def build(name: str, tmp_path: Path, servers: tuple[Server, Server]) -> World:
    model, attacker = servers
    model.keys.clear()
    attacker.keys.clear()
    try:
        return build_world(name, tmp_path / "world", model.address, attacker.address)
    except PermissionError:
        pytest.skip("only root gives files away")


# --------------------------------------------------------------------------- the projects


def test_there_are_many_projects_and_no_command_is_left_out():
    assert len(project_names()) >= 40
    assert sorted(commands()) == sorted({name_of(line) for line in LINES})


@pytest.mark.parametrize("name", project_names())
def test_a_hostile_project_reaches_nothing(name, tmp_path, servers, forks):
    world = build(name, tmp_path, servers)
    plants_code = name.startswith(("planted_", "tool_modules"))
    report = watch(world, name, "few", None if plants_code else forks)
    assert report.faults == []
    assert servers[1].keys == []


# Of each kind one with every command; all projects with every command: `make prove-projects`.
EVERY = (
    "provider_address",
    "anchor_in_home",
    "store_with_trigger",
    "planted_modules",
)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "mode"),
    [*[(name, "agents") for name in project_names()], *[(name, "every") for name in EVERY]],
)
def test_a_hostile_project_reaches_nothing_from_a_program(name, mode, tmp_path, servers, forks):
    world = build(name, tmp_path, servers)
    plants_code = name.startswith(("planted_", "tool_modules"))
    report = watch(world, name, mode, None if plants_code else forks)
    assert report.faults == []
    assert servers[1].keys == []


# --------------------------------------------------------------------------- controls


def test_in_an_honest_project_the_commands_work(tmp_path, servers, forks):
    world = build("honest", tmp_path, servers)
    report = watch(world, "honest", "few", forks)
    assert report.faults == []
    assert report.connections > 0
    assert set(servers[0].keys) == {"key-of-the-user-anthropic"}
    ended = {each["what"]: each["code"] for each in report.outcomes}
    failed = {what: code for what, code in ended.items() if code != 0}
    assert failed == {"lint --transcript notes.jsonl": 2}  # there is none
    made = {path.name for path in (world.project / ".windlass").iterdir()}
    assert {"sessions.db", ".gitignore"} <= made
    assert all((world.project / name).is_file() for name in ("export.jsonl", "trace.html"))


def test_in_an_honest_project_agents_work(tmp_path, servers, forks):
    world = build("honest", tmp_path, servers)
    for name, text in (("prompt.md", "Go on."), ("skills/greet/SKILL.md", SKILL)):
        world.write(name, text)
    report = watch(world, "honest", "agents", forks)
    assert report.faults == []
    assert {each["what"]: each["said"] for each in report.outcomes if each["code"] != 0} == {}


SKILL = "---\nname: greet\ndescription: Greet with hello.\n---\nBe brief.\n"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("provider_address", "run hello --session s"),
        ("store_postgres", "sessions list"),
        ("store_outside", "sessions list"),
        ("anchor_in_home", "audit seal"),
    ],
)
def test_what_the_user_trusts_is_seen_to_happen(name, line, tmp_path, servers, forks):
    """The same project, trusted: the detector sees what was kept from it before."""
    world = build(name, tmp_path, servers)
    trusted = str(world.project / "windlass.toml")
    report = watch(world, name, "few", forks, WINDLASS_TRUSTED_FILES=trusted)
    assert any(fault.startswith(line) for fault in report.faults), report.faults


def test_the_detector_sees_every_act(tmp_path, servers):
    world = build("honest", tmp_path, servers)
    (world.project / ".windlass").mkdir()
    report = watch(world, "honest", "unsafe", WINDLASS_TEST_ATTACKER=servers[1].address)
    unseen = [each["what"] for each in report.outcomes if not each["faults"]]
    assert unseen == []
    changed = [line.rpartition("/")[2] for line in report.changed]
    assert changed == ["victim.db", "link"]  # below Python, and what the runner made for itself

"""What a downloaded folder tried, found by running every command in hostile projects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import windlass as w
from windlass.cli.main import cli
from windlass.config import loader
from windlass.errors import ConfigError
from windlass.models.registry.registry import build_registry
from windlass.store.open import StoreConfig
from windlass.testing import scripted

GATEWAY = '[llm.providers.anthropic]\nbase_url = "https://gateway.example.com"\n'


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "config" / "windlass").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(folder)
    return folder


def call(*args: str, **more):
    return CliRunner().invoke(cli, args, **more)


# --------------------------------------------------------------------------- settings


def test_a_link_to_the_users_file_does_not_take_it_away(project, tmp_path):
    user = tmp_path / "config" / "windlass" / "windlass.toml"
    user.write_text(GATEWAY)
    assert _address() == "https://gateway.example.com"
    Path("windlass.toml").symlink_to("../config/windlass/windlass.toml")
    assert _address() == "https://gateway.example.com"
    Path("windlass.toml").unlink()
    Path("windlass.toml").write_text(GATEWAY.replace("gateway", "other"))  # control: not trusted
    assert _address() == "https://gateway.example.com"


def _address() -> str | None:
    return build_registry(loader.load()).endpoints["anthropic"].base_url


@pytest.mark.parametrize(
    "name",
    ["claude-sonnet-4-5", "gpt-4o", "frontier", "anthropic:claude-sonnet-4-5"],
)
def test_an_alias_of_a_project_takes_no_name_that_means_something(project, name):
    Path("windlass.toml").write_text(f'[llm.aliases]\n"{name}" = "groq:x"\nbrief = "groq:x"\n')
    loaded = loader.load()
    assert sorted(build_registry(loaded).aliases) == ["brief"]
    assert [each.setting for each in loaded.ignored] == [f"llm.aliases.{name}"]
    assert call("trust", "--yes").exit_code == 0
    assert name in build_registry(loader.load()).aliases


def test_an_alias_of_a_project_takes_no_model_of_the_users(project, tmp_path):
    rule = '[[llm.inference]]\nmatch = "house-*"\nprovider = "groq"\n'
    (tmp_path / "config" / "windlass" / "windlass.toml").write_text(rule)
    Path("windlass.toml").write_text('[llm.aliases]\nhouse-1 = "openai:x"\nbarn-1 = "openai:x"\n')
    assert sorted(build_registry(loader.load()).aliases) == ["barn-1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_above_with_a_refused_file_is_not_the_project(project, tmp_path):
    above = tmp_path / "windlass.toml"
    above.write_text("[store]\nkeep_days = 1\n")
    assert (
        call("run", "hello", "--provider", "mock").exit_code == 0
    )  # control: one of the user's own is
    assert (tmp_path / ".windlass").exists() and not Path(".windlass").exists()
    os.chown(above, 54321, 54321)
    assert call("run", "hello", "--provider", "mock").exit_code == 0
    assert Path(".windlass", "sessions.db").exists()


def test_a_folder_has_a_limited_number_of_packages(project):
    for number in range(101):
        file = Path(f".windlass/packages/p{number}/windlass.toml")
        file.parent.mkdir(parents=True)
        file.write_text(f'[llm.aliases]\na{number} = "groq:x"\n')
    assert "more than 100 packages" in call("config", "show").output
    assert call("trust", "--yes").exit_code == 2
    Path(".windlass/packages/p7/windlass.toml").unlink()
    assert call("config", "show").exit_code == 0
    assert len(build_registry(loader.load()).aliases) == 100


@pytest.mark.parametrize(
    "text", [".".join(["a"] * 30_000) + " = 1\n", "[store]\nx = " + "[" * 50_000]
)
def test_lint_reads_settings_as_the_loader_does(project, text):
    Path("windlass.toml").write_text(text)
    assert "[config]" in call("lint").output
    Path("windlass.toml").write_text("[store]\nkeep_days = 3\n")
    assert call("lint").output == "nothing to mend\n"


# --------------------------------------------------------------------------- sessions


def test_keep_days_of_a_project_prunes_the_projects_own_store_alone(project, tmp_path, monkeypatch):
    kept = str(tmp_path / "kept.db")
    assert call("run", "hello", "--provider", "mock", "--store", kept).exit_code == 0
    assert call("run", "hello", "--provider", "mock").exit_code == 0
    Path("windlass.toml").write_text("[store]\nkeep_days = 0\n")
    refused = call("sessions", "prune", "--store", kept)
    assert refused.exit_code == 2 and "the project's own store" in refused.output
    monkeypatch.setenv("WINDLASS_STORE_URL", kept)
    assert call("sessions", "prune").exit_code == 2
    assert "1 session deleted" in call("sessions", "prune", "--older-than", "0d").output
    monkeypatch.delenv("WINDLASS_STORE_URL")
    assert "1 session deleted" in call("sessions", "prune").output


@pytest.mark.parametrize("line", ["keep_days = -1", "keep_days = nan", "busy_timeout = 1e308"])
def test_times_of_a_store_are_sensible(project, line):
    Path("windlass.toml").write_text(f"[store]\n{line}\n")
    with pytest.raises(ConfigError, match="is between 0 and"):
        loader.load()
    Path("windlass.toml").write_text("[store]\nkeep_days = 1\nbusy_timeout = 2\n")
    assert loader.load().get(StoreConfig) == StoreConfig(keep_days=1.0, busy_timeout=2.0)


# --------------------------------------------------------------------------- code


@pytest.mark.parametrize("name", ["windlass", "msgspec"])
def test_the_demo_runs_no_module_of_the_folder(project, name):
    Path(f"{name}.py").write_text("import os\nos.mkdir('ran')\nraise SystemExit(7)\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from windlass.cli.main import main; main()", "demo"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exactly once" in done.stdout and not Path("ran").exists()
    unsafe = subprocess.run([sys.executable, "-m", "windlass.cli.demo.child"], check=False)
    assert (unsafe.returncode, Path("ran").exists()) == (7, True)  # control: it would have run


# --------------------------------------------------------------------------- files


@pytest.fixture
def prompts(project):
    os.mkfifo("pipe")
    (project / "prompt.md").write_text("Go on.")


@pytest.mark.usefixtures("prompts")
async def test_a_prompt_is_a_regular_file():
    with pytest.raises(ConfigError, match="regular file"):
        await w.Agent(scripted("ok")).run("hello", prompts={"agent.nudge": "pipe"})
    done = await w.Agent(scripted("ok")).run("hello", prompts={"agent.nudge": "prompt.md"})
    assert done.output == "ok"

"""`windlass models`, `windlass config`, `--help` and `--version`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from windlass import __version__
from windlass.cli import groups


def test_models_lists_prices_and_whose_key_is_set(windlass, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "canary-0123456789")
    done = windlass("models").stdout
    assert "canary" not in done
    assert "OPENAI_API_KEY is set" in done and "missing: ANTHROPIC_API_KEY" in done
    row = next(line for line in done.splitlines() if line.startswith("anthropic:claude-opus-4-7 "))
    assert row.split()[1:7] == ["5", "25", "0.5", "1,000,000", "128,000", "native"]


def test_models_of_one_provider(windlass):
    done = windlass("models", "--provider", "openai").stdout
    assert "openai:gpt-4o" in done and "anthropic" not in done
    known = json.loads(windlass("models", "-p", "anthropic", "--json").stdout)
    assert {model["provider"] for model in known["models"]} == {"anthropic"}
    assert known["providers"][0]["key_set"] is None
    assert "did you mean 'openai'?" in windlass("models", "-p", "opnai", code=2).stderr


def test_config_show_says_where_each_value_comes_from(windlass, project: Path, monkeypatch):
    (project / "windlass.toml").write_text(
        '[store]\nurl = "postgresql://ann:canary123@db/x"\nkeep_days = 3\n'
    )
    monkeypatch.setenv("WINDLASS_STORE_BUSY_TIMEOUT", "5")
    known = json.loads(windlass("config", "show", "--json").stdout)
    found = {f"{s['section']}.{s['key']}": (s["value"], s["origin"]) for s in known["settings"]}
    assert found["store.keep_days"] == (3.0, f"{project / 'windlass.toml'}:3")
    assert found["store.busy_timeout"] == (5.0, "environment WINDLASS_STORE_BUSY_TIMEOUT")
    assert "canary" not in str(known) and "ann:****@db" in found["store.url"][0]


def test_config_show_for_people(windlass, project: Path):
    done = windlass("config", "show")
    assert ["store.url", '"memory:"', "built-in"] in [s.split() for s in done.stdout.splitlines()]
    assert str(project / ".windlass" / "sessions.db") in done.stdout
    assert "no windlass.toml" in done.stderr


def test_a_long_setting_is_shown_in_short(windlass, project: Path):
    name = "openai:" + "very-long-name-" * 5
    (project / "windlass.toml").write_text(f'[llm.aliases]\nfast = "{name}"\n')
    lines = windlass("config", "show").stdout.splitlines()
    [line] = [line for line in lines if line.startswith("llm.aliases.fast")]
    assert "…" in line and line.endswith("windlass.toml:2") and name not in line
    assert name in windlass("config", "show", "--json").stdout


def test_config_check(windlass, project: Path):
    assert "no windlass.toml" in windlass("config", "check").stdout
    file = project / "windlass.toml"
    file.write_text("[store]\nkeep_days = 3\n")
    assert windlass("config", "check").stdout == f"right {file}\n"
    file.write_text('[store]\nulr = "x"\nkeep_days = "three"\n')
    for path in ((), ("windlass.toml",)):
        bad = windlass("config", "check", *path, code=1).stderr
        assert bad.count("windlass: error: ") == 2
        assert "windlass.toml:2: store.ulr is no setting; did you mean 'url'?" in bad
    assert "no such file" in windlass("config", "check", "gone.toml", code=1).stderr
    assert "store.ulr" in windlass("run", "x", "-p", "mock", code=2).stderr


def test_version(windlass):
    assert windlass("--version").stdout == f"windlass {__version__}\n"


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "windlass", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == (f"windlass {__version__}\n", 0)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "run",
        "chat",
        "sessions",
        "sessions list",
        "sessions show",
        "sessions resume",
        "sessions export",
        "sessions prune",
        "sessions verify",
        "sessions delete",
        "models",
        "models list",
        "models doctor",
        "config",
        "config show",
        "config check",
        "demo",
        "doctor",
        "worker",
        "fleet",
        "mcp",
        "mcp list",
        "mcp call",
        "mcp doctor",
        "mcp serve",
    ],
)
def test_every_command_explains_itself(windlass, command: str):
    done = windlass(*command.split(), "--help")
    assert done.stdout.startswith(f"Usage: windlass {command}".rstrip())


GROUPS = ("sessions", "approvals", "plan", "audit", "mcp", "config")


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["sessions", "resume", "--help"],
        *[[group] for group in GROUPS],
        *[[group, "--help"] for group in GROUPS],
    ],
    ids=" ".join,
)
def test_help_loads_nothing_heavy(args: list[str]):
    code = (
        "import sys\nfrom contextlib import suppress\nimport click\nfrom windlass.cli.main import cli\n"
        "with suppress(click.exceptions.NoArgsIsHelpError):\n"
        f"    cli.main({args!r}, standalone_mode=False)\n"
        "heavy = ('rich', 'aiohttp', 'msgspec', 'asyncio', 'sqlite3', 'pydantic')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.parametrize("group", GROUPS)
def test_the_list_of_a_group_says_what_its_commands_say(windlass, group: str):
    table = getattr(groups, group).table
    for name, (_, words) in table.items():
        shown = " ".join(windlass(group, name, "--help").stdout.split())
        assert words in shown, name
    shown = windlass(group, code=2).output
    assert all(f"  {name} " in shown for name in table)


def test_listing_sessions_does_not_load_transcripts(project: Path):
    code = (
        "import sys\nfrom windlass.cli.main import cli\n"
        "cli.main(['sessions', 'list'], standalone_mode=False)\n"
        "print('windlass.engine.transcript' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False", done.stderr


@pytest.mark.parametrize(
    ("columns", "head"),
    [(200, "MODEL PRICE CACHED NOTE"), (35, "MODEL PRICE NOTE"), (20, "MODEL PRICE"), (5, "MODEL")],
)
def test_a_table_is_as_wide_as_the_terminal(
    columns: int, head: str, monkeypatch: pytest.MonkeyPatch
):
    from io import StringIO

    from windlass.cli.console import ConsoleOutput

    monkeypatch.setenv("COLUMNS", str(columns))
    paper = ConsoleOutput(StringIO())
    paper.fancy = True
    rows = [("some-model", "$1", "$0.5", "it can do much")]
    paper.table(
        head="MODEL PRICE CACHED NOTE".split(), rows=rows, spare=("CACHED", "NOTE", "PRICE")
    )
    assert paper.file.getvalue().splitlines()[0].split()[:4] == head.split()  # type: ignore[attr-defined]

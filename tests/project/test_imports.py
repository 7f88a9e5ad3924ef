"""Importing Windlass is cheap, and its layers point one way."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAVY = (
    "aiohttp",
    "rich",
    "pydantic",
    "click",
    "jsonschema",
    "jsonschema_rs",
    "docstring_parser",
    "msgspec",
    "asyncio",
    "openai",
    "anthropic",
    "sqlite3",
)


def loaded_by(code: str, *names: str) -> list[str]:
    """Which of these modules are there after running the code in a fresh interpreter."""
    ask = f"{code}\nimport sys\nprint(*[n for n in {names!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split() if done.stdout.strip() else []


def test_the_test_sees_what_is_loaded():
    assert loaded_by("import asyncio, msgspec", "msgspec", "asyncio", "rich") == [
        "msgspec",
        "asyncio",
    ]


def test_import_windlass_loads_nothing_heavy():
    assert loaded_by("import windlass", *HEAVY) == []


@pytest.mark.parametrize(
    "module",
    ["messages", "events", "errors", "usage", "seams", "config.loader", "redaction.redactor"],
)
def test_the_lowest_layer_needs_only_msgspec(module: str):
    heavy = [name for name in HEAVY if name not in ("msgspec", "asyncio")]
    assert loaded_by(f"import windlass.{module}", *heavy) == []


def test_a_scripted_run_needs_no_network_no_terminal_and_no_pydantic():
    code = (
        "import windlass as w\n"
        "from windlass.testing import scripted\n"
        "assert w.Agent(scripted('hello')).run_sync('hi').output == 'hello'\n"
    )
    assert loaded_by(code, "aiohttp", "rich", "click", "pydantic", "jsonschema", "openai") == []


def test_the_layers_hold():
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 kept, 0 broken" in done.stdout


def test_policies_use_what_a_run_offers_and_not_its_journal() -> None:
    """They read through `run.facts`, `run.entries` and `run.messages`."""
    reached = re.compile(r"\b(?:run|parent|root)\.(?:journal|strand|view\.strand|host)\b")
    policies = ROOT / "src" / "windlass" / "policies"
    found = [
        f"{path.relative_to(policies)}:{number}"
        for path in sorted(policies.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if reached.search(line)
    ]
    assert found == []

"""80 mistakes and more, each answered in one line that names the fix.

`python -m tests.mistakes.test_mistakes` prints the list as `docs/reference/mistakes.md` shows it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mistakes.process_mistakes import (
    COMMANDS,
    PROVIDERS,
    REQUESTS,
    Command,
    Failure,
    Request,
)
from tests.mistakes.python_mistakes import SECTIONS, SETUP, Mistake
from tests.mistakes.run_mistakes import (
    NO_DATABASE,
    post_request,
    refuse_request,
    run_command,
    run_program,
)
from windlass import seams

PROGRAMS = [one for section in SECTIONS.values() for one in section]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mistakes.md"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Provide a current folder with a broken database, and an environment without keys."""
    for name in os.environ:
        if name.startswith("WINDLASS_") or name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("WINDLASS_TRUSTED_FILES", str(tmp_path / "windlass.toml"))
    monkeypatch.setattr(seams, "sleep", lambda _: asyncio.sleep(0))  # between retries
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Path("notes.db").write_text(NO_DATABASE)
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("shop", None)


def check(said: str, answer: str) -> None:
    """Compare an answer with what is expected, and look that it is one line."""
    assert said == answer
    assert "\n" not in said and len(said) < 400


@pytest.mark.parametrize("mistake", PROGRAMS, ids=lambda mistake: mistake.code)
async def test_mistake_in_a_program_is_answered_with_its_fix(mistake: Mistake):
    check(await run_program(mistake.code), mistake.answer)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.line + command.toml)
def test_mistake_in_a_command_or_in_settings_is_answered_with_its_fix(command: Command):
    check(run_command(command), command.answer)


@pytest.mark.parametrize("failure", PROVIDERS, ids=lambda failure: str(failure.status))
async def test_refusal_of_a_provider_is_answered_with_its_fix(failure: Failure):
    check(await refuse_request(failure), failure.answer)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: json.dumps(one.body))
async def test_mistake_in_a_request_to_the_server_is_answered_with_its_fix(request_: Request):
    check(await post_request(request_), request_.answer)


async def test_setup_of_the_programs_is_right():
    assert await run_program('print((await agent.run("Hi.")).output)') == "nothing"


def test_mistakes_are_at_least_80_and_the_page_lists_them():
    assert len(PROGRAMS) + len(COMMANDS) + len(PROVIDERS) + len(REQUESTS) >= 80
    assert PAGE.read_text("utf-8") == write_page(), "run: python -m tests.mistakes.test_mistakes"


def write_page() -> str:
    """Write the page of all mistakes and their answers."""
    lines = [
        "# Mistakes and their answers",
        "",
        "What Windlass says when something is wrong. Search this page for the message that you see. Each line is",
        "produced by a test.",
        "",
        "The programs begin with this:",
        "",
        "```{.python .no-run}",
        SETUP.strip(),
        "```",
        "",
    ]
    for title, section in SECTIONS.items():
        lines += [f"## {title}", "", *_rows([(one.code, one.answer) for one in section])]
    commands = [(one.line, one.answer) for one in COMMANDS if not one.toml]
    settings = [(one.toml, one.answer) for one in COMMANDS if one.toml]
    refusals = [(f"HTTP {one.status}: {one.message}", one.answer) for one in PROVIDERS]
    requests = [(json.dumps(one.body), one.answer) for one in REQUESTS]
    lines += [
        "## Commands",
        "",
        *_rows(commands),
        "## Settings in windlass.toml",
        "",
        *_rows(settings),
    ]
    lines += ["## Answers of providers", "", *_rows(refusals)]
    lines += ["## Requests to the server", "", *_rows(requests)]
    return "\n".join(lines).rstrip() + "\n"


def _rows(rows: list[tuple[str, str]]) -> list[str]:
    lines = ["| you write | you read |", "|---|---|"]
    for code, answer in rows:
        shown = "<br>".join(f"`{line}`" for line in code.strip().splitlines())
        lines.append(f"| {shown} | {answer} |".replace("\\|", "|"))
    return [*lines, ""]


if __name__ == "__main__":
    PAGE.write_text(write_page(), "utf-8")

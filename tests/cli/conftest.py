"""A project folder of its own for every test, and the command in this process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner, Result

from windlass.cli.main import cli


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide an empty current folder, with no keys and settings in the environment."""
    for name in os.environ:
        if name.startswith("WINDLASS_") or name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL")):
            monkeypatch.delenv(name)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("WINDLASS_TRUSTED_FILES", str(folder / "windlass.toml"))
    monkeypatch.chdir(folder)
    # a module that is written anew within a second must not come from bytecode of before
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path, modules = list(sys.path), set(sys.modules)
    yield folder
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def windlass() -> Callable[..., Result]:
    """Provide `windlass("run", "hi")` in this process."""

    def call(*args: str, code: int | None = 0, **more: Any) -> Result:
        done = CliRunner().invoke(cli, args, **more)
        if code is not None:
            assert done.exit_code == code, done.output
        return done

    return call


@pytest.fixture
def module(project: Path) -> Callable[[str, str], None]:
    """Provide `module("tools", "…")`, which writes a module into the folder."""

    def write(name: str, code: str) -> None:
        head = "import asyncio, time\nimport windlass as w\n"
        (project / f"{name}.py").write_text(head + dedent(code))

    return write


def start(*args: str, **more: Any) -> subprocess.Popen[str]:
    """Start the command in a process of its own, with pipes."""
    command = [sys.executable, "-c", "from windlass.cli.main import main; main()", *args]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **{**pipes, **more})


LOOKUP = """
    @w.tool(side_effect_level="read_only")
    async def look_up(order: str) -> str:
        '''Find an order.'''
        return f"{order} costs 59.90"

    w.llm_mock(text="Let me look.", tool_calls=[{"name": "look_up", "arguments": {"order": "A-1"}}])
    w.llm_mock(text="It costs 59.90.")
"""

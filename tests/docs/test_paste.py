"""Blocks of Python can be pasted into the prompt that the pages name, `python -m asyncio`."""

from __future__ import annotations

import ast
import codeop
import os
import sys
from pathlib import Path

import pytest

from scripts.terminal import Prompt, run_line
from tests.docs.pages import ROOT, blocks_of, pages


def find_problem(code: str) -> str | None:
    """Find the first line that a prompt does not take, when the block is pasted line by line."""
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    typed: list[str] = []
    for line in [*code.rstrip("\n").split("\n"), ""]:
        typed.append(line)
        try:
            complete = compiler("\n".join(typed), "<pasted>", "single") is not None
        except SyntaxError as error:
            return f"{error.msg}: {line.strip()}"
        if complete:
            typed = []
    return None


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_blocks_can_be_pasted_into_a_prompt(page: Path):
    """A blank line ends a class or a loop in a prompt: put one after it and none inside."""
    for block in blocks_of(page.read_text("utf-8")):
        if block.kind == "python" and block.file is None:
            assert find_problem(block.code) is None, f"{page.name}:{block.line}"


def test_a_block_that_a_prompt_refuses_is_found():
    assert find_problem("for x in 'ab':\n    print(x)\nprint(1)\n") == "invalid syntax: print(1)"
    assert "indent" in str(find_problem("class A:\n    x = 1\n\n    y = 2\n"))
    assert find_problem("for x in 'ab':\n    print(x)\n\nprint(1)\nawait f()\n") is None


@pytest.mark.parametrize("name", ["getting-started", "shop"])
def test_the_tutorials_run_in_the_prompt(name: str, tmp_path: Path):
    page = ROOT / "docs" / "tutorials" / f"{name}.md"
    env = {name: text for name, text in os.environ.items() if not name.startswith("WINDLASS_")}
    env |= {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}
    prompt = Prompt(sys.executable, tmp_path, env)
    try:
        for block in blocks_of(page.read_text("utf-8")):
            if block.file is not None:
                (tmp_path / block.file).write_text(block.code)
            elif block.kind == "python":
                printed = prompt.paste(block.code)
                assert "Traceback" not in printed and "Error:" not in printed, printed
                for line in (block.output or "").splitlines():
                    assert line.split("…")[0].strip() in printed, f"{page.name}:{block.line}"
            for command, _ in block.commands:
                if command == "python -m asyncio":
                    prompt.leave()
                    prompt = Prompt(sys.executable, tmp_path, env)
                elif command.startswith(("windlass trust", "windlass approvals")):
                    code, printed = run_line(command, tmp_path, env, 60)
                    assert code == 0 or name != "shop", printed
    finally:
        prompt.leave()

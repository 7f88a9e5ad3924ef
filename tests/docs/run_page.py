"""Run a page's blocks in this folder, one after the other in one namespace: `run_page.py PAGE`.

A process of its own for each page, so that no page finds what another left behind.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from pages import RUN, Block, blocks_of, matches  # beside this file

from windlass.store import transaction

# A busy machine is no finding: a page is not about how long its commits take.
transaction.SLOW_SECONDS = transaction.LIMIT_SECONDS = 30.0


def run_python(block: Block, page: Path, names: dict[str, Any], runner: asyncio.Runner) -> str:
    """Run a block, on the page's event loop where it awaits; return what it printed."""
    code = compile(
        "\n" * (block.line - 1) + block.code,  # so that a traceback shows the line of the page
        str(page),
        "exec",
        ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        dont_inherit=True,
    )
    printed = io.StringIO()
    with redirect_stdout(printed):
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(eval(code, names))
        else:
            exec(code, names)
    return printed.getvalue()


def run_command(command: str) -> str:
    """Run a command of the page in this folder; return its output."""
    done = subprocess.run(
        command,
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=60,
    )
    if done.returncode not in (0, 1):
        raise AssertionError(f"$ {command}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def expect(shown: str, printed: str, what: str) -> None:
    if not matches(shown, printed):
        raise AssertionError(f"{what} printed\n{printed}\nand the page says\n{shown}")


def run_page(page: Path, runner: asyncio.Runner) -> int:
    """Run everything that can be run; return how many blocks and commands that was."""
    names: dict[str, Any] = {"__name__": "__main__"}
    ran = 0
    blocks = blocks_of(page.read_text("utf-8"))
    # A program that a command of the page runs is saved and not run before.
    programs = {command for block in blocks for command, _ in block.commands}
    for block in blocks:
        where = f"{page.name}:{block.line}"
        if block.file is not None:
            Path(block.file).write_text(block.code)
        if f"python {block.file}" in programs:
            continue
        if block.kind == "python" and not (block.file or "").startswith("test_"):
            printed = run_python(block, page, names, runner)
            if block.output is not None:
                expect(block.output, printed, where)
            ran += 1
        elif block.kind == "console":
            for command, shown in block.commands:
                if command.split()[0] in RUN:
                    printed = run_command(command)
                    if shown:
                        expect(shown, printed, f"{where}: $ {command}")
                    ran += 1
    return ran


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    with asyncio.Runner() as runner:
        ran = run_page(Path(sys.argv[1]), runner)
    print(ran)

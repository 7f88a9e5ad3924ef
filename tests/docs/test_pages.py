"""Every Python block and every offline command of every page runs, and prints what the page says.

Code that names a real provider talks to a fake one on loopback, true to the wire.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import blocks_of, matches, pages
from windlass.redaction.redactor import looks_secret
from windlass.testing import FakeAnthropic, FakeOpenAI
from windlass.testing.providers import Reply

RUNNER = Path(__file__).with_name("run_page.py")
_EXAMPLES: dict[str, Any] = {"integer": 7, "number": 1.5, "string": "A-1", "boolean": True}


def answer(body: dict[str, Any], _headers: Mapping[str, str]) -> Reply:
    """A model that calls the first tool it is offered, once, and then says what it got."""
    tools = body.get("tools") or []
    told = [part for message in body["messages"] for part in _results(message)]
    if not tools or told:
        return Reply(f"The tool says {told[-1]}." if told else "Hello from the model.")
    first = tools[0].get("function") or tools[0]
    schema = first.get("input_schema") or first.get("parameters") or {}
    wanted = schema.get("properties", {})
    arguments = {name: _EXAMPLES.get(wanted[name].get("type"), "x") for name in wanted}
    return Reply(tool_calls=[(first["name"], arguments)])


def _results(message: dict[str, Any]) -> list[str]:
    """The tool results of a message, in either provider's shape."""
    content = message.get("content")
    if message["role"] == "tool":
        return [str(content)]
    blocks = content if isinstance(content, list) else []
    return [str(b.get("content")) for b in blocks if b.get("type") == "tool_result"]


async def run_page(page: Path, folder: Path) -> tuple[int, str]:
    """Run the page in a process of its own; its exit code and everything it printed."""
    async with AsyncExitStack() as stack:
        anthropic = await stack.enter_async_context(FakeAnthropic(answer))
        openai = await stack.enter_async_context(FakeOpenAI(answer))
        env = {
            name: value
            for name, value in os.environ.items()
            if not looks_secret(name) and not name.startswith(("WINDLASS_", "XDG_", "PYTEST"))
        }
        env |= {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
            "HOME": str(folder),
            "ANTHROPIC_API_KEY": "a-key-for-the-fake",
            "ANTHROPIC_BASE_URL": anthropic.url,
            "OPENAI_API_KEY": "another-key-for-the-fake",
            "OPENAI_BASE_URL": openai.url,
            "OLLAMA_HOST": openai.url,
        }
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-W",
            "error",
            RUNNER,
            page,
            cwd=folder,
            env=env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            printed, _ = await asyncio.wait_for(child.communicate(), 120)
        finally:
            if child.returncode is None:
                child.kill()
        assert not anthropic.refused and not openai.refused
        return child.returncode or 0, printed.decode()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
async def test_the_page_does_what_it_says(page: Path, tmp_path: Path):
    code, printed = await run_page(page, tmp_path)
    assert code == 0, printed
    assert printed.strip().isdigit(), f"something complained at the end: {printed}"
    assert int(printed) > 0 or not runnable(page)


def runnable(page: Path) -> bool:
    return any(block.kind in ("python", "console") for block in blocks_of(page.read_text()))


# --------------------------------------------------------------------------- the runner itself


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "page says"),
        ("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n", "AssertionError"),
        (
            "```python\nimport asyncio\nawait asyncio.sleep(0)\nraise ValueError\n```\n",
            "ValueError",
        ),
        ("```console\n$ python -c 'print(1)'\n2\n```\n", "page says"),
        ("```console\n$ windlass nonsense\n```\n", "ended with 2"),
    ],
)
async def test_a_page_that_lies_fails(text: str, complaint: str, tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(text)
    code, printed = await run_page(page, tmp_path)
    assert code != 0 and complaint in printed


async def test_blocks_share_names_files_and_output(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n# shop.py\nPRICE = 3\n```\n```python\nimport shop\nprint(shop.PRICE + PRICE)\n"
        "```\n```text\n6\n```\n```console\n$ python -c 'import shop; print(shop.PRICE)'\n3\n```\n"
    )
    assert await run_page(page, tmp_path) == (0, "3\n")


def test_dots_stand_for_anything():
    assert matches("a…c\n…\nz\n", "abbbc\nx\ny\nz\n")
    assert matches("…\n", "") and matches("a\n", "a  \n")
    assert not matches("a…c\n", "abb\n") and not matches("a\nz\n", "a\nb\nz\n")

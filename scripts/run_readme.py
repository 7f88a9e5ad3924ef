"""Run a page's Python blocks with an installed Windlass: `python run_readme.py PAGE`.

Blocks that name a real provider talk to a fake one on loopback. A `text` block right after a Python
block is what it must print. Needs nothing but the installed package.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

from windlass.testing import FakeAnthropic

_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def run_program(code: str, base_url: str) -> str:
    """Run a program in a process of its own, and return its output."""
    env = os.environ | {"ANTHROPIC_API_KEY": "a-key-for-the-fake", "ANTHROPIC_BASE_URL": base_url}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0:
        sys.exit(f"{code}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


async def run_page(page: Path) -> int:
    """Run each block after those before it, as the page is read; return their number."""
    text = await asyncio.to_thread(page.read_text, "utf-8")
    before = ""
    shown = ""
    blocks = _BLOCK.findall(text)
    async with FakeAnthropic("19 + 23 is 42.") as server:
        for code, output in blocks:
            printed = await asyncio.to_thread(run_program, before + code, server.url)
            new = printed.removeprefix(shown)
            if output and new != output:
                sys.exit(f"{code}\nprinted\n{new}\nand {page.name} says\n{output}")
            if not new.strip():
                sys.exit(f"{code}\nprinted nothing")
            before, shown = before + code, printed
    return len(blocks)


if __name__ == "__main__":
    ran = asyncio.run(run_page(Path(sys.argv[1])))
    print(f"{ran} blocks of {Path(sys.argv[1]).name} ran")

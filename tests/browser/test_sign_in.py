"""A person signs in to an MCP server: `windlass mcp doctor` at a terminal, and a real browser.

Screenshots go to the folder that WINDLASS_SCREENSHOTS names, for somebody to look at.
"""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import INSTALL, Browser, Page, find
from tests.mcp_client.sign_in_servers import Servers

pytestmark = [pytest.mark.deep, pytest.mark.skipif(find() is None, reason=INSTALL)]
MAIN = "from windlass.cli.main import main; main()"
PATIENCE = 120  # seconds; only a broken sign-in makes a test wait for it


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    async with Servers() as started:
        yield started


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    async with Browser.start(tmp_path / "profile") as started:
        yield started


@pytest.fixture
def file(servers: Servers, tmp_path: Path) -> Path:
    """An `mcp.json` with the server, and a port for the way back."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    entry: dict[str, Any] = {"url": servers.url, "auth": {"redirect_port": port}}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"club": entry}}))
    return file


class Command:
    """A command of Windlass with a terminal for its input."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._said = folder, ""

    async def start(self, *args: str, terminal: bool = True) -> None:
        """Begin."""
        master, slave = pty.openpty()
        environ = {**os.environ, "XDG_STATE_HOME": str(self._folder), "COLUMNS": "60"}
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", MAIN, "mcp", *args),
            stdin=slave if terminal else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environ,
        )
        os.close(slave)
        os.close(master) if not terminal else None
        self._master = master if terminal else None

    async def read(self, pattern: str) -> str:
        """Read what it says until the pattern is there."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while not (found := re.search(pattern, self._said)):
                part = await self._process.stdout.read(4096)
                assert part, self._said
                self._said += part.decode()
        return found[1]

    async def end(self) -> tuple[int, str]:
        """Wait for the end; return its code and all that it said."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            self._said += (await self._process.stdout.read()).decode()
            code = await self._process.wait()
        if self._master is not None:
            os.close(self._master)
        return code, self._said


async def press(page: Page, button: str) -> None:
    """Press a button of the authorization server, and wait for the page that it leads to."""
    page.loaded.clear()
    await page.run(f"document.getElementById('{button}').click()")
    await asyncio.wait_for(page.loaded.wait(), PATIENCE)
    await page.drawn()


async def keep(page: Page, name: str) -> None:
    if folder := os.environ.get("WINDLASS_SCREENSHOTS"):
        await page.screenshot(Path(folder) / f"{name}.png")


async def test_sign_in_by_a_browser_is_kept_for_the_next_command(
    servers: Servers, browser: Browser, file: Path, tmp_path: Path
):
    doctor = Command(tmp_path)
    await doctor.start("doctor", "--mcp", str(file))
    page = await browser.open(await doctor.read(r"sign in here: (\S+)\s"))
    await press(page, "yes")
    text = await page.run("document.body.innerText")
    assert "Windlass may sign in" in text and "return to the terminal" in text
    code, said = await doctor.end()
    assert code == 0 and "works" in said and "members 1" in said
    # of the way back, nothing is in the page, in the address bar or in the history
    shown = await page.run("document.documentElement.outerHTML + location.href + document.referrer")
    history = await page.send("Page.getNavigationHistory")
    told = f"{shown} {history['entries'][-1]} {said}"
    assert not [one for one in servers.secrets if one in told]
    assert page.problems == []
    await keep(page, "sign-in")
    await page.dress("dark")
    await keep(page, "sign-in-dark")

    call = Command(tmp_path)
    await call.start("call", "club__whoami", "{}", "--mcp", str(file), terminal=False)
    code, said = await call.end()
    assert code == 0 and "a member with" in said
    assert servers.asked.count("authorize") == 1


async def test_sign_in_that_a_person_declines_is_told_at_both_places(
    servers: Servers, browser: Browser, file: Path, tmp_path: Path
):
    doctor = Command(tmp_path)
    await doctor.start("doctor", "--mcp", str(file))
    page = await browser.open(await doctor.read(r"sign in here: (\S+)\s"))
    await press(page, "no")
    assert "You are not signed in" in await page.run("document.body.innerText")
    await keep(page, "sign-in-declined")
    code, said = await doctor.end()
    assert code == 1 and "nobody signed in: access_denied" in said
    assert "Traceback" not in said

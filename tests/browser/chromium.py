"""A real browser, driven through its own debugging protocol: no driver to install.

`async with Browser.start(folder) as browser: page = await browser.open(file)`
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "needs a Chromium: apt-get install chromium, or WINDLASS_CHROMIUM=/path/to/chrome"


def find() -> str | None:
    """Find the browser of this machine."""
    given = os.environ.get("WINDLASS_CHROMIUM")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. `problems` is all that went wrong in it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str) -> None:
        self._socket, self._session = socket, session
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.problems: list[str] = []
        self.requested: list[str] = []
        self.loaded = asyncio.Event()

    async def send(self, method: str, **params: Any) -> Any:
        """Send a command of the protocol, and return its answer."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        command = {"id": number, "method": method, "params": params, "sessionId": self._session}
        await self._socket.send_json(command)
        return await asyncio.wait_for(self._answers[number], 60)

    def hear(self, message: dict[str, Any]) -> None:
        """Handle a message of the browser."""
        params = message.get("params", {})
        match message.get("method"):
            case None:
                future = self._answers.pop(message["id"], None)
                if future is not None and "error" in message:
                    future.set_exception(RuntimeError(str(message["error"])))
                elif future is not None:
                    future.set_result(message["result"])
            case "Page.loadEventFired":
                self.loaded.set()
            case "Runtime.exceptionThrown":
                self.problems.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.problems.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.problems.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requested.append(params["request"]["url"])
            case _:
                pass

    async def run(self, script: str) -> Any:
        """Evaluate an expression in the page."""
        done = await self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"]))
        return done["result"].get("value")

    async def drawn(self) -> None:
        """Wait until the page has been painted."""
        await self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    async def screenshot(self, file: Path) -> None:
        """Save a screenshot."""
        await self.drawn()
        shot = await self.send("Page.captureScreenshot", format="png")
        await asyncio.to_thread(_write, file, base64.b64decode(shot["data"]))

    async def key(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {}
        await self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        await self.send("Input.dispatchKeyEvent", type="keyUp", key=key)
        await self.drawn()

    async def dress(self, scheme: str) -> None:
        """Switch between the light and the dark scheme."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.send("Emulation.setEmulatedMedia", features=features)
        await self.drawn()


class Browser:
    """A browser without a window."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._pages: dict[str, Page] = {}
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1_000_000)

    @staticmethod
    @asynccontextmanager
    async def start(folder: Path) -> AsyncIterator[Browser]:
        """Start it with a profile of its own; gone at the end of the block."""
        command = find()
        assert command is not None
        flags = (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--disable-component-update",
            "--mute-audio",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
            "about:blank",
        )
        process = await asyncio.create_subprocess_exec(
            command, *flags, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        try:
            address = await asyncio.wait_for(_address(process), 60)
            async with aiohttp.ClientSession() as client:
                async with client.ws_connect(address, max_msg_size=0) as socket:
                    browser = Browser(socket)
                    reader = asyncio.create_task(browser._read())
                    try:
                        yield browser
                    finally:
                        reader.cancel()
                        await asyncio.wait({reader})
        finally:
            process.terminate()
            await process.wait()
            # the pipe's transport closes in the next steps of the loop
            await asyncio.sleep(0)

    async def open(self, place: Path | str, width: int = 1280, height: int = 800) -> Page:
        """Open a file or an address in a new tab."""
        target = await self._send("Target.createTarget", url="about:blank")
        attached = await self._send(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        page = self._pages[attached["sessionId"]] = Page(self._socket, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.send(f"{domain}.enable")
        await page.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        await page.dress("light")
        page.loaded.clear()
        address = place if isinstance(place, str) else place.as_uri()
        await page.send("Page.navigate", url=address)
        await asyncio.wait_for(page.loaded.wait(), 60)
        await page.drawn()
        return page

    async def _send(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        return await asyncio.wait_for(self._answers[number], 60)

    async def _read(self) -> None:
        async for message in self._socket:
            said = message.json()
            page = self._pages.get(said.get("sessionId", ""))
            if page is not None:
                page.hear(said)
            elif said.get("id") in self._answers:
                self._answers.pop(said["id"]).set_result(said.get("result"))


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        words = line.decode(errors="replace").strip()
        if words.startswith("DevTools listening on "):
            return words.removeprefix("DevTools listening on ")
    raise RuntimeError("the browser did not start")

"""Signing in to a server: the callback on loopback, the tokens that are kept, and what is told of them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

import windlass as w
from tests.mcp_client.sign_in_servers import Servers
from windlass.cli.mcp.client import ConsoleSide
from windlass.mcp.client.callback import sign_in_by_browser
from windlass.mcp.client.pool import McpPool
from windlass.mcp.client.servers import McpServer
from windlass.testing import scripted

Visit = Callable[[str], Awaitable[None]]


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    async with Servers() as started:
        yield started


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def fetch(address: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as client, client.get(address) as answer:
        return answer.status, await answer.text()


def accept(address: str) -> str:
    """The address behind the button of the page."""
    return address.replace("/authorize?", "/answer?yes=1&")


class Person:
    """Somebody with a browser, who is shown an address."""

    def __init__(self, visit: Visit) -> None:
        self._visit, self._task, self.shown = visit, None, list[str]()

    def see(self, address: str) -> None:
        self.shown.append(address)
        self._task = asyncio.create_task(self._go(address))

    async def _go(self, address: str) -> None:
        await self._visit(address)

    async def sign_in(self, address: str) -> str:
        back = await sign_in_by_browser(address, self.see)
        assert self._task is not None
        await self._task
        return back


def entry(servers: Servers, port: int) -> McpServer:
    return McpServer(name="club", url=servers.url, auth={"redirect_port": port})


async def call(server: McpServer, folder: Path, person: Person | None, **more: Any) -> str:
    pool = McpPool({"XDG_STATE_HOME": str(folder)}, str, **more)
    pool.sign_in = None if person is None else person.sign_in
    try:
        (connection,) = (await pool.connect([server], os.getcwd())).connections
        return (await connection.call("whoami", {}, ConsoleSide())).text
    finally:
        await pool.aclose()


async def test_sign_in_is_kept_and_the_page_shows_nothing_of_it(
    servers: Servers, port: int, tmp_path: Path
):
    pages: list[tuple[int, str]] = []

    async def visit(address: str) -> None:
        pages.append(await fetch(accept(address)))

    person = Person(visit)
    assert (
        await call(entry(servers, port), tmp_path, person) == f"a member with {servers.tokens[0]}"
    )
    ((status, page),) = pages
    assert status == 200 and "return to the terminal" in page
    assert not [one for one in servers.secrets if one in page]
    (file,) = (tmp_path / "windlass" / "mcp").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert await call(entry(servers, port), tmp_path, None) == f"a member with {servers.tokens[0]}"
    assert len(person.shown) == 1


async def test_sign_in_that_expired_is_renewed_by_the_server_that_gave_it(
    servers: Servers, port: int, tmp_path: Path
):
    async def visit(address: str) -> None:
        await fetch(accept(address))

    await call(entry(servers, port), tmp_path, Person(visit))
    (file,) = (tmp_path / "windlass" / "mcp").iterdir()
    kept = json.loads(file.read_text())
    kept["origin"]["expires_at"] = 1.0
    file.write_text(json.dumps(kept))
    servers.asked.clear()
    assert await call(entry(servers, port), tmp_path, None) == f"a member with {servers.tokens[1]}"
    assert servers.asked == ["token: refresh_token"]


async def test_sign_in_hears_only_the_answer_to_its_own_question(
    servers: Servers, port: int, tmp_path: Path
):
    place = f"http://127.0.0.1:{port}"
    seen: list[int] = []

    async def visit(address: str) -> None:
        wrong = (
            "/callback?code=evil",
            "/callback?code=evil&state=guess",
            "/callback?code=evil&state=%C3%A9",
            "/other?" + urlsplit(address).query,
            "//[",
        )
        for path in wrong:
            seen.append((await fetch(place + path))[0])
        _, silent = await asyncio.open_connection("127.0.0.1", port)  # as browsers open in advance
        _, endless = await asyncio.open_connection("127.0.0.1", port)
        endless.write(b"GET /callback?" + b"x" * (1 << 17))
        seen.append((await fetch(accept(address)))[0])
        silent.close()
        endless.close()

    assert "a member" in await call(entry(servers, port), tmp_path, Person(visit))
    assert seen == [400, 400, 400, 404, 404, 200]


async def test_sign_in_that_is_declined_says_so(servers: Servers, port: int, tmp_path: Path):
    pages: list[str] = []

    async def visit(address: str) -> None:
        pages.append((await fetch(address.replace("/authorize?", "/answer?no=1&")))[1])

    with pytest.raises(w.McpError, match="nobody signed in: access_denied"):
        await call(entry(servers, port), tmp_path, Person(visit))
    assert "You are not signed in" in pages[0]


async def test_sign_in_on_a_port_that_is_taken_names_the_fix(
    servers: Servers, port: int, tmp_path: Path
):
    async def visit(address: str) -> None:
        raise AssertionError("nothing is shown")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(w.McpError, match=f"port {port}.*redirect_port"):
            await call(entry(servers, port), tmp_path, Person(visit))


async def test_sign_in_takes_longer_than_a_server_may_take_to_start(
    servers: Servers, port: int, tmp_path: Path
):
    async def visit(address: str) -> None:
        await asyncio.sleep(1.2)  # real time: the limit below is of the real connection
        await fetch(accept(address))

    server = McpServer(name="club", url=servers.url, auth={"redirect_port": port}, timeout=1.0)
    assert "a member" in await call(server, tmp_path, Person(visit))


@pytest.mark.parametrize(
    "answer", [{"expires_in": 5}, {"access_token": ["TOKEN-9"]}, {"status": 400, "hint": "TOKEN-9"}]
)
async def test_sign_in_whose_tokens_cannot_be_read_leaks_none(
    servers: Servers,
    port: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    answer: dict[str, Any],
):
    servers.token_answer = answer

    async def visit(address: str) -> None:
        await fetch(accept(address))

    with caplog.at_level(logging.DEBUG), pytest.raises(w.McpError) as caught:
        await call(entry(servers, port), tmp_path, Person(visit))
    told = f"{caught.value} {caplog.text}"
    assert not [one for one in (*servers.secrets, "TOKEN-9") if one in told]
    assert "oken" in str(caught.value)


async def test_sign_in_leaves_no_token_in_the_journal(
    servers: Servers, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def visit(address: str) -> None:
        await fetch(accept(address))

    await call(entry(servers, port), tmp_path, Person(visit))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    model = scripted(w.ToolCall("1", "club__whoami", {}), "done")
    out = await w.agent_loop("who?", model=model, mcp_servers=[entry(servers, port)])
    assert "a member with" in str(out.entries)
    assert servers.tokens[0] not in str(out.entries)


async def test_sign_in_is_asked_for_by_a_run_without_a_token(
    servers: Servers, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(w.McpError, match="windlass mcp doctor --server club"):
        await w.agent_loop("who?", model=scripted("x"), mcp_servers=[entry(servers, port)])

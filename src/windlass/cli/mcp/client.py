"""`windlass mcp list`, `call` and `doctor`: look at MCP servers and use them without an agent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from windlass import seams
from windlass.cli.console import err, out
from windlass.cli.main import debug_option
from windlass.cli.mcp.fields import ask_fields
from windlass.cli.options import json_option
from windlass.cli.redaction import secrets_here
from windlass.cli.text import clean, one_line
from windlass.errors import ConfigError, McpError, PermissionDenied, nearest
from windlass.json_types import JsonObject, is_object
from windlass.mcp.client.callback import sign_in_by_browser
from windlass.mcp.client.offer import Question, Round
from windlass.mcp.client.pool import Connected, McpPool
from windlass.mcp.client.servers import McpServer, check_servers
from windlass.mcp.client.tools import build_name

if TYPE_CHECKING:
    from windlass.mcp.client.connection import Connection

T = TypeVar("T")

_file_option = click.option(
    "--mcp", "files", multiple=True, metavar="FILE", help="An mcp.json. May be repeated."
)
_url_option = click.option("--url", metavar="URL", help="A server over streamable HTTP.")
_server_option = click.option("--server", metavar="NAME", help="One server of the file.")
_command_argument = click.argument("command", nargs=-1, metavar="[-- COMMAND…]")


@click.command("list")
@_file_option
@_url_option
@_server_option
@json_option
@debug_option
@_command_argument
def list_(
    files: tuple[str, ...],
    url: str | None,
    server: str | None,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """List the tools, resources and prompts of MCP servers.

    \b
      windlass mcp list --mcp mcp.json
      windlass mcp list -- npx -y @modelcontextprotocol/server-everything
    """
    servers = _choose_servers(files, url, server, command)

    async def look(connected: Connected) -> list[JsonObject]:
        return [await _describe(one) for one in connected.connections]

    found = asyncio.run(_with_servers(servers, look))
    if as_json:
        out().json(found)
        return
    for one in found:
        out().line((f"{one['server']}  ", "bold"), clean(f"{one['title']} ({one['protocol']})"))
        for kind in ("tools", "resources", "prompts"):
            for name, words in one[kind].items():
                out().line(
                    f"  {kind[:-1]:<9}", one_line(name, 60), ("  " + one_line(words, 80), "dim")
                )


async def _describe(connection: Connection) -> JsonObject:
    listing, name = connection.listing, connection.server.name
    resources = await connection.list_resources() if listing.has_resources else []
    prompts = await connection.list_prompts() if listing.has_prompts else []
    return {
        "server": name,
        "title": listing.title,
        "protocol": listing.protocol,
        "tools": {build_name(name, one.name): one.description for one in listing.tools},
        "resources": {
            str(one.get("uri") or one.get("uriTemplate")): str(one.get("name", ""))
            for one in resources
        },
        "prompts": {one.name: one.description for one in prompts},
    }


@click.command()
@click.argument("tool")
@click.argument("arguments", default="{}")
@_file_option
@_url_option
@json_option
@debug_option
@_command_argument
def call(
    tool: str,
    arguments: str,
    files: tuple[str, ...],
    url: str | None,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Call a tool of an MCP server.

    TOOL is `server__tool` or `tool`, ARGUMENTS a JSON object. Exit code 1 for an error result.

    \b
      windlass mcp call files__read_text_file '{"path": "README.md"}' --mcp mcp.json
      windlass mcp call echo '{"message": "hi"}' -- npx -y @modelcontextprotocol/server-everything
    """
    try:
        given: object = json.loads(arguments)
    except ValueError as error:
        raise click.UsageError(f"ARGUMENTS is a JSON object: {error}") from None
    if not is_object(given):
        raise click.UsageError("ARGUMENTS is a JSON object")
    wanted, _, rest = tool.partition("__")
    servers = _choose_servers(files, url, None, command)
    if rest and any([one.name == wanted for one in servers]):
        servers, tool = [one for one in servers if one.name == wanted], rest

    async def make_call(connected: Connected) -> tuple[str, bool]:
        for one in connected.connections:
            if any([listed.name == tool for listed in one.listing.tools]):
                answer = await one.call(tool, given, ConsoleSide())
                return answer.text, answer.is_error
        known = [listed.name for one in connected.connections for listed in one.listing.tools]
        raise ConfigError(f"there is no tool {tool!r}{nearest(tool, known)}")

    text, failed = asyncio.run(_with_servers(servers, make_call))
    if as_json:
        out().json({"result": text, "is_error": failed})
    else:
        click.echo(clean(text))
    click.get_current_context().exit(1 if failed else 0)


@click.command()
@_file_option
@_url_option
@_server_option
@json_option
@debug_option
@_command_argument
def doctor(
    files: tuple[str, ...],
    url: str | None,
    server: str | None,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Start MCP servers and say what they speak, or why they fail; sign in to them.

    At a terminal, a server with `auth` is signed in to. Exit code 1 when one of them failed.
    """
    rows: list[JsonObject] = []

    async def examine(one: McpServer) -> None:
        started = seams.monotonic()
        row: JsonObject = {"server": one.name, "place": one.place}
        try:
            row |= await _with_servers([one], _count)
        except (McpError, ConfigError) as error:
            row["problem"] = str(error)
        row["seconds"] = round(seams.monotonic() - started, 2)
        rows.append(row)

    async def examine_all() -> None:
        for one in _choose_servers(files, url, server, command):
            await examine(one)

    asyncio.run(examine_all())
    if as_json:
        out().json(rows)
    for row in () if as_json else rows:
        problem = row.get("problem")
        words = f"{row['seconds']:.2f} s  " + one_line(
            problem or f"{row['title']} ({row['protocol']}), {row['tools']} tools", 2000
        )
        mark = ("failed  ", "red") if problem else ("works   ", "green")
        out().line(mark, (f"{row['server']}  ", "bold"), clean(words))
    click.get_current_context().exit(1 if any(["problem" in row for row in rows]) else 0)


async def _count(connected: Connected) -> JsonObject:
    listing = connected.connections[0].listing
    return {
        "title": listing.title,
        "protocol": listing.protocol,
        "tools": len(listing.tools),
        "resources": listing.has_resources,
        "prompts": listing.has_prompts,
    }


def _choose_servers(
    files: tuple[str, ...], url: str | None, server: str | None, command: tuple[str, ...]
) -> list[McpServer]:
    """Return the servers of the files, of an address or of a command."""
    if sum([bool(files), url is not None, bool(command)]) != 1:
        raise click.UsageError("which server? Give --mcp FILE, --url URL, or -- COMMAND…")
    given: object = [os.path.join(".", one) for one in files]
    if url is not None:
        given = {"server": {"url": url}}
    elif command:
        given = {"server": {"command": command[0], "args": list(command[1:])}}
    found = [one for one in check_servers("--mcp", given) if isinstance(one, McpServer)]
    if server is not None:
        names = [one.name for one in found]
        if server not in names:
            raise click.UsageError(f"no server {server!r}{nearest(server, names)}")
        found = [one for one in found if one.name == server]
    return found


async def _with_servers(servers: list[McpServer], look: Callable[[Connected], Awaitable[T]]) -> T:
    pool = McpPool(os.environ, secrets_here().text)
    if sys.stdin.isatty():
        pool.sign_in = _OneByOne().sign_in
    try:
        return await look(await pool.connect(servers, os.getcwd()))
    finally:
        await pool.aclose()


class _OneByOne:
    """A person signs in to one server after the other: all send the browser back to one port."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def sign_in(self, address: str) -> str:
        """Show the address to a person, and wait for their browser."""

        def show(one: str) -> None:
            err().line(f"sign in here: {clean(one)}")

        async with self._turn:
            return await sign_in_by_browser(address, show)


class ConsoleSide:
    """A call that a person at a terminal makes: questions are put to them."""

    owner = "terminal"
    round: Round | None = None

    @property
    def roots(self) -> tuple[str, ...]:
        """The current folder."""
        return (os.getcwd(),)

    def progress(self, data: JsonObject) -> None:
        """Show the progress."""
        err().line((one_line(str(data.get("message") or data.get("progress", "")), 100), "dim"))

    async def elicit(self, asked: Question) -> JsonObject:
        """Ask the person for each field; without a terminal nobody answers."""
        if not sys.stdin.isatty():
            return {"action": "cancel"}
        err().line(clean(f"{asked.server} asks: {asked.message}"))
        if asked.url is not None:
            err().line(clean(asked.url))
        if not click.confirm("answer?", default=True, err=True):
            return {"action": "decline"}
        content = await asyncio.to_thread(ask_fields, asked.schema)
        return (
            {"action": "accept", "content": content} if asked.url is None else {"action": "accept"}
        )

    async def sample(self, request: JsonObject) -> JsonObject:
        """Refuse: there is no run whose model could be asked."""
        raise PermissionDenied("there is no run whose model could be asked")

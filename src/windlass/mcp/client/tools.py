"""The tools of MCP servers: `<server>__<tool>`, with the schema as the server wrote it."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Iterable
from hashlib import sha256
from typing import Any, Final, Protocol

from windlass.errors import ConfigError, McpError
from windlass.json_types import JsonObject
from windlass.loop.run import Run
from windlass.mcp.client.call_side import RunSide, build_parked
from windlass.mcp.client.offer import CallParked, CallSide, ListedTool, Listing
from windlass.mcp.client.servers import McpServer
from windlass.messages import Document, Image, Text, ToolResult
from windlass.tools.result import refusal
from windlass.tools.tool import Parked, Tool, ToolContext

log = logging.getLogger("windlass.mcp")
LONGEST_NAME: Final = 64
#: Annotations of a tool that say which server it is from, and which tool of it.
SERVER, TOOL, DIGEST = "mcp_server", "mcp_tool", "mcp_digest"
_OTHER: Final = re.compile(r"[^a-zA-Z0-9_-]")
_UNKNOWN: Final = " It is not known whether it took effect: check before trying again."


class ServerConnection(Protocol):
    """A server, as far as its tools need it."""

    @property
    def server(self) -> McpServer: ...

    @property
    def listing(self) -> Listing: ...

    def call(self, name: str, arguments: JsonObject, side: CallSide) -> Awaitable[ToolResult]: ...

    def list_resources(self) -> Awaitable[list[JsonObject]]: ...

    def read_resource(self, uri: str) -> Awaitable[list[Text | Image | Document]]: ...


def build_name(server: str, tool: str) -> str:
    """Build the name of a tool: at most 64 letters, digits, `_` and `-`."""
    name = _OTHER.sub("_", f"{server}__{tool}")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}_{sha256(tool.encode()).hexdigest()[:8]}"


class McpTool(Tool):
    """A tool of a server; its calls go to the server."""

    __slots__ = ("_connection", "listed", "roots")

    def __init__(
        self,
        name: str,
        listed: ListedTool,
        connection: ServerConnection,
        roots: tuple[str, ...],
    ) -> None:
        server = connection.server
        self.listed, self.roots, self._connection = listed, roots, connection
        annotations = {**listed.hints, SERVER: server.name, TOOL: listed.name}
        annotations[DIGEST] = listed.digest
        reads = listed.hints.get("readOnlyHint") is True
        if server.trust == "trusted":
            annotations["result"] = "trusted"
            if reads:
                annotations["side_effect_level"] = "read_only"
        options: JsonObject = {
            "annotations": annotations,
            "timeout": server.timeout,
            # What may be called again with the same effect is called again after a crash. The word of
            # an untrusted server does not make its tool one that is called before anybody is asked.
            "keyed": reads or listed.hints.get("idempotentHint") is True,
        }
        self._begin(name, listed.description, options)
        self.handler, self.is_async, self.wants_context = self._call_server, True, True
        self._offer(listed.input_schema, listed.description)
        self._first_check({})

    async def _call_server(
        self, arguments: JsonObject, ctx: ToolContext[Any]
    ) -> ToolResult | Parked:
        known, connection = self.listed.name, self._connection
        listing = connection.listing
        if listing.number and all([one.name != known for one in listing.tools]):
            return refusal(f"{self.name} is no longer offered by its server")
        side = RunSide(ctx, self, connection.server.name, known, self.roots)
        try:
            return await connection.call(known, arguments, side)
        except CallParked as parked:
            return build_parked(parked)
        except McpError as error:
            if not error.is_lost or self.effect == "read_only" or self.keyed:
                raise
            return ToolResult(content=f"{error}{_UNKNOWN}", is_error=True, outcome="interrupted")

    def _parking(self, parked: Parked) -> Parked:
        """Park a call that waits for an answer; a plain tool may, since it is asked about again."""
        return parked


def build_tools(connections: Iterable[ServerConnection], roots: tuple[str, ...]) -> list[Tool]:
    """Build the tools that the servers offer now, as `allow` and `deny` of each leave them."""
    found: dict[str, Tool] = {}
    readable: list[ServerConnection] = []
    for connection in connections:
        server = connection.server
        if connection.listing.has_resources:
            readable.append(connection)
        for listed in connection.listing.tools:
            name = build_name(server.name, listed.name)
            if name in found:
                digest = sha256(listed.name.encode()).hexdigest()[:8]
                name = f"{name[: LONGEST_NAME - 9]}_{digest}"
            try:
                found[name] = McpTool(name, listed, connection, roots)
            except ConfigError as error:
                log.warning("%s: %s is left out: %s", server.name, listed.name, error)
    tools = list(found.values())
    return [*tools, *_build_resource_tools(readable)] if readable else tools


def _build_resource_tools(connections: list[ServerConnection]) -> list[Tool]:
    by_name = {one.server.name: one for one in connections}
    trusted = all([one.server.trust == "trusted" for one in connections])
    names = {"type": "string", "enum": sorted(by_name), "description": "the server"}

    async def list_all(arguments: JsonObject) -> list[JsonObject]:
        wanted = arguments.get("server")
        chosen = connections if wanted is None else [by_name[wanted]]
        rows: list[JsonObject] = []
        for one in chosen:
            rows += [{"server": one.server.name, **row} for row in await one.list_resources()]
        return rows

    async def read(arguments: JsonObject) -> ToolResult:
        blocks = await by_name[arguments["server"]].read_resource(arguments["uri"])
        return ToolResult(content=tuple(blocks))

    annotations = {
        "result": "trusted" if trusted else "untrusted",
        "side_effect_level": "read_only",
        "kind": "read",
    }
    return [
        Tool(
            "mcp_resource_list",
            "List the resources that the MCP servers offer.",
            {"type": "object", "properties": {"server": names}},
            list_all,
            annotations=annotations,
        ),
        Tool(
            "mcp_resource_read",
            "Read a resource of an MCP server.",
            {
                "type": "object",
                "properties": {"server": names, "uri": {"type": "string"}},
                "required": ["server", "uri"],
            },
            read,
            annotations=annotations,
        ),
    ]


def find_vanished(run: Run, offered: Iterable[str], known: Iterable[str]) -> dict[str, Tool]:
    """Build stand-ins for tools that a server offered before: a call is answered, and not unknown."""
    now = {*offered, *run.tools}
    return {name: _build_vanished(name) for name in known if name not in now}


def _build_vanished(name: str) -> Tool:
    async def answer(_arguments: JsonObject) -> ToolResult:
        return refusal(f"{name} is no longer offered by its server", "unknown_tool")

    return Tool(name, "", {"type": "object"}, answer, side_effect_level="none")

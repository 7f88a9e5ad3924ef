"""`windlass mcp serve`: tools, agents and resources for MCP clients, over stdio or HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address

import click

from windlass.access.caller import Caller
from windlass.agents.agent import Agent
from windlass.cli.imports import import_object
from windlass.cli.main import debug_option
from windlass.cli.options import store_option
from windlass.cli.store_location import find_place
from windlass.errors import ConfigError
from windlass.json_types import is_sequence
from windlass.mcp.server.service import McpService
from windlass.runtime.runtime import Runtime
from windlass.tools.function import as_tools
from windlass.tools.registry import ToolRegistry


@click.command()
@click.argument("target", metavar="MODULE:OBJECT")
@click.option("--http", is_flag=True, help="Serve streamable HTTP in place of stdin and stdout.")
@click.option(
    "--host", default="127.0.0.1", metavar="ADDRESS", help="With --http: where to listen."
)
@click.option("--port", default=8765, type=click.IntRange(0, 65535), help="With --http; 0: any.")
@click.option("--path", default="/mcp", help="With --http: the path of the address.")
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="A name that clients use for it."
)
@click.option(
    "--origin", "origins", multiple=True, metavar="URL", help="An origin whose pages may ask."
)
@click.option(
    "--identify", metavar="MODULE:FUNCTION", help="fn(headers): the Caller, or None for nobody."
)
@click.option("--caller", metavar="NAME", help="Who every client is, on this machine.")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="A role of --caller.")
@click.option("--tenant", metavar="NAME", help="The tenant of --caller.")
@store_option
@debug_option
def serve(
    target: str,
    http: bool,
    host: str,
    port: int,
    path: str,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    identify: str | None,
    caller: str | None,
    roles: tuple[str, ...],
    tenant: str | None,
    store: str | None,
) -> None:
    """Serve an application to MCP clients: a McpService, a Runtime, an Agent, or tools.

    \b
      windlass mcp serve shop:scope                       one client, at stdin and stdout
      windlass mcp serve shop:scope --http --caller ann   on this machine, as ann
      windlass mcp serve shop:service --http --host 0.0.0.0 --allow-host mcp.example.com
    """
    if caller is None and (roles or tenant):
        raise ConfigError("--role and --tenant belong to --caller NAME")
    if not http and (identify or hosts or origins):
        raise ConfigError("--identify, --allow-host and --origin are for --http")
    who = None if caller is None else Caller(caller, roles, tenant)
    service = build_service(import_object(target, "MODULE:OBJECT"), identify, who, store)
    if not http:
        asyncio.run(service.serve_stdio())
        return
    if not _is_loopback(host) and service.identify is None:
        raise ConfigError(
            "a server that others reach must know who asks: --identify MODULE:FUNCTION"
        )
    click.echo(f"serving MCP at http://{host}:{port}{path}", err=True)
    asyncio.run(service.serve_http(host=host, port=port, hosts=hosts, origins=origins, path=path))


def build_service(
    thing: object, identify: str | None, caller: Caller | None, store: str | None
) -> McpService:
    """Build the service of whatever an option names."""
    function = None if identify is None else import_object(identify, "--identify")
    if isinstance(thing, McpService):
        if store is not None:
            raise ConfigError("a McpService has its own Runtime and store: leave out --store")
        thing.identify = function or thing.identify
        thing.caller = caller or thing.caller
        return thing
    if isinstance(thing, Runtime):
        if store is not None:
            raise ConfigError("a Runtime has its own store: leave out --store")
        return McpService(thing, identify=function, caller=caller)
    place = find_place(store)
    place.prepare()
    if isinstance(thing, Agent):
        runtime = Runtime(store=place.open())
        agents: list[object] = [thing]
        return McpService(runtime, agents=agents, identify=function, caller=caller)
    listed: Sequence[object] = (
        list(thing) if is_sequence(thing) or isinstance(thing, ToolRegistry) else [thing]
    )
    runtime = Runtime(store=place.open(), tools=as_tools(listed))
    return McpService(runtime, identify=function, caller=caller)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

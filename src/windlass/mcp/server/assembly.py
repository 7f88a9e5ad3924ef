"""From a service to a server on the SDK: over HTTP, or over stdin and stdout."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, redirect_stdout

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from windlass.access.caller import Caller
from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.mcp.server.handlers import Handlers, build_server
from windlass.mcp.server.http import Access, HttpApp
from windlass.mcp.server.open_calls import OpenCalls
from windlass.mcp.server.run import CallRuns
from windlass.mcp.server.service import McpService
from windlass.server.identify import Identify


def assemble_server(service: McpService, caller: Caller | None) -> Server[JsonObject]:
    """Build the server; `caller` speaks where no request says who it is."""
    runs = CallRuns(
        service.catalog,
        service.options,
        client_decisions=service.client_decisions,
        expose_errors=service.expose_errors,
    )
    calls = OpenCalls(service.max_calls, service.call_timeout)
    handlers = Handlers(service.catalog, runs, calls, caller=caller, may_park=service.may_park)

    @asynccontextmanager
    async def run_calls(_server: Server[JsonObject]) -> AsyncGenerator[JsonObject]:
        async with service.runtime:
            try:
                yield {}
            finally:
                await calls.aclose()

    return build_server(
        handlers,
        name=service.name,
        instructions=service.instructions,
        state_keys=service.state_keys,
        lifespan=run_calls,
    )


def build_app(
    service: McpService,
    *,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    path: str,
    max_body_bytes: int,
    body_timeout: float,
) -> HttpApp:
    """Build the ASGI app of a service."""
    access = Access(
        hosts=tuple([host.lower() for host in hosts]),
        origins=origins,
        path=path,
        max_body_bytes=max_body_bytes,
        body_timeout=body_timeout,
    )
    return HttpApp(assemble_server(service, None), _identify(service, hosts), access)


def _identify(service: McpService, hosts: tuple[str, ...]) -> Identify:
    if service.identify is not None:
        return service.identify
    caller = service.caller
    if caller is None:
        raise ConfigError(
            "over HTTP somebody must say who asks: identify=fn(headers), or caller= for a server on the loopback"
        )
    if hosts:
        raise ConfigError("a server that others reach must know who asks: identify=fn(headers)")

    def answer(_headers: Mapping[str, str]) -> Caller:
        return caller

    return answer


@asynccontextmanager
async def _print_to_stderr() -> AsyncGenerator[None]:
    with redirect_stdout(sys.stderr):
        yield


async def serve_stdio(service: McpService) -> None:
    """Serve stdin and stdout; what tools print goes to stderr meanwhile."""
    server = assemble_server(service, service.caller or Caller.local())
    # What is still in Python's buffer at the end would reach the client.
    async with stdio_server() as (read, write), _print_to_stderr():
        await server.run(read, write, server.create_initialization_options())


async def serve_app(app: HttpApp, host: str, port: int) -> None:
    """Serve HTTP until a signal; calls that are under way then are cancelled."""
    config = uvicorn.Config(
        app, host=host, port=port, log_config=None, access_log=False, timeout_graceful_shutdown=2
    )
    await uvicorn.Server(config).serve()

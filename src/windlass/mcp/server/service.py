"""`McpService`: tools, resources, prompts and agents of an application for MCP clients."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from windlass.access.caller import Caller
from windlass.errors import ConfigError, safe_repr
from windlass.generate.options import parse_generate_options
from windlass.json_types import JsonObject, as_given
from windlass.mcp.server.catalog import Catalog, McpResource
from windlass.runtime.runtime import Runtime

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from windlass.generate.keywords import GenerateOpts
    from windlass.mcp.server.http import HttpApp
    from windlass.server.identify import Identify

#: Options of `generate` that a call of a client has no use for.
_NOT_HERE: Final = (
    "model",
    "tools",
    "caller",
    "session_id",
    "conversation",
    "on_event",
    "max_tool_iterations",
    "tool_mode",
    "include_tool_trace",
    "system",
    "store",
    "run_id",
)
_RESULT_BYTES: Final = 4 << 20  # of a result that a client is sent


class _Assembly(Protocol):
    """The module that builds a server on the SDK."""

    def build_app(
        self,
        service: McpService,
        *,
        hosts: tuple[str, ...],
        origins: tuple[str, ...],
        path: str,
        max_body_bytes: int,
        body_timeout: float,
    ) -> HttpApp:
        """Build the ASGI app."""
        ...

    def assemble_server(self, service: McpService, caller: Caller | None) -> Server[JsonObject]:
        """Build the SDK's server."""
        ...

    async def serve_app(self, app: HttpApp, host: str, port: int) -> None:
        """Serve HTTP."""
        ...

    async def serve_stdio(self, service: McpService) -> None:
        """Serve stdin and stdout."""
        ...


class McpService:
    """What an MCP server offers, to whom, and within which limits.

    ```python
    service = McpService(scope, agents=[helper], prompts=[review], identify=who)
    app = service.app()             # uvicorn shop:app, or: windlass mcp serve shop:service --http
    ```
    It offers the tools and exported resources of the Runtime, and more: `agents` as tools, `prompts`
    (functions), and `resources` (functions under `@mcp_resource`). `call_options` are those of `generate` for
    every call: `{"approval_policy": …, "permissions": …, "max_cost_usd": 0.5, "tool_timeout": 30}`.

    `identify(headers)` answers the `Caller` of a request over HTTP, or None for nobody. `caller` is who speaks on
    a connection without headers (stdio), by default the host itself; without `identify` it is who speaks over HTTP
    on this machine. `client_decisions=False` asks nobody at the client to approve calls.
    `call_timeout` are the seconds of a call; `max_calls` how many a caller has at a time.
    With `expose_errors` clients read what a tool raised, in place of an id that the log explains. `state_keys` are
    secrets of at least 32 characters, shared by processes that serve the same clients.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        agents: Sequence[object] = (),
        prompts: Sequence[object] = (),
        resources: Sequence[McpResource] = (),
        identify: Identify | None = None,
        caller: Caller | None = None,
        name: str = "windlass",
        instructions: str | None = None,
        client_decisions: bool = True,
        expose_errors: bool = False,
        call_timeout: float | None = 600.0,
        max_calls: int = 32,
        state_keys: Sequence[str] = (),
        call_options: GenerateOpts | None = None,
    ) -> None:
        if not isinstance(as_given(runtime), Runtime):
            raise ConfigError(f"runtime is a Runtime, not {safe_repr(runtime)}")
        if identify is not None and not callable(as_given(identify)):
            raise ConfigError("identify is fn(headers) that answers a Caller, or None for nobody")
        self.runtime, self.identify, self.caller = runtime, identify, caller
        self.name, self.instructions = name, instructions
        self.client_decisions, self.expose_errors = client_decisions, expose_errors
        self.call_timeout, self.max_calls = call_timeout, max_calls
        self.state_keys = _check_keys(state_keys)
        self.options = _check_options({**(call_options or {})})
        self.catalog = Catalog(runtime, agents, prompts, resources)

    @property
    def may_park(self) -> bool:
        """Whether a call may wait for somebody, so that clients need the tool that goes on."""
        if any(name in self.options for name in ("approval_policy", "permissions", "taint")):
            return True
        tools = self.catalog.all_tools()
        return bool(self.catalog.agents) or any(
            tool.requires_approval or tool.handler is None for tool in tools
        )

    def app(
        self,
        *,
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
        path: str = "/mcp",
        max_body_bytes: int = 4 << 20,
        body_timeout: float = 30.0,
    ) -> HttpApp:
        """Build the ASGI app of the streamable HTTP transport, for both eras of the protocol.

        Requests for other names than those of the loopback are refused unless `hosts` has the name; those of pages
        in browsers unless they are this server's own or among `origins`.
        """
        return _load_assembly().build_app(
            self,
            hosts=tuple(hosts),
            origins=tuple(origins),
            path=path,
            max_body_bytes=max_body_bytes,
            body_timeout=body_timeout,
        )

    def build_server(self, caller: Caller | None = None) -> Server[JsonObject]:
        """Build the SDK's own server, for its clients in the same process: `Client(service.build_server())`."""
        who = caller or self.caller or Caller.local()
        return _load_assembly().assemble_server(self, who)

    async def serve_http(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 8765,
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
        path: str = "/mcp",
    ) -> None:
        """Serve HTTP with uvicorn, on the loopback unless another address is given."""
        app = self.app(hosts=hosts, origins=origins, path=path)
        await _load_assembly().serve_app(app, host, port)

    async def serve_stdio(self) -> None:
        """Serve the one client at stdin and stdout, until it leaves."""
        await _load_assembly().serve_stdio(self)


def _load_assembly() -> _Assembly:
    """Load the modules that need the SDK; most programs that import this package serve nothing."""
    try:
        return cast("_Assembly", import_module("windlass.mcp.server.assembly"))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigError(
            "the MCP server needs the official SDK: pip install 'windlass[mcp]'"
        ) from None


def _check_options(given: JsonObject) -> JsonObject:
    for name in _NOT_HERE:
        if name in given:
            raise ConfigError(
                f"call_options has no {name!r}: a client names the tool, and the server who calls"
            )
    parse_generate_options(given)
    return {"tool_result_max_bytes": _RESULT_BYTES, **given}


def _check_keys(given: Sequence[str]) -> tuple[str, ...]:
    keys = tuple(given)
    if isinstance(given, str) or any(len(key) < 32 for key in keys):
        raise ConfigError("state_keys is a list of secrets, each of at least 32 characters")
    return keys

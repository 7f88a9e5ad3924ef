"""The option `mcp_servers`."""

from __future__ import annotations

from typing import Annotated

from windlass.mcp.client.servers import McpServer, check_servers
from windlass.options.group import Flag, Option, OptionGroup


class McpOptions(OptionGroup, frozen=True, kw_only=True):
    """MCP servers whose tools join those of the run."""

    mcp_servers: Annotated[
        tuple[McpServer | str, ...],
        Option(
            check_servers,
            scope="start",
            accepts="Mapping[str, Any] | Sequence[Any] | str | os.PathLike[str] | McpServer | None",
            flags=(
                Flag(
                    names=("--mcp",),
                    metavar="FILE",
                    repeats=True,
                    words="MCP servers: an mcp.json as editors write it.",
                    note="May be repeated.",
                ),
            ),
            in_file=False,
        ),
    ] = ()
    """MCP servers, in the form editors use: `{"files": {"command": "npx", "args": […]}}`, or a file."""

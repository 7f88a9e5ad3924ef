"""The MCP server: tools, resources, prompts and agents of an application for outside clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.mcp.server.catalog import McpPrompt as McpPrompt
    from windlass.mcp.server.catalog import McpResource as McpResource
    from windlass.mcp.server.catalog import mcp_prompt as mcp_prompt
    from windlass.mcp.server.catalog import mcp_resource as mcp_resource
    from windlass.mcp.server.peer import McpPeer as McpPeer
    from windlass.mcp.server.peer import mcp_peer as mcp_peer
    from windlass.mcp.server.service import McpService as McpService
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "McpPeer": "mcp.server.peer",
            "McpPrompt": "mcp.server.catalog",
            "McpResource": "mcp.server.catalog",
            "McpService": "mcp.server.service",
            "mcp_peer": "mcp.server.peer",
            "mcp_prompt": "mcp.server.catalog",
            "mcp_resource": "mcp.server.catalog",
        },
    )

__all__ = [
    "McpPeer",
    "McpPrompt",
    "McpResource",
    "McpService",
    "mcp_peer",
    "mcp_prompt",
    "mcp_resource",
]

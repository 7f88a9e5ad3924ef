"""The Model Context Protocol: servers that runs use (`client`), and our tools as a server (`server`).

Needs `windlass[mcp]`. The SDK is imported only when a server is started or served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.mcp.client.servers import McpServer as McpServer
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "McpServer": "mcp.client.servers",
        },
    )

# Written by scripts/make_stub.py.
__all__ = ["McpServer"]

"""A small MCP server over HTTP that answers with plain JSON, well or badly."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

TOOL = {"name": "bad", "inputSchema": {"type": "object"}}
ADD = {"name": "add", "inputSchema": {"type": "object"}}


class JsonServer:
    """Serves at `url`; `way` says how the tool `bad` is answered."""

    def __init__(self, way: str) -> None:
        self.way, self.url = way, ""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> JsonServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            size = next((line for line in head.splitlines() if "content-length" in line), ":0")
            body = await reader.readexactly(int(size.split(":")[1]))
            if not head.startswith("post"):
                writer.write(b"HTTP/1.1 405 no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            else:
                await self._answer(json.loads(body), writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has heard enough
        finally:
            writer.close()

    async def _answer(self, message: Any, writer: asyncio.StreamWriter) -> None:
        if "id" not in message:
            writer.write(b"HTTP/1.1 202 ok\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return
        result = self._find_result(message)
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if result is None:
            said["error"] = {"code": -32601, "message": "no such method"}
        else:
            said["result"] = result
        body, more = json.dumps(said).encode(), ""
        bad = message["method"] == "tools/call" and message["params"]["name"] == "bad"
        if bad and self.way == "large":
            body = body[:-1] + b" " * (17 << 20) + b"}"
        elif bad and self.way == "compressed":
            body, more = gzip.compress(body), "content-encoding: gzip\r\n"
        head = (
            f"HTTP/1.1 200 ok\r\ncontent-type: application/json\r\n{more}connection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)

    def _find_result(self, message: Any) -> Any:
        match message["method"]:
            case "initialize":
                return {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "json", "version": "1"},
                }
            case "tools/list":
                return {"tools": [TOOL, ADD]}
            case "tools/call":
                return {"content": [{"type": "text", "text": "fine"}]}
            case _:
                return None

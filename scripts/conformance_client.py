"""The client that the conformance kit runs: one scenario against the server of the last argument.

It goes the way of a run: a `Runtime`, an agent with `mcp_servers`, and a scripted model that calls what
the scenario expects.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from typing import Any
from urllib.parse import urljoin

import httpx2

import windlass as w
from windlass.testing import scripted

#: The calls of each scenario; the others list the tools and call the first.
CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "initialize": [],
    "request-metadata": [],
    "tools_call": [("add_numbers", {"a": 5, "b": 3})],
    "sse-retry": [("test_reconnection", {})],
    "elicitation-sep1034-client-defaults": [("test_client_elicitation_defaults", {})],
}
#: The tools of the scenario `json-schema-2020-12-preservation`.
ECHO, RICH = "json_schema_echo", "json_schema_2020_12_tool"


def read_context() -> dict[str, Any]:
    """Read what the kit tells about the scenario."""
    found = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    return found if isinstance(found, dict) else {}


async def sign_in(address: str) -> str:
    """Follow the authorization server's redirect, as a browser whose user agrees."""
    async with httpx2.AsyncClient() as browser:
        answer = await browser.get(address, follow_redirects=False)
        return urljoin(address, answer.headers["location"])


def build_entry(scenario: str, url: str, context: dict[str, Any]) -> dict[str, Any]:
    """Build the entry of the server."""
    entry: dict[str, Any] = {"url": url, "timeout": 100, "trust": "trusted", "sampling": True}
    if scenario.startswith("auth/"):
        auth = {"client_metadata_url": "https://conformance-test.local/client-metadata.json"}
        for name in ("client_id", "client_secret"):
            if name in context:
                auth[name] = context[name]
        entry["auth"] = auth
    return entry


def guess_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Fill in what a schema requires."""
    kinds = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    properties = schema.get("properties") or {}
    return {
        name: one.get("default", (one.get("enum") or [kinds.get(one.get("type"), "x")])[0])
        for name, one in properties.items()
        if isinstance(one, dict)
    }


async def main() -> int:
    """Run the scenario."""
    scenario, url = os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), sys.argv[-1]
    context = read_context()
    servers = {"kit": build_entry(scenario, url, context)}
    permit = {"request_permission": lambda about: True}
    calls = CALLS.get(scenario)
    with tempfile.TemporaryDirectory() as home:
        async with w.Runtime(environ={**os.environ, "XDG_STATE_HOME": home}) as scope:
            scope.mcp.sign_in = sign_in
            if calls is None:
                probe = scripted("looked")
                await w.Agent(probe, mcp_servers=servers).run("look")
                calls = list_calls(context, probe)
            for name, arguments in calls:
                model = scripted(w.ToolCall("1", f"kit__{name}", arguments), "done")
                # The kit sends what the schema of its tool refuses, to see what becomes of it.
                agent = w.Agent(
                    model,
                    mcp_servers=servers,
                    approval_policy=permit,
                    tool_arg_validation="none",
                )
                out = await agent.run("go")
                print(scenario, name, out.status, [one.result for one in out.tool_calls])
            if not calls:
                await w.Agent(scripted("looked"), mcp_servers=servers).run("look")
    return 0


def list_calls(context: dict[str, Any], probe: Any) -> list[tuple[str, dict[str, Any]]]:
    """Choose the calls: those that the kit names, else every tool once."""
    named = context.get("toolCalls")
    if named:
        return [(one["name"], one.get("arguments") or {}) for one in named]
    schemas = {tool.name: tool.parameters for tool in probe.requests[0].tools}
    if f"kit__{ECHO}" in schemas:  # it wants a schema back, as the model is shown it
        return [(ECHO, {"schema": schemas[f"kit__{RICH}"]})]
    return [
        (tool.name.removeprefix("kit__"), guess_arguments(tool.parameters))
        for tool in probe.requests[0].tools
        if tool.name.startswith("kit__")
    ]


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

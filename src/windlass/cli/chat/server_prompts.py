"""Prompts of MCP servers as slash commands: `/server:prompt name=value`."""

from __future__ import annotations

import shlex

from windlass.engine.environment import Environment
from windlass.errors import ConfigError, nearest
from windlass.json_types import JsonObject
from windlass.mcp.client.offer import Prompt
from windlass.mcp.client.pool import Connected
from windlass.mcp.client.servers import McpServer
from windlass.messages import Text
from windlass.options.group import Values
from windlass.policies.mcp.options import McpOptions
from windlass.toolbox.options import WorkspaceOptions


class ServerPrompts:
    """The prompts of the servers that the agent of a chat uses."""

    def __init__(self, runtime: Environment, values: Values) -> None:
        self._runtime = runtime
        servers = McpOptions.read(values).mcp_servers
        self._servers = [one for one in servers if isinstance(one, McpServer)]
        self._folder = WorkspaceOptions.read(values).anchor

    async def list(self) -> dict[str, Prompt]:
        """Return the prompts by the command that uses each."""
        found: dict[str, Prompt] = {}
        for connection in (await self._connect()).connections:
            for prompt in await connection.list_prompts():
                found[f"/{prompt.server}:{prompt.name}"] = prompt
        return found

    async def _connect(self) -> Connected:
        return await self._runtime.mcp.connect(self._servers, self._folder)

    async def write(self, line: str) -> str | None:
        """Return the message that a command stands for; None where it is no prompt's."""
        words = shlex.split(line)
        if ":" not in words[0] or not self._servers:
            return None
        prompts = await self.list()
        prompt = prompts.get(words[0])
        if prompt is None:
            raise ConfigError(f"no prompt {words[0]!r}{nearest(words[0], prompts)}")
        arguments = _read_arguments(prompt, words[1:])
        for connection in (await self._connect()).connections:
            if connection.server.name == prompt.server:
                messages = await connection.get_prompt(prompt.name, arguments)
                return "\n\n".join(
                    [
                        block.text
                        for _, blocks in messages
                        for block in blocks
                        if isinstance(block, Text)
                    ]
                )
        return None


def _read_arguments(prompt: Prompt, words: list[str]) -> dict[str, str]:
    """Read `name=value`, or values in the order of the prompt's arguments."""
    given: JsonObject = {}
    free = list(prompt.arguments)
    for word in words:
        name, sign, value = word.partition("=")
        if sign and name in prompt.arguments:
            given[name] = value
        elif free:
            given[next((one for one in free if one not in given), free[-1])] = word
        if not free:
            raise ConfigError(f"{prompt.name} takes no arguments")
    missing = [name for name in prompt.required if name not in given]
    if missing:
        raise ConfigError(f"{prompt.name} needs {', '.join(missing)}: write {missing[0]}=…")
    return given

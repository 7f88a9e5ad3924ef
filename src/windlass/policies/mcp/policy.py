"""The MCP servers of a run: changed lists, changed tools, servers that are not there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from windlass.errors import McpError
from windlass.events.policy import Reminder
from windlass.json_types import JsonObject
from windlass.loop.approval_request import answered_before, parked_by
from windlass.loop.plan import HELD_SERVERS
from windlass.loop.policy import CallVerdict, Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Ask, Granted, Outcome
from windlass.mcp.client.call_side import McpHost
from windlass.mcp.client.pool import Connected
from windlass.mcp.client.tools import DIGEST, SERVER, find_vanished
from windlass.messages import ToolCall, ToolResult
from windlass.policies.authority.approval import ask_host

if TYPE_CHECKING:
    from windlass.mcp.client.connection import Connection

NAME: Final = "mcp_servers"


class McpMemory(msgspec.Struct, frozen=True):
    """The digest of each tool as the session first saw it, or as a person let it pass."""

    pins: Mapping[str, str] = {}


class McpServers(Policy[McpMemory]):
    """A policy that keeps the tools of servers up to date, and asks about those that changed."""

    memory = McpMemory
    keeps = "session"
    decides = True

    def __init__(
        self,
        connected: Connected,
        adopt_changes: Callable[[Run], Awaitable[None]],
        release: Callable[[tuple[Connection, ...]], Awaitable[None]],
        hold: Callable[[tuple[Connection, ...]], None],
        request_permission: Callable[..., Any] | None = None,
    ) -> None:
        self.connected, self._built_for = connected, connected.state
        self._adopt_changes, self._release, self._hold = adopt_changes, release, hold
        self._host = McpHost(request_permission)

    @property
    def name(self) -> str:
        return NAME

    async def start(self, run: Run) -> None:
        """Pin the tools that are new, and say which servers are missing."""
        held: tuple[Connection, ...] = (
            *run.cache.get(NAME, ()),
            *run.cache.pop(HELD_SERVERS, ()),
        )
        new = tuple([one for one in self.connected.connections if one not in held])
        self._hold(new)
        first = NAME not in run.cache
        run.cache[NAME], run.cache[McpHost] = (*held, *new), self._host
        pins = self._recall(run).pins
        found = {
            tool.name: tool.annotations[DIGEST]
            for tool in run.tools.values()
            if DIGEST in tool.annotations and tool.name not in pins
        }
        if found:
            run.remember(self, McpMemory({**pins, **found}))
        vanished = find_vanished(run, found, pins)
        if vanished:
            run.tools = {**run.tools, **vanished}
        for one in self.connected.missing if first else ():
            run.note("mcp_server_unavailable", {"server": one.server, "problem": one.problem})
            words = f"The MCP server {one.server} is not available now, and neither are its tools."
            run.remind(Reminder(words, ttl=1, propagate="none"), NAME)

    def _recall(self, run: Run) -> McpMemory:
        kept: McpMemory = run.recall(self)
        return kept

    def passes(self, run: Run, call: ToolCall) -> bool:
        tool = run.tools.get(call.name)
        if tool is None or DIGEST not in tool.annotations:
            return True
        return self._recall(run).pins.get(call.name) == tool.annotations[DIGEST]

    async def before_tool(self, run: Run, call: ToolCall) -> CallVerdict:
        if self.passes(run, call):
            return None
        tool = run.tools[call.name]
        server, digest = tool.annotations[SERVER], tool.annotations[DIGEST]
        why = f"{server} has changed what it says of this tool since the session first saw it"
        receipt: JsonObject = {
            "action": "ask",
            "rule": NAME,
            "rationale": why,
            "description": tool.description,
        }
        ask = Ask(f"may {call.name} run? {why}", about={"digest": digest}, receipt=receipt)
        request = self._host.request_permission
        if request is None or parked_by(run, NAME, call.id):
            return ask
        if (by := answered_before(run, NAME, call)) is not None:
            return Granted(None, by, ask, receipt)
        return await ask_host(request, run, call, ask)

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        """Pin a changed tool that was let through."""
        if result.outcome == "denied" or self.passes(run, call):
            return result
        pins = self._recall(run).pins
        digest = run.tools[call.name].annotations[DIGEST]
        run.remember(self, McpMemory({**pins, call.name: digest}))
        return result

    async def after_turn(self, run: Run, turn: Turn) -> None:
        """Take over lists that have changed; a server that does not answer keeps its old one."""
        for one in self.connected.connections:
            try:
                await one.refresh()
            except McpError as error:
                run.note(
                    "mcp_server_unavailable", {"server": error.server, "problem": error.problem}
                )
        if self.connected.state != self._built_for:
            await self._adopt_changes(run)

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        """Let go of the servers."""
        held: tuple[Connection, ...] = (
            *run.cache.pop(NAME, ()),
            *run.cache.pop(HELD_SERVERS, ()),  # of a run that ended before it could begin
        )
        await self._release(held)
        return outcome

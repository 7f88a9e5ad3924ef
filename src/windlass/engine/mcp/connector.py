"""Plans of runs with MCP servers: completed when the servers have said which tools they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

from windlass.engine.assemble import assemble
from windlass.engine.environment import Environment
from windlass.engine.tool_options import ToolOptions, list_given_tools
from windlass.errors import ConfigError, nearest
from windlass.loop.lifecycle import adopt
from windlass.loop.plan import Plan
from windlass.loop.run import Run
from windlass.mcp.client.pool import Connected
from windlass.mcp.client.servers import McpServer
from windlass.mcp.client.tools import build_tools
from windlass.options.group import Values
from windlass.options.index import GROUPS
from windlass.policies.authority.approval import ApprovalOptions
from windlass.policies.mcp.options import McpOptions
from windlass.policies.mcp.policy import McpServers
from windlass.policies.preview.mode import as_begun
from windlass.policies.skills.options import SkillOptions
from windlass.toolbox.options import WorkspaceOptions
from windlass.toolbox.session_workspace import bind_plan
from windlass.tools.function import as_tools
from windlass.tools.tool import Tool

#: Modules whose options do not look at tools, so that a plan can be made before they are known.
_EARLY: Final = frozenset({"engine.model_options", "engine.limit_options", "engine.run_options"})


def build_unconnected(values: Values, system: str | None, door: str) -> Plan:
    """Build the plan of runs whose servers are not asked yet: its model, its limits."""
    servers = McpOptions.read(values).mcp_servers
    named = _find_skill_servers(values)
    rest = {name: value for name, value in values.items() if name != "mcp_servers"}
    if not servers and not named:
        return assemble(rest, system, door, is_connected=True)
    early = {
        name: value
        for name, value in rest.items()
        if GROUPS.get(name, "engine.model_options").partition(":")[0] in _EARLY
        and name not in ("policies", "tool_choice")
    }
    plan = assemble(early, system, door, is_connected=True)
    plan = plan.of(plan.model)  # never one that other agents share
    plan.connect = Connector(servers, named, rest, system, door).connect

    def rebuild(placed: Values) -> Plan:
        return build_unconnected(placed, system, door)

    bind_plan(plan, values, rebuild, records=False)  # its servers start where the session works
    return plan


def _find_skill_servers(values: Values) -> tuple[str, ...]:
    """Return the names of the servers that skills need, each once."""
    skills = SkillOptions.read(values).skills if "skills" in values else None
    return tuple(dict.fromkeys([name for skill in skills or () for name in skill.mcp]))


class Connector:
    """Completes the plans of one agent, in any Runtime."""

    def __init__(
        self,
        servers: Sequence[McpServer | str],
        named: Sequence[str],
        values: Values,
        system: str | None,
        door: str,
    ) -> None:
        self._servers, self._values, self._system, self._door = servers, values, system, door
        self._named = named  # by skills; a host may know some of them alone
        self._place = WorkspaceOptions.read(values)
        self._known: WeakKeyDictionary[Environment, tuple[object, Plan]] = WeakKeyDictionary()

    async def connect(self, environment: Environment) -> Plan:
        """Start the servers, or use those that run, and build the plan with their tools.

        They are held for whoever asks, who releases `plan.servers`.
        """
        folder = self._place.anchor
        servers = resolve_servers(self._servers, environment)
        own = {one.name for one in servers}
        known = environment.mcp_servers
        servers += [known[name] for name in self._named if name in known and name not in own]
        await environment.mcp.prepare(servers, folder)
        connections = environment.mcp.find(servers, folder)
        environment.mcp.hold(connections)
        try:
            connected = await environment.mcp.start(connections)
            missing = [one for one in connections if one not in connected.connections]
            await environment.release_servers(missing)
            connections = connected.connections
            state = (connected.state, connected.missing)
            built = self._known.get(environment)
            if built is None or built[0] != state:
                built = state, self._build(connected, environment)
                self._known[environment] = built
        except BaseException:
            await environment.release_servers(connections)
            raise
        return built[1].of(built[1].model)

    def _build(self, connected: Connected, environment: Environment) -> Plan:
        roots = (self._place.anchor, *self._place.resolve_mounts())
        given = ToolOptions.read(self._values).tools
        tools = [*list_given_tools(given), *build_tools(connected.connections, roots)]
        values = {**self._values, "tools": tools}
        plan = assemble(values, self._system, self._door, is_connected=True)
        rules = ApprovalOptions.read(values).approval_policy

        async def adopt_changes(run: Run) -> None:
            changed = await self.connect(environment)
            try:
                await adopt(run, as_begun(changed, run.plan.metadata), "mcp_servers")
            finally:
                await environment.release_servers(changed.servers)  # the run holds them too

        policy = McpServers(
            connected,
            adopt_changes,
            environment.release_servers,
            environment.mcp.hold,
            None if rules is None else rules.request_permission,
        )
        plan = plan.beside(policy)
        plan.servers = connected.connections
        return plan


def resolve_servers(
    servers: Sequence[McpServer | str], environment: Environment
) -> list[McpServer]:
    """Return the entries, with names replaced by the Runtime's servers of that name."""
    found: list[McpServer] = []
    for one in servers:
        if isinstance(one, McpServer):
            found.append(one)
            continue
        known = environment.mcp_servers
        if one not in known:
            raise ConfigError(
                f"mcp_servers names {one!r}, which no server of the Runtime is{nearest(one, known)}"
            )
        found.append(known[one])
    return found


async def connect_host_tools(environment: Environment) -> list[Tool]:
    """Start the servers of a Runtime and return their tools, for its registry."""
    place = WorkspaceOptions()
    servers = list(environment.mcp_servers.values())
    connected = await environment.mcp.connect(servers, place.anchor)
    return list(as_tools(build_tools(connected.connections, (place.anchor,))))

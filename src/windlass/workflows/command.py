"""A command that verifies: it runs in the sandbox, as a call that rules and people decide on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from windlass.engine.assemble import parse_loop_options
from windlass.json_types import JsonObject
from windlass.messages import Message, Text, ToolCall
from windlass.models.base import Emit, Model, Request, Response
from windlass.toolbox.bash import USES_SANDBOX, run_check
from windlass.toolbox.options import WorkspaceOptions
from windlass.toolbox.registry import open_workspace
from windlass.toolbox.sandbox.levels import check_level
from windlass.toolbox.sandbox.session import SandboxSettings
from windlass.tools.tool import Tool, ToolContext
from windlass.usage import Usage

#: Rules about `bash` hold for the command.
TOOL: Final = "bash"
_PARAMETERS: Final = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
    "additionalProperties": False,
}


class CommandModel(Model):
    """A model that asks for one command, and is done when that has run."""

    provider, name = "workflow", "command"

    def __init__(self, command: str) -> None:
        self.command = command

    def price(self, usage: Usage) -> float:
        """Return 0: it is free."""
        return 0.0

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Ask for the command, once."""
        if request.messages[-1].role == "tool":
            return Response(Message("assistant", (Text("done"),)))
        call = ToolCall("verify", TOOL, {"command": self.command})
        return Response(Message("assistant", (call,)), stop_reason="tool_use")


def build_command_model(command: str) -> Model:
    """Build the model of a node that verifies by a command."""
    return CommandModel(command)


def build_command_tool(options: Mapping[str, Any], command: str, seconds: float) -> Tool:
    """Build the tool that runs the command; its answer begins with `pass` or `fail`."""
    place = WorkspaceOptions.read(parse_loop_options(dict(options), "a verify node"))
    check_level(place.sandbox.level)
    settings = SandboxSettings(open_workspace(place), place.sandbox)

    async def run(args: JsonObject, ctx: ToolContext[Any]) -> str:
        problem = await run_check(settings, ctx.scope, args["command"], seconds)
        return "pass" if problem is None else f"fail\n{problem}"

    return Tool(
        TOOL,
        "Run the command that verifies the work.",
        _PARAMETERS,
        run,
        keyed=True,
        kind="execute",
        side_effect_level="process_exec",
        timeout=seconds + 60,
        annotations={USES_SANDBOX: True, "result": "untrusted", "command_args": ["command"]},
    )

"""A tool with which the model says how far it is; what it says is an event, and nothing else."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from windlass.events import ProgressReported
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import ToolCall, ToolResult
from windlass.tools.tool import Retry, Tool

DESCRIPTION = (
    "Report how far you are: a short message, the list of tasks with their states, or both. "
    "Whoever waits for you sees it; it changes nothing else."
)
NUDGE = "Use {name} to report progress: when you have a plan, when a step is done, and when plans change."
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What you are doing, in a sentence."},
        "entries": {
            "type": "array",
            "description": "All tasks of the plan, in order.",
            "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string", "description": "The task."},
                    "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                    "priority": {"type": "string", "enum": ["high", "medium", "low"]},
                },
                "required": ["content", "status"],
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}


class ProgressTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the tool looks: `ProgressTool(name="report", system_prompt_nudge=None)`."""

    name: str = "agent_progress"
    description: str = DESCRIPTION
    system_prompt_nudge: str | None = NUDGE  # joins the system prompt; None: nothing does

    def tool(self) -> Tool:
        """The tool as the model sees it."""
        return Tool(
            self.name,
            self.description,
            _PARAMETERS,
            _acknowledge,
            side_effect_level="none",
            kind="think",
            annotations={"tool_class": "progress", "pinned": True},
        )

    def framed(self, system: str | None) -> str | None:
        """The system prompt with the nudge."""
        if self.system_prompt_nudge is None:
            return system
        nudge = self.system_prompt_nudge.replace("{name}", self.name)
        return f"{system}\n\n{nudge}" if system else nudge


async def _acknowledge(arguments: dict[str, Any]) -> str:
    if not _message(arguments) and not arguments.get("entries"):
        raise Retry("say something: a message, entries, or both")
    return "Noted."


class Progress(Policy[None]):
    """Put every report on the record, where whoever watches the run sees it."""

    def __init__(self, tool: str) -> None:
        self.tool = tool

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        if call.name == self.tool and result.outcome == "ok":
            turn = run.turn
            ready = turn.ready.get(call.id) if turn is not None else None
            arguments = call.arguments if ready is None else ready.call.arguments
            run.note(ProgressReported(_message(arguments), _entries(arguments)))
        return result


def _message(arguments: dict[str, Any]) -> str | None:
    message = arguments.get("message")
    return message.strip() or None if isinstance(message, str) else None


def _entries(arguments: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    given = arguments.get("entries")
    if not isinstance(given, list):
        return ()
    entries = cast("list[Any]", given)
    return tuple([cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)])

"""A tool with which the model reports progress, as an event and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from windlass.errors import ConfigError, safe_repr
from windlass.events import ProgressReported
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import ToolCall, ToolResult
from windlass.options.checks import text
from windlass.options.group import Option, OptionGroup, OptionStruct, struct
from windlass.policies.build import BuildContext, Policies
from windlass.tools.tool import NAME, Retry, Tool

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


def _check_name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ConfigError(
            f"{name} has 1 to 128 letters, digits and `_ - . :`, not {safe_repr(value)}"
        )
    return value


def _check_nudge(name: str, value: Any) -> str | None:
    return None if value is None or value is False or value == "" else text(name, value)


class ProgressTool(OptionStruct, frozen=True, kw_only=True):
    """The texts of the progress tool: `ProgressTool(name="report", system_prompt_nudge=None)`."""

    name: Annotated[str, Option(_check_name)] = "agent_progress"
    """Its name."""
    description: Annotated[str, Option(text)] = DESCRIPTION
    """Its description for the model."""
    system_prompt_nudge: Annotated[str | None, Option(_check_nudge)] = NUDGE
    """The text that is added to the system prompt; None: nothing."""

    def build_tool(self) -> Tool:
        """Build the tool as the model sees it."""
        return Tool(
            self.name,
            self.description,
            _PARAMETERS,
            _acknowledge,
            side_effect_level="none",
            kind="think",
            annotations={"tool_class": "progress", "pinned": True},
        )

    def add_to(
        self, tools: tuple[Tool, ...], system: str | None
    ) -> tuple[tuple[Tool, ...], str | None]:
        """Add the tool to the tools, and the nudge to the system prompt."""
        if any(tool.name == self.name for tool in tools):
            raise ConfigError(
                f"there is a tool {self.name!r} already: give progress_tool another name"
            )
        return (*tools, self.build_tool()), self._with_nudge(system)

    def _with_nudge(self, system: str | None) -> str | None:
        if self.system_prompt_nudge is None:
            return system
        nudge = self.system_prompt_nudge.replace("{name}", self.name)
        return f"{system}\n\n{nudge}" if system else nudge


_check_struct = struct(ProgressTool)


def _check_progress(name: str, value: Any) -> ProgressTool | None:
    if not isinstance(value, (bool, Mapping, ProgressTool, type(None))):
        raise ConfigError(
            f"{name} is True, False, a dict or a ProgressTool, not {safe_repr(value)}"
        )
    return _check_struct(name, value)


class ProgressOptions(OptionGroup, frozen=True, kw_only=True):
    """A tool for progress reports."""

    progress_tool: Annotated[
        ProgressTool | None,
        Option(_check_progress, accepts="bool | dict[str, Any] | ProgressTool | None"),
    ] = None
    """Offer a tool with which the model reports progress."""


def build(ctx: BuildContext) -> Policies:
    """Build the policy that puts reports on the record."""
    progress = ProgressOptions.read(ctx.values).progress_tool
    return () if progress is None else (Progress(progress.name),)


async def _acknowledge(arguments: dict[str, Any]) -> str:
    if not _message(arguments) and not arguments.get("entries"):
        raise Retry("say something: a message, entries, or both")
    return "Noted."


class Progress(Policy[None]):
    """A policy that records every report, where observers of the run see it."""

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

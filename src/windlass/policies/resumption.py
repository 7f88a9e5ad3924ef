"""The tool `agent_await_resumption`: the model suspends its own run until something happens.

The tool is structural: the loop acts on the call before anything of the same reply is dispatched. It
has no handler and is not among the tools of a run, so that a loop without tools stays one.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from windlass.errors import ConfigError, error_text
from windlass.events import ToolDecided
from windlass.json_types import JsonObject
from windlass.loop.calls import close_calls, settle
from windlass.loop.plan import digest_of
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Suspend
from windlass.messages import ToolCall, ToolResult, ToolSpec
from windlass.models.base import Model
from windlass.options.checks import boolean, optional
from windlass.options.group import Option, OptionGroup, Values
from windlass.policies.build import BuildContext, Mode, Policies
from windlass.tools.filter import ToolFilterOptions, collect_denied
from windlass.tools.tool import Tool

if TYPE_CHECKING:
    from windlass.conditions.resume import AwaitRequest

NAME: Final = "agent_await_resumption"
SPEC: Final = ToolSpec(
    NAME,
    "Suspend this run until it is resumed. Nothing else of the same reply runs.",
    {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "conditions": {
                "type": "object",
                "description": 'What resumes it: "timeout" ("5m"), "on_event" (name), "trigger" '
                '({"kind": "timer", "at": ISO time} or {"kind": "file", "paths": []}).',
            },
        },
        "required": ["reason"],
    },
)
SUSPENDED: Final = "Suspended. When the run is resumed, you go on from here."
NOT_RUN: Final = f"the run was suspended by {NAME} in the same reply; call it again if it is needed"


class ResumptionOptions(OptionGroup, frozen=True, kw_only=True):
    """Whether the model may suspend its run."""

    await_resumption: Annotated[bool | None, Option(optional(boolean))] = None
    """Whether the model is offered the tool `agent_await_resumption`, which suspends the run.

    None: loops offer it, agents do not.
    """


def may_suspend(values: Values, door: str) -> bool:
    """Return whether a call of the tool suspends the run: in every loop, in agents on request."""
    wanted = ResumptionOptions.read(values).await_resumption
    if wanted is False or (wanted is None and door != "agent_loop"):
        return False
    return "disallowed_tools" not in values or NAME not in collect_denied(
        ToolFilterOptions.read(values)
    )


def may_offer(mode: Mode, model: Model, answer: object) -> bool:
    """Return whether the model is offered the tool, where a call of it suspends.

    A loop without tools stays one: neither the way in which tools are called nor how an answer is
    read changes for it. So a model that calls tools in its text, and one that must answer in a form,
    are not offered it there.
    """
    return mode != "none" or (model.native_tools and answer is None)


def offer_beside(
    tools: tuple[Tool, ...], offered: tuple[ToolSpec, ...] | None
) -> tuple[ToolSpec, ...]:
    """Return the specs that the model is offered, with that of the tool."""
    return _offer_after(tools) if offered is None else (*offered, SPEC)


@lru_cache(maxsize=256)
def _offer_after(tools: tuple[Tool, ...]) -> tuple[ToolSpec, ...]:
    """Return the same tuple for the same tools: frames of agents that are built again are shared."""
    return (*[tool.spec for tool in tools], SPEC)


def build(ctx: BuildContext) -> Policies:
    """Build the policy that suspends the run, where the model may."""
    return (AwaitResumption(),) if ctx.may_suspend else ()


class AwaitResumption(Policy[None]):
    """A policy that suspends the run when the model asks for it."""

    brief: ClassVar[bool] = True
    skips_texts: ClassVar[bool] = True
    looks_for: ClassVar[str | None] = NAME

    async def after_reply(self, run: Run, turn: Turn) -> Suspend | None:
        for call in turn.calls:
            if call.name == NAME and call.id not in turn.results:
                return await _suspend(run, turn)
        return None


async def _suspend(run: Run, turn: Turn) -> Suspend | None:
    """Suspend as the first call that can be understood asks; tell the model about the others."""
    request: AwaitRequest | None = None
    for call in [one for one in turn.calls if one.name == NAME]:
        try:
            asked = _read_call(call)
        except ConfigError as error:
            words = f"{error_text(error)}. The run was not suspended."
            settle(run, turn, call, ToolResult(call.id, words, True, NAME, "invalid"))
            continue
        request = request or asked
        run.record(_build_decision(run, call))
        settle(run, turn, call, ToolResult(call.id, SUSPENDED, False, NAME, "ok"))
    if request is None:
        return None
    await close_calls(run, turn, NOT_RUN)
    return Suspend(request.reason, request.to_dict()["conditions"])


def _build_decision(run: Run, call: ToolCall) -> ToolDecided:
    """Build the entry that says who answers the call: the loop itself."""
    return ToolDecided(call.id, NAME, "answer", NAME, run.caller_name, digest_of(call.arguments))


def _read_call(call: ToolCall) -> AwaitRequest:
    # Zones and calendars are loaded by the first model that waits.
    parse = import_module("windlass.conditions.resume").agent_await_resumption
    arguments: JsonObject = call.arguments
    unknown = [name for name in arguments if name not in ("reason", "conditions")]
    if unknown:
        raise ConfigError(f"{NAME} takes reason and conditions, not {unknown[0]!r:.80}")
    return parse(arguments.get("reason"), arguments.get("conditions"))

"""Tools with which a model pauses, resumes and stops the workers of its session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from windlass.errors import ConfigError, NoSuchSession, safe_repr
from windlass.json_types import JsonObject
from windlass.loop.run import Run
from windlass.options.group import Values, struct
from windlass.tools.registry import ToolRegistry
from windlass.tools.tool import Retry, Tool, ToolContext
from windlass.workers.control import resume_agent, suspend_agent
from windlass.workers.options import WorkerOptions
from windlass.workers.record import Worker, read_worker
from windlass.workers.stop import StopResult, agent_stop

_HANDLE: Final[JsonObject] = {"type": "string", "description": "The id of the worker."}
_check_options = struct(WorkerOptions, flag=False)
_DEEPEST: Final = 32  # levels of workers that spawn workers


def agent_lifecycle_tools(
    registry: ToolRegistry | None = None, options: Mapping[str, Any] | None = None
) -> ToolRegistry:
    """Add the tools that control workers to a registry, or to a new one, and return it.

    ```python
    registry = w.agent_lifecycle_tools(None, {"subagents": True})
    agent = w.Agent(model, tools=registry)
    ```
    With `subagents`: `subagent_pause`, `subagent_resume` and `subagent_stop`, for workers that the run's own
    session has spawned, directly or through others.
    """
    if registry is None:
        registry = ToolRegistry()
    elif not isinstance(registry, ToolRegistry):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"a registry is made by tool_registry(), not {safe_repr(registry)}")
    wanted = _check_options("agent_lifecycle_tools", {} if options is None else options)
    for tool in build_lifecycle_tools() if wanted.subagents else ():
        registry.add(tool)
    return registry


def add_lifecycle_tools(tools: tuple[Tool, ...], values: Values) -> tuple[Tool, ...]:
    """Add the tools to those of an agent whose options ask for them."""
    if not WorkerOptions.read(values).subagents:
        return tools
    known = {tool.name for tool in tools}
    return (*tools, *[tool for tool in build_lifecycle_tools() if tool.name not in known])


def build_lifecycle_tools() -> tuple[Tool, ...]:
    """Build the three tools."""
    reason = {"type": "string", "description": "Why."}
    return (
        _build(
            "subagent_pause",
            "Suspend a worker that you have spawned, before its next turn.",
            {"handle": _HANDLE, "reason": reason},
            ("handle", "reason"),
            _pause,
        ),
        _build(
            "subagent_resume",
            "Go on with a worker that is suspended.",
            {
                "handle": _HANDLE,
                "input": {"type": "string", "description": "What it hears when it goes on."},
                "continue_transcript": {
                    "type": "boolean",
                    "description": "False: it begins with a summary and the input only.",
                    "default": True,
                },
            },
            ("handle",),
            _resume,
        ),
        _build(
            "subagent_stop",
            "Stop a worker for good. Gracefully, it leaves a handoff for you to take over.",
            {
                "handle": _HANDLE,
                "graceful": {"type": "boolean", "default": True},
                "reason": reason,
            },
            ("handle",),
            _stop,
        ),
    )


def _build(
    name: str, description: str, properties: JsonObject, required: tuple[str, ...], handler: Any
) -> Tool:
    parameters: JsonObject = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(name, description, parameters, handler, keyed=True, kind="agent")


async def _pause(args: JsonObject, ctx: ToolContext[Any]) -> JsonObject:
    run = await _check_own(args["handle"], ctx)
    worker = await suspend_agent(args["handle"], args["reason"] or None, store=run.store)
    return _describe(worker)


async def _resume(args: JsonObject, ctx: ToolContext[Any]) -> JsonObject:
    run = await _check_own(args["handle"], ctx)
    words, goes_on = args.get("input") or None, args.get("continue_transcript", True)
    return _describe(await _call(resume_agent(args["handle"], words, goes_on, store=run.store)))


async def _stop(args: JsonObject, ctx: ToolContext[Any]) -> JsonObject:
    run = await _check_own(args["handle"], ctx)
    options: JsonObject = {"graceful": args.get("graceful", True)}
    if args.get("reason"):
        options["reason"] = args["reason"]
    return _describe_stop(await _call(agent_stop(args["handle"], options, store=run.store)))


async def _call(work: Any) -> Any:
    """Tell the model what is wrong, in place of failing its run."""
    try:
        return await work
    except ConfigError as error:
        raise Retry(str(error)) from None


async def _check_own(handle: str, ctx: ToolContext[Any]) -> Run:
    """Refuse a worker that this session has not spawned: a model may name any id."""
    run = ctx.scope
    if not isinstance(run, Run):
        raise Retry("there is no run here that could have spawned a worker")
    known = handle
    for _ in range(_DEEPEST):
        try:
            record = (await read_worker(run.store, known.partition("~")[0])).record
        except NoSuchSession:
            break
        if record.parent is None:
            break
        if record.parent == run.session_id:
            return run
        known = record.parent
    raise Retry(f"{handle} is no worker that this agent has spawned")


def _describe(worker: Worker) -> JsonObject:
    suspension = None if worker.suspension is None else msgspec.to_builtins(worker.suspension)
    return {
        "handle": worker.id,
        "name": worker.name,
        "status": worker.status,
        "suspension": suspension,
    }


def _describe_stop(stop: StopResult) -> JsonObject:
    return {
        "status": stop.status,
        "handoff": None if stop.handoff is None else msgspec.to_builtins(stop.handoff),
        "children": [child.worker.id for child in stop.children],
        "handoffs": [msgspec.to_builtins(one) for one in stop.handoffs],
        "worker": _describe(stop.worker),
    }

"""A task for a child agent with a session and tools of its own; the parent gets one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, cast, overload

import msgspec

from windlass.access.caller import Caller
from windlass.agents.agent_loop import run_loop
from windlass.agents.artifacts import NAME as ARTIFACT_TOOL
from windlass.agents.artifacts import Artifact, build_artifact_tool, read_artifacts
from windlass.agents.subagent import name_child, run_child
from windlass.engine.assemble import assemble, parse_loop_options, resolve_names
from windlass.engine.environment import current_environment
from windlass.engine.limit_options import LimitOptions
from windlass.engine.results import LoopResult, RunResult
from windlass.engine.run_options import RunOptions
from windlass.engine.tool_options import ToolOptions
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.events import ToolResulted
from windlass.identifiers import child_session_id
from windlass.json_types import JsonObject, is_object
from windlass.loop.plan import Plan
from windlass.loop.run import Run
from windlass.options.checks import boolean, no_key
from windlass.options.parse import merge_options
from windlass.output.options import OutputOptions
from windlass.records import Record
from windlass.store.base import Store
from windlass.tools.filter import ToolFilterOptions, filter_tools
from windlass.tools.function import as_tools
from windlass.tools.tool import Tool, ToolContext
from windlass.workers.config import Node, WorkerConfig, check_options
from windlass.workers.record import Worker
from windlass.workers.selection import Selection
from windlass.workers.spawn import spawn

if TYPE_CHECKING:
    from windlass.engine.keywords import LoopKeywords

_DOOR: Final = "sub_agent_run"
_OF_THE_PARENT: Final = ("session_id", "store", "caller", "deps", "run_id", "take_over", "messages")


class SubAgentError(Record, frozen=True):
    """Why a sub-agent did not succeed: `result.error.category`."""

    category: str
    message: str
    tool: str | None = None


class SubAgentResult(Record, frozen=True):
    """The result of `sub_agent_run`: `result.ok`, `result.summary`, `result.data`."""

    ok: bool
    summary: str
    """Its final text; the JSON of the value where one was asked for."""
    artifacts: tuple[Artifact, ...]
    evidence_added: int
    """How many artifacts there are."""
    tokens_used: int
    budget_exceeded: bool
    """Whether it used its token budget up; it may have succeeded all the same."""
    session_id: str
    transcript: JsonObject
    status: str
    data: Any = None
    """The value, where `returns` or a JSON answer was asked for."""
    error: SubAgentError | None = None


class SubAgentRequest(Record, frozen=True):
    """What `sub_agent_run` would run: the task, the chosen tools, and the options of the child."""

    task: str
    tools: tuple[str, ...]
    options: JsonObject
    parent_session_id: str | None = None


class _Prepared(msgspec.Struct, frozen=True):
    task: str
    system: str | None
    typed: dict[str, Any]
    tools: tuple[Tool, ...]
    narrowed_away: frozenset[str]
    background: bool


class _Extra(msgspec.Struct, frozen=True):
    """What `sub_agent_run` takes beside the options of `agent_loop`."""

    allowed_tools: Sequence[str] | None
    disallowed_tools: Sequence[str] | None
    returns: Mapping[str, Any] | None
    background: bool | None

    def with_options(self, typed: dict[str, Any]) -> _Extra:
        """Take what is among the options; what was given by name has the last word."""
        found = [typed.pop(name, None) for name in self.__struct_fields__]
        own: list[Any] = [getattr(self, name) for name in self.__struct_fields__]
        return _Extra(*[one if two is None else two for one, two in zip(found, own, strict=True)])


class _Child:
    """The child as the driver of sub-agents sees an agent."""

    def __init__(self, prepared: _Prepared, values: JsonObject) -> None:
        self._prepared, self.options = prepared, values

    async def plan_for(
        self,
        deps: Any,
        caller: Caller | None,
        session_id: str | None,
        going_on: Store | None = None,
    ) -> Plan:
        # Its caller waits for its answer.
        own = {"await_resumption": False, **self.options}
        defaults = current_environment().with_defaults(own)
        return assemble(defaults, self._prepared.system, "agent_loop")


@overload
async def sub_agent_run(
    task: str,
    options: Mapping[str, Any] | None = None,
    /,
    *,
    parent: ToolContext[Any] | None = None,
    allowed_tools: Sequence[str] | None = None,
    disallowed_tools: Sequence[str] | None = None,
    returns: Mapping[str, Any] | None = None,
    background: Literal[False] = False,
    **more: Unpack[LoopKeywords],
) -> SubAgentResult: ...
@overload
async def sub_agent_run(
    task: str,
    options: Mapping[str, Any] | None = None,
    /,
    *,
    parent: ToolContext[Any] | None = None,
    allowed_tools: Sequence[str] | None = None,
    disallowed_tools: Sequence[str] | None = None,
    returns: Mapping[str, Any] | None = None,
    background: Literal[True],
    **more: Unpack[LoopKeywords],
) -> Worker: ...
async def sub_agent_run(
    task: str,
    options: Mapping[str, Any] | None = None,
    /,
    *,
    parent: ToolContext[Any] | None = None,
    allowed_tools: Sequence[str] | None = None,
    disallowed_tools: Sequence[str] | None = None,
    returns: Mapping[str, Any] | None = None,
    background: bool | None = None,
    **more: Unpack[LoopKeywords],
) -> SubAgentResult | Worker:
    """Run a child agent on a task in a session of its own, and return one clean result.

    ```python
    @w.tool
    async def find(ctx: w.ToolContext[None], what: str) -> str:
        schema = {"type": "object", "properties": {"paths": {"type": "array"}}, "required": ["paths"]}
        result = await w.sub_agent_run(f"Find {what}.", parent=ctx, allowed_tools=["grep"], token_budget=5000, returns={"schema": schema})
        return str(result.data["paths"]) if result.ok else result.error.message
    ```
    In a tool, `parent=ctx` gives the child the tools of the run, its rules and its budget, and the
    parent's conversation holds the call and its result only. Without `parent` it runs by itself. Takes
    all options of `agent_loop`, and raises for wrong ones; whatever the child does is in the result.
    With `background=True` it returns the handle of a worker at once, for `wait_agent`.
    """
    extra = _Extra(allowed_tools, disallowed_tools, returns, background)
    prepared = _prepare(task, options, cast("Mapping[str, Any]", more), extra, parent)
    if prepared.background:
        return await _spawn(prepared, parent)
    if parent is None:
        # Its caller waits for its answer.
        typed = {"await_resumption": False, **prepared.typed, "system": prepared.system}
        result: RunResult = await run_loop(prepared.task, typed, _DOOR, LoopResult)
        values = parse_loop_options(prepared.typed, _DOOR)
    else:
        values = parse_loop_options(prepared.typed, _DOOR)
        child_id = child_session_id(parent.session_id, name_child(parent))
        result = await run_child(_Child(prepared, values), prepared.task, parent, child_id)
    return _build_result(result, prepared, values)


async def _spawn(prepared: _Prepared, parent: ToolContext[Any] | None) -> Worker:
    """Run the child as a worker of mode `sub_agent`."""
    options = {name: one for name, one in prepared.typed.items() if name != "tools"}
    if prepared.system is not None:
        options["system"] = prepared.system
    run = RunOptions.read(parse_loop_options(prepared.typed, _DOOR))
    for name in ("store", "caller", "deps"):
        options.pop(name, None)
    checked = check_options("sub_agent_run", options)
    config = WorkerConfig(task=prepared.task, node=Node(), options=checked)
    chosen = Selection(prepared.tools, tuple(sorted(prepared.narrowed_away)))
    place = (None, None, None) if parent is not None else (run.store, run.caller, run.deps)
    return await spawn(config, checked, chosen, "sub_agent", parent, *place)


def sub_agent_request(
    task: str,
    options: Mapping[str, Any] | None = None,
    /,
    *,
    parent: ToolContext[Any] | None = None,
    allowed_tools: Sequence[str] | None = None,
    disallowed_tools: Sequence[str] | None = None,
    returns: Mapping[str, Any] | None = None,
    **more: Unpack[LoopKeywords],
) -> SubAgentRequest:
    """Show what `sub_agent_run` with the same arguments would run, without running it.

    ```python
    request = w.sub_agent_request("Find it.", tools=[search, write], allowed_tools=["search"])
    print(request.tools)
    ```
    """
    extra = _Extra(allowed_tools, disallowed_tools, returns, None)
    prepared = _prepare(task, options, cast("Mapping[str, Any]", more), extra, parent)
    parse_loop_options(prepared.typed, _DOOR)
    shown = {name: value for name, value in prepared.typed.items() if name != "tools"}
    if prepared.system is not None:
        shown["system"] = prepared.system
    above = None if parent is None else parent.session_id
    names = tuple([tool.name for tool in prepared.tools])
    return SubAgentRequest(prepared.task, names, shown, above)


# --------------------------------------------------------------------------- the request


def _prepare(
    task: object,
    options: Mapping[str, Any] | None,
    more: Mapping[str, Any],
    extra: _Extra,
    parent: object,
) -> _Prepared:
    """Check the arguments and choose the tools of the child."""
    if not isinstance(task, str) or not task.strip():
        raise ConfigError(f"a task is a text that is not blank, not {safe_repr(task)}")
    if parent is not None and not isinstance(parent, ToolContext):
        raise ConfigError(f"parent is the ToolContext of a tool, not {safe_repr(parent)}")
    typed = merge_options(options, more, _DOOR)
    extra = extra.with_options(typed)
    if parent is not None:
        for name in _OF_THE_PARENT:
            if typed.get(name) is not None:
                raise ConfigError(f"{name} is the parent's: leave it out, or leave out parent")
    system = typed.pop("system", None)
    _take_returns(typed, extra.returns)
    offered = _find_tools(typed, cast("ToolContext[Any] | None", parent))
    chosen = _choose(offered, extra)
    away = frozenset([tool.name for tool in offered]) - {tool.name for tool in chosen}
    if ARTIFACT_TOOL not in (extra.disallowed_tools or ()):
        chosen = (*[tool for tool in chosen if tool.name != ARTIFACT_TOOL], build_artifact_tool())
    typed["tools"] = chosen
    background = False if extra.background is None else boolean("background", extra.background)
    return _Prepared(task, system, typed, chosen, away, background)


def _take_returns(typed: dict[str, Any], returns: object) -> None:
    """Turn `returns={"schema": …}` into the options of a typed answer."""
    if returns is None:
        return
    if not is_object(returns):
        raise ConfigError(f'returns is a dict like {{"schema": …}}, not {safe_repr(returns)}')
    for name in returns:
        if name != "schema":
            raise no_key("returns", name, ("schema",))
    if typed.get("schema") is not None:
        raise ConfigError("returns and schema both say what the answer is: give one of them")
    typed["schema"] = returns.get("schema")


def _find_tools(typed: Mapping[str, Any], parent: ToolContext[Any] | None) -> tuple[Tool, ...]:
    listed = ToolOptions.read(typed).tools
    if listed is not None:
        return as_tools(resolve_names(listed, typed))
    if parent is None or not isinstance(parent.scope, Run):
        return ()
    return tuple(parent.scope.plan.tools.values())


def _choose(offered: tuple[Tool, ...], extra: _Extra) -> tuple[Tool, ...]:
    allowed, denied = extra.allowed_tools, extra.disallowed_tools
    known = [tool.name for tool in offered]
    for option, names in (("allowed_tools", allowed), ("disallowed_tools", denied)):
        if isinstance(names, str):
            raise ConfigError(f"{option} is a list of names, not {names!r}")
        for name in names or ():
            if name not in known and name != ARTIFACT_TOOL:
                raise ConfigError(
                    f"{option} names {name!r}, which no tool is{nearest(name, known)}"
                )
    options = ToolFilterOptions(
        allowed_tools=None if allowed is None else tuple(allowed),
        disallowed_tools=None if denied is None else tuple(denied),
    )
    return filter_tools(options, offered)


# --------------------------------------------------------------------------- the result


def _build_result(
    result: RunResult, prepared: _Prepared, values: Mapping[str, Any]
) -> SubAgentResult:
    asks = OutputOptions.read(values).asks
    data = result.data if asks else None
    error = _find_error(result, prepared, asks and data is None)
    artifacts = read_artifacts(result.entries, result.session_id)
    used, limit = result.usage.total_tokens, LimitOptions.read(values).token_budget
    summary = result.final_text
    if data is not None:
        summary = msgspec.json.encode(data).decode()
    return SubAgentResult(
        ok=error is None,
        summary=summary,
        artifacts=artifacts,
        evidence_added=len(artifacts),
        tokens_used=used,
        budget_exceeded=result.budget_exceeded or (limit is not None and used >= limit),
        session_id=result.session_id,
        transcript=result.transcript,
        status=result.status,
        data=data,
        error=error,
    )


def _find_error(result: RunResult, prepared: _Prepared, lacks_data: bool) -> SubAgentError | None:
    """Say why the child did not succeed; None if it did."""
    for entry in result.entries:
        if type(entry) is ToolResulted and (
            entry.outcome == "denied"
            or (entry.outcome == "unknown_tool" and entry.tool in prepared.narrowed_away)
        ):
            words = entry.result.text if entry.outcome == "denied" else "it is not allowed here"
            return SubAgentError("permission_denied", f"{entry.tool}: {words}", entry.tool)
    if result.status not in ("done", "idle"):
        about = result.error or {}
        category = str(about.get("category") or result.status)
        words = about.get("message") or f"it ended as {result.status} ({result.stop_reason})"
        return SubAgentError(category, str(words))
    if lacks_data:
        return SubAgentError("invalid_output", "its answer is not of the form that was asked for")
    return None

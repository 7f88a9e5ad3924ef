"""An agent as a tool: its key names the child's session, so that a killed child resumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from windlass.access.caller import Caller
from windlass.agents.system_prompt import check_deps
from windlass.engine import driver
from windlass.engine.driver import RunRequest, conduct
from windlass.engine.environment import current_environment
from windlass.engine.orphans import place_under
from windlass.engine.ownership import owner_of
from windlass.engine.results import AgentResult, tree_of
from windlass.engine.resume import resume_run
from windlass.engine.run_options import AgentOptions, RunOptions
from windlass.errors import NoSuchSession, WorkspaceChanged
from windlass.events import ChildEvent, Event
from windlass.identifiers import child_session_id
from windlass.loop.ledger import Ledger
from windlass.loop.plan import Plan
from windlass.loop.reminders import inherit_reminders
from windlass.loop.run import Run
from windlass.loop.sinks import Sink
from windlass.messages import Message, ToolResult, as_messages
from windlass.models.base import silent
from windlass.observe.callbacks import CallbackOptions, sinks_of
from windlass.policies.preview.mode import for_child
from windlass.store.base import Store
from windlass.tools.middleware.agent import AgentTool
from windlass.tools.tool import Parked, Tool, ToolContext

_PARAMETERS = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "What to do, in full."}},
    "required": ["task"],
    "additionalProperties": False,
}


class ChildAgent(Protocol):
    """The part of an agent that a run below another one needs."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The checked options that it was created with."""
        ...

    async def plan_for(
        self,
        deps: Any,
        caller: Caller | None,
        session_id: str | None,
        going_on: Store | None = None,
    ) -> Plan:
        """Return the plan of one run."""
        ...


class Delegate(ChildAgent, Protocol):
    """The part of an agent that its tool needs."""

    @property
    def name(self) -> str | None:
        """Its name in traces."""
        ...


def agent_tool(agent: Delegate, name: str | None, description: str | None) -> Tool:
    """Build a tool that hands its task to the agent."""
    own = AgentOptions.read(agent.options).description

    async def handler(args: dict[str, Any], ctx: ToolContext[Any]) -> ToolResult | Parked:
        return await _delegate(agent, args["task"], ctx)

    return AgentTool(
        name=name or agent.name or "agent",
        description=description or own or f"Hand a task to {agent.name or 'another agent'}.",
        parameters=_PARAMETERS,
        handler=handler,
        keyed=True,
        kind="agent",
    )


async def share_workspace(plan: Plan, parent: Run, child_id: str) -> Plan:
    """Have an agent that names no workspace begin in the one of the run that calls it."""
    try:
        await parent.store.info(child_id)
    except NoSuchSession:
        pass
    else:
        return plan  # it has begun: its own session knows
    try:
        return plan.follow(parent.journal.entries)
    except WorkspaceChanged:
        return plan  # it names another


async def _delegate(agent: Delegate, task: str, ctx: ToolContext[Any]) -> ToolResult | Parked:
    """Run the agent on the task, and return what its parent's model reads of it."""
    out = await run_child(agent, task, ctx, child_session_id(ctx.session_id, ctx.call_id))
    if out.status == "suspended":
        waiting = [call.id for call in out.pending]
        return Parked(
            out.stop_reason or "waiting", {"session_id": out.session_id, "calls": waiting}
        )
    if out.status == "done":
        return ToolResult(content=out.final_text)
    why = (out.error or {}).get("message")
    text = f"The agent ended as {out.status} ({out.stop_reason}){f': {why}' if why else '.'}"
    if out.final_text:
        text += f" It said: {out.final_text}"
    return ToolResult(content=text, is_error=True, outcome="error")


class _Counts(dict[tuple[str, int], int]):
    """How many children each attempt of a call has begun in this process."""


def name_child(parent: ToolContext[Any]) -> str:
    """Name the next child of the call: the same name when the call runs again after a crash."""
    scope = parent.scope
    counts = scope.cache.setdefault(_Counts, _Counts()) if isinstance(scope, Run) else _Counts()
    key = (parent.call_id, parent.attempt)
    number = counts[key] = counts.get(key, -1) + 1
    return f"{parent.call_id}.{number}"


async def run_child(
    agent: ChildAgent,
    task: str | Sequence[Message],
    ctx: ToolContext[Any],
    child_id: str,
    above: Ledger | None = None,
) -> AgentResult[Any]:
    """Run the agent on a task of the tool call, under the rules and the books of its run.

    A session of this id that was begun before goes on. `above` are books between the child's and its
    parent's, which several children share.
    """
    runtime = current_environment()
    parent = ctx.scope if isinstance(ctx.scope, Run) else None
    store = parent.store if parent is not None else None
    if (kind := AgentOptions.read(agent.options).deps_type) is not None:
        check_deps(kind, ctx.deps)
    plan = await agent.plan_for(ctx.deps, ctx.caller, child_id, store or runtime.store)
    if parent is not None:
        if plan.relocate is not None:
            plan = await share_workspace(plan, parent, child_id)
        plan = for_child(place_under(plan, parent), parent.plan, parent.session_id)
    take_over = parent is not None and parent.host.took_over
    if above is None:
        above = parent.ledger if parent is not None else runtime.ledger_for(ctx.caller)
    owner = owner_of(parent.journal.entries) if parent is not None else None
    request = RunRequest(
        plan=plan,
        environment=runtime,
        store=store,
        caller=ctx.caller,
        deps=ctx.deps,
        sinks=(
            *sinks_of(CallbackOptions.read(agent.options).on_event),
            *_show_to_parent(parent, ctx, child_id),
        ),
        ledger=Ledger(plan.limits, above),
        take_over=take_over,
        owner=owner,
        parent_id=ctx.session_id,
        keeps_waiting=parent is not None and parent.host.keeps_waiting,
        request_id=parent.host.request_id if parent is not None else None,
        conversation_id=parent.host.conversation_id if parent is not None else None,
    )
    try:
        begun = await resume_run(request, child_id)
    except NoSuchSession:
        reminders = inherit_reminders(parent.view.reminders) if parent is not None else ()
        begun = await driver.start(request, as_messages(task), child_id, reminders=reminders)
    begun.parent = parent
    try:
        outcome = await conduct(begun, runtime, abort=RunOptions.read(agent.options).abort)
        return AgentResult(begun.run, outcome)
    finally:
        if parent is not None:
            parent.calls.children = {**parent.calls.children, child_id: tree_of(begun.run)}


def _show_to_parent(parent: Run | None, ctx: ToolContext[Any], child_id: str) -> tuple[Sink, ...]:
    """Return the sink that shows the child's events to those who watch its parent, if anybody does."""
    if parent is None or parent.emit is silent:
        return ()
    host = parent.host
    name, call_id = ctx.tool_name, ctx.call_id

    def show(event: Event) -> None:
        if isinstance(event, ChildEvent):
            path, session_id, inner = (name, *event.path), event.session_id, event.event
        else:
            path, session_id, inner = (name,), child_id, event
        # its own run has taken secrets out of it
        host.show(ChildEvent(path, session_id, call_id, inner))

    return (show,)

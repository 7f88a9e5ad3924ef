"""Runs of calls that clients ask for: begun, approved by a person, resumed, answered.

Nothing about authority is decided here: `models.generate` and `models.resume` do, and `sessions.approvals`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import mcp_types as types

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.engine.ownership import find_session
from windlass.engine.run_options import AgentOptions
from windlass.errors import AlreadyAnswered, InvalidAnswer, NotFound, Suspended, WindlassError
from windlass.events import (
    ChildEvent,
    Event,
    IterationStart,
    ToolCallUpdate,
    ToolMessage,
    ToolResulted,
)
from windlass.events.receipts import elicitation_of
from windlass.json_types import JsonObject, is_object
from windlass.mcp.server.catalog import Catalog
from windlass.mcp.server.peer import Channel, McpPeer, PeerCannot, build_form, set_peer
from windlass.mcp.server.requested_call import (
    CALL_ID,
    CallModel,
    EndAfterCall,
    RequestedCall,
    find_call,
)
from windlass.messages import ToolResult
from windlass.sessions.approvals import NoSuchApproval, PendingApproval, answer, approvals
from windlass.tools.middleware.agent import AgentTool
from windlass.tools.middleware.base import ToolWrapper
from windlass.tools.tool import Tool

log = logging.getLogger("windlass.server")

#: Questions that a person is asked about one call, at most.
MOST_QUESTIONS: Final = 20
_FORM: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "May the call run?"},
        "reason": {"type": "string", "title": "Reason", "description": "For the record."},
    },
    "required": ["approve"],
}


class Recorder:
    """A sink that keeps the result of the call, and passes its progress on."""

    def __init__(self, report: Callable[[object], None]) -> None:
        self.report = report
        self.recorded: ToolResulted | None = None
        self.shown: ToolResult | None = None

    def __call__(self, event: Event) -> None:
        """Take one event of the run."""
        if isinstance(event, ToolResulted) and event.call_id == CALL_ID:
            self.recorded = event
        elif isinstance(event, ToolMessage):
            self.shown = (event.shown or {}).get(CALL_ID)
        elif isinstance(event, ToolCallUpdate) and event.progress is not None:
            self.report(event.progress)
        elif isinstance(event, ChildEvent) and isinstance(event.event, IterationStart):
            self.report(f"{'/'.join(event.path)}: turn {event.event.number}")

    def result(self, tool: Tool | None, expose_errors: bool) -> ToolResult:
        """Return the answer as a model would see it; what a tool raised is told by an id alone."""
        recorded = self.recorded
        if recorded is None:
            raise NotFound("the call has no result")
        result = self.shown or recorded.result
        raised = recorded.outcome == "error" and (recorded.traceback is not None or _is_agent(tool))
        if not raised or not result.is_error or expose_errors:
            return result
        number = seams.new_id("error")
        log.warning("call %s of %s failed: %s", number, recorded.tool, recorded.result.text)
        text = f"the tool {recorded.tool} failed (id {number})"
        return ToolResult(content=text, is_error=True, outcome="error")


def _is_agent(tool: Tool | None) -> bool:
    while isinstance(tool, ToolWrapper):
        tool = tool.inner
    return isinstance(tool, AgentTool)


class CallChannel(Channel, Protocol):
    """The way to the client of one call, and what is known of the call itself."""

    @property
    def session_id(self) -> str:
        """The session that the call runs in; empty before it has begun."""
        ...

    def note_session(self, session_id: str) -> None:
        """Keep the session that the call runs in."""
        ...

    def report(self, progress: object) -> None:
        """Send the progress of the tool."""
        ...


class CallRuns:
    """The runs of one server: a call in, its result out."""

    def __init__(
        self, catalog: Catalog, options: JsonObject, *, client_decisions: bool, expose_errors: bool
    ) -> None:
        self.catalog, self.runtime = catalog, catalog.runtime
        self.options = options
        self.client_decisions, self.expose_errors = client_decisions, expose_errors

    async def begin(
        self,
        tool: Tool,
        call: RequestedCall,
        caller: Caller,
        channel: CallChannel,
    ) -> ToolResult:
        """Run a call; a person at the client may be asked to approve it."""
        peer = McpPeer(channel)
        set_peer(peer)
        recorder = Recorder(channel.report)
        options = self._options(tool, recorder, caller, channel)
        try:
            await self.runtime.models.generate(call.to_prompt(), **options)
        except Suspended as parked:
            await self._approve_and_resume(parked, channel.session_id, caller, peer, options)
        return recorder.result(tool, self.expose_errors)

    async def resume(
        self,
        session_id: str,
        caller: Caller,
        channel: CallChannel,
    ) -> tuple[ToolResult, Tool]:
        """Go on with a call that was parked or killed; of a finished one, return the result."""
        peer = McpPeer(channel)
        set_peer(peer)
        recorder = Recorder(channel.report)
        key = await self._find(session_id, caller)
        entries = await self.runtime.store.read(key)
        wanted = find_call(entries)
        tool = None if wanted is None else self.catalog.find(wanted.tool)
        if wanted is None or tool is None:
            raise NotFound(f"session {session_id!r} has no call of this server")
        for entry in entries:
            recorder(entry)
        options = self._options(tool, recorder, caller, channel)
        try:
            await self.runtime.models.resume(session_id, **options)
        except Suspended as parked:
            await self._approve_and_resume(parked, session_id, caller, peer, options)
        return recorder.result(tool, self.expose_errors), tool

    async def _find(self, session_id: str, caller: Caller) -> str:
        return await find_session(self.runtime.store, session_id, caller, self.runtime, "resume")

    def _options(
        self, tool: Tool, recorder: Recorder, caller: Caller, channel: CallChannel
    ) -> JsonObject:
        policies = (*AgentOptions.read(self.options).policies, EndAfterCall(channel.note_session))
        return {
            **self.options,
            "model": CallModel(),
            "tools": [tool],
            "policies": policies,
            "max_tool_iterations": 1,
            "on_event": recorder,
            "caller": caller,
        }

    # --------------------------------------------------------------------------- approvals

    async def _approve_and_resume(
        self,
        parked: Suspended,
        session_id: str,
        caller: Caller,
        peer: McpPeer,
        options: JsonObject,
    ) -> None:
        """Ask the person at the client until the run has its answers; raise if it stays parked."""
        for _ in range(MOST_QUESTIONS):
            questions = await self._questions(session_id, caller)
            open_ones = [one for one in questions if one.answered is None and not one.expired]
            if open_ones:
                if not self.client_decisions or not peer.can("elicitation"):
                    raise parked
                if not await self._ask(open_ones, caller, peer):
                    raise parked
            elif not questions:
                raise parked  # it waits for something else than an approval
            try:
                await self.runtime.models.resume(session_id, **options)
                return
            except Suspended as again:
                parked = again
        raise parked

    async def _questions(self, session_id: str, caller: Caller) -> list[PendingApproval]:
        """List what a call waits for, and the agents that it started."""
        key = await self._find(session_id, caller)
        with self.runtime.as_current():
            waiting = await approvals(self.runtime.store, caller=caller)
        return [one for one in waiting if f"{one.session_id}.".startswith(f"{key}.")]

    async def _ask(
        self, questions: Sequence[PendingApproval], caller: Caller, peer: McpPeer
    ) -> bool:
        """Ask about each call; return whether all have an answer now."""
        asks = {one.id: build_form(describe_question(one), _form_of(one)) for one in questions}
        try:
            answers = await peer.ask(asks, by_server=True)
        except PeerCannot:
            return False
        for one in questions:
            said = answers.get(one.id)
            if not isinstance(said, types.ElicitResult) or said.action == "cancel":
                return False
            content = dict(said.content or {})
            allowed, reason = said.action == "accept", None
            filled = content if _form_of(one) is not _FORM else None
            if filled is None:
                allowed, reason = allowed and content.get("approve") is True, content.get("reason")
            reason = reason if isinstance(reason, str) else None
            if not await self._answer(one, allowed, reason, filled, caller):
                return False
        return True

    async def _answer(
        self,
        one: PendingApproval,
        allowed: bool,
        reason: str | None,
        content: JsonObject | None,
        caller: Caller,
    ) -> bool:
        """Record an answer; False if it does not fit the question, which stays open."""
        by, filled, home = None if is_host(caller) else caller, content, self.runtime.store
        try:
            with self.runtime.as_current():
                await answer([one.id], allowed, by=by, reason=reason, content=filled, store=home)
        except (AlreadyAnswered, NoSuchApproval):
            pass  # somebody was faster: the first answer holds
        except InvalidAnswer:
            return False
        return True

    async def describe_parked(self, parked: WindlassError, caller: Caller) -> list[str]:
        """Say what a parked call waits for, and how somebody answers."""
        if parked.session_id is None:
            return []
        lines: list[str] = []
        for one in await self._questions(parked.session_id, caller):
            lines.append(f"{describe_question(one)} Approval {one.id[:12]}.")
        return lines


def _form_of(one: PendingApproval) -> JsonObject:
    """Return the form of a question: that of the server which asks, else yes or no."""
    asked = elicitation_of(one.receipt)
    schema: object = None if asked is None else asked.get("schema")
    return schema if is_object(schema) and schema.get("type") == "object" else _FORM


def describe_question(one: PendingApproval) -> str:
    """Describe a call that waits for approval, for a person."""
    shown = str(one.arguments)
    shown = shown if len(shown) <= 500 else f"{shown[:499]}…"
    why = f" {one.reason}." if one.reason else ""
    details = "".join(f"\n{line}" for line in one.details)
    if _form_of(one) is not _FORM:
        return f"{one.reason or f'{one.tool} asks'}{details}"
    return f"May {one.tool} run with {shown}?{why}{details}"

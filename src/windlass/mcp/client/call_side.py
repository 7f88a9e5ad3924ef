"""The run that calls a tool of a server: where questions, progress and samples of the call go.

A question is put to the host's `request_permission` where there is one. Else it is put on record beside
the approvals, and the run is parked; the answer is found there when the call is made again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from windlass.errors import PermissionDenied, error_text
from windlass.events import InboxTaken, IterationStart, ToolDecided
from windlass.json_types import JsonObject, is_list, is_object
from windlass.loop.approval_request import Source, question
from windlass.loop.form_answer import describe_form, fill_defaults, find_form_problems
from windlass.loop.resume_input import Allow, Deny
from windlass.loop.run import Run
from windlass.loop.verdict import Ask
from windlass.mcp.client.offer import CallParked, Question, Round
from windlass.messages import Message, Text, ToolCall
from windlass.models.base import Frame, Request, Settings
from windlass.toolbox.session_workspace import find_workspace
from windlass.tools.tool import Parked, Tool, ToolContext

RULE: Final = "mcp_elicitation"
SAMPLING: Final = "mcp_sampling"  # the purpose of a model call
_MOST_TOKENS: Final = 4096  # of a sample


class McpHost(msgspec.Struct, frozen=True):
    """What a run keeps for the questions of servers, in its cache."""

    request_permission: Callable[..., Any] | None = None


class RunSide:
    """One call of one run."""

    def __init__(
        self, ctx: ToolContext[Any], tool: Tool, server: str, listed: str, roots: tuple[str, ...]
    ) -> None:
        self._ctx, self._tool, self._server, self._listed = ctx, tool, server, listed
        self._roots = roots
        run = ctx.scope
        self._run = run if isinstance(run, Run) else None
        self._answers = [] if self._run is None else read_answers(self._run, ctx.call_id)
        self._used: set[int] = set()

    @property
    def owner(self) -> str:
        """The session whose run calls."""
        return self._ctx.session_id

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders of the session's workspace, or of the agent's where the session has none."""
        found = None if self._run is None else find_workspace(self._run.journal.entries)
        if found is None:
            return self._roots
        return (found.anchor, *(self._roots[1:] or found.mounts))

    @property
    def round(self) -> Round | None:
        """The round that a parked call goes on with: that of its last question, if it has one."""
        if not self._answers:
            return None
        last = self._answers[-1][0]
        return None if last.requests is None else Round(last.requests, last.state)

    def progress(self, data: JsonObject) -> None:
        """Report the progress of the call."""
        self._ctx.progress(data)

    async def elicit(self, asked: Question) -> JsonObject:
        """Answer from the record or by the host; else record the question and park the call."""
        if not asked.tool:
            asked = msgspec.structs.replace(asked, tool=self._listed)
        for at, (known, answer) in enumerate(self._answers):
            if at not in self._used and _is_same(known, asked):
                self._used.add(at)
                return answer
        run = self._run
        if run is None:
            return {"action": "cancel"}
        host: McpHost | None = run.cache.get(McpHost)
        if host is not None and host.request_permission is not None:
            answer = await self._ask_host(run, host.request_permission, asked)
            if answer is not None:
                return answer
        self._record(run, asked)
        raise CallParked(f"{self._server} asks: {asked.message}")

    async def _ask_host(
        self, run: Run, request: Callable[..., Any], asked: Question
    ) -> JsonObject | None:
        """Ask the host's function; None parks the run."""
        about: JsonObject = {
            "toolName": self._ctx.tool_name,
            "callId": self._ctx.call_id,
            "sessionId": run.session_id,
            "reason": asked.message,
            "elicitation": build_elicitation(asked),
        }
        try:
            answer: object = request(about)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:
            return {"action": "cancel", "reason": error_text(error)}
        if isinstance(answer, Allow) or answer is True:
            content = answer.content if isinstance(answer, Allow) else None
            if problems := find_form_problems(asked.schema, content):
                return {"action": "cancel", "reason": "; ".join(problems)}
            return accept(asked, content)
        if isinstance(answer, Deny) or answer is False:
            return {"action": "decline"}
        return None

    def _record(self, run: Run, asked: Question) -> None:
        turn = run.turn
        call = (
            next((one for one in turn.calls if one.id == self._ctx.call_id), None) if turn else None
        )
        arguments = self._ctx.decided or ({} if call is None else call.arguments)
        about: JsonObject = msgspec.to_builtins(asked)
        told = build_elicitation(asked)
        receipt: JsonObject = {
            "action": "ask",
            "rule": RULE,
            "rationale": asked.message,
            "elicitation": told,
            "details": describe_form(told),
        }
        ask = Ask(f"{self._server} asks: {asked.message}", about=about, receipt=receipt)
        made = ToolCall(self._ctx.call_id, self._ctx.tool_name, arguments)
        run.record(question(run, made, self._tool, [Source(RULE, ask)]))

    async def sample(self, request: JsonObject) -> JsonObject:
        """Ask the run's model; the reply is paid for and recorded as any other."""
        run = self._run
        if run is None:
            raise PermissionDenied("there is no run whose model could be asked")
        messages = [
            Message("assistant" if one.get("role") == "assistant" else "user", (_read_text(one),))
            for one in request.get("messages", ())
        ]
        most = min(int(request.get("maxTokens") or _MOST_TOKENS), _MOST_TOKENS)
        frame = Frame(request.get("systemPrompt"), (), Settings(max_tokens=most))
        reply = await run.ask(Request(tuple(messages), frame), SAMPLING)
        reason = "maxTokens" if reply.stop_reason == "max_tokens" else "endTurn"
        return {
            "role": "assistant",
            "content": {"type": "text", "text": reply.message.text},
            "model": reply.model or run.model.name,
            "stopReason": reason,
        }


def _read_text(message: JsonObject) -> Text:
    content: object = message.get("content")
    parts = content if is_list(content) else [content]
    return Text("\n".join([str(one.get("text", "")) for one in parts if is_object(one)]))


def _is_same(known: Question, asked: Question) -> bool:
    """Check whether an answer on record is one to this question, of this round where there are rounds."""
    return known.digest == asked.digest and (known.key, known.state) == (asked.key, asked.state)


def build_elicitation(asked: Question) -> JsonObject:
    """Build what a person is shown of a question."""
    told: JsonObject = {"server": asked.server, "message": asked.message}
    if asked.url is not None:
        told["url"] = asked.url
    if asked.schema is not None:
        told["schema"] = asked.schema
    return told


def accept(asked: Question, content: Mapping[str, Any] | None) -> JsonObject:
    """Build the answer of a person who accepts; what is left out has the default of the schema."""
    if asked.schema is None:
        return {"action": "accept"}
    return {"action": "accept", "content": fill_defaults(asked.schema, content)}


def read_answers(run: Run, call_id: str) -> list[tuple[Question, JsonObject]]:
    """Read the answered questions of a call of the turn under way, in order."""
    asked: dict[str, Question] = {}
    found: list[tuple[Question, JsonObject]] = []
    entries = run.journal.entries
    start = next(
        (at for at in range(len(entries) - 1, -1, -1) if type(entries[at]) is IterationStart), 0
    )
    for entry in entries[start:]:
        if type(entry) is ToolDecided and entry.call_id == call_id and entry.action == "ask":
            about = next((one.get("about") for one in entry.asks if one["rule"] == RULE), None)
            if about is not None and entry.ask is not None:
                asked[entry.ask] = msgspec.convert(about, Question)
        elif type(entry) is InboxTaken and entry.item == "decision" and is_object(entry.payload):
            answer = entry.payload.get(call_id)
            if is_object(answer) and answer.get("ask") in asked and answer.get("action") == "allow":
                one = asked.pop(answer["ask"])
                content = answer.get("content")
                found.append((one, accept(one, content if is_object(content) else None)))
    return found


def build_parked(parked: CallParked) -> Parked:
    """Build what parks the run of a call that waits for an answer."""
    return Parked(str(parked), {"elicitation": True})

"""What an agent may do: a ceiling over its tools, and lists of what is allowed and denied.

Both are asked about every call when it is about to run. What a parent may not do, its sub-agents may
not do either: both go on to a child's run.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from windlass.access.ceiling import Ceiling
from windlass.access.permissions import PermissionRequest, Permissions
from windlass.errors import said, shown
from windlass.events import PermissionDeny, PermissionEscalation, PermissionGrant
from windlass.loop.answers import Allow, Deny
from windlass.loop.asks import parked_by
from windlass.loop.plan import digest_of
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.verdict import Ask, Suspend
from windlass.messages import ToolCall, ToolResult
from windlass.tools.answer import not_permitted
from windlass.tools.handlers import own


class UnderCeiling(Policy[None]):
    """Nothing above the ceiling runs, and nobody can lift it."""

    def __init__(self, ceiling: Ceiling, name: str = "policy") -> None:
        self.ceiling, self._name = ceiling, name

    @property
    def name(self) -> str:
        return self._name

    async def before_tool(self, run: Run, call: ToolCall) -> ToolResult | None:
        tool = run.tools[call.name]
        reason = self.ceiling.refusal(tool.name, tool.annotations)
        return None if reason is None else not_permitted(call, reason)

    def for_child(self, run: Run) -> UnderCeiling:
        return UnderCeiling(self.ceiling, f"parent.{self.name}")


class Grants(msgspec.Struct, frozen=True):
    """Calls that were granted for the session, by the digest of tool and arguments."""

    calls: tuple[str, ...] = ()


Grant = Literal["once", "session"]


class Permitted(Policy[Grants]):
    """Deny what the lists deny; whoever `on_escalation` is may grant it once, or for the session."""

    memory = Grants
    keeps = "session"

    def __init__(self, permissions: Permissions, name: str = "permissions") -> None:
        self.permissions, self._name = permissions, name

    @property
    def name(self) -> str:
        return self._name

    def for_child(self, run: Run) -> Permitted:
        return Permitted(self.permissions, f"parent.{self.name}")

    async def before_tool(self, run: Run, call: ToolCall) -> ToolCall | ToolResult | Suspend | None:
        digest = digest_of((call.name, call.arguments))
        granted: Grants = run.recall(self)
        if digest in granted.calls:
            run.record(PermissionGrant(call.name, call.id, "session", "granted before"))
            return _named(call)
        tool = run.tools[call.name]
        names: Mapping[str, Any] = tool.spec.parameters.get("properties") or {}
        reason = await self.permissions.refusal(call.name, call.arguments, tool.annotations, names)
        if reason is None:
            return None
        if self.permissions.on_escalation is None:
            return self._denied(run, call, reason)
        if parked_by(run, self.name, call.id):  # a person has answered: nobody is asked again
            return Ask(f"may {call.name} run? {reason}")
        return await self._escalated(run, call, reason, digest)

    async def _escalated(
        self, run: Run, call: ToolCall, reason: str, digest: str
    ) -> ToolCall | ToolResult | Suspend:
        run.record(PermissionEscalation(call.name, call.id, reason))
        ask = self.permissions.on_escalation
        assert ask is not None
        try:
            answer = ask(PermissionRequest(call.name, own(call.arguments), reason, run.session_id))
            if inspect.isawaitable(answer):
                answer = await answer
            grant = _grant(answer)
        except Exception as error:  # who cannot be asked has not said yes
            return self._denied(run, call, f"{reason}; on_escalation failed: {said(error)}")
        if grant == "ask":
            return Ask(f"may {call.name} run? {reason}")
        if grant is None:
            why = answer.reason if isinstance(answer, Deny) else None
            return self._denied(run, call, why or reason)
        run.record(PermissionGrant(call.name, call.id, grant, reason))
        if grant == "session":
            known: Grants = run.recall(self)
            run.remember(self, Grants((*known.calls, digest)))
        return _named(call)

    def _denied(self, run: Run, call: ToolCall, reason: str) -> ToolResult:
        run.record(PermissionDeny(call.name, call.id, reason))
        return not_permitted(call, reason)


def _named(call: ToolCall) -> ToolCall:
    """A copy: the decision on record then names the policy that let it through."""
    return msgspec.structs.replace(call)


def _grant(answer: object) -> Grant | Literal["ask"] | None:
    """What was answered; all that is not clearly a yes is a no."""
    if isinstance(answer, Mapping):
        said_so = cast("Mapping[Any, Any]", answer)
        if set(said_so) != {"grant"}:
            raise ValueError(f"it answers {{'grant': 'once' | 'session'}}, not {shown(said_so)}")
        answer = said_so["grant"]
        if answer not in ("once", "session", "ask", True, False, None):
            raise ValueError(f"it grants 'once' or 'session', not {shown(answer)}")
    if answer is True or isinstance(answer, Allow):
        return "once"
    if answer in ("once", "session", "ask"):
        return cast("Grant", answer)
    if answer is False or answer is None or isinstance(answer, Deny):
        return None
    raise ValueError(f"it answers True, False or {{'grant': …}}, not {shown(answer)}")

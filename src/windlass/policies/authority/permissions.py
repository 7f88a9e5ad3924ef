"""Permissions of an agent: a ceiling over its tools, and lists of allowed and denied ones.

Both are asked about every call when it is about to run. What a parent may not do, its sub-agents may
not do either: both go on to a child's run.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast

import msgspec

from windlass.access.ceiling import Ceiling
from windlass.access.paths import current_folder
from windlass.access.permissions import (
    ArgPattern,
    Entry,
    PathScope,
    PermissionRequest,
    Permissions,
    Ruling,
    entries_of,
)
from windlass.errors import error_text, safe_repr
from windlass.events import PermissionDeny, PermissionEscalation, PermissionGrant, Replied
from windlass.json_types import JsonObject
from windlass.loop.approval_request import parked_by
from windlass.loop.plan import digest_of
from windlass.loop.policy import CallVerdict, Policy
from windlass.loop.resume_input import (
    Allow,
    Deny,
    decision_of,
    is_session_answer,
)
from windlass.loop.run import Run
from windlass.loop.verdict import Ask, Granted, Refused
from windlass.messages import ToolCall
from windlass.options.checks import check_struct, function, optional
from windlass.options.group import Check, Option, OptionGroup, struct
from windlass.policies.build import BuildContext, Policies
from windlass.toolbox.options import WorkspaceOptions
from windlass.tools.handlers import own
from windlass.tools.result import not_permitted

_check_allow: Check = optional(entries_of)


def _check_deny(name: str, value: Any) -> Any:
    return _check_allow(name, value) or ()


class PermissionOptions(OptionGroup, frozen=True, kw_only=True):
    """Permissions and the ceiling of an agent."""

    policy: Annotated[
        Ceiling | None,
        Option(struct(Ceiling, flag=False), accepts="dict[str, Any] | Ceiling | None"),
    ] = None
    """The most that the agent may do; no permission and no person can allow more."""
    permissions: Annotated[
        Permissions | None,
        Option(
            check_struct(
                Permissions,
                {"allow": _check_allow, "deny": _check_deny, "on_escalation": function},
                flag=False,
            ),
            accepts="dict[str, Any] | Permissions | None",
        ),
    ] = None
    """Lists of allowed and denied tool calls."""


def build(ctx: BuildContext) -> Policies:
    """Build the policies of the ceiling and of the lists, in this order."""
    options, chosen = PermissionOptions.read(ctx.values), list[Policy[Any]]()
    if options.policy is not None:
        chosen.append(UnderCeiling(options.policy))
    lists = options.permissions
    if lists is not None:
        place = WorkspaceOptions.read(ctx.values)
        root = None
        if place.workspace is not None or place.mounts:
            root = place.anchor
            lists = lists.place_in(root, place.resolve_mounts())
        chosen.append(PermissionCheck(lists, root=root))
    return chosen


class UnderCeiling(Policy[None]):
    """A policy that refuses every call above the ceiling, without exception."""

    decides = True

    def __init__(self, ceiling: Ceiling, name: str = "policy") -> None:
        self.ceiling, self._name = ceiling, name

    @property
    def name(self) -> str:
        return self._name

    async def before_tool(self, run: Run, call: ToolCall) -> Refused | None:
        tool = run.tools[call.name]
        reason = self.ceiling.refusal(tool.name, tool.annotations)
        return None if reason is None else _build_refusal(call, "ceiling", reason)

    def for_child(self, run: Run) -> UnderCeiling:
        return UnderCeiling(self.ceiling, f"parent.{self.name}")

    def as_record(self) -> JsonObject:
        return {"ceiling": msgspec.to_builtins(self.ceiling)}


def rebuild_ceiling(data: object, name: str) -> UnderCeiling:
    """Build the policy of a ceiling from the record of a sub-agent."""
    return UnderCeiling(msgspec.convert(data, Ceiling), name)


class Grants(msgspec.Struct, frozen=True):
    """Calls that were granted for the session, by the digest of tool and arguments."""

    calls: tuple[str, ...] = ()


Grant = Literal["once", "session"]


class PermissionCheck(Policy[Grants]):
    """A policy that denies by the lists; `on_escalation` may grant once or for the session."""

    memory = Grants
    keeps = "session"
    decides = True

    def __init__(
        self, permissions: Permissions, name: str = "permissions", root: str | None = None
    ) -> None:
        self.permissions, self._name, self._root = permissions, name, root

    @property
    def name(self) -> str:
        return self._name

    def for_child(self, run: Run) -> PermissionCheck:
        return PermissionCheck(self.permissions, f"parent.{self.name}", self._root)

    def as_record(self) -> JsonObject | None:
        """Return the lists, without `on_escalation`; None if one of them asks a function."""
        lists = self.permissions
        allow = None if lists.allow is None else _to_lines(lists.allow)
        deny = _to_lines(lists.deny)
        if deny is None or (allow is None and lists.allow is not None):
            return None
        record: JsonObject = {"allow": allow, "deny": deny}
        if self._root is not None:
            record["workspace"] = self._root
        return {"permissions": record}

    async def before_tool(self, run: Run, call: ToolCall) -> CallVerdict:
        digest = digest_of((call.name, call.arguments))
        granted: Grants = run.recall(self)
        if digest in granted.calls:
            why = "granted before"
            _record_grant(run, PermissionGrant(call.name, call.id, "session", why))
            return Granted(why, receipt=_receipt("allow", "granted for the session", why))
        tool = run.tools[call.name]
        names: Mapping[str, Any] = tool.spec.parameters.get("properties") or {}
        ruling = await self.permissions.rule_on(
            call.name, call.arguments, tool.annotations, names, self._root
        )
        if ruling.allowed:
            if ruling.rule is None:
                return None
            _record_grant(run, PermissionGrant(call.name, call.id, "once", ruling.reason))
            return Granted(
                ruling.reason, receipt=_receipt("allow", f"allow {ruling.rule}", ruling.reason)
            )
        if self.permissions.on_escalation is None:
            return self._deny(run, call, ruling, ruling.reason)
        ask = Ask(
            f"may {call.name} run? {ruling.reason}",
            receipt=_receipt("ask", _line(ruling), ruling.reason),
        )
        if parked_by(run, self.name, call.id):  # a person has answered: do not ask again
            return ask
        return await self._escalate(run, call, ruling, ask, digest)

    async def _escalate(
        self, run: Run, call: ToolCall, ruling: Ruling, ask: Ask, digest: str
    ) -> CallVerdict:
        reason = ruling.reason
        run.record(PermissionEscalation(call.name, call.id, reason))
        escalate = self.permissions.on_escalation
        assert escalate is not None
        request = PermissionRequest(call.name, own(call.arguments), reason, run.session_id)
        try:
            answer = escalate(request)
            if inspect.isawaitable(answer):
                answer = await answer
            grant = _grant(answer)
        except Exception as error:  # a failed function counts as a no
            why = f"{reason}; on_escalation failed: {error_text(error)}"
            return self._deny(run, call, ruling, why, _HOST, ask)
        if grant == "ask":
            return ask
        named = decision_of(answer).person if isinstance(answer, (Allow, Deny)) else None
        by = named or _HOST
        if grant is None:
            why = answer.reason if isinstance(answer, Deny) else None
            return self._deny(run, call, ruling, why or reason, by, ask)
        _record_grant(run, PermissionGrant(call.name, call.id, grant, reason))
        if grant == "session":
            known: Grants = run.recall(self)
            run.remember(self, Grants((*known.calls, digest)))
        why = answer.reason if isinstance(answer, Allow) else None
        return Granted(why, by, ask, ask.receipt)

    def _deny(
        self,
        run: Run,
        call: ToolCall,
        ruling: Ruling,
        reason: str,
        by: str | None = None,
        ask: Ask | None = None,
    ) -> Refused:
        run.record(PermissionDeny(call.name, call.id, reason))
        return _build_refusal(call, _line(ruling), reason, by, ask)


def _record_grant(run: Run, grant: PermissionGrant) -> None:
    """Record a grant once: a call that another policy parked is decided on again."""
    for entry in reversed(run.entries):
        if (
            type(entry) is Replied and entry.purpose is None
        ):  # the reply that asked for the call: what is older is of others
            break
        if type(entry) is PermissionGrant and entry.call_id == grant.call_id:
            return
    run.record(grant)


_HOST = "on_escalation"  # the name recorded where no person is named


def _line(ruling: Ruling) -> str:
    """Describe the line that denies a call."""
    return f"deny {ruling.rule}" if ruling.rule is not None else "not allowed"


def _receipt(action: str, rule: str, rationale: str) -> dict[str, Any]:
    return {"action": action, "rule": rule, "rationale": rationale}


def _build_refusal(
    call: ToolCall, rule: str, reason: str, by: str | None = None, ask: Ask | None = None
) -> Refused:
    return Refused(not_permitted(call, reason), reason, by, ask, _receipt("deny", rule, reason))


def _grant(answer: object) -> Grant | Literal["ask"] | None:
    """Parse the answer; anything but a clear yes is a no."""
    if isinstance(answer, Mapping):
        fields = cast("Mapping[Any, Any]", answer)
        if set(fields) != {"grant"}:
            raise ValueError(f"it answers {{'grant': 'once' | 'session'}}, not {safe_repr(fields)}")
        answer = fields["grant"]
        if answer not in ("once", "session", "ask", True, False, None):
            raise ValueError(f"it grants 'once' or 'session', not {safe_repr(answer)}")
    if isinstance(answer, Deny) and is_session_answer(answer):
        raise ValueError("a no is for one call: leave the scope out, or deny the tool in the lists")
    if isinstance(answer, Allow):
        return answer.scope
    if answer is True:
        return "once"
    if answer in ("once", "session", "ask"):
        return cast("Grant", answer)
    if answer is False or answer is None or isinstance(answer, Deny):
        return None
    raise ValueError(f"it answers True, False or {{'grant': …}}, not {safe_repr(answer)}")


class _Line(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One line of a list as plain data."""

    tool: str
    pattern: ArgPattern | None = None
    scope: PathScope | None = None


class _Lines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lists of permissions as plain data."""

    allow: tuple[_Line, ...] | None
    deny: tuple[_Line, ...]
    workspace: str | None = None


def _to_lines(entries: Sequence[Entry]) -> list[JsonObject] | None:
    """Return the lines of a list as plain data; None if one of them asks a function."""
    lines: list[JsonObject] = []
    for entry in entries:
        match entry.matcher:
            case None:
                line = _Line(tool=entry.tool)
            case ArgPattern() as pattern:
                line = _Line(tool=entry.tool, pattern=pattern)
            case PathScope() as scope:
                workspace = os.path.realpath(scope.workspace or current_folder())
                here = msgspec.structs.replace(scope, workspace=workspace)
                line = _Line(tool=entry.tool, scope=here)
            case _:
                return None
        lines.append(cast("JsonObject", msgspec.to_builtins(line)))
    return lines


def rebuild_permissions(data: object, name: str) -> PermissionCheck:
    """Build the policy of the lists from the record of a sub-agent; nobody escalates there."""
    lists = msgspec.convert(data, _Lines)
    allow = None if lists.allow is None else _from_lines(lists.allow)
    deny = _from_lines(lists.deny)
    return PermissionCheck(Permissions(allow=allow, deny=deny), name, lists.workspace)


def _from_lines(lines: Sequence[_Line]) -> tuple[Entry, ...]:
    return tuple([Entry(line.tool, line.pattern or line.scope) for line in lines])

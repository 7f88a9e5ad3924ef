"""No session reads private data, reads strangers' words and sends out without somebody's yes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from windlass.access.taint import (
    Label,
    TaintState,
    assume_labels,
    from_the_prompt,
    has_labels,
    labels_of,
)
from windlass.events import JournalEntry, Remembered, Said, SessionOpened, TaintAdded
from windlass.identifiers import child_session_id
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.verdict import Ask, Refused, Suspend
from windlass.messages import ToolCall, ToolResult
from windlass.policies.build import BuildContext, Policies
from windlass.policies.taint.options import Taint, TaintOptions
from windlass.tools.result import not_permitted
from windlass.tools.tool import Tool

NAME = "taint"
_SPOKEN = (None, "steer", "follow_up", "resume")  # kinds of what a person says


def build(ctx: BuildContext) -> Policies:
    """Build the policy, where the option asks for it or a tool carries labels."""
    rules = TaintOptions.read(ctx.values).taint
    if rules is False or (
        rules is None and not has_labels([tool.annotations for tool in ctx.tools])
    ):
        return ()
    return (ThirdLeg(rules or Taint()),)


class ThirdLeg(Policy[TaintState]):
    """Follow what a session touches; ask before it has all three, and before it sends then."""

    memory = TaintState
    keeps = "session"
    decides = True

    def __init__(
        self,
        rules: Taint,
        name: str = NAME,
        before: TaintState | None = None,
        spoken: str | None = None,
    ) -> None:
        self.rules, self._name = rules, name
        self.before = before or TaintState()  # what whoever hands the work on has touched
        self.spoken = spoken  # what the caller said to them; None: they speak to us

    @property
    def name(self) -> str:
        return self._name

    def for_child(self, run: Run) -> ThirdLeg:
        """A sub-agent begins with all that its parent has touched, and trusts nobody else's words."""
        return ThirdLeg(self.rules, f"parent.{self.name}", self._so_far(run), self._words(run))

    async def start(self, run: Run) -> None:
        """What a run begins with was read: a conversation goes on, or a history was handed in."""
        for entry in run.entries:
            if type(entry) is Said and entry.message.role == "assistant":
                for call in entry.message.tool_calls:
                    self._add_labels(run, self._handed_in(run.tools.get(call.name)), call.name)

    def _handed_in(self, tool: Tool | None) -> frozenset[Label]:
        if tool is not None:
            return self._labels(tool)
        cautious = self.rules.unlabelled == "cautious"  # nobody here knows what it was
        return frozenset({"reads_private", "reads_untrusted"} if cautious else ())

    async def before_tool(self, run: Run, call: ToolCall) -> Refused | Suspend | None:
        tool = run.tools[call.name]
        labels = self._labels(tool)
        if not labels:
            return None
        known = self._so_far(run)
        if known.third_leg(labels):
            trusted = self.rules.trust_prompt and from_the_prompt(
                call.arguments, self._words(run), tool.parameters
            )
            if not trusted:
                return self._hold_call(call, known, labels)
        self._add_labels(run, labels, call.name)
        return None

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        """A call that somebody said yes to has happened; a sub-agent's touches are its parent's."""
        tool = run.tools.get(call.name)
        if tool is not None and result.outcome not in ("denied", "not_run"):
            self._add_labels(run, self._labels(tool), call.name)
            if tool.annotations.get("kind") == "agent":
                await self._learn(run, child_session_id(run.session_id, call.id))
        return result

    def _hold_call(
        self, call: ToolCall, known: TaintState, labels: frozenset[Label]
    ) -> Refused | Suspend:
        why = known.story(call.name, labels)
        receipt: dict[str, Any] = {"action": "ask", "rule": "trifecta", "rationale": why}
        if self.rules.mode == "refuse":
            receipt["action"] = "deny"
            return Refused(not_permitted(call, why, receipt), why, receipt=receipt)
        return Ask(f"may {call.name} run? {why}", about=dict(known.by), receipt=receipt)

    def _labels(self, tool: Tool) -> frozenset[Label]:
        said = labels_of(tool.annotations)
        if said is not None:
            return said
        return (
            assume_labels(tool.annotations) if self.rules.unlabelled == "cautious" else frozenset()
        )

    def _so_far(self, run: Run) -> TaintState:
        mine: TaintState = run.recall(self)
        return mine.merge(self.before)

    def _add_labels(self, run: Run, labels: Iterable[Label], tool: str) -> None:
        mine: TaintState = run.recall(self)
        known = mine.with_(labels, tool)
        if known is not mine:
            new = tuple([label for label in known.by if label not in mine.by])
            run.record(TaintAdded(tool, new))
            run.remember(self, known)

    async def _learn(self, run: Run, session_id: str) -> None:
        touched = touched_in(await run.store.read(session_id))
        mine: TaintState = run.recall(self)
        known = mine.merge(touched)
        if known is not mine:
            run.remember(self, known)

    def _words(self, run: Run) -> str:
        if self.spoken is not None:
            return self.spoken
        return spoken_in(run.entries)


def touched_in(entries: Iterable[JournalEntry]) -> TaintState:
    """What a session has touched, by its journal."""
    found = TaintState()
    for entry in entries:
        if type(entry) is Remembered and entry.policy.rpartition(".")[2] == NAME:
            found = found.merge(msgspec.convert(entry.value, TaintState))
    return found


def spoken_in(entries: Sequence[JournalEntry]) -> str:
    """What the caller said in a session; where an agent handed the work on, nobody did."""
    opened = entries[0] if entries else None
    if isinstance(opened, SessionOpened) and opened.parent_id is not None:
        if opened.session_id.startswith(f"{opened.parent_id}."):
            return ""
    said = [
        entry.message.text
        for entry in entries
        if type(entry) is Said and entry.message.role == "user" and entry.message.kind in _SPOKEN
    ]
    return "\n".join(said)

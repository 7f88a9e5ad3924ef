"""Ask before a call with effects does what untrusted content says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from windlass.access.facts import kind_of_argument
from windlass.access.flow.decide import Decision, Known, decide_call
from windlass.access.flow.records import Record, RecordIndex, split_records
from windlass.access.flow.words import UserWords
from windlass.access.taint import Label, TaintState, assume_labels, has_labels, labels_of
from windlass.events import (
    JournalEntry,
    Remembered,
    Replied,
    Said,
    SessionOpened,
    TaintAdded,
    ToolDecided,
    ToolResulted,
)
from windlass.identifiers import child_session_id
from windlass.json_types import JsonObject
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
    return (FlowControl(rules or Taint()),)


class SeenValues:
    """What a session has heard, read from its journal as far as that has come."""

    def __init__(self) -> None:
        self.place = 0
        self.said: list[str] = []
        self.words = UserWords()
        self.records = RecordIndex()
        self.arguments: dict[str, JsonObject] = {}
        self.waiting: list[ToolResulted] = []

    def read(self, entries: Sequence[JournalEntry]) -> None:
        """Take what is new into account."""
        said = len(self.said)
        for entry in entries[self.place :]:
            if type(entry) is Said and entry.message.role == "user":
                if entry.message.kind in _SPOKEN:
                    self.said.append(entry.message.text)
            elif type(entry) is Replied:
                for call in entry.message.tool_calls:
                    self.arguments[call.id] = call.arguments
            elif type(entry) is ToolDecided and entry.arguments is not None:
                self.arguments[entry.call_id] = entry.arguments
            elif type(entry) is ToolResulted:
                self.waiting.append(entry)
        self.place = len(entries)
        if len(self.said) != said:
            self.words = UserWords(self.said)


class FlowControl(Policy[TaintState]):
    """Ask before a call acts on what untrusted content says."""

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

    def for_child(self, run: Run) -> FlowControl:
        """A sub-agent begins with all that its parent has touched, and trusts nobody else's words."""
        return FlowControl(self.rules, f"parent.{self.name}", self._so_far(run), self._words(run))

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
        state = self._so_far(run)
        if "reads_untrusted" not in state.by:
            return None
        level, kind = tool.annotations.get("side_effect_level"), tool.annotations.get("kind")
        if "sends_out" not in self._labels(tool) and (level in ("none", "read_only") or kind == "agent"):
            return self._check_read(run, call, tool, state)
        decision = decide_call(
            tool.name, tool.parameters, tool.annotations, call.arguments, self._known(run)
        )
        return self._hold_call(call, state, decision) if decision.asks else None

    def _check_read(self, run: Run, call: ToolCall, tool: Tool, state: TaintState) -> Suspend | Refused | None:
        """A read whose address was put together here carries something out."""
        urls = [
            value
            for name, value in call.arguments.items()
            if kind_of_argument(name, tool.annotations) == "url" and isinstance(value, str)
        ]
        if not urls:
            return None
        known = self._known(run)
        for url in urls:
            if known.user.says(url) or known.host.says(url):
                continue
            given = list(known.records.find(url))
            if given and "?" not in url and "@" not in url:
                continue
            if any(record.trust == "trusted" for record in given):
                continue
            why = f"the address {url[:80]!r} was not given by anybody: it may carry something out"
            return self._hold_call(call, state, Decision((), (why,)))
        return None

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        """A call that somebody said yes to has happened; a sub-agent's touches are its parent's."""
        tool = run.tools.get(call.name)
        if tool is not None and result.outcome not in ("denied", "not_run"):
            self._add_labels(run, self._labels(tool), call.name)
            if tool.annotations.get("kind") == "agent":
                await self._learn(run, child_session_id(run.session_id, call.id))
        return result

    def _known(self, run: Run) -> Known:
        seen: SeenValues | None = run.cache.get(SeenValues)
        if seen is None:
            seen = run.cache[SeenValues] = SeenValues()
        seen.read(run.entries)
        host = UserWords([run.frame.system or ""])
        known = Known(seen.words, host, seen.records)
        for entry in seen.waiting:
            self._index(run, entry, seen, known)
        seen.waiting.clear()
        return known

    def _index(self, run: Run, entry: ToolResulted, seen: SeenValues, known: Known) -> None:
        tool = run.tools.get(entry.tool)
        labels = self._labels(tool) if tool is not None else frozenset({"reads_untrusted"})
        untrusted = "reads_untrusted" in labels
        private = "reads_private" in labels
        records = split_records(entry.result.text)
        asked = False
        if not untrusted and tool is not None:
            arguments = seen.arguments.get(entry.call_id) or {}
            decision = decide_call(
                tool.name, tool.parameters, tool.annotations, arguments, known
            )
            asked = not decision.asks and bool(arguments)
        keyed = asked and len(records) == 1
        for words, key in records:
            named = seen.words.names_any_of(words) or seen.words.says_key(key)
            seen.records.add(
                Record(
                    words,
                    entry.tool,
                    entry.call_id,
                    "untrusted" if untrusted else "trusted",
                    private,
                    asked,
                    keyed,
                    named,
                )
            )

    def _hold_call(
        self, call: ToolCall, known: TaintState, decision: Decision
    ) -> Refused | Suspend:
        why = "; ".join(decision.reasons)
        receipt: JsonObject = {"action": "ask", "rule": "flow", "rationale": why}
        if self.rules.mode == "refuse":
            receipt["action"] = "deny"
            return Refused(not_permitted(call, why, receipt), why, receipt=receipt)
        return Ask(f"may {call.name} run? {why}", about=dict(known.by), receipt=receipt)

    def _labels(self, tool: Tool) -> frozenset[Label]:
        said = labels_of(tool.annotations)
        if said is not None:
            return said
        return (
            assume_labels(tool.name, tool.annotations) if self.rules.unlabelled == "cautious" else frozenset()
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

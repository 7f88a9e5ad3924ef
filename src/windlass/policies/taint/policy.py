"""Ask before a call with effects does what untrusted content says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from windlass.access.flow.call_values import Known
from windlass.access.flow.decide import (
    Decision,
    Target,
    decide_call,
    decide_read,
    find_lookups,
    named_targets,
)
from windlass.access.flow.details import OFFERS, ONCE, describe_question
from windlass.access.flow.labels import (
    Label,
    TaintState,
    ToolFlow,
    flow_of,
    is_source,
    needs_flow_control,
)
from windlass.access.flow.records import RecordIndex
from windlass.access.flow.words import UserWords
from windlass.errors import NoSuchSession
from windlass.events import JournalEntry, Remembered, TaintAdded
from windlass.identifiers import child_session_id
from windlass.json_types import JsonObject
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.verdict import Ask, Granted, Outcome, Refused
from windlass.messages import ToolCall, ToolResult
from windlass.policies.build import BuildContext, Policies
from windlass.policies.taint.options import Taint, TaintOptions
from windlass.policies.taint.session_values import Labelled, SessionValues, label_tool
from windlass.tools.result import not_permitted
from windlass.tools.tool import Tool

NAME: Final = "taint"
_NOT_TOUCHED: Final = ("denied", "not_run")  # outcomes of calls that have touched nothing


def build(ctx: BuildContext) -> Policies:
    """Build the policy, where the option asks for it or a run needs it."""
    rules = TaintOptions.read(ctx.values).taint
    tools = [(tool.name, tool.annotations) for tool in ctx.tools]
    if rules is False or (rules is None and not needs_flow_control(tools)):
        return ()
    labelled = any([is_source(name, annotations) for name, annotations in tools])
    return (FlowControl(rules or Taint(), assume=labelled or rules is not None),)


def build_orphan(entries: Iterable[JournalEntry]) -> ChildFlowControl:
    """Build the policy of a sub-agent that goes on without its parent: nobody's words are trusted."""
    nothing = Known(UserWords(), UserWords(), RecordIndex())
    return ChildFlowControl(Taint(), f"parent.{NAME}", (touched_in(entries), nothing))


class FlowControl(Policy[TaintState]):
    """Ask before a call acts on what untrusted content says."""

    memory = TaintState
    keeps = "session"
    decides = True

    above: tuple[TaintState, Known] | None = None
    """What the agent that handed the work on has touched and heard."""

    def __init__(self, rules: Taint, name: str = NAME, *, assume: bool = True) -> None:
        self.rules, self._name = rules, name
        self.assume = assume and rules.unlabelled == "cautious"

    @property
    def name(self) -> str:
        return self._name

    def for_child(self, run: Run) -> ChildFlowControl:
        """Return the policy of a sub-agent, which begins with all that its parent knows."""
        known = self._read_known(run)
        state = self._find_state(run).merge(self._session_values(run).answers())
        untrusted = next(iter(self._session_values(run).untrusted), None)
        if untrusted is not None:
            state = state.with_(("reads_untrusted",), untrusted)
        above = (state, Known(known.user, known.host, RecordIndex(known.records)))
        return ChildFlowControl(self.rules, f"parent.{self.name}", above, assume=self.assume)

    def as_record(self) -> JsonObject:
        return {}  # it is rebuilt from what it remembers

    def passes(self, run: Run, call: ToolCall) -> bool:
        """Pass calls without effects and addresses in their arguments: they carry nothing out."""
        tool = run.tools.get(call.name)
        if tool is None:
            return False
        labelled = self._label(run, tool)
        return not labelled.flow.acts and labelled.addresses.isdisjoint(call.arguments)

    async def before_tool(self, run: Run, call: ToolCall) -> Refused | Ask | Granted | None:
        tool = self._label(run, run.tools[call.name])
        if self._is_ignored(tool):
            return None
        if not tool.flow.acts:
            return self._check_read(run, call, tool)
        known = self._read_known(run)
        untrusted = self._find_sources(run)
        if not untrusted and not tool.flow.is_final:
            return None
        seen = self._session_values(run)
        decision = decide_call(
            call.name,
            tool.tool.parameters,
            tool.annotations,
            call.arguments,
            known,
            allowed=seen.allowed,
            refused=seen.refused,
        )
        targets = _targets_of(call, tool)
        is_answered = bool(targets) and all([target in seen.allowed for target in targets])
        if decision.asks:
            return self._hold_call(call, untrusted, decision, targets)
        if is_answered or any([value.origin == "approved" for value in decision.values]):
            return self._grant_by_answer(call, untrusted, decision, targets, seen.allowed)
        return None

    def _check_read(
        self, run: Run, call: ToolCall, tool: Labelled
    ) -> Refused | Ask | Granted | None:
        """Check a read with an address that was built here, as it may carry something out."""
        if tool.addresses.isdisjoint(call.arguments):
            return None
        untrusted = self._find_sources(run)
        if not untrusted:
            return None
        decision = decide_read(tool.annotations, call.arguments, self._read_known(run))
        if not decision.asks:
            return None
        seen = self._session_values(run)
        addresses = [target for target in _targets_of(call, tool) if target[1] in tool.addresses]
        never = [target for target in addresses if target in seen.refused]
        if never:
            reason = f"somebody said never to {never[0][1]} = {never[0][2]!r:.80}"
            decision = Decision(decision.values, (reason,), True)
        elif addresses and all([target in seen.allowed for target in addresses]):
            return self._grant_by_answer(call, untrusted, decision, addresses, seen.allowed)
        return self._hold_call(call, untrusted, decision, addresses)

    def leaves(self, run: Run, call: ToolCall, result: ToolResult) -> bool:
        """Leave results that bring nothing new in: most are of a tool that is on record."""
        tool = run.tools.get(call.name)
        if tool is None:
            return True
        labelled = self._label(run, tool)
        if tool.annotations.get("kind") == "agent":
            return False
        labels = labelled.flow.labels
        return not labels or result.outcome in _NOT_TOUCHED or self._has_labels(run, labels, call)

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        """Note what a call has touched; what a sub-agent touched, its parent has."""
        tool = run.tools.get(call.name)
        if tool is not None and result.outcome not in _NOT_TOUCHED:
            flow = self._label(run, tool).flow
            if flow.labels:
                self._add_labels(run, flow, call.name)
            if tool.annotations.get("kind") == "agent":
                await self._learn(run, call.name, child_session_id(run.session_id, call.id))
        return result

    def _is_ignored(self, tool: Labelled) -> bool:
        """Tools without a label, where the host says that those are harmless."""
        if self.rules.unlabelled == "cautious":
            return False
        return not tool.flow.labels and "result" not in tool.annotations

    def _session_values(self, run: Run) -> SessionValues:
        key = (SessionValues, self.name)
        seen: SessionValues | None = run.cache.get(key)
        if seen is None:

            def find_tool(name: str) -> Labelled | None:
                tool = run.tools.get(name)
                return None if tool is None else self._label(run, tool)

            above = None if self.above is None else self.above[1]
            seen = run.cache[key] = SessionValues(find_tool, above)
            for state in (run.recall(self), *([self.above[0]] if self.above else [])):
                seen.add_state(state)
        return seen

    def _read_known(self, run: Run) -> Known:
        system = run.plan.frame.system or ""
        host: UserWords | None = run.cache.get((UserWords, system))
        if host is None:
            host = run.cache[UserWords, system] = UserWords([system])
        known = self._session_values(run).read(run.entries, host)
        return known if self.rules.trust_prompt else known._replace(user=UserWords())

    def _find_state(self, run: Run) -> TaintState:
        mine: TaintState = run.recall(self)
        return mine if self.above is None else mine.merge(self.above[0])

    def _find_sources(self, run: Run) -> dict[str, str]:
        """Return who brought untrusted content into the context: the tool and its call."""
        found = dict(self._session_values(run).untrusted)
        source = self._find_state(run).by.get("reads_untrusted")
        if source is not None:
            found.setdefault(source, "")
        return found

    def _label(self, run: Run, tool: Tool) -> Labelled:
        known: dict[str, Labelled] | None = run.cache.get(self)
        if known is None:
            known = run.cache[self] = {}
        found = known.get(tool.name)
        if found is None or found.tool is not tool:

            def flow(annotations: JsonObject) -> ToolFlow:
                return flow_of(tool.name, annotations, assume=self.assume)

            roles = self.rules.roles.get(tool.name, {})
            found = label_tool(tool, roles, self.rules.results.get(tool.name), flow)
            known[tool.name] = found
        return found

    def _hold_call(
        self,
        call: ToolCall,
        untrusted: dict[str, str],
        decision: Decision,
        targets: Sequence[Target],
    ) -> Refused | Ask:
        """Ask about a call, or refuse it."""
        why = "; ".join(decision.reasons)
        if untrusted:
            why += f"; untrusted content came from {', '.join(untrusted)}"
        receipt = _build_receipt(why, decision, untrusted, targets)
        if self.rules.mode == "refuse" or decision.is_refused:
            receipt |= {"action": "deny", "offers": []}
            return Refused(not_permitted(call, why, receipt), why, receipt=receipt)
        about = {"values": receipt["values"]}
        return Ask(f"may {call.name} run? {why}", about=about, receipt=receipt)

    def _grant_by_answer(
        self,
        call: ToolCall,
        untrusted: dict[str, str],
        decision: Decision,
        targets: Sequence[Target],
        allowed: Mapping[Target, str],
    ) -> Granted:
        """Allow a call on targets that somebody allowed for the session; a question is answered by it."""
        why = "somebody allowed its target for this session"
        receipt = _build_receipt(why, decision, untrusted, targets) | {"action": "allow"}
        by = next((allowed[target] for target in targets if target in allowed), None)
        ask = Ask(f"may {call.name} run?", about={"values": receipt["values"]}, receipt=receipt)
        return Granted(why, by or None, ask, receipt)

    def _add_labels(self, run: Run, flow: ToolFlow, tool: str) -> None:
        """Record what a tool brings in or lets out, the first time that it does so."""
        if tool not in self._find_recorded_tools(run):
            self._find_recorded_tools(run).add(tool)
            trusts = {str(one) for one in (flow.trust, *flow.fields.values()) if one is not None}
            results = tuple(sorted(trusts - {"trusted"}))
            run.record(TaintAdded(tool, tuple(sorted(flow.labels)), results))
        mine: TaintState = run.recall(self)
        known = mine.with_(flow.labels, tool)
        if known is not mine:
            run.remember(self, known)

    def _has_labels(self, run: Run, labels: frozenset[Label], call: ToolCall) -> bool:
        """Return whether what `_add_labels` would record of a tool is on record."""
        mine: TaintState = run.recall(self)
        return labels <= mine.by.keys() and call.name in self._find_recorded_tools(run)

    def _find_recorded_tools(self, run: Run) -> set[str]:
        """Return the tools of the session that are on record with their labels."""
        noted: set[str] | None = run.cache.get(TaintAdded)
        if noted is None:
            entries = [entry for entry in run.entries if type(entry) is TaintAdded]
            noted = run.cache[TaintAdded] = {entry.tool for entry in entries}
        return noted

    async def _learn(self, run: Run, tool: str, session_id: str) -> None:
        """Take over what a sub-agent has touched and looked up."""
        try:
            touched = touched_in(await run.store.read(session_id))
        except NoSuchSession:  # a replay has the journal of its own session only
            return
        mine: TaintState = run.recall(self)
        known = mine.merge(touched)
        if known is not mine:
            new = [label for label in touched.by if label not in mine.by]
            if new:
                results = ("untrusted",) if "reads_untrusted" in touched.by else ()
                run.record(TaintAdded(tool, tuple(sorted(new)), results))
            run.remember(self, known)
            self._session_values(run).add_state(touched)


class ChildFlowControl(FlowControl):
    """Flow control of a sub-agent, which begins with all that its parent knows."""

    def __init__(
        self, rules: Taint, name: str, above: tuple[TaintState, Known], *, assume: bool = True
    ) -> None:
        super().__init__(rules, name, assume=assume)
        self.above = above

    async def start(self, run: Run) -> None:
        """Keep what the parent has touched: the session may go on without it."""
        assert self.above is not None
        above = self.above[0]
        if "reads_untrusted" in above.by:
            mine: TaintState = run.recall(self)
            known = mine.merge(TaintState(above.by, refused=above.refused))
            if known is not mine:
                run.remember(self, known)

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        """Keep what a sub-agent's parent must know: values of trusted origin, and answers."""
        mine: TaintState = run.recall(self)
        heard = self._read_known(run)
        known = mine.merge(self._session_values(run).answers())
        if outcome.status == "done":
            text = run.messages[-1].text if run.messages else ""
            known = known.merge(TaintState({}, find_lookups(text, heard)))
        if known is not mine:
            run.remember(self, known)
        return outcome


def _targets_of(call: ToolCall, tool: Labelled) -> list[Target]:
    """Return the targets of a call, which an answer for the session holds for."""
    return named_targets(call.name, tool.tool.parameters, tool.annotations, call.arguments)


def _build_receipt(
    why: str, decision: Decision, untrusted: dict[str, str], targets: Sequence[Target]
) -> JsonObject:
    """Build what is recorded of a decision, and shown to whoever is asked."""
    return {
        "action": "ask",
        "rule": "flow",
        "rationale": why,
        "values": [value._asdict() for value in decision.values],
        "untrusted": untrusted,
        "offers": list(OFFERS if targets else ONCE),
        "details": describe_question(decision.values, untrusted, targets),
    }


def touched_in(entries: Iterable[JournalEntry]) -> TaintState:
    """Return what a session has touched, by its journal."""
    found = TaintState()
    for entry in entries:
        if type(entry) is Remembered and entry.policy.rpartition(".")[2] == NAME:
            found = found.merge(msgspec.convert(entry.value, TaintState))
    return found

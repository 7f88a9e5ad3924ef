"""What a session has heard and looked up, read from its journal: the same after a crash as before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from windlass.access.facts import argument_names
from windlass.access.flow.call_values import Known
from windlass.access.flow.decide import Target, is_lookup_named, named_targets
from windlass.access.flow.labels import TaintState, ToolFlow
from windlass.access.flow.records import (
    MOST_RECORDS,
    MOST_RESULT,
    Record,
    RecordIndex,
    find_own_words,
    split_records,
)
from windlass.access.flow.tokens import fold_words
from windlass.access.flow.words import UserWords
from windlass.access.values import iterate_values
from windlass.events import (
    JournalEntry,
    Replied,
    Reshaped,
    Said,
    SessionOpened,
    ToolDecided,
    ToolResulted,
)
from windlass.events.receipts import is_of_flow_control
from windlass.json_types import JsonObject, is_mapping
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.tools.tool import Tool

SPOKEN: Final = (None, "steer", "follow_up", "resume")  # kinds of what a person says
_WRITTEN_RESULT: Final = re.compile(
    r'<tool_result\b(?: name="(?P<name>[^"<>]*)")?[^<>]*>?(?P<body>.*?)(?:</tool_result>|\Z)',
    re.DOTALL,
)
_NOT_RUN: Final = ("denied", "not_run", "unknown_tool", "invalid")


class Labelled(NamedTuple):
    """A tool, its annotations with what the options say over them, and what follows from these."""

    tool: Tool
    annotations: JsonObject
    flow: ToolFlow
    addresses: frozenset[str]
    """Names of arguments that take addresses."""


class SessionValues:
    """The user's words, the records of all results, and who brought untrusted content in."""

    def __init__(self, find_tool: Callable[[str], Labelled | None], above: Known | None) -> None:
        self.find_tool = find_tool
        self.above = above  # what whoever handed the work on has heard
        self.untrusted: dict[str, str] = {}  # the tool or attachment -> its call
        self.allowed: dict[Target, str] = {}  # for the rest of the session, and who said so
        self.refused: set[Target] = set()
        self.words = above.user if above is not None else UserWords()
        self.records = RecordIndex(above.records if above is not None else None)
        self._said: list[str] = []
        self._calls: dict[str, ToolCall] = {}
        self._place = 0

    def read(self, entries: Sequence[JournalEntry], host: UserWords) -> Known:
        """Take what is new in the journal into account."""
        for place in range(self._place, len(entries)):
            entry = entries[place]
            if type(entry) is Said:
                self._hear(entry.message, entries)
            elif type(entry) is Replied:
                self._calls.update({call.id: call for call in entry.message.tool_calls})
            elif type(entry) is SessionOpened and _is_partial(entry):
                self.untrusted.setdefault("a recorded session", "")
            elif type(entry) is Reshaped and entry.why == "seed":
                for message in entry.messages:
                    self._hear(message, entries)
            elif type(entry) is ToolDecided:
                self._take_decision(entry)
            elif type(entry) is ToolResulted and entry.outcome not in _NOT_RUN:
                self._index(entry.call_id, entry.tool, entry.result, host)
        self._place = len(entries)
        return Known(self.words, host, self.records)

    def add_state(self, state: TaintState) -> None:
        """Add what another session of the run knows: lookups, and answers for the session."""
        for tool, text in state.lookups:
            self.records.add(Record(tuple(text.split()), tool, is_asked=True, is_only=True))
        self.allowed.update({(tool, name, value): by for tool, name, value, by in state.allowed})
        self.refused.update(state.refused)

    def answers(self) -> TaintState:
        """Return the answers that hold for the rest of the session, for other sessions of the run."""
        allowed = tuple([(*target, by) for target, by in self.allowed.items()])
        return TaintState(allowed=allowed, refused=tuple(sorted(self.refused)))

    def _hear(self, message: Message, entries: Sequence[JournalEntry]) -> None:
        if message.role == "assistant":
            self._calls.update({call.id: call for call in message.tool_calls})
            return
        for block in message.content:
            if isinstance(block, ToolResult):
                self._index(block.id, block.name or self._name_of(block.id), block, UserWords())
            elif not isinstance(block, Text):
                self.untrusted.setdefault("an attachment", "")
        if message.role == "user" and message.kind in SPOKEN and self.above is None:
            said = self._without_results(message.text)
            if said and not _is_delegated(entries):
                self._said.append(said)
                self.words = UserWords(self._said)
                for record in self.records.records:
                    record.is_named = self._names(record)

    def _without_results(self, text: str) -> str:
        """Take out results that are written in a message, as calls in text format have them.

        They are untrusted whatever they are named: whoever was read can write one too.
        """
        if "<tool_result" not in text:
            return text
        for written in _WRITTEN_RESULT.finditer(text):
            self.untrusted.setdefault(written["name"] or "a result in a message", "")
            self._add(written["body"], written["name"] or "", "", None, asked=False)
        return _WRITTEN_RESULT.sub("\n", text)

    def _name_of(self, call_id: str) -> str:
        call = self._calls.get(call_id)
        return call.name if call is not None else ""

    def _take_decision(self, entry: ToolDecided) -> None:
        call = self._calls.get(entry.call_id)
        if entry.arguments is not None:
            self._calls[entry.call_id] = call = ToolCall(entry.call_id, entry.tool, entry.arguments)
        if call is None or entry.scope != "session":
            return
        labelled = self.find_tool(entry.tool)
        if labelled is None or not is_of_flow_control(entry.receipt):
            return
        targets = named_targets(
            entry.tool, labelled.tool.parameters, labelled.annotations, call.arguments
        )
        if entry.action == "deny":
            self.refused.update(targets)
        else:
            self.allowed.update(dict.fromkeys(targets, entry.answered_by or ""))

    def _index(self, call_id: str, name: str, result: ToolResult, host: UserWords) -> None:
        labelled = self.find_tool(name)
        if labelled is None:  # nobody here knows what it was
            self.untrusted.setdefault(name, call_id)
            self._add(result.text, name, call_id, None)
            return
        flow = labelled.flow
        if "reads_untrusted" in flow.labels:
            self.untrusted.setdefault(name, call_id)
        if flow.trust is None and not flow.fields:
            return
        call = self._calls.get(call_id)
        asked = False
        if flow.trust != "untrusted" and call is not None and call.arguments:
            known = Known(self.words, host, self.records)
            asked = is_lookup_named(
                name, labelled.tool.parameters, labelled.annotations, call.arguments, known
            )
        everything = (
            asked
            and call is not None
            and any([self.words.wants_all_of(str(value)) for value in call.arguments.values()])
        )
        repeated = frozenset[str]()
        if not asked and call is not None:
            repeated = frozenset(
                [
                    word
                    for value in iterate_values(call.arguments)
                    for word in fold_words(str(value))
                ]
            )
        self._add(
            result.text,
            name,
            call_id,
            flow,
            asked=asked,
            everything=everything,
            repeated=repeated,
        )

    def _add(
        self,
        text: str,
        tool: str,
        call_id: str,
        flow: ToolFlow | None,
        *,
        asked: bool = False,
        everything: bool = False,
        repeated: frozenset[str] = frozenset(),
    ) -> None:
        """Add the records of a result; `repeated` are the words of a question nobody vouches for."""
        pieces = split_records(text, None if flow is None else flow.fields)
        is_only = asked and len([piece for piece in pieces if piece.trust is None]) == 1
        is_cut = len(text) > MOST_RESULT or len(pieces) >= MOST_RECORDS
        if is_cut and not asked and flow is not None and "reads_private" in flow.labels:
            self.records.too_long[tool] = None
        own_words = find_own_words(pieces)
        for piece, own in zip(pieces, own_words, strict=True):
            words = piece.words
            trust = piece.trust or ("untrusted" if flow is None else flow.trust or "trusted")
            if trust == "trusted" and not repeated.isdisjoint(words):
                words = self._without_repeated(words, piece.key, repeated)
                own = own - repeated
            record = Record(
                words,
                tool,
                call_id,
                trust=trust,
                is_private=flow is not None and "reads_private" in flow.labels,
                is_asked=asked,
                is_only=is_only or everything,
                key=piece.key,
                starts=piece.starts,
                own_words=own,
            )
            record.is_named = self._names(record)
            self.records.add(record)

    def _without_repeated(
        self, words: tuple[str, ...], key: str, repeated: frozenset[str]
    ) -> tuple[str, ...]:
        """Blank what a record repeats of the question, unless it is about something else, too.

        "Nothing was found for Ann eve@evil.example" tells of no Ann with this address.
        """
        others = tuple([word for word in words if word not in repeated])
        if self.words.names_any_of(others) or self.words.says_key(key):
            return words
        return tuple(
            ["" if word in repeated and not self.words.says(word) else word for word in words]
        )

    def _names(self, record: Record) -> bool:
        words = self.words
        return (
            words.names_any_of(record.words)
            or words.says_key(record.key)
            or words.says_any_key(record.own_words)
        )


def _is_delegated(entries: Sequence[JournalEntry]) -> bool:
    """Return whether an agent, and no person, began this session."""
    opened = entries[0] if entries else None
    return (
        isinstance(opened, SessionOpened)
        and opened.parent_id is not None
        and opened.session_id.startswith(f"{opened.parent_id}.")
    )


def _is_partial(opened: SessionOpened) -> bool:
    """Return whether a session began with a record of another from which something was left out."""
    seeded = (opened.metadata or {}).get("seeded_from")
    return is_mapping(seeded) and bool(seeded.get("partial"))


def label_tool(
    tool: Tool, roles: Mapping[str, object], result: object, flow: Callable[[JsonObject], ToolFlow]
) -> Labelled:
    """Return a tool with what the options say of it."""
    annotations: JsonObject = dict(tool.annotations)
    if roles:
        annotations["roles"] = {**annotations.get("roles", {}), **roles}
    if result is not None:
        annotations["result"] = result
    return Labelled(tool, annotations, flow(annotations), argument_names("url", annotations))

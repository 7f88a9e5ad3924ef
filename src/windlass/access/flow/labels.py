"""What a tool says of its results and its effects, and what is assumed where it says nothing.

`annotations={"result": "trusted" | "untrusted" | "secret" | {field: …}}`, and the three labels
`reads_private`, `reads_untrusted` and `sends_out`. A tool that is `contained` changes nothing outside
the workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from windlass.access.flow.actions import is_action
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import is_mapping

Label: TypeAlias = Literal["reads_private", "reads_untrusted", "sends_out"]
LABELS: Final[tuple[Label, ...]] = ("reads_private", "reads_untrusted", "sends_out")
Trust: TypeAlias = Literal["trusted", "untrusted", "secret"]
TRUSTS: Final[tuple[Trust, ...]] = ("trusted", "untrusted", "secret")
#: Kinds without effects of their own; what a sub-agent does, its own tools say.
_HARMLESS: Final = frozenset({"think", "progress", "session_control", "approval", "agent"})
_MARKS: Final = frozenset({*LABELS, "result", "mcp_server"})
_READS: Final = frozenset({"none", "read_only"})


class ToolFlow(NamedTuple):
    """What a tool takes in and lets out."""

    labels: frozenset[Label]
    trust: Trust | None
    """Of what it answers; None: it gives back what is in the context already."""
    fields: Mapping[str, Trust]
    """Of single fields of what it answers."""
    acts: bool
    """Whether a call has effects."""
    is_final: bool
    """Whether the effect cannot be taken back."""


class TaintState(msgspec.Struct, frozen=True):
    """What a session has touched: label -> the tool that did so first; and what it looked up."""

    by: dict[str, str] = {}
    lookups: tuple[tuple[str, str], ...] = ()
    """Values of trusted origin in a sub-agent's answer, with the tool that gave each."""
    allowed: tuple[tuple[str, str, str, str], ...] = ()
    """Targets that somebody allowed for the session: tool, argument, value, and who said so."""
    refused: tuple[tuple[str, str, str], ...] = ()
    """Targets that somebody refused for the session: tool, argument, value."""

    def with_(self, labels: Iterable[Label], tool: str) -> TaintState:
        """Return the same with more; itself, where nothing is new."""
        new = {label: tool for label in sorted(labels) if label not in self.by}
        return msgspec.structs.replace(self, by={**self.by, **new}) if new else self

    def merge(self, other: TaintState) -> TaintState:
        """Return what both have touched."""
        new = {label: tool for label, tool in other.by.items() if label not in self.by}
        lookups = [one for one in other.lookups if one not in self.lookups]
        allowed = [one for one in other.allowed if one not in self.allowed]
        refused = [one for one in other.refused if one not in self.refused]
        if not (new or lookups or allowed or refused):
            return self
        return TaintState(
            {**self.by, **new},
            (*self.lookups, *lookups),
            (*self.allowed, *allowed),
            (*self.refused, *refused),
        )


def flow_of(name: str, annotations: Mapping[str, Any], *, assume: bool = True) -> ToolFlow:
    """Return what a tool takes in and lets out.

    `assume` says whether a tool without labels is taken for the worst that is likely of it.
    """
    said = _read_labels(annotations)
    result, fields = _read_result(annotations)
    level, kind = annotations.get("side_effect_level"), annotations.get("kind")
    if "mcp_server" in annotations and result is None and said is None:
        result = "untrusted"
    known = said is not None or result is not None or bool(fields)
    labels = set(said or ())
    if not known and assume:
        labels |= assume_labels(name, annotations)
    if result == "untrusted" or "untrusted" in fields.values():
        labels.add("reads_untrusted")
    if result == "secret" or "secret" in fields.values():
        labels.add("reads_private")
    reads = "reads_private" in labels or "reads_untrusted" in labels
    # What a sandbox holds without a network has no effect on anybody outside the workspace.
    contained = annotations.get("contained") is True and "sends_out" not in labels
    reads_only = level in _READS or kind in _HARMLESS or contained
    final = annotations.get("irreversible") is True or annotations.get("destructiveHint") is True
    says_it_acts = final or annotations.get("readOnlyHint") is False
    if level is None and known and reads and not says_it_acts:
        reads_only = reads_only or not is_action(_without_server(name, annotations))
    acts = "sends_out" in labels or not reads_only
    trust: Trust | None = result
    if trust is None and "reads_untrusted" in labels and not fields:
        trust = "untrusted"
    elif trust is None and (level != "none" or known) and kind not in _HARMLESS and not acts:
        trust = "trusted"
    return ToolFlow(frozenset(labels), trust, fields, acts, final)


def _without_server(name: str, annotations: Mapping[str, Any]) -> str:
    """Return the name of a tool without that of its MCP server: `wiki_edit` of wiki -> `edit`."""
    server: object = annotations.get("mcp_server")
    if not isinstance(server, str) or not name.lower().startswith(server.lower()):
        return name
    return name[len(server) :].lstrip("_-.:/") or name


def assume_labels(name: str, annotations: Mapping[str, Any]) -> frozenset[Label]:
    """Return what is taken to be true of a tool that says nothing of this, from what else it says."""
    level, kind = annotations.get("side_effect_level"), annotations.get("kind")
    if level == "none" or kind in _HARMLESS:
        return frozenset()
    if level == "read_only":
        return frozenset({"reads_private"})  # of this machine or this shop, most likely
    if level == "workspace_write":
        return frozenset()
    if is_action(_without_server(name, annotations)):
        return frozenset({"sends_out"})  # what it answers is its own
    return frozenset({"reads_untrusted", "sends_out"})  # it may talk to anybody


def needs_flow_control(tools: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
    """Return whether tools bring in untrusted content and have effects, or are sub-agents."""
    if not any([not _MARKS.isdisjoint(said) or said.get("kind") == "agent" for _, said in tools]):
        return False
    flows = [flow_of(name, annotations, assume=False) for name, annotations in tools]
    if any([annotations.get("kind") == "agent" for _, annotations in tools]):
        return True
    return any(["reads_untrusted" in flow.labels for flow in flows]) and any(
        [flow.acts for flow in flows]
    )


def is_source(name: str, annotations: Mapping[str, Any]) -> bool:
    """Return whether a tool is known to bring in untrusted content."""
    return "reads_untrusted" in flow_of(name, annotations, assume=False).labels


def _read_labels(annotations: Mapping[str, Any]) -> frozenset[Label] | None:
    said: list[Label] = [label for label in LABELS if label in annotations]
    if not said:
        return None
    for label in said:
        if not isinstance(annotations[label], bool):
            raise ConfigError(
                f"a tool's {label} is True or False, not {safe_repr(annotations[label])}"
            )
    return frozenset([label for label in said if annotations[label]])


def _read_result(annotations: Mapping[str, Any]) -> tuple[Trust | None, Mapping[str, Trust]]:
    said: object = annotations.get("result")
    if said is None:
        return None, {}
    if is_mapping(said):
        for field, trust in said.items():
            if trust not in TRUSTS:
                raise ConfigError(
                    f"the result of a tool is labelled field by field with {', '.join(TRUSTS)}: "
                    f"{field!r} has {safe_repr(trust)}"
                )
        return None, said
    if said not in TRUSTS:
        raise ConfigError(
            f"a tool's result is {', '.join(TRUSTS)} or a dict of fields, not {safe_repr(said)}"
        )
    return said, {}
